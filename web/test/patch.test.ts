import { describe, expect, test } from "vitest";
import type { Message, TaskRow, TeamView, Worker } from "../src/api";
import { diffRows, wrapped } from "../src/lib/diff";
import { age, full, money, percent, short, span } from "../src/lib/format";
import { compareIds, patched } from "../src/lib/patch";
import { addressOfView, placeOf } from "../src/lib/route.svelte";

const task = (id: string, subject = id) => ({ id, subject }) as TaskRow;
const worker = (name: string, status = "polling") => ({ name, status }) as Worker;
const message = (seq: number) => ({ seq, id: String(seq), from: "a", to: "b", sentAt: null }) as Message;
const view = (part: Partial<TeamView>) =>
  ({ seq: 1, workers: [], tasks: [], messages: [], criticalPath: [], messageCount: 0, state: "live", ...part }) as TeamView;

describe("a patch", () => {
  test("changes what it names and nothing else", () => {
    const before = view({ tasks: [task("1"), task("2")], workers: [worker("a"), worker("b")] });
    const after = patched(before, { seq: 9, tasks: [task("2", "new")] });
    expect(after.seq).toBe(9);
    expect(after.tasks[0]).toBe(before.tasks[0]);
    expect(after.tasks[1]?.subject).toBe("new");
    expect(after.workers).toBe(before.workers);
    expect(after.messages).toBe(before.messages);
  });

  test("brings tasks in the order of their numbers, and takes them away", () => {
    const before = view({ tasks: [task("2"), task("10")] });
    const after = patched(before, { seq: 2, tasks: [task("9"), task("100")], removedTasks: ["2"] });
    expect(after.tasks.map(({ id }) => id)).toEqual(["9", "10", "100"]);
  });

  test("follows the order of workers that it names", () => {
    const before = view({ workers: [worker("a"), worker("b")] });
    const after = patched(before, { seq: 2, workers: [worker("c")], workerNames: ["b", "c"] });
    expect(after.workers.map(({ name }) => name)).toEqual(["b", "c"]);
    expect(after.workers[0]).toBe(before.workers[1]);
  });

  test("twice changes nothing more, and 50 messages are kept", () => {
    const before = view({ messages: Array.from({ length: 50 }, (_, at) => message(at + 1)) });
    const patch = { seq: 60, messages: [message(51), message(52)], tasks: [task("1")] };
    const once = patched(before, patch);
    expect(once.messages.map(({ seq }) => seq)).toEqual(Array.from({ length: 50 }, (_, at) => at + 3));
    expect(patched(once, patch)).toEqual(once);
  });

  test("ids are compared as numbers of any length", () => {
    expect(["10", "9", "12345678901234567891", "12345678901234567890"].sort(compareIds)).toEqual([
      "9",
      "10",
      "12345678901234567890",
      "12345678901234567891",
    ]);
  });
});

describe("a diff", () => {
  test("has rows with their numbers, and trusts the counts of a hunk rather than a line's looks", () => {
    const text = [
      "diff --git a/x.md b/x.md",
      "index 1..2 100644",
      "--- a/x.md",
      "+++ b/x.md",
      "@@ -3,2 +3,3 @@ heading",
      " same",
      "--- a removed line that looks like a heading",
      "+++ added",
      "+",
      "\\ No newline at end of file",
      "",
    ].join("\n");
    expect(diffRows(text)).toEqual([
      { kind: "file", before: null, after: null, text: "x.md" },
      { kind: "hunk", before: null, after: null, text: "@@ -3,2 +3,3 @@ heading" },
      { kind: "same", before: 3, after: 3, text: "same" },
      { kind: "remove", before: 4, after: null, text: "-- a removed line that looks like a heading" },
      { kind: "add", before: null, after: 4, text: "++ added" },
      { kind: "add", before: null, after: 5, text: "" },
      { kind: "note", before: null, after: null, text: "\\ No newline at end of file" },
    ]);
  });

  test("names both paths of a renamed file, and cuts long lines", () => {
    expect(diffRows("diff --git a/old b/newer")[0]?.text).toBe("a/old b/newer");
  });

  test("nothing of a line is out of sight: what is behind a screen of spaces is in the next rows", () => {
    const text = `@@ -0,0 +1,2 @@\n+harmless = 1;${" ".repeat(200)}evil();\n+b`;
    const rows = wrapped(diffRows(text), 80).slice(1);
    expect(rows.map(({ goesOn }) => goesOn)).toEqual([false, true, true, false]);
    expect(rows.map((row) => row.text).join("")).toBe(`harmless = 1;${" ".repeat(200)}evil();b`);
    expect(rows.every((row) => row.text.length <= 80 && row.kind === "add" && row.hidden === 0)).toBe(true);
    expect(rows.map(({ after }) => after)).toEqual([1, null, null, 2]);
  });

  test("a line of a megabyte says how much of it is not shown", () => {
    const rows = wrapped(diffRows(`@@ -0,0 +1 @@\n+${"x".repeat(1_000_000)}`), 100);
    expect(rows).toHaveLength(101);
    expect(rows[100]?.hidden).toBe(990_000);
  });
});

describe("figures for people", () => {
  test("spans and ages", () => {
    expect([0, 59_999, 61_000, 3_725_000, 90_000_000].map((ms) => span(ms))).toEqual(["0s", "59s", "1m 01s", "1h 02m", "1d 1h"]);
    expect([-5, 59_000, 61_000, 7_200_000, 90_000_000].map((ms) => age(ms))).toEqual(["0s", "59s", "1m", "2h", "1d"]);
    expect([span(61_000, "ko"), age(7_200_000, "ko")]).toEqual(["1분 01초", "2시간"]);
  });

  test("counts and money", () => {
    expect([0, 999, 1000, 1234, 99_999, 999_999, 2_500_000].map(short)).toEqual(["0", "999", "1k", "1.2k", "100k", "1M", "2.5M"]);
    expect(full(1234567)).toBe("1,234,567");
    expect([0, 0.0012, 0.5, 1234.5].map(money)).toEqual(["$0", "$0.0012", "$0.50", "$1,234.50"]);
  });

  test("what is not all is never a hundred per cent", () => {
    expect(percent(999, 1000)).toBe(99);
    expect(percent(1000, 1000)).toBe(100);
    expect(percent(0, 0)).toBe(0);
  });
});

describe("addresses", () => {
  test("a team may have any name", () => {
    for (const name of ["t", "a/b", "<b>?#%", "한국"]) {
      const place = placeOf(addressOfView(name, "graph", { task: "3" }));
      expect([place.page, place.team, place.view, place.query.get("task")]).toEqual(["team", name, "graph", "3"]);
    }
  });

  test("what cannot be read is the list of teams", () => {
    expect(placeOf("#/team/%E0%A4%A").page).toBe("teams");
    expect(placeOf("#/nonsense").page).toBe("teams");
    expect(placeOf("").page).toBe("teams");
    expect(placeOf("#/zombies").page).toBe("zombies");
    expect(placeOf("#/team/x/nonsense").view).toBe("team");
  });
});

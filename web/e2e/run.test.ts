// A person and a real run: seen live, decided at the gate in the page, and what came of it looked at with git.

import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { TeamView } from "../src/api";
import { factsOf, factsOn } from "./facts";
import { browser, Place, until, visit, type Seen } from "./kit";
import { FILES, Run, show, stageOf, viewOf } from "./run";

let place: Place;
let chrome: Browser;
let seen: Seen;
let page: Page;
let running: Run | null = null;

beforeAll(async () => {
  place = new Place();
  await place.git(FILES);
  place.write("draft.txt", "an idea\n");
  await place.open();
  chrome = await browser();
  seen = await visit(chrome, place);
  page = seen.page;
});

afterEach(async () => {
  // One run at a time works in a project: a test that failed must not be the end of those behind it.
  await running?.stop();
});

afterAll(async () => {
  await chrome?.close();
  await place?.end();
});

const git = async (...words: string[]) => (await place.run("git", words)).trim();
const main = () => page.locator("main").textContent().then((text) => text ?? "");
const start = (team: string) => {
  rmSync(join(place.root, "go"), { force: true });
  running = new Run(place, team);
  return running;
};

test("a run is seen from its first moment to the gate, approved in the page, and lands", async () => {
  const before = await git("rev-parse", "main");
  await show(page, "#/");
  await page.locator("main").getByText("inactive").waitFor();
  const run = start("mended");
  await page.locator('main a[href="#/team/mended/team"]').click();
  // Live: who works on what, what waits, where the run is.
  for (const [worker, task] of [["worker-1", "Mend adding"], ["worker-2", "Mend multiplying"]] as const) {
    const card = page.locator(`[data-worker="${worker}"]`);
    await card.getByText(task).waitFor();
    await card.getByText("healthy").waitFor();
  }
  expect(await stageOf(page)).toBe("Execute");
  const tasks = page.getByRole("list", { name: "Tasks" });
  await tasks.getByRole("listitem").filter({ hasText: "Tell of it" }).getByText("waiting").waitFor();
  expect(await page.locator(".head").textContent()).toContain("0 of 3 tasks done");
  await page.keyboard.press("6");
  await page.getByText("Nothing to decide").waitFor();
  run.go();
  // The gate opens under the eyes of whoever looks.
  await page.getByText("Your decision is needed").waitFor();
  expect(await stageOf(page)).toBe("Approval");
  const { commit } = await run.gate();
  await page.getByText(/^3 files · /).waitFor();
  const text = await main();
  for (const words of [
    "mend the shop", commit.slice(0, 10), "would land on main", "Verified", "1 files that you have not committed", "3 of 3 tasks done",
    "sh test.sh", "sh check.sh", "on the base", "Mend adding", "Mend multiplying", "Tell of it", "plan.json", "add.sh", "mul.sh", "news.txt", "No task failed permanently", "$0.25",
  ]) {
    expect(text).toContain(words);
  }
  // Its checks: on the base the first one failed, on the merged work it passed, with what it printed.
  const checks = await page.locator("summary").allTextContents();
  expect(checks.filter((line) => line.includes("sh test.sh") && /failed.*on the base/.test(line))).toHaveLength(1);
  const passed = page.locator("details", { hasText: "sh test.sh" }).filter({ hasNotText: /on the base|\.md/ });
  await passed.locator("summary").click();
  await passed.getByText("all sums are right").waitFor();
  // What the run found out on its way, as in the terminal.
  const finding = page.locator("details", { hasText: "reviewing-001.md" });
  await finding.locator("summary").click();
  await finding.locator("pre").getByText("What the checks say").waitFor();
  await page.getByRole("link", { name: "Open the diff" }).click();
  await page.getByText("echo $(($1 * $2))").waitFor();
  await page.keyboard.press("6");
  expect(await git("rev-parse", "main")).toBe(before);

  await page.getByRole("button", { name: "Approve" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText(commit).waitFor();
  const asked = page.waitForRequest((request) => request.method() === "POST");
  await dialog.getByRole("button", { name: "Approve" }).click();
  expect((await asked).postDataJSON()).toMatchObject({ commit, answer: "approve" });
  expect(await run.ended).toBe(0);
  await page.locator(".head").getByText("complete").waitFor();
  expect(await stageOf(page)).toBe("End");
  await page.getByText("Decided").waitFor();
  expect(await git("rev-parse", "main")).toBe(commit);
  expect(await git("show", "main:mul.sh")).toBe("echo $(($1 * $2))");
  expect(await place.run("sh", ["test.sh"])).toContain("all sums are right");
  expect(await git("status", "--porcelain", "draft.txt")).toBe("?? draft.txt");
  expect(await git("branch", "--list", "omc-team/*")).toBe("");
  // Once in the list, although it wrote a state file for other viewers, too.
  expect(await page.getByRole("navigation", { name: "Menu" }).getByText("mended").count()).toBe(1);
  const given = place.journal("mended").find(({ type }) => type === "approval.answered");
  expect(given?.["data"]).toMatchObject({ commit, answer: "approve", via: "studio" });
  expect((await viewOf(place, "mended")).run?.finished?.outcome).toBe("complete");
  await git("reset", "-q", "--hard", before);
});

test("rejected work that is taken back leaves the project as it was", async () => {
  const before = await git("rev-parse", "main");
  const run = start("unwanted");
  run.go();
  const { commit } = await run.gate();
  await show(page, "unwanted/approval");
  await page.getByRole("button", { name: "Reject" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText(commit).waitFor();
  await dialog.getByLabel("Also delete the team's branch").check();
  await dialog.getByRole("textbox").fill("not like this");
  await dialog.getByRole("button", { name: "Reject" }).click();
  expect(await run.ended).toBe(10);
  await page.locator(".head").getByText("rolled back").waitFor();
  await page.getByText("Decided").waitFor();
  expect(await git("rev-parse", "main")).toBe(before);
  expect(await git("show", "main:mul.sh")).toBe("echo $(($1 + $2))");
  expect(await git("branch", "--list", "omc-team/unwanted/integration")).toBe("");
  expect(readFileSync(join(place.project, ".omc/reports/unwanted/report.md"), "utf8")).toContain("not like this");
  // On no branch, and not lost.
  expect(await git("for-each-ref", "--contains", commit, "refs/teamster")).not.toBe("");
});

test("a revision reaches a worker in words; a commit that changes while somebody decides cannot be approved", async () => {
  const run = start("revised");
  run.go();
  const first = await run.gate();
  await show(page, "revised/approval");
  await page.getByRole("button", { name: "Revise" }).click();
  const dialog = page.getByRole("dialog");
  const send = dialog.getByRole("button", { name: "Revise" });
  expect(await send.isDisabled()).toBe(true);
  await dialog.getByRole("textbox").fill("Say which sums, <b>please</b>");
  await send.click();
  const second = await run.gate(2);
  expect(second.commit).not.toBe(first.commit);
  const task = (await viewOf(place, "revised")).tasks.find(({ subject }) => subject.startsWith("Revise: "));
  expect(task?.state).toBe("completed");
  // The worker was handed the words that were written in the page.
  expect(await git("show", `${second.commit}:revised.json`)).toContain("Say which sums, <b>please</b>");
  await page.getByRole("button", { name: "Approve" }).waitFor();
  await until("the second gate on the page", async () => (await main()).includes(second.commit.slice(0, 10)));

  // Somebody looks at the question while the branch moves; an answer in a terminal makes the run ask again.
  await page.getByRole("button", { name: "Approve" }).click();
  await dialog.getByText(second.commit).waitFor();
  place.write("other.txt", "of the user\n");
  await git("add", "other.txt");
  await git("commit", "-q", "-m", "Mine", "--", "other.txt");
  const mine = await git("rev-parse", "main");
  await expect(place.teamster("approve", "--team", "revised", "--commit", second.commit)).rejects.toThrow("main has moved");
  const third = await run.gate(3);
  await dialog.getByText("The commit changed while you were deciding").waitFor();
  expect(await dialog.getByRole("button", { name: "Approve" }).isDisabled()).toBe(true);
  await page.keyboard.press("Escape");
  expect(await git("rev-parse", "main")).toBe(mine);
  await until("the third gate on the page", async () => (await main()).includes(third.commit.slice(0, 10)));
  await page.getByRole("button", { name: "Approve" }).click();
  await dialog.getByRole("button", { name: "Approve" }).click();
  expect(await run.ended).toBe(0);
  expect(await git("rev-parse", "main")).toBe(third.commit);
  await page.locator(".head").getByText("complete").waitFor();
});

test("every surface says the same of the run, now and at any moment of it", async () => {
  const last = place.journal("revised").at(-1)?.seq ?? 0;
  await show(page, "revised/team");
  await until("the end on the page", async () => (await factsOn(page)).seq === last);
  const { teams } = JSON.parse(await place.teamster("top", "--once", "--json", "--team", "revised")) as { teams: TeamView[] };
  const top = teams.find(({ name }) => name === "revised");
  const now = factsOf(await viewOf(place, "revised"));
  expect(now.tasks).toHaveLength(4);
  expect(top && factsOf(top)).toEqual(now);
  expect(await factsOn(page)).toEqual(now);
  const status = JSON.parse(await place.teamster("status", "--json", "--team", "revised")) as { teams: { name: string; progress: object; workers: { name: string; verdict: string }[] }[] };
  const told = status.teams.find(({ name }) => name === "revised");
  const view = await viewOf(place, "revised");
  expect(told?.progress).toEqual(view.progress);
  expect(told?.workers.map(({ name, verdict }) => [name, verdict])).toEqual(view.workers.map(({ name, verdict }) => [name, verdict]));

  // Any moment: the first, the last but one, some between, and right behind each stage.
  const stages = place.journal("revised").filter(({ type }) => type === "run.stage").map(({ seq }) => seq);
  const moments = [...new Set([1, ...stages, ...Array.from({ length: 6 }, (_, part) => Math.floor((last * (part + 1)) / 7)), last - 1])].sort((a, b) => a - b);
  await page.keyboard.press("3");
  const slider = page.getByRole("slider");
  await slider.waitFor();
  for (const at of moments) {
    await page.keyboard.press("3");
    await slider.evaluate((input: HTMLInputElement, to) => {
      input.value = String(to);
      input.dispatchEvent(new Event("input", { bubbles: true }));
    }, at);
    await page.keyboard.press("1");
    const replayed = JSON.parse(await place.teamster("replay", "revised", "--to", String(at), "--json")) as { view: TeamView };
    await until(`moment ${at} on the page`, async () => (await factsOn(page)).seq === at);
    expect(await factsOn(page), `at ${at}`).toEqual(factsOf(replayed.view));
  }
  await page.keyboard.press("n");
  await until("the present", async () => (await factsOn(page)).seq === last);
  expect(seen.errors).toEqual([]);
});

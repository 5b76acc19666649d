// What a person does to real workers from the page: by pointer, and with nothing but the keyboard.

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Zombies } from "../src/api";
import { browser, Place, until, visit, type Seen } from "./kit";
import { show, viewOf } from "./run";

const TEAM = "crew";
let place: Place;
let chrome: Browser;
let seen: Seen;
let page: Page;

/** Every task goes on until its file is there. */
const script = (root: string) => `
[[step]]
fill = true
do = "say"
text = "at work on {subject}"

[[step]]
do = "run"
command = "until test -e ${root}/go-$TEAMSTER_TASK_ID; do sleep 0.05; done"
seconds = 600

[[step]]
fill = true
do = "edit"
path = "done-{id}.txt"
content = "{subject}\\n"

[[step]]
fill = true
do = "commit"
text = "Task {id}"
`;

beforeAll(async () => {
  place = new Place();
  await place.git({ "README.md": "# Nothing\n" });
  await place.team(TEAM);
  const played = place.write("../script.toml", script(place.root));
  for (const subject of ["First", "Second", "Third", "Left over"]) await place.teamster("task", "create", "--team", TEAM, "--subject", subject);
  await Promise.all(
    ["ada", "grace", "linus"].map((name) => place.teamster("worker", "start", "--team", TEAM, "--name", name, "--provider", `demo=scripted:${played}`)),
  );
  await place.open();
  chrome = await browser();
  seen = await visit(chrome, place);
  page = seen.page;
  await until("three at work", async () => (await viewOf(place, TEAM)).progress.inProgressTasks === 3);
  await show(page, `${TEAM}/team`);
});

afterAll(async () => {
  await chrome?.close();
  await place?.end();
});

const lives = (pid: number) => existsSync(`/proc/${pid}`);
const worker = async (name: string) => {
  const found = (await viewOf(place, TEAM)).workers.find((one) => one.name === name);
  if (!found) throw new Error(`there is no ${name}`);
  return found;
};

/** Presses Tab until the focus is on something of this name. */
async function tabTo(name: RegExp): Promise<void> {
  const passed: string[] = [];
  for (let presses = 0; presses < 80; presses += 1) {
    await page.keyboard.press("Tab");
    const focused = await page.evaluate(() => {
      const on = document.activeElement as HTMLElement | null;
      return on?.getAttribute("aria-label") || (on as HTMLInputElement | null)?.placeholder || on?.innerText || "";
    });
    if (name.test(focused)) return;
    passed.push(focused.slice(0, 30));
  }
  throw new Error(`Tab does not come to ${String(name)}: ${passed.join(" | ")}`);
}

test("a message that is typed with the keyboard alone is in the inbox", async () => {
  await tabTo(/^To$/);
  await page.keyboard.press("ArrowDown");
  await page.keyboard.type("grace");
  await tabTo(/^Message$/);
  await page.keyboard.type("Keep the old name, <b>please</b>");
  await page.keyboard.press("Enter");
  await page.getByRole("log").getByText("Keep the old name, <b>please</b>").waitFor();
  const mail = await place.teamster("message", "read", "--team", TEAM, "--as", "grace", "--json");
  expect(mail).toContain("Keep the old name, <b>please</b>");
});

test("one worker is stopped: its process ends, its task goes back, nobody else notices", async () => {
  const { pid, currentTaskId } = await worker("ada");
  const others = await Promise.all(["grace", "linus"].map(worker));
  expect(pid && lives(pid)).toBe(true);
  await page.locator('[data-worker="ada"]').getByRole("button", { name: /ada/ }).first().click();
  const panel = page.getByRole("dialog");
  await panel.getByRole("button", { name: "Stop ada?" }).click();
  await panel.getByRole("button", { name: "Stop", exact: true }).click();
  await until("the end of ada", () => !lives(pid ?? 0));
  await page.getByText("ada was asked to stop").waitFor();
  await page.keyboard.press("Escape");
  await until("the task's way back", async () => (await viewOf(place, TEAM)).tasks.find(({ id }) => id === currentTaskId)?.state === "claimable");
  const row = page.getByRole("list", { name: "Tasks" }).getByRole("listitem").filter({ hasText: `#${currentTaskId}` });
  await row.getByText("claimable").waitFor();
  for (const other of others) {
    expect(lives(other.pid ?? 0)).toBe(true);
    expect((await worker(other.name)).currentTaskId).toBe(other.currentTaskId);
  }
});

test("with the keyboard alone: the team is drained, and everyone finishes what is begun and begins nothing", async () => {
  const two = await Promise.all(["grace", "linus"].map(worker));
  await page.locator("main").focus();
  await tabTo(/^Stop after current tasks$/);
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog");
  await dialog.getByText("Every worker finishes its current task").waitFor();
  await tabTo(/^Stop after current tasks$/);
  await page.keyboard.press("Enter");
  for (const { name } of two) await page.locator(`[data-worker="${name}"]`).waitFor();
  await until("the wish with both", async () => (await Promise.all(two.map(({ name }) => worker(name)))).every(({ askedTo }) => askedTo === "drain"));
  for (const { currentTaskId } of two) writeFileSync(join(place.root, `go-${currentTaskId}`), "");
  await until("the end of both", () => two.every(({ pid }) => !lives(pid ?? 0)));
  // Studio follows the journal, so it can learn of a completion after the worker has gone.
  const isCompleted = (all: { id: string; state: string }[], wanted?: string | null) => all.some(({ id, state }) => id === wanted && state === "completed");
  await until("the completion of both", async () => {
    const { tasks } = await viewOf(place, TEAM);
    return two.every(({ currentTaskId }) => isCompleted(tasks, currentTaskId));
  });
  const { tasks } = await viewOf(place, TEAM);
  expect(tasks.filter(({ state }) => state === "claimable")).toHaveLength(2);
  await page.locator(".head").getByText("2 of 4 tasks done").waitFor();
  await page.getByText("Asked everyone to finish and stop").waitFor();
});

test("a zombie is shown with its reasons, and reaped", async () => {
  // A worker that is killed; its last sign of life is then made an hour old, for which nobody wants to wait.
  const played = join(place.root, "script.toml");
  await place.teamster("worker", "start", "--team", TEAM, "--name", "lost", "--provider", `demo=scripted:${played}`);
  // Studio has heard of it a moment after the command has ended.
  await until("its work", async () => (await viewOf(place, TEAM)).workers.some(({ name, currentTaskId }) => name === "lost" && currentTaskId !== null));
  const { pid } = await worker("lost");
  process.kill(pid ?? 0, "SIGKILL");
  await until("its end", () => !lives(pid ?? 0));
  const file = join(place.project, ".omc/state/team-bridge", TEAM, "lost.heartbeat.json");
  const beat = JSON.parse(readFileSync(file, "utf8")) as Record<string, unknown>;
  const old = new Date(Date.now() - 3_600_000).toISOString();
  writeFileSync(file, JSON.stringify({ ...beat, lastPollAt: old, lastEventAt: old }));
  await page.keyboard.press("z");
  const card = page.locator("li", { hasText: "lost" });
  await card.getByText("kept").waitFor();
  expect(await card.textContent()).toContain("is still assigned to it");
  expect(await page.getByRole("button", { name: "Reap 0" }).isDisabled()).toBe(true);
  // The page says what to do first, and it helps.
  const words = (await card.locator("code").textContent()) ?? "";
  expect(words).toMatch(/^teamster task release \d+ --force --team crew$/);
  await place.teamster(...words.split(" ").slice(1));
  await page.getByRole("button", { name: "Look again" }).click();
  await card.getByText("can be reaped").waitFor();
  expect(await card.textContent()).toMatch(/pid \d+ gone/);
  await page.getByRole("button", { name: /^Reap 1$/ }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("lost").waitFor();
  await dialog.getByRole("button", { name: /^Reap/ }).click();
  await page.getByText("1 removed.").waitFor();
  await card.waitFor({ state: "detached" });
  const { zombies } = await place.api<Zombies>("/api/v1/zombies");
  expect(zombies.filter(({ action }) => action === "reap")).toEqual([]);
  expect(existsSync(file)).toBe(false);
  expect(seen.errors).toEqual([]);
});

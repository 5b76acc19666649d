// A state file that another program wrote, and nothing else of ours; and texts that want to be more than text.

import { renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { browser, Place, until, visit, type Seen } from "./kit";
import { show } from "./run";

const NASTY = "\u001b[2J\u001b]0;title\u0007\u202e\u2066<img src=x onerror=\"document.body.id='pwned'\">";
let place: Place;
let chrome: Browser;
let seen: Seen;
let page: Page;

beforeAll(async () => {
  place = new Place();
  chrome = await browser();
  seen = await visit(chrome, place);
  page = seen.page;
});

afterAll(async () => {
  await chrome?.close();
  await place?.end();
});

/** Writes the file as a program does that knows how: whole, then in place. */
function write(name: string, secondsOld: number, over: object = {}): void {
  const at = new Date(Date.now() - secondsOld * 1000).toISOString();
  const state = {
    version: "1.0", enabled: true, teamName: name, feature: "login", pdcaPhase: "do", orchestrationPattern: "swarm", ctoAgent: "opus", startedAt: at, lastUpdated: at,
    teammates: [{ name: "ann", role: "tester", model: "haiku", status: "working", currentTask: "Testing", taskId: "7", startedAt: at, lastActivityAt: at }],
    progress: { totalTasks: 4, completedTasks: 1, inProgressTasks: 2, failedTasks: 0, pendingTasks: 1 },
    recentMessages: [{ from: "ann", to: "all", content: "hello from afar", timestamp: at }], sessionId: "s-1", unknown: { kept: true }, ...over,
  };
  renameSync(place.write(".bkit/.new.json", JSON.stringify(state)), join(place.project, ".bkit/agent-state.json"));
}

const row = (name: string) => page.locator("main").getByRole("link", { name: new RegExp(name) });

test("no file: inactive; then live, stale and ended as the file says", async () => {
  await page.locator("main").getByText("inactive").waitFor();
  write("new-crew", 0);
  await row("new-crew").getByText("live").waitFor();
  expect(await row("new-crew").textContent()).toContain("1 / 4");
  write("old-crew", 301);
  await row("old-crew").getByText("stale").waitFor();
  await row("old-crew").click();
  await page.locator(".head").getByText("stale").waitFor();
  // What an ended session has done is still shown.
  write("past-crew", 301, { enabled: false, teammates: [] });
  await page.locator(".head").getByText("ended").waitFor();
  await page.getByText("1 of 4 tasks done").waitFor();
  await page.getByText("hello from afar").first().waitFor();
  write("back-crew", 0);
  await page.locator(".head").getByText("live").waitFor();
  await page.locator('[data-worker="ann"]').getByText("Testing").waitFor();
  await page.locator(".head").getByText("swarm").waitFor();
});

test("a session gets stale on the screen by nothing but the time that passes", async () => {
  await show(page, "#/");
  write("ageing-crew", 296);
  await row("ageing-crew").getByText("live").waitFor();
  await row("ageing-crew").getByText("stale").waitFor({ timeout: 15_000 });
  rmSync(join(place.project, ".bkit/agent-state.json"));
  await page.locator("main").getByText("inactive").waitFor();
});

test("hostile and endless texts of another program are text, and every part of the page keeps its place", async () => {
  const long = `${NASTY}${"0123456789".repeat(100_000)}`;
  const at = new Date().toISOString();
  write(long, 0, {
    feature: long, orchestrationPattern: long,
    teammates: [{ name: long, role: long, model: long, status: "working", currentTask: long, taskId: long, startedAt: at, lastActivityAt: at }, { name: NASTY, role: NASTY, model: NASTY, status: NASTY, currentTask: NASTY, taskId: NASTY }],
    recentMessages: [{ from: long, to: long, content: long, timestamp: at }, { from: NASTY, to: NASTY, content: `${NASTY}\nsecond line`, timestamp: at }],
  });
  await row("<img src=x").click();
  await page.locator("[data-worker]").nth(1).waitFor();
  await page.getByRole("log").getByText("second line").waitFor();
  await page.screenshot();
  const found = await page.evaluate(() => {
    const boxes = [...document.querySelectorAll("[data-worker]")].map((card) => card.getBoundingClientRect());
    const main = document.querySelector("main")?.getBoundingClientRect();
    return {
      pwned: document.body.id,
      made: document.querySelectorAll("main img, main script").length,
      title: document.title.length,
      hidden: /[\u001b\u0007\u202e\u2066]/.test(document.documentElement.textContent ?? "") || /[\u001b\u0007\u202e\u2066]/.test(document.title),
      tooWide: document.documentElement.scrollWidth - innerWidth,
      heights: boxes.map(({ height }) => height),
      outside: boxes.filter(({ left, right }) => left < (main?.left ?? 0) || right > (main?.right ?? 0)).length,
      direction: getComputedStyle(document.querySelector(".head h1") as Element).direction,
      head: document.querySelector(".head")?.getBoundingClientRect().height ?? 0,
    };
  });
  expect(found).toMatchObject({ pwned: "", made: 0, hidden: false, heights: [146, 146], outside: 0, direction: "ltr" });
  expect(found.tooWide).toBeLessThanOrEqual(0);
  expect(found.title).toBeLessThan(200);
  expect(found.head).toBeLessThan(200);
  // It still moves: a live change, and the way to another view.
  await page.keyboard.press("2");
  await until("the graph", async () => /graph/.test(page.url()));
  await show(page, "#/");
  await row("<img src=x").waitFor();
  expect(seen.errors).toEqual([]);
});

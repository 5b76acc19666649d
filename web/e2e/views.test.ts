// Every view with real data, by every means: pointer, keyboard, both themes, both languages, both sizes.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { TeamView, Timeline } from "../src/api";
import { browser, Place, until, visit, type Seen } from "./kit";
import { shop, TEAM } from "./shop";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const VIEWS = ["team", "graph", "timeline", "log", "changes", "approval", "cost"];

let place: Place;
let chrome: Browser;
let seen: Seen;
let page: Page;

beforeAll(async () => {
  place = new Place();
  await shop(place);
  await place.open();
  chrome = await browser();
  seen = await visit(chrome, place);
  page = seen.page;
}, 300_000);

afterAll(async () => {
  await chrome?.close();
  await place?.end();
});

const show = async (view: string, on = page) => {
  await on.evaluate((to) => {
    location.hash = to;
  }, view.startsWith("#") ? view : `#/team/${TEAM}/${view}`);
};
const now = () => place.api<TeamView>(`/api/v1/teams/${TEAM}`);

describe("every view shows what the server knows", () => {
  test("teams", async () => {
    await show("#/");
    const link = page.locator("main").getByRole("link", { name: new RegExp(TEAM) });
    await link.waitFor();
    expect(await link.textContent()).toContain("live");
    await link.click();
    await page.locator(`[data-worker="ada"]`).waitFor();
  });

  test("team: every worker with its verdict and evidence, progress, tasks, messages", async () => {
    await show("team");
    const view = await now();
    for (const worker of view.workers) {
      const card = page.locator(`[data-worker="${worker.name}"]`);
      await card.waitFor();
      const text = (await card.textContent()) ?? "";
      expect(text).toMatch(/heartbeat/);
      expect(text).toMatch(/healthy|at risk|quarantined|silent/);
    }
    const { completedTasks, totalTasks } = view.progress;
    expect(await page.locator(".head").textContent()).toContain(`${completedTasks} of ${totalTasks} tasks done`);
    expect(await page.getByRole("log").textContent()).toContain("Please keep the tests green.");
    await page.getByPlaceholder("Find a task").fill("readme");
    expect(await page.getByRole("list", { name: "Tasks" }).getByRole("listitem").count()).toBe(1);
    await page.getByPlaceholder("Find a task").fill("");
  });

  test("graph: every task has its box, and a click opens prompt, log, diff and history", async () => {
    await show("graph");
    const view = await now();
    for (const task of view.tasks) await page.locator(`[data-task="${task.id}"]`).waitFor();
    await page.locator('[data-task="3"]').click();
    const panel = page.getByRole("dialog");
    await panel.getByText("the loader has types").waitFor();
    await panel.getByRole("tab", { name: "Prompt" }).click();
    expect(await panel.textContent()).toContain("Fix what `tsc` reports in src/loader.ts.");
    await panel.getByRole("tab", { name: "Log" }).click();
    await panel.getByText("the loader has three errors").waitFor();
    await panel.getByRole("tab", { name: "Diff" }).click();
    await panel.getByText("export function load(path: string): Config {").waitFor();
    await panel.getByText("1 file").waitFor();
    expect(await panel.textContent()).not.toContain("src/1.ts");
    await panel.getByRole("tab", { name: "History" }).click();
    await panel.getByText("task.completed").first().waitFor();
    await page.keyboard.press("Escape");
    await panel.waitFor({ state: "detached" });
  });

  test("timeline: a lane for each worker, a bar for each stretch of work", async () => {
    await show("timeline");
    const { lanes } = await place.api<Timeline>(`/api/v1/teams/${TEAM}/timeline`);
    for (const lane of lanes) await page.getByRole("group", { name: lane.worker, exact: true }).waitFor();
    const spans = lanes.reduce((sum, lane) => sum + lane.spans.length, 0);
    expect(await page.locator("[data-span]").count()).toBe(spans);
  });

  test("log: what the agent prints, and a line of a megabyte does no harm", async () => {
    await show("log?worker=linus");
    await page.getByText(/watching/).first().waitFor();
    await page.getByRole("button", { name: "Raw" }).click();
    await page.getByRole("button", { name: /more characters/ }).waitFor();
    expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true);
    await page.getByRole("button", { name: /more characters/ }).click();
    await page.getByRole("dialog").getByText(/0123456789/).waitFor();
    await page.keyboard.press("Escape");
  });

  test("changes: the diff of a worker's branch, and of one of its files", async () => {
    await show("changes?branch=linus");
    await page.locator(".diff .row.file").first().waitFor();
    // The branch also has the work that this task builds on, and a list shows no more rows than fit.
    await page.getByRole("button", { name: /src\/watch\.ts/ }).click();
    await page.getByText("export const watched = true;").waitFor();
  });

  test("cost: by worker, by task, in all", async () => {
    await show("cost");
    const { cost } = await now();
    // A retry may report more at any moment: the page must come to say what the server says.
    await until("the sum", async () => {
      const { total } = (await now()).cost;
      return ((await page.locator("main").textContent()) ?? "").includes(total.tokens.toLocaleString("en-US"));
    });
    const text = (await page.locator("main").textContent()) ?? "";
    for (const { worker } of cost.byWorker) expect(text).toContain(worker);
    expect(text).toContain("Fix the loader's type errors");
  });

  test("approval and zombies say what to do when there is nothing", async () => {
    await show("approval");
    await page.getByText("teamster run 3:executor").waitFor();
    await show("#/zombies");
    await page.getByText("Nothing is left behind").waitFor();
  });

  test("hostile names and texts are text", async () => {
    await show("team");
    await page.getByText("<img src=x onerror").first().waitFor();
    await show("log?worker=grace&of=3");
    await page.getByText(/alert\(1\)/).first().waitFor();
    expect(await page.evaluate(() => document.body.id)).toBe("");
    expect(await page.locator("main img, main b b, main script").count()).toBe(0);
    const text = (await page.locator("main").textContent()) ?? "";
    expect(text).not.toMatch(/[\u001b\u202e]/);
  });

  test("nothing was refused by the page's policy, and nothing failed", () => {
    expect(seen.errors).toEqual([]);
  });
});

describe("everyone can use it", () => {
  test("by keyboard: views by number, help, find, past and now", async () => {
    await show("team");
    await page.locator("h1").first().click();
    await page.keyboard.press("3");
    await page.getByRole("slider").waitFor();
    await page.keyboard.press("[");
    await page.getByText("You see the past").waitFor();
    await page.keyboard.press("n");
    await page.getByText("You see the past").waitFor({ state: "detached" });
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keyboard" }).waitFor();
    await page.keyboard.press("Escape");
    await page.keyboard.press("1");
    await page.getByPlaceholder("Find a task").waitFor();
    await page.keyboard.press("/");
    expect(await page.evaluate(() => (document.activeElement as HTMLInputElement).placeholder)).toBe("Find a task");
    await page.evaluate(() => (document.activeElement as HTMLElement).blur());
  });

  test("in Korean when the browser speaks it, or when chosen", async () => {
    const korean = await visit(chrome, place, { locale: "ko-KR" });
    await korean.page.getByRole("link", { name: "모든 팀" }).waitFor();
    expect(await korean.page.evaluate(() => document.documentElement.lang)).toBe("ko");
    await korean.page.keyboard.press("l");
    await korean.page.getByRole("link", { name: "All teams" }).waitFor();
    await korean.page.reload();
    await korean.page.getByRole("link", { name: "All teams" }).waitFor();
    await korean.page.context().close();
  });

  for (const [name, options] of [
    ["light", { colorScheme: "light" }],
    ["dark", { colorScheme: "dark" }],
    ["a phone", { colorScheme: "light", viewport: { width: 390, height: 844 }, hasTouch: true }],
  ] as const) {
    test(`${name}: no rule of accessibility is broken, nothing reaches out of the screen`, async () => {
      const one = await visit(chrome, place, options);
      const found: string[] = [];
      for (const view of ["#/", ...VIEWS, "#/zombies", `#/team/${TEAM}/graph?task=3`, `#/team/${TEAM}/team?card=ada`]) {
        await show(view, one.page);
        await one.page.locator("main h1, main h2").first().waitFor();
        await one.page.locator("main").getByText("Loading…").waitFor({ state: "detached" });
        await one.page.evaluate(AXE);
        const { violations } = await one.page.evaluate(async () => {
          const axe = (globalThis as unknown as { axe: { run: (what: Document, how: object) => Promise<{ violations: { id: string; nodes: { html: string; failureSummary: string }[] }[] }> } }).axe;
          return axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"],
            // An experiment of axe: it takes the "…" of a subject that was cut for words that the whole name lacks.
            rules: { "label-content-name-mismatch": { enabled: false } } });
        });
        for (const { id, nodes } of violations) found.push(`${view}: ${id}: ${nodes[0]?.html.slice(0, 160)} ${nodes[0]?.failureSummary.slice(0, 300)}`);
        const wide = await one.page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        if (wide > 0) found.push(`${view}: ${wide} px too wide`);
      }
      expect(found).toEqual([]);
      expect(one.errors).toEqual([]);
      await one.page.context().close();
    });
  }
});

// Many pages of one browser, which has six connections to a server: all are live, and none depends on another.

import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { browser, Place, visit, type Seen } from "./kit";

const TABS = 10;
const TEAMS = ["first-team", "second-team", "third-team"];
let place: Place;
let chrome: Browser;
let seen: Seen;
let context: BrowserContext;
let tabs: Page[];
const errors: string[] = [];

beforeAll(async () => {
  place = new Place();
  await place.git({ "README.md": "# Nothing\n" });
  for (const team of TEAMS) {
    await place.team(team, ["worker-1"]);
    await place.teamster("task", "create", "--team", team, "--subject", `Begin in ${team}`);
  }
  await place.open();
  chrome = await browser();
  seen = await visit(chrome, place);
  context = seen.page.context();
  tabs = [seen.page];
});

afterAll(async () => {
  await chrome?.close();
  await place?.end();
});

const teamOf = (tab: number) => TEAMS[tab % TEAMS.length] ?? "";
const isLive = (page: Page) => page.locator('[data-connection="live"]').waitFor();

async function openTab(number: number): Promise<void> {
  const page = tabs[number] ?? (await context.newPage());
  tabs[number] = page;
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error") errors.push(message.text());
  });
  await page.goto(`${place.studio?.address}#/team/${teamOf(number)}/team`);
  await page.getByText(`Begin in ${teamOf(number)}`).first().waitFor();
  await isLive(page);
}

/** A task that is made in every team is on every page of that team, and its details can be asked for. */
async function everyTabHears(subject: string, pages: [number, Page][]): Promise<void> {
  for (const team of TEAMS) await place.teamster("task", "create", "--team", team, "--subject", `${subject} in ${team}`);
  await Promise.all(pages.map(([number, page]) => page.getByText(`${subject} in ${teamOf(number)}`).first().waitFor()));
}

test("ten_visible_pages_of_one_browser_are_all_live_and_hear_of_every_change", async () => {
  for (let number = 0; number < TABS; number += 1) await openTab(number);
  for (const page of tabs) expect(await page.evaluate(() => document.hidden)).toBe(false);
  await everyTabHears("Made for all", [...tabs.entries()]);
  // Connections are left for everything else that a page asks for.
  for (const page of tabs) expect(await page.evaluate(async () => (await fetch("/api/v1/server")).status)).toBe(200);
});

test("closing_the_first_page_stops_no_other", async () => {
  await tabs[0]?.close();
  await everyTabHears("Made after the first has gone", [...tabs.entries()].slice(1));
});

test("the_pages_come_back_after_the_server_was_killed", async () => {
  const port = place.studio?.port ?? 0;
  await place.kill();
  await Promise.all(tabs.slice(1).map((page) => page.locator('[data-connection="waiting"], [data-connection="connecting"]').waitFor()));
  await place.open(port);
  await Promise.all(tabs.slice(1).map(isLive));
  await everyTabHears("Made after the server came back", [...tabs.entries()].slice(1));
});

test("a_worker_that_the_browser_ends_is_started_again", async () => {
  const session = await chrome.newBrowserCDPSession();
  const { targetInfos } = await session.send("Target.getTargets");
  const workers = targetInfos.filter(({ type }) => type === "shared_worker");
  expect(workers).toHaveLength(1);
  for (const { targetId } of workers) await session.send("Target.closeTarget", { targetId });
  await everyTabHears("Made after the worker has gone", [...tabs.entries()].slice(1));
});

test("the_policy_of_the_page_stays_strict_and_is_not_broken", async () => {
  const answer = await tabs[1]?.reload();
  const policy = answer?.headers()["content-security-policy"] ?? "";
  expect(policy).toContain("default-src 'none'");
  expect(policy).toContain("worker-src 'self'");
  expect(policy).not.toMatch(/unsafe|blob:|https?:|\*/);
  const refusals = [...errors, ...seen.errors].filter((text) => !/ERR_CONNECTION|ERR_EMPTY|ERR_INCOMPLETE|Failed to load resource/.test(text));
  expect(refusals).toEqual([]);
});

test("a_browser_without_shared_workers_has_a_connection_for_each_page", async () => {
  const plain = await visit(chrome, place);
  await plain.page.addInitScript(() => {
    Reflect.deleteProperty(globalThis, "SharedWorker");
  });
  await plain.page.goto(`${place.studio?.address}#/team/${teamOf(0)}/team`);
  await plain.page.reload();
  await isLive(plain.page);
  expect(await plain.page.evaluate(() => "SharedWorker" in globalThis)).toBe(false);
  await everyTabHears("Made without a worker", [[0, plain.page]]);
  expect(plain.errors).toEqual([]);
});

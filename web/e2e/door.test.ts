// The door, in a browser that has the key: no other page reads or acts, and the token is nowhere after its one use.

import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { readFileSync } from "node:fs";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { actAll, readAll, type Target } from "./attack";
import { browser, Place, REBOUND, until } from "./kit";
import { FILES, Run } from "./run";

const TEAM = "guarded";
const SECRET = "Tell of it";
let place: Place;
let chrome: Browser;
let context: BrowserContext;
let page: Page;
let elsewhere: Server;
let other: number;
let port: number;
let url: string;
let target: Omit<Target, "origin">;
const requests: { url: string; referer: string | undefined }[] = [];

beforeAll(async () => {
  place = new Place();
  await place.git(FILES);
  // Nobody hosts the run that waits at the gate: an answer that got through would begin a host, and land.
  const run = new Run(place, TEAM, ["--approve", "never"]);
  run.go();
  expect(await run.ended, run.printed).toBe(0);
  target = { team: TEAM, ...(await run.gate()) };
  elsewhere = createServer((_, answer) => {
    answer.setHeader("content-type", "text/html");
    answer.end("<!doctype html><title>Another page</title><body>");
  });
  await new Promise<void>((done) => elsewhere.listen(0, "127.0.0.1", done));
  other = (elsewhere.address() as AddressInfo).port;
  url = await place.openByHand();
  port = Number(new URL(url).port);
  chrome = await browser();
  context = await chrome.newContext();
  context.on("request", (request) => {
    void request.allHeaders().then((headers) => requests.push({ url: request.url(), referer: headers["referer"] }), () => undefined);
  });
  page = await context.newPage();
});

afterAll(async () => {
  await chrome?.close();
  elsewhere?.close();
  await place?.end();
});

test("the address that is printed lets one browser in, once, and its token is nowhere afterwards", async () => {
  const token = new URL(url).searchParams.get("token") ?? "";
  expect(token).toHaveLength(64);
  await page.goto("about:blank");
  const first = page.waitForRequest(url);
  await page.goto(url);
  await first;
  const link = page.locator(`main a[href="#/team/${TEAM}/team"]`);
  await link.waitFor();
  requests.length = 0;
  await link.click();
  await page.getByText("mend the shop").first().waitFor();
  await page.reload();
  await page.getByText("mend the shop").first().waitFor();
  await page.keyboard.press("2");
  await page.locator("[data-task]").first().waitFor();
  const kept = await page.evaluate(() =>
    JSON.stringify([location.href, document.cookie, document.referrer, { ...localStorage }, { ...sessionStorage }, history.state, document.documentElement.outerHTML, performance.getEntries().map(({ name }) => name)]),
  );
  expect(kept).not.toContain(token);
  expect(await page.evaluate(() => document.cookie)).toBe("");
  // Back to where the person came from: the address with the token is no step on the way.
  for (let step = await page.evaluate(() => history.length); step > 1; step -= 1) {
    await page.goBack().catch(() => undefined);
    expect(page.url()).not.toContain(token);
  }
  await page.goto(`http://127.0.0.1:${port}/#/team/${TEAM}/team`);
  await page.getByText("mend the shop").first().waitFor();
  expect(requests.length).toBeGreaterThan(5);
  for (const { url: asked, referer } of requests) {
    expect(asked).not.toContain(token);
    expect(referer ?? "").not.toContain("token");
  }
  expect(place.printed.split(token)).toHaveLength(2);
  const cookies = await context.cookies();
  expect(cookies.map(({ httpOnly, sameSite }) => ({ httpOnly, sameSite }))).toEqual([{ httpOnly: true, sameSite: "Strict" }]);
  expect(JSON.stringify(cookies)).not.toContain(token);
  // Somebody who has read it over a shoulder.
  const late = await chrome.newContext();
  const refused = await (await late.newPage()).goto(url);
  expect(refused?.status()).toBe(401);
  expect(await late.cookies()).toEqual([]);
  await late.close();
});

for (const [name, from, to] of [
  ["another port of the same host", () => `http://127.0.0.1:${other}/`, () => `http://127.0.0.1:${port}`],
  ["localhost, about 127.0.0.1", () => `http://localhost:${other}/`, () => `http://127.0.0.1:${port}`],
  ["localhost, about localhost", () => `http://localhost:${other}/`, () => `http://localhost:${port}`],
  ["a foreign name", () => `http://${REBOUND}:${other}/`, () => `http://127.0.0.1:${port}`],
  ["a foreign name that was made to lead here", () => `http://${REBOUND}:${port}/attack`, () => `http://${REBOUND}:${port}`],
] as const) {
  test(`${name}: reads nothing, and changes nothing`, async () => {
    const before = readFileSync(place.journalFile(TEAM), "utf8");
    const head = await place.run("git", ["rev-parse", "main"]);
    const attacker = await context.newPage();
    const answers: { url: string; status: number; method: string }[] = [];
    const note = (answered: { url: () => string; status: () => number; request: () => { method: () => string } }) => {
      if (new URL(answered.url()).port === String(port)) answers.push({ url: answered.url(), status: answered.status(), method: answered.request().method() });
    };
    context.on("response", note);
    // The name's page comes from its owner; then the name leads to this machine.
    await attacker.route(`http://${REBOUND}:${port}/attack`, (route) => route.fulfill({ contentType: "text/html", body: "<!doctype html><title>Rebound</title><body>" }));
    await attacker.goto(from());
    const aim = { ...target, origin: to() };
    const tried = [...(await attacker.evaluate(readAll, aim)), ...(await attacker.evaluate(actAll, aim))];
    context.off("response", note);
    expect(tried.length).toBeGreaterThan(40);
    for (const { way, read } of tried) {
      for (const secret of [SECRET, "mend the shop", target.gate, "hello", "open", "an image", "seq"]) expect(read, way).not.toContain(secret);
    }
    // It was the server that refused, each time. What a browser hides even from its own tools is not among these.
    const statuses = answers.filter(({ url: asked }) => !asked.endsWith("/attack"));
    expect(statuses.length).toBeGreaterThan(10);
    expect(statuses.filter(({ status }) => ![401, 403, 421].includes(status))).toEqual([]);
    expect(statuses.some(({ method }) => method === "POST")).toBe(true);
    expect(readFileSync(place.journalFile(TEAM), "utf8")).toBe(before);
    expect(await place.run("git", ["rev-parse", "main"])).toBe(head);
    await attacker.close();
  });
}

test("the same words from the page itself do land: what was refused was refused for where it came from", async () => {
  await page.bringToFront();
  await page.keyboard.press("6");
  await page.getByRole("button", { name: "Approve" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Approve" }).click();
  await page.locator(".head").getByText("complete").waitFor();
  await until("the landing", async () => (await place.run("git", ["rev-parse", "main"])).trim() === target.commit);
});

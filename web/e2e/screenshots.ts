// Pictures of a real team, and of a real run at its gate, for the documents; a picture that shows nothing is an error.

import { mkdirSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { browser, Place, visit } from "./kit";
import { FILES, Run } from "./run";
import { shop, TEAM } from "./shop";

const FOLDER = resolve(dirname(fileURLToPath(import.meta.url)), "../../docs/screenshots");
const VIEWS = ["teams", "team", "graph", "timeline", "log", "changes", "approval", "cost", "zombies"];
const LARGE = { width: 1280, height: 720 };
const SMALL = { width: 390, height: 844 };
const AT_GATE = "mend-the-shop";
const OF_RUN = ["approval", "changes"];
let place: Place;
let gated: Place;
let running: Run;
let chrome: Browser;

beforeAll(async () => {
  place = new Place();
  await shop(place, true);
  await place.open();
  gated = new Place();
  await gated.git(FILES);
  running = new Run(gated, AT_GATE);
  running.go();
  await running.gate();
  await gated.open();
  chrome = await browser();
  mkdirSync(FOLDER, { recursive: true });
});

afterAll(async () => {
  await chrome?.close();
  await running?.stop();
  await gated?.end();
  await place?.end();
});

/** How many colours a picture has, and which part of it is the commonest one. */
async function colours(page: Page, picture: Buffer): Promise<{ count: number; commonest: number }> {
  return page.evaluate(async (data) => {
    const image = new Image();
    image.src = `data:image/png;base64,${data}`;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = image.width;
    canvas.height = image.height;
    const pen = canvas.getContext("2d");
    if (!pen) throw new Error("no canvas");
    pen.drawImage(image, 0, 0);
    const { data: bytes } = pen.getImageData(0, 0, image.width, image.height);
    const found = new Map<number, number>();
    for (let at = 0; at < bytes.length; at += 4) {
      const colour = ((bytes[at] ?? 0) << 16) | ((bytes[at + 1] ?? 0) << 8) | (bytes[at + 2] ?? 0);
      found.set(colour, (found.get(colour) ?? 0) + 1);
    }
    return { count: found.size, commonest: Math.max(...found.values()) / (bytes.length / 4) };
  }, picture.toString("base64"));
}

async function take(views: string[], viewport: typeof LARGE, colorScheme: "light" | "dark", language: "en" | "ko"): Promise<void> {
  await takeFrom(place, TEAM, views.filter((view) => !OF_RUN.includes(view)), viewport, colorScheme, language);
  await takeFrom(gated, AT_GATE, views.filter((view) => OF_RUN.includes(view)), viewport, colorScheme, language);
}

async function takeFrom(from: Place, team: string, views: string[], viewport: typeof LARGE, colorScheme: "light" | "dark", language: "en" | "ko"): Promise<void> {
  const { page, errors } = await visit(chrome, from, { viewport, colorScheme, locale: language === "ko" ? "ko-KR" : "en-US" });
  const blank = await chrome.newPage();
  for (const view of views) {
    const hash = view === "teams" ? "#/" : view === "zombies" ? "#/zombies" : `#/team/${team}/${view}${view === "log" ? "?worker=grace&of=3" : ""}`;
    await page.evaluate((to) => {
      location.hash = to;
    }, hash);
    await page.locator("main h1, main h2").first().waitFor();
    await page.locator("main").getByText(/^(Loading…|불러오는 중…)$/).waitFor({ state: "detached" });
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    const picture = await page.screenshot({ path: `${FOLDER}/${view}-${viewport.width}-${colorScheme}-${language}.png` });
    const { count, commonest } = await colours(blank, picture);
    expect(count, view).toBeGreaterThan(24);
    expect(commonest, view).toBeLessThan(0.97);
  }
  expect(errors).toEqual([]);
  await blank.close();
  await page.context().close();
}

test("every view, large, light, English", () => take(VIEWS, LARGE, "light", "en"));
test("large, dark, English", () => take(["team", "graph", "timeline"], LARGE, "dark", "en"));
test("large, light, Korean", () => take(["team"], LARGE, "light", "ko"));
test("large, dark, Korean", () => take(["approval"], LARGE, "dark", "ko"));
test("small, light, English", () => take(["team", "graph"], SMALL, "light", "en"));
test("small, dark, English", () => take(["timeline"], SMALL, "dark", "en"));
test("small, light, Korean", () => take(["teams", "approval"], SMALL, "light", "ko"));
test("small, dark, Korean", () => take(["team"], SMALL, "dark", "ko"));

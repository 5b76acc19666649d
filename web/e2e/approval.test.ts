// At the gate: everything the decision rests on, and a decision for one commit, once.

import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { browser, Place, visit, type Seen } from "./kit";
import { gate, run } from "./recorded";

const TEAM = "gated";
const OTHER = "9b0c2e4a6d8f1b3c5e7a9d0f8c2d0f6b1a3e5d7f";
let place: Place;
let chrome: Browser;
let seen: Seen;
let page: Page;

beforeAll(async () => {
  place = new Place();
  await place.git({ "README.md": "# Nothing\n" });
  await place.team(TEAM, ["ada", "grace", "linus"]);
  for (const subject of ["Read", "Write types", "Fix the loader", "Fix the store"]) {
    await place.teamster("task", "create", "--team", TEAM, "--subject", subject);
  }
  run(place, TEAM, [{ id: "1", subject: "Read" }, { id: "3", subject: "Fix the loader" }]);
  gate(place, TEAM, "gate-1");
  await place.open();
  chrome = await browser();
  seen = await visit(chrome, place);
  page = seen.page;
  await page.evaluate((team) => {
    location.hash = `#/team/${team}/approval`;
  }, TEAM);
});

afterAll(async () => {
  await chrome?.close();
  await place?.end();
});

test("shows task, plan, checks, conflicts and what is not part of the work", async () => {
  await page.getByText("Your decision is needed").waitFor();
  const text = (await page.locator("main").textContent()) ?? "";
  for (const words of ["Fix all type errors", "3f9a1c27d4", "npm test", "npm run lint", "flaky", "on the base", "src/store.ts", "2 files that you have not committed", "Fix the loader", "Not fully verified", "reviewing-001.md", "src/loader.ts", "+12", "the old API is gone", "src/outside.ts", "src/mine.ts"]) {
    expect(text).toContain(words);
  }
  await page.locator("summary", { hasText: "npm test" }).click();
  await page.getByText("42 passing").waitFor();
  await page.locator("summary", { hasText: "reviewing-001.md" }).click();
  await page.getByText("<b>what it needs once</b>").last().waitFor();
});

test("a decision names the commit that was seen, and none is made when it changes meanwhile", async () => {
  await page.getByRole("button", { name: "Approve" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("3f9a1c27d4b85e60a1f2c3d4e5f60718293a4b5c").waitFor();
  gate(place, TEAM, "gate-2", OTHER);
  await dialog.getByText("The commit changed while you were deciding").waitFor();
  expect(await dialog.getByRole("button", { name: "Approve" }).isDisabled()).toBe(true);
  await page.keyboard.press("Escape");
});

test("a revision needs words; the answer is for the gate and the commit that were shown", async () => {
  await page.getByRole("button", { name: "Revise" }).click();
  const dialog = page.getByRole("dialog");
  const send = dialog.getByRole("button", { name: "Revise" });
  expect(await send.isDisabled()).toBe(true);
  await dialog.getByRole("textbox").fill("Keep the old name");
  const asked = page.waitForRequest((request) => request.method() === "POST");
  await send.click();
  expect((await asked).postDataJSON()).toEqual({ gate: "gate-2", commit: OTHER, answer: "revise", rollback: false, text: "Keep the old name" });
  // Nobody runs this run, so the answer is written down here as the host of a run would find it.
  place.record(TEAM, [{ type: "approval.answered", actor: "user", data: { gate: "gate-2", commit: OTHER, answer: "revise", rollback: false, text: "Keep the old name", by: "user" } }]);
  await page.getByText("Answered, the run has not taken it yet").waitFor();
  expect(await page.getByRole("button", { name: "Approve" }).isDisabled()).toBe(true);
  expect(seen.errors).toEqual([]);
});

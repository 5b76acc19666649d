// What a person at the page waits for, measured in the page: started and told what to do by `cargo xtask bench`.
//
// Each line of the input is a wish, as JSON; each answer is one line of JSON. The clock is the machine's: whoever makes
// a change writes its time, in microseconds between two `@`, into the text that changes.

import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const ARGS = [
  "--no-sandbox",
  "--disable-dev-shm-usage",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--no-first-run",
  "--disable-quic",
];

/** Writes down when each change was on the screen. Runs in the page. */
function observe(selector) {
  globalThis.watching?.disconnect();
  const seen = new Map();
  globalThis.seen = seen;
  const painted = new MessageChannel();
  let waiting = new Set();
  painted.port1.onmessage = () => {
    // Rounded up: a clock of whole milliseconds must not make anything look faster.
    const now = Date.now() + 1;
    for (const sent of waiting) if (!seen.has(sent)) seen.set(sent, now);
    waiting = new Set();
  };
  let frame = 0;
  const look = () => {
    for (const element of document.querySelectorAll(selector)) {
      for (const [, sent] of (element.textContent ?? "").matchAll(/@(\d+)@/g)) if (!seen.has(sent)) waiting.add(sent);
    }
    // The next frame shows the change; what is posted from inside of it comes after the painting.
    if (waiting.size > 0 && frame === 0) {
      frame = requestAnimationFrame(() => {
        frame = 0;
        painted.port2.postMessage(null);
      });
    }
  };
  globalThis.watching = new MutationObserver(look);
  globalThis.watching.observe(document.body, { subtree: true, childList: true, characterData: true });
}

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ARGS });
const context = await browser.newContext({ viewport: { width: 1280, height: 720 }, locale: "en-US", reducedMotion: "reduce" });
const page = await context.newPage();
const say = (answer) => process.stdout.write(`${JSON.stringify(answer)}\n`);

const wishes = {
  /** Goes to a view as somebody does who opens it first; how long until its words were on the screen. */
  async first({ address, port, bearer, view, words }) {
    await context.addCookies([{ name: `teamster-studio-${port}`, value: bearer, domain: "127.0.0.1", path: "/", httpOnly: true, sameSite: "Strict" }]);
    await page.addInitScript((wanted) => {
      const look = () => {
        const text = document.body?.textContent ?? "";
        if (!wanted.every((one) => text.includes(one))) requestAnimationFrame(look);
        else requestAnimationFrame(() => (globalThis.firstView ??= performance.now()));
      };
      look();
    }, words);
    await page.goto(`${address}${view}`);
    await page.waitForFunction(() => globalThis.firstView !== undefined);
    return { milliseconds: await page.evaluate(() => globalThis.firstView) };
  },
  /** Goes to the list of teams and follows the link of this name. */
  async follow({ name }) {
    await page.evaluate(() => (location.hash = "#/"));
    await page.locator("main").getByRole("link", { name: new RegExp(name) }).click();
    return { followed: true };
  },
  /** Shows a view, and watches a part of it. */
  async watch({ view, press, selector }) {
    if (view) await page.evaluate((hash) => (location.hash = hash), view);
    if (press) await page.getByRole("tab", { name: press }).click();
    await page.locator(selector).first().waitFor();
    await page.locator('[data-connection="live"]').waitFor();
    await page.evaluate(observe, selector);
    return { watching: true };
  },
  /** Waits for the last change; when each was seen, in milliseconds since the epoch. */
  async seen({ last }) {
    await page.waitForFunction((sent) => globalThis.seen.has(sent), String(last));
    return { seen: await page.evaluate(() => [...globalThis.seen].map(([sent, at]) => [Number(sent), at])) };
  },
};

say({ ready: true });
for await (const line of createInterface({ input: process.stdin })) {
  const { wish, ...how } = JSON.parse(line);
  if (wish === "end") break;
  try {
    say(await wishes[wish](how));
  } catch (error) {
    say({ error: String(error) });
  }
}
await browser.close();
process.exit(0);

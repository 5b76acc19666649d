// The facts that the page of a team shows, read off the screen, and the same facts of a view of the server's.

import type { Page } from "playwright-core";
import type { TeamView } from "../src/api";
import { money, short } from "../src/lib/format";
import { en } from "../src/words/en";

/** What a person can read off the view of a team. */
export interface Facts {
  seq: number;
  name: string;
  progress: string;
  stage: string | null;
  spent: string;
  tasks: string[];
  workers: string[];
  messages: number;
}

const words = en as Record<string, string>;

/** The facts of a view. */
export function factsOf(view: TeamView): Facts {
  const { progress, run, cost } = view;
  const least = cost.total.atLeast ? "≥ " : "";
  const usd = cost.total.costUsd === null ? "" : ` · ${cost.total.costAtLeast ? "≥ " : ""}${money(cost.total.costUsd)}`;
  return {
    seq: view.seq,
    name: view.name,
    progress: `${progress.completedTasks} of ${progress.totalTasks} tasks done; ${progress.inProgressTasks} in progress`,
    stage: run ? (words[`stage.${run.finished ? "end" : run.stage}`] ?? null) : null,
    // Nothing that was counted, although there may have been something, is no figure.
    spent: cost.total.reports === 0 || (cost.total.atLeast && cost.total.tokens === 0 && cost.total.costUsd === null) ? "–" : `${least}${short(cost.total.tokens)}${usd}`,
    tasks: view.tasks.map(({ id, subject, owner, state }) => `#${id} ${subject} ${owner ?? ""} ${words[`state.${state}`]}`),
    workers: view.workers.map(({ name, verdict, status, currentTaskId }) => `${name} ${words[`verdict.${verdict === "unknown" && status === "stopped" ? status : verdict}`]} ${currentTaskId ?? ""}`.trim()),
    messages: view.messageCount,
  };
}

/** The facts on the screen, in the view of a team. */
export async function factsOn(page: Page): Promise<Facts> {
  return page.evaluate(() => {
    const text = (element: Element | null | undefined) => (element?.textContent ?? "").replace(/\s+/g, " ").trim();
    const head = document.querySelector(".head");
    // The word of a pill without its sign.
    const word = (pill: Element | null | undefined) => [...(pill?.childNodes ?? [])].filter((node) => node.nodeType === Node.TEXT_NODE).map((node) => node.textContent).join("").trim();
    const stage = head?.querySelector(".way [aria-current=step]");
    const bar = head?.querySelector("[role=progressbar]");
    const rows = [...document.querySelectorAll('[role=list][aria-label="Tasks"] button.task')];
    const cards = [...document.querySelectorAll("[data-worker]")];
    return {
      seq: Number(document.querySelector("[data-seq]")?.getAttribute("data-seq")),
      name: text(head?.querySelector("h1")),
      progress: `${bar?.getAttribute("aria-label")}; ${/\d+ in progress/.exec(bar?.getAttribute("aria-valuetext") ?? "")?.[0]}`,
      stage: stage ? text(stage).replace(/\s*\(round.*$/, "") : null,
      spent: text(head?.querySelector(".spend")),
      tasks: rows.map((row) => `${text(row.children[0])} ${text(row.querySelector(".subject bdi"))} ${text(row.querySelector(".owner"))} ${word(row.querySelector(".pill"))}`),
      workers: cards.map((card) => `${card.getAttribute("data-worker")} ${word(card.querySelector(".pill"))} ${text(card.querySelector(".link")).replace("#", "")}`.trim()),
      messages: Number(/\d+/.exec(text(document.querySelector("#tab-messages")))?.[0] ?? 0),
    };
  });
}

// A real run of scripted workers: a plan, checks, a gate. What a person waits for can be held back by a file.

import { spawn, type ChildProcess } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import type { TeamView } from "../src/api";
import { BINARY, type Line, type Place, until } from "./kit";

/** What is in the project before anybody works on it. `test.sh` fails there, and `check.sh` passes. */
export const FILES = {
  "add.sh": "echo $(($1 - $2))\n",
  "mul.sh": "echo $(($1 + $2))\n",
  "readme.txt": "A shop.\n",
  "test.sh": "test $(sh add.sh 2 2) = 4 && test $(sh mul.sh 3 3) = 9 && echo all sums are right\n",
  "check.sh": "test -s readme.txt\n",
};

const PLAN = {
  tasks: [
    { id: "add", subject: "Mend adding", owner: "worker-1" },
    { id: "mul", subject: "Mend multiplying", owner: "worker-2" },
    { id: "news", subject: "Tell of it", blockedBy: ["add", "mul"] },
  ],
};

/** Both who mend wait for the file `go`; a revision writes what it was asked for into a file. */
const script = (place: Place) => `
[[step]]
task = "add"
do = "run"
command = "until test -e ${place.root}/go; do sleep 0.02; done"
[[step]]
task = "add"
do = "edit"
path = "add.sh"
find = "$1 - $2"
replace = "$1 + $2"
[[step]]
task = "add"
do = "usage"
tokens_in = 5200
tokens_out = 640
usd = 0.25

[[step]]
task = "mul"
do = "run"
command = "until test -e ${place.root}/go; do sleep 0.02; done"
[[step]]
task = "mul"
do = "edit"
path = "mul.sh"
find = "$1 + $2"
replace = "$1 * $2"

[[step]]
task = "news"
do = "edit"
path = "news.txt"
content = "both are mended\\n"

[[step]]
task = "Revise: "
do = "run"
command = "cp $TEAMSTER_TASK_FILE revised.json"
`;

/** A run that was started, to its end. */
export class StartedRun {
  readonly #process: ChildProcess;
  /** Its exit code. */
  readonly ended: Promise<number | null>;
  printed = "";

  constructor(
    readonly place: Place,
    readonly team: string,
    words: string[],
  ) {
    place.keep(team);
    this.#process = spawn(BINARY, ["run", ...words, "--team", team], { cwd: place.project, env: place.env, stdio: ["ignore", "pipe", "pipe"] });
    for (const output of [this.#process.stdout, this.#process.stderr]) {
      output?.on("data", (piece: Buffer) => {
        this.printed += piece.toString();
      });
    }
    this.ended = new Promise((done) => this.#process.once("exit", done));
  }

  /** The events of one type in its journal, once there is one. */
  events(type: string): Line[] {
    return existsSync(this.place.journalFile(this.team)) ? this.place.journal(this.team).filter((line) => line.type === type) : [];
  }

  /** Waits until something is so; an error says what the run printed. */
  async until(what: string, is: () => Promise<boolean> | boolean): Promise<void> {
    await until(what, is).catch((error: unknown) => {
      throw new Error(`${String(error)}; the run ${this.#process.exitCode === null ? "goes on" : `ended with ${this.#process.exitCode}`} and printed:\n${this.printed}`);
    });
  }

  /** The gate that is open, by the journal. */
  async gate(number = 1): Promise<{ gate: string; commit: string }> {
    await this.until(`gate ${number} of ${this.team}`, () => this.events("approval.requested").length >= number);
    return this.events("approval.requested").at(-1)?.["data"] as { gate: string; commit: string };
  }

  /** Stops it if it did not end by itself. */
  async stop(): Promise<void> {
    if (this.#process.exitCode !== null) return;
    this.#process.kill("SIGKILL");
    await this.ended;
    await this.place.teamster("shutdown", "--team", this.team, "--force").catch(() => undefined);
  }
}

/** A run of two scripted workers that mend the shop. */
export class Run extends StartedRun {
  constructor(place: Place, team: string, more: string[] = []) {
    const plan = place.write("../plan.json", JSON.stringify(PLAN));
    const played = place.write("../script.toml", script(place));
    super(place, team, ["2:w", "mend the shop", "--provider", `w=scripted:${played}`, "--plan", plan, "--verify", "sh test.sh", "--verify", "sh check.sh", ...more]);
  }

  /** Lets the workers go on who wait. */
  go(): void {
    writeFileSync(join(this.place.root, "go"), "");
  }
}

/** Goes to a view of a team. */
export async function show(page: Page, to: string): Promise<void> {
  await page.evaluate((hash) => {
    location.hash = hash;
  }, to.startsWith("#") ? to : `#/team/${to}`);
}

/** The stage that the page says the run is at. */
export async function stageOf(page: Page): Promise<string> {
  return ((await page.getByRole("list", { name: "Stages of the run" }).locator("[aria-current=step]").textContent()) ?? "").trim();
}

/** What the API says of a team. */
export const viewOf = (place: Place, team: string) => place.api<TeamView>(`/api/v1/teams/${team}`);

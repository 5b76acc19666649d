// A home and a project of one's own, the real binary in them, and the system's Chromium in front of it.

import { execFile, spawn, type ChildProcess } from "node:child_process";
import { appendFileSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium, type Browser, type BrowserContextOptions, type Page } from "playwright-core";

const HERE = dirname(fileURLToPath(import.meta.url));
export const BINARY = process.env["TEAMSTER_BIN"] ?? resolve(HERE, "../../target/debug/teamster");
const CHROMIUM = process.env["CHROMIUM"] ?? "/usr/bin/chromium";

/** A name that leads here as a name of an attacker's would: the browser resolves it to the loopback. */
export const REBOUND = "rebound.example";

/** Nothing but what a test asks for goes out, and whatever the machine is, the browser starts. */
const ARGS = [
  "--no-sandbox",
  "--disable-dev-shm-usage",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--no-first-run",
  "--disable-quic",
  `--host-resolver-rules=MAP ${REBOUND} 127.0.0.1`,
  // The server alone must refuse other pages: not every browser keeps them from the loopback.
  "--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests",
];

/** What Studio said of itself. */
export interface Address {
  url: string;
  address: string;
  port: number;
  bearer: string;
}

/** A line of the journal. */
export interface Line {
  seq: number;
  type: string;
  [key: string]: unknown;
}

/** A home, a project, and everything that was started in them. */
export class Place {
  readonly root = realpathSync(mkdtempSync(join(tmpdir(), "teamster-page-")));
  readonly project = join(this.root, "shop");
  studio: Address | null = null;
  /** Everything that Studio printed, both of its outputs. */
  printed = "";
  #server: ChildProcess | null = null;
  #teams = new Set<string>();

  constructor() {
    mkdirSync(join(this.root, "home"));
    mkdirSync(this.project);
  }

  get env(): NodeJS.ProcessEnv {
    const kept = Object.entries(process.env).filter(([name]) => !/^(TEAMSTER|CLAUDE|XDG|GIT)_?/.test(name));
    return { ...Object.fromEntries(kept), HOME: join(this.root, "home"), NO_COLOR: "1" };
  }

  /** Runs a program to its end. */
  run(program: string, words: string[]): Promise<string> {
    return new Promise((done, failed) => {
      const child = execFile(program, words, { cwd: this.project, env: this.env, maxBuffer: 1 << 26 }, (error, out, err) => {
        if (error) failed(new Error(`${program} ${words.join(" ")}: ${error.message}\n${out}${err}`));
        else done(out);
      });
      child.stdin?.destroy();
    });
  }

  /** Runs teamster. */
  teamster(...words: string[]): Promise<string> {
    return this.run(BINARY, words);
  }

  /** A git repository with one commit. */
  async git(files: Record<string, string>): Promise<void> {
    for (const [name, text] of Object.entries(files)) this.write(name, text);
    await this.run("git", ["init", "-q", "-b", "main"]);
    for (const [key, value] of [["user.name", "A Person"], ["user.email", "person@example.org"]] as const) {
      await this.run("git", ["config", key, value]);
    }
    await this.run("git", ["add", "-A"]);
    await this.run("git", ["commit", "-q", "-m", "Begin"]);
  }

  /** Writes a file of the project. */
  write(name: string, text: string): string {
    const path = join(this.project, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
    return path;
  }

  /** Remembers to stop a team at the end. */
  keep(team: string): void {
    this.#teams.add(team);
  }

  /** Makes a team and remembers to stop it. */
  async team(name: string, members: string[] = []): Promise<void> {
    this.keep(name);
    await this.teamster("team", "create", name, ...(members.length > 0 ? ["--members", members.join(",")] : []));
  }

  journalFile(team: string): string {
    return join(this.root, "home/.claude/teams", team, "events.jsonl");
  }

  /** The journal of a team. */
  journal(team: string): Line[] {
    const text = readFileSync(this.journalFile(team), "utf8");
    return text.split("\n").filter((line) => line !== "").map((line) => JSON.parse(line) as Line);
  }

  /** Adds events of a run that was recorded, as the host of a run writes them. */
  record(team: string, events: { type: string; actor?: string; taskId?: string; data: unknown; ts?: string }[]): void {
    let seq = this.journal(team).at(-1)?.seq ?? 0;
    const lines = events.map(({ type, actor = "host", taskId, data, ts = new Date().toISOString() }) => {
      seq += 1;
      return JSON.stringify({ seq, id: `recorded-${team}-${seq}`, ts, team, type, actor, ...(taskId ? { taskId } : {}), data });
    });
    appendFileSync(this.journalFile(team), `${lines.join("\n")}\n`);
  }

  /** Starts Studio. */
  async open(port = 0): Promise<Address> {
    const text = await this.#serve(["--port", String(port), "--json"], (said) => said.endsWith("}\n"));
    this.studio = JSON.parse(text) as Address;
    return this.studio;
  }

  /** Starts Studio as a person does; the address that it tells. */
  async openByHand(): Promise<string> {
    const text = await this.#serve(["--port", "0"], (said) => said.includes("Ctrl-C"));
    return /http:\S+/.exec(text)?.[0] ?? "";
  }

  /** Runs the server; what it had printed when `told` was content. */
  #serve(words: string[], told: (said: string) => boolean): Promise<string> {
    const server = spawn(BINARY, ["studio", ...words], { cwd: this.project, env: this.env, stdio: ["ignore", "pipe", "pipe"] });
    this.#server = server;
    this.printed = "";
    return new Promise((done, failed) => {
      let said = "";
      server.stdout.on("data", (piece: Buffer) => {
        said += piece.toString();
        this.printed += piece.toString();
        if (told(said)) done(said);
      });
      server.stderr.on("data", (piece: Buffer) => {
        this.printed += piece.toString();
      });
      server.once("exit", () => failed(new Error(`studio did not start: ${this.printed}`)));
    });
  }

  /** Kills Studio as nothing can keep it from. */
  async kill(): Promise<void> {
    const server = this.#server;
    this.#server = null;
    if (!server || server.exitCode !== null) return;
    const gone = new Promise((done) => server.once("exit", done));
    server.kill("SIGKILL");
    await gone;
  }

  /** What the API answers. */
  async api<T>(path: string): Promise<T> {
    if (!this.studio) throw new Error("Studio is not open");
    const answer = await fetch(new URL(path, this.studio.address), { headers: { authorization: `Bearer ${this.studio.bearer}` } });
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    return (await answer.json()) as T;
  }

  /** Stops everything and leaves nothing behind. */
  async end(): Promise<void> {
    await this.kill();
    for (const team of this.#teams) await this.teamster("shutdown", "--team", team, "--force").catch(() => undefined);
    rmSync(this.root, { recursive: true, force: true });
  }
}

/** The browser. */
export function browser(): Promise<Browser> {
  return chromium.launch({ executablePath: CHROMIUM, args: ARGS });
}

/** What a page did that it must not. */
export interface Seen {
  page: Page;
  errors: string[];
}

/** A browser that has the key already, at the list of teams. */
export async function visit(chrome: Browser, place: Place, options: BrowserContextOptions = {}): Promise<Seen> {
  const { address, bearer, port } = place.studio ?? (await place.open());
  const context = await chrome.newContext({ viewport: { width: 1280, height: 720 }, locale: "en-US", reducedMotion: "reduce", ...options });
  await context.addCookies([{ name: `teamster-studio-${port}`, value: bearer, domain: "127.0.0.1", path: "/", httpOnly: true, sameSite: "Strict" }]);
  const page = await context.newPage();
  const errors: string[] = [];
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (message) => {
    // A server that is down is told by the page itself; everything else, a refused style too, is a mistake.
    if (message.type() === "error" && !/ERR_CONNECTION|ERR_EMPTY|ERR_INCOMPLETE|Failed to load resource/.test(message.text())) errors.push(message.text());
  });
  await page.goto(address);
  return { page, errors };
}

/** Waits until something is so. */
export async function until(what: string, is: () => Promise<boolean> | boolean, within = 60_000): Promise<void> {
  const end = Date.now() + within;
  while (!(await is())) {
    if (Date.now() > end) throw new Error(`${what} did not happen within ${within / 1000} s`);
    await new Promise((done) => setTimeout(done, 50));
  }
}

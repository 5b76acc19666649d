// A stream of events that comes back by itself and goes on where it was.
//
// The browser's own EventSource cannot be told where to go on after the page was asleep, and does not say why it
// failed. This one asks with `fetch`, sends the last id itself, waits longer after each failure, and tells its state.

import { Parser, type Sent } from "./sse";

/** How the connection is. */
export type Connection = "connecting" | "live" | "waiting" | "closed";

/** What a stream needs from outside; tests bring their own. */
export interface World {
  fetch: (url: string, init: RequestInit) => Promise<Response>;
  later: (run: () => void, ms: number) => () => void;
  random: () => number;
}

/** Who hears of it. */
export interface Listener {
  /** An event. Journal events come each once and in order. */
  event: (sent: Sent) => void;
  /** The connection changed; `retryIn` in milliseconds while it waits. */
  connection: (state: Connection, retryIn: number) => void;
  /** The server refused for good: asking again does not help. */
  refused: (status: number) => void;
}

const FIRST_WAIT = 250;
const LONGEST_WAIT = 10_000;

/** How long to wait after so many failures in a row: doubled each time, and spread, so that pages do not come at once. */
export function waitAfter(failures: number, random: number, asked: number | null = null): number {
  const longest = Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** Math.max(0, failures - 1));
  return Math.round(Math.max(asked ?? 0, longest * (0.5 + random / 2)));
}

const browser: World = {
  fetch: (url, init) => fetch(url, init),
  later: (run, ms) => {
    const timer = setTimeout(run, ms);
    return () => clearTimeout(timer);
  },
  random: () => Math.random(),
};

/** A tab that is unseen for so long gives its connections back, in milliseconds: a browser has six of them for all. */
export const UNSEEN = 10_000;

/** Lets a stream rest while nobody looks; what is answered ends that. */
export function restUnseen(stream: { rest: () => void; wake: () => void }): () => void {
  let resting: ReturnType<typeof setTimeout> | undefined;
  const seen = () => {
    clearTimeout(resting);
    if (document.hidden) resting = setTimeout(() => stream.rest(), UNSEEN);
    else stream.wake();
  };
  document.addEventListener("visibilitychange", seen);
  return () => {
    clearTimeout(resting);
    document.removeEventListener("visibilitychange", seen);
  };
}

/** One stream. */
export class Stream {
  /** The id of the last event that the listener got. */
  lastId: string | null;
  #failures = 0;
  #stop: AbortController | null = null;
  #cancelWait: (() => void) | null = null;
  #closed = false;
  #resting = false;

  constructor(
    readonly url: string,
    readonly listener: Listener,
    lastId: string | null = null,
    readonly world: World = browser,
  ) {
    this.lastId = lastId;
    void this.#connect();
  }

  /** Ends it. */
  close(): void {
    this.#closed = true;
    this.#cancelWait?.();
    this.#stop?.abort();
    this.listener.connection("closed", 0);
  }

  /** Gives the connection back until it is wanted again: a browser has few of them for all its tabs. */
  rest(): void {
    if (this.#resting || this.#closed) return;
    this.#resting = true;
    this.#cancelWait?.();
    this.#cancelWait = null;
    this.#stop?.abort();
  }

  /** Goes on where it was. */
  wake(): void {
    if (!this.#resting || this.#closed) return;
    this.#resting = false;
    void this.#connect();
  }

  /** Does not wait any longer: a person asked, or the network is back. */
  hurry(): void {
    if (!this.#cancelWait || this.#closed) return;
    this.#cancelWait();
    this.#cancelWait = null;
    void this.#connect();
  }

  async #connect(): Promise<void> {
    const stop = new AbortController();
    this.#stop = stop;
    this.listener.connection("connecting", 0);
    const parser = new Parser();
    try {
      const headers: Record<string, string> = { accept: "text/event-stream" };
      if (this.lastId !== null) headers["last-event-id"] = this.lastId;
      const answer = await this.world.fetch(this.url, { headers, signal: stop.signal, cache: "no-store" });
      if (!answer.ok || !answer.body) {
        if ([401, 403, 404].includes(answer.status)) {
          this.#closed = true;
          this.listener.refused(answer.status);
          return;
        }
        throw new Error(`status ${answer.status}`);
      }
      const reader = answer.body.getReader();
      const decoder = new TextDecoder();
      for (;;) {
        const { done, value } = await reader.read();
        if (done || this.#closed || stop.signal.aborted) break;
        for (const sent of parser.push(decoder.decode(value, { stream: true }))) this.#take(sent);
      }
    } catch {
      // Whatever it was, the answer is the same: come back later, and go on at the last id.
    }
    // Whoever rests, or has been woken meanwhile, does not come back twice.
    if (this.#closed || this.#resting || this.#stop !== stop) return;
    this.#failures += 1;
    const wait = waitAfter(this.#failures, this.world.random(), parser.retry);
    this.listener.connection("waiting", wait);
    this.#cancelWait = this.world.later(() => {
      this.#cancelWait = null;
      void this.#connect();
    }, wait);
  }

  #take(sent: Sent): void {
    if (this.#closed) return;
    if (sent.event === "hello") {
      this.#failures = 0;
      this.listener.connection("live", 0);
    }
    if (sent.id !== null) {
      // A server that sends an event again, or out of order, is not believed. Only numbers have an order: the id of a part
      // of a log names a place in a file, and the next one may be in another file.
      if (this.lastId !== null && Number(sent.id) <= Number(this.lastId)) return;
      this.lastId = sent.id;
    }
    this.listener.event(sent);
  }
}

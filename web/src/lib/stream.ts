// A stream of events that comes back by itself and goes on where it was.
//
// The browser's own EventSource cannot be told where to go on after the page was asleep, does not say why it failed, and has a
// connection of its own. This one is a channel of the connection that all pages share, sends the last id itself, waits longer
// after each failure, and tells its state.

import { opener } from "./opener";
import { follow, type Wanted } from "./shared";
import { Parser, type Sent } from "./sse";

/** How the connection is. */
export type Connection = "connecting" | "live" | "waiting" | "closed";

/** What a stream needs from outside; tests bring their own. */
export interface World {
  follow: (wanted: Wanted, signal: AbortSignal) => Promise<Response>;
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
  follow: (wanted, signal) => follow(opener(), wanted, signal),
  later: (run, ms) => {
    const timer = setTimeout(run, ms);
    return () => clearTimeout(timer);
  },
  random: () => Math.random(),
};

/** A tab that is unseen for so long is told nothing more until it is seen again, in milliseconds. */
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
    readonly wanted: Wanted,
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

  /** Is told nothing more until it is wanted again. */
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
      const answer = await this.world.follow({ ...this.wanted, last: this.lastId }, stop.signal);
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

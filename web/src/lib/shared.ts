// One connection to the server for all pages of a browser, which has six of them for all its tabs.
//
// A page asks for a stream as it would with `fetch` and gets the answer that a connection of its own would have had. Behind it
// `Exchange` keeps one connection and opens a channel on it for each stream. It runs in a worker that all pages share, and in the
// page itself where a browser has no such worker.

import { routes, type ChannelRefused, type OpenChannel, type SharedHello } from "../api";

/** What a page wants to follow. */
export type Wanted = Partial<Omit<OpenChannel, "channel">>;

/** Whoever opened a channel. */
export interface Follower {
  /** It is open, or was refused with this status; 0 when the server cannot be reached. */
  status: (status: number) => void;
  /** Events, as they were sent. */
  text: (text: string) => void;
  /** Nothing more comes. */
  end: () => void;
}

/** A request for the connection or for channels; tests bring their own. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

interface Channel {
  wanted: Wanted;
  follower: Follower;
  isOpen: boolean;
}

/** One connection with many channels. */
export class Exchange {
  #channels = new Map<number, Channel>();
  #next = 1;
  /** Ends the connection; `null` when there is none. */
  #stop: AbortController | null = null;
  /** The name of the connection, once the server has told it. */
  #stream: string | null = null;
  /** What the server has not been told yet. */
  #open: number[] = [];
  #close: number[] = [];
  #telling = false;

  constructor(readonly fetch: Fetch) {}

  /** Opens a channel; what is answered closes it. */
  open(wanted: Wanted, follower: Follower): () => void {
    const channel = this.#next;
    this.#next += 1;
    this.#channels.set(channel, { wanted, follower, isOpen: false });
    this.#open.push(channel);
    if (!this.#stop) void this.#connect();
    else void this.#tell();
    return () => this.#leave(channel);
  }

  #leave(channel: number): void {
    if (!this.#channels.delete(channel)) return;
    this.#open = this.#open.filter((other) => other !== channel);
    // A connection that nobody needs is given back.
    if (this.#channels.size === 0) {
      this.#drop();
      return;
    }
    this.#close.push(channel);
    void this.#tell();
  }

  /** Forgets the connection. */
  #drop(): void {
    this.#stop?.abort();
    this.#stop = null;
    this.#stream = null;
    this.#open = [];
    this.#close = [];
  }

  /** Ends every channel, because the connection is over; those that were never open hear why. */
  #fail(status: number): void {
    const channels = [...this.#channels.values()];
    this.#channels.clear();
    this.#drop();
    for (const { follower, isOpen } of channels) {
      if (isOpen) follower.end();
      else follower.status(status);
    }
  }

  async #connect(): Promise<void> {
    const stop = new AbortController();
    this.#stop = stop;
    let status = 0;
    try {
      const answer = await this.fetch(routes.sharedStream.path, {
        headers: { accept: "text/event-stream" },
        signal: stop.signal,
        cache: "no-store",
      });
      if (answer.ok && answer.body) {
        const reader = answer.body.getReader();
        const decoder = new TextDecoder();
        let rest = "";
        for (;;) {
          const { done, value } = await reader.read();
          if (done || stop.signal.aborted) break;
          const events = (rest + decoder.decode(value, { stream: true })).split("\n\n");
          rest = events.pop() ?? "";
          for (const event of events) this.#take(event);
        }
      } else {
        status = answer.status;
      }
    } catch {
      // Whoever follows a channel comes back by itself.
    }
    // A connection that was given back on purpose, or has been replaced, fails nobody.
    if (this.#stop === stop) this.#fail(status);
  }

  #take(event: string): void {
    const marked = /^channel: (\d+)\n/.exec(event);
    if (!marked) {
      const hello = dataOf<SharedHello>(event, "hello");
      if (hello) {
        this.#stream = hello.stream;
        void this.#tell();
      }
      return;
    }
    const number = Number(marked[1]);
    const channel = this.#channels.get(number);
    if (!channel) return;
    const text = event.slice(marked[0].length);
    const refused = dataOf<ChannelRefused>(text, "refused");
    if (refused || text.startsWith("event: end\n")) {
      this.#channels.delete(number);
      if (channel.isOpen) channel.follower.end();
      else channel.follower.status(refused?.status ?? 0);
      if (this.#channels.size === 0) this.#drop();
      return;
    }
    if (!channel.isOpen) {
      channel.isOpen = true;
      channel.follower.status(200);
    }
    channel.follower.text(`${text}\n\n`);
  }

  /** Tells the server what to open and to close, one request after the other, so that none overtakes another. */
  async #tell(): Promise<void> {
    if (this.#telling) return;
    this.#telling = true;
    try {
      while (this.#stream !== null && this.#open.length + this.#close.length > 0) {
        const [stream, stop] = [this.#stream, this.#stop];
        const open = this.#open.flatMap((channel) => {
          const wanted = this.#channels.get(channel)?.wanted;
          return wanted ? [{ channel, ...wanted }] : [];
        });
        const close = this.#close;
        this.#open = [];
        this.#close = [];
        let ok = false;
        try {
          const answer = await this.fetch(routes.follow.path.replace("{stream}", stream), {
            method: "POST",
            headers: { "content-type": "application/json" },
            body: JSON.stringify({ open, close }),
          });
          ok = answer.ok;
        } catch {
          // As below.
        }
        // The server does not know the connection any more: everything begins anew.
        if (!ok && this.#stop === stop) this.#fail(0);
      }
    } finally {
      this.#telling = false;
    }
  }
}

/** The data of an event, if it has this name. */
function dataOf<T>(event: string, name: string): T | null {
  const begin = `event: ${name}\ndata: `;
  return event.startsWith(begin) ? (JSON.parse(event.slice(begin.length)) as T) : null;
}

/** Whoever says this holds the lock of this name as long as it is there: nothing else tells how a page or a worker went. */
interface Held {
  kind: "lock";
  name: string;
}

/** What a page says to the shared worker. */
export type Asked = Held | { kind: "open"; id: number; wanted: Wanted } | { kind: "close"; id: number };

/** What the shared worker says to a page. */
export type Told =
  | Held
  | { kind: "status"; id: number; status: number }
  | { kind: "text"; id: number; text: string }
  | { kind: "end"; id: number };

/** The end of a message channel, as far as it is needed here. */
export interface Port {
  postMessage: (message: Asked | Told) => void;
  onmessage: ((event: MessageEvent) => void) | null;
}

/** Calls back when nobody holds the lock of this name any more. */
export type WhenFree = (name: string, free: () => void) => void;

/** Serves one page from the shared worker until the page is gone. */
export function serve(exchange: Exchange, port: Port, whenFree: WhenFree): void {
  const open = new Map<number, () => void>();
  const leave = () => {
    for (const close of open.values()) close();
    open.clear();
  };
  port.onmessage = ({ data }: MessageEvent) => {
    const asked = data as Asked;
    if (asked.kind === "lock") {
      whenFree(asked.name, leave);
    } else if (asked.kind === "close") {
      open.get(asked.id)?.();
      open.delete(asked.id);
    } else {
      const { id, wanted } = asked;
      const close = exchange.open(wanted, {
        status: (status) => {
          if (status !== 200) open.delete(id);
          port.postMessage({ kind: "status", id, status });
        },
        text: (text) => port.postMessage({ kind: "text", id, text }),
        end: () => {
          open.delete(id);
          port.postMessage({ kind: "end", id });
        },
      });
      open.set(id, close);
    }
  };
}

/** Opens channels through the shared worker; `lost` is called when there is none any more. */
export class Client {
  #followers = new Map<number, Follower>();
  #next = 1;

  constructor(
    readonly port: Port,
    whenFree: WhenFree,
    readonly lost: () => void,
  ) {
    port.onmessage = ({ data }: MessageEvent) => {
      const told = data as Told;
      if (told.kind === "lock") {
        whenFree(told.name, () => this.fail());
        return;
      }
      const follower = this.#followers.get(told.id);
      if (!follower) return;
      if (told.kind === "text") follower.text(told.text);
      else if (told.kind === "status") follower.status(told.status);
      else follower.end();
      if (told.kind === "end" || (told.kind === "status" && told.status !== 200)) this.#followers.delete(told.id);
    };
  }

  /** Opens a channel; what is answered closes it. */
  open(wanted: Wanted, follower: Follower): () => void {
    const id = this.#next;
    this.#next += 1;
    this.#followers.set(id, follower);
    this.port.postMessage({ kind: "open", id, wanted });
    return () => {
      if (this.#followers.delete(id)) this.port.postMessage({ kind: "close", id });
    };
  }

  /** The worker is not there: another way is taken, and whoever waits comes back on it. */
  fail(): void {
    this.lost();
    const followers = [...this.#followers.values()];
    this.#followers.clear();
    for (const follower of followers) follower.end();
  }
}

/** Whatever opens channels. */
export type Opener = Pick<Exchange, "open">;

/** Follows a channel as `fetch` follows a connection. */
export function follow(opener: Opener, wanted: Wanted, signal: AbortSignal): Promise<Response> {
  return new Promise((done, failed) => {
    const encoder = new TextEncoder();
    let body: ReadableStreamDefaultController<Uint8Array> | null = null;
    const unreachable = () => new TypeError("the server cannot be reached");
    const close = opener.open(wanted, {
      status: (status) => {
        if (status === 0) {
          failed(unreachable());
        } else if (status === 200) {
          const stream = new ReadableStream<Uint8Array>({
            start: (controller) => {
              body = controller;
            },
            cancel: () => close(),
          });
          done(new Response(stream));
        } else {
          done(new Response(null, { status }));
        }
      },
      text: (text) => body?.enqueue(encoder.encode(text)),
      end: () => {
        body?.close();
        body = null;
        failed(unreachable());
      },
    });
    signal.addEventListener("abort", () => {
      close();
      body?.error(new DOMException("aborted", "AbortError"));
      body = null;
      failed(new DOMException("aborted", "AbortError"));
    });
  });
}

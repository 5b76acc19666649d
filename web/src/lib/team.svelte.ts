// One team on the screen: live from the stream, or a past moment from the journal.

import type { Event, Hello, Patch, TeamView } from "../api";
import { ask, Newest, Refused } from "./client";
import { patched } from "./patch";
import type { Sent } from "./sse";
import { Stream, type Connection } from "./stream";

/** Journal events that are kept for the list of what happened. */
const RECENT = 500;

/** One team. */
export class Team {
  /** Its name in the API. */
  readonly key: string;
  /** As it is now. */
  live = $state.raw<TeamView | null>(null);
  /** As it was at the moment a person chose. */
  past = $state.raw<TeamView | null>(null);
  /** The position a person chose; `null` for now. */
  at = $state<number | null>(null);
  /** How the stream is. */
  connection = $state<Connection>("connecting");
  /** When the stream comes back, in milliseconds since the epoch; 0 when it does not wait. */
  retryAt = $state(0);
  /** Why there is nothing to show. */
  missing = $state<"gone" | "refused" | null>(null);
  /** What happened lately, the newest last, each event once. */
  events = $state.raw<Event[]>([]);
  /** How many journal events came since the page was opened. */
  heard = $state(0);
  /** The version of the server. */
  version = $state<string | null>(null);
  #stream: Stream;
  #newest = new Newest();
  #waiting: Event[] = [];
  #frame = 0;

  /** `others` hears what the stream tells about all teams; `alone` is called when the stream ends for good. */
  constructor(
    key: string,
    readonly others: (sent: Sent) => void,
    readonly alone: () => void,
  ) {
    this.key = key;
    this.#stream = this.#listen(null);
    void this.#recent();
  }

  /** What to show. */
  get view(): TeamView | null {
    return this.at === null ? this.live : (this.past ?? this.live);
  }

  /** Goes to a past moment, or back to now. */
  async go(seq: number | null): Promise<void> {
    const last = this.live?.seq ?? 0;
    if (seq === null || seq >= last) {
      this.#newest.drop();
      this.at = null;
      this.past = null;
      return;
    }
    const at = Math.max(1, seq);
    this.at = at;
    try {
      const view = await this.#newest.ask((signal) => ask<TeamView>("team", { team: this.key }, { at }, signal));
      if (view && this.at !== null) this.past = view;
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      this.at = null;
      this.past = null;
    }
  }

  /** Nobody looks. */
  rest(): void {
    this.#stream.rest();
  }

  /** Somebody looks again. */
  wake(): void {
    this.#stream.wake();
  }

  /** Comes back at once instead of waiting. */
  hurry(): void {
    this.#stream.hurry();
  }

  /** Ends it. */
  close(): void {
    cancelAnimationFrame(this.#frame);
    this.#newest.drop();
    this.#stream.close();
  }

  #listen(after: string | null): Stream {
    return new Stream(
      { team: this.key, overview: true },
      {
        event: (sent) => this.#hear(sent),
        connection: (state, retryIn) => {
          this.connection = state;
          this.retryAt = retryIn > 0 ? Date.now() + retryIn : 0;
        },
        refused: (status) => {
          this.connection = "closed";
          this.missing = status === 404 ? "gone" : "refused";
          this.alone();
        },
      },
      after,
    );
  }

  /** The events before the page was opened; those of the stream come behind them. */
  async #recent(): Promise<void> {
    try {
      const { events } = await ask<{ events: Event[] }>("journal", { team: this.key }, { limit: 200 });
      const first = this.events[0]?.seq ?? Number.POSITIVE_INFINITY;
      this.events = [...events.filter((event) => event.seq < first), ...this.events].slice(-RECENT);
    } catch {
      // A session's state file has no journal; the list then begins with the next event.
    }
  }

  #hear(sent: Sent): void {
    switch (sent.event) {
      case "hello": {
        const hello = JSON.parse(sent.data) as Hello;
        // A newer server may speak otherwise: its own page is loaded then.
        if (this.version !== null && this.version !== hello.version) location.reload();
        this.version = hello.version;
        break;
      }
      case "view": {
        const view = JSON.parse(sent.data) as TeamView;
        // A team that was deleted and made anew begins at 1 again.
        if (view.seq < Number(this.#stream.lastId ?? 0)) {
          this.#stream.lastId = String(view.seq);
          this.events = [];
        }
        // Until the first journal event there is no id to come back with: the view's position is one.
        this.#stream.lastId ??= String(view.seq);
        this.missing = null;
        this.live = view;
        break;
      }
      case "patch":
        if (this.live) this.live = patched(this.live, JSON.parse(sent.data) as Patch);
        break;
      case "journal":
        this.#waiting.push(JSON.parse(sent.data) as Event);
        // Several events between two frames are one change of the screen.
        this.#frame ||= requestAnimationFrame(() => this.#flush());
        break;
      case "overview":
        this.others(sent);
        break;
      case "gone":
        this.missing = "gone";
        this.live = null;
        this.#stream.lastId = null;
        break;
    }
  }

  #flush(): void {
    this.#frame = 0;
    const last = this.events[this.events.length - 1]?.seq ?? 0;
    const news = this.#waiting.filter((event) => event.seq > last);
    this.#waiting = [];
    this.heard += news.length;
    if (news.length > 0) this.events = [...this.events, ...news].slice(-RECENT);
  }
}

// Every team in short, live.

import type { Overview, TeamRow } from "../api";
import type { Sent } from "./sse";
import { Stream, type Connection } from "./stream";

/** The rows that a person needs. A run of ours writes a state file for other viewers, which tells nothing that the team's own row does not. */
export function rowsOf({ teams }: Overview): TeamRow[] {
  const ours = new Set(teams.filter(({ kind }) => kind === "teamster").map(({ id }) => id));
  return teams.filter(({ sameAs }) => sameAs === null || !ours.has(sameAs));
}

/** All teams. */
export class Teams {
  /** What there is; `null` until the server has told it. */
  overview = $state.raw<Overview | null>(null);
  /** How the stream is. */
  connection = $state<Connection>("connecting");
  /** When the stream comes back, in milliseconds since the epoch; 0 when it does not wait. */
  retryAt = $state(0);
  /** Whether the server does not know this browser: the address with the token is needed. */
  refused = $state(false);
  #stream: Stream;

  constructor() {
    this.#stream = new Stream({}, {
      event: (sent) => this.hear(sent),
      connection: (state, retryIn) => {
        this.connection = state;
        this.retryAt = retryIn > 0 ? Date.now() + retryIn : 0;
      },
      refused: () => {
        this.connection = "closed";
        this.refused = true;
      },
    });
  }

  /** Something was sent, on this stream or on that of a team. */
  hear(sent: Sent): void {
    if (sent.event === "overview") this.overview = JSON.parse(sent.data) as Overview;
  }

  /** While the stream of a team tells of all teams too, or nobody looks. */
  rest(): void {
    this.#stream.rest();
  }

  /** Listens again. */
  wake(): void {
    this.#stream.wake();
  }

  /** Comes back at once instead of waiting. */
  hurry(): void {
    this.#stream.hurry();
  }

  /** Ends it. */
  close(): void {
    this.#stream.close();
  }
}

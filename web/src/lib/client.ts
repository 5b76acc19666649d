// Asking the server. Every route and type is the server's own (`api.ts`).

import { routes, type Refusal } from "../api";

/** A route's name. */
export type RouteName = keyof typeof routes;

/** The server said no, or could not be reached. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    readonly kind: string,
    message: string,
    readonly hint: string | null,
  ) {
    super(message);
  }
}

/** The address of a route, its varying parts filled in. */
export function addressOf(
  route: RouteName,
  parts: Record<string, string> = {},
  query: Record<string, string | number | null | undefined> = {},
): string {
  const path = routes[route].path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(parts[name] ?? ""));
  const asked = Object.entries(query).flatMap(([name, value]) =>
    value === null || value === undefined ? [] : [`${name}=${encodeURIComponent(value)}`],
  );
  return asked.length > 0 ? `${path}?${asked.join("&")}` : path;
}

/** What the server answers. */
export async function ask<T>(
  route: RouteName,
  parts: Record<string, string> = {},
  query: Record<string, string | number | null | undefined> = {},
  signal?: AbortSignal,
): Promise<T> {
  return answered<T>(await reach(addressOf(route, parts, query), { signal: signal ?? null, cache: "no-store" }));
}

/** Asks for a change. */
export async function act<T>(route: RouteName, parts: Record<string, string>, body: unknown): Promise<T> {
  return answered<T>(
    await reach(addressOf(route, parts), {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    }),
  );
}

async function reach(url: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(url, init);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Refused(0, "unreachable", "", null);
  }
}

async function answered<T>(answer: Response): Promise<T> {
  if (answer.ok) return (await answer.json()) as T;
  const text = await answer.text();
  try {
    const { error } = JSON.parse(text) as Refusal;
    throw new Refused(answer.status, error.kind, error.message, error.hint);
  } catch (error) {
    if (error instanceof Refused) throw error;
    throw new Refused(answer.status, "failed", text.slice(0, 500), null);
  }
}

/** Only the newest of several questions counts: an older answer that comes late is dropped. */
export class Newest {
  #running: AbortController | null = null;

  /** Runs `question`; `null` when a newer one was asked meanwhile. */
  async ask<T>(question: (signal: AbortSignal) => Promise<T>): Promise<T | null> {
    this.#running?.abort();
    const mine = new AbortController();
    this.#running = mine;
    try {
      const answer = await question(mine.signal);
      return mine.signal.aborted ? null : answer;
    } catch (error) {
      if (mine.signal.aborted) return null;
      throw error;
    }
  }

  /** Drops what is asked. */
  drop(): void {
    this.#running?.abort();
    this.#running = null;
  }
}

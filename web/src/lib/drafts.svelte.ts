// What somebody began to write and has not sent: it is still there when they come back.

const written = $state<Record<string, string>>({});

/** What was written so far. */
export function draftOf(key: string): string {
  return written[key] ?? "";
}

/** Keeps what was written. */
export function keepDraft(key: string, text: string): void {
  written[key] = text;
}

/** Forgets it, because it was sent. */
export function dropDraft(key: string): void {
  delete written[key];
}

// Lines of a log as rows of one height, so that a list of any length can be shown by its visible part alone.

import { oneLine, visible } from "./visible";

/** One row on the screen. */
export interface Row {
  /** The line it belongs to, by its place. */
  line: number;
  /** Whether it begins that line. */
  first: boolean;
  /** What it shows. */
  text: string;
  /** How many characters of the line are not shown; only in a line's last row. */
  hidden: number;
}

/** Rows that one line may take; the rest is shown on demand. */
export const ROWS_OF_A_LINE = 24;

/** Whether a character takes two columns, near enough for wrapping: too early is harmless, too late is cut. */
function isWide(code: number): boolean {
  return (
    (code >= 0x1100 && code <= 0x115f) ||
    (code >= 0x2e80 && code <= 0xa4cf) ||
    (code >= 0xac00 && code <= 0xd7a3) ||
    (code >= 0xf900 && code <= 0xfaff) ||
    (code >= 0xfe30 && code <= 0xfe6f) ||
    (code >= 0xff00 && code <= 0xff60) ||
    (code >= 0xffe0 && code <= 0xffe6) ||
    (code >= 0x1f000 && code <= 0x3fffd)
  );
}

/** Cuts one line of visible text into pieces of at most `columns`. Stops after `limit` pieces and tells where. */
export function pieces(text: string, columns: number, limit: number): { rows: string[]; used: number } {
  const rows: string[] = [];
  let begin = 0;
  let width = 0;
  let at = 0;
  while (at < text.length) {
    const code = text.codePointAt(at) ?? 0;
    const step = code > 0xffff ? 2 : 1;
    const wide = code === 9 ? 8 - (width % 8) : isWide(code) ? 2 : 1;
    if (width + wide > columns && at > begin) {
      rows.push(text.slice(begin, at));
      if (rows.length === limit) return { rows, used: at };
      begin = at;
      width = 0;
      continue;
    }
    width += wide;
    at += step;
  }
  rows.push(text.slice(begin));
  return { rows, used: text.length };
}

/** The rows of one line, which may hold line feeds itself. */
export function rowsOf(line: number, text: string, columns: number, limit = ROWS_OF_A_LINE): Row[] {
  // A line of a megabyte is never looked at as a whole: what cannot be shown is not made visible either.
  const most = columns * limit;
  const head = text.length > most * 2 ? text.slice(0, most * 2) : text;
  const rest = text.length - head.length;
  const rows: Row[] = [];
  const parts = visible(head).split("\n");
  for (const [place, part] of parts.entries()) {
    const { rows: cut, used } = pieces(part, columns, limit - rows.length);
    for (const piece of cut) rows.push({ line, first: rows.length === 0, text: piece, hidden: 0 });
    if (rows.length >= limit) {
      const left = parts.slice(place + 1).reduce((sum, later) => sum + later.length + 1, part.length - used);
      const last = rows[rows.length - 1];
      if (last) last.hidden = left + rest;
      return rows;
    }
  }
  const last = rows[rows.length - 1];
  if (last && rest > 0) last.hidden = rest;
  return rows;
}

/** The beginning of a text that fits into so many columns on one line. */
export function fitted(text: string, columns: number): string {
  const line = oneLine(text, columns * 2 + 2);
  const whole = pieces(line, columns, 1);
  if (whole.used >= line.length) return line;
  return `${pieces(line, Math.max(1, columns - 1), 1).rows[0] ?? ""}…`;
}

// A unified diff as rows.

import { visible } from "./visible";
import { pieces } from "./wrap";

/** What a row of a diff is. */
export type DiffKind = "file" | "hunk" | "add" | "remove" | "same" | "note";

/** One row. */
export interface DiffRow {
  kind: DiffKind;
  /** Its number before the change. */
  before: number | null;
  /** Its number after it. */
  after: number | null;
  text: string;
}

/** A row as wide as the screen: a line that is longer goes on in the next ones, because what is not seen is not judged. */
export interface WrappedRow extends DiffRow {
  /** Whether it goes on with the line above it. */
  goesOn: boolean;
  /** How many characters of the line are not shown; only in its last row, and said loudly. */
  hidden: number;
}

/** Rows that one line may take: a minified file of a megabyte must not bury the others. */
const ROWS_OF_A_LINE = 100;

/** The rows of a diff. */
export function diffRows(text: string): DiffRow[] {
  const rows: DiffRow[] = [];
  let before = 0;
  let after = 0;
  let leftBefore = 0;
  let leftAfter = 0;
  const lines = text.split("\n");
  if (lines[lines.length - 1] === "") lines.pop();
  for (const line of lines) {
    const inHunk = leftBefore > 0 || leftAfter > 0;
    if (inHunk && (line[0] === "+" || line[0] === "-" || line[0] === " " || line === "")) {
      const kind = line[0] === "+" ? "add" : line[0] === "-" ? "remove" : "same";
      rows.push({
        kind,
        before: kind === "add" ? null : before,
        after: kind === "remove" ? null : after,
        text: line.slice(1),
      });
      if (kind !== "add") {
        before += 1;
        leftBefore -= 1;
      }
      if (kind !== "remove") {
        after += 1;
        leftAfter -= 1;
      }
      continue;
    }
    const hunk = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/.exec(line);
    if (hunk) {
      before = Number(hunk[1]);
      after = Number(hunk[3]);
      leftBefore = Number(hunk[2] ?? 1);
      leftAfter = Number(hunk[4] ?? 1);
      rows.push({ kind: "hunk", before: null, after: null, text: line });
    } else if (line.startsWith("diff --git ")) {
      leftBefore = 0;
      leftAfter = 0;
      rows.push({ kind: "file", before: null, after: null, text: nameIn(line) });
    } else if (/^(index|---|\+\+\+) /.test(line)) {
      // The heading has said it.
    } else {
      rows.push({ kind: "note", before: null, after: null, text: line });
    }
  }
  return rows;
}

/** The same rows, none wider than so many columns. */
export function wrapped(rows: DiffRow[], columns: number): WrappedRow[] {
  const all: WrappedRow[] = [];
  for (const row of rows) {
    const text = visible(row.text);
    const { rows: cut, used } = pieces(text, columns, ROWS_OF_A_LINE);
    for (const [place, piece] of cut.entries()) {
      const goesOn = place > 0;
      all.push({
        kind: row.kind,
        before: goesOn ? null : row.before,
        after: goesOn ? null : row.after,
        text: piece,
        goesOn,
        hidden: place === cut.length - 1 ? text.length - used : 0,
      });
    }
  }
  return all;
}

/** The path after the change, of `diff --git a/x b/x`. */
function nameIn(line: string): string {
  const paths = line.slice("diff --git ".length);
  const middle = Math.floor(paths.length / 2);
  // Nearly always both halves are the same path.
  if (paths.slice(2, middle) === paths.slice(middle + 3)) return paths.slice(2, middle);
  return paths;
}

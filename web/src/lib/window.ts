// Which rows of a long list are on the screen.

/** A part of a list: rows `begin` up to, not including, `end`. */
export interface Part {
  begin: number;
  end: number;
}

/** The rows that are seen, and a few around them, so that a small movement needs no new ones. */
export function partOf(count: number, rowHeight: number, top: number, height: number, around = 6): Part {
  if (count <= 0 || rowHeight <= 0) return { begin: 0, end: 0 };
  const first = Math.floor(Math.max(0, top) / rowHeight);
  const last = Math.ceil((Math.max(0, top) + Math.max(0, height)) / rowHeight);
  const end = Math.min(count, last + around);
  return { begin: Math.max(0, Math.min(first - around, end)), end };
}

/** Where to scroll so that a row is seen; `null` when it is seen already. */
export function scrollFor(row: number, rowHeight: number, top: number, height: number): number | null {
  const begin = row * rowHeight;
  if (begin < top) return begin;
  if (begin + rowHeight > top + height) return begin + rowHeight - height;
  return null;
}

/** Whether the end of the list is on the screen: then new rows are followed. */
export function isAtEnd(top: number, height: number, whole: number): boolean {
  return whole - (top + height) < 24;
}

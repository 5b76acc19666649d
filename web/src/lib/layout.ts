// A layered drawing of the task graph, from left to right: what waits stands to the right of what it waits for.
//
// The server says on which level a task is. Here, within each level, tasks are ordered so that few lines cross
// (barycentres, some sweeps), lines that pass over levels get a place of their own in them, and each task is moved as
// near to its neighbours as the others let it. A level with very many tasks is folded into several columns.

/** A task, as far as its place matters. */
export interface Node {
  id: string;
  level: number;
  blockedBy: string[];
}

/** The middle of a box. */
export interface Point {
  x: number;
  y: number;
}

/** A line from a task to one that waits for it. */
export interface Edge {
  from: string;
  to: string;
  /** The places it passes, the first and the last on the border of a box. */
  points: Point[];
}

/** Where everything is. */
export interface Layout {
  places: Map<string, Point>;
  edges: Edge[];
  width: number;
  height: number;
}

/** Sizes. */
export const BOX = { width: 180, height: 46, gapX: 48, gapY: 14 };
const MARGIN = 24;
const SWEEPS = 6;
/** More lines than these get no places of their own: the order would cost more than it helps. */
const MOST_PASSING = 6000;

interface Cell {
  id: string | null;
  level: number;
  order: number;
  y: number;
  before: Cell[];
  after: Cell[];
}

/** The places of all tasks and the lines between them. */
export function layered(nodes: Node[]): Layout {
  const cells = new Map<string, Cell>();
  const levels: Cell[][] = [];
  for (const node of nodes) {
    const cell: Cell = { id: node.id, level: Math.max(0, node.level), order: 0, y: 0, before: [], after: [] };
    cells.set(node.id, cell);
    (levels[cell.level] ??= []).push(cell);
  }
  for (let level = 0; level < levels.length; level += 1) levels[level] ??= [];
  const most = rowsOfLevel(nodes.length);
  const folded = levels.map((level) => level.length > most);
  const lines = connect(nodes, cells, levels, folded);
  for (const level of levels) number(level);
  order(levels);
  align(levels, folded);
  return place(levels, folded, most, lines, cells);
}

/** How many tasks stand above each other before a level is folded: a picture that is not much higher than wide. */
function rowsOfLevel(count: number): number {
  return Math.max(14, Math.ceil(Math.sqrt(count) * 1.3));
}

interface Line {
  from: Cell;
  to: Cell;
  through: Cell[];
}

function connect(nodes: Node[], cells: Map<string, Cell>, levels: Cell[][], folded: boolean[]): Line[] {
  const lines: Line[] = [];
  let passing = 0;
  for (const node of nodes) {
    const to = cells.get(node.id);
    if (!to) continue;
    for (const id of new Set(node.blockedBy)) {
      const from = cells.get(id);
      // A task that waits for itself, or a circle that a foreign program wrote, has no direction to draw.
      if (!from || from.level >= to.level) continue;
      const through: Cell[] = [];
      let last = from;
      const steps = to.level - from.level - 1;
      if (steps > 0 && passing + steps <= MOST_PASSING) {
        passing += steps;
        for (let level = from.level + 1; level < to.level; level += 1) {
          if (folded[level]) continue;
          const cell: Cell = { id: null, level, order: 0, y: 0, before: [last], after: [] };
          last.after.push(cell);
          levels[level]?.push(cell);
          through.push(cell);
          last = cell;
        }
      }
      last.after.push(to);
      to.before.push(last);
      lines.push({ from, to, through });
    }
  }
  return lines;
}

function number(level: Cell[]): void {
  for (const [at, cell] of level.entries()) cell.order = at;
}

function mean(cells: Cell[], of: (cell: Cell) => number): number | null {
  if (cells.length === 0) return null;
  let sum = 0;
  for (const cell of cells) sum += of(cell);
  return sum / cells.length;
}

/** Sweeps to and fro: each task goes to the mean place of its neighbours on the side that was just ordered. */
function order(levels: Cell[][]): void {
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const forward = sweep % 2 === 0;
    for (let step = 0; step < levels.length; step += 1) {
      const level = levels[forward ? step : levels.length - 1 - step] ?? [];
      const wish = new Map(
        level.map((cell) => [cell, mean(forward ? cell.before : cell.after, (other) => other.order) ?? cell.order]),
      );
      level.sort((a, b) => (wish.get(a) ?? 0) - (wish.get(b) ?? 0) || a.order - b.order);
      number(level);
    }
  }
}

function heightOf(cell: Cell): number {
  return cell.id === null ? BOX.gapY : BOX.height + BOX.gapY;
}

/** Moves everything near to what it is connected with, in the order that was found. */
function align(levels: Cell[][], folded: boolean[]): void {
  for (const level of levels) {
    let y = 0;
    for (const cell of level) {
      cell.y = y + heightOf(cell) / 2;
      y += heightOf(cell);
    }
    for (const cell of level) cell.y -= y / 2;
  }
  for (let sweep = 0; sweep < 8; sweep += 1) {
    const forward = sweep % 2 === 0;
    for (let step = 0; step < levels.length; step += 1) {
      const at = forward ? step : levels.length - 1 - step;
      if (!folded[at]) spread(levels[at] ?? [], forward);
    }
  }
}

/** Gives each its wish and pushes neighbours apart: what overlaps becomes a block around the mean of its wishes. */
function spread(level: Cell[], forward: boolean): void {
  interface Block {
    begin: number;
    size: number;
    wishes: number;
    count: number;
    cells: Cell[];
  }
  const blocks: Block[] = [];
  for (const cell of level) {
    const near = forward ? cell.before : cell.after;
    const wish = mean(near, (other) => other.y) ?? cell.y;
    const size = heightOf(cell);
    let block: Block = { begin: wish - size / 2, size, wishes: wish - size / 2, count: 1, cells: [cell] };
    for (;;) {
      const above = blocks[blocks.length - 1];
      if (!above || above.begin + above.size <= block.begin) break;
      blocks.pop();
      // The wish of each cell, counted from the beginning of the joined block.
      const wishes = above.wishes + block.wishes - above.size * block.count;
      const count = above.count + block.count;
      block = {
        begin: wishes / count,
        size: above.size + block.size,
        wishes,
        count,
        cells: [...above.cells, ...block.cells],
      };
    }
    blocks.push(block);
  }
  for (const block of blocks) {
    let y = block.begin;
    for (const cell of block.cells) {
      cell.y = y + heightOf(cell) / 2;
      y += heightOf(cell);
    }
  }
}

function place(levels: Cell[][], folded: boolean[], most: number, lines: Line[], cells: Map<string, Cell>): Layout {
  const spots = new Map<Cell, Point>();
  let x = MARGIN;
  for (const [at, level] of levels.entries()) {
    if (!folded[at]) {
      for (const cell of level) spots.set(cell, { x: x + BOX.width / 2, y: cell.y });
      x += BOX.width + BOX.gapX;
      continue;
    }
    const columns = Math.ceil(level.length / most);
    const rows = Math.ceil(level.length / columns);
    for (const [index, cell] of level.entries()) {
      const column = Math.floor(index / rows);
      const row = index % rows;
      spots.set(cell, {
        x: x + column * (BOX.width + BOX.gapY) + BOX.width / 2,
        y: (row - (rows - 1) / 2) * (BOX.height + BOX.gapY),
      });
    }
    x += columns * (BOX.width + BOX.gapY) - BOX.gapY + BOX.gapX;
  }
  let top = Number.POSITIVE_INFINITY;
  let bottom = Number.NEGATIVE_INFINITY;
  for (const spot of spots.values()) {
    top = Math.min(top, spot.y);
    bottom = Math.max(bottom, spot.y);
  }
  if (spots.size === 0) return { places: new Map(), edges: [], width: 0, height: 0 };
  const down = MARGIN + BOX.height / 2 - top;
  for (const spot of spots.values()) spot.y += down;
  const places = new Map<string, Point>();
  for (const [id, cell] of cells) {
    const spot = spots.get(cell);
    if (spot) places.set(id, spot);
  }
  const edges = lines.map(({ from, to, through }) => {
    const begin = spots.get(from) ?? { x: 0, y: 0 };
    const end = spots.get(to) ?? { x: 0, y: 0 };
    const points = [
      { x: begin.x + BOX.width / 2, y: begin.y },
      ...through.flatMap((cell) => {
        const spot = spots.get(cell);
        return spot
          ? [
              { x: spot.x - BOX.width / 2, y: spot.y },
              { x: spot.x + BOX.width / 2, y: spot.y },
            ]
          : [];
      }),
      { x: end.x - BOX.width / 2, y: end.y },
    ];
    return { from: from.id ?? "", to: to.id ?? "", points };
  });
  return { places, edges, width: x - BOX.gapX + MARGIN, height: bottom - top + BOX.height + 2 * MARGIN };
}

/** A smooth line through points, for the attribute `d`. */
export function pathOf(points: Point[]): string {
  const [first, ...rest] = points;
  if (!first) return "";
  let path = `M${round(first.x)} ${round(first.y)}`;
  let last = first;
  for (const point of rest) {
    if (point.y === last.y) path += `H${round(point.x)}`;
    else {
      const bend = (point.x - last.x) / 2;
      path += `C${round(last.x + bend)} ${round(last.y)} ${round(point.x - bend)} ${round(point.y)} ${round(point.x)} ${round(point.y)}`;
    }
    last = point;
  }
  return path;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

/** How many pairs of lines cross, between neighbouring places: what the order is judged by. */
export function crossings(layout: Layout): number {
  const pieces = new Map<number, { a: number; b: number }[]>();
  for (const edge of layout.edges) {
    for (let at = 0; at + 1 < edge.points.length; at += 1) {
      const [from, to] = [edge.points[at], edge.points[at + 1]];
      if (!from || !to || to.x - from.x <= 0) continue;
      const list = pieces.get(from.x) ?? [];
      list.push({ a: from.y, b: to.y });
      pieces.set(from.x, list);
    }
  }
  let count = 0;
  for (const list of pieces.values()) {
    for (const [at, one] of list.entries()) {
      for (const other of list.slice(at + 1)) {
        if ((one.a - other.a) * (one.b - other.b) < 0) count += 1;
      }
    }
  }
  return count;
}

import { describe, expect, test } from "vitest";
import { BOX, crossings, layered, pathOf, type Node } from "../src/lib/layout";

const node = (id: string, level: number, ...blockedBy: string[]): Node => ({ id, level, blockedBy });

/** A graph of the size that people meet at most, always the same. */
function large(count: number): Node[] {
  let state = 7;
  const random = (below: number) => {
    state = (state * 1103515245 + 12345) % 2147483648;
    return state % below;
  };
  const levels: number[] = [];
  return Array.from({ length: count }, (_, index) => {
    const blockedBy = index === 0 ? [] : Array.from({ length: random(4) }, () => random(index));
    levels.push(Math.max(-1, ...blockedBy.map((other) => levels[other] ?? 0)) + 1);
    return node(String(index + 1), levels[index] ?? 0, ...blockedBy.map((other) => String(other + 1)));
  });
}

function noBoxesOverlap(nodes: Node[]): void {
  const places = [...layered(nodes).places.values()].sort((a, b) => a.x - b.x || a.y - b.y);
  for (const [at, one] of places.entries()) {
    for (const other of places.slice(at + 1)) {
      if (other.x - one.x >= BOX.width) break;
      expect(Math.abs(other.y - one.y)).toBeGreaterThanOrEqual(BOX.height);
    }
  }
}

describe("the drawing of the task graph", () => {
  test("nothing is drawn for no tasks", () => {
    expect(layered([])).toEqual({ places: new Map(), edges: [], width: 0, height: 0 });
  });

  test("what waits stands to the right of what it waits for", () => {
    const nodes = large(300);
    const { places } = layered(nodes);
    expect(places.size).toBe(300);
    for (const { id, blockedBy } of nodes) {
      for (const other of blockedBy) {
        expect(places.get(id)?.x).toBeGreaterThanOrEqual((places.get(other)?.x ?? 0) + BOX.width);
      }
    }
  });

  test("no two boxes overlap", () => {
    noBoxesOverlap(large(200));
    noBoxesOverlap(Array.from({ length: 200 }, (_, index) => node(String(index), 0)));
  });

  test("everything lies inside the drawing", () => {
    const layout = layered(large(250));
    for (const { x, y } of layout.places.values()) {
      expect(x - BOX.width / 2).toBeGreaterThanOrEqual(0);
      expect(y - BOX.height / 2).toBeGreaterThanOrEqual(0);
      expect(x + BOX.width / 2).toBeLessThanOrEqual(layout.width);
      expect(y + BOX.height / 2).toBeLessThanOrEqual(layout.height);
    }
  });

  test("two chains that were written crosswise do not cross", () => {
    const nodes = [node("1", 0), node("2", 0), node("3", 1, "2"), node("4", 1, "1"), node("5", 2, "3"), node("6", 2, "4")];
    expect(crossings(layered(nodes))).toBe(0);
  });

  test("a chain is a straight line", () => {
    const { places } = layered([node("1", 0), node("2", 1, "1"), node("3", 2, "2")]);
    expect(new Set([...places.values()].map(({ y }) => y)).size).toBe(1);
  });

  test("a line that passes over a level goes around the task there", () => {
    const { places, edges } = layered([node("1", 0), node("2", 1, "1"), node("3", 2, "1", "2")]);
    const long = edges.find(({ from, to }) => from === "1" && to === "3");
    const middle = places.get("2");
    expect(long?.points.length).toBeGreaterThan(2);
    for (const { y } of long?.points.slice(1, -1) ?? []) {
      expect(Math.abs(y - (middle?.y ?? 0))).toBeGreaterThan(BOX.height / 2);
    }
  });

  test("a task that waits for itself or for nobody that is there is drawn, its line is not", () => {
    const { places, edges } = layered([node("1", 0, "1", "99")]);
    expect(places.size).toBe(1);
    expect(edges).toEqual([]);
  });

  test("a thousand tasks side by side become a block, not a tower", () => {
    const { width, height } = layered(Array.from({ length: 1000 }, (_, index) => node(String(index), 0)));
    expect(height / width).toBeLessThan(1);
    expect(width / height).toBeLessThan(4);
  });

  test("a thousand tasks take less than a tenth of a second", () => {
    const nodes = large(1000);
    layered(nodes);
    const begin = performance.now();
    layered(nodes);
    expect(performance.now() - begin).toBeLessThan(100);
  });

  test("a path begins at the first point and ends at the last", () => {
    expect(pathOf([{ x: 1, y: 2 }, { x: 11, y: 2 }, { x: 21, y: 8 }])).toBe("M1 2H11C16 2 16 8 21 8");
    expect(pathOf([])).toBe("");
  });
});

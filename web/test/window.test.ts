import { describe, expect, test } from "vitest";
import { isAtEnd, partOf, scrollFor } from "../src/lib/window";

describe("the visible part of a list", () => {
  test("is small, whatever the list", () => {
    expect(partOf(1_000_000, 20, 5_000_000, 600)).toEqual({ begin: 249_994, end: 250_036 });
  });

  test("covers every row that is seen, at every place", () => {
    for (let top = 0; top <= 100 * 17; top += 3) {
      const { begin, end } = partOf(100, 17, top, 90, 0);
      expect(begin * 17).toBeLessThanOrEqual(Math.min(top, 100 * 17));
      expect(end * 17).toBeGreaterThanOrEqual(Math.min(top + 90, 100 * 17));
    }
  });

  test("stays inside the list when it was scrolled beyond it", () => {
    expect(partOf(10, 20, 99_999, 600)).toEqual({ begin: 10, end: 10 });
    expect(partOf(0, 20, 0, 600)).toEqual({ begin: 0, end: 0 });
    expect(partOf(10, 20, -50, 40, 0)).toEqual({ begin: 0, end: 2 });
  });

  test("moves as little as it must to show a row", () => {
    expect(scrollFor(3, 20, 0, 100)).toBeNull();
    expect(scrollFor(0, 20, 30, 100)).toBe(0);
    expect(scrollFor(9, 20, 0, 100)).toBe(100);
  });

  test("knows whether its end is seen", () => {
    expect(isAtEnd(900, 100, 1000)).toBe(true);
    expect(isAtEnd(100, 100, 1000)).toBe(false);
  });
});

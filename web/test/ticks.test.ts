import { expect, test } from "vitest";
import { seqAt, timeAt } from "../src/lib/ticks";

const ticks = [
  { seq: 1, at: "2026-01-01T00:00:00.000Z" },
  { seq: 5, at: "2026-01-01T00:00:04.000Z" },
  { seq: 9, at: "2026-01-01T00:00:04.000Z" },
  { seq: 11, at: "2026-01-01T00:00:10.000Z" },
];
const second = (count: number) => Date.parse("2026-01-01T00:00:00.000Z") + count * 1000;

test("a position has its moment", () => {
  expect([1, 3, 5, 9, 10, 11, 99].map((seq) => timeAt(ticks, seq))).toEqual([0, 2, 4, 4, 7, 10, 10].map(second));
  expect(timeAt(ticks, 0)).toBe(second(0));
  expect(timeAt([], 1)).toBeNull();
});

test("a moment has its last position", () => {
  expect([-1, 0, 2, 4, 7, 10, 99].map((at) => seqAt(ticks, second(at)))).toEqual([1, 1, 3, 9, 10, 11, 11]);
  expect(seqAt([], 1)).toBeNull();
});

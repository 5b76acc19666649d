// From a position of the journal to its moment and back, with the positions that the server names.

import type { Tick } from "../api";

/** The last tick at or before what `isAfter` calls too late. */
function before(ticks: Tick[], isAfter: (tick: Tick) => boolean): number {
  let [low, high] = [0, ticks.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    const tick = ticks[middle];
    if (tick && isAfter(tick)) high = middle;
    else low = middle + 1;
  }
  return low - 1;
}

/** When a position was written; between two ticks, in proportion. `null` when nothing is known. */
export function timeAt(ticks: Tick[], seq: number): number | null {
  const at = before(ticks, (tick) => tick.seq > seq);
  const [tick, next] = [ticks[Math.max(0, at)], ticks[at + 1]];
  if (!tick) return null;
  const time = Date.parse(tick.at);
  if (!next || at < 0 || next.seq === tick.seq) return time;
  return time + ((Date.parse(next.at) - time) * (seq - tick.seq)) / (next.seq - tick.seq);
}

/** The position that was the last one at a moment. */
export function seqAt(ticks: Tick[], time: number): number | null {
  const at = before(ticks, (tick) => Date.parse(tick.at) > time);
  const [tick, next] = [ticks[Math.max(0, at)], ticks[at + 1]];
  if (!tick) return null;
  if (!next || at < 0) return tick.seq;
  const [from, to] = [Date.parse(tick.at), Date.parse(next.at)];
  if (to === from) return next.seq;
  return Math.floor(tick.seq + ((next.seq - tick.seq) * (time - from)) / (to - from));
}

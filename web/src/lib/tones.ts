// Which colour and which sign a state has, everywhere the same.

import type { MergeState, Severity, SpanEnd, State, Verdict, VerificationState, Viewed, WakeState, Worker } from "../api";

/** A colour by its meaning, and a sign that tells the same without it. */
export interface Tone {
  tone: "good" | "busy" | "warn" | "bad" | "calm" | "ready";
  sign: string;
}

const tone = (tone: Tone["tone"], sign: string): Tone => ({ tone, sign });

export const VIEWED: Record<Viewed, Tone> = {
  live: tone("good", "●"),
  stale: tone("warn", "◐"),
  ended: tone("calm", "■"),
  inactive: tone("calm", "○"),
};

export const VERDICT: Record<Verdict, Tone> = {
  healthy: tone("good", "●"),
  "at-risk": tone("warn", "▲"),
  quarantined: tone("warn", "◆"),
  limited: tone("warn", "◐"),
  silent: tone("warn", "◐"),
  hung: tone("bad", "▲"),
  dead: tone("bad", "✕"),
  unknown: tone("calm", "○"),
};

/** How a worker is: one that has ended in order is not in doubt. */
export function conditionOf(worker: Worker): Tone & { word: string } {
  if (worker.verdict === "unknown" && worker.status === "stopped") return { ...tone("calm", "■"), word: "stopped" };
  if (worker.verdict === "unknown" && worker.status === "not-started") return { ...tone("calm", "○"), word: "not-started" };
  return { ...toneOf(VERDICT, worker.verdict), word: worker.verdict };
}

export const STATE: Record<State, Tone> = {
  claimable: tone("ready", "○"),
  waiting: tone("calm", "◌"),
  blocked: tone("warn", "◆"),
  in_progress: tone("busy", "◐"),
  completed: tone("good", "●"),
  failed: tone("bad", "✕"),
};

export const SPAN: Record<SpanEnd, Tone> = {
  open: tone("busy", "◐"),
  completed: tone("good", "●"),
  failed: tone("bad", "✕"),
  released: tone("calm", "○"),
  requeued: tone("warn", "◆"),
};

export const CHECK: Record<VerificationState, Tone> = {
  running: tone("busy", "◐"),
  passed: tone("good", "●"),
  failed: tone("bad", "✕"),
  flaky: tone("warn", "▲"),
};

export const MERGE: Record<MergeState, Tone> = {
  predicted: tone("calm", "○"),
  merged: tone("good", "●"),
  conflict: tone("bad", "✕"),
  lost: tone("bad", "✕"),
  unchanged: tone("calm", "○"),
};

export const SEVERITY: Record<Severity, Tone> = {
  blocker: tone("bad", "✕"),
  major: tone("bad", "▲"),
  minor: tone("warn", "◆"),
  nit: tone("calm", "○"),
};

export const WAKE: Record<WakeState, Tone> = {
  thinking: tone("busy", "◐"),
  acted: tone("good", "●"),
  failed: tone("bad", "✕"),
  refused: tone("warn", "▲"),
};

/** The tone of a value that a newer server may have invented. */
export function toneOf<K extends string>(tones: Record<K, Tone>, value: string): Tone {
  return tones[value as K] ?? { tone: "calm", sign: "○" };
}

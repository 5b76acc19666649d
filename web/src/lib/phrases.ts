// The server's sentences in another language, made from their codes and never from the sentences.

import type { PhraseKey } from "../api";
import { phrasesKo } from "../words/phrases.ko";

/** Parameters that are words of the server's, and the group of the page's words that has them. */
const GROUPS: Record<string, string> = { verdict: "verdict", status: "status" };

/** Parameters that are spans of time, as `90 s`, `6 min`, `3 h` or `2 days`. */
const SPANS = ["age", "ahead", "limit", "quiet", "ago"];
const UNITS: Record<string, string> = { s: "초", min: "분", h: "시간", days: "일" };

/** Parameters that are figures of a budget, as `12,000 tokens` or `1.5 min`. */
const FIGURES = ["used", "allowed", "rest", "each"];

/** A sentence in Korean; `null` when the code is of a newer server. */
export function filled({ code, params }: PhraseKey, named: (group: string, value: string) => string): string | null {
  const words: string | undefined = phrasesKo[code];
  if (words === undefined) return null;
  return words.replace(/\{(\w+)\}/g, (whole, name: string) => {
    const value = params[name];
    if (typeof value !== "string") return whole;
    const group = GROUPS[name];
    if (SPANS.includes(name)) return value.replace(/^(\d+) (s|min|h|days)$/, (_, count: string, unit: string) => `${count}${UNITS[unit]}`);
    if (FIGURES.includes(name)) return value.replace(/ tokens$/, " 토큰").replace(/ min$/, "분");
    return group ? named(group, value) : value;
  });
}

// The page's own words, in the language that was chosen.

import { en, type Key } from "../words/en";
import { ko } from "../words/ko";
import { settings } from "./settings.svelte";

/** The words for a key, its parts filled in. */
export function t(key: Key, parts: Record<string, string | number> = {}): string {
  const words: string = settings.language === "ko" ? ko[key] : en[key];
  return words.replace(/\{(\w+)\}/g, (whole, name: string) => String(parts[name] ?? whole));
}

/** The words for a value of the server's; the value itself when there are none, as for one of a newer server. */
export function named(group: string, value: string): string {
  const key = `${group}.${value}`;
  return key in en ? t(key as Key) : value;
}

// The page's own words, in the language that was chosen.

import type { PhraseKey } from "../api";
import { en, type Key } from "../words/en";
import { ko } from "../words/ko";
import { filled } from "./phrases";
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

/** A sentence of the server's: `text` in English, and made from its codes in every other language. */
export function said(text: string, codes: PhraseKey[] | undefined): string {
  if (settings.language === "en" || !codes || codes.length === 0) return text;
  const parts = codes.map((key) => filled(key, named));
  return parts.includes(null) ? text : parts.join(" · ");
}

/** Several sentences of the server's, each with its code. */
export function saidEach(texts: string[], codes: PhraseKey[] | undefined): string[] {
  return texts.map((text, at) => said(text, codes?.slice(at, at + 1)));
}

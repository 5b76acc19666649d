import { describe, expect, test } from "vitest";
import { phrases, type PhraseCode } from "../src/api";
import { filled } from "../src/lib/phrases";
import { en } from "../src/words/en";
import { ko } from "../src/words/ko";
import { phrasesKo } from "../src/words/phrases.ko";

const placeholders = (text: string) => [...text.matchAll(/\{(\w+)\}/g)].map(([, name]) => name).sort();
const isKorean = (text: string) => /[\uac00-\ud7a3]/.test(text);
const codes = Object.keys(phrases) as PhraseCode[];

describe("the server's sentences in Korean", () => {
  test("every_code_of_the_server_has_a_korean_text", () => {
    expect(Object.keys(phrasesKo).sort()).toEqual([...codes].sort());
  });

  test.each(codes)("%s fills in what the English one fills in", (code) => {
    expect(placeholders(phrasesKo[code])).toEqual(placeholders(phrases[code]));
    // What consists of nothing but a parameter has no words.
    if (!/^\{\w+\}$/.test(phrases[code])) expect(isKorean(phrasesKo[code])).toBe(true);
  });

  test("a_sentence_is_made_from_its_code_and_parameters", () => {
    const named = (group: string, value: string) => `${group}:${value}`;
    expect(filled({ code: "pid-gone", params: { pid: "12" } }, named)).toBe("프로세스 12 종료됨");
    expect(filled({ code: "heartbeat-old", params: { age: "90 s" } }, named)).toBe("마지막 하트비트 90초 전");
    expect(filled({ code: "worker-verdict", params: { verdict: "hung" } }, named)).toBe("verdict:hung");
    expect(filled({ code: "verbatim", params: { text: "{pid} as it is" } }, named)).toBe("{pid} as it is");
    expect(filled({ code: "of-a-newer-server" as PhraseCode, params: {} }, named)).toBeNull();
  });
});

describe("the page's own words", () => {
  test("every_text_has_the_same_parts_in_both_languages", () => {
    for (const key of Object.keys(en) as (keyof typeof en)[]) expect([key, ...new Set(placeholders(ko[key]))]).toEqual([key, ...new Set(placeholders(en[key]))]);
  });
});

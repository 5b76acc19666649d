import { describe, expect, test } from "vitest";
import { oneLine, visible } from "../src/lib/visible";
import { fitted, pieces, rowsOf, ROWS_OF_A_LINE } from "../src/lib/wrap";

describe("text of agents", () => {
  test("escape sequences are shown, not done", () => {
    expect(visible("\u001b[31mred\u001b[0m\u0007")).toBe("⟨ESC⟩[31mred⟨ESC⟩[0m⟨BEL⟩");
    expect(visible("\u009b2J")).toBe("⟨U+009B⟩2J");
  });

  test("what turns the direction of reading is shown", () => {
    expect(visible("a\u202eb\u2066c\u200fd\u061c")).toBe("a⟨U+202E⟩b⟨U+2066⟩c⟨U+200F⟩d⟨U+061C⟩");
  });

  test("what hides itself is shown", () => {
    expect(visible("a\u200bb\ufeffc\u00add")).toBe("a⟨U+200B⟩b⟨U+FEFF⟩c⟨U+00AD⟩d");
    expect(visible("x\u{e0041}")).toBe("x⟨U+E0041⟩");
  });

  test("half a character is no character", () => {
    expect(visible("a\ud800b\udc00")).toBe("a\ufffdb\ufffd");
    expect(visible("😀")).toBe("😀");
  });

  test("people's text stays as it is", () => {
    for (const text of ["<img onerror=alert(1)>", "한국어와 English", "👩‍💻 ok", "שלום", "a\tb\nc"]) {
      expect(visible(text)).toBe(text);
    }
    expect(visible("a\r\nb\rc")).toBe("a\nb⟨CR⟩c");
  });

  test("one line is short and on one line", () => {
    expect(oneLine("a\n\n b\tc")).toBe("a b c");
    expect(oneLine("x".repeat(1_000_000), 10)).toBe(`${"x".repeat(10)}…`);
    expect(oneLine("abc\u202e", 4).endsWith("…")).toBe(true);
    expect(oneLine("12345", 5)).toBe("12345");
  });
});

test("what fits is whole, what does not says so", () => {
  expect(fitted("abcdef", 6)).toBe("abcdef");
  expect(fitted("abcdefg", 6)).toBe("abcde…");
  expect(fitted("한국어입니다", 6)).toBe("한국…");
});

describe("rows of a log", () => {
  test("a long line is several rows of one width", () => {
    expect(pieces("abcdefgh", 3, 10)).toEqual({ rows: ["abc", "def", "gh"], used: 8 });
    expect(pieces("", 3, 10)).toEqual({ rows: [""], used: 0 });
  });

  test("wide characters take two columns and are never halved", () => {
    expect(pieces("한국어", 4, 10).rows).toEqual(["한국", "어"]);
    expect(pieces("😀😀😀", 4, 10).rows).toEqual(["😀😀", "😀"]);
    expect(pieces("한", 1, 10).rows).toEqual(["한"]);
  });

  test("nothing of a line is lost or doubled", () => {
    const text = "한a😀b\tc".repeat(20);
    for (const columns of [1, 2, 7, 40, 1000]) expect(pieces(text, columns, 10_000).rows.join("")).toBe(text);
  });

  test("a line of a megabyte takes a few rows, quickly, and says what is left", () => {
    const begin = performance.now();
    const rows = rowsOf(5, "x".repeat(1_000_000), 100);
    expect(performance.now() - begin).toBeLessThan(50);
    expect(rows).toHaveLength(ROWS_OF_A_LINE);
    expect(rows[ROWS_OF_A_LINE - 1]?.hidden).toBe(1_000_000 - ROWS_OF_A_LINE * 100);
    expect(rows[0]).toEqual({ line: 5, first: true, text: "x".repeat(100), hidden: 0 });
  });

  test("line feeds inside of a line begin new rows", () => {
    expect(rowsOf(0, "a\nb\n", 10).map(({ text }) => text)).toEqual(["a", "b", ""]);
    expect(rowsOf(0, "a\nb\nc\nd", 10, 2)[1]?.hidden).toBe(4);
  });
});

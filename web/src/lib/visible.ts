// Text that agents and foreign programs wrote. It is only ever shown as text; what would steer a terminal, turn the
// direction of reading or hide itself is shown as what it is.

/** Everything that must not act, and has no shape of its own. Line feeds and tabs are kept. */
const HIDDEN =
  // eslint-disable-next-line no-control-regex
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b\u200c\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]|[\u{e0000}-\u{e0fff}]/gu;

/** The names of the control characters. The pictures that Unicode has for them are missing in most fonts. */
const NAMES =
  "NUL SOH STX ETX EOT ENQ ACK BEL BS TAB LF VT FF CR SO SI DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US".split(" ");

/** The name of a character that is shown instead of the character. */
function named(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  if (code < 0x20) return `⟨${NAMES[code]}⟩`;
  if (code === 0x7f) return "⟨DEL⟩";
  if (code >= 0xd800 && code <= 0xdfff) return "\ufffd";
  return `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
}

/** The text with every hidden character made visible. A carriage return before a line feed is part of the line's end. */
export function visible(text: string): string {
  return text.replace(/\r\n/g, "\n").replace(HIDDEN, named);
}

/** The same on one line, at most `limit` characters: for lists, names and tooltips. */
export function oneLine(text: string, limit = 300): string {
  const short = text.length > limit * 2 ? text.slice(0, limit * 2) : text;
  const line = visible(short).replace(/\s+/g, " ").trim();
  const cut = line.length > limit || text.length > short.length;
  return cut ? `${line.slice(0, limit).replace(/[\ud800-\udbff]$/, "")}…` : line;
}

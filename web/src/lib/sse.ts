// Server-sent events, as the standard says: https://html.spec.whatwg.org/multipage/server-sent-events.html

/** One event. */
export interface Sent {
  /** Its type; `message` unless said. */
  event: string;
  /** Its data. */
  data: string;
  /** The id that is the last one from now on; `null` when the event has none. */
  id: string | null;
}

/** Makes events of pieces of text, wherever the text was cut. */
export class Parser {
  /** How long the server wants us to wait before we come back, in milliseconds. */
  retry: number | null = null;
  #rest = "";
  #event = "";
  #data: string[] = [];
  #id: string | null = null;
  #afterReturn = false;

  /** The events that a piece completes. */
  push(piece: string): Sent[] {
    const done: Sent[] = [];
    let text = this.#rest + piece;
    // A line feed that belongs to the carriage return of the piece before.
    if (this.#afterReturn && this.#rest === "" && text.startsWith("\n")) text = text.slice(1);
    if (text !== "") this.#afterReturn = false;
    let begin = 0;
    for (let at = 0; at < text.length; at += 1) {
      const code = text.charCodeAt(at);
      if (code !== 10 && code !== 13) continue;
      this.#line(text.slice(begin, at), done);
      if (code === 13) {
        if (at + 1 === text.length) this.#afterReturn = true;
        else if (text.charCodeAt(at + 1) === 10) at += 1;
      }
      begin = at + 1;
    }
    this.#rest = text.slice(begin);
    return done;
  }

  #line(line: string, done: Sent[]): void {
    if (line === "") {
      if (this.#data.length > 0) {
        done.push({ event: this.#event || "message", data: this.#data.join("\n"), id: this.#id });
      }
      this.#event = "";
      this.#data = [];
      this.#id = null;
      return;
    }
    if (line.startsWith(":")) return;
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    let value = colon < 0 ? "" : line.slice(colon + 1);
    if (value.startsWith(" ")) value = value.slice(1);
    if (field === "event") this.#event = value;
    else if (field === "data") this.#data.push(value);
    else if (field === "id" && !value.includes("\0")) this.#id = value;
    else if (field === "retry" && /^\d+$/.test(value)) this.retry = Number(value);
  }
}

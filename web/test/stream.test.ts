import { describe, expect, test } from "vitest";
import { Parser, type Sent } from "../src/lib/sse";
import { Stream, waitAfter, type Connection, type World } from "../src/lib/stream";

const journal = (seq: number) => `event: journal\nid: ${seq}\ndata: {"seq":${seq}}\n\n`;
const HELLO = 'event: hello\ndata: {"version":"1","team":"t"}\n\n';

describe("reading server-sent events", () => {
  test("events are the same, wherever the text is cut", () => {
    const text = `: comment\r\nretry: 700\nevent: view\ndata: a\ndata: b\r\n\r\nid: 7\rdata:c\r\r${journal(8)}`;
    const whole = new Parser().push(text);
    expect(whole).toEqual([
      { event: "view", data: "a\nb", id: null },
      { event: "message", data: "c", id: "7" },
      { event: "journal", data: '{"seq":8}', id: "8" },
    ]);
    for (let cut = 0; cut <= text.length; cut += 1) {
      const parser = new Parser();
      expect([...parser.push(text.slice(0, cut)), ...parser.push(text.slice(cut))]).toEqual(whole);
    }
    const parser = new Parser();
    expect([...text].flatMap((letter) => parser.push(letter))).toEqual(whole);
    expect(parser.retry).toBe(700);
  });

  test("an event that the end cut off is none", () => {
    expect(new Parser().push("id: 1\ndata: x\n")).toEqual([]);
  });
});

/** A server that says what each connection gets, and a clock that a test moves. */
class Script {
  asked: (string | null)[] = [];
  states: Connection[] = [];
  got: number[] = [];
  refused: number | null = null;
  timers: { run: () => void; ms: number; off: boolean }[] = [];
  world: World;
  constructor(connections: (string | number)[]) {
    this.world = {
      follow: ({ last }) => {
        this.asked.push(last ?? null);
        const next = connections.shift();
        if (next === undefined) return Promise.reject(new Error("nobody is there"));
        if (typeof next === "number") return Promise.resolve(new Response("no", { status: next }));
        return Promise.resolve(new Response(next));
      },
      later: (run, ms) => {
        const timer = { run, ms, off: false };
        this.timers.push(timer);
        return () => {
          timer.off = true;
        };
      },
      random: () => 1,
    };
  }
  start(lastId: string | null = null): Stream {
    return new Stream(
      {},
      {
        event: (sent: Sent) => {
          if (sent.event === "journal") this.got.push((JSON.parse(sent.data) as { seq: number }).seq);
        },
        connection: (state) => this.states.push(state),
        refused: (status) => {
          this.refused = status;
        },
      },
      lastId,
      this.world,
    );
  }
  /** Lets everything happen that waits for nothing but its turn. */
  async settle(): Promise<void> {
    for (let turn = 0; turn < 20; turn += 1) await new Promise((done) => setImmediate(done));
  }
  /** The wait for the next try is over. */
  async retry(): Promise<number> {
    const timer = this.timers.filter(({ off }) => !off).pop();
    if (!timer) throw new Error("nothing waits");
    timer.off = true;
    timer.run();
    await this.settle();
    return timer.ms;
  }
}

describe("a stream that comes back", () => {
  test("goes on after the last event, and gives each event once and in order", async () => {
    const script = new Script([HELLO + journal(1) + journal(2), HELLO + journal(3), HELLO + journal(4)]);
    const stream = script.start();
    await script.settle();
    await script.retry();
    await script.retry();
    expect(script.asked).toEqual([null, "2", "3"]);
    expect(script.got).toEqual([1, 2, 3, 4]);
    stream.close();
  });

  test("does not believe a server that sends events again", async () => {
    const script = new Script([HELLO + journal(1) + journal(2) + journal(2), HELLO + journal(1) + journal(2) + journal(3)]);
    const stream = script.start();
    await script.settle();
    await script.retry();
    expect(script.got).toEqual([1, 2, 3]);
    stream.close();
  });

  test("an id that is no number is a place: it is sent back as it is, and has no order", async () => {
    const part = (id: string, seq: number) => `event: journal\nid: ${id}\ndata: {"seq":${seq}}\n\n`;
    const script = new Script([HELLO + part("1.77.900", 1) + part("1.78.10", 2), HELLO + part("2.5.3", 3)]);
    const stream = script.start();
    await script.settle();
    await script.retry();
    expect(script.asked).toEqual([null, "1.78.10"]);
    expect(script.got).toEqual([1, 2, 3]);
    stream.close();
  });

  test("an event that was cut in the middle comes whole the next time", async () => {
    const script = new Script([HELLO + journal(1) + journal(2).slice(0, -6), HELLO + journal(2)]);
    const stream = script.start();
    await script.settle();
    await script.retry();
    expect(script.asked).toEqual([null, "1"]);
    expect(script.got).toEqual([1, 2]);
    stream.close();
  });

  test("begins where it is told to", async () => {
    const script = new Script([HELLO + journal(10)]);
    script.start("9").close();
    await script.settle();
    expect(script.asked).toEqual(["9"]);
  });

  test("waits longer after each failure, and no longer after a success", async () => {
    const script = new Script([503, 503, HELLO, 503]);
    const stream = script.start();
    await script.settle();
    const waits = [];
    for (let turn = 0; turn < 4; turn += 1) waits.push(await script.retry());
    expect(waits).toEqual([250, 500, 250, 500]);
    expect(script.states.slice(0, 4)).toEqual(["connecting", "waiting", "connecting", "waiting"]);
    expect(script.states).toContain("live");
    stream.close();
  });

  test("the wait is bounded, spread, and not shorter than the server asked for", () => {
    expect(waitAfter(50, 1)).toBe(10_000);
    expect(waitAfter(50, 0)).toBe(5_000);
    expect(waitAfter(1, 0, 3_000)).toBe(3_000);
  });

  test("does not ask again when the server refuses it", async () => {
    const script = new Script([403]);
    script.start();
    await script.settle();
    expect(script.refused).toBe(403);
    expect(script.timers.every(({ off }) => off)).toBe(true);
  });

  test("hurries when asked to, once", async () => {
    const script = new Script([503, HELLO + journal(5)]);
    const stream = script.start();
    await script.settle();
    stream.hurry();
    stream.hurry();
    await script.settle();
    expect(script.asked).toHaveLength(2);
    expect(script.got).toEqual([5]);
    stream.close();
  });

  test("is silent after its end", async () => {
    const script = new Script([HELLO + journal(1)]);
    script.start().close();
    await script.settle();
    expect(script.got).toEqual([]);
    expect(script.states[script.states.length - 1]).toBe("closed");
  });

  test("a stream that rests gives its connection back and goes on after its last event", async () => {
    const script = new Script([HELLO + journal(1), HELLO + journal(2)]);
    const stream = script.start();
    await script.settle();
    stream.rest();
    for (const timer of script.timers) if (!timer.off) timer.run();
    await script.settle();
    expect(script.asked).toEqual([null]);
    stream.wake();
    stream.wake();
    await script.settle();
    expect(script.asked).toEqual([null, "1"]);
    expect(script.got).toEqual([1, 2]);
    stream.close();
  });
});

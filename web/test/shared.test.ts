import { describe, expect, test } from "vitest";
import type { FollowBody } from "../src/api";
import { Client, Exchange, follow, serve, type Asked, type Follower, type Port, type Told } from "../src/lib/shared";

/** A server that a test speaks for, and what was asked of it. */
class Server {
  connections: { send: (text: string) => void; end: () => void; aborted: () => boolean }[] = [];
  told: { stream: string; body: FollowBody }[] = [];
  refuse: number | null = null;
  unknown = false;
  fetch = (url: string, init: RequestInit): Promise<Response> => {
    if (init.method === "POST") {
      this.told.push({ stream: url.split("/").pop() ?? "", body: JSON.parse(String(init.body)) as FollowBody });
      return Promise.resolve(new Response("{}", { status: this.unknown ? 404 : 200 }));
    }
    if (this.refuse !== null) return Promise.resolve(new Response("no", { status: this.refuse }));
    const encoder = new TextEncoder();
    let body: ReadableStreamDefaultController<Uint8Array> | undefined;
    const stream = new ReadableStream<Uint8Array>({
      start: (controller) => {
        body = controller;
      },
    });
    this.connections.push({
      send: (text) => body?.enqueue(encoder.encode(text)),
      end: () => body?.close(),
      aborted: () => init.signal?.aborted ?? false,
    });
    return Promise.resolve(new Response(stream));
  };
}

const settle = async () => {
  for (let turn = 0; turn < 20; turn += 1) await new Promise((done) => setImmediate(done));
};
const HELLO = 'event: hello\ndata: {"stream":"s1"}\n\n';

/** Whoever follows, and what it heard. */
function listener(): Follower & { heard: string[] } {
  const heard: string[] = [];
  return {
    heard,
    status: (status) => heard.push(`status ${status}`),
    text: (text) => heard.push(text),
    end: () => heard.push("end"),
  };
}

describe("a connection that is shared", () => {
  test("many_followers_share_one_connection_and_each_hears_its_own", async () => {
    const server = new Server();
    const exchange = new Exchange(server.fetch);
    const [one, two] = [listener(), listener()];
    exchange.open({ team: "a", last: "7" }, one);
    exchange.open({ team: "b" }, two);
    await settle();
    server.connections[0]?.send(HELLO);
    await settle();
    expect(server.connections).toHaveLength(1);
    expect(server.told).toEqual([
      { stream: "s1", body: { open: [{ channel: 1, team: "a", last: "7" }, { channel: 2, team: "b" }], close: [] } },
    ]);
    // Cut in the middle of an event, which is nothing until it is whole.
    server.connections[0]?.send("channel: 2\nevent: hello\nda");
    await settle();
    expect(two.heard).toEqual([]);
    server.connections[0]?.send('ta: {}\n\nchannel: 1\nevent: hello\ndata: {"x":1}\n\n');
    await settle();
    expect(two.heard).toEqual(["status 200", "event: hello\ndata: {}\n\n"]);
    expect(one.heard).toEqual(["status 200", 'event: hello\ndata: {"x":1}\n\n']);
  });

  test("a_channel_that_is_refused_or_ends_leaves_the_others", async () => {
    const server = new Server();
    const exchange = new Exchange(server.fetch);
    const [one, two] = [listener(), listener()];
    exchange.open({ team: "nobody" }, one);
    exchange.open({ team: "b" }, two);
    await settle();
    server.connections[0]?.send(`${HELLO}channel: 1\nevent: refused\ndata: {"status":404}\n\nchannel: 2\nevent: hello\ndata: {}\n\n`);
    await settle();
    expect(one.heard).toEqual(["status 404"]);
    expect(two.heard).toHaveLength(2);
    const three = listener();
    exchange.open({}, three);
    await settle();
    server.connections[0]?.send('channel: 2\nevent: end\ndata: {"channel":2}\n\n');
    await settle();
    expect(two.heard.at(-1)).toBe("end");
    expect(server.connections[0]?.aborted()).toBe(false);
    expect(server.told.at(-1)?.body.open).toEqual([{ channel: 3 }]);
  });

  test("a_connection_that_nobody_needs_is_given_back_and_made_anew", async () => {
    const server = new Server();
    const exchange = new Exchange(server.fetch);
    const close = exchange.open({}, listener());
    await settle();
    server.connections[0]?.send(HELLO);
    await settle();
    close();
    expect(server.connections[0]?.aborted()).toBe(true);
    exchange.open({}, listener());
    await settle();
    expect(server.connections).toHaveLength(2);
  });

  test("a_connection_that_breaks_ends_every_channel", async () => {
    const server = new Server();
    const exchange = new Exchange(server.fetch);
    const [open, waiting] = [listener(), listener()];
    exchange.open({}, open);
    await settle();
    server.connections[0]?.send(`${HELLO}channel: 1\nevent: hello\ndata: {}\n\n`);
    exchange.open({ team: "a" }, waiting);
    await settle();
    server.connections[0]?.end();
    await settle();
    expect(open.heard.at(-1)).toBe("end");
    expect(waiting.heard).toEqual(["status 0"]);
  });

  test("a_server_that_refuses_the_connection_refuses_every_channel", async () => {
    const server = new Server();
    server.refuse = 401;
    const exchange = new Exchange(server.fetch);
    const one = listener();
    exchange.open({}, one);
    await settle();
    expect(one.heard).toEqual(["status 401"]);
  });

  test("a_server_that_does_not_know_the_connection_ends_it", async () => {
    const server = new Server();
    server.unknown = true;
    const exchange = new Exchange(server.fetch);
    const one = listener();
    exchange.open({}, one);
    await settle();
    server.connections[0]?.send(HELLO);
    await settle();
    expect(one.heard).toEqual(["status 0"]);
    expect(server.connections[0]?.aborted()).toBe(true);
  });
});

/** Both ends of a message channel. */
function ports(): [Port, Port] {
  const one: Port = { onmessage: null, postMessage: (data: Asked | Told) => two.onmessage?.({ data } as MessageEvent) };
  const two: Port = { onmessage: null, postMessage: (data: Asked | Told) => one.onmessage?.({ data } as MessageEvent) };
  return [one, two];
}

describe("a page that follows through the worker", () => {
  test("gets_the_answer_that_a_connection_of_its_own_would_have_had", async () => {
    const server = new Server();
    const exchange = new Exchange(server.fetch);
    const [page, worker] = ports();
    serve(exchange, worker, () => undefined);
    const client = new Client(page, () => undefined, () => undefined);
    const stop = new AbortController();
    const answer = follow(client, { team: "a" }, stop.signal);
    await settle();
    server.connections[0]?.send(`${HELLO}channel: 1\nevent: hello\ndata: {}\n\n`);
    const reader = (await answer).body?.getReader();
    const piece = await reader?.read();
    expect(new TextDecoder().decode(piece?.value)).toBe("event: hello\ndata: {}\n\n");
    stop.abort();
    await settle();
    expect(server.connections[0]?.aborted()).toBe(true);
    await expect(reader?.read()).rejects.toThrow();
  });

  test("a_page_that_is_gone_leaves_its_channels", async () => {
    const server = new Server();
    const exchange = new Exchange(server.fetch);
    const [page, worker] = ports();
    let gone: () => void = () => undefined;
    serve(exchange, worker, (_, free) => {
      gone = free;
    });
    page.postMessage({ kind: "lock", name: "page" });
    const client = new Client(page, () => undefined, () => undefined);
    client.open({}, listener());
    await settle();
    gone();
    expect(server.connections[0]?.aborted()).toBe(true);
  });

  test("a_worker_that_is_gone_lets_its_followers_come_back", () => {
    const [page, worker] = ports();
    let gone: () => void = () => undefined;
    let lost = 0;
    const client = new Client(
      page,
      (_, free) => {
        gone = free;
      },
      () => {
        lost += 1;
      },
    );
    const one = listener();
    client.open({}, one);
    worker.postMessage({ kind: "lock", name: "worker" });
    gone();
    expect(lost).toBe(1);
    expect(one.heard).toEqual(["end"]);
  });
});

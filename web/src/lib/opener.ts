// The way to the server's streams: the worker that all pages of this browser share, or a connection of this page's own.

import { heldLock, whenFree } from "./locks";
import { Client, Exchange, type Opener } from "./shared";

let way: Opener | null = null;

/** The way that is taken now. */
export function opener(): Opener {
  way ??= throughWorker() ?? ownConnection();
  return way;
}

function ownConnection(): Opener {
  return new Exchange((url, init) => fetch(url, init));
}

/** The worker; `null` where the browser has none, as some on phones. */
function throughWorker(): Opener | null {
  if (typeof SharedWorker === "undefined" || !("locks" in navigator)) return null;
  try {
    const worker = new SharedWorker(new URL("../shared.worker.ts", import.meta.url), { type: "module", name: "teamster" });
    const client = new Client(worker.port, whenFree, () => {
      // A worker that ended is started again.
      if (way === client) way = null;
    });
    worker.onerror = () => {
      way = ownConnection();
      client.fail();
    };
    void heldLock().then((name) => worker.port.postMessage({ kind: "lock", name }));
    return client;
  } catch {
    return null;
  }
}

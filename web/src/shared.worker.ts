// Keeps the connection that all pages of this browser share.

import { heldLock, whenFree } from "./lib/locks";
import { Exchange, serve } from "./lib/shared";

const exchange = new Exchange((url, init) => fetch(url, init));
const lock = heldLock();

(globalThis as unknown as { onconnect: (event: MessageEvent) => void }).onconnect = ({ ports }) => {
  const port = ports[0];
  if (!port) return;
  serve(exchange, port, whenFree);
  void lock.then((name) => port.postMessage({ kind: "lock", name }));
};

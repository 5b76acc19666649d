// Locks that the browser frees when their holder is gone, however it went.

/** Takes a lock for as long as this page or worker is there; its name, once it is held. */
export function heldLock(): Promise<string> {
  const name = `teamster-${crypto.randomUUID()}`;
  return new Promise((held) => {
    void navigator.locks.request(name, () => {
      held(name);
      return new Promise(() => undefined);
    });
  });
}

/** Calls back when nobody holds the lock of this name any more. */
export function whenFree(name: string, free: () => void): void {
  void navigator.locks.request(name, () => free());
}

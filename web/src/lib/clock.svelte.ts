// The time, as the server has it: ages are counted from its clock, not from the browser's.

class Clock {
  /** Now, in milliseconds since the epoch; moves once a second. */
  now = $state(Date.now());
  #ahead = 0;

  /** Learns the server's time. */
  set(server: string): void {
    this.#ahead = Date.parse(server) - Date.now();
    this.now = Date.now() + this.#ahead;
  }

  /** Runs until the answer is called. */
  run(): () => void {
    const timer = setInterval(() => {
      if (!document.hidden) this.now = Date.now() + this.#ahead;
    }, 1000);
    return () => clearInterval(timer);
  }
}

/** The clock of the page. */
export const clock = new Clock();

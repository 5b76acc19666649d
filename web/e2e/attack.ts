// What a page of somebody else's tries, in the browser of a person who is signed in to Studio.

/** What was tried, and what came back. */
export interface Tried {
  way: string;
  /** Whatever the page could read, as text; empty when nothing. */
  read: string;
}

/** Where the page attacks, and what it knows already: more than any attacker would. */
export interface Target {
  origin: string;
  team: string;
  gate: string;
  commit: string;
}

/** Reads by every way that a page has. Runs in the page. */
export async function readAll({ origin, team }: Target): Promise<Tried[]> {
  const tried: Tried[] = [];
  const pause = (ms: number) => new Promise((done) => setTimeout(done, ms));
  const secrets = [`${origin}/api/v1/teams`, `${origin}/api/v1/teams/${team}`, `${origin}/api/v1/events?team=${team}&after=0`, `${origin}/`];
  const why = (error: unknown) => (error instanceof Error ? error.name : String(error));
  const asked = async (way: string, url: string, how: RequestInit) => {
    const stop = new AbortController();
    const late = setTimeout(() => stop.abort(), 1500);
    try {
      const answer = await fetch(url, { ...how, signal: stop.signal });
      // A stream never ends: its first piece is all that is wanted.
      const piece = await answer.body?.getReader().read();
      tried.push({ way, read: new TextDecoder().decode(piece?.value) });
    } catch (error) {
      tried.push({ way: `${way}: ${why(error)}`, read: "" });
    } finally {
      clearTimeout(late);
    }
  };
  await Promise.all(
    secrets.flatMap((url) => [
      asked(`fetch ${url}`, url, { credentials: "include" }),
      asked(`fetch no-cors ${url}`, url, { credentials: "include", mode: "no-cors" }),
      asked(`fetch with a header ${url}`, url, { credentials: "include", headers: { "last-event-id": "0" } }),
    ]),
  );
  await new Promise<void>((done) => {
    const source = new EventSource(`${origin}/api/v1/events?team=${team}&after=0`, { withCredentials: true });
    let read = "";
    for (const name of ["message", "hello", "view", "journal", "overview"]) source.addEventListener(name, (event) => (read += (event as MessageEvent).data));
    source.onopen = () => (read += "open");
    source.onerror = () => source.close();
    setTimeout(() => {
      source.close();
      tried.push({ way: "EventSource", read });
      done();
    }, 400);
  });
  const element = (tag: string, fields: object) =>
    new Promise<void>((done) => {
      const made = Object.assign(document.createElement(tag), fields) as HTMLElement;
      made.onload = () => {
        const { contentDocument, naturalWidth } = made as HTMLIFrameElement & HTMLImageElement;
        let read = naturalWidth ? "an image" : "";
        try {
          read += contentDocument?.documentElement.textContent ?? "";
        } catch {
          // Not for this page.
        }
        tried.push({ way: `<${tag}> loaded`, read });
        done();
      };
      made.onerror = () => {
        tried.push({ way: `<${tag}> failed`, read: "" });
        done();
      };
      document.body.append(made);
      setTimeout(done, 1500);
    });
  let thrown = "";
  addEventListener("error", (event) => (thrown += event.message ?? ""));
  await Promise.all([
    element("script", { src: secrets[1] }),
    element("script", { src: `${origin}/api/v1/events?team=${team}&after=0` }),
    element("img", { src: `${origin}/icon.svg` }),
    element("iframe", { src: secrets[0] }),
    element("iframe", { src: secrets[3] }),
    element("object", { data: secrets[1] }),
    element("link", { rel: "stylesheet", href: secrets[1] }),
  ]);
  // What a script's mistake tells of it.
  tried.push({ way: "errors of scripts", read: thrown });
  // Written so that nobody but the browser sees an import here.
  const imported = new Function("url", "return import(url)") as (url: string) => Promise<unknown>;
  await imported(secrets[1] ?? "").then(
    (found) => tried.push({ way: "import", read: JSON.stringify(found) }),
    (error: unknown) => tried.push({ way: `import: ${why(error)}`, read: "" }),
  );
  for (const url of [secrets[0], secrets[3]]) {
    const opened = open(url, "_blank");
    await pause(500);
    let read = "";
    try {
      read = opened?.document.documentElement.textContent ?? "";
    } catch {
      // Not for this page.
    }
    tried.push({ way: `window.open ${url}`, read });
    opened?.close();
  }
  return tried;
}

/** Acts by every way that a page has. Runs in the page. */
export async function actAll({ origin, team, gate, commit }: Target): Promise<Tried[]> {
  const tried: Tried[] = [];
  const wishes: [string, object][] = [
    ["approval", { gate, commit, answer: "approve", rollback: false, text: "" }],
    ["approval", { gate, commit, answer: "reject", rollback: true, text: "" }],
    ["messages", { to: "all", text: "from afar" }],
    ["drain", { drain: true, force: true }],
  ];
  for (const [what, wish] of wishes) {
    const url = `${origin}/api/v1/teams/${team}/${what}`;
    const body = JSON.stringify(wish);
    const sent = async (way: string, how: RequestInit) => {
      await fetch(url, { method: "POST", credentials: "include", body, ...how }).then(
        async (answer) => tried.push({ way: `${way}: ${answer.status}`, read: await answer.text() }),
        () => tried.push({ way: `${way}: refused`, read: "" }),
      );
    };
    await sent(`${what} as JSON`, { headers: { "content-type": "application/json" } });
    await sent(`${what} as text`, { headers: { "content-type": "text/plain" } });
    await sent(`${what} no-cors`, { mode: "no-cors", headers: { "content-type": "text/plain" } });
    await sent(`${what} no-cors, no type`, { mode: "no-cors", body: new Blob([body]) });
    tried.push({ way: `beacon ${navigator.sendBeacon(url, body)}`, read: "" });
    // A form whose only field makes a JSON text, with the `=` inside of a string.
    for (const enctype of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]) {
      const frame = Object.assign(document.createElement("iframe"), { name: `f${Math.random()}` });
      const form = Object.assign(document.createElement("form"), { method: "POST", action: url, enctype, target: frame.name });
      form.append(Object.assign(document.createElement("input"), { name: `${body.slice(0, -1)},"x":"`, value: '"}' }));
      document.body.append(frame, form);
      const done = new Promise((loaded) => (frame.onload = loaded));
      form.submit();
      await Promise.race([done, new Promise((late) => setTimeout(late, 500))]);
      tried.push({ way: `form of ${enctype}`, read: "" });
    }
  }
  await fetch(`${origin}/api/v1/zombies/reap`, { method: "POST", credentials: "include", mode: "no-cors", body: '{"dryRun":false}' }).catch(() => undefined);
  return tried;
}

// What the address shows: `#/`, `#/zombies`, `#/team/KEY/VIEW`, with `task`, `worker` or `branch` behind a `?`.

/** The views of one team, in the order of their tabs. */
export const VIEWS = ["team", "graph", "timeline", "log", "changes", "approval", "cost", "run"] as const;

/** A view of one team. */
export type ViewName = (typeof VIEWS)[number];

/** A place. */
export interface Place {
  page: "teams" | "zombies" | "team";
  team: string | null;
  view: ViewName;
  query: URLSearchParams;
}

/** The place that an address names. What cannot be read is the list of teams. */
export function placeOf(hash: string): Place {
  const [path = "", query = ""] = hash.replace(/^#/, "").split("?", 2);
  const parts = path.split("/").filter((part) => part !== "");
  const place: Place = { page: "teams", team: null, view: "team", query: new URLSearchParams(query) };
  if (parts[0] === "zombies") place.page = "zombies";
  if (parts[0] === "team" && parts[1]) {
    try {
      place.team = decodeURIComponent(parts[1]);
      place.page = "team";
    } catch {
      return place;
    }
    const view = VIEWS.find((name) => name === parts[2]);
    if (view) place.view = view;
  }
  return place;
}

/** The address of a team's view. */
export function addressOfView(team: string, view: ViewName = "team", query: Record<string, string> = {}): string {
  const asked = new URLSearchParams(query).toString();
  return `#/team/${encodeURIComponent(team)}/${view}${asked === "" ? "" : `?${asked}`}`;
}

class Route {
  place = $state.raw<Place>(placeOf(typeof location === "undefined" ? "" : location.hash));

  /** Follows the address. */
  listen(): () => void {
    const moved = () => {
      this.place = placeOf(location.hash);
    };
    window.addEventListener("hashchange", moved);
    return () => window.removeEventListener("hashchange", moved);
  }
}

/** Where the page is. */
export const route = new Route();

/** Goes somewhere. */
export function go(address: string): void {
  location.hash = address;
}

/** Changes what stands behind the `?`, without a step in the history. */
export function refine(change: Record<string, string | null>): void {
  const query = new URLSearchParams(route.place.query);
  for (const [name, value] of Object.entries(change)) {
    if (value === null) query.delete(name);
    else query.set(name, value);
  }
  const [path] = location.hash.split("?", 1);
  const asked = query.toString();
  history.replaceState(null, "", `${path || "#/"}${asked === "" ? "" : `?${asked}`}`);
  route.place = placeOf(location.hash);
}

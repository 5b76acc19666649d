// A real team at work: three scripted workers, tasks that wait for each other, one that fails, one that goes on.

import type { Place } from "./kit";
import { until } from "./kit";

export const TEAM = "type-errors";

const SCRIPT = `
[[step]]
task = "Fix the loader"
do = "say"
text = "the loader has three errors"

[[step]]
task = "Fix the loader"
do = "edit"
path = "src/loader.ts"
find = "path)"
replace = "path: string): Config"

[[step]]
task = "Fix the loader"
do = "say"
text = "\\u001b[31mred\\u001b[0m <img src=x onerror=alert(1)> \\u202eevil"

[[step]]
task = "Fix the loader"
do = "commit"
text = "Give the loader types"

[[step]]
task = "Fix the loader"
do = "usage"
tokens_in = 18200
cached_in = 9100
tokens_out = 2100
usd = 0.12

[[step]]
task = "Fix the loader"
do = "done"
text = "the loader has types"

[[step]]
task = "Check the old API"
do = "say"
text = "looking for the old API"

[[step]]
task = "Check the old API"
do = "usage"
tokens_in = 900
tokens_out = 40
usd = 0.004

[[step]]
task = "Check the old API"
do = "fail"
text = "the old API is gone"

[[step]]
task = "Watch"
do = "say"
text = "watching"

[[step]]
task = "Watch"
do = "edit"
path = "src/watch.ts"
content = "export const watched = true;\\n"

[[step]]
task = "Watch"
do = "commit"
text = "Watch the build"

[[step]]
task = "Watch"
do = "run"
command = "yes 0123456789 | tr -d '\\\\n' | head -c 1000000; echo"

[[step]]
task = "Watch"
do = "wait-for-file"
path = "never.txt"
seconds = 600

# Every other task.

[[step]]
fill = true
do = "say"
text = "reading what {subject} is about"

[[step]]
fill = true
do = "edit"
path = "src/{id}.ts"
content = "// {subject}\\nexport const done: boolean = true;\\n"

[[step]]
fill = true
do = "commit"
text = "Task {id}"

[[step]]
do = "usage"
tokens_in = 5200
cached_in = 1400
tokens_out = 640
usd = 0.031

[[step]]
fill = true
do = "say"
text = "task {id} is done"
`;

/** The plan, with a chain, two branches, and names that a hostile program might choose. */
const PLAN = {
  tasks: [
    { id: "read", subject: "Read the configuration loader", description: "Find out what it reads, and from where." },
    { id: "types", subject: "Write types for the API", blockedBy: ["read"] },
    { id: "loader", subject: "Fix the loader's type errors", description: "Fix what `tsc` reports in src/loader.ts.\n\nDo not change behaviour.", blockedBy: ["read"], owner: "grace", paths: ["src/loader.ts"] },
    { id: "store", subject: "Fix the store's type errors", blockedBy: ["types"] },
    { id: "view", subject: "Fix the view's type errors", blockedBy: ["types"] },
    { id: "ko", subject: "한국어 오류 메시지 정리하기", blockedBy: ["loader"] },
    { id: "old", subject: "Check the old API" },
    { id: "evil", subject: "<img src=x onerror=\"document.body.id='pwned'\"> & <b>bold</b>", blockedBy: ["store"] },
    { id: "watch", subject: "Watch the build", owner: "linus", blockedBy: ["view"] },
    { id: "tests", subject: "Write tests for the loader", blockedBy: ["watch", "ko"] },
    { id: "readme", subject: "Update the README", blockedBy: ["tests"] },
    { id: "after", subject: "Remove what the old API left", blockedBy: ["old"] },
  ],
};

/** The part of a row of the task list that the stories look at. */
export interface TaskState {
  id: string;
  state: string;
}

/** Where each task stands. */
export async function states(place: Place): Promise<Map<string, string>> {
  const { tasks } = JSON.parse(await place.teamster("task", "list", "--team", TEAM, "--json")) as { tasks: TaskState[] };
  return new Map(tasks.map(({ id, state }) => [id, state]));
}

/** Starts the team and waits until all that can be done is done, and one task goes on; `failed`: and one has failed for good, which takes its three attempts. */
export async function shop(place: Place, failed = false): Promise<void> {
  await place.git({
    "README.md": "# The shop\n",
    "src/loader.ts": "export function load(path) {\n  return read(path);\n}\n",
  });
  await place.team(TEAM);
  const script = place.write("../script.toml", SCRIPT);
  const plan = place.write("../plan.json", JSON.stringify(PLAN));
  await place.teamster("task", "import", plan, "--team", TEAM);
  for (const name of ["ada", "grace", "linus"]) {
    await place.teamster("worker", "start", "--team", TEAM, "--name", name, "--provider", `demo=scripted:${script}`);
  }
  await place.teamster("message", "broadcast", "--team", TEAM, "Please keep the tests green.");
  await place.teamster("message", "send", "--team", TEAM, "--to", "ada", "The loader comes first. \u001b[31m<script>alert(1)</script>");
  await until(
    "the work",
    async () => {
      const now = await states(place);
      const done = [...now.values()].filter((state) => state === "completed").length;
      return done >= 7 && (!failed || now.get("7") === "failed") && now.get("9") === "in_progress";
    },
    180_000,
  );
}

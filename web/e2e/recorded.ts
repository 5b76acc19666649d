// The events of a run up to its gate, as the host of a run writes them. They are added to the journal of a real team,
// so that the page can be tried at a gate that stays open.

import type { Place } from "./kit";

const COMMIT = "3f9a1c27d4b85e60a1f2c3d4e5f60718293a4b5c";
const BASE = "8c2d0f6b1a3e5d7f9b0c2e4a6d8f1b3c5e7a9d0f";

/** Everything up to the gate; `gate` and `commit` can be another one's. */
export function gate(place: Place, team: string, name: string, commit = COMMIT): void {
  const shown = {
    verification: "Not fully verified: of 2 checks, 1 flaky, which is not passed; 1 passed.",
    unverified: [{ command: "npm run lint", why: "flaky, which is not passed" }],
    findings: [{ name: "reviewing-001.md", text: "# Review\n\nThe loader reads \u001b[31mtwice <b>what it needs once</b>." }],
    files: [{ path: "src/loader.ts", added: 12, removed: 4 }, { path: "logo.png", added: null, removed: null }],
    fileCount: 2,
    failed: [{ taskId: "2", subject: "Write types", why: "the old API is gone" }],
    outside: [{ taskId: "3", files: ["src/outside.ts"] }],
    inTheWay: ["src/mine.ts"],
  };
  place.record(team, [{ type: "approval.shown", data: { gate: name, ...shown } }]);
  place.record(team, [{ type: "approval.requested", data: { gate: name, commit, base: BASE, branch: "main", verified: true, words: "All tasks that could be done are done; one failed for good." } }]);
}

/** A run before its gate. */
export function run(place: Place, team: string, tasks: { id: string; subject: string }[]): void {
  const stage = (word: string, reason: string, round = 0) => ({ type: "run.stage", data: { stage: word, reason, round } });
  place.record(team, [
    {
      type: "run.started",
      data: {
        task: "Fix all type errors, and keep the tests green", agents: "3:executor",
        members: ["ada", "grace", "linus"].map((member) => ({ name: member, provider: "demo", role: "executor", model: null })),
        base: { commit: BASE, branch: "main" }, verify: [{ command: "npm test", source: "package.json" }, { command: "npm run lint", source: "package.json" }],
        approve: "ask", maxFix: 3, flow: "staged", leader: "engine", inPlace: false, budget: { tokens: 400_000, usd: 5, minutes: 30 }, uncommitted: 2,
      },
    },
    stage("plan", "the run begins"),
    { type: "run.plan", data: { source: "file", path: "plan.json", tasks: tasks.map(({ id, subject }) => ({ label: `t${id}`, id, subject, blockedBy: [] })) } },
    { type: "verify.started", data: { on: "base", commit: BASE, command: "npm run lint", round: 0 } },
    { type: "verify.failed", data: { on: "base", commit: BASE, command: "npm run lint", exitCode: 1, seconds: 2.1, timedOut: false, last: "src/loader.ts: 3 problems", log: ".omc/logs/verify-1.log", round: 0, charged: false } },
    stage("execute", "the plan is made"),
    { type: "merge.predicted", taskId: "3", data: { commit: "aaaa", result: "clean" } },
    { type: "merge.merged", taskId: "3", data: { commit: "aaaa", merge: "bbbb", worker: "grace" } },
    { type: "merge.conflict", taskId: "4", data: { commit: "cccc", files: ["src/store.ts"], times: 1, final: false, fixTask: null } },
    stage("verify", "every task has ended"),
    { type: "verify.started", data: { on: "integration", commit: COMMIT, command: "npm test", round: 0 } },
    { type: "verify.passed", data: { on: "integration", commit: COMMIT, command: "npm test", exitCode: 0, seconds: 8.4, timedOut: false, last: "42 passing", log: null, round: 0, charged: true } },
    { type: "verify.flaky", data: { on: "integration", commit: COMMIT, command: "npm run lint", exitCode: 0, seconds: 2.2, timedOut: false, last: "passed when it was run again", log: null, round: 0, charged: true } },
    stage("approval", "everything passed"),
  ]);
}

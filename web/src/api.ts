// Written by `cargo xtask docs` from the types of the server. Do not edit it by hand: `cargo xtask ci` compares.

/** The server itself. */
export interface Server {
  /** The version of teamster. */
  version: string;
  /** When it was started. */
  startedAt: Time;
  /** What time it is here: ages are counted from this. */
  now: Time;
}

/** A moment in time with the precision our files have: one millisecond. */
export type Time = string;

/** All teams and projects. */
export interface Overview {
  /** The teams: those that wait for a person first, then live ones, then by name. */
  teams: Array<TeamRow>;
  /** The projects that are watched, by path. */
  projects: Array<Project>;
}

/** One team, as the list of teams shows it. */
export interface TeamRow {
  /** Its name in the API. */
  id: string;
  /** Its own name. A foreign program may have chosen any. */
  name: string;
  /** Whose team. */
  kind: TeamKind | null;
  /** The project it works on. */
  project: string | null;
  /** Whether it still does something. */
  state: Viewed;
  /** The stage of its run. */
  stage: string | null;
  /** How many workers it has. */
  members: number;
  /** How far it is. */
  progress: Progress;
  /** How many things need a person. */
  problems: number;
  /** Whether a decision waits for a person. */
  awaitsApproval: boolean;
  /** How many answers of a person agents wait for. */
  questions: number;
  /** The last position of its journal; 0 when it has none. */
  seq: number;
  /** When something last happened. */
  updatedAt: Time | null;
  /** The team of the store that a state file tells about too. */
  sameAs: string | null;
  /** What is wrong with its registry. */
  problem: string | null;
}

/** Whose team it is. */
export type TeamKind = "teamster" | "claude" | "state-file";

/** What a viewer says about a team, a session or a project. */
export type Viewed = "live" | "stale" | "ended" | "inactive";

/** Counts of a team's tasks. Internal tasks are left out. */
export interface Progress {
  /** All of them. */
  totalTasks: number;
  /** Done; those that failed for good are not. */
  completedTasks: number;
  /** Being worked on. */
  inProgressTasks: number;
  /** Failed for good. */
  failedTasks: number;
  /** Neither begun nor ended. */
  pendingTasks: number;
}

/** A project that is watched. */
export interface Project {
  /** Its folder. */
  path: string;
  /** Its last part, for people. */
  name: string;
  /** `inactive` when there is neither a team nor a state file; else the liveliest state of what there is. */
  state: Viewed;
  /** How many teams and sessions are there. */
  teams: number;
  /** Whether the folder is there. */
  exists: boolean;
}

/** One team, now or at a past moment. */
export interface TeamView {
  /** Its name in the API. */
  id: string;
  /** Its own name. A foreign program may have chosen any. */
  name: string;
  /** Whose team; `null` when its registry cannot be read. */
  kind: TeamKind | null;
  /** The project it works on. */
  project: string | null;
  /** What it is for. */
  description: string;
  /** Whether it still does something; at a past moment, as far as the journal tells. */
  state: Viewed;
  /** The position of the journal that this shows; 0 when there is none. */
  seq: number;
  /** The moment that this shows. */
  at: Time | null;
  /** Whether this is a past moment, told by the journal alone. */
  past: boolean;
  /** How much of the journal is counted in. */
  history: History;
  /** How far it is. */
  progress: Progress;
  /** Its workers, at most 1,000: first those that work or need a person, where there are more. */
  workers: Array<Worker>;
  /** How many workers there are in all. */
  workerCount: number;
  /** Its tasks, in the order of their numbers. */
  tasks: Array<TaskRow>;
  /** The longest chain of tasks that are not completed. */
  criticalPath: Array<TaskId>;
  /** The last 50 messages, the oldest first. */
  messages: Array<Message>;
  /** How many messages there were in all. */
  messageCount: number;
  /** Its run; `null` while it has none. */
  run: Run | null;
  /** The gate; `null` while it was never open. */
  approval: Approval | null;
  /** What was run to verify, in order. */
  verifications: Array<Verification>;
  /** What was merged or could not be, in order. */
  merges: Array<Merge>;
  /** The plan that was proposed to a person last; `null` when none was. */
  proposal: Proposal | null;
  /** What agents ask: all that wait for an answer, and the last 100 that do not any more, the oldest first. */
  questions: Array<Question>;
  /** The turns of the agent that leads the run, after its plan, in order. */
  wakes: Array<Wake>;
  /** The reviews of the merged work, in order. */
  reviews: Array<Review>;
  /** What workers and the leader found wrong, in order. */
  findings: Array<TeamFinding>;
  /** Which of several results of the same work was chosen. */
  choice: Choice | null;
  /** What was spent. */
  cost: Cost;
  /** What needs a person, at most 200. */
  problems: Array<Problem>;
  /** How many of these there are in all. */
  problemCount: number;
  /** What a state file says of its session; `null` for other teams. */
  session: Session | null;
}

/** How much of the journal a view has counted in. A long journal is read while the present is shown already; until it is read, costs, times and older messages are missing. */
export interface History {
  /** Up to this position. */
  read: number;
  /** Of this last one. */
  last: number;
  /** Whether that is all of it. */
  complete: boolean;
}

/** One worker, or a teammate of a session. */
export interface Worker {
  /** Its name. */
  name: string;
  /** What it is for, where a run or a session says so. */
  role: string | null;
  /** Which client it drives. */
  provider: string;
  /** Which model it uses, where that is known. */
  model: string | null;
  /** How it runs. */
  backendType: string;
  /** What it is doing, as its bridge, its client or the journal says: `polling`, `executing`, `idle`, `spawning`, `working`, `completed`, `failed`, `stopped` and others. */
  status: string | null;
  /** How it is. */
  verdict: Verdict;
  /** What the verdict rests on, in words. */
  evidence: Array<string>;
  /** The codes of these sentences, in the same order, for other languages. */
  evidenceCodes: Array<PhraseKey>;
  /** Its bridge's process. */
  pid: number | null;
  /** The task it works on. */
  currentTaskId: TaskId | null;
  /** What that task is, in words. */
  currentTask: string | null;
  /** Since when it works on that, or does nothing. */
  since: Time | null;
  /** When its bridge last looked for work. */
  lastPollAt: Time | null;
  /** When it or its agent last did anything. */
  lastEventAt: Time | null;
  /** Errors since its last success. */
  consecutiveErrors: number;
  /** Tasks it completed. */
  tasksCompleted: number;
  /** Attempts of it that failed. */
  attemptsFailed: number;
  /** What it spent. */
  spent: Spent;
  /** What its agent wants to do and a person has to decide. */
  requests: Array<Request>;
  /** It was asked to stop: `shutdown` or `drain`. */
  askedTo: string | null;
}

/** How a worker is doing. */
export type Verdict = "healthy" | "at-risk" | "quarantined" | "limited" | "silent" | "hung" | "dead" | "unknown";

/** A code with its parameters: all that another language needs. */
export interface PhraseKey {
  /** Which sentence it is. */
  code: PhraseCode;
  /** What is filled in, by name. */
  params: Record<string, unknown>;
}

/** Names a sentence of ours. */
export type PhraseCode = "verbatim" | "heartbeat-old" | "heartbeat-ahead" | "pid-gone" | "pid-gone-alone" | "pid-alive" | "pid-elsewhere" | "pid-not-judged" | "no-heartbeat" | "process-gone" | "process-alive" | "no-process" | "not-started" | "one-error" | "errors-in-a-row" | "last-error" | "says-quarantined" | "limited" | "limited-window" | "provider-down" | "provider-signed-out" | "agent-quiet" | "agent-quiet-on-task" | "in-lead-runs" | "in-lead-gone" | "in-lead-not-judged" | "in-lead-unrecorded" | "lead-runs" | "lead-gone" | "lead-not-judged" | "lead-unrecorded" | "client-calls-active" | "client-calls-idle" | "session-in-pane-runs" | "session-in-pane-gone" | "place-unknown" | "in-pane" | "ended-in-order" | "ended-in-order-because" | "journal-says" | "attempts-failed" | "state-file-says" | "last-active" | "seat-taken" | "worker-verdict" | "work-waits" | "waits-for-decision" | "plan-waits" | "message-undelivered" | "messages-undelivered" | "message-undelivered-long" | "messages-undelivered-long" | "file-damaged" | "journal-line-damaged" | "journal-lines-damaged" | "lead-session-ends" | "lead-process-gone" | "lead-process-runs" | "lead-process-not-judged" | "host-runs" | "host-not-judged" | "lead-session-runs" | "lead-session-not-judged" | "heartbeats-unreadable" | "worker-heartbeat" | "worker-not-judged" | "inbox-folder" | "inbox-unreadable" | "inbox-unread-message" | "inbox-unread-messages" | "claim-runs" | "claimer-runs" | "claimer-not-judged" | "lock-in-use" | "lock-not-judged" | "lock-held" | "runs-as-member" | "pid-runs" | "pane-out-of-reach" | "client-runs-in-pane" | "pane-not-looked-for" | "pane-not-findable" | "pane-program-ended" | "pane-of-member-open" | "pane-open" | "own-pane-ended" | "odd-time" | "others-stopped" | "others-not-proven" | "no-sign-of-life" | "old-alive" | "old-perhaps-alive" | "was-restored" | "open-task-of-session" | "open-tasks-of-session" | "open-task" | "open-tasks" | "removal-unfinished" | "run-unfinished" | "run-never-finished" | "run-finished" | "run-host-gone" | "team-removed" | "team-gone" | "team-half-made" | "registry-unreadable" | "name-not-utf8" | "link-not-followed" | "of-another-user" | "heartbeat-pid-runs" | "heartbeat-pid-may-run" | "heartbeat-pid-gone" | "task-in-its-name" | "temp-file-left" | "lock-folder-left" | "claim-lock-unnamed" | "claim-lock-left" | "ended-when-asked" | "killed-after" | "nothing-verified" | "verified-elsewhere" | "verified-by-check" | "verified-by-checks" | "part-of-check-verified" | "part-of-checks-verified" | "count-failed" | "count-failed-before" | "count-flaky" | "count-stopped" | "count-not-run" | "count-passed" | "gate-verified" | "gate-nothing-verified" | "gate-not-verified" | "check-elsewhere" | "check-flaky" | "check-stopped" | "check-failed" | "check-timed-out" | "check-failed-before" | "check-not-run" | "nobody-said-why" | "task-not-mergeable" | "task-waits-for" | "refs-not-compared" | "branch-moved" | "branch-deleted" | "branch-new" | "branch-moved-before-landing" | "tag-moved" | "tag-deleted" | "tag-new" | "checkout-moved" | "checkout-deleted" | "checkout-new" | "ref-moved" | "ref-deleted" | "ref-new" | "more-refs-changed" | "message-untaken" | "more-messages-untaken" | "not-on-branch" | "branch-not-changed" | "branch-not-moved" | "branch-gone" | "branch-moved-back" | "branch-still-conflicts" | "by-checks" | "by-person-in-studio" | "by-person-at-terminal" | "run-begins" | "requirements-wanted" | "leader-asks-first" | "plan-is-made" | "finished-is-merged" | "more-is-finished" | "every-task-done" | "some-tasks-done" | "every-finished-task-merged" | "finished-tasks-not-merged" | "tasks-to-do-again" | "merged-work-missing" | "merged-work-not-verified" | "approved-work-not-verified" | "needs-leader" | "no-check-found" | "all-checks-passed" | "no-check-broken" | "verification-failed" | "review-found-one" | "review-found-some" | "branch-has-moved" | "branch-conflicts" | "work-stays-on-its-branch" | "work-is-in-folder" | "landed-on" | "landed-below-others" | "nothing-changed" | "nothing-changed-and-fails" | "person-rejected" | "person-cancelled" | "person-stopped" | "too-many-revisions" | "tasks-failed-for-good" | "failed-tasks-cancelled" | "task-error" | "task-not-merged" | "verification-fails" | "verification-still-fails" | "plan-not-accepted" | "plan-not-accepted-because" | "no-task-done" | "nobody-left" | "too-many-tasks" | "tickets-not-done" | "no-reviewer" | "no-repository-to-review" | "budget-used-up" | "agent-not-started" | "agent-stopped" | "agent-cannot-work" | "agent-failed" | "agent-unusable" | "leader-not-started" | "leader-stopped" | "leader-cannot-work" | "leader-failed" | "leader-unusable" | "leader-late" | "budget-exhausted" | "budget-has-no-room" | "missing-commit" | "missing-without-commit" | "no-result-taken" | "result-of-task" | "result-kept-as" | "result-passes" | "result-failed" | "result-failed-unexplained" | "result-unchanged" | "result-fails-checks" | "result-lines" | "chosen-by-judge" | "chosen-alone" | "chosen-smallest" | "judge-not-asked" | "judge-asked" | "judge-chose-none" | "nobody-changes-plan" | "leader-made-no-other-plan" | "edited-plan-unusable" | "run-is-being-stopped" | "leader-did-not-answer" | "no-leader" | "leader-woken-often" | "leader-failed-often" | "leader-share-used" | "nobody-to-ask" | "left-to-leader" | "question-task-given-up" | "question-task-removed" | "question-task-goes-on" | "question-run-over" | "question-worker-restarted" | "question-worker-stopped" | "question-worker-dead" | "question-work-ended" | "question-unanswered" | "question-agent-gone" | "task-failed" | "task-failed-unexplained" | "task-completed" | "works-on-it" | "works-on-it-until" | "works-on-it-overdue" | "blocked-by-failure" | "blocked-by-missing" | "waits-for" | "waits-for-merge" | "waits-for-answer" | "not-again-until" | "files-reserved" | "internal" | "assigned-to" | "free" | "free-again";

/** The id of a task: `^[0-9]{1,20}$`, always text, ordered as a number. */
export type TaskId = string;

/** Tokens and money. Tokens are counted in kinds that do not overlap. */
export interface Spent {
  /** All tokens together: what a budget counts. */
  tokens: number;
  /** Read by the model and not from a cache. */
  input: number;
  /** Read from a cache. */
  cachedInput: number;
  /** Written to a cache. */
  cacheWrite: number;
  /** Written by the model, its reasoning included. */
  output: number;
  /** In US dollars; `null` when no client told any price. */
  costUsd: number | null;
  /** The tokens are a lower bound: a client ended before it told its sum, or told none. */
  atLeast: boolean;
  /** The money is a lower bound: the same, or a client told no price. */
  costAtLeast: boolean;
  /** How many times a client told what it used. */
  reports: number;
}

/** A request of an agent that waits for a person's answer. */
export interface Request {
  /** Its name, for the answer. */
  request: string;
  /** What the agent wants to do. */
  what: string;
  /** The task that it is for. */
  taskId: TaskId | null;
  /** Since when it waits. */
  askedAt: Time;
  /** The command that allows it. */
  command: string;
}

/** One task with its place in the graph. */
export interface TaskRow {
  /** Its id. */
  id: TaskId;
  /** What to do. */
  subject: string;
  /** The word in the file: `pending`, `in_progress` or `completed`. */
  status: string;
  /** Where it stands. */
  state: State;
  /** Why it stands there, in words. */
  reason: string;
  /** The codes of these sentences, for other languages. */
  reasonCodes: Array<PhraseKey>;
  /** Who has it. */
  owner: string | null;
  /** What it waits for. */
  blockedBy: Array<TaskId>;
  /** Its place in the graph: 0 waits for nothing, every other one is behind all that it waits for. */
  level: number;
  /** Whether it is part of the longest chain of tasks that are not completed. */
  critical: boolean;
  /** Whether it is claimed by name only, and counts in no progress. */
  internal: boolean;
  /** Attempts that failed. */
  attempts: number;
  /** When it was last claimed. */
  startedAt: Time | null;
  /** When it was completed or failed for good. */
  endedAt: Time | null;
  /** The task that it repairs: this one was made by a failed verification or a conflict. */
  fixes: TaskId | null;
}

/** Where a task stands, as people and programs see it. */
export type State = "claimable" | "waiting" | "blocked" | "in_progress" | "completed" | "failed";

/** One message. */
export interface Message {
  /** Its place in the journal; 0 in a session's state file, which has none. */
  seq: number;
  /** Its id; empty for one that went to everybody. */
  id: string;
  /** What sort of message it is: `message`, `context`, `task_complete` and others. */
  type: string;
  /** Who sent it. */
  from: string;
  /** To whom; `all` for everybody. */
  to: string;
  /** What it says. */
  content: string;
  /** When it was sent. */
  sentAt: Time | null;
  /** About which task. */
  taskId: TaskId | null;
}

/** A run, as its events tell it. What was not told is `null`. */
export interface Run {
  /** The sentence. */
  task: string;
  /** Who was asked for: `3:executor`. */
  agents: string;
  /** Who takes part. */
  members: Array<RunMember>;
  /** What the work starts from. */
  base: Base | null;
  /** What is run to verify the work. */
  verify: Array<VerifyCommand>;
  /** `ask`, `auto` or `never`. */
  approve: string | null;
  /** How many rounds of fixing there are at most. */
  maxFix: number | null;
  /** `staged`, `party` or `pdca`. */
  flow: string | null;
  /** Who leads. */
  leader: string | null;
  /** Whether the workers share the project's own folder. */
  inPlace: boolean;
  /** What it may spend. */
  budget: Budget | null;
  /** How many files of the user's are not part of the base. */
  uncommitted: number;
  /** The stage it is in: `plan`, `requirements`, `execute`, `verify`, `fix`, `approval` or `end`. */
  stage: string | null;
  /** The round of fixing. */
  round: number;
  /** Every stage it entered, in order. */
  stages: Array<Stage>;
  /** Its plan. */
  plan: Plan | null;
  /** When it began. */
  startedAt: Time | null;
  /** When a host last took it over. */
  resumedAt: Time | null;
  /** How it ended. */
  finished: Finished | null;
}

/** Somebody who takes part in a run. */
export interface RunMember {
  /** Its name. */
  name: string;
  /** Which client it drives. */
  provider: string | null;
  /** What it is for. */
  role: string | null;
  /** Which model it uses. */
  model: string | null;
}

/** What the work of a run starts from. */
export interface Base {
  /** The commit. */
  commit: string;
  /** The branch. */
  branch: string | null;
}

/** A command that verifies. */
export interface VerifyCommand {
  /** The command. */
  command: string;
  /** Who says so. */
  source: string | null;
}

/** What a run may spend; `null` is no limit. */
export interface Budget {
  /** How many tokens it may use. */
  tokens: number | null;
  /** How many US dollars it may spend. */
  usd: number | null;
  /** How many minutes it may take. */
  minutes: number | null;
}

/** A stage that a run entered. */
export interface Stage {
  /** The name of the stage. */
  stage: string;
  /** When the run entered it. */
  at: Time;
  /** Its place in the journal. */
  seq: number;
  /** Why the run entered it. */
  reason: string;
  /** The codes of these words, for other languages; empty where somebody else wrote them, or an older version did. */
  reasonCodes: Array<PhraseKey>;
  /** The round of fixing. */
  round: number;
}

/** The plan of a run. */
export interface Plan {
  /** `file`, `leader`, `preset`, `session` or `sentence`. */
  source: string;
  /** Its file. */
  path: string | null;
  /** What whoever planned found out about the work. */
  analysis: string;
  /** What whoever planned has taken for granted. */
  assumptions: Array<string>;
  /** What could go wrong. */
  risks: Array<string>;
  /** Its tasks. */
  tasks: Array<PlanTask>;
}

/** One task of a plan. */
export interface PlanTask {
  /** Its name in the plan. */
  label: string;
  /** Its id in the team. */
  id: TaskId | null;
  /** What to do. */
  subject: string;
  /** What it waits for, by name. */
  blockedBy: Array<string>;
}

/** How a run ended. */
export interface Finished {
  /** `complete`, `rejected`, `rolled_back`, `failed`, `cancelled`, `budget_exhausted` or `tasks_failed`. */
  outcome: string;
  /** The exit code of `teamster run`. */
  exitCode: number | null;
  /** Why it ended so. */
  reason: string;
  /** The codes of these words, for other languages; empty where somebody else wrote them, or an older version did. */
  reasonCodes: Array<PhraseKey>;
  /** The commit that landed. */
  commit: string | null;
  /** When it ended. */
  at: Time;
}

/** The gate of a run. */
export interface Approval {
  /** Its place in the journal. */
  seq: number;
  /** Its name. */
  gate: string;
  /** The commit that is decided about. */
  commit: string;
  /** What it is compared with. */
  base: string | null;
  /** The branch that it would land on. */
  branch: string | null;
  /** Whether verification ran and passed. */
  verified: boolean;
  /** What to know, in words. */
  words: string;
  /** The codes of these words, for other languages; empty where somebody else wrote them, or an older version did. */
  wordsCodes: Array<PhraseKey>;
  /** Why the commit could not land when it was approved before. */
  refused: string | null;
  /** The codes of these words, for other languages; empty where somebody else wrote them, or an older version did. */
  refusedCodes: Array<PhraseKey>;
  /** What else the decision rests on, as it stood when the gate opened; `null` when the run did not tell. */
  shown: Shown | null;
  /** When it opened. */
  askedAt: Time;
  /** Whether an answer is still waited for. */
  waits: boolean;
  /** What was answered. */
  answer: Answer | null;
}

/** What a person is shown at the gate. */
export interface Shown {
  /** Whether the work was verified, in one sentence that never says more than is so. */
  verification: string;
  /** The codes of these sentences, for other languages; empty in a journal of an older version. */
  verificationCodes?: Array<PhraseKey>;
  /** Checks that do not count as passed, and why. */
  unverified: Array<Unverified>;
  /** What was found out on the way, by reviewers too. */
  findings: Array<Finding>;
  /** The files that would change, at most 200. */
  files: Array<FileChange>;
  /** How many files would change in all. */
  fileCount: number;
  /** What failed for good, or waits for that. */
  failed: Array<GivenUp>;
  /** What agents wanted to do and were not allowed: first what nobody answered. */
  denied: Array<DeniedRequest>;
  /** What the workers say about their tasks, in their own words. */
  said: Array<WorkerWords>;
  /** Tasks that changed files which they had not reserved. */
  outside: Array<Outside>;
  /** Files of the user's that are not committed, and that the work would have to write over. */
  inTheWay: Array<string>;
  /** What became of the user's branches and tags while the run was at work, one sentence each. teamster did not do it. */
  references: Array<string>;
  /** The codes of these sentences, in the same order; empty in a journal of an older version. */
  referenceCodes?: Array<PhraseKey>;
  /** Messages to workers that no client took, one sentence each. */
  untaken: Array<string>;
  /** The codes of these sentences, in the same order; empty in a journal of an older version. */
  untakenCodes?: Array<PhraseKey>;
}

/** A check that does not count as passed. */
export interface Unverified {
  /** The command. */
  command: string;
  /** Why not, in words. */
  why: string;
  /** The codes of these sentences, for other languages; empty in a journal of an older version. */
  whyCodes?: Array<PhraseKey>;
}

/** Something that was found out on the way. */
export interface Finding {
  /** Its file, in `.party/findings`. */
  name: string;
  /** What it says, at most 32,768 characters. */
  text: string;
}

/** A file that would change. */
export interface FileChange {
  /** Its path. */
  path: string;
  /** Lines that come; `null` when it is no text. */
  added: number | null;
  /** Lines that go; `null` when it is no text. */
  removed: number | null;
}

/** A task that will not be done. */
export interface GivenUp {
  /** The task. */
  taskId: TaskId;
  /** What it was about. */
  subject: string;
  /** Why not, in words. */
  why: string;
  /** The codes of these sentences, for other languages; empty in a journal of an older version. */
  whyCodes?: Array<PhraseKey>;
}

/** Something that an agent wanted to do and was not allowed. */
export interface DeniedRequest {
  /** The worker. */
  worker: string;
  /** The task that it was for. */
  taskId: TaskId | null;
  /** What the agent wanted to do; where settings deny it, the reason as well. */
  what: string;
  /** Who denied it. */
  by: DeniedBy;
  /** Why, in words; empty where nobody said so. */
  why: string;
}

/** Who denied what an agent wanted to do. */
export type DeniedBy = "nobody" | "person" | "settings";

/** What a worker says about its task, in its own words. */
export interface WorkerWords {
  /** The task. */
  taskId: TaskId;
  /** What the task is about. */
  subject: string;
  /** Who did it. */
  worker: string | null;
  /** What was done. */
  summary: string;
  /** What was left open. */
  problems: Array<string>;
  /** The first sentence of the summary that says that something did not work. */
  admission: string | null;
}

/** A task that changed files which it had not reserved. */
export interface Outside {
  /** The task. */
  taskId: TaskId;
  /** The files. */
  files: Array<string>;
}

/** An answer at the gate. */
export interface Answer {
  /** `approve`, `reject` or `revise`. */
  answer: string;
  /** Whether the run has taken it. Until then somebody has only said it. */
  taken: boolean;
  /** Who gave it. */
  by: string;
  /** The codes of these words, for other languages; empty where somebody else wrote them, or an older version did. */
  byCodes: Array<PhraseKey>;
  /** Whether the work is to be taken back. */
  rollback: boolean;
  /** What to change. */
  text: string;
  /** When it was given. */
  at: Time;
}

/** One command that was run to verify. */
export interface Verification {
  /** Its place in the journal. */
  seq: number;
  /** `base` or `integration`. */
  on: string;
  /** Of which commit. */
  commit: string;
  /** The command. */
  command: string;
  /** The round of fixing. */
  round: number;
  /** How it stands. */
  state: VerificationState;
  /** Its exit code. */
  exitCode: number | null;
  /** How long it took. */
  seconds: number | null;
  /** Whether it was ended at its limit. */
  timedOut: boolean;
  /** Its last lines. */
  last: string;
  /** Its whole output, in the project. */
  log: string | null;
  /** Whether it counts against the team: not when it failed on the base already. */
  charged: boolean;
  /** When it began. */
  startedAt: Time | null;
  /** When it ended. */
  endedAt: Time | null;
}

/** How a verification stands. */
export type VerificationState = "running" | "passed" | "failed" | "flaky";

/** The merge of one task's work. */
export interface Merge {
  /** Its place in the journal. */
  seq: number;
  /** Of which task. */
  taskId: TaskId | null;
  /** Whose work. */
  worker: string | null;
  /** The commit. */
  commit: string;
  /** How it stands. */
  state: MergeState;
  /** What was predicted: `clean`, `conflict`, `already` or `unrelated`. */
  predicted: string | null;
  /** The merge commit. */
  merge: string | null;
  /** The files that conflict. */
  files: Array<string>;
  /** How many times it conflicted. */
  times: number;
  /** Whether it is not tried again. */
  isFinal: boolean;
  /** The task that repairs it. */
  fixTask: TaskId | null;
  /** When this was last recorded. */
  at: Time;
}

/** How a merge stands. */
export type MergeState = "predicted" | "merged" | "conflict" | "lost" | "unchanged";

/** A plan that was proposed last, and what was said to it. */
export interface Proposal {
  /** Its place in the journal. */
  seq: number;
  /** The number of the proposal in the run, counted from 1. An answer names it. */
  revision: number;
  /** Who made it: `leader`, `person`, `file` or `sentence`. */
  by: string;
  /** When it was proposed. */
  at: Time;
  /** Whether a person has to decide about it now. */
  waits: boolean;
  /** The plan. */
  plan: PlanDraft;
  /** Commands that the leader would have had run, and that are left out: nobody has agreed to them. */
  leftOut: Array<string>;
  /** Why this is not what was asked for last. */
  problem: string | null;
  /** The codes of these words, for other languages; empty where somebody else wrote them, or an older version did. */
  problemCodes: Array<PhraseKey>;
  /** What was said to it. */
  reply: PlanReply | null;
}

/** A plan as it is proposed. Its keys are those of a plan file, so that it can be edited and read again as one. */
export interface PlanDraft {
  /** What whoever planned found out about the work. */
  analysis?: string;
  /** What whoever planned cannot decide. */
  questions?: Array<string>;
  /** What whoever planned has taken for granted. */
  assumptions?: Array<string>;
  /** What could go wrong. */
  risks?: Array<string>;
  /** Commands that must succeed when all tasks are merged. */
  verify?: Array<string>;
  /** Checks that are to pass in the end even though they failed before the work began. */
  must_pass?: Array<string>;
  /** The tasks, in order. */
  tasks?: Array<PlanDraftTask>;
}

/** A task of a plan that is proposed. */
export interface PlanDraftTask {
  /** Its label in the plan. */
  id: string;
  /** What is to be done, in one line. */
  subject: string;
  /** All that the worker needs to know. */
  description?: string;
  /** What is shown while it is being done. */
  activeForm?: string | null;
  /** Labels of the tasks that must be done before. */
  blockedBy?: Array<string>;
  /** The worker who gets it. */
  owner?: string | null;
  /** The role of the members who may do it. */
  role?: string | null;
  /** What its worker should be good at. */
  capabilities?: Array<string>;
  /** Globs of the files that it may change. */
  paths?: Array<string>;
  /** Sentences that hold when it is done. */
  accept?: Array<string>;
  /** Commands that must succeed for it. */
  verify?: Array<string>;
}

/** What was said to a proposed plan. */
export interface PlanReply {
  /** What was decided. */
  decision: PlanDecision;
  /** What is to be changed, or why the plan is rejected. */
  words: string | null;
  /** Who decided. */
  by: string;
  /** When it was decided. */
  at: Time;
}

/** What a person decides about a plan, as one word. */
export type PlanDecision = "accept" | "reject" | "revise" | "edit";

/** A question of an agent, and what became of it. */
export interface Question {
  /** Its name, for the answer. */
  id: string;
  /** Who asks. */
  from: string;
  /** The task that it is about. */
  taskId: TaskId | null;
  /** What is wanted: `ask`, `blocked`, `plan` or `proposal`. */
  kind: string;
  /** Who is to answer: `leader` or `person`. */
  to: string;
  /** The question in words. */
  text: string;
  /** Since when it waits. */
  askedAt: Time;
  /** Why somebody else than the first addressee is to answer. */
  forwarded: string | null;
  /** The codes of these words, for other languages; empty where somebody else wrote them, or an older version did. */
  forwardedCodes: Array<PhraseKey>;
  /** The task that is proposed. */
  proposal: ProposedTask | null;
  /** What became of it. */
  state: QuestionState;
  /** The answer, or why nobody waits for one any more. */
  answer: string | null;
  /** The codes of these words, for other languages; empty where somebody else wrote them, or an older version did. */
  answerCodes: Array<PhraseKey>;
  /** Who answered. */
  answeredBy: string | null;
  /** When it was answered, or ended without an answer. */
  endedAt: Time | null;
}

/** A task that a worker proposes. */
export interface ProposedTask {
  /** What the task is about, in one line. */
  subject: string;
  /** What is to be done. */
  description: string;
  /** Globs of the files that it may change. */
  paths: Array<string>;
  /** Tasks that it waits for. */
  blockedBy: Array<TaskId>;
}

/** What became of a question. */
export type QuestionState = "open" | "answered" | "expired";

/** One turn of the leader after the plan. */
export interface Wake {
  /** Its number in the run, counted from 1. */
  number: number;
  /** Its place in the journal. */
  seq: number;
  /** When the leader was woken. */
  at: Time;
  /** When the turn ended. */
  endedAt: Time | null;
  /** Why the leader was woken. */
  reasons: Array<WakeReason>;
  /** What came of it. */
  state: WakeState;
  /** What it did, in order. */
  actions: Array<LeaderAction>;
  /** Tasks that it cancelled. */
  cancelled: Array<CancelledTask>;
  /** What it wrote down. */
  notes: Array<string>;
  /** Findings of a review that it decided to leave. */
  dismissed: Array<DismissedFinding>;
  /** Why it came to nothing, or why it could not be carried out. */
  reason: string | null;
  /** The codes of these words, for other languages; empty where somebody else wrote them, or an older version did. */
  reasonCodes: Array<PhraseKey>;
}

/** One reason to wake a leader. */
export interface WakeReason {
  /** The kind of the reason. */
  kind: WakeKind;
  /** What it is about: the id of a question or a task, or the position of an event. */
  about: string;
}

/** What a leader is woken for. */
export type WakeKind = "question" | "failure" | "conflict" | "findings" | "message" | "revision" | "phase";

/** What came of a turn of the leader. */
export type WakeState = "thinking" | "acted" | "failed" | "refused";

/** One action of the leader. */
export interface LeaderAction {
  /** `create`, `update`, `cancel`, `answer`, `ask-person`, `message` or `finding`. */
  kind: string;
  /** The task that it is about. */
  taskId: TaskId | null;
  /** The question that it is about. */
  question: string | null;
  /** Whom it writes to. */
  to: string | null;
  /** Its words: the subject of a task, an answer, a message, a finding. */
  text: string;
}

/** A task that a leader cancelled. */
export interface CancelledTask {
  /** The task. */
  task: TaskId;
  /** Why nobody needs it any more, in words. */
  reason: string;
}

/** A finding of a review that a leader decided not to have fixed. */
export interface DismissedFinding {
  /** The commit that was reviewed. */
  commit: string;
  /** The place of the finding among those of the review, counted from 1. */
  finding: number;
  /** Why it is not fixed, in words. */
  reason: string;
}

/** A review of the merged work. */
export interface Review {
  /** The commit that is reviewed. */
  commit: string;
  /** The commit that was reviewed before: only what changed since then is looked at. */
  since: string | null;
  /** Who reviews; empty when nobody does. */
  reviewer: string;
  /** When this was last told of it. */
  at: Time;
  /** How it stands. */
  state: ReviewPhase;
  /** What the reviewer thinks of the work as a whole. */
  verdict: ReviewVerdict | null;
  /** What the reviewer found, the worst first, at most 200. */
  findings: Array<ReviewFinding>;
  /** The findings that the leader decided to leave, with its reasons. */
  dismissed: Array<DismissedFinding>;
  /** How the acceptance criteria stand. */
  criteria: Array<Criterion>;
  /** How many findings were dropped, because their place is not in the commit or there were too many. */
  dropped: number;
  /** Why there is no review. */
  reason: string | null;
  /** The codes of these words, for other languages; empty where somebody else wrote them, or an older version did. */
  reasonCodes: Array<PhraseKey>;
}

/** How a review stands. */
export type ReviewPhase = "reviewing" | "finished" | "failed" | "skipped";

/** What a reviewer thinks of the work as a whole. */
export type ReviewVerdict = "accept" | "changes";

/** One thing that a reviewer found in the work. */
export interface ReviewFinding {
  /** How bad it is. */
  severity: Severity;
  /** The file, from the root of the repository; `None` where it is about no file. */
  path?: string | null;
  /** The line, counted from 1. */
  line?: number | null;
  /** What is wrong. */
  claim: string;
  /** What shows that. */
  evidence?: string;
  /** What to do about it. */
  suggestion?: string;
}

/** How bad a finding is. */
export type Severity = "blocker" | "major" | "minor" | "nit";

/** How an acceptance criterion stands. */
export interface Criterion {
  /** The criterion, as the plan says it. */
  criterion: string;
  /** Whether it is met. */
  met: boolean;
  /** What shows that. */
  evidence: string;
}

/** Something that a worker or the leader found wrong. */
export interface TeamFinding {
  /** Its place in the journal. */
  seq: number;
  /** When it was found. */
  at: Time;
  /** Who found it. */
  by: string;
  /** The task that its finder was at. */
  taskId: TaskId | null;
  /** How bad it is. */
  severity: Severity;
  /** Where it is: `src/a.rs:12`, `src/a.rs`, or nothing. */
  place: string;
  /** What is wrong. */
  claim: string;
  /** What proves it. */
  evidence: string;
  /** What to do about it. */
  suggestion: string;
}

/** Which of several results of the same work was chosen. */
export interface Choice {
  /** The task whose result it is. */
  taskId: TaskId | null;
  /** The commit. */
  commit: string;
  /** Why it was chosen. */
  reason: string;
  /** The codes of these words, for other languages; empty where somebody else wrote them, or an older version did. */
  reasonCodes: Array<PhraseKey>;
  /** Who chose it; `null` when it is the smallest that passes. */
  by: string | null;
  /** Why an agent that was to choose chose none. */
  judgeFailed: string | null;
  /** The codes of these words, for other languages; empty where somebody else wrote them, or an older version did. */
  judgeFailedCodes: Array<PhraseKey>;
  /** The other results. */
  others: Array<OtherResult>;
  /** When it was chosen. */
  at: Time;
}

/** A result that was not chosen. */
export interface OtherResult {
  /** The task. */
  task: TaskId;
  /** The reference that keeps the work; `null` when there is none. */
  ref: string | null;
  /** Why it was not chosen, in words. */
  why: string;
  /** The codes of these sentences, for other languages; empty in a journal of an older version. */
  whyCodes?: Array<PhraseKey>;
}

/** What a team spent. */
export interface Cost {
  /** All of it. */
  total: Spent;
  /** By worker, in the order of their names. */
  byWorker: Array<WorkerCost>;
  /** By task, in the order of their numbers. */
  byTask: Array<TaskCost>;
  /** Over time, at most 200 points, the last one the newest. */
  overTime: Array<CostPoint>;
  /** What the run may spend; `null` when there is no run. */
  budget: Budget | null;
  /** Tokens that are set aside for running attempts. */
  reservedTokens: number;
  /** The budget that stopped the run. */
  exhausted: Exhausted | null;
}

/** What a worker spent. */
export interface WorkerCost {
  /** The name of the worker. */
  worker: string;
  /** All that it spent. */
  spent: Spent;
}

/** What was spent on a task. */
export interface TaskCost {
  /** The id of the task; `null` for what belongs to no task. */
  taskId: TaskId | null;
  /** All that was spent on it. */
  spent: Spent;
}

/** What had been spent at a moment. */
export interface CostPoint {
  /** The moment. */
  at: Time;
  /** Its place in the journal. */
  seq: number;
  /** Tokens up to then. */
  tokens: number;
  /** US dollars up to then; `null` when no client had told any price. */
  costUsd: number | null;
}

/** A budget that stopped a run. */
export interface Exhausted {
  /** `tokens`, `usd` or `minutes`. */
  what: string;
  /** How much there was. */
  limit: number | null;
  /** How much was used. */
  used: number | null;
  /** When it stopped the run. */
  at: Time;
}

/** Something that needs a person. */
export interface Problem {
  /** What sort of problem. */
  kind: ProblemKind;
  /** What it is about: a worker, a message's box, a file. */
  about: string;
  /** What is the matter. */
  error: string;
  /** The codes of the sentences that say so, for other languages. */
  codes: Array<PhraseKey>;
}

/** What sort of problem. */
export type ProblemKind = "damaged" | "worker" | "undelivered" | "approval" | "plan";

/** What a session's state file says of the session itself. */
export interface Session {
  /** The file, in the project. */
  file: string;
  /** The session. */
  sessionId: string;
  /** What it works on. */
  feature: string;
  /** Where that stands: `plan`, `design`, `do`, `check` or `act`. */
  pdcaPhase: string;
  /** How the team is organised: `leader`, `swarm`, `council` or `watchdog`. */
  orchestrationPattern: string;
  /** The lead's model. */
  ctoAgent: string;
  /** When it began. */
  startedAt: Time | null;
  /** When the file was last written. */
  lastUpdated: Time | null;
}

/** What happened when. */
export interface Timeline {
  /** The position of the journal that this shows. */
  seq: number;
  /** The moment of the first event. */
  from: Time | null;
  /** The moment of the last event. */
  to: Time | null;
  /** A lane for each worker, in the order of their names. */
  lanes: Array<Lane>;
  /** The stages of the run. */
  stages: Array<StageSpan>;
  /** At most 512 positions, evenly spread, the first and the last among them. */
  ticks: Array<Tick>;
}

/** What one worker did. */
export interface Lane {
  /** The name of the worker. */
  worker: string;
  /** Its work, in order. */
  spans: Array<Span>;
  /** What happened to it, in order. */
  marks: Array<Mark>;
}

/** A worker's stretch of work on one task. */
export interface Span {
  /** The task. */
  taskId: TaskId;
  /** What the task is about. */
  subject: string;
  /** The position of the journal at which it began. */
  seq: number;
  /** When it began. */
  from: Time;
  /** When it ended; `null` while it goes on. */
  to: Time | null;
  /** How it ended. */
  end: SpanEnd;
}

/** How a stretch of work ended. */
export type SpanEnd = "open" | "completed" | "failed" | "released" | "requeued";

/** Something that happened to a worker at one moment. */
export interface Mark {
  /** The position of the journal. */
  seq: number;
  /** When it happened. */
  at: Time;
  /** The name of the event's kind, such as `worker.spawned` or `worker.dead`. */
  what: string;
  /** More about it, in words. */
  words: string;
  /** The codes of these words, for other languages; empty where somebody else wrote them. */
  wordsCodes: Array<PhraseKey>;
}

/** A stage of the run. */
export interface StageSpan {
  /** The name of the stage. */
  stage: string;
  /** The position of the journal at which it began. */
  seq: number;
  /** When it began. */
  from: Time;
  /** When it ended; `null` while it goes on. */
  to: Time | null;
}

/** A position of the journal and its time, for whoever goes from a moment to a position. */
export interface Tick {
  /** The position. */
  seq: number;
  /** Its time. */
  at: Time;
}

/** Everything about one task. */
export interface TaskDetail {
  /** The task as the team shows it. */
  task: TaskRow;
  /** What to do, in full: this is what the agent is told. */
  description: string;
  /** What a worker must be able to do. */
  capabilities: Array<string>;
  /** What it reserves. */
  paths: Array<string>;
  /** The tasks that wait for it. */
  blocks: Array<TaskId>;
  /** Until when its claim lasts. */
  leasedUntil: Time | null;
  /** The sentences that have to hold when it is done. */
  accept: Array<string>;
  /** The commands that prove it done. */
  verify: Array<string>;
  /** What came of it, in its worker's words. */
  summary: string | null;
  /** What whoever builds on it must know, in its worker's words. */
  handover: string | null;
  /** What was left open, in its worker's words. */
  problems: Array<string>;
  /** The commit that holds what came of it. */
  commit: string | null;
  /** The files that were changed, at most 200. */
  files: Array<string>;
  /** The last error. */
  error: string | null;
  /** What was spent on it. */
  spent: Spent;
  /** What happened to it, the newest last, at most 200. */
  events: Array<Event>;
}

/** One line of the journal. */
export interface Event {
  /** Grows by one for each event of a team. */
  seq: number;
  /** Unique among all teams. */
  id: string;
  /** When it happened. */
  ts: Time;
  /** The team in which it happened. */
  team: string;
  /** What happened, such as `task.claimed` or `message.sent`. */
  type: string;
  /** Who did it; `foreign` for a program that is not ours. */
  actor: EventActor;
  /** The task that it is about. */
  taskId?: TaskId | null;
  /** The commit goes on in the next line; both count, or neither. */
  more?: boolean;
  /** What changed. */
  data: Record<string, unknown>;
}

/** The one that did what an event tells. In the journal it is a word; one that is none of ours is kept as it was. */
export type EventActor = string;

/** What a branch or a task changed, as text. */
export interface Diff {
  /** A worker's name, `integration`, or of a task `task-3` for what came of it and `task-3.attempt-7` for an attempt that did not end well. */
  name: string;
  /** The commit that is shown. */
  commit: string;
  /** What it is compared with. */
  base: string;
  /** The files that were changed, with how many lines came and went, at most 2,000. */
  files: Array<ChangedFile>;
  /** The unified diff, redacted, at most 1 MiB. */
  text: string;
  /** Whether it is longer than that. */
  cut: boolean;
}

/** A file that a branch changed. */
export interface ChangedFile {
  /** Its path. */
  path: string;
  /** Lines that came; `null` when it is no text. */
  added: number | null;
  /** Lines that went; `null` when it is no text. */
  removed: number | null;
}

/** Messages from the journal, for whoever wants more than the last 50. */
export interface Messages {
  /** The messages, the oldest first. */
  messages: Array<Message>;
  /** Whether there are older ones: ask again with `before` set to the `seq` of the first. */
  more: boolean;
}

/** A part of the journal. */
export interface Journal {
  /** The events, in order, redacted. */
  events: Array<Event>;
  /** Lines that are no events. */
  problems: Array<Problem>;
  /** The last position of the journal. */
  last: number;
}

/** What an agent sent while it worked on a task. */
export interface Log {
  /** Of which task; `null` when there is no log. */
  taskId: TaskId | null;
  /** The tasks that this worker has a log of, the newest first. */
  tasks: Array<TaskId>;
  /** The lines, in order. */
  lines: Array<LogLine>;
  /** Ask again with `after` set to this for what comes next. */
  next: number;
  /** Whether lines before these were left out. */
  cut: boolean;
}

/** One line of what an agent sent. */
export interface LogLine {
  /** When, if the line says so. */
  ts: string | null;
  /** Who wrote it, such as `agent`, `stderr` or `teamster`. */
  from: string;
  /** What was written, as people read it; empty where the agent only talks to itself. */
  text: string;
  /** The same as it was sent, where that is something else. */
  raw: string | null;
}

/** What the branches of a team changed. */
export interface Changes {
  /** Integration first, then the workers by name. Empty when the project is no git repository. */
  branches: Array<Branch>;
  /** Why there is nothing to show. */
  problem: string | null;
}

/** What one branch of a team changed. */
export interface Branch {
  /** A worker's name, `integration`, or `@gate` for what was last asked about at the gate. */
  name: string;
  /** The branch. */
  branch: string;
  /** Its commit. */
  commit: string;
  /** What it is compared with. */
  base: string;
  /** The files it changed, with how many lines came and went, at most 2,000. */
  files: Array<ChangedFile>;
}

/** What is over but still there. */
export interface Zombies {
  /** All of it. */
  zombies: Array<Zombie>;
}

/** Something that is over but still there. */
export interface Zombie {
  /** `team`, `worker`, `worktree`, `lock` or `pane`. */
  kind: string;
  /** Its name. A foreign program may have chosen any. */
  name: string;
  /** The team it belongs to. */
  team: string;
  /** Its age in seconds. */
  age: number;
  /** Why this is said. */
  evidence: Array<string>;
  /** The same, by codes and parameters, for other languages. */
  evidenceCodes: Array<PhraseKey>;
  /** What reaping does with it: `reap` or `keep`. */
  action: string;
  /** What removes it, for a shell. */
  command: string;
}

/** Channels of a shared stream to be closed and opened, in this order. */
export interface FollowBody {
  /** The numbers of channels that nobody needs any more; one that is not open is passed over. */
  close: Array<number>;
  /** What to tell from now on. */
  open: Array<OpenChannel>;
}

/** One channel of a shared stream: all teams, one team, or the log of a worker. */
export interface OpenChannel {
  /** The number that its events carry; a channel that has it already is closed. */
  channel: number;
  /** The team to hear about; without it, all teams in short. */
  team: string | null;
  /** With `team`: `overview` events of all teams on the same channel. */
  overview: boolean;
  /** With `team`: the worker whose log is followed, instead of the team. */
  worker: string | null;
  /** With `worker`: the task whose log is followed; without it, the latest and then the next. */
  task: string | null;
  /** The id of the last event that the client has, as Last-Event-ID. */
  last: string | null;
}

/** The channels of a shared stream after a change. */
export interface Following {
  /** How many are open. */
  channels: number;
}

/** A message to be sent. */
export interface NewMessage {
  /** A worker's name, `lead` or `all`. */
  to: string;
  /** What it says, at most 64 KiB. */
  text: string;
}

/** What was sent. */
export interface Sent {
  /** The ids of the messages, one for each recipient. */
  ids: Array<string>;
}

/** A request that a worker stop. */
export interface StopWish {
  /** Let it finish its current task. */
  drain: boolean;
  /** Do not ask. */
  force: boolean;
}

/** What came of a request to stop. Stopping goes on for up to a minute; the stream of events tells. */
export interface Stopping {
  /** How each ended. */
  workers: Array<WorkerEnd>;
  /** Whether everyone is proven gone. */
  verified: boolean;
}

/** How a worker ended. */
export interface WorkerEnd {
  /** The name of the worker. */
  worker: string;
  /** How it ended, in one word. */
  how: string;
  /** More about it. */
  note: string;
}

/** An answer at the gate. */
export interface ApprovalAnswer {
  /** Which gate: an answer for one that is closed is refused. */
  gate: string;
  /** The commit that was looked at. */
  commit: string;
  /** `approve`, `reject` or `revise`. */
  answer: ApprovalWord;
  /** With `reject`: take the work back. */
  rollback: boolean;
  /** With `revise`: what to change. */
  text: string;
}

/** What is answered at the gate. */
export type ApprovalWord = "approve" | "reject" | "revise";

/** An answer that was handed to the run. */
export interface Answered {
  /** Its place in the journal. */
  seq: number;
}

/** A decision about a plan that is proposed. */
export interface PlanBody {
  /** The revision that was looked at: an answer to another one is refused. */
  revision: number;
  /** What is decided. */
  decision: PlanWord;
  /** With `revise` what to change, with `reject` why, with `edit` the plan that takes its place, as the text of a plan file. */
  text: string;
}

/** What is decided about a plan. */
export type PlanWord = "accept" | "reject" | "revise" | "edit";

/** A decision about a plan that counts. */
export interface PlanReplied {
  /** Its place in the journal. */
  seq: number;
}

/** An answer to a question of an agent. */
export interface QuestionBody {
  /** What the agent is told; may be empty with `accept`. */
  text: string;
  /** Make the task that the agent proposes. */
  accept: boolean;
}

/** What came of an answer to a question. */
export interface QuestionReplied {
  /** The answer that was recorded. */
  answer: string;
  /** The task that was made of a proposal. */
  task: TaskId | null;
}

/** A decision about what an agent wants to do. */
export interface PermissionBody {
  /** The request, as the worker names it. */
  request: string;
  /** Whether it may. */
  allow: boolean;
  /** Why not, in words for the agent. */
  reason: string;
}

/** A decision that the agent was told. */
export interface RequestReplied {
  /** Whether it may. */
  allowed: boolean;
}

/** A request to remove what is over. */
export interface ReapWish {
  /** Only say what would be removed. */
  dryRun: boolean;
}

/** What was reaped. */
export interface Reaped {
  /** Each that was found. */
  zombies: Array<ReapedOne>;
  /** Whether it was only looked. */
  dryRun: boolean;
}

/** What became of one of them. */
export interface ReapedOne {
  /** What it was. */
  zombie: Zombie;
  /** Whether it is gone. */
  reaped: boolean;
  /** Why it could not be removed. */
  problem: string | null;
}

/** What changed between two views of one team. A part that is left out is as it was; applying a patch twice changes nothing. */
export interface Patch {
  /** The position of the journal that the view shows now. */
  seq: number;
  /** The moment of that event. */
  at?: Time | null;
  /** Whether the team still does something. */
  state?: Viewed | null;
  /** How far it is. */
  progress?: Progress | null;
  /** How much of the journal is counted in. */
  history?: History | null;
  /** Workers that are new or changed. */
  workers?: Array<Worker>;
  /** Every worker in order, when one came or went. */
  workerNames?: Array<string> | null;
  /** How many workers there are in all. */
  workerCount?: number | null;
  /** Tasks that are new or changed. */
  tasks?: Array<TaskRow>;
  /** Tasks that are gone. */
  removedTasks?: Array<TaskId>;
  /** The longest chain of tasks that are not completed. */
  criticalPath?: Array<TaskId> | null;
  /** Messages that are new. */
  messages?: Array<Message>;
  /** How many messages there were in all. */
  messageCount?: number | null;
  /** The run. */
  run?: Run | null;
  /** The gate. */
  approval?: Approval | null;
  /** Every verification. */
  verifications?: Array<Verification> | null;
  /** Every merge. */
  merges?: Array<Merge> | null;
  /** The plan that was proposed last. */
  proposal?: Proposal | null;
  /** Every question that is shown. */
  questions?: Array<Question> | null;
  /** Every turn of the leader. */
  wakes?: Array<Wake> | null;
  /** Every review. */
  reviews?: Array<Review> | null;
  /** Every finding. */
  findings?: Array<TeamFinding> | null;
  /** Which of several results was chosen. */
  choice?: Choice | null;
  /** What was spent. */
  cost?: Cost | null;
  /** What needs a person. */
  problems?: Array<Problem> | null;
  /** How many problems there are in all. */
  problemCount?: number | null;
}

/** Sent as the event `lines`: what an agent sent since the last one. Its id says where that ended. */
export interface LogPart {
  /** Of which task; `null` when there is no log. */
  taskId: TaskId | null;
  /** The tasks that this worker has a log of, the newest first. */
  tasks: Array<TaskId>;
  /** The lines, in order. */
  lines: Array<LogLine>;
  /** What was shown before is to be forgotten: another task, or a log that was begun anew. */
  begins: boolean;
  /** Whether lines before these were left out. */
  cut: boolean;
}

/** Sent as the event `hello` at the beginning of every stream. */
export interface Hello {
  /** The version of teamster: a page of another one should load itself anew. */
  version: string;
  /** The team that the stream is about; `null` for the stream of all teams. */
  team: string | null;
}

/** Sent as the event `hello` at the beginning of a shared stream. */
export interface SharedHello {
  /** The name of the stream, for `follow`. */
  stream: string;
}

/** Sent as the event `refused` on a channel that cannot be opened. */
export interface ChannelRefused {
  /** The status that a connection of its own would have got. */
  status: number;
  /** Why it cannot be opened. */
  error: RefusalReason;
}

/** What went wrong, in the words of the command line's `--json`. */
export interface RefusalReason {
  /** `usage`, `not_found`, `conflict`, `nothing`, `refused`, `unreachable` or `failed`. */
  kind: string;
  /** What happened, to what. */
  message: string;
  /** What to do. */
  hint: string | null;
}

/** Sent as the event `end` when nothing more comes on a channel. */
export interface ChannelEnd {
  /** The number of the channel. */
  channel: number;
}

/** Sent as the event `lagging` to a client that reads too slowly, before the stream ends. The client comes back with its last event id and misses nothing. */
export interface Lagging {
  /** In words. */
  message: string;
}

/** Sent as the event `gone` when the team is not there any more, before the stream ends. */
export interface Gone {
  /** In words. */
  message: string;
}

/** Why something was not done. The status of the answer follows from `kind`. */
export interface Refusal {
  /** What went wrong. */
  error: RefusalReason;
}

/** Every sentence of the server that has a code, in English. */
export const phrases: Record<PhraseCode, string> = {
  "verbatim": "{text}",
  "heartbeat-old": "heartbeat {age} old",
  "heartbeat-ahead": "heartbeat {ahead} in the future (a clock was set)",
  "pid-gone": "process {pid} is gone",
  "pid-gone-alone": "process {pid} is gone, told by its pid alone",
  "pid-alive": "pid {pid} alive",
  "pid-elsewhere": "pid {pid} on {host} cannot be judged from here",
  "pid-not-judged": "pid {pid} cannot be judged from here",
  "no-heartbeat": "no heartbeat",
  "process-gone": "its process is gone",
  "process-alive": "process alive: it is starting, or its heartbeat was removed",
  "no-process": "no process to judge: a missing heartbeat alone proves nothing",
  "not-started": "the run has started no worker for it",
  "one-error": "1 error in a row",
  "errors-in-a-row": "{count} errors in a row",
  "last-error": "the last one: {reason}",
  "says-quarantined": "says it is quarantined",
  "limited": "{provider}: limited until {until}",
  "limited-window": "{provider}: limited until {until} ({window})",
  "provider-down": "{provider} does not answer; it is tried again at {until}",
  "provider-signed-out": "{provider} is not signed in; it is tried again at {until}",
  "agent-quiet": "no event of the agent for {quiet}",
  "agent-quiet-on-task": "no event of the agent for {quiet} on task {task}",
  "in-lead-runs": "in its lead's process, pid {pid} runs",
  "in-lead-gone": "in its lead's process, pid {pid} gone",
  "in-lead-not-judged": "in its lead's process, pid {pid} cannot be judged from here",
  "in-lead-unrecorded": "in its lead's process, no process is recorded",
  "lead-runs": "its lead: pid {pid} runs",
  "lead-gone": "its lead: pid {pid} gone",
  "lead-not-judged": "its lead: pid {pid} cannot be judged from here",
  "lead-unrecorded": "its lead: no process is recorded",
  "client-calls-active": "its client calls it active",
  "client-calls-idle": "its client calls it idle",
  "session-in-pane-runs": "its session in pane {pane} (pid {pid}) runs",
  "session-in-pane-gone": "its session in pane {pane} (pid {pid}) is gone",
  "place-unknown": "its client has not said where it runs",
  "in-pane": "in pane {pane}, which `teamster zombies scan` asks tmux about",
  "ended-in-order": "it ended in order",
  "ended-in-order-because": "it ended in order: {reason}",
  "journal-says": "the journal says: {status}",
  "attempts-failed": "{count} attempts failed in a row",
  "state-file-says": "its state file calls it {status}",
  "last-active": "last active {ago} ago",
  "seat-taken": "another process has its seat",
  "worker-verdict": "{verdict}",
  "work-waits": "{words}; it waits for you: `{command}`, or reject, or revise",
  "waits-for-decision": "it waits for you: `{command}`, or reject, or revise",
  "plan-waits": "revision {revision} waits for you: `teamster plan show --team {team}`, then accept, revise, edit or reject",
  "message-undelivered": "1 message is not delivered after {age}",
  "messages-undelivered": "{count} messages are not delivered after {age}",
  "message-undelivered-long": "1 message is not delivered after more than a minute",
  "messages-undelivered-long": "{count} messages are not delivered after more than a minute",
  "file-damaged": "it cannot be understood: {error}",
  "journal-line-damaged": "1 line cannot be understood: {error}",
  "journal-lines-damaged": "{count} lines cannot be understood; the first: {error}",
  "lead-session-ends": "the session of its lead ends",
  "lead-process-gone": "its lead (pid {pid}) is gone",
  "lead-process-runs": "its lead (pid {pid}) runs",
  "lead-process-not-judged": "its lead (pid {pid}) cannot be judged from here",
  "host-runs": "its host (pid {pid}) runs",
  "host-not-judged": "its host (pid {pid}) cannot be judged from here",
  "lead-session-runs": "the session of its lead (pid {pid}) runs",
  "lead-session-not-judged": "the session of its lead (pid {pid}) cannot be judged from here",
  "heartbeats-unreadable": "its heartbeats cannot be read: {error}",
  "worker-heartbeat": "heartbeat of {worker} (pid {pid}) {age} old",
  "worker-not-judged": "{worker} (pid {pid}) cannot be judged from here",
  "inbox-folder": "there is a folder inboxes/{name}",
  "inbox-unreadable": "inboxes/{name} cannot be read",
  "inbox-unread-message": "1 unread message in inboxes/{name}",
  "inbox-unread-messages": "{count} unread messages in inboxes/{name}",
  "claim-runs": "the claim of {worker} on task {task} runs",
  "claimer-runs": "{worker} (pid {pid}), who claimed task {task}, runs",
  "claimer-not-judged": "{worker} (pid {pid}), who claimed task {task}, cannot be judged from here",
  "lock-in-use": "{name} is in use",
  "lock-not-judged": "{name} cannot be judged from here",
  "lock-held": "{name} is held",
  "runs-as-member": "pid {pid} runs as {name} of it",
  "pid-runs": "pid {pid} runs",
  "pane-out-of-reach": "pane {pane} of {name} cannot be looked at from here",
  "client-runs-in-pane": "a session of Claude Code (pid {pid}) runs in pane {pane} of {name}",
  "pane-not-looked-for": "pane {pane} of {name} was not looked for",
  "pane-not-findable": "pane {pane} of {name} cannot be looked for: {error}",
  "pane-program-ended": "pane {pane} is open, its program has ended",
  "pane-of-member-open": "pane {pane} of {name} is open",
  "pane-open": "pane {pane} is open",
  "own-pane-ended": "its program has ended, in our own tmux server",
  "odd-time": "{odd}: the newest change of its files counts",
  "others-stopped": "every other member is proven stopped",
  "others-not-proven": "not every member is proven stopped",
  "no-sign-of-life": "no change for {age}, no sign of life",
  "old-alive": "old, alive",
  "old-perhaps-alive": "old, perhaps alive",
  "was-restored": "it was restored from the trash",
  "open-task-of-session": "1 open task, which a resumed session would go on with",
  "open-tasks-of-session": "{count} open tasks, which a resumed session would go on with",
  "open-task": "1 open task",
  "open-tasks": "{count} open tasks",
  "removal-unfinished": "its removal was begun and not finished",
  "run-unfinished": "its run has not finished; it can be resumed",
  "run-never-finished": "it has no run that finished",
  "run-finished": "its run has finished",
  "run-host-gone": "the host of its run is gone",
  "team-removed": "its team was removed",
  "team-gone": "its team is gone",
  "team-half-made": "a team that pid {pid} did not finish making",
  "registry-unreadable": "config.json cannot be read: {error}",
  "name-not-utf8": "its name is not UTF-8, so no team can have it",
  "link-not-followed": "{path} is a symbolic link and not followed",
  "of-another-user": "{path} belongs to another user (uid {owner})",
  "heartbeat-pid-runs": "heartbeat {age} old, pid {pid} runs",
  "heartbeat-pid-may-run": "heartbeat {age} old, pid {pid} may run",
  "heartbeat-pid-gone": "heartbeat {age} old, pid {pid} gone",
  "task-in-its-name": "task {task} is still in its name",
  "temp-file-left": "temp file, its writer (pid {pid}) is gone",
  "lock-folder-left": "lock folder of Claude Code that nobody keeps fresh",
  "claim-lock-unnamed": "claim lock that names no process",
  "claim-lock-left": "claim lock, its claimer (pid {pid}) is gone",
  "ended-when-asked": "it ended when it was asked to",
  "killed-after": "it did not end within {limit} and was killed",
  "nothing-verified": "Nothing was verified: no command has looked at this work.",
  "verified-elsewhere": "Not verified: the checks looked at another commit, {commit}.",
  "verified-by-check": "Verified: 1 check passed.",
  "verified-by-checks": "Verified: {count} checks passed.",
  "part-of-check-verified": "Not fully verified: of 1 check",
  "part-of-checks-verified": "Not fully verified: of {count} checks",
  "count-failed": "{count} failed",
  "count-failed-before": "{count} failed as before the work began",
  "count-flaky": "{count} flaky, which is not passed",
  "count-stopped": "{count} not run to the end",
  "count-not-run": "{count} not run",
  "count-passed": "{count} passed",
  "gate-verified": "verified: every check passed",
  "gate-nothing-verified": "NOTHING WAS VERIFIED: no command was given, and none was found",
  "gate-not-verified": "not every check passed",
  "check-elsewhere": "it looked at another commit",
  "check-flaky": "flaky, which is not passed",
  "check-stopped": "not run to the end",
  "check-failed": "failed",
  "check-timed-out": "timed out",
  "check-failed-before": "failed as before the work began",
  "check-not-run": "not run",
  "nobody-said-why": "nobody said why",
  "task-not-mergeable": "it could not be merged",
  "task-waits-for": "it waits for {tasks}",
  "refs-not-compared": "The branches could not be compared: {error}.",
  "branch-moved": "Branch {name} moved from {from} to {to}.",
  "branch-deleted": "Branch {name} was deleted; it was at {from}.",
  "branch-new": "Branch {name} is new, at {to}.",
  "branch-moved-before-landing": "Branch {name} was moved from {from} to {to} before the work landed on it.",
  "tag-moved": "Tag {name} moved from {from} to {to}.",
  "tag-deleted": "Tag {name} was deleted; it was at {from}.",
  "tag-new": "Tag {name} is new, at {to}.",
  "checkout-moved": "What is checked out moved from {from} to {to}.",
  "checkout-deleted": "What is checked out was deleted; it was at {from}.",
  "checkout-new": "What is checked out is new, at {to}.",
  "ref-moved": "{name} moved from {from} to {to}.",
  "ref-deleted": "{name} was deleted; it was at {from}.",
  "ref-new": "{name} is new, at {to}.",
  "more-refs-changed": "{count} more references changed.",
  "message-untaken": "{from} to {to}: {words}",
  "more-messages-untaken": "and {count} more: `teamster message list` has them",
  "not-on-branch": "{branch} does not have it",
  "branch-not-changed": "{branch} was not changed: {why}\nwhen that is out of the way: {command}",
  "branch-not-moved": "{branch} was not moved: {why}\ngit has changed these files before it failed, and they could not be put back: {files}\nthis puts them back: {undo}\nwhen that is out of the way: {command}",
  "branch-gone": "there is no branch {branch} any more",
  "branch-moved-back": "{branch} was moved back to {tip} since the work began at {base}, and landing would bring back what was taken out; if that is what you want: git merge {commit}",
  "branch-still-conflicts": "what is new on {branch} conflicts with the work in {files}, and task {task}, which was to bring them together, has not; merge {tip} by hand on top of the work, or revise it",
  "by-checks": "the checks (--approve auto)",
  "by-person-in-studio": "a person in Studio",
  "by-person-at-terminal": "a person at a terminal",
  "run-begins": "the run begins",
  "requirements-wanted": "they were asked for",
  "leader-asks-first": "the leader asks before it plans",
  "plan-is-made": "the plan is made",
  "finished-is-merged": "what is finished is merged",
  "more-is-finished": "more is finished",
  "every-task-done": "every task is done",
  "some-tasks-done": "{done} tasks are done, {left} will not be",
  "every-finished-task-merged": "every finished task is merged",
  "finished-tasks-not-merged": "{count} finished tasks could not be merged",
  "tasks-to-do-again": "there are tasks to do again",
  "merged-work-missing": "work that was called merged is missing",
  "merged-work-not-verified": "the merged work is not what was verified",
  "approved-work-not-verified": "what was approved is not what was verified",
  "needs-leader": "something needs the leader",
  "no-check-found": "nothing was verified: no command is given, and none was found",
  "all-checks-passed": "all checks passed",
  "no-check-broken": "the team broke no check",
  "verification-failed": "verification failed: {commands}",
  "review-found-one": "the review found 1 thing to fix",
  "review-found-some": "the review found {count} things to fix",
  "branch-has-moved": "{branch} has moved; it is verified and asked about again",
  "branch-conflicts": "{branch} has moved and conflicts with the team's work",
  "work-stays-on-its-branch": "approved; no branch was checked out when it began, so the work stays on its own",
  "work-is-in-folder": "approved; the work is in the project's folder",
  "landed-on": "approved and landed on {branch}",
  "landed-below-others": "approved and landed on {branch}, which has more commits on top that are not the team's: {commit} to {tip}",
  "nothing-changed": "nothing was changed",
  "nothing-changed-and-fails": "nothing was changed, and not every check passes",
  "person-rejected": "a person rejected it",
  "person-cancelled": "a person cancelled it",
  "person-stopped": "a person stopped it",
  "too-many-revisions": "a person asked for more than {count} revisions",
  "tasks-failed-for-good": "{count} tasks failed for good or wait for one that did",
  "failed-tasks-cancelled": "the leader cancelled what had failed and made no other task of it: {tasks}",
  "task-error": "task {task}: {error}",
  "task-not-merged": "task {task}: its work is NOT merged",
  "verification-fails": "verification fails: {commands}",
  "verification-still-fails": "verification still fails after {count} rounds of fixing: {commands}",
  "plan-not-accepted": "the plan was not accepted",
  "plan-not-accepted-because": "the plan was not accepted: {words}",
  "no-task-done": "none of {count} tasks could be done",
  "nobody-left": "nobody is left who could do task {tasks}: every worker has ended or takes no more tasks",
  "too-many-tasks": "{count} tasks were added to the run or begun anew, and the setting run.max_tasks allows {most}: {tasks} are not followed; delete them, or raise the setting, and go on with `teamster run --resume {team}`",
  "tickets-not-done": "the flow party does not go on to {phase} while {tickets} is not DONE: let the task be done with `teamster task retry ID`, or do without it with `teamster task delete ID`, and go on with `teamster run --resume {team}`",
  "no-reviewer": "no agent that can review",
  "no-repository-to-review": "there is no repository to review it in",
  "budget-used-up": "the budget is used up",
  "agent-not-started": "it could not be started: {error}",
  "agent-stopped": "it was stopped",
  "agent-cannot-work": "it cannot work now: {reason}",
  "agent-failed": "it failed: {reason}",
  "agent-unusable": "it was asked twice, and its answer cannot be used: {faults}",
  "leader-not-started": "{leader} could not be started: {error}",
  "leader-stopped": "{leader} was stopped",
  "leader-cannot-work": "{leader} cannot work now: {reason}",
  "leader-failed": "{leader} failed: {reason}",
  "leader-unusable": "{leader} was asked twice, and its answer cannot be used: {faults}",
  "leader-late": "it has used its part of the run's time",
  "budget-exhausted": "the budget is used up: {used} used of {allowed}",
  "budget-has-no-room": "the budget has no room for another task: {used} used of {allowed}; {rest} are left, and a task took {each} on average",
  "missing-commit": "task {task} is missing: its commit {commit} is kept as {name}",
  "missing-without-commit": "task {task} is called merged and has no commit",
  "no-result-taken": "none of {count} results can be taken",
  "result-of-task": "task {task}",
  "result-kept-as": "(kept as {name})",
  "result-passes": "it passes",
  "result-failed": "it failed: {error}",
  "result-failed-unexplained": "it failed: no reason is known",
  "result-unchanged": "it changed nothing",
  "result-fails-checks": "it fails {commands}",
  "result-lines": "{count} changed lines",
  "chosen-by-judge": "{judge} chose it: {words}",
  "chosen-alone": "it is the only one that passes",
  "chosen-smallest": "of {count} that pass it is the smallest: {lines} changed lines",
  "judge-not-asked": "{judge} was not asked, because the budget is used up",
  "judge-asked": "{judge} was asked which is the best",
  "judge-chose-none": "it chose {choice}, which is none of them",
  "nobody-changes-plan": "no agent leads this run, so nobody could change the plan; edit it yourself",
  "leader-made-no-other-plan": "the leader made no other plan",
  "edited-plan-unusable": "the edited plan is no plan: {faults}",
  "run-is-being-stopped": "the run is being stopped",
  "leader-did-not-answer": "the leader did not answer it",
  "no-leader": "no agent leads this run",
  "leader-woken-often": "the leader was woken as often as it may be",
  "leader-failed-often": "the leader failed too often in a row",
  "leader-share-used": "the leader has used its part of the budget",
  "nobody-to-ask": "nobody can be asked",
  "left-to-leader": "the person leaves it to the leader",
  "question-task-given-up": "its task was given up",
  "question-task-removed": "its task was removed",
  "question-task-goes-on": "its task goes on without an answer",
  "question-run-over": "the run is over",
  "question-worker-restarted": "its worker was started anew",
  "question-worker-stopped": "its worker was stopped",
  "question-worker-dead": "its worker is dead",
  "question-work-ended": "the work on its task has ended",
  "question-unanswered": "nobody answered within {limit}",
  "question-agent-gone": "the agent does not wait for it any more",
  "task-failed": "failed for good: {error}",
  "task-failed-unexplained": "failed for good: no reason was recorded",
  "task-completed": "completed",
  "works-on-it": "{owner} works on it",
  "works-on-it-until": "{owner} works on it, lease until {until}",
  "works-on-it-overdue": "{owner} works on it; its lease ran out at {until}",
  "blocked-by-failure": "blocked by failure of {tasks}",
  "blocked-by-missing": "blocked by the missing task {tasks}",
  "waits-for": "waits for {tasks}",
  "waits-for-merge": "waits for the merge of {tasks}",
  "waits-for-answer": "waits for an answer to {asker}: {question}",
  "not-again-until": "failed before, not again until {until}",
  "files-reserved": "may change the same files as task {task}, which is being worked on",
  "internal": "internal, claimed only by id",
  "assigned-to": "assigned to {owner}",
  "free": "free",
  "free-again": "free again: worker {worker} died: its lease ran out at {until}, pid {pid} is gone and no heartbeat is fresh",
};

/** Every route: its method and its path. */
export const routes = {
  server: { method: "GET", path: "/api/v1/server" },
  teams: { method: "GET", path: "/api/v1/teams" },
  team: { method: "GET", path: "/api/v1/teams/{team}" },
  timeline: { method: "GET", path: "/api/v1/teams/{team}/timeline" },
  task: { method: "GET", path: "/api/v1/teams/{team}/tasks/{task}" },
  taskDiff: { method: "GET", path: "/api/v1/teams/{team}/tasks/{task}/diff" },
  messages: { method: "GET", path: "/api/v1/teams/{team}/messages" },
  journal: { method: "GET", path: "/api/v1/teams/{team}/journal" },
  log: { method: "GET", path: "/api/v1/teams/{team}/workers/{worker}/log" },
  logStream: { method: "GET", path: "/api/v1/teams/{team}/workers/{worker}/log/stream" },
  changes: { method: "GET", path: "/api/v1/teams/{team}/changes" },
  diff: { method: "GET", path: "/api/v1/teams/{team}/changes/{branch}" },
  zombies: { method: "GET", path: "/api/v1/zombies" },
  events: { method: "GET", path: "/api/v1/events" },
  sharedStream: { method: "GET", path: "/api/v1/stream" },
  follow: { method: "POST", path: "/api/v1/stream/{stream}" },
  send: { method: "POST", path: "/api/v1/teams/{team}/messages" },
  stop: { method: "POST", path: "/api/v1/teams/{team}/workers/{worker}/stop" },
  drain: { method: "POST", path: "/api/v1/teams/{team}/drain" },
  approval: { method: "POST", path: "/api/v1/teams/{team}/approval" },
  plan: { method: "POST", path: "/api/v1/teams/{team}/plan" },
  answerQuestion: { method: "POST", path: "/api/v1/teams/{team}/questions/{question}" },
  answerRequest: { method: "POST", path: "/api/v1/teams/{team}/workers/{worker}/permission" },
  reap: { method: "POST", path: "/api/v1/zombies/reap" },
  openapi: { method: "GET", path: "/api/v1/openapi.json" },
  metrics: { method: "GET", path: "/metrics" },
} as const;

// Written by `cargo xtask docs` from the types of the server. Do not edit it by hand: `cargo xtask ci` compares.

/** The server itself. */
export interface Server {
  /** The version of teamster. */
  version: string;
  /** When it was started. */
  startedAt: Time;
  /** The server's current time, from which ages are calculated. */
  now: Time;
}

/** A moment in time with the precision of teamster's files: one millisecond. */
export type Time = string;

/** All teams and projects. */
export interface Overview {
  /** The teams: those that need a person first, then live ones, then by name. */
  teams: Array<TeamRow>;
  /** The projects that are watched, by path. */
  projects: Array<Project>;
}

/** One team, as the list of teams shows it. */
export interface TeamRow {
  /** Its identifier in the API. */
  id: string;
  /** Its own name. Another program may have chosen any name. */
  name: string;
  /** The program that created the team. */
  kind: TeamKind | null;
  /** The project it works on. */
  project: string | null;
  /** Whether it is active. */
  state: Viewed;
  /** The stage of its run. */
  stage: string | null;
  /** The outcome of its run; `None` until the run has finished. */
  outcome: string | null;
  /** How many workers it has. */
  members: number;
  /** Its progress. */
  progress: Progress;
  /** How many things need a person. */
  problems: number;
  /** Whether the run waits for a person's decision. */
  awaitsApproval: boolean;
  /** The number of answers that agents expect from a person. */
  questions: number;
  /** The last position of its journal; 0 when it has none. */
  seq: number;
  /** The time of the last event. */
  updatedAt: Time | null;
  /** The team in the store that a state file describes as well. */
  sameAs: string | null;
  /** What is wrong with its registry, or why nothing newer is known. */
  problem: string | null;
}

/** The program that created a team. */
export type TeamKind = "teamster" | "claude" | "state-file";

/** The activity of a team, a session or a project. */
export type Viewed = "live" | "stale" | "ended" | "inactive";

/** The number of a team's tasks by state. Internal tasks are not counted. */
export interface Progress {
  /** The number of all tasks. */
  totalTasks: number;
  /** Completed tasks, without those that failed permanently. */
  completedTasks: number;
  /** Tasks in progress. */
  inProgressTasks: number;
  /** Tasks that failed permanently. */
  failedTasks: number;
  /** Pending tasks. */
  pendingTasks: number;
}

/** A project that is watched. */
export interface Project {
  /** Its folder. */
  path: string;
  /** The last component of the path, for people. */
  name: string;
  /** `inactive` when there is neither a team nor a state file; otherwise the most active state among them. */
  state: Viewed;
  /** The number of teams and sessions. */
  teams: number;
  /** Whether the folder exists. */
  exists: boolean;
}

/** One team, now or at a past moment. */
export interface TeamView {
  /** Its identifier in the API. */
  id: string;
  /** Its own name. Another program may have chosen any name. */
  name: string;
  /** The program that created the team; `null` when its registry cannot be read. */
  kind: TeamKind | null;
  /** The project it works on. */
  project: string | null;
  /** Its description. */
  description: string;
  /** Whether it is active; at a past moment, according to the journal. */
  state: Viewed;
  /** The journal position that this view shows; 0 when there is none. */
  seq: number;
  /** The moment that this view shows. */
  at: Time | null;
  /** Whether this is a past moment, derived from the journal alone. */
  past: boolean;
  /** How much of the journal has been read. */
  history: History;
  /** Its progress. */
  progress: Progress;
  /** Its workers, at most 1,000. If there are more, those that work or need a person are kept first. */
  workers: Array<Worker>;
  /** The total number of workers. */
  workerCount: number;
  /** Its tasks, in number order. */
  tasks: Array<TaskRow>;
  /** The longest chain of uncompleted tasks. */
  criticalPath: Array<TaskId>;
  /** The last 50 messages, the oldest first. */
  messages: Array<Message>;
  /** The total number of messages. */
  messageCount: number;
  /** Its run; `null` while it has none. */
  run: Run | null;
  /** The gate; `null` if it was never opened. */
  approval: Approval | null;
  /** The verifications, in order. */
  verifications: Array<Verification>;
  /** The merges, including failed ones, in order. */
  merges: Array<Merge>;
  /** The last plan that was proposed to a person; `null` when there was none. */
  proposal: Proposal | null;
  /** The questions of agents: up to 200 open ones, and the last 100 ended ones, the oldest first. */
  questions: Array<Question>;
  /** The turns of the agent that leads the run, after its plan, in order. */
  wakes: Array<Wake>;
  /** The reviews of the merged work, in order. */
  reviews: Array<Review>;
  /** The findings of workers and the leader, in order. */
  findings: Array<TeamFinding>;
  /** Which of several candidate results was chosen. */
  choice: Choice | null;
  /** The costs. */
  cost: Cost;
  /** The problems that need a person, at most 200. */
  problems: Array<Problem>;
  /** The total number of problems. */
  problemCount: number;
  /** The session's state file; `null` for other teams. */
  session: Session | null;
}

/** How much of the journal a view includes. A long journal is read while the current state is already shown; until it is read, costs, times and older messages are missing. */
export interface History {
  /** The position up to which it has been read. */
  read: number;
  /** The last position of the journal. */
  last: number;
  /** Whether all of it has been read. */
  complete: boolean;
}

/** One worker, or a teammate of a session. */
export interface Worker {
  /** Its name. */
  name: string;
  /** Its role, if a run or a session defines one. */
  role: string | null;
  /** The client that it drives. */
  provider: string;
  /** The model that it uses, if known. */
  model: string | null;
  /** The backend that it runs on. */
  backendType: string;
  /** Its activity according to its bridge, its client or the journal: `polling`, `executing`, `idle`, `spawning`, `working`, `completed`, `failed`, `stopped` and others. */
  status: string | null;
  /** The verdict on its health. */
  verdict: Verdict;
  /** The evidence for the verdict. */
  evidence: Array<string>;
  /** The message codes of these sentences, in the same order, for translation. */
  evidenceCodes: Array<PhraseKey>;
  /** The process of its bridge. */
  pid: number | null;
  /** The task it works on. */
  currentTaskId: TaskId | null;
  /** The subject of that task. */
  currentTask: string | null;
  /** Since when it has worked on the task, or been idle. */
  since: Time | null;
  /** When its bridge last polled for work. */
  lastPollAt: Time | null;
  /** When it or its agent was last active. */
  lastEventAt: Time | null;
  /** Errors since its last success. */
  consecutiveErrors: number;
  /** Tasks it completed. */
  tasksCompleted: number;
  /** Attempts that failed. */
  attemptsFailed: number;
  /** Its costs. */
  spent: Spent;
  /** Its agent's permission requests that wait for a person. */
  requests: Array<Request>;
  /** The signal that asked it to stop: `shutdown` or `drain`. */
  askedTo: string | null;
}

/** The health of a worker. */
export type Verdict = "healthy" | "at-risk" | "quarantined" | "limited" | "silent" | "hung" | "dead" | "unknown";

/** A code with its parameters, which is all that a translation needs. */
export interface PhraseKey {
  /** The code of the sentence. */
  code: PhraseCode;
  /** The parameters, by name. */
  params: Record<string, unknown>;
}

/** The code of a sentence. */
export type PhraseCode = "verbatim" | "heartbeat-old" | "heartbeat-ahead" | "pid-gone" | "pid-gone-alone" | "pid-alive" | "pid-elsewhere" | "pid-not-judged" | "no-heartbeat" | "process-gone" | "process-alive" | "no-process" | "not-started" | "one-error" | "errors-in-a-row" | "last-error" | "says-quarantined" | "limited" | "limited-window" | "provider-down" | "provider-signed-out" | "agent-quiet" | "agent-quiet-on-task" | "in-lead-runs" | "in-lead-gone" | "in-lead-not-judged" | "in-lead-unrecorded" | "lead-runs" | "lead-gone" | "lead-not-judged" | "lead-unrecorded" | "client-calls-active" | "client-calls-idle" | "session-in-pane-runs" | "session-in-pane-gone" | "place-unknown" | "in-pane" | "ended-in-order" | "ended-in-order-because" | "journal-says" | "attempts-failed" | "state-file-says" | "last-active" | "seat-taken" | "worker-verdict" | "work-waits" | "waits-for-decision" | "plan-waits" | "message-undelivered" | "messages-undelivered" | "message-undelivered-long" | "messages-undelivered-long" | "file-damaged" | "journal-line-damaged" | "journal-lines-damaged" | "lead-session-ends" | "lead-process-gone" | "lead-process-runs" | "lead-process-not-judged" | "host-runs" | "host-not-judged" | "lead-session-runs" | "lead-session-not-judged" | "heartbeats-unreadable" | "worker-heartbeat" | "worker-not-judged" | "inbox-folder" | "inbox-unreadable" | "inbox-unread-message" | "inbox-unread-messages" | "claim-runs" | "claimer-runs" | "claimer-not-judged" | "lock-in-use" | "lock-not-judged" | "lock-held" | "runs-as-member" | "pid-runs" | "pane-out-of-reach" | "client-runs-in-pane" | "pane-not-looked-for" | "pane-not-findable" | "pane-program-ended" | "pane-of-member-open" | "pane-open" | "own-pane-ended" | "odd-time" | "others-stopped" | "others-not-proven" | "no-sign-of-life" | "old-alive" | "old-perhaps-alive" | "was-restored" | "open-task-of-session" | "open-tasks-of-session" | "open-task" | "open-tasks" | "removal-unfinished" | "run-unfinished" | "run-never-finished" | "run-finished" | "run-host-gone" | "team-removed" | "team-gone" | "team-half-made" | "registry-unreadable" | "name-not-utf8" | "link-not-followed" | "of-another-user" | "heartbeat-pid-runs" | "heartbeat-pid-may-run" | "heartbeat-pid-gone" | "task-in-its-name" | "temp-file-left" | "lock-folder-left" | "claim-lock-unnamed" | "claim-lock-left" | "ended-when-asked" | "killed-after" | "nothing-verified" | "verified-elsewhere" | "verified-by-check" | "verified-by-checks" | "part-of-check-verified" | "part-of-checks-verified" | "count-failed" | "count-failed-before" | "count-flaky" | "count-stopped" | "count-not-run" | "count-passed" | "gate-verified" | "gate-nothing-verified" | "gate-not-verified" | "check-elsewhere" | "check-flaky" | "check-stopped" | "check-failed" | "check-timed-out" | "check-failed-before" | "check-not-run" | "nobody-said-why" | "task-not-mergeable" | "task-waits-for" | "refs-not-compared" | "branch-moved" | "branch-deleted" | "branch-new" | "branch-moved-before-landing" | "tag-moved" | "tag-deleted" | "tag-new" | "checkout-moved" | "checkout-deleted" | "checkout-new" | "ref-moved" | "ref-deleted" | "ref-new" | "more-refs-changed" | "message-untaken" | "more-messages-untaken" | "not-on-branch" | "branch-not-changed" | "branch-not-moved" | "branch-gone" | "branch-moved-back" | "branch-still-conflicts" | "by-checks" | "by-person-in-studio" | "by-person-at-terminal" | "run-begins" | "requirements-wanted" | "leader-asks-first" | "plan-is-made" | "finished-is-merged" | "more-is-finished" | "every-task-done" | "some-tasks-done" | "every-finished-task-merged" | "finished-tasks-not-merged" | "tasks-to-do-again" | "merged-work-missing" | "merged-work-not-verified" | "approved-work-not-verified" | "needs-leader" | "no-check-found" | "all-checks-passed" | "no-check-broken" | "verification-failed" | "review-found-one" | "review-found-some" | "branch-has-moved" | "branch-conflicts" | "work-stays-on-its-branch" | "work-is-in-folder" | "landed-on" | "landed-below-others" | "nothing-changed" | "nothing-changed-and-fails" | "person-rejected" | "person-cancelled" | "person-stopped" | "too-many-revisions" | "tasks-failed-for-good" | "failed-tasks-cancelled" | "task-error" | "task-not-merged" | "verification-fails" | "verification-still-fails" | "plan-not-accepted" | "plan-not-accepted-because" | "no-task-done" | "nobody-left" | "too-many-tasks" | "tickets-not-done" | "no-reviewer" | "no-repository-to-review" | "budget-used-up" | "agent-not-started" | "agent-stopped" | "agent-cannot-work" | "agent-failed" | "agent-unusable" | "leader-not-started" | "leader-stopped" | "leader-cannot-work" | "leader-failed" | "leader-unusable" | "leader-late" | "budget-exhausted" | "budget-has-no-room" | "missing-commit" | "missing-without-commit" | "no-result-taken" | "result-of-task" | "result-kept-as" | "result-passes" | "result-failed" | "result-failed-unexplained" | "result-unchanged" | "result-fails-checks" | "result-lines" | "chosen-by-judge" | "chosen-alone" | "chosen-smallest" | "judge-not-asked" | "judge-asked" | "judge-chose-none" | "nobody-changes-plan" | "leader-made-no-other-plan" | "edited-plan-unusable" | "run-is-being-stopped" | "leader-did-not-answer" | "no-leader" | "leader-woken-often" | "leader-failed-often" | "leader-share-used" | "nobody-to-ask" | "left-to-leader" | "question-task-given-up" | "question-task-removed" | "question-task-goes-on" | "question-run-over" | "question-worker-restarted" | "question-worker-stopped" | "question-worker-dead" | "question-work-ended" | "question-unanswered" | "question-agent-gone" | "task-failed" | "task-failed-unexplained" | "task-completed" | "works-on-it" | "works-on-it-until" | "works-on-it-overdue" | "blocked-by-failure" | "blocked-by-missing" | "waits-for" | "waits-for-merge" | "waits-for-answer" | "not-again-until" | "files-reserved" | "internal" | "assigned-to" | "free" | "free-again";

/** The id of a task: `^[0-9]{1,20}$`, always text, ordered as a number. */
export type TaskId = string;

/** Tokens and money. The token kinds do not overlap. */
export interface Spent {
  /** The total number of tokens, which is what a budget counts. */
  tokens: number;
  /** Input tokens that were not read from a cache. */
  input: number;
  /** Input tokens that were read from a cache. */
  cachedInput: number;
  /** Tokens that were written to a cache. */
  cacheWrite: number;
  /** Output tokens, including reasoning. */
  output: number;
  /** The cost in US dollars; `null` when no client reported a price. */
  costUsd: number | null;
  /** Whether the tokens are a lower bound, because a client ended before it reported its total, or reported none. */
  atLeast: boolean;
  /** Whether the money is a lower bound, for the same reasons or because a client reported no price. */
  costAtLeast: boolean;
  /** The number of usage reports. */
  reports: number;
}

/** An agent's permission request that waits for a person's answer. */
export interface Request {
  /** Its id, for the answer. */
  request: string;
  /** What the agent wants to do. */
  what: string;
  /** The task that it is for. */
  taskId: TaskId | null;
  /** When it was made. */
  askedAt: Time;
  /** The command that allows it. */
  command: string;
}

/** One task with its level in the graph. */
export interface TaskRow {
  /** Its id. */
  id: TaskId;
  /** The subject of the task. */
  subject: string;
  /** The status in the task file: `pending`, `in_progress` or `completed`. */
  status: string;
  /** Its state. */
  state: State;
  /** The reason for that state. */
  reason: string;
  /** The message codes of this text, for translation. */
  reasonCodes: Array<PhraseKey>;
  /** The owner of the task. */
  owner: string | null;
  /** The tasks that it waits for. */
  blockedBy: Array<TaskId>;
  /** Its level in the graph: 0 waits for nothing; every other task has a higher level than all its blockers. */
  level: number;
  /** Whether it is part of the longest chain of uncompleted tasks. */
  critical: boolean;
  /** Whether it can only be claimed by its id, and is not counted in the progress. */
  internal: boolean;
  /** Attempts that failed. */
  attempts: number;
  /** When it was last claimed. */
  startedAt: Time | null;
  /** When it was completed or failed permanently. */
  endedAt: Time | null;
  /** The task that it repairs, if it was created for a failed verification or a conflict. */
  fixes: TaskId | null;
}

/** The state of a task, as shown to people and programs. */
export type State = "claimable" | "waiting" | "blocked" | "in_progress" | "completed" | "failed";

/** One message. */
export interface Message {
  /** Its place in the journal; 0 in a session's state file, which has none. */
  seq: number;
  /** Its id; empty for a broadcast. */
  id: string;
  /** The type of the message: `message`, `context`, `task_complete` and others. */
  type: string;
  /** The sender. */
  from: string;
  /** The recipient; `all` for a broadcast. */
  to: string;
  /** The text. */
  content: string;
  /** When it was sent. */
  sentAt: Time | null;
  /** The task that it concerns. */
  taskId: TaskId | null;
}

/** A run, according to its events. Unrecorded values are `null`. */
export interface Run {
  /** The sentence that the run was started with. */
  task: string;
  /** The requested team, such as `3:executor`. */
  agents: string;
  /** The members. */
  members: Array<RunMember>;
  /** The commit and branch that the work starts from. */
  base: Base | null;
  /** The commands that verify the work. */
  verify: Array<VerifyCommand>;
  /** The approval mode: `ask`, `auto` or `never`. */
  approve: string | null;
  /** The maximum number of fix rounds. */
  maxFix: number | null;
  /** The flow: `staged`, `party` or `pdca`. */
  flow: string | null;
  /** The leader: `engine`, or a provider. */
  leader: string | null;
  /** Whether the workers share the project's own folder. */
  inPlace: boolean;
  /** The budget. */
  budget: Budget | null;
  /** How many of the user's files are uncommitted, and so not part of the base. */
  uncommitted: number;
  /** The stage it is in: `plan`, `requirements`, `execute`, `verify`, `fix`, `approval` or `end`. */
  stage: string | null;
  /** The fix round. */
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

/** A member of a run. */
export interface RunMember {
  /** Its name. */
  name: string;
  /** The client that it drives. */
  provider: string | null;
  /** Its role. */
  role: string | null;
  /** The model that it uses. */
  model: string | null;
}

/** The commit and branch that the work of a run starts from. */
export interface Base {
  /** The commit. */
  commit: string;
  /** The branch. */
  branch: string | null;
}

/** A verification command. */
export interface VerifyCommand {
  /** The command. */
  command: string;
  /** Where the command comes from. */
  source: string | null;
}

/** The limits of a run; `null` means no limit. */
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
  /** Its position in the journal. */
  seq: number;
  /** Why the run entered it. */
  reason: string;
  /** The message codes of this text, for translation; empty if teamster did not write it, or an older version did. */
  reasonCodes: Array<PhraseKey>;
  /** The fix round. */
  round: number;
}

/** The plan of a run. */
export interface Plan {
  /** The source of the plan: `file`, `leader`, `preset`, `session` or `sentence`. */
  source: string;
  /** The plan file, if there is one. */
  path: string | null;
  /** The planner's analysis of the work. */
  analysis: string;
  /** The planner's assumptions. */
  assumptions: Array<string>;
  /** The risks that the planner sees. */
  risks: Array<string>;
  /** Its tasks. */
  tasks: Array<PlanTask>;
}

/** One task of a plan. */
export interface PlanTask {
  /** Its label in the plan. */
  label: string;
  /** Its id in the team. */
  id: TaskId | null;
  /** The subject of the task. */
  subject: string;
  /** The labels of the tasks that it waits for. */
  blockedBy: Array<string>;
}

/** How a run ended. */
export interface Finished {
  /** The outcome: `complete`, `rejected`, `rolled_back`, `failed`, `cancelled`, `budget_exhausted` or `tasks_failed`. */
  outcome: string;
  /** The exit code of `teamster run`. */
  exitCode: number | null;
  /** Why it ended this way. */
  reason: string;
  /** The message codes of this text, for translation; empty if teamster did not write it, or an older version did. */
  reasonCodes: Array<PhraseKey>;
  /** The commit that landed. */
  commit: string | null;
  /** When it ended. */
  at: Time;
}

/** The gate of a run. */
export interface Approval {
  /** Its position in the journal. */
  seq: number;
  /** The id of this opening of the gate. */
  gate: string;
  /** The commit to decide about. */
  commit: string;
  /** The commit that it is compared with. */
  base: string | null;
  /** The branch that it would land on. */
  branch: string | null;
  /** Whether verification ran and passed. */
  verified: boolean;
  /** What the person should know, as text. */
  words: string;
  /** The message codes of this text, for translation; empty if teamster did not write it, or an older version did. */
  wordsCodes: Array<PhraseKey>;
  /** Why the commit could not land when it was approved before. */
  refused: string | null;
  /** The message codes of this text, for translation; empty if teamster did not write it, or an older version did. */
  refusedCodes: Array<PhraseKey>;
  /** The other facts for the decision, as of the opening of the gate; `null` when the run did not record them. */
  shown: Shown | null;
  /** When it opened. */
  askedAt: Time;
  /** Whether it still waits for an answer. */
  waits: boolean;
  /** The answer. */
  answer: Answer | null;
}

/** What a person is shown at the gate. */
export interface Shown {
  /** Whether the work was verified, in one sentence that never overstates the evidence. */
  verification: string;
  /** The message codes of this text, for translation; empty in journals of older versions. */
  verificationCodes?: Array<PhraseKey>;
  /** Checks that do not count as passed, and why. */
  unverified: Array<Unverified>;
  /** The findings of workers and reviewers. */
  findings: Array<Finding>;
  /** The files that would change, at most 200. */
  files: Array<FileChange>;
  /** How many files would change in all. */
  fileCount: number;
  /** Tasks that failed permanently, or that wait for such a task. */
  failed: Array<GivenUp>;
  /** Requests of agents that were denied, the unanswered ones first. */
  denied: Array<DeniedRequest>;
  /** The workers' own summaries of their tasks. */
  said: Array<WorkerWords>;
  /** Tasks that changed files which they had not reserved. */
  outside: Array<Outside>;
  /** Uncommitted files of the user that the work would overwrite. */
  inTheWay: Array<string>;
  /** How the user's branches and tags changed during the run, one sentence each. teamster did not make these changes. */
  references: Array<string>;
  /** The message codes of these sentences, in the same order; empty in journals of older versions. */
  referenceCodes?: Array<PhraseKey>;
  /** Messages to workers that no client accepted, one sentence each. */
  untaken: Array<string>;
  /** The message codes of these sentences, in the same order; empty in journals of older versions. */
  untakenCodes?: Array<PhraseKey>;
}

/** A check that does not count as passed. */
export interface Unverified {
  /** The command. */
  command: string;
  /** The reason, as text. */
  why: string;
  /** The message codes of this text, for translation; empty in journals of older versions. */
  whyCodes?: Array<PhraseKey>;
}

/** A finding about the work. */
export interface Finding {
  /** The name of its file in `.party/findings`. */
  name: string;
  /** What it says, at most 32,768 characters. */
  text: string;
}

/** A file that would change. */
export interface FileChange {
  /** Its path. */
  path: string;
  /** The number of added lines; `null` for a binary file. */
  added: number | null;
  /** The number of removed lines; `null` for a binary file. */
  removed: number | null;
}

/** A task that will not be done. */
export interface GivenUp {
  /** The task. */
  taskId: TaskId;
  /** The subject of the task. */
  subject: string;
  /** The reason, as text. */
  why: string;
  /** The message codes of this text, for translation; empty in journals of older versions. */
  whyCodes?: Array<PhraseKey>;
}

/** A request of an agent that was denied. */
export interface DeniedRequest {
  /** The worker. */
  worker: string;
  /** The task that the request was for. */
  taskId: TaskId | null;
  /** What the agent wanted to do; if settings deny it, the reason as well. */
  what: string;
  /** Who denied it. */
  by: DeniedBy;
  /** The reason, as text; empty if none was given. */
  why: string;
}

/** Who denied a request of an agent. */
export type DeniedBy = "nobody" | "person" | "settings";

/** A worker's own summary of its task. */
export interface WorkerWords {
  /** The task. */
  taskId: TaskId;
  /** The subject of the task. */
  subject: string;
  /** The worker that did it. */
  worker: string | null;
  /** What was done. */
  summary: string;
  /** What was left open. */
  problems: Array<string>;
  /** The first sentence of the summary that admits that something did not work. */
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
  /** Whether the run has accepted it. Until then it is only a submitted answer. */
  taken: boolean;
  /** Who gave it. */
  by: string;
  /** The message codes of this text, for translation; empty if teamster did not write it, or an older version did. */
  byCodes: Array<PhraseKey>;
  /** Whether the work is rolled back. */
  rollback: boolean;
  /** The changes that are needed. */
  text: string;
  /** When it was given. */
  at: Time;
}

/** One run of a verification command. */
export interface Verification {
  /** Its position in the journal. */
  seq: number;
  /** What was verified: `base`, `integration` or the result of one task. */
  on: string;
  /** The commit that was verified. */
  commit: string;
  /** The command. */
  command: string;
  /** The fix round. */
  round: number;
  /** Its state. */
  state: VerificationState;
  /** Its exit code. */
  exitCode: number | null;
  /** How long it took, in seconds. */
  seconds: number | null;
  /** Whether it timed out. */
  timedOut: boolean;
  /** The last lines of its output. */
  last: string;
  /** The file in the project with its output. */
  log: string | null;
  /** Whether it counts against the team; it does not if it already failed on the base. */
  charged: boolean;
  /** When it began. */
  startedAt: Time | null;
  /** When it ended. */
  endedAt: Time | null;
}

/** The state of a verification. */
export type VerificationState = "running" | "passed" | "failed" | "flaky";

/** The merge of one task's work. */
export interface Merge {
  /** Its position in the journal. */
  seq: number;
  /** The task whose work is merged. */
  taskId: TaskId | null;
  /** The worker whose work it is. */
  worker: string | null;
  /** The commit. */
  commit: string;
  /** Its state. */
  state: MergeState;
  /** The predicted result: `clean`, `conflict`, `already` or `unrelated`. */
  predicted: string | null;
  /** The merge commit. */
  merge: string | null;
  /** The files that conflict. */
  files: Array<string>;
  /** How many times it conflicted. */
  times: number;
  /** Whether there will be no further attempt. */
  isFinal: boolean;
  /** The task that repairs it. */
  fixTask: TaskId | null;
  /** The time of the last event about it. */
  at: Time;
}

/** The state of a merge. */
export type MergeState = "predicted" | "merged" | "conflict" | "lost" | "unchanged";

/** The last proposed plan, and the reply to it. */
export interface Proposal {
  /** Its position in the journal. */
  seq: number;
  /** The number of the proposal within the run, counted from 1. An answer refers to it. */
  revision: number;
  /** The author: `leader`, `person`, `file`, `preset`, `session` or `sentence`. */
  by: string;
  /** When it was proposed. */
  at: Time;
  /** Whether a person has to decide about it now. */
  waits: boolean;
  /** The plan. */
  plan: PlanDraft;
  /** Commands that the leader proposed and that were left out, because no person has approved them. */
  leftOut: Array<string>;
  /** Why this plan differs from what was last asked for. */
  problem: string | null;
  /** The message codes of this text, for translation; empty if teamster did not write it, or an older version did. */
  problemCodes: Array<PhraseKey>;
  /** The reply to it. */
  reply: PlanReply | null;
}

/** A proposed plan. Its keys are those of a plan file, so that it can be edited and read back as one. */
export interface PlanDraft {
  /** The planner's analysis of the work. */
  analysis?: string;
  /** The questions that the planner cannot decide itself. */
  questions?: Array<string>;
  /** The assumptions that the planner made. */
  assumptions?: Array<string>;
  /** What could go wrong. */
  risks?: Array<string>;
  /** Commands that must succeed when all tasks are merged. */
  verify?: Array<string>;
  /** Checks that must pass in the end even though they failed before the work began. */
  must_pass?: Array<string>;
  /** The tasks, in order. */
  tasks?: Array<PlanDraftTask>;
}

/** A task of a proposed plan. */
export interface PlanDraftTask {
  /** Its label within the plan. */
  id: string;
  /** What is to be done, in one line. */
  subject: string;
  /** Everything that the worker needs to know. */
  description?: string;
  /** The label that is shown while the task is in progress. */
  activeForm?: string | null;
  /** Labels of the tasks that must be done before. */
  blockedBy?: Array<string>;
  /** The worker that it is assigned to. */
  owner?: string | null;
  /** The role of the members that may do it. */
  role?: string | null;
  /** The capabilities that its worker should have. */
  capabilities?: Array<string>;
  /** Globs of the files that it may change. */
  paths?: Array<string>;
  /** The acceptance criteria. */
  accept?: Array<string>;
  /** Commands that must succeed for it. */
  verify?: Array<string>;
}

/** A reply to a proposed plan. */
export interface PlanReply {
  /** The decision. */
  decision: PlanDecision;
  /** Which changes are needed, or why the plan is rejected. */
  words: string | null;
  /** Who decided. */
  by: string;
  /** When it was decided. */
  at: Time;
}

/** The kind of a person's decision about a plan. */
export type PlanDecision = "accept" | "reject" | "revise" | "edit";

/** A question of an agent, and its state. */
export interface Question {
  /** Its id, for the answer. */
  id: string;
  /** The asker. */
  from: string;
  /** The task that it concerns. */
  taskId: TaskId | null;
  /** The kind of the question: `ask`, `blocked`, `plan` or `proposal`. */
  kind: string;
  /** The addressee: `leader` or `person`. */
  to: string;
  /** The text of the question. */
  text: string;
  /** When it was asked. */
  askedAt: Time;
  /** Why the question was forwarded from its first addressee. */
  forwarded: string | null;
  /** The message codes of this text, for translation; empty if teamster did not write it, or an older version did. */
  forwardedCodes: Array<PhraseKey>;
  /** The proposed task. */
  proposal: ProposedTask | null;
  /** Its state. */
  state: QuestionState;
  /** The answer, or why the question expired. */
  answer: string | null;
  /** The message codes of this text, for translation; empty if teamster did not write it, or an older version did. */
  answerCodes: Array<PhraseKey>;
  /** Who answered. */
  answeredBy: string | null;
  /** When it was answered or expired. */
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

/** The state of a question. */
export type QuestionState = "open" | "answered" | "expired";

/** One turn of the leader after the plan. */
export interface Wake {
  /** Its number in the run, counted from 1. */
  number: number;
  /** Its position in the journal. */
  seq: number;
  /** When the leader was woken. */
  at: Time;
  /** When the turn ended. */
  endedAt: Time | null;
  /** Why the leader was woken. */
  reasons: Array<WakeReason>;
  /** Its outcome. */
  state: WakeState;
  /** What it did, in order. */
  actions: Array<LeaderAction>;
  /** Tasks that it cancelled. */
  cancelled: Array<CancelledTask>;
  /** The notes that it wrote. */
  notes: Array<string>;
  /** Review findings that it decided not to have fixed. */
  dismissed: Array<DismissedFinding>;
  /** Why the turn failed, or why the decision could not be carried out. */
  reason: string | null;
  /** The message codes of this text, for translation; empty if teamster did not write it, or an older version did. */
  reasonCodes: Array<PhraseKey>;
}

/** One reason to wake a leader. */
export interface WakeReason {
  /** The kind of the reason. */
  kind: WakeKind;
  /** The subject: the id of a question or a task, or the position of an event. */
  about: string;
}

/** Why a leader is woken. */
export type WakeKind = "question" | "failure" | "conflict" | "findings" | "message" | "revision" | "phase";

/** The state of a turn of the leader. */
export type WakeState = "thinking" | "acted" | "failed" | "refused";

/** One action of the leader. */
export interface LeaderAction {
  /** `create`, `update`, `cancel`, `answer`, `ask-person`, `message` or `finding`. */
  kind: string;
  /** The task that it concerns. */
  taskId: TaskId | null;
  /** The question that it concerns. */
  question: string | null;
  /** The recipient of a message. */
  to: string | null;
  /** The text: the subject of a task, an answer, a message, or a finding. */
  text: string;
}

/** A task that a leader cancelled. */
export interface CancelledTask {
  /** The task. */
  task: TaskId;
  /** Why the task is no longer needed. */
  reason: string;
}

/** A review finding that a leader decided not to have fixed. */
export interface DismissedFinding {
  /** The commit that was reviewed. */
  commit: string;
  /** The number of the finding within the review, counted from 1. */
  finding: number;
  /** Why it is not fixed. */
  reason: string;
}

/** A review of the merged work. */
export interface Review {
  /** The commit that is reviewed. */
  commit: string;
  /** The previously reviewed commit: only later changes are reviewed. */
  since: string | null;
  /** The reviewer; empty when there is none. */
  reviewer: string;
  /** The time of the last event about it. */
  at: Time;
  /** Its state. */
  state: ReviewPhase;
  /** The reviewer's verdict on the work as a whole. */
  verdict: ReviewVerdict | null;
  /** The findings, the worst first, at most 200. */
  findings: Array<ReviewFinding>;
  /** The findings that the leader decided not to have fixed, with its reasons. */
  dismissed: Array<DismissedFinding>;
  /** The status of the acceptance criteria. */
  criteria: Array<Criterion>;
  /** How many findings were dropped, because their location is not in the commit or there were too many. */
  dropped: number;
  /** Why there is no review. */
  reason: string | null;
  /** The message codes of this text, for translation; empty if teamster did not write it, or an older version did. */
  reasonCodes: Array<PhraseKey>;
}

/** The state of a review. */
export type ReviewPhase = "reviewing" | "finished" | "failed" | "skipped";

/** A reviewer's verdict on the work as a whole. */
export type ReviewVerdict = "accept" | "changes";

/** One finding of a reviewer. */
export interface ReviewFinding {
  /** How bad it is. */
  severity: Severity;
  /** The file, relative to the root of the repository; `None` if the finding is not about a file. */
  path?: string | null;
  /** The line, counted from 1. */
  line?: number | null;
  /** What is wrong. */
  claim: string;
  /** The evidence for it. */
  evidence?: string;
  /** The suggested fix. */
  suggestion?: string;
}

/** How bad a finding is. */
export type Severity = "blocker" | "major" | "minor" | "nit";

/** The status of an acceptance criterion. */
export interface Criterion {
  /** The criterion, as written in the plan. */
  criterion: string;
  /** Whether it is met. */
  met: boolean;
  /** The evidence for it. */
  evidence: string;
}

/** A problem that a worker or the leader reported. */
export interface TeamFinding {
  /** Its position in the journal. */
  seq: number;
  /** When it was found. */
  at: Time;
  /** Who found it. */
  by: string;
  /** The task that the reporter was working on. */
  taskId: TaskId | null;
  /** How bad it is. */
  severity: Severity;
  /** The location: `src/a.rs:12`, `src/a.rs`, or nothing. */
  place: string;
  /** What is wrong. */
  claim: string;
  /** The evidence for it. */
  evidence: string;
  /** The suggested fix. */
  suggestion: string;
}

/** Which of several candidate results was chosen. */
export interface Choice {
  /** The task whose result was chosen. */
  taskId: TaskId | null;
  /** The commit. */
  commit: string;
  /** Why it was chosen. */
  reason: string;
  /** The message codes of this text, for translation; empty if teamster did not write it, or an older version did. */
  reasonCodes: Array<PhraseKey>;
  /** The judge that chose it; `null` when the smallest passing result was taken. */
  by: string | null;
  /** Why the judge chose none. */
  judgeFailed: string | null;
  /** The message codes of this text, for translation; empty if teamster did not write it, or an older version did. */
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
  /** The ref that preserves the work; `null` when there is none. */
  ref: string | null;
  /** Why it was not chosen. */
  why: string;
  /** The message codes of this text, for translation; empty in journals of older versions. */
  whyCodes?: Array<PhraseKey>;
}

/** What a team spent. */
export interface Cost {
  /** The total. */
  total: Spent;
  /** The costs by worker, in name order. */
  byWorker: Array<WorkerCost>;
  /** The costs by task, in number order. */
  byTask: Array<TaskCost>;
  /** The cumulative costs over time, at most 200 points, the newest last. */
  overTime: Array<CostPoint>;
  /** The budget of the run; `null` when there is no run. */
  budget: Budget | null;
  /** The tokens that are reserved for running attempts. */
  reservedTokens: number;
  /** The budget that stopped the run. */
  exhausted: Exhausted | null;
}

/** What a worker spent. */
export interface WorkerCost {
  /** The name of the worker. */
  worker: string;
  /** The total for the worker. */
  spent: Spent;
}

/** What was spent on a task. */
export interface TaskCost {
  /** The id of the task; `null` for costs outside any task. */
  taskId: TaskId | null;
  /** The total for the task. */
  spent: Spent;
}

/** The cumulative cost at a moment. */
export interface CostPoint {
  /** The moment. */
  at: Time;
  /** Its position in the journal. */
  seq: number;
  /** The tokens used so far. */
  tokens: number;
  /** The US dollars spent so far; `null` when no client had reported a price. */
  costUsd: number | null;
}

/** A budget that stopped a run. */
export interface Exhausted {
  /** `tokens`, `usd` or `minutes`. */
  what: string;
  /** The limit. */
  limit: number | null;
  /** How much was used. */
  used: number | null;
  /** When it stopped the run. */
  at: Time;
}

/** A problem that needs a person. */
export interface Problem {
  /** The kind of a problem. */
  kind: ProblemKind;
  /** The subject: a worker, a mailbox, a file. */
  about: string;
  /** The description of the problem. */
  error: string;
  /** The message codes of the description, for translation. */
  codes: Array<PhraseKey>;
}

/** The kind of a problem. */
export type ProblemKind = "damaged" | "worker" | "undelivered" | "approval" | "plan";

/** What a state file says about its session. */
export interface Session {
  /** The file, in the project. */
  file: string;
  /** The id of the session. */
  sessionId: string;
  /** The feature that it works on. */
  feature: string;
  /** The phase of that feature: `plan`, `design`, `do`, `check` or `act`. */
  pdcaPhase: string;
  /** The organisation of the team: `leader`, `swarm`, `council` or `watchdog`. */
  orchestrationPattern: string;
  /** The lead's model. */
  ctoAgent: string;
  /** When it began. */
  startedAt: Time | null;
  /** When the file was last written. */
  lastUpdated: Time | null;
}

/** The timeline of a team. */
export interface Timeline {
  /** The journal position that this shows. */
  seq: number;
  /** The moment of the first event. */
  from: Time | null;
  /** The moment of the last event. */
  to: Time | null;
  /** A lane for each worker, in name order. */
  lanes: Array<Lane>;
  /** The stages of the run. */
  stages: Array<StageSpan>;
  /** At most 512 evenly spread positions, including the first and the last. */
  ticks: Array<Tick>;
}

/** The history of one worker, for the timeline. */
export interface Lane {
  /** The name of the worker. */
  worker: string;
  /** Its work spans, in order. */
  spans: Array<Span>;
  /** What happened to it, in order. */
  marks: Array<Mark>;
}

/** A worker's uninterrupted work on one task. */
export interface Span {
  /** The task. */
  taskId: TaskId;
  /** The subject of the task. */
  subject: string;
  /** The position of the event at which it began. */
  seq: number;
  /** When it began. */
  from: Time;
  /** When it ended; `null` while it is running. */
  to: Time | null;
  /** How it ended. */
  end: SpanEnd;
}

/** How a work span ended. */
export type SpanEnd = "open" | "completed" | "failed" | "released" | "requeued";

/** Something that happened to a worker at one moment. */
export interface Mark {
  /** The position of the event. */
  seq: number;
  /** When it happened. */
  at: Time;
  /** The name of the event's kind, such as `worker.spawned` or `worker.dead`. */
  what: string;
  /** Details, as text. */
  words: string;
  /** The message codes of this text, for translation; empty if teamster did not write it. */
  wordsCodes: Array<PhraseKey>;
}

/** A stage of the run. */
export interface StageSpan {
  /** The name of the stage. */
  stage: string;
  /** The position of the event at which it began. */
  seq: number;
  /** When it began. */
  from: Time;
  /** When it ended; `null` while it is running. */
  to: Time | null;
}

/** A journal position and its time, for mapping a moment to a position. */
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
  /** The full description, which is what the agent is given. */
  description: string;
  /** The capabilities that a worker must have. */
  capabilities: Array<string>;
  /** The paths that it reserves. */
  paths: Array<string>;
  /** The tasks that wait for it. */
  blocks: Array<TaskId>;
  /** When the lease of its claim expires. */
  leasedUntil: Time | null;
  /** The acceptance criteria. */
  accept: Array<string>;
  /** The commands that verify it. */
  verify: Array<string>;
  /** The result, as its worker describes it. */
  summary: string | null;
  /** What later tasks must know, as its worker describes it. */
  handover: string | null;
  /** What was left open, as its worker describes it. */
  problems: Array<string>;
  /** The commit with the result. */
  commit: string | null;
  /** The files that were changed, at most 200. */
  files: Array<string>;
  /** The last error. */
  error: string | null;
  /** The costs of the task. */
  spent: Spent;
  /** The events about it, the newest last, at most 200. */
  events: Array<Event>;
}

/** One line of the journal. */
export interface Event {
  /** The position of the event: it increases by one for each event of a team. */
  seq: number;
  /** The id of the event, unique across all teams. */
  id: string;
  /** When it happened. */
  ts: Time;
  /** The team in which it happened. */
  team: string;
  /** What happened, such as `task.claimed` or `message.sent`. */
  type: string;
  /** The actor; `foreign` for a program other than teamster. */
  actor: EventActor;
  /** The task that it concerns. */
  taskId?: TaskId | null;
  /** Whether the transaction continues on the next line; either all of its lines count, or none. */
  more?: boolean;
  /** The payload. */
  data: Record<string, unknown>;
}

/** The actor of an event. The journal stores it as a string; an unrecognised string is kept unchanged. */
export type EventActor = string;

/** The changes of a branch or a task, as text. */
export interface Diff {
  /** A worker's name, `integration`, `task-3` for the result of a task, or `task-3.attempt-7` for a failed attempt. */
  name: string;
  /** The commit that is shown. */
  commit: string;
  /** The commit that it is compared with. */
  base: string;
  /** The changed files, with the numbers of added and removed lines, at most 2,000. */
  files: Array<ChangedFile>;
  /** The unified diff, redacted, at most 1 MiB. */
  text: string;
  /** Whether it was truncated. */
  cut: boolean;
}

/** A file that a branch changed. */
export interface ChangedFile {
  /** Its path. */
  path: string;
  /** The number of added lines; `null` for a binary file. */
  added: number | null;
  /** The number of removed lines; `null` for a binary file. */
  removed: number | null;
}

/** Messages from the journal, beyond the last 50 of the view. */
export interface Messages {
  /** The messages, the oldest first. */
  messages: Array<Message>;
  /** Whether there are older ones: request them with `before` set to the `seq` of the first. */
  more: boolean;
}

/** A part of the journal. */
export interface Journal {
  /** The events, in order, redacted. */
  events: Array<Event>;
  /** Lines that are not events. */
  problems: Array<Problem>;
  /** The last position of the journal. */
  last: number;
}

/** The output of an agent for one task. */
export interface Log {
  /** The task; `null` when there is no log. */
  taskId: TaskId | null;
  /** The tasks for which this worker has a log, the newest first. */
  tasks: Array<TaskId>;
  /** The lines, in order. */
  lines: Array<LogLine>;
  /** The value of `after` for the next request. */
  next: number;
  /** Whether earlier lines were left out. */
  cut: boolean;
}

/** One line of an agent's output. */
export interface LogLine {
  /** The time, if the line contains one. */
  ts: string | null;
  /** The writer, such as `agent`, `stderr` or `teamster`. */
  from: string;
  /** The text in readable form; empty for output that is of no interest to people. */
  text: string;
  /** The original text, if it differs. */
  raw: string | null;
}

/** The changes of a team's branches. */
export interface Changes {
  /** The integration branch first, then the workers by name. Empty when the project is not a git repository. */
  branches: Array<Branch>;
  /** Why there is nothing to show. */
  problem: string | null;
}

/** The changes of one branch of a team. */
export interface Branch {
  /** A worker's name, `integration`, or `@gate` for the commit that was last presented at the gate. */
  name: string;
  /** The branch. */
  branch: string;
  /** Its commit. */
  commit: string;
  /** The commit that it is compared with. */
  base: string;
  /** The changed files, with the numbers of added and removed lines, at most 2,000. */
  files: Array<ChangedFile>;
}

/** The leftovers on this machine. */
export interface Zombies {
  /** The leftovers. */
  zombies: Array<Zombie>;
}

/** A leftover: a team, process or worktree whose work has ended. */
export interface Zombie {
  /** `team`, `worker`, `worktree`, `lock` or `pane`. */
  kind: string;
  /** Its name. Another program may have chosen any name. */
  name: string;
  /** The team it belongs to. */
  team: string;
  /** Its age in seconds. */
  age: number;
  /** The evidence that it is a leftover. */
  evidence: Array<string>;
  /** The message codes of the evidence, for translation. */
  evidenceCodes: Array<PhraseKey>;
  /** What `reap` does with it: `reap` or `keep`. */
  action: string;
  /** The shell command that removes it. */
  command: string;
}

/** The channels of a shared stream to close and then to open. */
export interface FollowBody {
  /** The numbers of the channels to close; numbers that are not open are ignored. */
  close: Array<number>;
  /** The channels to open. */
  open: Array<OpenChannel>;
}

/** One channel of a shared stream: all teams, one team, or the log of a worker. */
export interface OpenChannel {
  /** The number that its events carry; an open channel with the same number is closed. */
  channel: number;
  /** The team to follow; without it, the overview of all teams. */
  team: string | null;
  /** With `team`: whether to send the `overview` events of all teams on the same channel. */
  overview: boolean;
  /** With `team`: the worker whose log to follow, instead of the team. */
  worker: string | null;
  /** With `worker`: the task whose log to follow; without it, the latest and then each next one. */
  task: string | null;
  /** The id of the last event that the client received, as in Last-Event-ID. */
  last: string | null;
}

/** The channels of a shared stream after a change. */
export interface Following {
  /** The number of open channels. */
  channels: number;
}

/** A message to be sent. */
export interface NewMessage {
  /** A worker's name, `lead` or `all`. */
  to: string;
  /** The text, at most 64 KiB. */
  text: string;
}

/** The messages that were sent. */
export interface Sent {
  /** The ids of the messages, one for each recipient. */
  ids: Array<string>;
}

/** A request that a worker stop. */
export interface StopWish {
  /** Whether it may finish its current task first. */
  drain: boolean;
  /** Whether to stop it without asking it first. */
  force: boolean;
}

/** The result of a request to stop. Stopping takes up to a minute; the event stream reports the progress. */
export interface Stopping {
  /** How each ended. */
  workers: Array<WorkerEnd>;
  /** Whether every worker is proven to be gone. */
  verified: boolean;
}

/** How a worker ended. */
export interface WorkerEnd {
  /** The name of the worker. */
  worker: string;
  /** How it ended, in one word. */
  how: string;
  /** What else there is to say, such as why it is still running; empty when there is nothing. */
  note: string;
}

/** An answer at the gate. */
export interface ApprovalAnswer {
  /** The opening of the gate that is answered; an answer to a closed one is rejected. */
  gate: string;
  /** The commit that was shown. */
  commit: string;
  /** `approve`, `reject` or `revise`. */
  answer: ApprovalWord;
  /** With `reject`: whether to roll the work back. */
  rollback: boolean;
  /** With `revise`: the changes that are needed. */
  text: string;
}

/** The answer at the gate. */
export type ApprovalWord = "approve" | "reject" | "revise";

/** An answer that was submitted to the run. */
export interface Answered {
  /** Its position in the journal. */
  seq: number;
}

/** A decision about a proposed plan. */
export interface PlanBody {
  /** The revision that was shown; an answer to another one is rejected. */
  revision: number;
  /** The decision. */
  decision: PlanWord;
  /** With `revise` the changes that are needed, with `reject` the reason, with `edit` the replacement plan as the text of a plan file. */
  text: string;
}

/** The decision about a plan. */
export type PlanWord = "accept" | "reject" | "revise" | "edit";

/** A decision about a plan that took effect. */
export interface PlanReplied {
  /** Its position in the journal. */
  seq: number;
}

/** An answer to a question of an agent. */
export interface QuestionBody {
  /** The answer for the agent; may be empty with `accept`. */
  text: string;
  /** Whether to create the task that the agent proposes. */
  accept: boolean;
}

/** The result of answering a question. */
export interface QuestionReplied {
  /** The answer that was recorded. */
  answer: string;
  /** The task that was created from a proposal. */
  task: TaskId | null;
}

/** A decision about a permission request of an agent. */
export interface PermissionBody {
  /** The id of the request. */
  request: string;
  /** Whether it is allowed. */
  allow: boolean;
  /** Why it is denied, for the agent. */
  reason: string;
}

/** A decision that was passed to the agent. */
export interface RequestReplied {
  /** Whether it is allowed. */
  allowed: boolean;
}

/** A request to remove leftovers. */
export interface ReapWish {
  /** Whether to only report what would be removed. */
  dryRun: boolean;
}

/** The result of removing leftovers. */
export interface Reaped {
  /** Each leftover that was found. */
  zombies: Array<ReapedOne>;
  /** Whether nothing was removed because only a preview was requested. */
  dryRun: boolean;
}

/** The result for one leftover. */
export interface ReapedOne {
  /** The leftover. */
  zombie: Zombie;
  /** Whether it was removed. */
  reaped: boolean;
  /** Why it could not be removed. */
  problem: string | null;
}

/** The difference between two views of one team. An omitted part is unchanged; applying a patch twice has no further effect. */
export interface Patch {
  /** The journal position of the new view. */
  seq: number;
  /** The time of that event. */
  at?: Time | null;
  /** Whether the team is active. */
  state?: Viewed | null;
  /** Its progress. */
  progress?: Progress | null;
  /** How much of the journal has been read. */
  history?: History | null;
  /** Workers that are new or changed. */
  workers?: Array<Worker>;
  /** The names of all workers in order, when one joined or left. */
  workerNames?: Array<string> | null;
  /** The total number of workers. */
  workerCount?: number | null;
  /** Tasks that are new or changed. */
  tasks?: Array<TaskRow>;
  /** Tasks that were removed. */
  removedTasks?: Array<TaskId>;
  /** The longest chain of uncompleted tasks. */
  criticalPath?: Array<TaskId> | null;
  /** New messages. */
  messages?: Array<Message>;
  /** The total number of messages. */
  messageCount?: number | null;
  /** The run. */
  run?: Run | null;
  /** The gate. */
  approval?: Approval | null;
  /** Every verification. */
  verifications?: Array<Verification> | null;
  /** Every merge. */
  merges?: Array<Merge> | null;
  /** The last proposed plan. */
  proposal?: Proposal | null;
  /** Every question that is shown. */
  questions?: Array<Question> | null;
  /** Every turn of the leader. */
  wakes?: Array<Wake> | null;
  /** Every review. */
  reviews?: Array<Review> | null;
  /** Every finding. */
  findings?: Array<TeamFinding> | null;
  /** Which of several candidate results was chosen. */
  choice?: Choice | null;
  /** The costs. */
  cost?: Cost | null;
  /** The problems that need a person. */
  problems?: Array<Problem> | null;
  /** The total number of problems. */
  problemCount?: number | null;
}

/** Sent as the event `lines`: the output since the last event. Its id encodes the position where it ends. */
export interface LogPart {
  /** The task; `null` when there is no log. */
  taskId: TaskId | null;
  /** The tasks for which this worker has a log, the newest first. */
  tasks: Array<TaskId>;
  /** The lines, in order. */
  lines: Array<LogLine>;
  /** Whether earlier lines are to be discarded, because of another task or a new log. */
  begins: boolean;
  /** Whether earlier lines were left out. */
  cut: boolean;
}

/** Sent as the event `hello` at the start of every stream. */
export interface Hello {
  /** The version of teamster; a page of another version should reload. */
  version: string;
  /** The team that the stream is about; `null` for the stream of all teams. */
  team: string | null;
}

/** Sent as the event `hello` at the start of a shared stream. */
export interface SharedHello {
  /** The id of the stream, for `follow`. */
  stream: string;
}

/** Sent as the event `refused` on a channel that cannot be opened. */
export interface ChannelRefused {
  /** The HTTP status that a separate connection would have received. */
  status: number;
  /** Why it cannot be opened. */
  error: RefusalReason;
}

/** The error, in the format of the command line's `--json`. */
export interface RefusalReason {
  /** `usage`, `not_found`, `conflict`, `nothing`, `refused`, `unreachable` or `failed`. */
  kind: string;
  /** The message: what failed, and on what. */
  message: string;
  /** What the user can do about it. */
  hint: string | null;
}

/** Sent as the event `end` when a channel has ended. */
export interface ChannelEnd {
  /** The number of the channel. */
  channel: number;
}

/** Sent as the event `lagging` to a client that reads too slowly, before the stream ends. The client reconnects with its last event id and misses nothing. */
export interface Lagging {
  /** The explanation, as text. */
  message: string;
}

/** Sent as the event `gone` when the team no longer exists, before the stream ends. */
export interface Gone {
  /** The explanation, as text. */
  message: string;
}

/** An error response. The HTTP status follows from `kind`. */
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
  "pid-gone-alone": "process {pid} is gone, judged by its pid alone",
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
  "agent-quiet": "no event from the agent for {quiet}",
  "agent-quiet-on-task": "no event from the agent for {quiet} on task {task}",
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
  "seat-taken": "another process now runs as this worker",
  "worker-verdict": "{verdict}",
  "work-waits": "{words}; waiting for your decision: `{command}` (or reject, revise)",
  "waits-for-decision": "waiting for your decision: `{command}` (or reject, revise)",
  "plan-waits": "revision {revision} waits for you: `teamster plan show --team {team}`, then accept, revise, edit or reject",
  "message-undelivered": "1 message is not delivered after {age}",
  "messages-undelivered": "{count} messages are not delivered after {age}",
  "message-undelivered-long": "1 message is not delivered after more than a minute",
  "messages-undelivered-long": "{count} messages are not delivered after more than a minute",
  "file-damaged": "it cannot be parsed: {error}",
  "journal-line-damaged": "1 line cannot be parsed: {error}",
  "journal-lines-damaged": "{count} lines cannot be parsed; the first: {error}",
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
  "claim-runs": "the claim of {worker} on task {task} is still valid",
  "claimer-runs": "{worker} (pid {pid}), who claimed task {task}, runs",
  "claimer-not-judged": "{worker} (pid {pid}), who claimed task {task}, cannot be judged from here",
  "lock-in-use": "{name} is in use",
  "lock-not-judged": "{name} cannot be judged from here",
  "lock-held": "{name} is held",
  "runs-as-member": "pid {pid} runs as {name} of it",
  "pid-runs": "pid {pid} runs",
  "pane-out-of-reach": "pane {pane} of {name} cannot be inspected from here",
  "client-runs-in-pane": "a session of Claude Code (pid {pid}) runs in pane {pane} of {name}",
  "pane-not-looked-for": "pane {pane} of {name} was not looked for",
  "pane-not-findable": "pane {pane} of {name} cannot be looked for: {error}",
  "pane-program-ended": "pane {pane} is open, its program has ended",
  "pane-of-member-open": "pane {pane} of {name} is open",
  "pane-open": "pane {pane} is open",
  "own-pane-ended": "its program has ended, in our own tmux server",
  "odd-time": "{odd}: its newest file change is used instead",
  "others-stopped": "every other member is proven stopped",
  "others-not-proven": "not every member is proven stopped",
  "no-sign-of-life": "no change for {age}, no sign of life",
  "old-alive": "old, alive",
  "old-perhaps-alive": "old, perhaps alive",
  "was-restored": "it was restored from the trash",
  "open-task-of-session": "1 open task, which a resumed session would continue",
  "open-tasks-of-session": "{count} open tasks, which a resumed session would continue",
  "open-task": "1 open task",
  "open-tasks": "{count} open tasks",
  "removal-unfinished": "its removal was started but not finished",
  "run-unfinished": "its run has not finished; it can be resumed",
  "run-never-finished": "it has no finished run",
  "run-finished": "its run has finished",
  "run-host-gone": "the host of its run is gone",
  "team-removed": "its team was removed",
  "team-gone": "its team is gone",
  "team-half-made": "a team that pid {pid} did not finish creating",
  "registry-unreadable": "config.json cannot be read: {error}",
  "name-not-utf8": "its name is not UTF-8, so no team can have it",
  "link-not-followed": "{path} is a symbolic link and not followed",
  "of-another-user": "{path} belongs to another user (uid {owner})",
  "heartbeat-pid-runs": "heartbeat {age} old, pid {pid} runs",
  "heartbeat-pid-may-run": "heartbeat {age} old, pid {pid} may run",
  "heartbeat-pid-gone": "heartbeat {age} old, pid {pid} gone",
  "task-in-its-name": "task {task} is still assigned to it",
  "temp-file-left": "temp file, its writer (pid {pid}) is gone",
  "lock-folder-left": "stale lock folder of Claude Code",
  "claim-lock-unnamed": "claim lock that names no process",
  "claim-lock-left": "claim lock, its claimer (pid {pid}) is gone",
  "ended-when-asked": "it ended when it was asked to",
  "killed-after": "it did not end within {limit} and was killed",
  "nothing-verified": "Nothing was verified: no command has looked at this work.",
  "verified-elsewhere": "Not verified: the checks ran on another commit, {commit}.",
  "verified-by-check": "Verified: 1 check passed.",
  "verified-by-checks": "Verified: {count} checks passed.",
  "part-of-check-verified": "Not fully verified: of 1 check",
  "part-of-checks-verified": "Not fully verified: of {count} checks",
  "count-failed": "{count} failed",
  "count-failed-before": "{count} failed as before the work began",
  "count-flaky": "{count} flaky, which does not count as passed",
  "count-stopped": "{count} did not finish",
  "count-not-run": "{count} not run",
  "count-passed": "{count} passed",
  "gate-verified": "verified: every check passed",
  "gate-nothing-verified": "NOTHING WAS VERIFIED: no command was given, and none was found",
  "gate-not-verified": "not every check passed",
  "check-elsewhere": "it ran on another commit",
  "check-flaky": "flaky, which does not count as passed",
  "check-stopped": "did not finish",
  "check-failed": "failed",
  "check-timed-out": "timed out",
  "check-failed-before": "failed as before the work began",
  "check-not-run": "not run",
  "nobody-said-why": "no reason was given",
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
  "checkout-moved": "HEAD moved from {from} to {to}.",
  "checkout-deleted": "HEAD was deleted; it was at {from}.",
  "checkout-new": "HEAD is new, at {to}.",
  "ref-moved": "{name} moved from {from} to {to}.",
  "ref-deleted": "{name} was deleted; it was at {from}.",
  "ref-new": "{name} is new, at {to}.",
  "more-refs-changed": "{count} more references changed.",
  "message-untaken": "{from} to {to}: {words}",
  "more-messages-untaken": "and {count} more: `teamster message list` has them",
  "not-on-branch": "{branch} does not have it",
  "branch-not-changed": "{branch} was not changed: {why}\nwhen that is resolved: {command}",
  "branch-not-moved": "{branch} was not moved: {why}\ngit changed these files before it failed, and they could not be restored: {files}\nthis restores them: {undo}\nwhen that is resolved: {command}",
  "branch-gone": "there is no branch {branch} any more",
  "branch-moved-back": "{branch} was moved back to {tip} since the work began at {base}, and landing would bring back what was removed; if that is what you want: git merge {commit}",
  "branch-still-conflicts": "what is new on {branch} conflicts with the work in {files}, and task {task} did not resolve that; merge {tip} by hand on top of the work, or revise it",
  "by-checks": "the checks (--approve auto)",
  "by-person-in-studio": "a person in Studio",
  "by-person-at-terminal": "a person at a terminal",
  "run-begins": "the run begins",
  "requirements-wanted": "they were asked for",
  "leader-asks-first": "the leader asks before it plans",
  "plan-is-made": "the plan is made",
  "finished-is-merged": "finished work is merged",
  "more-is-finished": "more is finished",
  "every-task-done": "every task is done",
  "some-tasks-done": "{done} tasks are done, {left} will not be",
  "every-finished-task-merged": "every finished task is merged",
  "finished-tasks-not-merged": "{count} finished tasks could not be merged",
  "tasks-to-do-again": "some tasks must be done again",
  "merged-work-missing": "work that was marked as merged is missing",
  "merged-work-not-verified": "the merged work is not what was verified",
  "approved-work-not-verified": "what was approved is not what was verified",
  "needs-leader": "something needs the leader",
  "no-check-found": "nothing was verified: no command is given, and none was found",
  "all-checks-passed": "all checks passed",
  "no-check-broken": "no new failures; what fails is flaky or failed before the work began",
  "verification-failed": "verification failed: {commands}",
  "review-found-one": "the review found 1 thing to fix",
  "review-found-some": "the review found {count} things to fix",
  "branch-has-moved": "{branch} has moved; the work is verified and asked about again",
  "branch-conflicts": "{branch} has moved and conflicts with the team's work",
  "work-stays-on-its-branch": "approved; no branch was checked out when it began, so the work stays on its own branch",
  "work-is-in-folder": "approved; the work is in the project's folder",
  "landed-on": "approved and landed on {branch}",
  "landed-below-others": "approved and landed on {branch}, which has more commits on top that are not the team's: {commit} to {tip}",
  "nothing-changed": "nothing was changed",
  "nothing-changed-and-fails": "nothing was changed, and not every check passes",
  "person-rejected": "a person rejected it",
  "person-cancelled": "a person cancelled it",
  "person-stopped": "a person stopped it",
  "too-many-revisions": "a person asked for more than {count} revisions",
  "tasks-failed-for-good": "{count} tasks failed permanently or wait for one that did",
  "failed-tasks-cancelled": "the leader cancelled what had failed and made no other task of it: {tasks}",
  "task-error": "task {task}: {error}",
  "task-not-merged": "task {task}: its work is NOT merged",
  "verification-fails": "verification fails: {commands}",
  "verification-still-fails": "verification still fails after {count} rounds of fixing: {commands}",
  "plan-not-accepted": "the plan was not accepted",
  "plan-not-accepted-because": "the plan was not accepted: {words}",
  "no-task-done": "none of {count} tasks could be done",
  "nobody-left": "no worker is left for task {tasks}: every worker has ended or takes no more tasks",
  "too-many-tasks": "{count} tasks were added to the run or restarted, and the setting run.max_tasks allows {most}: {tasks} are ignored; delete them or raise the setting, then resume: `teamster run --resume {team}`",
  "tickets-not-done": "the flow party does not go on to {phase} while {tickets} is not DONE: retry the task with `teamster task retry ID` or drop it with `teamster task delete ID`, and go on with `teamster run --resume {team}`",
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
  "leader-late": "it has used its share of the run's time",
  "budget-exhausted": "the budget is used up: {used} used of {allowed}",
  "budget-has-no-room": "the budget has no room for another task: {used} used of {allowed}; {rest} are left, and a task took {each} on average",
  "missing-commit": "task {task} is missing: its commit {commit} is kept as {name}",
  "missing-without-commit": "task {task} is marked as merged but has no commit",
  "no-result-taken": "none of {count} results can be taken",
  "result-of-task": "task {task}",
  "result-kept-as": "(kept as {name})",
  "result-passes": "it passes",
  "result-failed": "it failed: {error}",
  "result-failed-unexplained": "it failed: no reason was given",
  "result-unchanged": "it changed nothing",
  "result-fails-checks": "it fails {commands}",
  "result-lines": "{count} changed lines",
  "chosen-by-judge": "{judge} chose it: {words}",
  "chosen-alone": "it is the only one that passes",
  "chosen-smallest": "of {count} that pass it is the smallest: {lines} changed lines",
  "judge-not-asked": "{judge} was not asked, because the budget is used up",
  "judge-asked": "{judge} was asked which is the best",
  "judge-chose-none": "it chose {choice}, which is none of them",
  "nobody-changes-plan": "no agent leads this run, so no agent can change the plan; edit it yourself",
  "leader-made-no-other-plan": "the leader made no other plan",
  "edited-plan-unusable": "the edited plan is not valid: {faults}",
  "run-is-being-stopped": "the run is being stopped",
  "leader-did-not-answer": "the leader did not answer it",
  "no-leader": "no agent leads this run",
  "leader-woken-often": "the leader has reached its limit of wake-ups",
  "leader-failed-often": "the leader failed too often in a row",
  "leader-share-used": "the leader has used its share of the budget",
  "nobody-to-ask": "no person can be asked",
  "left-to-leader": "the person leaves it to the leader",
  "question-task-given-up": "its task was given up",
  "question-task-removed": "its task was removed",
  "question-task-goes-on": "its task goes on without an answer",
  "question-run-over": "the run is over",
  "question-worker-restarted": "its worker was restarted",
  "question-worker-stopped": "its worker was stopped",
  "question-worker-dead": "its worker is dead",
  "question-work-ended": "the work on its task has ended",
  "question-unanswered": "nobody answered within {limit}",
  "question-agent-gone": "the agent no longer waits for it",
  "task-failed": "failed permanently: {error}",
  "task-failed-unexplained": "failed permanently: no reason was recorded",
  "task-completed": "completed",
  "works-on-it": "{owner} works on it",
  "works-on-it-until": "{owner} works on it, lease until {until}",
  "works-on-it-overdue": "{owner} works on it; its lease ran out at {until}",
  "blocked-by-failure": "blocked by failure of {tasks}",
  "blocked-by-missing": "blocked by the missing task {tasks}",
  "waits-for": "waits for {tasks}",
  "waits-for-merge": "waits for the merge of {tasks}",
  "waits-for-answer": "waits for an answer to {asker}: {question}",
  "not-again-until": "failed; it is retried after {until}",
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

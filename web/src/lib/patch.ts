// Putting the parts of a patch in the place of the old ones. Nothing is derived here: what a team is, the server says.

import type { Message, Patch, TaskRow, TeamView, Worker } from "../api";

/** As many messages as a view has. */
const RING = 50;

/** The view after a patch. Rows that did not change stay the same objects, so that nothing is drawn again for them. */
export function patched(view: TeamView, patch: Patch): TeamView {
  return {
    ...view,
    seq: patch.seq,
    at: patch.at ?? view.at,
    state: patch.state ?? view.state,
    progress: patch.progress ?? view.progress,
    history: patch.history ?? view.history,
    workers: workersAfter(view.workers, patch),
    workerCount: patch.workerCount ?? view.workerCount,
    tasks: tasksAfter(view.tasks, patch),
    criticalPath: patch.criticalPath ?? view.criticalPath,
    messages: messagesAfter(view.messages, patch.messages ?? []),
    messageCount: patch.messageCount ?? view.messageCount,
    run: patch.run ?? view.run,
    approval: patch.approval ?? view.approval,
    verifications: patch.verifications ?? view.verifications,
    merges: patch.merges ?? view.merges,
    proposal: patch.proposal ?? view.proposal,
    questions: patch.questions ?? view.questions,
    wakes: patch.wakes ?? view.wakes,
    reviews: patch.reviews ?? view.reviews,
    findings: patch.findings ?? view.findings,
    choice: patch.choice ?? view.choice,
    cost: patch.cost ?? view.cost,
    problems: patch.problems ?? view.problems,
    problemCount: patch.problemCount ?? view.problemCount,
  };
}

function workersAfter(before: Worker[], patch: Patch): Worker[] {
  const changed = patch.workers ?? [];
  if (changed.length === 0 && !patch.workerNames) return before;
  const rows = new Map(before.map((worker) => [worker.name, worker]));
  for (const worker of changed) rows.set(worker.name, worker);
  const names = patch.workerNames ?? [...rows.keys()];
  return names.flatMap((name) => rows.get(name) ?? []);
}

/** Task ids are numbers as text, of up to 20 digits: longer is larger. */
export function compareIds(a: string, b: string): number {
  return a.length - b.length || (a < b ? -1 : a > b ? 1 : 0);
}

function tasksAfter(before: TaskRow[], patch: Patch): TaskRow[] {
  const changed = patch.tasks ?? [];
  const removed = patch.removedTasks ?? [];
  if (changed.length === 0 && removed.length === 0) return before;
  const news = new Map(changed.map((task) => [task.id, task]));
  const gone = new Set(removed);
  const rows = before
    .filter((task) => !gone.has(task.id) || news.has(task.id))
    .map((task) => {
      const now = news.get(task.id);
      news.delete(task.id);
      return now ?? task;
    });
  if (news.size === 0) return rows;
  return [...rows, ...news.values()].sort((a, b) => compareIds(a.id, b.id));
}

function messagesAfter(before: Message[], news: Message[]): Message[] {
  if (news.length === 0) return before;
  const known = new Set(before.map(messageKey));
  const rows = [...before, ...news.filter((message) => !known.has(messageKey(message)))];
  return rows.slice(-RING);
}

/** What tells two messages apart. One message to several people is one event each, and has one id each. */
export function messageKey(message: Message): string {
  return `${message.seq}/${message.id}/${message.sentAt}/${message.from}/${message.to}`;
}

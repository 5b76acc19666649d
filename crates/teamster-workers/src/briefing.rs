//! The briefing: the prompt that an agent gets for its task, and the sources of its facts.
//!
//! ```text
//! store (task, those it waited for, who works on what) ─┐
//! journal (checks, merges, earlier attempts) ───────────┼─▶ facts ─▶ template ─▶ prompt
//! workplace (patches of a conflict and of attempts) ────┘
//! ```
//!
//! The facts are gathered at the moment of the claim, so that they are current for each worker. Facts that cannot be read
//! are left out: a shorter briefing is better than a task that is never started.

use std::path::Path;

use teamster_agents::Client;
use teamster_fs::{Dir, Durability};
use teamster_isolate::OrTrace as _;
use teamster_journal::payload::{Approve, CheckVerdict, Checked, Member, ReviewFinding, RunSpec};
use teamster_journal::{MergeStanding, RunState, SpanEnd, TeamState};
use teamster_prompts::facts::{
    Answer, CheckState, Checks, ConflictFacts, ConflictPrompt, DoneTask, EarlierAttempt, FixFacts,
    FixPrompt, Mail, OtherWorker, Place, Reach, Said, Situation, TaskFacts, WorkerPrompt, You,
};
use teamster_prompts::{Prompt, PromptError, Prompts, Rendered};
use teamster_store::Store;
use teamster_types::failure::Failure;
use teamster_types::ids::RESERVED_WORKERS;
use teamster_types::message::Message;
use teamster_types::task::{Status, Task, TaskConflict, TaskFix};
use teamster_types::text::{clip, quoted};
use teamster_types::time::say_span;
use teamster_types::{TaskId, TeamName, WorkerName};

use crate::workplace::{Workplace, WorkplaceError};

/// The number of events that are read at once.
const PAGE: usize = 1_000;
/// The most characters that a briefing adds around a message, including its sender's name.
const AROUND_A_MESSAGE: usize = 100;
/// The most files of one task that are named.
const NAMED_FILES: usize = 40;
/// The most other workers that are named.
const NAMED_OTHERS: usize = 20;
/// The most tasks that a briefing lists for a fixer or a resolver; the latest ones are kept.
const NAMED_TASKS: usize = 20;
/// The most characters of a diff that the briefing itself shows; the whole diff is in a file.
const SHOWN_DIFF: usize = 6_000;
/// The largest patch that is written, in bytes.
const LARGEST_PATCH: usize = 16 * 1024 * 1024;
/// The most remarks of one kind about an earlier attempt.
const MOST_REMARKS: usize = 10;
/// The most characters of one remark.
const SHOWN_REMARK: usize = 1_000;
/// A stand-in for a sender name that no member of a team can have.
const SOMEBODY: &str = "somebody";
/// The file with the work that is to be merged.
const INCOMING_PATCH: &str = "incoming.patch";
/// The file with the changes that were merged into the same files in the meantime.
const MERGED_PATCH: &str = "merged.patch";
/// The file with the changes of an earlier attempt.
const EARLIER_PATCH: &str = "earlier.patch";

/// Makes the briefings of one worker.
pub(crate) struct Briefer {
    team: TeamName,
    worker: WorkerName,
    prompts: Prompts,
    reach: Reach,
    /// The longest briefing, in characters.
    limit: usize,
    /// The team's state from the journal; `seen` is the position up to which the journal was read.
    state: TeamState,
    seen: u64,
}

/// What a briefing is about.
pub(crate) struct BriefingInput<'a> {
    /// The task that was claimed.
    pub(crate) task: &'a Task,
    /// Mail for the agent.
    pub(crate) mail: &'a [Message],
    /// How the task failed so far.
    pub(crate) failure: Option<&'a Failure>,
    /// Where the agent works.
    pub(crate) workplace: &'a dyn Workplace,
    /// A folder for patches that the agent can read and that is removed with the attempt.
    pub(crate) temp: Option<&'a Path>,
    /// Whether the same attempt continues after its provider was unavailable.
    pub(crate) is_continued: bool,
}

impl Briefer {
    /// Creates the briefer of a worker.
    pub(crate) fn new(
        team: TeamName,
        worker: WorkerName,
        prompts: Prompts,
        reach: Reach,
        limit: usize,
    ) -> Self {
        Self {
            team,
            worker,
            prompts,
            reach,
            limit,
            state: TeamState::default(),
            seen: 0,
        }
    }

    /// Returns the prompt for a task.
    pub(crate) fn brief(
        &mut self,
        store: &dyn Store,
        input: &BriefingInput<'_>,
    ) -> Result<Rendered, PromptError> {
        let spec = run_of(store, &self.team);
        let task = input.task;
        let is_first = task.fence() <= 1;
        // Reading a long journal takes a moment, and a first attempt outside of a run needs nothing from it.
        if spec.is_some() || !is_first || task.fix().is_some() || task.conflict().is_some() {
            self.follow(store);
        }
        let tasks = TaskLookup {
            store,
            team: &self.team,
        };
        let situation = self.situation(spec.as_ref(), &tasks, input);
        if let Some(conflict) = task.conflict() {
            let facts = ConflictPrompt {
                conflict: self.conflict(&conflict, &tasks, input),
                task: task_facts(task),
                situation,
            };
            return self.render(&facts);
        }
        if let Some(fix) = task.fix() {
            let facts = FixPrompt {
                fix: self.fix(fix, spec.as_ref(), &tasks),
                task: task_facts(task),
                situation,
            };
            return self.render(&facts);
        }
        let facts = WorkerPrompt {
            builds_on: tasks.done(task.blocked_by().iter()),
            task: task_facts(task),
            situation,
        };
        self.render(&facts)
    }

    fn render<P: Prompt>(&self, facts: &P) -> Result<Rendered, PromptError> {
        self.prompts.render(facts, self.limit)
    }

    /// Reads the events that were recorded since the last briefing.
    fn follow(&mut self, store: &dyn Store) {
        while let Some(page) = store
            .events(&self.team, self.seen + 1, PAGE)
            .ok_or_trace("read the journal for a briefing")
        {
            for event in &page.events {
                self.seen = event.seq;
                self.state.apply(event, &event.payload());
            }
            if page.events.len() < PAGE {
                return;
            }
        }
    }

    /// Returns the tasks that other workers hold at this moment, from the journal if it was read, else from their heartbeats.
    fn held_by_others(&self, tasks: &TaskLookup<'_>) -> Vec<TaskId> {
        if self.seen > 0 {
            let workers = self.state.workers.values();
            return workers.filter_map(|worker| worker.holds.clone()).collect();
        }
        let beats = tasks
            .store
            .heartbeats(&self.team)
            .ok_or_trace("read the heartbeats for a briefing");
        let beats = beats.map(|(beats, _)| beats).unwrap_or_default();
        beats
            .into_iter()
            .filter_map(|beat| beat.current_task_id)
            .collect()
    }

    fn situation(
        &self,
        spec: Option<&RunSpec>,
        tasks: &TaskLookup<'_>,
        input: &BriefingInput<'_>,
    ) -> Situation {
        let task = input.task;
        let member = spec.and_then(|spec| {
            let mut members = spec.members.iter();
            members.find(|member| member.name == self.worker)
        });
        let mut held = self.held_by_others(tasks);
        held.retain(|id| id != task.id());
        held.sort_unstable();
        held.dedup();
        let more_others = held.len().saturating_sub(NAMED_OTHERS);
        held.truncate(NAMED_OTHERS);
        let others = held
            .iter()
            .filter_map(|id| tasks.find(id))
            .filter(|other| other.status() == Status::InProgress)
            .filter(|other| other.owner() != Some(self.worker.as_str()))
            .map(|other| other_worker(&other));
        Situation {
            you: you(&self.team, &self.worker, member),
            goal: spec.and_then(|spec| goal(spec, task)),
            others: others.collect(),
            more_others,
            earlier: self.earlier(input).or_else(|| earlier_round(task, tasks)),
            answers: answers(task),
            messages: input.mail.iter().map(mail).collect(),
            checks: checks(spec, &self.state.run.base, &task.verify()),
            reach: self.reach.clone(),
            place: Place {
                is_shared: input.workplace.is_shared(),
            },
        }
    }

    /// Returns how the last attempt ended, as far as its work is concerned. Why a worker was declared dead does not help the
    /// next one.
    fn earlier(&self, input: &BriefingInput<'_>) -> Option<EarlierAttempt> {
        let task = input.task;
        if input.is_continued {
            return Some(continued(input));
        }
        let tries = task.fence().saturating_sub(1);
        if tries == 0 {
            return None;
        }
        let mut spans: Vec<_> = (self.state.workers.iter())
            .flat_map(|(name, worker)| worker.spans.iter().map(move |span| (name, span)))
            .filter(|(_, span)| span.task_id == *task.id() && span.end != SpanEnd::Open)
            .collect();
        spans.sort_by_key(|(_, span)| span.seq);
        let last_failure = spans
            .iter()
            .rev()
            .find(|(_, span)| matches!(span.end, SpanEnd::Failed | SpanEnd::Requeued));
        let is_told = last_failure.is_none_or(|(_, span)| span.end == SpanEnd::Failed);
        let reason = input.failure.filter(|_| is_told);
        let reason = reason.map(|failure| failure.last_error.clone());
        let kept = input
            .workplace
            .last_attempt(task.id())
            .ok_or_trace("look for what an earlier attempt changed")
            .flatten();
        let patch = kept.as_ref().and_then(|kept| {
            let made = input.workplace.patch_of(&kept.commit, &[]);
            let patch = made.ok_or_trace("make the patch of an earlier attempt")?;
            write_patch(input.temp, EARLIER_PATCH, &patch)
        });
        let how = match spans.last() {
            Some((name, span)) => {
                let time = span.to.map_or_else(String::new, |to| {
                    format!(" after {}", say_span(to.since(span.from)))
                });
                let name = name.parse::<WorkerName>();
                let name = name.map_or_else(|_| SOMEBODY.to_owned(), |name| name.to_string());
                format!("{} {name} {}{time}.", times(tries), ended(span.end))
            }
            None => times(tries),
        };
        Some(EarlierAttempt {
            how,
            reason: reason.unwrap_or_default(),
            files: kept
                .iter()
                .flat_map(|kept| kept.files.iter().take(NAMED_FILES).cloned())
                .collect(),
            kept: kept.map(|kept| kept.name),
            patch,
            is_lost: !input.workplace.is_shared(),
            remarks: remarks(&self.state.run, task),
        })
    }

    /// Returns what is known about the check that a task is to fix.
    fn fix(&self, fix: TaskFix, spec: Option<&RunSpec>, tasks: &TaskLookup<'_>) -> FixFacts {
        let run = &self.state.run;
        let mut checks = run.checks.iter();
        let checked = checks.find(|checked| checked.command == fix.command);
        let last_pass = (run.history.checks.iter().rev())
            .find(|check| {
                check.result.command == fix.command && check.verdict == Some(CheckVerdict::Passed)
            })
            .map_or(0, |check| check.seq);
        let merged = (run.history.merges.iter())
            .filter(|merge| merge.standing == MergeStanding::Merged && merge.seq > last_pass)
            .filter_map(|merge| merge.task.as_ref());
        let others = spec.map(|spec| spec.verify.as_slice()).unwrap_or_default();
        let others = others.iter().filter(|check| check.command != fix.command);
        FixFacts {
            how: checked.map_or_else(
                || match fix.exit_code {
                    Some(code) => format!("with exit code {code}"),
                    None => "it did not pass".to_owned(),
                },
                how_it_ended,
            ),
            was_failing: fix.is_target,
            output: checked.map_or_else(String::new, |checked| checked.last.clone()),
            merged: tasks.done(last_of(merged)),
            other_checks: others
                .map(|check| {
                    let now = run.checks.iter().find(|now| now.command == check.command);
                    let before = run.base.iter().find(|base| base.command == check.command);
                    CheckState {
                        command: check.command.clone(),
                        state: state_of(now, before).to_owned(),
                        output: String::new(),
                    }
                })
                .collect(),
            command: fix.command,
        }
    }

    /// Returns what each side of a conflict intended.
    fn conflict(
        &self,
        conflict: &TaskConflict,
        tasks: &TaskLookup<'_>,
        input: &BriefingInput<'_>,
    ) -> ConflictFacts {
        let history = &self.state.run.history.merges;
        // In a chain of resolutions, the task at the root states the intent, and the last task holds the work.
        let root = input.task.resolves();
        let root = root.as_ref().and_then(|root| tasks.find(root));
        let source = (history.iter())
            .filter(|merge| merge.commit == conflict.commit)
            .filter_map(|merge| tasks.find(merge.task.as_ref()?))
            .find(|task| task.commit() == Some(conflict.commit.as_str()));
        let mut incoming = source
            .as_ref()
            .or(root.as_ref())
            .map_or_else(DoneTask::default, done_task);
        if let Some(root) = &root {
            incoming.id = root.id().to_string();
            root.subject().clone_into(&mut incoming.subject);
        }
        let merged: Vec<Task> = last_of((history.iter()).filter_map(|merge| {
            let is_merged = merge.standing == MergeStanding::Merged;
            merge.task.as_ref().filter(|_| is_merged)
        }))
        .filter_map(|id| tasks.find(id))
        .filter(|task| {
            let files = task.result().map(|result| result.files);
            let files = files.unwrap_or_default();
            files.iter().any(|file| conflict.files.contains(file))
        })
        .collect();
        let (commit, files) = (conflict.commit.as_str(), conflict.files.as_slice());
        let made = |patch: Result<Vec<u8>, WorkplaceError>| {
            let patch = patch.ok_or_trace("make the patch of a conflict");
            patch.unwrap_or_default()
        };
        let whole = made(input.workplace.patch_of(commit, &[]));
        let incoming_diff = made(input.workplace.patch_of(commit, files));
        let others = made(input.workplace.merged_beside(commit, files));
        ConflictFacts {
            files: conflict.files.clone(),
            incoming,
            incoming_description: root
                .map_or_else(String::new, |task| task.description().to_owned()),
            incoming_commit: Some(conflict.commit.clone()).filter(|commit| !commit.is_empty()),
            incoming_patch: write_patch(input.temp, INCOMING_PATCH, &whole),
            incoming_diff: diff_text(&incoming_diff),
            merged: merged.iter().map(done_task).collect(),
            merged_patch: write_patch(input.temp, MERGED_PATCH, &others),
            merged_diff: diff_text(&others),
            failed_before: conflict.failed_before.clone(),
        }
    }
}

/// Returns the findings of the last review and the failed checks that concern this task's merged work.
fn remarks(run: &RunState, task: &Task) -> Vec<Said> {
    let result = task.result().unwrap_or_default();
    if result.commit.is_none() {
        return Vec::new();
    }
    let mut remarks = Vec::new();
    if let Some(review) = run.last_review() {
        let is_in_it = |finding: &&ReviewFinding| {
            let path = finding.path.as_ref();
            path.is_some_and(|path| result.files.contains(path))
        };
        let findings = review.findings.iter().filter(is_in_it);
        remarks.extend(findings.take(MOST_REMARKS).map(|finding| Said {
            from: sender(&review.reviewer).to_owned(),
            text: format!(
                "{}, {}: {}",
                finding.severity.as_str(),
                finding.place(),
                clip(&finding.claim, SHOWN_REMARK)
            ),
        }));
    }
    let fails = run.checks.iter().filter(|checked| {
        let before = run.base.iter().find(|it| it.command == checked.command);
        checked.verdict.is_failure() && !before.is_some_and(|it| it.verdict.is_failure())
    });
    remarks.extend(fails.take(MOST_REMARKS).map(|checked| Said {
        from: "A check of the merged work".to_owned(),
        text: format!("{}\n\n{}", checked.command, last_part(&checked.last)),
    }));
    remarks
}

/// Returns the end of a check's output, which is its most informative part.
fn last_part(text: &str) -> String {
    let length = text.chars().count();
    let from = length.saturating_sub(SHOWN_REMARK);
    text.chars().skip(from).collect()
}

/// Returns the note for an agent that continues after its provider was unavailable: its changes are still in its folder.
fn continued(input: &BriefingInput<'_>) -> EarlierAttempt {
    let changes = input.workplace.changes();
    let changes = changes.ok_or_trace("look for what was changed before the wait");
    let changes: Vec<String> = (changes.unwrap_or_default().iter())
        .map(|path| path.display().to_string())
        .collect();
    let files = match changes.as_slice() {
        [] => "Nothing was changed by then.".to_owned(),
        first if first.len() > NAMED_FILES => format!(
            "What was changed by then is in this folder: {} and {} more files.",
            first[..NAMED_FILES].join(", "),
            first.len() - NAMED_FILES
        ),
        all => format!(
            "What was changed by then is in this folder: {}.",
            all.join(", ")
        ),
    };
    EarlierAttempt {
        how: format!(
            "You were at work on this task until your model could not be reached any more. Go on from there. {files}"
        ),
        ..EarlierAttempt::default()
    }
}

/// Returns the earlier fix rounds with the same goal: the same failing check, or another round of review findings.
fn earlier_round(task: &Task, tasks: &TaskLookup<'_>) -> Option<EarlierAttempt> {
    let (round, revision) = match (task.fix(), task.review()) {
        (Some(fix), _) => (fix.round, fix.revision),
        (None, Some(review)) => (review.round, review.revision),
        (None, None) => return None,
    };
    if round <= 1 {
        return None;
    }
    let all = tasks.store.tasks(tasks.team);
    let all = all.ok_or_trace("read the tasks of an earlier round")?.tasks;
    let is_before = |other: &&Task| match (task.fix(), other.fix(), other.review()) {
        (Some(fix), Some(other), _) => {
            other.command == fix.command && other.revision == revision && other.round < round
        }
        (None, None, Some(other)) => other.revision == revision && other.round < round,
        _ => false,
    };
    let mut before: Vec<&Task> = all.iter().filter(is_before).collect();
    let over = before.len().saturating_sub(MOST_REMARKS);
    before.drain(..over);
    let last = before.last()?;
    let names: Vec<&str> = before.iter().map(|task| task.id().as_str()).collect();
    let what = if task.fix().is_some() {
        "was to mend this"
    } else {
        "was to settle what a review found"
    };
    let came = if last.is_failed() {
        "and failed"
    } else {
        "and what came of it is in this folder"
    };
    let how = match names.as_slice() {
        [one] => format!("Task {one} {what} before, {came}."),
        more => format!(
            "Tasks {} were made before for the same; the last one {what}, {came}.",
            more.join(", ")
        ),
    };
    let remarks = before.iter().filter_map(|task| {
        let summary = task.result()?.summary?;
        let from = task.owner().map_or(SOMEBODY, sender);
        Some(Said {
            from: format!("{from}, who had task {},", task.id()),
            text: clip(&summary, SHOWN_REMARK),
        })
    });
    Some(EarlierAttempt {
        how,
        reason: last.error().unwrap_or_default().to_owned(),
        remarks: remarks.collect(),
        ..EarlierAttempt::default()
    })
}

/// Returns how many of the messages fit into one briefing; the rest wait for the next one instead of being cut. A first
/// message that is too long by itself is included and shortened.
pub(crate) fn mail_that_fits(mail: &[Message], limit: usize) -> usize {
    let mut room = limit / 2;
    let mut count = 0;
    for message in mail {
        let length = quoted(message.content()).chars().count() + AROUND_A_MESSAGE;
        if count > 0 && length > room {
            break;
        }
        room = room.saturating_sub(length);
        count += 1;
    }
    count
}

/// Returns how the workers of a provider reach other members of the team. `teamster` is the path of teamster's own program.
pub fn reach(provider: &str, teamster: &Path) -> Reach {
    Reach {
        tools: Client::find(provider).map(|client| client.tool_prefix.to_owned()),
        command: Some(shell_word(&teamster.to_string_lossy())),
    }
}

/// Returns a path quoted as a single shell word.
fn shell_word(path: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./+@".contains(c);
    if path.chars().all(is_plain) {
        path.to_owned()
    } else {
        format!("'{}'", path.replace('\'', r"'\''"))
    }
}

/// Returns the identity of the worker that the briefing addresses.
fn you(team: &TeamName, worker: &WorkerName, member: Option<&Member>) -> You {
    You {
        name: worker.to_string(),
        team: team.to_string(),
        role: member.and_then(|member| member.role.clone()),
        meaning: member.map_or_else(String::new, |member| member.prompt.trim().to_owned()),
    }
}

/// Returns what the person asked the team for, unless the task says the same.
pub fn goal(spec: &RunSpec, task: &Task) -> Option<String> {
    let goal = spec.task.trim();
    let is_said = goal == task.subject().trim() || goal == task.description().trim();
    (!goal.is_empty() && !is_said).then(|| goal.to_owned())
}

/// Returns the facts of a task for its worker.
pub fn task_facts(task: &Task) -> TaskFacts {
    // A one-sentence task has the same text as its subject and its description.
    let (subject, description) = (task.subject(), task.description());
    let is_same = subject.trim() == description.trim();
    TaskFacts {
        id: task.id().to_string(),
        subject: subject.to_owned(),
        description: if is_same {
            String::new()
        } else {
            description.to_owned()
        },
        accept: task.accept(),
        paths: task.paths(),
    }
}

/// Returns the commands that judge a task: its own, and those of the run, grouped by their result in `before`.
pub fn checks(spec: Option<&RunSpec>, before: &[Checked], proofs: &[String]) -> Checks {
    let mut checks = Checks {
        proofs: proofs.to_vec(),
        has_gate: spec.is_some_and(|spec| spec.approve != Approve::Auto),
        ..Checks::default()
    };
    for check in spec.iter().flat_map(|spec| &spec.verify) {
        let base = before.iter().find(|base| base.command == check.command);
        let is_failing = base.is_some_and(|base| base.verdict.is_failure());
        let list = match (is_failing, check.is_target) {
            (false, _) => &mut checks.passing,
            (true, true) => &mut checks.targets,
            (true, false) => &mut checks.failing,
        };
        list.push(check.command.clone());
    }
    checks
}

/// Returns the summary of a finished task for a worker that builds on it.
pub fn done_task(task: &Task) -> DoneTask {
    let result = task.result().unwrap_or_default();
    let count = result.file_count.max(result.files.len());
    let files: Vec<String> = result.files.into_iter().take(NAMED_FILES).collect();
    DoneTask {
        id: task.id().to_string(),
        worker: task
            .owner()
            .filter(|owner| owner.parse::<WorkerName>().is_ok())
            .map(str::to_owned),
        subject: task.subject().to_owned(),
        summary: result.summary.unwrap_or_default(),
        handover: result.handover.unwrap_or_default(),
        problems: result.problems,
        more_files: count - files.len(),
        files,
        no_change: task.is_unchanged(),
    }
}

/// Finds tasks one by one: a team can have thousands, and a briefing needs few.
struct TaskLookup<'a> {
    store: &'a dyn Store,
    team: &'a TeamName,
}

impl TaskLookup<'_> {
    fn find(&self, id: &TaskId) -> Option<Task> {
        self.store
            .task(self.team, id)
            .ok_or_trace("read a task for a briefing")
    }

    fn done<'t>(&self, ids: impl Iterator<Item = &'t TaskId>) -> Vec<DoneTask> {
        ids.filter_map(|id| self.find(id))
            .map(|task| done_task(&task))
            .collect()
    }
}

/// Returns the last of these tasks, in their order.
fn last_of<'t>(ids: impl Iterator<Item = &'t TaskId>) -> impl Iterator<Item = &'t TaskId> {
    let mut ids: Vec<&TaskId> = ids.collect();
    let over = ids.len().saturating_sub(NAMED_TASKS);
    ids.drain(..over);
    ids.into_iter()
}

fn run_of(store: &dyn Store, team: &TeamName) -> Option<RunSpec> {
    let config = store
        .team(team)
        .ok_or_trace("read the team for a briefing")?;
    let spec = RunSpec::strict(config.run()?);
    spec.inspect_err(|error| tracing::debug!("the order of the run cannot be read: {error}"))
        .ok()
        .filter(|spec| !spec.collects)
}

fn other_worker(task: &Task) -> OtherWorker {
    let owner = task
        .owner()
        .filter(|owner| owner.parse::<WorkerName>().is_ok());
    OtherWorker {
        worker: owner.unwrap_or(SOMEBODY).to_owned(),
        task: task.id().to_string(),
        subject: task.subject().to_owned(),
        paths: task.paths(),
    }
}

fn answers(task: &Task) -> Vec<Answer> {
    let answers = task.block_answers().into_iter();
    answers
        .map(|answer| Answer {
            question: answer.reason,
            from: sender(&answer.by).to_owned(),
            text: answer.answer,
        })
        .collect()
}

fn mail(message: &Message) -> Mail {
    Mail {
        from: sender(message.from()).to_owned(),
        text: message.content().to_owned(),
    }
}

/// Returns the name of a sender. A name that no member of a team can have is replaced, because it may hold any text.
fn sender(from: &str) -> &str {
    let is_name = from.parse::<WorkerName>().is_ok() || RESERVED_WORKERS.contains(&from);
    if is_name { from } else { "an unknown sender" }
}

fn times(tries: u64) -> String {
    match tries {
        1 => "This task was tried once before.".to_owned(),
        more => format!("This task was tried {more} times before."),
    }
}

/// Returns how an attempt ended, as a phrase that continues a sentence about its worker.
fn ended(end: SpanEnd) -> &'static str {
    match end {
        SpanEnd::Open | SpanEnd::Released => "did not finish it and gave it back",
        SpanEnd::Completed => "completed it, and it was opened again,",
        SpanEnd::Failed => "failed",
        SpanEnd::Requeued => "stopped in the middle of it",
    }
}

fn how_it_ended(checked: &Checked) -> String {
    match (checked.exit_code, checked.signal) {
        _ if checked.verdict == CheckVerdict::TimedOut => "it did not end in time".to_owned(),
        (Some(code), _) => format!("with exit code {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => checked.verdict.words().to_owned(),
    }
}

/// Returns the status of a check, as a phrase that continues a sentence.
fn state_of(now: Option<&Checked>, before: Option<&Checked>) -> &'static str {
    let verdict = |checked: Option<&Checked>| checked.map(|checked| checked.verdict);
    let failed_before = verdict(before).is_some_and(CheckVerdict::is_failure);
    match verdict(now) {
        None | Some(CheckVerdict::Stopped) => "was not run on it yet",
        Some(CheckVerdict::Passed) => "passes",
        Some(CheckVerdict::Flaky) => "passes sometimes and fails sometimes",
        Some(_) if failed_before => "fails, as it did before the team began",
        Some(_) => "fails, too",
    }
}

fn diff_text(bytes: &[u8]) -> String {
    clip(&String::from_utf8_lossy(bytes), SHOWN_DIFF)
}

/// Writes a patch for the agent; returns its path, or `None` when the patch is empty or cannot be written.
fn write_patch(folder: Option<&Path>, name: &str, patch: &[u8]) -> Option<String> {
    if patch.is_empty() || patch.len() > LARGEST_PATCH {
        return None;
    }
    let dir = Dir::open_root(folder?).ok_or_trace("open the folder for a patch")??;
    dir.replace(name, patch, Durability::Fast)
        .ok_or_trace("write a patch for the agent")?;
    Some(dir.join(name).to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests;

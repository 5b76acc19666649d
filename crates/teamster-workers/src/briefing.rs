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

mod earlier_attempts;

use std::path::Path;

use teamster_agents::Client;
use teamster_fs::{Dir, Durability};
use teamster_isolate::OrTrace as _;
use teamster_journal::payload::{Approve, CheckVerdict, Checked, Member, RunSpec};
use teamster_journal::{MergeStanding, TeamState};
use teamster_prompts::facts::{
    AnswerFacts, ChannelFacts, CheckFacts, CheckState, CommonFacts, ConflictFacts, ConflictPrompt,
    DoneTask, FixFacts, FixPrompt, MailFacts, OtherWorker, RecipientFacts, TaskFacts, WorkerPrompt,
    WorkplaceFacts,
};
use teamster_prompts::{Prompt, PromptError, Prompts, Rendered};
use teamster_store::Store;
use teamster_types::failure::Failure;
use teamster_types::message::Message;
use teamster_types::shell;
use teamster_types::task::{Status, Task, TaskConflict, TaskFix};
use teamster_types::text::{clip, quoted};
use teamster_types::{TaskId, TeamName, WorkerName};

use crate::mail_text::sender;
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
/// A stand-in for a sender name that no member of a team can have.
const SOMEBODY: &str = "somebody";
/// The file with the work that is to be merged.
const INCOMING_PATCH: &str = "incoming.patch";
/// The file with the changes that were merged into the same files in the meantime.
const MERGED_PATCH: &str = "merged.patch";

/// Makes the briefings of one worker.
pub(crate) struct Briefer {
    team: TeamName,
    worker: WorkerName,
    prompts: Prompts,
    reach: ChannelFacts,
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
        reach: ChannelFacts,
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
    ) -> CommonFacts {
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
        CommonFacts {
            you: recipient_facts(&self.team, &self.worker, member),
            goal: spec.and_then(|spec| goal(spec, task)),
            others: others.collect(),
            more_others,
            earlier: earlier_attempts::of_task(&self.state, tasks, input),
            answers: answers(task),
            messages: input.mail.iter().map(mail_facts).collect(),
            checks: checks(spec, &self.state.run.base, &task.verify()),
            reach: self.reach.clone(),
            place: WorkplaceFacts {
                is_shared: input.workplace.is_shared(),
            },
        }
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
                        state: check_phrase(now, before).to_owned(),
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
        let others = made(input.workplace.patch_since_fork(commit, files));
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
pub fn channel_facts(provider: &str, teamster: &Path) -> ChannelFacts {
    ChannelFacts {
        tools: Client::find(provider).map(|client| client.tool_prefix.to_owned()),
        command: Some(shell::word(&teamster.to_string_lossy())),
    }
}

/// Returns the identity of the worker that the briefing addresses.
fn recipient_facts(
    team: &TeamName,
    worker: &WorkerName,
    member: Option<&Member>,
) -> RecipientFacts {
    RecipientFacts {
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
pub fn checks(spec: Option<&RunSpec>, before: &[Checked], proofs: &[String]) -> CheckFacts {
    let mut checks = CheckFacts {
        proofs: proofs.to_vec(),
        has_gate: spec.is_some_and(|spec| spec.approve != Approve::Auto),
        ..CheckFacts::default()
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

fn answers(task: &Task) -> Vec<AnswerFacts> {
    let answers = task.block_answers().into_iter();
    answers
        .map(|answer| AnswerFacts {
            question: answer.reason,
            from: sender(&answer.by).to_owned(),
            text: answer.answer,
        })
        .collect()
}

fn mail_facts(message: &Message) -> MailFacts {
    MailFacts {
        from: sender(message.from()).to_owned(),
        text: message.content().to_owned(),
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
fn check_phrase(now: Option<&Checked>, before: Option<&Checked>) -> &'static str {
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

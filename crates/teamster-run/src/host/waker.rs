//! Wakes the leader for what needs a decision, and applies what it decides.
//!
//! ```text
//! tasks, messages, the gate ─▶ reasons ─▶ one turn ─▶ actions ─▶ one transaction with `leader.acted`
//!                                 │
//!                                 └─ no leader, or not this time ─▶ what the engine does by itself
//! ```
//!
//! What the leader was woken for is in the journal, so a reason is dealt with once, whoever hosts the run. A host that is
//! killed before the transaction leaves its reasons as they were, and the next one wakes the leader again; one that is
//! killed after it has nothing left to do.

use std::collections::BTreeSet;

use teamster_document::Fault;
use teamster_journal::payload::{
    Addressee, Approve, CancelledTask, LeaderActed, LeaderFailed, LeaderWoken, QuestionAnswered,
    QuestionForwarded, QuestionId, WakeKind, WakeReason,
};
use teamster_journal::{EventActor, EventKind, HOST, NewEvent, Question};
use teamster_prompts::facts::{MemberFacts, Said, TaskState, WakeLimits, WakePrompt};
use teamster_store::{Kind, StoreError};
use teamster_types::TaskId;
use teamster_types::task::{MergeMark, Status, Task};
use teamster_types::text::{clip, one_line};

use super::context::RunContext;
use super::digest::digest;
use super::integration_guard::IntegrationGuard;
use super::leader_turn::{self, TurnError};
use super::planner::with_merge_note;
use super::task_progress::{hopeless, open, waits_for_merge};
use super::{Result, RunError};
use crate::leader::actions::{LeaderActions, LeaderReply, OpenQuestion, TeamFacts, schema};

/// How often the leader of a run is woken at most.
const MOST_WAKES: u32 = 20;
/// After so many wakes in a row that came to nothing it is not woken again.
const MOST_FAILURES: u32 = 3;
/// The leader may use one part of so many of each budget.
const SHARE: u32 = 4;
/// How often the leader is asked when the store refuses what it decided.
const TRIES: usize = 2;
/// The number of characters of one text that the leader is shown.
const WORDS: usize = 4_000;
/// The number of characters of a subject, and of what a member can do.
const LINE: usize = 160;

/// Decides when the leader is woken, and what happens without it.
#[derive(Debug, Default)]
pub(super) struct LeaderWaker {
    /// Blocked tasks that the person at the observer was told about.
    told: BTreeSet<WakeReason>,
}

/// A reason to wake the leader, with what it is told about it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wake {
    reason: WakeReason,
    /// Why it is asked, as the rest of a sentence.
    why: String,
    /// The words that it is about.
    said: Said,
}

impl Wake {
    fn new(reason: WakeReason, why: String, from: String, text: &str) -> Self {
        let text = clip(text, WORDS);
        Self {
            reason,
            why,
            said: Said { from, text },
        }
    }
}

impl LeaderWaker {
    /// Wakes the leader when something needs its decision, or does what happens without one. Returns whether something changed.
    pub(super) fn step(
        &mut self,
        run: &mut RunContext<'_>,
        guard: &IntegrationGuard,
        tasks: &[Task],
    ) -> Result<bool> {
        if run.must_stop() {
            return Ok(false);
        }
        if may_wake(run) {
            let mut wakes = of_tasks(run, tasks)?;
            wakes.extend(of_questions(run));
            wakes.extend(of_messages(run));
            wakes.retain(|wake| !is_handled(run, &wake.reason));
            if !wakes.is_empty() {
                wake(run, guard, &wakes)?;
                return Ok(true);
            }
        }
        self.go_on_without(run, tasks)
    }

    /// Asks a person about blocked tasks; gives them up where nobody is there to ask. Returns whether something changed.
    fn go_on_without(&mut self, run: &mut RunContext<'_>, tasks: &[Task]) -> Result<bool> {
        let can_ask = run.spec().approve == Approve::Ask && run.waits_for_answer();
        let mut changed = false;
        let unanswered: Vec<QuestionId> = for_leader(run).map(|question| question.id).collect();
        for question in unanswered {
            run.journal(forwarded(question, "no agent leads now"))?;
            changed = true;
        }
        for task in tasks {
            let Some(block) = task.block() else {
                continue;
            };
            if !can_ask {
                let why = format!("blocked: {}", block.reason);
                run.store().give_up(run.team(), HOST, task.id(), &why)?;
                changed = true;
            } else if self.told.insert(of_block(task.id(), block.at.as_millis())) {
                let text = format!(
                    "task {} waits for your answer: {}\n  teamster task answer {} \"…\" --team {}",
                    task.id(),
                    one_line(&block.reason),
                    task.id(),
                    run.team()
                );
                run.say(&text);
            }
        }
        if changed {
            run.read()?;
        } else if only_answers_help(tasks) {
            run.set_waiting(true);
        }
        Ok(changed)
    }
}

/// Wakes the leader for the words of a person at the gate. Returns whether it was woken now; it is not woken twice for the
/// same gate.
pub(super) fn wake_for_revision(
    run: &mut RunContext<'_>,
    guard: &IntegrationGuard,
    gate: &str,
    words: &str,
) -> Result<bool> {
    let reason = WakeReason::new(WakeKind::Revision, gate);
    if is_handled(run, &reason) || !may_wake(run) || run.must_stop() {
        return Ok(false);
    }
    let why = "the person at the gate wants something changed".to_owned();
    let wakes = [Wake::new(reason, why, "The person".to_owned(), words)];
    wake(run, guard, &wakes)?;
    Ok(true)
}

fn is_handled(run: &RunContext<'_>, reason: &WakeReason) -> bool {
    run.state().leader.handled.contains(reason)
}

/// Returns whether there is a leader, and it may be woken once more.
fn may_wake(run: &RunContext<'_>) -> bool {
    let leader = &run.state().leader;
    run.spec().leading_agent().is_some()
        && leader.wakes < MOST_WAKES
        && leader.failures < MOST_FAILURES
        && has_share(run)
        && run.exhausted().is_none()
}

/// Returns whether the leader has used less than its part of each budget.
#[allow(
    clippy::cast_precision_loss,
    reason = "a limit of tokens is far below what a float tells apart"
)]
fn has_share(run: &RunContext<'_>) -> bool {
    let (state, budget) = (run.state(), &run.spec().budget);
    let told = state
        .spent
        .reported_by_worker
        .get(EventActor::Leader.as_str());
    let spent = told.map(|told| told.cost).unwrap_or_default();
    let used = [
        (
            budget.tokens.map(|limit| limit as f64),
            spent.total().unwrap_or(0) as f64,
        ),
        (budget.usd, spent.money.unwrap_or_default().usd()),
        (budget.minutes, state.leader.thought.as_secs_f64() / 60.0),
    ];
    let is_left = |(limit, used): (Option<f64>, f64)| {
        limit.is_none_or(|limit| used * f64::from(SHARE) < limit)
    };
    used.into_iter().all(is_left)
}

/// Returns the reason that a blocked task is.
fn of_block(id: &TaskId, at: i64) -> WakeReason {
    WakeReason::new(WakeKind::Question, format!("{id}@{at}"))
}

/// Returns the id under which the leader answers the worker of a blocked task.
fn question_of(id: &TaskId) -> String {
    format!("task-{id}")
}

/// Returns what tasks need a decision: those that wait for an answer, and those that failed for good.
fn of_tasks(run: &RunContext<'_>, tasks: &[Task]) -> Result<Vec<Wake>> {
    let mut wakes = Vec::new();
    for task in tasks {
        let id = task.id();
        if let Some(block) = task.block() {
            wakes.push(Wake::new(
                of_block(id, block.at.as_millis()),
                format!("{} cannot go on with task {id} without an answer", block.by),
                format!(
                    "Question {} of {} about task {id}",
                    question_of(id),
                    block.by
                ),
                &block.reason,
            ));
        }
        // What a resolution came to is told with the task whose work it was to bring in.
        let is_of_many = matches!(
            task.merge_mark(),
            Some(MergeMark::Candidate | MergeMark::NotChosen)
        );
        if !task.is_failed() || task.resolves().is_some() || is_of_many {
            continue;
        }
        let failure = run.store().failure(run.team(), id)?;
        let at = failure
            .as_ref()
            .map_or(0, |failure| failure.last_failed_at.as_millis());
        let error = failure
            .map(|failure| failure.last_error)
            .unwrap_or_default();
        let mut conflicts = run.state().conflicts.iter();
        let (kind, why) = if conflicts.any(|(of, _)| of == id) {
            let why = format!("nobody could resolve the conflict of task {id}");
            (WakeKind::Conflict, why)
        } else {
            (WakeKind::Failure, format!("task {id} failed for good"))
        };
        let reason = WakeReason::new(kind, format!("{id}@{at}"));
        let from = format!("The last error of task {id}");
        wakes.push(Wake::new(reason, why, from, &error));
    }
    Ok(wakes)
}

/// Returns what workers ask the leader.
fn of_questions(run: &RunContext<'_>) -> Vec<Wake> {
    for_leader(run)
        .map(|question| {
            let (id, asker) = (question.id, &question.asked_by);
            let reason = WakeReason::new(WakeKind::Question, id.to_string());
            let about = match &question.task {
                Some(task) => format!(" about task {task}"),
                None => String::new(),
            };
            let (why, text) = match &question.proposal {
                Some(proposal) => (
                    format!("{asker} proposes a task"),
                    format!("{}\n\n{}", proposal.subject, proposal.description),
                ),
                None => (
                    format!("{asker} asks a question and waits for the answer"),
                    question.text.clone(),
                ),
            };
            let from = format!("Question {id} of {asker}{about}");
            Wake::new(reason, why, from, &text)
        })
        .collect()
}

/// Returns the open questions that the leader is to answer.
fn for_leader<'a>(run: &'a RunContext<'_>) -> impl Iterator<Item = &'a Question> {
    let open = run.state().questions.open();
    open.filter(|question| question.to == Addressee::Leader)
}

/// Returns what people wrote to the leader.
fn of_messages(run: &RunContext<'_>) -> Vec<Wake> {
    let messages = run.state().leader.messages.iter();
    messages
        .map(|(seq, text)| {
            let reason = WakeReason::new(WakeKind::Message, seq.to_string());
            let why = "the person wrote to you".to_owned();
            Wake::new(reason, why, "The person".to_owned(), text)
        })
        .collect()
}

/// Returns whether nothing can be done before somebody answers.
fn only_answers_help(tasks: &[Task]) -> bool {
    let still = open(tasks);
    let waits = |task: &&Task| {
        let is_before = |id: &TaskId| still.iter().any(|other| other.id() == id);
        task.status() == Status::Pending
            && (task.block().is_some() || task.blocked_by().iter().any(is_before))
    };
    still.iter().any(|task| task.block().is_some())
        && still.iter().all(waits)
        && !tasks.iter().any(waits_for_merge)
}

/// Lets the leader make one turn about these reasons, and applies what it decides.
fn wake(run: &mut RunContext<'_>, guard: &IntegrationGuard, wakes: &[Wake]) -> Result<()> {
    let mut refused: Option<String> = None;
    for _ in 0..TRIES {
        let number = run.state().leader.wakes + 1;
        if number > MOST_WAKES {
            break;
        }
        let decided = match turn(run, guard, number, wakes, refused.as_deref()) {
            Ok(decided) => decided,
            Err(TurnError::Host(error)) => return Err(error),
            // The next host asks again.
            Err(_) if run.must_stop() => return Ok(()),
            Err(TurnError::Leader(error)) => return fail(run, wakes, &error.cause()),
            Err(TurnError::NotTrusted(error)) => return fail(run, wakes, &error.to_string()),
        };
        match apply(run, guard, number, decided) {
            Ok(()) => return run.read(),
            // Somebody was faster, such as a worker that took a task that was to be cancelled.
            Err(error) if is_refusal(&error) => refused = Some(error.message),
            Err(error) => return Err(RunError::Store(error)),
        }
    }
    fail(run, wakes, &refused.unwrap_or_default())
}

fn is_refusal(error: &StoreError) -> bool {
    let kinds = [Kind::NotFound, Kind::Conflict, Kind::Refused];
    !error.busy && kinds.contains(&error.kind)
}

/// Records that a wake came to nothing, so that what happens without a leader happens.
fn fail(run: &mut RunContext<'_>, wakes: &[Wake], why: &str) -> Result<()> {
    if run.state().leader.open.is_empty() {
        // It did not even come to a turn.
        let woken = woken(run.state().leader.wakes + 1, wakes);
        run.journal(EventKind::LeaderWoken(LeaderWoken {
            launch: teamster_fs::random_hex(),
            ..woken
        }))?;
    }
    run.say(&format!("the leader decided nothing: {why}"));
    let wake = run.state().leader.wakes;
    let reason = why.to_owned();
    run.journal(EventKind::LeaderFailed(LeaderFailed { wake, reason }))
}

fn woken(wake: u32, wakes: &[Wake]) -> LeaderWoken {
    LeaderWoken {
        wake,
        reasons: wakes.iter().map(|wake| wake.reason.clone()).collect(),
        launch: String::new(),
    }
}

/// Asks the leader, and returns what it wants to be done.
fn turn(
    run: &mut RunContext<'_>,
    guard: &IntegrationGuard,
    number: u32,
    wakes: &[Wake],
    refused: Option<&str>,
) -> Result<LeaderActions, TurnError> {
    let prompts = run.env().trust.prompts()?;
    let tasks = run.tasks()?;
    let prompt = prompt(run, &tasks, number, wakes, refused)?;
    let members = run.spec().members.clone();
    let blocked = tasks.iter().filter(|task| task.block().is_some());
    let mut questions: Vec<OpenQuestion> = blocked
        .map(|task| OpenQuestion {
            id: question_of(task.id()),
            blocks: Some(task.id().clone()),
        })
        .collect();
    questions.extend(for_leader(run).map(|question| OpenQuestion {
        id: question.id.to_string(),
        blocks: None,
    }));
    let most = run.env().max_tasks;
    let facts = TeamFacts {
        tasks: &tasks,
        members: &members,
        questions: &questions,
        most_new: most.saturating_sub(run.state().added.len()),
    };
    let read = |said: &str| {
        LeaderActions::read(said, &facts).map_err(|faults| {
            let faults = faults.into_iter();
            faults.map(|fault| Fault::new(0, fault)).collect()
        })
    };
    leader_turn::wake(run, guard, woken(number, wakes), &prompts, &prompt, read)
}

/// Returns everything that the leader is told.
fn prompt(
    run: &RunContext<'_>,
    tasks: &[Task],
    number: u32,
    wakes: &[Wake],
    refused: Option<&str>,
) -> Result<WakePrompt> {
    let spec = run.spec();
    let mut reasons: Vec<&str> = wakes.iter().map(|wake| wake.why.as_str()).collect();
    reasons.dedup();
    let mut subject: Vec<Said> = wakes.iter().map(|wake| wake.said.clone()).collect();
    if let Some(refused) = refused {
        subject.push(Said {
            from: "Your last answer was refused when it was to be carried out".to_owned(),
            text: refused.to_owned(),
        });
    }
    let hopeless = hopeless(tasks);
    let tasks = tasks.iter().map(|task| TaskState {
        id: task.id().to_string(),
        state: state_of(task, hopeless.contains(task.id())).to_owned(),
        worker: task.owner().map(str::to_owned),
        subject: clip(task.subject(), LINE),
    });
    let members = spec.members.iter().map(|member| MemberFacts {
        name: member.name.to_string(),
        role: member.role.clone(),
        provider: member.provider.clone(),
        can: vec![clip(&member.can.join(", "), LINE)],
    });
    Ok(WakePrompt {
        team: run.team().to_string(),
        goal: spec.task.clone(),
        reason: reasons.join(", and "),
        subject,
        digest: digest(run, run.state().leader.knows_until + 1)?,
        tasks: tasks.collect(),
        members: members.collect(),
        limits: WakeLimits {
            wakes_left: usize::try_from(MOST_WAKES.saturating_sub(number)).ok(),
        },
        schema: format!("{:#}", schema()),
    })
}

/// Returns how a task stands, as the rest of a sentence.
fn state_of(task: &Task, is_hopeless: bool) -> &'static str {
    match task.status() {
        _ if task.is_failed() => "failed for good",
        _ if task.block().is_some() => "waits for an answer",
        Status::Pending if is_hopeless => "waits for one that will not be done",
        Status::InProgress => "is being worked on",
        Status::Completed if waits_for_merge(task) => "is done and not merged",
        Status::Completed => "is done",
        Status::Pending if !task.blocked_by().is_empty() => "waits for others",
        Status::Pending => "is to be done",
    }
}

/// Returns the event that a person is to answer a question now.
fn forwarded(question: QuestionId, why: &str) -> EventKind {
    EventKind::QuestionForwarded(QuestionForwarded {
        question,
        to: Addressee::Person,
        reason: why.to_owned(),
    })
}

/// Does everything that the leader decided, together with the event that says so.
fn apply(
    run: &RunContext<'_>,
    guard: &IntegrationGuard,
    wake: u32,
    decided: LeaderActions,
) -> std::result::Result<(), StoreError> {
    let mut changes = decided.changes;
    changes.create = with_merge_note(guard, changes.create);
    let cancelled = decided.cancelled.into_iter();
    let mut notes = decided.notes;
    for finding in &decided.findings {
        let path = finding.path.as_deref().unwrap_or("the work");
        let line = finding
            .line
            .map_or_else(String::new, |line| format!(":{line}"));
        notes.push(format!(
            "{} in {path}{line}: {}",
            finding.severity.as_str(),
            finding.claim
        ));
    }
    for (question, reply) in decided.replies {
        match (question.parse::<QuestionId>(), reply) {
            (Ok(question), LeaderReply::Answer(answer)) => {
                let answered = EventKind::QuestionAnswered(QuestionAnswered { question, answer });
                changes
                    .record
                    .push(NewEvent::new(EventActor::Leader, answered));
            }
            (Ok(question), LeaderReply::AskPerson(why)) => {
                let forwarded = forwarded(question, &why);
                changes
                    .record
                    .push(NewEvent::new(EventActor::Leader, forwarded));
            }
            (Err(_), LeaderReply::AskPerson(why)) => {
                notes.push(format!("the person is to answer {question}: {why}"));
            }
            // The answer to the worker of a blocked task is among the changes.
            (Err(_), LeaderReply::Answer(_)) => {}
        }
    }
    let acted = LeaderActed {
        wake,
        actions: decided.count,
        cancelled: cancelled
            .map(|(task, reason)| CancelledTask { task, reason })
            .collect(),
        notes,
    };
    let event = NewEvent::new(EventActor::Leader, EventKind::LeaderActed(acted));
    changes.record.push(event);
    let actor = EventActor::Leader;
    run.store().apply(run.team(), actor.as_str(), &changes)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::task_progress::example as task;
    use super::*;

    #[test]
    fn run_waits_for_a_person_only_when_nothing_else_can_be_done() {
        let blocked = json!({ "blocked": { "reason": "Which port?", "by": "ann", "at": "2026-02-07T12:00:00.123Z" } });
        let first = task(1, &[], "pending", &blocked);
        assert!(first.block().is_some());
        let after = task(2, &[1], "pending", &json!({}));
        assert!(only_answers_help(&[first.clone(), after.clone()]));
        let free = task(3, &[], "pending", &json!({}));
        assert!(!only_answers_help(&[first.clone(), free]));
        let working = task(3, &[], "in_progress", &json!({}));
        assert!(!only_answers_help(&[first, after, working]));
        assert!(!only_answers_help(&[]));
    }

    #[test]
    fn state_of_a_task_is_told_in_words() {
        let none = json!({});
        for (task, is_hopeless, words) in [
            (
                task(1, &[], "completed", &json!({ "failed": true })),
                true,
                "failed for good",
            ),
            (
                task(2, &[1], "pending", &none),
                true,
                "waits for one that will not be done",
            ),
            (task(2, &[1], "pending", &none), false, "waits for others"),
            (task(2, &[], "pending", &none), false, "is to be done"),
            (
                task(2, &[], "in_progress", &none),
                false,
                "is being worked on",
            ),
            (
                task(2, &[], "completed", &json!({ "merged": false })),
                false,
                "is done and not merged",
            ),
            (
                task(2, &[], "completed", &json!({ "merged": true })),
                false,
                "is done",
            ),
        ] {
            assert_eq!(state_of(&task, is_hopeless), words);
        }
    }
}

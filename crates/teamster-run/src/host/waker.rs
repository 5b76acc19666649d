//! Wakes the leader when a decision is needed, and applies its decisions.
//!
//! ```text
//! tasks, questions, messages, a review, the gate ─▶ reasons ─▶ one turn ─▶ actions ─▶ one transaction with `leader.acted`
//!                                                      │
//!                                                      └─ no leader, or not this time ─▶ what the engine does by itself
//! ```
//!
//! While the team works, the leader thinks in the background: workers, merges and supervision continue, and only the
//! end of the stage waits for it. The reasons for waking it are journalled, so each reason is handled once, whichever
//! host runs. If a host is killed before the transaction, its reasons remain open, and the next one wakes the leader
//! again; if it is killed after it, nothing is left to do.

use std::collections::BTreeSet;
use std::time::Duration;

use teamster_document::Fault;
use teamster_journal::payload::{
    Addressee, CancelledTask, DismissedFinding, FindingAdded, LeaderActed, LeaderFailed,
    LeaderWoken, Member, QuestionAnswered, QuestionForwarded, QuestionId, QuestionKind,
    ReviewFinding, WakeKind, WakeReason,
};
use teamster_journal::{
    EventActor, EventKind, HOST, NewEvent, Question, QuestionFate, ReviewState,
};
use teamster_prompts::facts::{Answer, MemberFacts, Said, TaskStateFacts, WakeLimits, WakePrompt};
use teamster_store::{StoreError, StoreErrorKind};
use teamster_types::TaskId;
use teamster_types::phrase::{Phrase, PhraseCode, Wording};
use teamster_types::task::{MergeMark, Status, Task, TaskReview};
use teamster_types::text::{clip, one_line};

use super::context::RunContext;
use super::digest::digest;
use super::integration_guard::IntegrationGuard;
use super::leader_turn::{self, TurnError, TurnUnderWay};
use super::planner::with_merge_note;
use super::reviewer::describe_findings;
use super::task_progress::{hopeless, open, waits_for_merge};
use super::{Result, RunError};
use crate::leader::actions::{
    LeaderActions, LeaderReply, OpenFinding, OpenQuestion, TeamFacts, schema,
};

/// The number of failed wakes in a row after which the leader is not woken again.
const MOST_FAILURES: u32 = 3;
/// How often the leader is asked again when the store refuses what it decided.
const AGAIN: usize = 1;
/// The number of characters of one quoted text in the prompt.
const WORDS: usize = 4_000;
/// The number of characters of a subject, and of a member's capabilities.
const LINE: usize = 160;
/// The number of characters of a task's description, and of the leader's own analysis.
const DESCRIPTION: usize = 1_000;
const ANALYSIS: usize = 4_000;
/// The number of findings that the leader decides about at once, the worst first.
const MOST_FINDINGS: usize = 30;
/// The number of characters of one finding in the prompt.
const FINDING: usize = 1_000;
/// The longest description of a task that fixes findings, in characters.
const LONGEST_DESCRIPTION: usize = 20_000;

/// The limits of the leader of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderBounds {
    /// How often it may be woken.
    pub max_wakes: u32,
    /// The share of each budget that it may use, in percent.
    pub budget_share: u32,
}

impl Default for LeaderBounds {
    fn default() -> Self {
        Self {
            max_wakes: 20,
            budget_share: 25,
        }
    }
}

/// The result of a step of the waker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WakeStep {
    /// No decision is needed.
    Idle,
    /// The state has changed, with or without the leader.
    Changed,
    /// The leader is thinking; the stage must not end before it is done.
    Thinking,
}

/// Decides when the leader is woken, and what happens without it.
#[derive(Default)]
pub(super) struct LeaderWaker {
    /// Unread messages that were reported to the person at the observer.
    told: BTreeSet<WakeReason>,
    /// The present turn of the leader.
    wake: Option<WakeUnderWay>,
}

/// A reason to wake the leader, with its details.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wake {
    reason: WakeReason,
    /// Why it is woken, as the rest of a sentence.
    why: String,
    /// The quotations that it is about.
    said: Vec<Said>,
}

impl Wake {
    fn new(reason: WakeReason, why: String, from: String, text: &str) -> Self {
        let text = clip(text, WORDS);
        let said = vec![Said { from, text }];
        Self { reason, why, said }
    }
}

/// The review whose findings the leader decides about.
#[derive(Clone, Debug)]
struct Triage {
    commit: String,
    findings: Vec<ReviewFinding>,
}

/// Everything that the leader is asked in one turn.
#[derive(Clone, Debug)]
struct WakeRequest {
    wakes: Vec<Wake>,
    triage: Option<Triage>,
    /// How often it may be asked again.
    again: usize,
}

/// A turn of the leader in progress.
struct WakeUnderWay {
    number: u32,
    request: WakeRequest,
    turn: TurnUnderWay<LeaderActions>,
}

impl LeaderWaker {
    /// Wakes the leader when a decision is needed, applies its decision, or continues without it.
    pub(super) fn step(
        &mut self,
        run: &mut RunContext<'_>,
        guard: &IntegrationGuard,
        tasks: &[Task],
    ) -> Result<WakeStep> {
        if let Some(wake) = self.wake.take() {
            if !wake.turn.has_ended() {
                self.wake = Some(wake);
                return Ok(WakeStep::Thinking);
            }
            self.wake = wake.settle(run, guard)?;
            return Ok(WakeStep::Changed);
        }
        if run.must_stop() {
            return Ok(WakeStep::Idle);
        }
        let wakes = reasons(run, tasks)?;
        if !wakes.is_empty() {
            self.wake = begin(run, guard, WakeRequest::new(wakes), None)?;
            return Ok(WakeStep::Changed);
        }
        self.go_on_without(run, tasks)
    }

    /// Returns whether something needs the leader's decision before the gate opens.
    pub(super) fn is_needed(run: &RunContext<'_>, tasks: &[Task]) -> Result<bool> {
        Ok(!run.must_stop() && !reasons(run, tasks)?.is_empty())
    }

    /// Returns whether the leader has ended its turn and the result was not processed yet.
    pub(super) fn has_news(&self) -> bool {
        self.wake.as_ref().is_some_and(|wake| wake.turn.has_ended())
    }

    /// Ends the present turn because the run ends. The next host asks again.
    pub(super) fn stop(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        let Some(wake) = self.wake.take() else {
            return Ok(());
        };
        wake.turn.stop();
        if let Err(error) = wake.turn.finish(run)? {
            tracing::debug!("the leader was stopped: {error}");
        }
        Ok(())
    }

    /// Ends the present turn because a person stops the run, and forwards the workers' open questions to the person.
    pub(super) fn pass_on(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        self.stop(run)?;
        let asked: Vec<QuestionId> = for_leader(run).map(|question| question.id).collect();
        for question in asked {
            run.journal(forwarded(question, PhraseCode::RunIsBeingStopped))?;
        }
        Ok(())
    }

    /// Forwards the questions for the leader to a person; gives up blocked tasks where no person can be asked.
    fn go_on_without(&mut self, run: &mut RunContext<'_>, tasks: &[Task]) -> Result<WakeStep> {
        let can_ask = run.can_ask_person();
        let mut changed = false;
        // Without a person, the questions of blocked tasks are not forwarded: the tasks are given up below.
        let unanswered: Vec<QuestionId> = to_leader(run)
            .filter(|question| can_ask || question.kind != QuestionKind::Blocked)
            .map(|question| question.id)
            .collect();
        for question in unanswered {
            let reason = WakeReason::new(WakeKind::Question, question.to_string());
            let why = if may_wake(run) || is_handled(run, &reason) {
                PhraseCode::LeaderDidNotAnswer
            } else {
                why_not(run)
            };
            run.journal(forwarded(question, why))?;
            changed = true;
        }
        self.tell_unread_messages(run);
        for task in tasks {
            let Some(block) = task.block() else {
                continue;
            };
            if !can_ask {
                let why = format!("blocked: {}", block.reason);
                run.store().give_up(run.team(), HOST, task.id(), &why)?;
                changed = true;
            }
        }
        if changed {
            run.read()?;
            return Ok(WakeStep::Changed);
        }
        if only_answers_help(tasks) {
            run.set_waiting(true);
        }
        Ok(WakeStep::Idle)
    }

    /// Tells the person that their messages to the leader are not read.
    fn tell_unread_messages(&mut self, run: &mut RunContext<'_>) {
        let mut unread = of_messages(run);
        unread.retain(|wake| !is_handled(run, &wake.reason));
        for wake in unread {
            if self.told.insert(wake.reason) {
                let why = Phrase::from(why_not(run));
                run.say(&format!("your message to the leader is not read: {why}"));
            }
        }
    }
}

/// Returns the open reasons to wake the leader; none when it may not be woken.
fn reasons(run: &RunContext<'_>, tasks: &[Task]) -> Result<Vec<Wake>> {
    if !may_wake(run) {
        return Ok(Vec::new());
    }
    let mut wakes = of_tasks(run, tasks)?;
    wakes.extend(of_questions(run));
    wakes.extend(of_messages(run));
    wakes.retain(|wake| !is_handled(run, &wake.reason));
    Ok(wakes)
}

/// Wakes the leader for a revision that a person asks for at the gate. Returns whether it was woken now; it is not
/// woken twice for the same gate.
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
    let wake = Wake::new(reason, why, "The person".to_owned(), words);
    wake_now(run, guard, WakeRequest::new(vec![wake]))?;
    Ok(true)
}

/// Wakes the leader because the work of a phase is done; its note completes the phase. Returns whether it was woken
/// now; it is not woken twice for the same reason.
pub(super) fn wake_for_phase(
    run: &mut RunContext<'_>,
    guard: &IntegrationGuard,
    phase: &str,
    about: &str,
) -> Result<bool> {
    let reason = WakeReason::new(WakeKind::Phase, about);
    if is_handled(run, &reason) || !may_wake(run) || run.must_stop() {
        return Ok(false);
    }
    let why = format!(
        "the phase {phase} ends: everything in it is done or given up. Say in one `note` what was done, what is open, and what \
         whoever checks and reviews it must know: that becomes the finding of the phase. If something is missing, create the \
         tasks for it, and the phase goes on"
    );
    let from = "What the tasks came to".to_owned();
    let said = results(&run.tasks()?);
    let wake = Wake::new(reason, why, from, &said);
    wake_now(run, guard, WakeRequest::new(vec![wake]))?;
    Ok(true)
}

/// Returns the result of each task, in its worker's words.
fn results(tasks: &[Task]) -> String {
    let lines = tasks.iter().map(|task| {
        let result = task.result().unwrap_or_default();
        let summary = result.summary.unwrap_or_default();
        let state = if task.is_failed() { "failed" } else { "done" };
        format!(
            "{} ({state}): {}: {}",
            task.id(),
            clip(task.subject(), LINE),
            one_line(&summary)
        )
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Lets the leader decide about the findings of a review, once for each commit. Returns false when it was stopped on
/// request.
pub(super) fn wake_for_findings(
    run: &mut RunContext<'_>,
    guard: &IntegrationGuard,
    review: &ReviewState,
) -> Result<bool> {
    let reason = WakeReason::new(WakeKind::Findings, review.commit.as_str());
    if is_handled(run, &reason) || !may_wake(run) {
        return Ok(true);
    }
    let Some(finished) = review.finished() else {
        return Ok(true);
    };
    let mut findings = finished.findings.clone();
    findings.truncate(MOST_FINDINGS);
    let why = format!(
        "{} found something in the merged work that should be fixed, and you decide what becomes of each finding",
        review.reviewer
    );
    let said = (1..).zip(&findings).map(|(place, finding)| Said {
        from: finding_words(place, finding, &review.reviewer),
        text: clip(&finding_text(finding), FINDING),
    });
    let wake = Wake {
        reason,
        why,
        said: said.collect(),
    };
    let request = WakeRequest {
        triage: Some(Triage {
            commit: review.commit.clone(),
            findings,
        }),
        ..WakeRequest::new(vec![wake])
    };
    wake_now(run, guard, request)?;
    Ok(!run.must_stop())
}

/// Returns the id under which the leader decides about a finding.
fn finding_id(place: usize) -> String {
    format!("f{place}")
}

fn finding_words(place: usize, finding: &ReviewFinding, reviewer: &str) -> String {
    let (id, severity) = (finding_id(place), finding.severity.as_str());
    match finding.place().as_str() {
        "" => format!("Finding {id} of {reviewer}, {severity}"),
        at => format!(
            "Finding {id} of {reviewer}, {severity}, in {}",
            one_line(at)
        ),
    }
}

fn finding_text(finding: &ReviewFinding) -> String {
    let parts = [&finding.claim, &finding.evidence, &finding.suggestion];
    let parts: Vec<&str> = parts.into_iter().map(|part| part.trim()).collect();
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("\n\n")
}

fn is_handled(run: &RunContext<'_>, reason: &WakeReason) -> bool {
    run.state().leader.handled.contains(reason)
}

/// Returns whether there is a leader, and it may be woken again.
fn may_wake(run: &RunContext<'_>) -> bool {
    let leader = &run.state().leader;
    run.spec().leading_agent().is_some()
        && leader.wakes < run.env().leader.max_wakes
        && leader.failures < MOST_FAILURES
        && has_share(run)
        && run.exhausted().is_none()
}

/// Returns why the leader is not asked.
fn why_not(run: &RunContext<'_>) -> PhraseCode {
    let leader = &run.state().leader;
    if run.spec().leading_agent().is_none() {
        PhraseCode::NoLeader
    } else if leader.wakes >= run.env().leader.max_wakes {
        PhraseCode::LeaderWokenOften
    } else if leader.failures >= MOST_FAILURES {
        PhraseCode::LeaderFailedOften
    } else {
        PhraseCode::LeaderShareUsed
    }
}

/// Returns whether the leader has used less than its share of each budget. Costs that its client does not report count
/// as zero.
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
    let share = f64::from(run.env().leader.budget_share) / 100.0;
    let is_left =
        |(limit, used): (Option<f64>, f64)| limit.is_none_or(|limit| used < limit * share);
    used.into_iter().all(is_left)
}

/// Returns how long the leader may think before its share of the run's time is used up.
fn time_left(run: &RunContext<'_>) -> Option<Duration> {
    let minutes = run.spec().budget.minutes?;
    let seconds = minutes * 60.0 * f64::from(run.env().leader.budget_share) / 100.0;
    let share = Duration::try_from_secs_f64(seconds).ok()?;
    Some(share.saturating_sub(run.state().leader.thought))
}

/// Returns the reason for a blocked task.
fn of_block(id: &TaskId, at: i64) -> WakeReason {
    WakeReason::new(WakeKind::Question, format!("{id}@{at}"))
}

/// Returns the id under which the leader answers the worker of a blocked task.
fn question_of(id: &TaskId) -> String {
    format!("task-{id}")
}

/// Returns the reasons from tasks: those that wait for an answer, those that failed for good, and those that fail
/// repeatedly for the same cause.
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
        // The failure of a resolution is reported with the task that has the conflict.
        let is_of_many = matches!(
            task.merge_mark(),
            Some(MergeMark::Candidate | MergeMark::NotChosen)
        );
        if task.resolves().is_some() || is_of_many {
            continue;
        }
        if task.is_failed() {
            wakes.push(of_failed(run, id)?);
        } else if task.status() != Status::Completed {
            wakes.extend(of_repeated(run, id));
        }
    }
    Ok(wakes)
}

/// Returns the reason for a task that failed for good.
fn of_failed(run: &RunContext<'_>, id: &TaskId) -> Result<Wake> {
    let failure = run.store().failure(run.team(), id)?;
    let at = failure
        .as_ref()
        .map_or(0, |failure| failure.last_failed_at.as_millis());
    let error = failure
        .map(|failure| failure.last_error)
        .unwrap_or_default();
    let mut conflicts = run.state().conflicts.iter();
    let (kind, why) = if conflicts.any(|(of, _)| of == id) {
        let why = format!("the conflict of task {id} could not be resolved");
        (WakeKind::Conflict, why)
    } else {
        (WakeKind::Failure, format!("task {id} failed for good"))
    };
    let reason = WakeReason::new(kind, format!("{id}@{at}"));
    let from = format!("The last error of task {id}");
    Ok(Wake::new(reason, why, from, &error))
}

/// Returns the reason for a task that failed at least twice in a row for the same cause, and will be tried again.
fn of_repeated(run: &RunContext<'_>, id: &TaskId) -> Option<Wake> {
    let failures = run.state().failures.get(id);
    let failure = failures.filter(|failure| failure.times > 1)?;
    let reason = WakeReason::new(WakeKind::Failure, format!("{id}#{}", failure.second));
    let why = format!(
        "task {id} failed {} times in a row for the same reason, and will be tried again",
        failure.times
    );
    let from = format!("The last error of task {id}");
    Some(Wake::new(reason, why, from, &failure.reason))
}

/// Returns the reasons from the workers' questions to the leader.
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
                    format!(
                        "{asker} proposes a task: create it if it is needed, and answer either way"
                    ),
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

/// Returns the open questions to the leader.
fn to_leader<'a>(run: &'a RunContext<'_>) -> impl Iterator<Item = &'a Question> {
    let open = run.state().questions.open();
    open.filter(|question| question.to == Addressee::Leader && question.kind != QuestionKind::Plan)
}

/// Returns the open questions to the leader except those of blocked tasks, which are reported with the tasks.
fn for_leader<'a>(run: &'a RunContext<'_>) -> impl Iterator<Item = &'a Question> {
    to_leader(run).filter(|question| question.kind != QuestionKind::Blocked)
}

/// Returns the question of the worker of a blocked task, by the id under which the leader answers it.
fn blocked_question(run: &RunContext<'_>, word: &str) -> Option<QuestionId> {
    let is_its = |question: &&Question| {
        let task = question.task.as_ref();
        question.kind == QuestionKind::Blocked && task.is_some_and(|id| question_of(id) == word)
    };
    run.state().questions.open().find(is_its).map(|it| it.id)
}

/// Returns the reasons from people's messages to the leader.
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

/// Returns whether no task can continue before a question is answered.
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

impl WakeRequest {
    fn new(wakes: Vec<Wake>) -> Self {
        Self {
            wakes,
            triage: None,
            again: AGAIN,
        }
    }
}

/// Runs a turn of the leader and waits for its end, when there is nothing else to do.
fn wake_now(
    run: &mut RunContext<'_>,
    guard: &IntegrationGuard,
    request: WakeRequest,
) -> Result<()> {
    let mut next = begin(run, guard, request, None)?;
    while let Some(wake) = next {
        wake.turn.wait(run)?;
        next = wake.settle(run, guard)?;
    }
    Ok(())
}

/// Begins a turn of the leader; if it cannot be asked, records that and returns `None`.
fn begin(
    run: &mut RunContext<'_>,
    guard: &IntegrationGuard,
    request: WakeRequest,
    refused: Option<String>,
) -> Result<Option<WakeUnderWay>> {
    let number = run.state().leader.wakes + 1;
    if number > run.env().leader.max_wakes {
        fail(
            run,
            &request,
            Phrase::verbatim(&refused.unwrap_or_default()),
        )?;
        return Ok(None);
    }
    let why = match begin_turn(run, guard, number, &request, refused) {
        Ok(turn) => {
            return Ok(Some(WakeUnderWay {
                number,
                request,
                turn,
            }));
        }
        Err(TurnError::Host(error)) => return Err(error),
        Err(TurnError::Leader(error)) => error.cause(),
        Err(TurnError::NotTrusted(error)) => Phrase::verbatim(&error.to_string()),
    };
    fail(run, &request, why)?;
    Ok(None)
}

impl WakeUnderWay {
    /// Applies the decision of the leader; returns the next turn if it is asked again. Waits for the agent if it has
    /// not ended.
    fn settle(self, run: &mut RunContext<'_>, guard: &IntegrationGuard) -> Result<Option<Self>> {
        let Self {
            number,
            mut request,
            turn,
        } = self;
        let is_late = turn.is_late(run.now());
        let why = match turn.finish(run)? {
            Ok(decided) => match apply(run, guard, number, &request, decided) {
                Ok(()) => {
                    run.read()?;
                    return Ok(None);
                }
                // The state changed meanwhile, for example because a worker took a task that should be cancelled.
                Err(error) if is_refusal(&error) && request.again > 0 => {
                    request.again -= 1;
                    return begin(run, guard, request, Some(error.message));
                }
                Err(error) if is_refusal(&error) => Phrase::verbatim(&error.message),
                Err(error) => return Err(RunError::Store(error)),
            },
            Err(TurnError::Host(error)) => return Err(error),
            // The next host asks again.
            Err(_) if run.must_stop() => return Ok(None),
            Err(_) if is_late => PhraseCode::LeaderLate.into(),
            Err(TurnError::Leader(error)) => error.cause(),
            Err(TurnError::NotTrusted(error)) => Phrase::verbatim(&error.to_string()),
        };
        fail(run, &request, why)?;
        Ok(None)
    }
}

fn is_refusal(error: &StoreError) -> bool {
    let kinds = [
        StoreErrorKind::NotFound,
        StoreErrorKind::Conflict,
        StoreErrorKind::Refused,
    ];
    !error.busy && kinds.contains(&error.kind)
}

/// Records that a wake failed, so that the run continues without the leader's decision.
fn fail(run: &mut RunContext<'_>, request: &WakeRequest, why: Phrase) -> Result<()> {
    if run.state().leader.open.is_empty() {
        // The turn did not even begin.
        let woken = woken(run.state().leader.wakes + 1, request, None);
        run.journal(EventKind::LeaderWoken(LeaderWoken {
            launch: teamster_fs::random_hex(),
            ..woken
        }))?;
    }
    run.say(&format!("the leader decided nothing: {why}"));
    let wake = run.state().leader.wakes;
    let (reason, reason_codes) = Wording::from(why).into_parts();
    run.journal(EventKind::LeaderFailed(LeaderFailed {
        wake,
        reason,
        reason_codes,
    }))
}

fn woken(wake: u32, request: &WakeRequest, refused: Option<String>) -> LeaderWoken {
    let wakes = request.wakes.iter();
    LeaderWoken {
        wake,
        reasons: wakes.map(|wake| wake.reason.clone()).collect(),
        launch: String::new(),
        refused,
    }
}

/// The state of the team when the leader was asked, against which its answer is checked.
struct TeamSnapshot {
    tasks: Vec<Task>,
    members: Vec<Member>,
    questions: Vec<OpenQuestion>,
    findings: Vec<OpenFinding>,
    most_new: usize,
}

impl TeamSnapshot {
    fn new(run: &RunContext<'_>, tasks: &[Task], request: &WakeRequest) -> Self {
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
        let findings = request.triage.iter().flat_map(|triage| &triage.findings);
        let findings = (1..).zip(findings).map(|(place, finding)| OpenFinding {
            id: finding_id(place),
            needs_fix: finding.severity.needs_fix(),
        });
        Self {
            tasks: tasks.to_vec(),
            members: run.spec().members.clone(),
            questions,
            findings: findings.collect(),
            most_new: run.env().max_tasks.saturating_sub(run.state().added.len()),
        }
    }

    fn read(&self, said: &str) -> std::result::Result<LeaderActions, Vec<Fault>> {
        let facts = TeamFacts {
            tasks: &self.tasks,
            members: &self.members,
            questions: &self.questions,
            findings: &self.findings,
            most_new: self.most_new,
        };
        LeaderActions::read(said, &facts).map_err(|faults| {
            let faults = faults.into_iter();
            faults.map(|fault| Fault::new(0, fault)).collect()
        })
    }
}

/// Asks the leader what to do.
fn begin_turn(
    run: &mut RunContext<'_>,
    guard: &IntegrationGuard,
    number: u32,
    request: &WakeRequest,
    refused: Option<String>,
) -> std::result::Result<TurnUnderWay<LeaderActions>, TurnError> {
    let prompts = run.env().trust.prompts()?;
    let tasks = run.tasks()?;
    let prompt = prompt(run, &tasks, number, request, refused.as_deref())?;
    let team = TeamSnapshot::new(run, &tasks, request);
    let woken = woken(number, request, refused);
    let most = time_left(run);
    let read = move |said: &str| team.read(said);
    leader_turn::begin_wake(run, guard, woken, most, prompts, prompt, read)
}

/// Returns the facts for the leader's prompt.
fn prompt(
    run: &RunContext<'_>,
    tasks: &[Task],
    number: u32,
    request: &WakeRequest,
    refused: Option<&str>,
) -> Result<WakePrompt> {
    let spec = run.spec();
    let wakes = &request.wakes;
    let mut reasons: Vec<&str> = wakes.iter().map(|wake| wake.why.as_str()).collect();
    reasons.dedup();
    let mut subject: Vec<Said> = wakes.iter().flat_map(|wake| wake.said.clone()).collect();
    if let Some(refused) = refused {
        subject.push(Said {
            from: "Your last answer was refused when it was to be carried out".to_owned(),
            text: refused.to_owned(),
        });
    }
    let hopeless = hopeless(tasks);
    let tasks = tasks.iter().map(|task| TaskStateFacts {
        id: task.id().to_string(),
        state: state_of(task, hopeless.contains(task.id())).to_owned(),
        worker: task.owner().map(str::to_owned),
        subject: clip(task.subject(), LINE),
        description: match task.status() {
            Status::Completed if !task.is_failed() => String::new(),
            _ => clip(task.description(), DESCRIPTION),
        },
        accept: match task.status() {
            Status::Completed if !task.is_failed() => Vec::new(),
            _ => task.accept().iter().map(|it| clip(it, LINE)).collect(),
        },
    });
    let plan = run.state().planning.last().map(|last| &last.proposed.plan);
    let asked = run.state().questions.all();
    let answered = asked.filter_map(|question| match &question.fate {
        QuestionFate::Answered { by, answer, .. } if question.kind == QuestionKind::Plan => {
            Some(Answer {
                question: question.text.clone(),
                from: by.to_string(),
                text: answer.clone(),
            })
        }
        _ => None,
    });
    let members = spec.members.iter().map(|member| MemberFacts {
        name: member.name.to_string(),
        role: member.role.clone(),
        provider: member.provider_name().to_owned(),
        can: vec![clip(&member.can.join(", "), LINE)],
    });
    let most = run.env().leader.max_wakes;
    Ok(WakePrompt {
        team: run.team().to_string(),
        goal: spec.task.clone(),
        analysis: plan.map_or_else(String::new, |plan| clip(&plan.analysis, ANALYSIS)),
        assumptions: plan.map_or_else(Vec::new, |plan| plan.assumptions.clone()),
        answers: answered.collect(),
        notes: run.state().leader.notes.clone(),
        reason: reasons.join(", and "),
        subject,
        has_findings: request.triage.is_some(),
        digest: digest(run, run.state().leader.knows_until + 1)?,
        tasks: tasks.collect(),
        members: members.collect(),
        limits: WakeLimits {
            wakes_left: usize::try_from(most.saturating_sub(number)).ok(),
        },
        schema: format!("{:#}", schema()),
    })
}

/// Returns the state of a task, as the rest of a sentence.
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

/// Returns the event that forwards a question to a person.
fn forwarded(question: QuestionId, why: impl Into<Wording>) -> EventKind {
    let (reason, reason_codes) = why.into().into_parts();
    EventKind::QuestionForwarded(QuestionForwarded {
        question,
        to: Addressee::Person,
        reason,
        reason_codes,
    })
}

/// Applies all decisions of the leader in one transaction with the event that records them.
fn apply(
    run: &RunContext<'_>,
    guard: &IntegrationGuard,
    wake: u32,
    request: &WakeRequest,
    decided: LeaderActions,
) -> std::result::Result<(), StoreError> {
    let mut changes = decided.changes;
    changes.create = with_merge_note(guard, changes.create);
    let mut dismissed = Vec::new();
    if let Some(triage) = &request.triage {
        for (place, places) in decided.settles {
            if let Some(planned) = changes.create.get_mut(place) {
                let (description, note) = settling(run, triage, &planned.task.description, places);
                planned.task.description = description;
                planned.task.notes.review = Some(note);
            }
        }
        dismissed.extend(decided.dismissed.into_iter().map(|(place, reason)| {
            let commit = triage.commit.clone();
            DismissedFinding {
                commit,
                finding: place + 1,
                reason,
            }
        }));
    }
    let mut record = |kind: EventKind| {
        let event = NewEvent::new(EventActor::Leader, kind);
        changes.record.push(event);
    };
    for finding in decided.findings {
        record(EventKind::FindingAdded(added(finding)));
    }
    let mut notes = decided.notes;
    for (question, reply) in decided.replies {
        match (question.parse::<QuestionId>(), reply) {
            (Ok(question), LeaderReply::Answer(answer)) => {
                record(EventKind::QuestionAnswered(QuestionAnswered {
                    question,
                    answer,
                }));
            }
            (Ok(question), LeaderReply::AskPerson(why)) => {
                record(forwarded(question, Phrase::verbatim(&why)));
            }
            (Err(_), LeaderReply::AskPerson(why)) => {
                if let Some(blocked) = blocked_question(run, &question) {
                    record(forwarded(blocked, Phrase::verbatim(&why)));
                }
                notes.push(format!("{question} goes to the person: {why}"));
            }
            // The answer to the worker of a blocked task is one of the changes.
            (Err(_), LeaderReply::Answer(_)) => {}
        }
    }
    let cancelled = decided.cancelled.into_iter();
    record(EventKind::LeaderActed(LeaderActed {
        wake,
        actions: decided.count,
        cancelled: cancelled
            .map(|(task, reason)| CancelledTask { task, reason })
            .collect(),
        notes,
        dismissed,
    }));
    let actor = EventActor::Leader;
    run.store().apply(run.team(), &actor, &changes)?;
    Ok(())
}

/// Returns the description of a task that fixes findings, and the note that links it to them.
fn settling(
    run: &RunContext<'_>,
    triage: &Triage,
    description: &str,
    places: Vec<usize>,
) -> (String, TaskReview) {
    let findings: Vec<&ReviewFinding> = places
        .iter()
        .filter_map(|place| triage.findings.get(*place))
        .collect();
    let told = describe_findings(&findings);
    let description = format!("{}\n\n{told}", description.trim());
    let findings: Vec<usize> = places.into_iter().map(|place| place + 1).collect();
    let note = TaskReview {
        round: run.state().round + 1,
        revision: run.state().revisions,
        commit: triage.commit.clone(),
        number: findings.first().copied().unwrap_or_default(),
        findings,
    };
    (clip(description.trim(), LONGEST_DESCRIPTION), note)
}

/// Returns the event of a finding that the leader reports.
fn added(finding: ReviewFinding) -> FindingAdded {
    FindingAdded {
        severity: finding.severity,
        path: finding.path.unwrap_or_default(),
        line: finding.line.and_then(|line| u32::try_from(line).ok()),
        claim: finding.claim,
        evidence: finding.evidence,
        suggestion: finding.suggestion,
        phase: None,
    }
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

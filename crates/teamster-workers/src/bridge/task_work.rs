//! The work on one task, from its claim to its result in the store.
//!
//! ```text
//! workplace made ready ──▶ launch (retried once) ──▶ turn of the agent ──▶ further turns for late messages
//!                            ▲                                                │
//!                            └── provider available again ◀── limit ──────────┤
//!                                                                             ▼
//!                                                     work kept ──▶ result written, repeatedly if the store is busy
//! ```
//!
//! A task is ended at most once: completed, failed, blocked by a question, or released. Its end is not written if the claim
//! is lost, or if the store refuses it for good. While the agent runs or the store is waited for, the bridge keeps handling its events ([`Bridge::step`]).

use std::sync::Arc;
use std::time::{Duration, Instant};

use teamster_agents::{AgentVerdict, ResumeSession};
use teamster_fs::OrTrace as _;
use teamster_journal::EventKind;
use teamster_journal::payload::WorkerPaused;
use teamster_store::{Claimed, StoreError, StoreErrorKind};
use teamster_types::heartbeat::WorkerStatus;
use teamster_types::redact::redact;
use teamster_types::text::shown;

use super::completion::{Completion, LONGEST_REASON, TaskResolution, WorkOutcome, lost_claim};
use super::provider_wait::LimitHit;
use super::reporter::TaskLog;
use super::task_attempt::AttemptInput;
use super::{Bridge, StepOutcome};
use crate::attempt::{AttemptEnd, StopCause};
use crate::briefing::BriefingInput;
use crate::mail_text;
use crate::process::{DRAIN_TIMEOUT, TempFolder};
use crate::workplace::Foundation;

/// The number of launches of an agent before the attempt is given up.
const MOST_LAUNCHES: u32 = 2;
/// The longest pause before a result that the store could not accept is written again.
const LONGEST_WRITE_PAUSE: Duration = Duration::from_secs(10);
/// The number of retries to write a result once the worker is asked to stop.
const MOST_LAST_WRITES: u32 = 3;
/// The most extra turns in which an agent gets messages that arrived while it worked; the rest go into the next prompt.
const MOST_MAIL_TURNS: u32 = 3;

/// The input of one turn of an agent.
#[derive(Clone, Copy)]
struct AgentTurn<'a> {
    /// The prompt.
    prompt: &'a str,
    /// The number of attempts at the task that failed.
    failures: u32,
    /// The client's session to resume.
    resume: Option<ResumeSession<'a>>,
    /// The folder for temp files.
    temp: &'a Arc<TempFolder>,
}

/// The work of a bridge on one task.
pub(super) struct TaskWork<'a> {
    bridge: &'a mut Bridge,
    claimed: &'a Claimed,
    log: TaskLog,
}

impl<'a> TaskWork<'a> {
    /// Works on the task to its end.
    pub(super) fn run(bridge: &'a mut Bridge, claimed: &'a Claimed) {
        let id = claimed.task.id();
        bridge.lifecycle.begin_task(id, &claimed.token);
        bridge
            .reporter
            .say(&format!("task {id}: {}", claimed.task.subject()));
        let log = bridge.launcher.open_log(&mut bridge.reporter, id);
        let mut work = Self {
            bridge,
            claimed,
            log,
        };
        let outcome = match work.prepare_workplace() {
            Ok(()) => work.run_past_limits(),
            Err(outcome) => outcome,
        };
        work.complete(&outcome);
        work.bridge.lifecycle.end_task();
    }

    /// Runs the agent on the task. While its provider is unavailable, the worker keeps the task and its worktree, and then
    /// continues: no other worker takes the task in the meantime, and the attempt does not count as a failure.
    fn run_past_limits(&mut self) -> WorkOutcome {
        let mut is_continued = false;
        loop {
            let outcome = self.run_agent(is_continued);
            let now = self.bridge.reporter.store().now();
            let Some(hit) = self.bridge.provider.hit_by(&outcome, now) else {
                return outcome;
            };
            self.bridge.provider.keep_task(self.claimed);
            let goes_on = self.wait_for_provider(&hit);
            if let Some(why) = self.bridge.provider.release_task() {
                self.record_spent(&outcome);
                return WorkOutcome::Lost(why);
            }
            if !goes_on {
                return outcome;
            }
            self.record_spent(&outcome);
            is_continued = true;
        }
    }

    /// Waits until the provider is available again; returns whether the work continues then. Other workers of the same provider
    /// learn about the limit from the recorded event.
    fn wait_for_provider(&mut self, hit: &LimitHit) -> bool {
        let Self {
            bridge,
            claimed,
            log,
        } = self;
        let now = bridge.reporter.store().now();
        let LimitHit {
            limit,
            seconds,
            reason,
        } = hit;
        let words = format!("{}; {reason}", limit.phrase());
        bridge.reporter.say(&words);
        log.note(now, &words);
        let paused = EventKind::WorkerPaused(WorkerPaused {
            seconds: *seconds,
            reason: shown(reason, LONGEST_REASON),
            limit: Some(limit.clone()),
        });
        let event = bridge.reporter.event(paused).task(claimed.task.id());
        bridge.reporter.record(event);
        bridge.wait_for_limit(limit, now);
        bridge.lifecycle.set_status(WorkerStatus::Polling);
        while !bridge.lifecycle.is_over() && !bridge.provider.is_task_lost() {
            let now = bridge.reporter.store().now();
            if bridge.end_limit_if_over(now) {
                let lost = lost_claim(&bridge.reporter, claimed);
                bridge.provider.set_lost(lost);
                return !bridge.provider.is_task_lost();
            }
            let wait = bridge.provider.time_left(now).unwrap_or_default();
            if bridge.step(None, Instant::now() + wait) == StepOutcome::Closed {
                bridge.lifecycle.note_team_gone();
            }
        }
        false
    }

    /// Prepares the workplace, with the finished work that the task builds on.
    fn prepare_workplace(&mut self) -> Result<(), WorkOutcome> {
        let Self {
            bridge,
            claimed,
            log,
        } = self;
        let (store, team) = (bridge.reporter.store(), bridge.reporter.team());
        let on = Foundation::of(store, team, bridge.reporter.name(), Some(&claimed.task))
            .map_err(|error| WorkOutcome::NoWorkplace(error.to_string()))?;
        let left_out = bridge
            .workplace
            .prepare(&on)
            .map_err(|error| WorkOutcome::NoWorkplace(error.to_string()))?;
        // Files that must not be committed and were left by a killed worker are reported now: they do not belong to this task.
        let secrets = bridge.workplace.take_secrets();
        if !secrets.is_empty() {
            bridge.reporter.record_secrets(None, &secrets);
        }
        let (store, team) = (bridge.reporter.store(), bridge.reporter.team());
        for work in &left_out.own {
            log.note(store.now(), &format!("begins without {work}"));
        }
        if left_out.waited_for.is_empty() {
            return Ok(());
        }
        Err(WorkOutcome::NoFoundation(format!(
            "the results it waited for conflict: {}; merge them, as `teamster merge {team}` \
             does, or redo one of the tasks with `teamster task retry`",
            left_out.waited_for.join("; ")
        )))
    }

    /// Runs the agent on the task; a failed launch is retried once.
    fn run_agent(&mut self, is_continued: bool) -> WorkOutcome {
        let mut why = String::new();
        for launch in 1..=MOST_LAUNCHES {
            if self.bridge.lifecycle.is_stopping_now() {
                break;
            }
            why = match self.make_attempt(is_continued) {
                Ok(end) if end.cause == Some(StopCause::NoStart) => end.describe_failed_launch(),
                Ok(end) => return WorkOutcome::Ran(Box::new(end)),
                Err(why) => why,
            };
            let reason = redact(&why).into_owned();
            let text = format!("launch {launch} failed: {reason}");
            self.log.note(self.bridge.reporter.store().now(), &text);
            self.bridge
                .reporter
                .record_failed_launch(self.claimed.task.id(), launch, &reason);
        }
        WorkOutcome::NoLaunch(why)
    }

    /// Makes one attempt at the task: a turn of the agent, and further turns for messages that arrived while it worked.
    fn make_attempt(&mut self, is_continued: bool) -> Result<AttemptEnd, String> {
        // Replies from before this attempt do not belong to it.
        self.bridge.mailbox.begin_attempt();
        self.bridge.permissions.begin_attempt();
        self.bridge.requests.begin_attempt();
        let (store, id) = (self.bridge.reporter.store(), self.claimed.task.id());
        let failure = store.failure(self.bridge.reporter.team(), id);
        let failure = failure
            .ok_or_trace("read how the task failed before")
            .flatten();
        let temp = Arc::new(TempFolder::make(&self.bridge.reporter.identity().launch));
        let mail = self
            .bridge
            .mailbox
            .mail_for_prompt(self.bridge.launcher.limits().prompt);
        let briefing = BriefingInput {
            task: &self.claimed.task,
            mail: &mail,
            failure: failure.as_ref(),
            workplace: self.bridge.workplace.as_ref(),
            temp: temp.path(),
            is_continued,
        };
        let briefing = self
            .bridge
            .briefer
            .brief(store, &briefing)
            .map_err(|error| format!("cannot build the prompt for the agent: {error}"))?;
        if let Some(error) = &briefing.fallback {
            self.log
                .note(store.now(), &format!("uses the built-in prompt: {error}"));
        }
        if !briefing.left_out.is_empty() {
            let parts = briefing.left_out.join(", ");
            self.log.note(
                store.now(),
                &format!("the prompt was too long; shortened: {parts}"),
            );
        }
        let turn = AgentTurn {
            prompt: &briefing.text,
            failures: failure.as_ref().map_or(0, |failure| failure.retry_count),
            resume: None,
            temp: &temp,
        };
        let end = self.run_turn(&turn)?;
        Ok(self.run_mail_turns(end, &turn))
    }

    /// Delivers messages that arrived while the agent worked in further turns of its session, if its client accepts them in no
    /// other way. The task stays done even if such a turn fails.
    fn run_mail_turns(&mut self, mut end: AttemptEnd, first: &AgentTurn<'_>) -> AttemptEnd {
        for _ in 0..MOST_MAIL_TURNS {
            if !self.bridge.launcher.has_turns_for_mail() {
                break;
            }
            // Messages that arrived at the end of the turn are included.
            self.bridge.read_journal(None, true);
            let AgentVerdict::Done { summary } = &end.outcome.verdict else {
                break;
            };
            let can_go_on = end.cause.is_none() && !self.bridge.lifecycle.is_stopping_now();
            let Some(session) = end.outcome.session.clone().filter(|_| can_go_on) else {
                break;
            };
            let (summary, spent) = (summary.clone(), end.outcome.spent);
            self.bridge.mailbox.begin_attempt();
            self.bridge.permissions.begin_attempt();
            let mail = self
                .bridge
                .mailbox
                .mail_for_prompt(self.bridge.launcher.limits().prompt);
            if mail.is_empty() {
                break;
            }
            self.bridge.requests.begin_attempt();
            let prompt = mail_text::delivery_text(&mail);
            let turn = AgentTurn {
                prompt: &prompt,
                resume: Some(ResumeSession {
                    session: &session,
                    spent: Some(spent),
                }),
                ..*first
            };
            let now = self.bridge.reporter.store().now();
            self.log
                .note(now, "gives the agent another turn for the messages it got");
            let told = match self.run_turn(&turn) {
                Ok(told) => told,
                Err(why) => {
                    self.log
                        .note(now, &format!("the turn could not be started: {why}"));
                    break;
                }
            };
            end.outcome.spent = spent.then(told.outcome.spent);
            end.leftover += told.leftover;
            match told.outcome.verdict {
                // The earlier report stays unless the agent reports again.
                AgentVerdict::Done { summary: more } => {
                    let summary = format!("{summary}\n\n{more}");
                    end.outcome.verdict = AgentVerdict::Done { summary };
                    end.outcome.session = told.outcome.session.or(end.outcome.session);
                }
                other => {
                    let text = format!(
                        "the earlier result stands, because that turn had no result: {other:?}"
                    );
                    self.log.note(now, &text);
                    break;
                }
            }
        }
        end
    }

    /// Runs the agent for one turn, to its end.
    fn run_turn(&mut self, turn: &AgentTurn<'_>) -> Result<AttemptEnd, String> {
        let Self {
            bridge,
            claimed,
            log,
        } = self;
        let (store, id) = (bridge.reporter.store(), claimed.task.id());
        let input = AttemptInput {
            folder: bridge.workplace.folder(),
            prompt: turn.prompt,
            failures: turn.failures,
            resume: turn.resume,
            temp: Arc::clone(turn.temp),
        };
        let mut run = bridge.launcher.start(claimed, input, log, store.now())?;
        let commands = run.note_executed();
        bridge.apply(&mut run, commands);
        bridge.watch(&mut run);
        bridge.requests.end_attempt(&mut bridge.reporter);
        let (leftover, still_there) = run.end_leftovers();
        if let Some(error) = still_there {
            bridge.reporter.say(&error.to_string());
        }
        let deadline = Instant::now() + DRAIN_TIMEOUT;
        while !run.state().is_drained() {
            match bridge.step(Some(&mut run), deadline) {
                StepOutcome::Event { .. } => {}
                StepOutcome::Timeout | StepOutcome::Closed => break,
            }
        }
        bridge.check_inbox_file(&run);
        let process = run.process_id().clone();
        let end = run.finish(leftover);
        // An agent that ended without any output has shown by its end that it ran.
        if end.outcome.started && !end.has_shown_life && end.cause.is_none() {
            bridge.note_started(id, process, None);
        }
        let requests = bridge.mailbox.end_attempt(&mut bridge.reporter);
        bridge.carry_out(requests);
        Ok(end)
    }

    /// Keeps the work and writes its result to the store.
    fn complete(&mut self, outcome: &WorkOutcome) {
        let resolution = TaskResolution::of(outcome);
        self.record_spent(outcome);
        let workplace = self.bridge.workplace.as_mut();
        let mut completion = Completion::prepare(
            self.claimed,
            resolution,
            &mut self.bridge.reporter,
            workplace,
        );
        let now = self.bridge.reporter.store().now();
        self.log.note(now, &completion.resolution().describe());
        let mut tries = 0;
        while let Err(error) = completion.write(&mut self.bridge.reporter) {
            tries += 1;
            if !self.wait_to_write_again(&error, tries) {
                completion.give_up(
                    &error,
                    &mut self.bridge.reporter,
                    self.bridge.workplace.as_mut(),
                );
                break;
            }
        }
        self.bridge.lifecycle.end_refusal();
        let resolution = completion.resolution();
        self.bridge.provider.note_resolution(resolution);
        if let Some(quarantine) = self.bridge.lifecycle.count_resolution(resolution) {
            quarantine.report(&mut self.bridge.reporter);
        }
    }

    /// Records the usage of a run of the agent and the processes that it left behind.
    fn record_spent(&mut self, outcome: &WorkOutcome) {
        let Self {
            bridge, claimed, ..
        } = self;
        let WorkOutcome::Ran(end) = outcome else {
            return;
        };
        let model = bridge.launcher.model();
        let spent = &end.outcome.spent;
        bridge
            .reporter
            .record_usage(claimed.task.id(), model, spent);
        if end.leftover > 0 {
            let text = format!(
                "ended {} processes that the agent left behind",
                end.leftover
            );
            bridge.reporter.say(&text);
        }
    }

    /// Waits, and returns whether to retry writing a result that the store could not accept. No other process can end the task
    /// while this bridge lives, so a full disk must not lose the result; but a stop request must not wait forever.
    fn wait_to_write_again(&mut self, error: &StoreError, tries: u32) -> bool {
        let Self {
            bridge, claimed, ..
        } = self;
        let may_pass = error.busy || error.kind == StoreErrorKind::Unreachable;
        let is_last = bridge.lifecycle.is_stopping() && tries > MOST_LAST_WRITES;
        if !may_pass || bridge.lifecycle.is_team_gone() || is_last {
            return false;
        }
        if tries == 1 {
            bridge
                .reporter
                .say(&format!("the result cannot be written yet: {error}"));
        }
        let action = format!("write the result of task {}", claimed.task.id());
        let now = bridge.reporter.store().now();
        bridge.lifecycle.show_refusal(&action, error, now);
        let pause = bridge
            .launcher
            .limits()
            .pause_after(tries)
            .min(LONGEST_WRITE_PAUSE);
        let until = Instant::now() + pause;
        while let StepOutcome::Event { .. } = bridge.step(None, until) {}
        true
    }
}

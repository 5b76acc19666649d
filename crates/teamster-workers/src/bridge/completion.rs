//! Ends a task after its agent has ended: only finished work is reported as done, and no work is thrown away.
//!
//! ```text
//! how the agent ended ─▶ TaskResolution ─▶ claim, changes and commit are checked ─▶ completed, blocked, failed or released
//! ```

use serde_json::json;
use teamster_agents::AgentVerdict;
use teamster_store::{Claimed, StoreError, StoreErrorKind};
use teamster_types::json::Object;
use teamster_types::paths::{Glob, any_matches};
use teamster_types::task::TaskResult;
use teamster_types::text::shown;

use super::reporter::Reporter;
use crate::attempt::{AttemptEnd, StopCause};
use crate::task_report::{ReportStatus, TaskReport};
use crate::workplace::{KeepAs, KeptWork, Workplace};

/// The longest reason that goes into a task and a message, in characters.
pub(super) const LONGEST_REASON: usize = 4_000;
/// The most changed files that are named in a result.
const NAMED_FILES: usize = 200;

/// How the agent's work on a task ended.
#[derive(Debug)]
pub(super) enum WorkOutcome {
    /// The agent ran until it ended.
    Ran(Box<AttemptEnd>),
    /// The agent never showed that it was running, for this reason; empty when the worker is to stop.
    NoLaunch(String),
    /// There is no workplace, for this reason.
    NoWorkplace(String),
    /// The finished work that the task depends on conflicts, for this reason.
    NoFoundation(String),
    /// The worker lost its claim on the task, for this reason.
    Lost(String),
}

/// The decision about a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TaskResolution {
    /// The task is completed, with this report.
    Completed(TaskReport),
    /// The agent needs an answer before it can continue, for this reason.
    Blocked(String),
    /// The attempt failed for this reason, and counts as a failure.
    Failed(String),
    /// The task is released, and the attempt does not count as a failure.
    Released { why: String, cause: ReleaseCause },
    /// The worker lost its claim on the task, for this reason.
    Lost(String),
}

/// Why a task is released without counting a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReleaseCause {
    /// The worker is to stop.
    Stopping,
    /// The worker's agent or workplace cannot be used.
    Worker,
}

impl TaskResolution {
    /// Decides what the end of the agent means for its task.
    pub(super) fn of(part: &WorkOutcome) -> Self {
        match part {
            WorkOutcome::Ran(end) => Self::of_attempt(end),
            WorkOutcome::NoLaunch(why) if why.is_empty() => Self::stopping(),
            WorkOutcome::NoLaunch(why) => Self::Released {
                why: format!("the agent did not start: {why}"),
                cause: ReleaseCause::Worker,
            },
            WorkOutcome::NoWorkplace(why) => Self::Released {
                why: why.clone(),
                cause: ReleaseCause::Worker,
            },
            WorkOutcome::NoFoundation(why) => Self::Blocked(why.clone()),
            WorkOutcome::Lost(why) => Self::Lost(why.clone()),
        }
    }

    fn of_attempt(end: &AttemptEnd) -> Self {
        match &end.cause {
            Some(StopCause::ClaimLost(why)) => return Self::Lost(why.clone()),
            Some(StopCause::TeamGone) => return Self::Lost("the team is gone".to_owned()),
            _ => {}
        }
        match &end.outcome.verdict {
            // An agent that had already finished when it was asked to stop counts as finished.
            AgentVerdict::Done { summary } => {
                let report = TaskReport::parse(summary);
                match report.status {
                    ReportStatus::Done => Self::Completed(report),
                    ReportStatus::Blocked => Self::Blocked(report.reason()),
                    ReportStatus::Failed => Self::Failed(report.reason()),
                }
            }
            AgentVerdict::Interrupted => Self::stopping(),
            // A worker that is not stopping would have waited for its provider and continued.
            AgentVerdict::Paused { class, reason } => Self::Released {
                why: format!("{}: {reason}; the worker is stopping", class.words()),
                cause: ReleaseCause::Stopping,
            },
            AgentVerdict::SessionGone { reason } => Self::Released {
                why: reason.clone(),
                cause: ReleaseCause::Worker,
            },
            AgentVerdict::Failed { reason } if !end.outcome.started => {
                let reason = format!("{reason}: {}", end.describe_failed_launch());
                Self::Failed(shown(&reason, LONGEST_REASON))
            }
            AgentVerdict::Failed { reason } => match &end.cause {
                Some(StopCause::Requested) => Self::stopping(),
                _ => Self::Failed(shown(reason, LONGEST_REASON)),
            },
        }
    }

    fn stopping() -> Self {
        Self::Released {
            why: "the worker is stopping".to_owned(),
            cause: ReleaseCause::Stopping,
        }
    }

    /// Returns the resolution as a line for the log.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Completed(report) => format!("done: {}", report.summary),
            Self::Blocked(why) => format!("blocked: {why}"),
            Self::Failed(why) => format!("failed: {why}"),
            Self::Released { why, .. } => format!("given back: {why}"),
            Self::Lost(why) => format!("no longer ours: {why}"),
        }
    }

    fn is_completed(&self) -> bool {
        matches!(self, Self::Completed(_))
    }
}

/// The end of a task: its work is kept, and its result is ready to be written to the store.
pub(super) struct Completion<'a> {
    claimed: &'a Claimed,
    resolution: TaskResolution,
    kept: KeptWork,
    /// Changed files outside of the paths that the task reserved.
    outside: Vec<String>,
}

impl<'a> Completion<'a> {
    /// Keeps the work, and changes the resolution if the claim, the changes or the commit do not allow it.
    pub(super) fn prepare(
        claimed: &'a Claimed,
        mut resolution: TaskResolution,
        reporter: &mut Reporter,
        workplace: &mut dyn Workplace,
    ) -> Self {
        // A result is pinned under the task's name in the repository, so the claim is checked again: a bridge that was
        // suspended for long may not know that another worker has done the task in the meantime.
        if resolution.is_completed()
            && let Some(why) = lost_claim(reporter, claimed)
        {
            resolution = TaskResolution::Lost(why);
        }
        let kept = match workplace.set_secrets_aside() {
            Ok(secrets) => {
                if !secrets.is_empty() {
                    let told = reporter.record_secrets(Some(claimed.task.id()), &secrets);
                    if matches!(
                        resolution,
                        TaskResolution::Completed(_) | TaskResolution::Blocked(_)
                    ) {
                        let why = format!("it changed what no worker may commit: {told}");
                        resolution = TaskResolution::Failed(shown(&why, LONGEST_REASON));
                    }
                }
                keep(claimed, &resolution, reporter, workplace)
            }
            // A commit could contain files that must not be committed.
            Err(error) => {
                let moved = workplace.take_secrets();
                if !moved.is_empty() {
                    reporter.record_secrets(Some(claimed.task.id()), &moved);
                }
                Err(error.to_string())
            }
        };
        let kept = kept.unwrap_or_else(|why| {
            // Without a commit, the work is not available to other workers.
            if resolution.is_completed() {
                resolution = TaskResolution::Failed(why);
            } else {
                reporter.say(&why);
            }
            KeptWork::default()
        });
        let outside = outside_reservation(&kept.files, &claimed.task.paths());
        Self {
            claimed,
            resolution,
            kept,
            outside,
        }
    }

    /// Returns the decision about the task.
    pub(super) fn resolution(&self) -> &TaskResolution {
        &self.resolution
    }

    /// Writes the result to the store, and notifies the lead.
    pub(super) fn write(&self, reporter: &mut Reporter) -> Result<(), StoreError> {
        let (id, token) = (self.claimed.task.id(), &self.claimed.token);
        let team = reporter.team().clone();
        let mut extra = Object::new();
        extra.insert("taskId".into(), json!(id));
        match &self.resolution {
            TaskResolution::Completed(report) => {
                let (summary, files) = (&report.summary, &self.kept.files);
                let result = json!(TaskResult {
                    summary: Some(summary.clone()),
                    handover: Some(report.handover.clone()),
                    problems: report.problems.clone(),
                    reported_done: report.in_block,
                    commit: self.kept.commit.clone(),
                    base: self.kept.base.clone(),
                    kept_as: self.kept.name.clone(),
                    files: files.iter().take(NAMED_FILES).cloned().collect(),
                    file_count: files.len(),
                    needs_review: !self.outside.is_empty(),
                    outside_reservation: self.outside.clone(),
                });
                let completed = reporter.store().complete(&team, id, token, Some(result));
                if let Err(error) = completed
                    && !self.is_taken_already(&error, reporter)
                {
                    return Err(error);
                }
                extra.insert("summary".into(), json!(summary));
                if let Some(commit) = &self.kept.commit {
                    extra.insert("commit".into(), json!(commit));
                }
                reporter.say(&format!("task {id} is done"));
                reporter.send_to_lead("task_complete", summary, extra);
            }
            TaskResolution::Blocked(why) => {
                reporter.store().block(&team, id, token, why)?;
                let text = format!("task {id} is blocked: {why}");
                reporter.say(&text);
                reporter.send_to_lead("message", &text, extra);
            }
            TaskResolution::Failed(why) => {
                reporter.store().fail(&team, id, token, why)?;
                extra.insert("error".into(), json!(why));
                reporter.say(&format!("task {id} failed: {why}"));
                reporter.send_to_lead("task_failed", why, extra);
            }
            TaskResolution::Released { why, .. } => {
                let worker = reporter.name().into();
                reporter.store().release(&team, &worker, id, Some(token))?;
                reporter.say(&format!("task {id} is given back: {why}"));
            }
            TaskResolution::Lost(why) => {
                reporter.say(&format!("task {id} is no longer ours: {why}"));
            }
        }
        Ok(())
    }

    /// Returns whether the store already has this result from an earlier attempt to write it whose reply was lost.
    fn is_taken_already(&self, error: &StoreError, reporter: &Reporter) -> bool {
        let (claimed, team) = (self.claimed, reporter.team());
        error.kind == StoreErrorKind::Conflict
            && !error.busy
            && reporter
                .store()
                .task(team, claimed.task.id())
                .is_ok_and(|task| {
                    task.is_done()
                        && task.fence() == claimed.fence
                        && task.commit() == self.kept.commit.as_deref()
                })
    }

    /// Reports where the work is kept that the store did not accept, so that a person can use it.
    pub(super) fn give_up(
        &mut self,
        error: &StoreError,
        reporter: &mut Reporter,
        workplace: &mut dyn Workplace,
    ) {
        if error.kind == StoreErrorKind::Conflict && self.resolution.is_completed() {
            match workplace.revert_result(&self.claimed.task, self.claimed.fence) {
                Ok(name) => self.kept.name = name,
                Err(error) => reporter.say(&error.to_string()),
            }
        }
        let id = self.claimed.task.id();
        let place = self.kept.name.as_deref().unwrap_or("the worktree");
        reporter.say(&format!(
            "task {id} could not be ended: {error}; the work is kept in {place}"
        ));
        if error.kind == StoreErrorKind::NotFound {
            return;
        }
        let mut extra = Object::new();
        extra.insert("taskId".into(), json!(id));
        extra.insert("error".into(), json!(error.message));
        let text = format!("{error}; the work is kept in {place}");
        reporter.send_to_lead("error", &text, extra);
    }
}

/// Returns why the claim on a task is lost, or `None` while it is held or cannot be checked: then the store decides when
/// the result is written.
pub(super) fn lost_claim(reporter: &Reporter, claimed: &Claimed) -> Option<String> {
    let (id, token) = (claimed.task.id(), &claimed.token);
    match reporter.store().renew(reporter.team(), id, token, None) {
        Err(error) if error.is_decision() => Some(error.message),
        _ => None,
    }
}

/// Returns those of `changes` that lie outside of the paths that the task reserved; a task without reservations may change
/// any file.
fn outside_reservation(changes: &[String], reserved: &[String]) -> Vec<String> {
    if reserved.is_empty() {
        return Vec::new();
    }
    // An invalid glob matches nothing, so the files that it was meant for are reported to a person.
    let globs: Vec<Glob> = reserved
        .iter()
        .filter_map(|text| Glob::new(text).ok())
        .collect();
    changes
        .iter()
        .filter(|path| !any_matches(&globs, path))
        .cloned()
        .collect()
}

fn keep(
    claimed: &Claimed,
    resolution: &TaskResolution,
    reporter: &Reporter,
    workplace: &mut dyn Workplace,
) -> Result<KeptWork, String> {
    let task = &claimed.task;
    let (keep, state) = match resolution {
        TaskResolution::Completed(_) => (KeepAs::Result, "completed"),
        TaskResolution::Blocked(_) => (KeepAs::Attempt(claimed.fence), "blocked"),
        TaskResolution::Failed(_) => (KeepAs::Attempt(claimed.fence), "failed attempt"),
        TaskResolution::Released { .. } => (KeepAs::Attempt(claimed.fence), "unfinished"),
        TaskResolution::Lost(_) => (KeepAs::Attempt(claimed.fence), "lost claim"),
    };
    let message = format!(
        "{}\n\nTeamster-Task: {}\nTeamster-Worker: {}\nTeamster-State: {state}\n",
        task.subject(),
        task.id(),
        reporter.name(),
    );
    workplace
        .keep(task, keep, &message)
        .map_err(|error| format!("what the agent did cannot be committed: {error}"))
}

#[cfg(test)]
mod tests {
    use teamster_agents::{AgentOutcome, AgentSpending, ErrorClass, Exit};

    use super::*;

    fn ended(verdict: AgentVerdict, cause: Option<StopCause>) -> WorkOutcome {
        WorkOutcome::Ran(Box::new(AttemptEnd {
            outcome: AgentOutcome {
                verdict,
                started: true,
                session: None,
                spent: AgentSpending::default(),
                limit: None,
            },
            cause,
            command: "agent".to_owned(),
            exit: Exit::Code(1),
            last_lines: Vec::new(),
            leftover: 0,
            has_shown_life: true,
        }))
    }

    fn failed() -> AgentVerdict {
        AgentVerdict::Failed {
            reason: "exit code 1".to_owned(),
        }
    }

    #[test]
    fn agent_that_finished_before_it_obeyed_the_stop_has_completed_its_task() {
        let done = AgentVerdict::Done {
            summary: "all done".to_owned(),
        };
        let part = ended(done, Some(StopCause::Requested));
        assert_eq!(
            TaskResolution::of(&part),
            TaskResolution::Completed(TaskReport::parse("all done"))
        );
    }

    #[test]
    fn what_the_agent_reports_outweighs_that_its_client_ended_well() {
        let resolution = |status: &str| {
            let summary = format!(
                "I tried.\n```teamster\n{{\"status\": \"{status}\", \"summary\": \"No key.\"}}\n```"
            );
            TaskResolution::of(&ended(AgentVerdict::Done { summary }, None))
        };
        let no_key = || "No key.".to_owned();
        assert_eq!(resolution("blocked"), TaskResolution::Blocked(no_key()));
        assert_eq!(resolution("failed"), TaskResolution::Failed(no_key()));
        assert!(resolution("done").is_completed());
    }

    #[test]
    fn agent_that_failed_because_it_was_stopped_costs_no_attempt() {
        let part = ended(failed(), Some(StopCause::Requested));
        assert_eq!(TaskResolution::of(&part), TaskResolution::stopping());
        let part = ended(failed(), Some(StopCause::Late));
        assert_eq!(
            TaskResolution::of(&part),
            TaskResolution::Failed("exit code 1".to_owned())
        );
    }

    #[test]
    fn lost_claim_outweighs_every_verdict() {
        let done = AgentVerdict::Done {
            summary: String::new(),
        };
        let part = ended(done, Some(StopCause::ClaimLost("taken over".to_owned())));
        assert_eq!(
            TaskResolution::of(&part),
            TaskResolution::Lost("taken over".to_owned())
        );
    }

    #[test]
    fn worker_that_is_to_stop_while_its_provider_is_limited_gives_its_task_back() {
        let paused = AgentVerdict::Paused {
            class: ErrorClass::RateLimit,
            reason: "429".to_owned(),
        };
        assert_eq!(
            TaskResolution::of(&ended(paused, None)),
            TaskResolution::Released {
                why: "rate limit: 429; the worker is stopping".to_owned(),
                cause: ReleaseCause::Stopping
            }
        );
    }

    #[test]
    fn change_outside_of_the_reservation_is_named() {
        let changes = ["src/a.rs", "docs/b.md"].map(str::to_owned);
        assert_eq!(
            outside_reservation(&changes, &["src/**".to_owned()]),
            ["docs/b.md"]
        );
        assert!(outside_reservation(&changes, &[]).is_empty());
    }
}

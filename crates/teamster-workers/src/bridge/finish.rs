//! What becomes of a task once its agent has ended: nothing is called done that is not, and nothing is thrown away.

use std::time::{Duration, Instant};

use serde_json::json;
use teamster_agents::{AgentOutcome, AgentVerdict};
use teamster_journal::EventKind;
use teamster_journal::payload::{WorkerPaused, WorkerQuarantined};
use teamster_store::{Claimed, Kind, StoreError};
use teamster_types::health::Verdict as Health;
use teamster_types::json::Object;
use teamster_types::redact::{clean, redact};
use teamster_types::task::Task;

use super::Bridge;
use super::attempt::{Cut, Ran};
use super::log::Log;
use super::work::Ended;
use crate::guard;
use crate::usage::used;
use crate::workplace::{KeepAs, KeptWork};

/// The longest summary that goes into a task and a message.
const SUMMARY: usize = 4_000;
/// A result that could not be written is offered again after this time.
const TRY_AGAIN: Duration = Duration::from_secs(10);
/// Changed files that are named in a result.
const NAMED_FILES: usize = 200;

/// What is done with a task.
#[derive(Debug)]
enum Fate {
    /// It is done, with this summary.
    Done(String),
    /// The attempt failed, and counts.
    Failed(String),
    /// It goes back without a word against it: the trouble is not the task's. The worker waits if told so.
    GivenBack { why: String, fault: Fault },
    /// It is not ours any more.
    Lost(String),
}

impl Fate {
    /// In words, for the log.
    fn words(&self) -> String {
        match self {
            Self::Done(summary) => format!("done: {summary}"),
            Self::Failed(why) => format!("failed: {why}"),
            Self::GivenBack { why, .. } => format!("given back: {why}"),
            Self::Lost(why) => format!("not ours any more: {why}"),
        }
    }
}

/// Whose fault it is that a task goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Nobody's: the worker is to stop.
    Nobody,
    /// The model's server, or the way to it.
    Service,
    /// The worker's own: its agent or its place.
    Worker,
}

impl Bridge {
    pub(super) fn finish(&mut self, claimed: &Claimed, ended: &Ended, log: Option<&Log>) {
        let mut fate = match ended {
            Ended::Ran(ran) => fate_of(ran),
            Ended::NoLaunch(why) if why.is_empty() => Fate::GivenBack {
                why: "the worker is to stop".to_owned(),
                fault: Fault::Nobody,
            },
            Ended::NoLaunch(why) => Fate::GivenBack {
                why: format!("the agent did not start: {why}"),
                fault: Fault::Worker,
            },
            Ended::NoPlace(why) => Fate::GivenBack {
                why: why.clone(),
                fault: Fault::Worker,
            },
        };
        if let Ended::Ran(ran) = ended {
            self.record_usage(&claimed.task, &ran.outcome);
            if ran.left > 0 {
                let left = ran.left;
                self.tell(&format!(
                    "ended {left} processes that the agent left behind"
                ));
            }
        }
        // A result takes the task's own name in the repository, so it is looked once more whose the task is: a bridge
        // that was stopped for long may not know that somebody else has done it meanwhile.
        if matches!(fate, Fate::Done(_))
            && let Some(why) = self.is_lost(claimed)
        {
            fate = Fate::Lost(why);
        }
        let mut outside = Vec::new();
        if matches!(fate, Fate::Done(_)) {
            match self.check_changes(&claimed.task) {
                Ok(found) => outside = found,
                Err(why) => fate = Fate::Failed(why),
            }
        }
        let mut kept = match self.keep(claimed, &fate) {
            Ok(kept) => kept,
            Err(why) => {
                // Without its commit the work is not there for anybody else.
                if matches!(fate, Fate::Done(_)) {
                    fate = Fate::Failed(why);
                } else {
                    self.tell(&why);
                }
                KeptWork::default()
            }
        };
        self.log_line(log, &fate.words());
        let mut tries = 0;
        while let Err(error) = self.settle(claimed, &fate, &kept, &outside) {
            tries += 1;
            if !self.may_try_again(&error, tries) {
                if error.kind == Kind::Conflict && matches!(fate, Fate::Done(_)) {
                    match self.workplace.take_back(&claimed.task, claimed.fence) {
                        Ok(name) => kept.name = name,
                        Err(error) => self.tell(&error.to_string()),
                    }
                }
                self.settling_failed(claimed, &error, &kept);
                break;
            }
        }
        self.count(&fate);
    }

    /// Whether the task is somebody else's by now, and why. When nobody can tell, it is told when the task is ended.
    pub(super) fn is_lost(&self, claimed: &Claimed) -> Option<String> {
        let (id, token) = (claimed.task.id(), &claimed.token);
        match self.store.renew(&self.who.team, id, token, None) {
            Err(error) if !error.busy && matches!(error.kind, Kind::Conflict | Kind::NotFound) => {
                Some(error.message)
            }
            _ => None,
        }
    }

    /// Looks at what was really changed: a denied path fails the attempt, a path outside the reservation is told.
    fn check_changes(&self, task: &Task) -> Result<Vec<String>, String> {
        let changes = self
            .workplace
            .changes()
            .map_err(|error| error.to_string())?;
        let denied = guard::denied(&changes);
        if !denied.is_empty() {
            return Err(format!(
                "it changed what no worker may change: {}",
                denied.join(", ")
            ));
        }
        Ok(guard::outside(&changes, &task.paths()))
    }

    fn keep(&mut self, claimed: &Claimed, fate: &Fate) -> Result<KeptWork, String> {
        let task = &claimed.task;
        let (keep, what) = match fate {
            Fate::Done(_) => (KeepAs::Result, "completed"),
            Fate::Failed(_) => (KeepAs::Attempt(claimed.fence), "failed attempt"),
            Fate::GivenBack { .. } => (KeepAs::Attempt(claimed.fence), "unfinished"),
            Fate::Lost(_) => (KeepAs::Attempt(claimed.fence), "lost claim"),
        };
        let message = format!(
            "{}\n\nTeamster-Task: {}\nTeamster-Worker: {}\nTeamster-State: {what}\n",
            task.subject(),
            task.id(),
            self.who.name,
        );
        self.workplace
            .keep(task, keep, &message)
            .map_err(|error| format!("what the agent did cannot be committed: {error}"))
    }

    fn settle(
        &mut self,
        claimed: &Claimed,
        fate: &Fate,
        kept: &KeptWork,
        outside: &[String],
    ) -> Result<(), StoreError> {
        let (team, id, token) = (&self.who.team, claimed.task.id(), &claimed.token);
        let mut extra = Object::new();
        extra.insert("taskId".into(), json!(id));
        match fate {
            Fate::Done(summary) => {
                let result = json!({
                    "summary": summary,
                    "commit": kept.commit,
                    "base": kept.base,
                    "ref": kept.name,
                    "files": kept.files.iter().take(NAMED_FILES).collect::<Vec<_>>(),
                    "fileCount": kept.files.len(),
                    "outsideReservation": outside,
                    "review": !outside.is_empty(),
                });
                self.store.complete(team, id, token, Some(result))?;
                extra.insert("summary".into(), json!(summary));
                if let Some(commit) = &kept.commit {
                    extra.insert("commit".into(), json!(commit));
                }
                self.tell(&format!("task {id} is done"));
                self.send("task_complete", summary, extra);
            }
            Fate::Failed(why) => {
                self.store.fail(team, id, token, why)?;
                extra.insert("error".into(), json!(why));
                self.tell(&format!("task {id} failed: {why}"));
                self.send("task_failed", why, extra);
            }
            Fate::GivenBack { why, .. } => {
                let worker = self.who.name.as_str();
                self.store.release(team, worker, id, Some(token))?;
                self.tell(&format!("task {id} is given back: {why}"));
            }
            Fate::Lost(why) => self.tell(&format!("task {id} is not ours any more: {why}")),
        }
        Ok(())
    }

    /// Whether a result that the store could not take is offered again, after a while. Nobody else can end the task while
    /// we live, so a full disk must not make us drop it; whoever wants us to stop need not wait for ever.
    fn may_try_again(&mut self, error: &StoreError, tries: u32) -> bool {
        let may_pass = error.busy || error.kind == Kind::Unreachable;
        if !may_pass || self.gone || (self.stop.is_some() && tries > 3) {
            return false;
        }
        if tries == 1 {
            self.tell(&format!("the result cannot be written yet: {error}"));
        }
        let until = Instant::now() + self.limits.pause_after(tries).min(TRY_AGAIN);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.events.recv_timeout(left) {
                Ok(event) => drop(self.idle_event(event)),
                Err(_) => return true,
            }
        }
    }

    /// The store did not take the result. What the agent did is kept, so that a person can use it.
    fn settling_failed(&mut self, claimed: &Claimed, error: &StoreError, kept: &KeptWork) {
        let id = claimed.task.id();
        let place = kept.name.as_deref().unwrap_or("the worktree");
        self.tell(&format!(
            "task {id} could not be ended: {error}; the work is kept in {place}"
        ));
        if error.kind == Kind::NotFound {
            return;
        }
        let mut extra = Object::new();
        extra.insert("taskId".into(), json!(id));
        extra.insert("error".into(), json!(error.message));
        let text = format!("{error}; the work is kept in {place}");
        self.send("error", &text, extra);
    }

    /// Counts errors and troubles in a row; too many errors quarantine the worker.
    fn count(&mut self, fate: &Fate) {
        match fate {
            Fate::Done(_) => {
                self.errors = 0;
                self.troubles = 0;
            }
            Fate::Failed(why)
            | Fate::GivenBack {
                fault: Fault::Worker,
                why,
            } => self.error(why),
            Fate::GivenBack {
                fault: Fault::Service,
                why,
            } => {
                self.troubles += 1;
                let pause = self.limits.pause_after(self.troubles);
                self.paused_until = Some(Instant::now() + pause);
                self.tell(&format!("waits {} s: {why}", pause.as_secs()));
                let event = self.event(EventKind::WorkerPaused(WorkerPaused {
                    seconds: pause.as_secs(),
                    reason: clean(&redact(why), SUMMARY).into_owned(),
                }));
                self.record(event);
            }
            Fate::GivenBack { .. } | Fate::Lost(_) => {}
        }
    }

    fn error(&mut self, why: &str) {
        self.errors += 1;
        if self.is_quarantined() {
            self.tell(&format!(
                "takes no more tasks after {} errors in a row; `teamster worker resume {}` lets it go on",
                self.errors, self.who.name
            ));
            let event = self.event(EventKind::WorkerQuarantined(WorkerQuarantined {
                worker: Some(self.who.name.to_string()),
                verdict: Health::Quarantined.as_str().to_owned(),
                evidence: vec![format!("{} errors in a row", self.errors)],
                errors: self.errors,
                reason: clean(&redact(why), SUMMARY).into_owned(),
            }));
            self.record(event);
        }
    }

    fn record_usage(&mut self, task: &Task, outcome: &AgentOutcome) {
        let spent = &outcome.spent;
        if spent.usage.is_none() && spent.cost_usd.is_none() {
            return;
        }
        let who = self.who.name.as_str();
        let event = used(who, &self.who.provider, self.model.as_deref(), spent).task(task.id());
        self.record(event);
    }
}

/// What a run means for its task.
fn fate_of(ran: &Ran) -> Fate {
    match &ran.cut {
        Some(Cut::Lost(why)) => return Fate::Lost(why.clone()),
        Some(Cut::NoTeam) => return Fate::Lost("the team is gone".to_owned()),
        _ => {}
    }
    match &ran.outcome.verdict {
        // An agent that had finished when it was asked to stop has finished.
        AgentVerdict::Done { summary } => Fate::Done(short(summary)),
        AgentVerdict::Interrupted => Fate::GivenBack {
            why: "the worker is to stop".to_owned(),
            fault: Fault::Nobody,
        },
        AgentVerdict::Paused { trouble, reason } => Fate::GivenBack {
            why: format!("{}: {reason}", trouble.words()),
            fault: Fault::Service,
        },
        AgentVerdict::SessionGone { reason } => Fate::GivenBack {
            why: reason.clone(),
            fault: Fault::Worker,
        },
        AgentVerdict::Failed { reason } if !ran.outcome.started => {
            Fate::Failed(short(&format!("{reason}: {}", ran.say_failed_launch())))
        }
        AgentVerdict::Failed { reason } => match &ran.cut {
            Some(Cut::Asked) => Fate::GivenBack {
                why: "the worker is to stop".to_owned(),
                fault: Fault::Nobody,
            },
            _ => Fate::Failed(short(reason)),
        },
    }
}

fn short(text: &str) -> String {
    clean(&redact(text), SUMMARY).into_owned()
}

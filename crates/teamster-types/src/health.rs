//! The health of a worker: one function that every surface calls, with the evidence in words.
//!
//! [`judge`] is that function. A verdict is derived from two independent facts: the heartbeat that the bridge wrote,
//! and the state of its process according to the operating system. A missing file proves nothing, so a worker is never
//! declared dead unless its process is proven gone; and the state of a process that cannot be checked from here
//! (another machine) is never guessed.
//!
//! | heartbeat | process alive | process gone | only its pid gone | process cannot be judged |
//! |---|---|---|---|---|
//! | fresh | what it says | dead | what it says | what it says |
//! | stale | hung | dead | dead | unknown |
//! | ahead of our clock | what it says | dead | dead | unknown |
//! | missing | unknown | dead | | unknown |
//!
//! "What it says" is quarantined, limited, silent, at-risk or healthy, checked in this order. A heartbeat with nothing
//! but a pid may come from another machine, so the missing pid counts only once the heartbeat is not fresh. A heartbeat
//! is ahead of our clock when it is further in the future than a stale one is in the past: the clock was set back since
//! it was written, so its age says nothing, and a running process is not called hung because of it.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Time;
use crate::heartbeat::{Heartbeat, WorkerStatus};
use crate::phrase::{Phrase, PhraseCode};
use crate::process::{ProcessId, ProcessState};
use crate::time::say_span;

/// How far a heartbeat may be ahead of our clock before the evidence mentions it.
const CLOCK_SLACK: Duration = Duration::from_secs(5);

/// The health of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Its heartbeat is fresh and it has no problems.
    Healthy,
    /// Its heartbeat is fresh, and it failed more than once in a row.
    AtRisk,
    /// It failed too often in a row, or reports itself as quarantined: it takes no task until a person resumes it.
    Quarantined,
    /// Its heartbeat is fresh, and it waits until its provider is usable again. No action is needed.
    Limited,
    /// Its heartbeat is fresh, but its agent has produced no event for a long time.
    Silent,
    /// Its heartbeat is stale, and its process runs.
    Hung,
    /// Its process is proven gone.
    Dead,
    /// There is not enough evidence; no action may be based on this verdict.
    Unknown,
}

impl Verdict {
    /// Returns the name that people and programs read.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::AtRisk => "at-risk",
            Self::Quarantined => "quarantined",
            Self::Limited => "limited",
            Self::Silent => "silent",
            Self::Hung => "hung",
            Self::Dead => "dead",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A verdict and its evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assessment {
    /// How the worker is doing.
    pub verdict: Verdict,
    /// The evidence, in words; never empty.
    pub evidence: Vec<Phrase>,
}

impl fmt::Display for Assessment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.verdict, self.evidence.join(", "))
    }
}

/// The thresholds of the verdicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The age at which a heartbeat is stale.
    pub stale: Duration,
    /// The time without an event after which an agent that executes a task is silent.
    pub silent: Duration,
    /// The number of errors in a row that makes a worker at-risk.
    pub at_risk_errors: u32,
    /// The number of errors in a row that quarantines it.
    pub quarantine_errors: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            stale: Duration::from_secs(30),
            silent: Duration::from_secs(5 * 60),
            at_risk_errors: 2,
            quarantine_errors: 3,
        }
    }
}

/// Judges a worker by its heartbeat and the process behind it, or, without a heartbeat, by the process that was
/// `recorded` at its launch. `process_state` returns whether a process is alive.
///
/// An agent counts as silent only while its bridge executes a task: an idle one has nothing to report. The time is
/// counted from `lastEventAt`, which the bridge clears when it takes a task; before the first event no agent is called
/// silent.
pub fn judge(
    now: Time,
    heartbeat: Option<&Heartbeat>,
    recorded: Option<&ProcessId>,
    process_state: impl Fn(&ProcessId) -> ProcessState,
    limits: &Limits,
) -> Assessment {
    let life = match (heartbeat, recorded) {
        (Some(heartbeat), _) => match heartbeat.process() {
            Some(process) => process_state(&process),
            // A running process with this pid may be a different one.
            None if process_state(&heartbeat.pid_alone()) == ProcessState::Gone => {
                ProcessState::Gone
            }
            None => ProcessState::Unknown,
        },
        (None, Some(recorded)) => process_state(recorded),
        (None, None) => ProcessState::Unknown,
    };
    assess(now, heartbeat, life, limits)
}

/// Judges a worker by its heartbeat and the known state of its process.
fn assess(
    now: Time,
    heartbeat: Option<&Heartbeat>,
    life: ProcessState,
    limits: &Limits,
) -> Assessment {
    let Some(heartbeat) = heartbeat else {
        return assess_without_heartbeat(life);
    };
    let mut evidence = vec![say_age(now, heartbeat.last_poll_at)];
    let pid = heartbeat.pid;
    let is_fresh = heartbeat.is_fresh(now, limits.stale);
    let by_pid_alone = heartbeat.process().is_none();
    if life == ProcessState::Gone && !(is_fresh && by_pid_alone) {
        let code = if by_pid_alone {
            PhraseCode::PidGoneAlone
        } else {
            PhraseCode::PidGone
        };
        evidence.push(Phrase::new(code, [("pid", &pid)]));
        let verdict = Verdict::Dead;
        return Assessment { verdict, evidence };
    }
    if is_fresh {
        let verdict = assess_what_it_says(now, heartbeat, limits, &mut evidence);
        return Assessment { verdict, evidence };
    }
    let verdict = match life {
        ProcessState::Alive if heartbeat.last_poll_at > now => {
            evidence.push(Phrase::new(PhraseCode::PidAlive, [("pid", &pid)]));
            assess_what_it_says(now, heartbeat, limits, &mut evidence)
        }
        ProcessState::Alive => {
            evidence.push(Phrase::new(PhraseCode::PidAlive, [("pid", &pid)]));
            Verdict::Hung
        }
        ProcessState::Unknown | ProcessState::Gone => {
            evidence.push(match &heartbeat.host {
                Some(host) => {
                    Phrase::new(PhraseCode::PidElsewhere, [("pid", &pid), ("host", host)])
                }
                None => Phrase::new(PhraseCode::PidNotJudged, [("pid", &pid)]),
            });
            // Its last status is old, so it is evidence only and does not decide.
            assess_what_it_says(now, heartbeat, limits, &mut evidence);
            Verdict::Unknown
        }
    };
    Assessment { verdict, evidence }
}

fn assess_without_heartbeat(life: ProcessState) -> Assessment {
    let (verdict, process) = match life {
        ProcessState::Gone => (Verdict::Dead, PhraseCode::ProcessGone),
        ProcessState::Alive => (Verdict::Unknown, PhraseCode::ProcessAlive),
        ProcessState::Unknown => (Verdict::Unknown, PhraseCode::NoProcess),
    };
    Assessment {
        verdict,
        evidence: [PhraseCode::NoHeartbeat, process]
            .map(|code| Phrase::new(code, []))
            .into(),
    }
}

/// Returns the verdict that the heartbeat's content implies, whatever its age, and adds the reason to the evidence.
fn assess_what_it_says(
    now: Time,
    heartbeat: &Heartbeat,
    limits: &Limits,
    evidence: &mut Vec<Phrase>,
) -> Verdict {
    let errors = heartbeat.consecutive_errors;
    if errors > 0 {
        evidence.push(match errors {
            1 => Phrase::new(PhraseCode::OneError, []),
            _ => Phrase::new(PhraseCode::ErrorsInARow, [("count", &errors)]),
        });
    }
    if heartbeat.status == WorkerStatus::Quarantined {
        evidence.push(Phrase::new(PhraseCode::SaysQuarantined, []));
        return Verdict::Quarantined;
    }
    if errors >= limits.quarantine_errors {
        return Verdict::Quarantined;
    }
    if let Some(limit) = &heartbeat.limit {
        evidence.push(limit.phrase());
        return Verdict::Limited;
    }
    if heartbeat.status == WorkerStatus::Executing
        && let Some(last_event_at) = heartbeat.last_event_at
        && now.since(last_event_at) >= limits.silent
    {
        let quiet = say_span(now.since(last_event_at));
        evidence.push(match &heartbeat.current_task_id {
            Some(task) => Phrase::new(
                PhraseCode::AgentQuietOnTask,
                [("quiet", &quiet), ("task", task)],
            ),
            None => Phrase::new(PhraseCode::AgentQuiet, [("quiet", &quiet)]),
        });
        return Verdict::Silent;
    }
    if errors >= limits.at_risk_errors {
        return Verdict::AtRisk;
    }
    Verdict::Healthy
}

fn say_age(now: Time, last_poll_at: Time) -> Phrase {
    let ahead = last_poll_at.since(now);
    if ahead > CLOCK_SLACK {
        Phrase::new(PhraseCode::HeartbeatAhead, [("ahead", &say_span(ahead))])
    } else {
        let age = say_span(now.since(last_poll_at));
        Phrase::new(PhraseCode::HeartbeatOld, [("age", &age)])
    }
}

#[cfg(test)]
#[path = "health_tests.rs"]
mod tests;

//! How a worker is doing: one function that every surface asks, with the evidence in words.
//!
//! [`judge`] is that function. A verdict is derived from two independent facts: the heartbeat the bridge wrote and what the
//! system says about its process. A missing file proves nothing, so nobody is called dead without a process
//! that is proven gone; and a process that cannot be judged from here (another machine) is never guessed about.
//!
//! | heartbeat | process alive | process gone | only its pid gone | process cannot be judged |
//! |---|---|---|---|---|
//! | fresh | what it says | dead | what it says | what it says |
//! | stale | hung | dead | dead | unknown |
//! | ahead of our clock | what it says | dead | dead | unknown |
//! | missing | unknown | dead | | unknown |
//!
//! "What it says" is quarantined, limited, silent, at-risk or healthy, looked at in this order. A heartbeat that tells no more than a
//! pid may be of another machine, so the missing pid counts only once the heartbeat is not fresh. A heartbeat is ahead of our
//! clock when it is further in the future than a stale one is in the past: the clock was set back since it was written, so
//! its age says nothing, and a process that runs is not called hung for it.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Time;
use crate::heartbeat::{Heartbeat, WorkerStatus};
use crate::phrase::{Phrase, PhraseCode};
use crate::process::{Life, ProcessId};
use crate::time::say_span;

/// How far a heartbeat may be ahead of our clock before the evidence says so.
const CLOCK_SLACK: Duration = Duration::from_secs(5);

/// How a worker is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It beats and has no trouble.
    Healthy,
    /// It beats, and failed more than once in a row.
    AtRisk,
    /// It failed too often in a row, or says itself that it is quarantined: it takes no task until a person resumes it.
    Quarantined,
    /// It beats and waits until its provider can be used again. Nobody has to do anything.
    Limited,
    /// Its bridge beats, but the agent under it has said nothing for long.
    Silent,
    /// It does not beat any more, and its process runs.
    Hung,
    /// Its process is proven gone.
    Dead,
    /// There is not enough to judge by; nothing may be done to it because of this verdict.
    Unknown,
}

impl Verdict {
    /// Returns the word that people and programs read.
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

/// A verdict and what it rests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assessment {
    /// How the worker is doing.
    pub verdict: Verdict,
    /// Why this is the verdict, in words; never empty.
    pub evidence: Vec<Phrase>,
}

impl fmt::Display for Assessment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.verdict, self.evidence.join(", "))
    }
}

/// The limits at which one verdict turns into another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The age from which on a heartbeat is stale.
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

/// Judges a worker by its heartbeat and the process behind that, or, without a heartbeat, by the process that was `recorded`
/// at its launch. `life` tells whether a process lives.
///
/// An agent is silent only while its bridge executes a task: an idle one has nothing to say. The time is counted from
/// `lastEventAt`, which the bridge clears when it takes a task; before the first event nothing is called silent.
pub fn judge(
    now: Time,
    heartbeat: Option<&Heartbeat>,
    recorded: Option<&ProcessId>,
    life: impl Fn(&ProcessId) -> Life,
    limits: &Limits,
) -> Assessment {
    let life = match (heartbeat, recorded) {
        (Some(heartbeat), _) => match heartbeat.process() {
            Some(process) => life(&process),
            // A process that has the pid may be any other.
            None if life(&heartbeat.pid_alone()) == Life::Gone => Life::Gone,
            None => Life::Unknown,
        },
        (None, Some(recorded)) => life(recorded),
        (None, None) => Life::Unknown,
    };
    assess(now, heartbeat, life, limits)
}

/// Judges a worker by its heartbeat and by what is known about its process.
fn assess(now: Time, heartbeat: Option<&Heartbeat>, life: Life, limits: &Limits) -> Assessment {
    let Some(heartbeat) = heartbeat else {
        return assess_without_heartbeat(life);
    };
    let mut evidence = vec![say_age(now, heartbeat.last_poll_at)];
    let pid = heartbeat.pid;
    let is_fresh = heartbeat.is_fresh(now, limits.stale);
    let by_pid_alone = heartbeat.process().is_none();
    if life == Life::Gone && !(is_fresh && by_pid_alone) {
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
        Life::Alive if heartbeat.last_poll_at > now => {
            evidence.push(Phrase::new(PhraseCode::PidAlive, [("pid", &pid)]));
            assess_what_it_says(now, heartbeat, limits, &mut evidence)
        }
        Life::Alive => {
            evidence.push(Phrase::new(PhraseCode::PidAlive, [("pid", &pid)]));
            Verdict::Hung
        }
        Life::Unknown | Life::Gone => {
            evidence.push(match &heartbeat.host {
                Some(host) => {
                    Phrase::new(PhraseCode::PidElsewhere, [("pid", &pid), ("host", host)])
                }
                None => Phrase::new(PhraseCode::PidNotJudged, [("pid", &pid)]),
            });
            // What it last said is old, so it is evidence and no verdict.
            assess_what_it_says(now, heartbeat, limits, &mut evidence);
            Verdict::Unknown
        }
    };
    Assessment { verdict, evidence }
}

fn assess_without_heartbeat(life: Life) -> Assessment {
    let (verdict, process) = match life {
        Life::Gone => (Verdict::Dead, PhraseCode::ProcessGone),
        Life::Alive => (Verdict::Unknown, PhraseCode::ProcessAlive),
        Life::Unknown => (Verdict::Unknown, PhraseCode::NoProcess),
    };
    Assessment {
        verdict,
        evidence: [PhraseCode::NoHeartbeat, process]
            .map(|code| Phrase::new(code, []))
            .into(),
    }
}

/// Returns what the heartbeat says about its worker, whatever its age, and adds why to the evidence.
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

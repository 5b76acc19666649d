//! Which teams exist, and whether any of their processes are alive.

use std::fmt;

use serde::Serialize;
use teamster_store::{ReadStore, Result, TeamEntry};
use teamster_types::TeamName;
use teamster_types::health::{Limits, Verdict};
use teamster_types::heartbeat::Heartbeat;
use teamster_types::process::{ProcessId, ProcessState};
use teamster_types::progress::Progress;
use teamster_types::task::Status;
use teamster_types::team::{TeamConfig, TeamOrigin};
use teamster_types::transitions::HEARTBEAT_FRESH;

use crate::model::{RunNow, Viewed, run_now};
use crate::native::LeadStatus;
use crate::workers::assess;

/// One team, as `team list` shows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TeamListRow {
    /// The name of its folder.
    pub name: String,
    /// The program that created the team; `None` when its registry cannot be read.
    pub kind: Option<TeamOrigin>,
    /// The project it works on.
    pub project: Option<String>,
    /// How many workers it has.
    pub members: usize,
    /// Whether it is active.
    pub state: Viewed,
    /// What is wrong with its registry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A function that looks up the state of a team's run.
pub(crate) type RunLookup<'a> = &'a dyn Fn(&TeamName) -> Result<RunNow>;

/// Returns the row of a listed team.
pub fn row(read: &dyn ReadStore, entry: &TeamEntry) -> TeamListRow {
    row_by(read, entry, &|team| run_now(read, team))
}

/// Returns the row of a listed team. `run` looks up the state of its run, if nothing else shows whether the team has
/// ended.
pub(crate) fn row_by(read: &dyn ReadStore, entry: &TeamEntry, run: RunLookup<'_>) -> TeamListRow {
    let config = entry.config.as_ref();
    TeamListRow {
        name: entry.name.clone(),
        kind: config.ok().map(TeamConfig::kind),
        project: config
            .ok()
            .and_then(|config| config.project().map(str::to_owned)),
        members: config.map_or(0, |config| config.members().len()),
        state: state(read, entry, run),
        problem: config.err().cloned(),
    }
}

/// Returns whether a team is active. It is live when a worker or its host is proven alive: by a fresh heartbeat, a
/// living host or lead process, or a claim with an unexpired lease. It is ended when none is, and its run has finished
/// or, without a run, all its tasks are completed or failed permanently. Otherwise, and when it cannot be read, it is
/// stale.
pub(crate) fn state(read: &dyn ReadStore, entry: &TeamEntry, run: RunLookup<'_>) -> Viewed {
    let (Ok(team), Ok(config)) = (entry.name.parse::<TeamName>(), &entry.config) else {
        return Viewed::Stale;
    };
    if is_live(read, &team, config) {
        return Viewed::Live;
    }
    let progress = read
        .progress(&team)
        .map_or_else(|_| Progress::default(), |(progress, _)| progress);
    let left = progress.pending_tasks + progress.in_progress_tasks;
    let run = run(&team).unwrap_or_default();
    // A run that waits at its gate has no task left, but has not finished: a person has to decide.
    let is_under_way = run.stage.is_some() && !run.is_finished();
    if run.is_finished() || (progress.total_tasks > 0 && left == 0 && !is_under_way) {
        Viewed::Ended
    } else {
        Viewed::Stale
    }
}

fn is_live(read: &dyn ReadStore, team: &TeamName, config: &TeamConfig) -> bool {
    let now = read.now();
    let beats: Vec<Heartbeat> = read
        .heartbeats(team)
        .map_or_else(|_| Vec::new(), |(beats, _)| beats);
    let is_dead = |beat: &Heartbeat| {
        let found = assess(read, Some(beat), &Limits::default());
        found.verdict == Verdict::Dead
    };
    beats
        .iter()
        .any(|beat| beat.is_fresh(now, HEARTBEAT_FRESH) && !is_dead(beat))
        || is_hosted(read, team, config)
        || is_at_work(read, team) && holders(read, team).iter().any(|holder| holder.leased)
}

/// The counts are cheap; the tasks are read only when the counts show that one is in progress.
fn is_at_work(read: &dyn ReadStore, team: &TeamName) -> bool {
    read.progress(team)
        .is_ok_and(|(progress, _)| progress.in_progress_tasks > 0)
}

/// Returns whether the host of a team is running: the process that teamster recorded, or the lead of a team of Claude
/// Code.
fn is_hosted(read: &dyn ReadStore, team: &TeamName, config: &TeamConfig) -> bool {
    match config.kind() {
        TeamOrigin::Claude => LeadStatus::find(read, team.as_str(), config).is_alive(),
        TeamOrigin::Teamster => {
            let host = config.host();
            // The process that hosted a finished run may have moved on to other work.
            host.is_some_and(|host| read.process_state(&host) == ProcessState::Alive)
                && !crate::model::run_now(read, team).is_ok_and(|run| run.is_finished())
        }
    }
}

/// Returns the process that hosts a team: the one that teamster recorded, or the lead that newer Claude Code clients
/// record.
fn host_of(config: &TeamConfig) -> Option<ProcessId> {
    config.host().or_else(|| config.lead_process())
}

/// A worker or host that is proven alive, with the evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveProcess {
    /// The name of the worker, or `host`.
    pub name: String,
    /// The evidence, as text.
    pub evidence: String,
    /// Its process, if one is recorded.
    pub pid: Option<u32>,
}

/// The name of the host process in lists of workers.
const HOST: &str = "host";

impl LiveProcess {
    /// Returns whether it is the process that hosts the team.
    pub fn is_host(&self) -> bool {
        self.name == HOST
    }
}

impl fmt::Display for LiveProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.evidence)
    }
}

/// Returns the workers and the host of a team that are proven alive: the host by its process, a worker by a fresh
/// heartbeat, by the process of its heartbeat, or by the process of its claim.
pub fn alive(
    read: &dyn ReadStore,
    team: &TeamName,
    config: &TeamConfig,
) -> Result<Vec<LiveProcess>> {
    let now = read.now();
    let (beats, _) = read.heartbeats(team)?;
    let mut alive: Vec<LiveProcess> = host_of(config)
        .filter(|host| read.process_state(host) == ProcessState::Alive)
        .map(|host| LiveProcess {
            name: HOST.to_owned(),
            evidence: format!("pid {} runs", host.pid),
            pid: Some(host.pid),
        })
        .into_iter()
        .collect();
    for beat in &beats {
        let age = teamster_types::time::say_span(now.since(beat.last_poll_at));
        let evidence = match assess(read, Some(beat), &Limits::default()).verdict {
            Verdict::Dead | Verdict::Unknown => continue,
            Verdict::Hung => format!("heartbeat {age} old, but pid {} runs", beat.pid),
            _ => format!("heartbeat {age} old, pid {}", beat.pid),
        };
        alive.push(LiveProcess {
            name: beat.worker_name.as_str().to_owned(),
            evidence,
            pid: Some(beat.pid),
        });
    }
    for holder in holders(read, team) {
        let known = alive.iter().any(|one| one.name == holder.worker);
        if !known && read.process_state(&holder.process) == ProcessState::Alive {
            alive.push(LiveProcess {
                evidence: format!("pid {} holds task {}", holder.process.pid, holder.task),
                name: holder.worker,
                pid: Some(holder.process.pid),
            });
        }
    }
    Ok(alive)
}

struct Holder {
    worker: String,
    task: String,
    process: ProcessId,
    leased: bool,
}

/// Returns the holders of tasks.
fn holders(read: &dyn ReadStore, team: &TeamName) -> Vec<Holder> {
    let now = read.now();
    let tasks = read.tasks(team).ok();
    tasks
        .into_iter()
        .flat_map(|list| list.tasks)
        .filter(|task| task.status() == Status::InProgress)
        .filter_map(|task| {
            let claim = task.claim()?;
            Some(Holder {
                worker: claim.worker.as_str().to_owned(),
                task: task.id().as_str().to_owned(),
                leased: claim.leased_until > now,
                process: claim.process(),
            })
        })
        .collect()
}

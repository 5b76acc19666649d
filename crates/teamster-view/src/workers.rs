//! The health of each worker, with the evidence.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use serde::Serialize;
use teamster_claude::state::Status as SessionStatus;
use teamster_fs::layout::Layout;
use teamster_journal::{Event, EventKind, family};
use teamster_store::{Damaged, ReadStore, Result};
use teamster_types::created_at::created_at;
use teamster_types::health::{self, Assessment, Limits, Verdict};
use teamster_types::heartbeat::Heartbeat;
use teamster_types::phrase::{Phrase, PhraseCode};
use teamster_types::task::Status;
use teamster_types::team::{TeamConfig, TeamMember, TeamOrigin};
use teamster_types::{TaskId, TeamName, Time};

use crate::model::{Sessions, TeamView, WorkerView};
use crate::native::LeadStatus;

/// The status of a worker that ended normally.
const STOPPED: &str = "stopped";
/// The status of a member for which no worker was started, because the plan comes first or it only reviews.
const NOT_STARTED: &str = "not-started";
/// The number of recent events that are searched for workers that ended.
const ENDS_WITHIN: usize = 500;

/// One worker, as `worker list` and `status` show it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkerRow {
    /// Its name.
    pub name: String,
    /// The client that it drives.
    pub provider: String,
    /// The backend that it runs on.
    pub backend_type: String,
    /// Its activity according to its bridge or its client; `None` when neither reports one.
    pub status: Option<&'static str>,
    /// The verdict on its health.
    pub verdict: Verdict,
    /// The evidence for the verdict.
    pub evidence: Vec<Phrase>,
    /// The process of its bridge.
    pub pid: Option<u32>,
    /// The task it works on.
    pub current_task_id: Option<TaskId>,
    /// When its bridge last polled for work.
    pub last_poll_at: Option<Time>,
    /// When its agent last produced output.
    pub last_event_at: Option<Time>,
    /// Errors since its last success.
    pub consecutive_errors: u32,
}

/// Every worker of a team.
#[derive(Clone, Debug, PartialEq)]
pub struct Workers {
    /// Members first, in the order of the registry, then all others with a heartbeat, by name.
    pub rows: Vec<WorkerRow>,
    /// Heartbeats that could not be read.
    pub problems: Vec<Damaged>,
}

/// Returns the workers of a team.
pub fn list(
    read: &dyn ReadStore,
    team: &TeamName,
    config: &TeamConfig,
    limits: &Limits,
) -> Result<Workers> {
    let (beats, mut problems) = read.heartbeats(team)?;
    let mut beats: BTreeMap<String, Heartbeat> = beats
        .into_iter()
        .map(|beat| (beat.worker_name.as_str().to_owned(), beat))
        .collect();
    let held = match config.kind() {
        TeamOrigin::Claude => {
            if let Err(odd) = created_at(config.created_at(), read.now()) {
                problems.push(Damaged {
                    file: "config.json".to_owned(),
                    error: odd,
                });
            }
            held_tasks(read, team)
        }
        TeamOrigin::Teamster => HashMap::new(),
    };
    let mut rows = Vec::new();
    let mut lead = None;
    let mut steps = None;
    for member in config.members() {
        let beat = beats.remove(&member.name);
        let is_native = config.kind() == TeamOrigin::Claude && beat.is_none();
        let is_away = beat.is_none() && !is_native;
        let mut row = row(read, Some(&member), beat, limits);
        if is_away || row.verdict == Verdict::Quarantined {
            let steps = match &steps {
                Some(steps) => steps,
                None => steps.insert(LastWorkerEvents::of(read, team)?),
            };
            if let Some(evidence) = steps.end_of(&member.name).filter(|_| is_away) {
                row.status = Some(STOPPED);
                row.evidence = vec![evidence];
            } else if is_away && row.verdict == Verdict::Unknown && steps.never_ran(&member.name) {
                row.status = Some(NOT_STARTED);
                row.evidence = vec![Phrase::new(PhraseCode::NotStarted, [])];
            }
            row.evidence.extend(steps.quarantine_of(&member.name));
        }
        if is_native {
            let lead = lead.get_or_insert_with(|| LeadStatus::find(read, team.as_str(), config));
            let assessment = lead.assess(read, &member);
            row.verdict = assessment.verdict;
            row.evidence = assessment.evidence;
            row.current_task_id = held.get(&member.name).cloned();
            row.status = member
                .is_active
                .map(|active| if active { "active" } else { "idle" });
        }
        rows.push(row);
    }
    for beat in beats.into_values() {
        rows.push(row(read, None, Some(beat), limits));
    }
    Ok(Workers { rows, problems })
}

/// Adds what the state file of a session says about the teammates of its team. If their client proves one dead, that
/// counts.
pub(crate) fn add_session(rows: &mut [WorkerRow], session: &TeamView) {
    let natives = rows.iter_mut().filter(|row| row.last_poll_at.is_none());
    for row in natives {
        let told = session.workers.iter().find(|told| told.name == row.name);
        let Some(told) = told.map(WorkerRow::of_view) else {
            continue;
        };
        // A teammate that cannot be judged from outside may be known through the process that called its hooks.
        if row.verdict == Verdict::Unknown && told.verdict == Verdict::Dead {
            row.verdict = told.verdict;
            row.evidence = told.evidence;
        }
        if row.verdict != Verdict::Dead {
            row.status = told.status.or(row.status);
        }
        row.current_task_id = row.current_task_id.take().or(told.current_task_id);
        row.last_event_at = row.last_event_at.or(told.last_event_at);
    }
}

/// Returns the teammates of a team of Claude Code that are proven dead, as every view shows them. `layout` locates the
/// state files of its project.
pub fn dead_teammates(
    read: &dyn ReadStore,
    layout: &Layout,
    team: &TeamName,
    config: &TeamConfig,
) -> Result<Vec<WorkerRow>> {
    let mut rows = list_beside_sessions(read, layout, team, config, &Limits::default())?.rows;
    rows.retain(|row| row.last_poll_at.is_none() && row.verdict == Verdict::Dead);
    Ok(rows)
}

/// Returns the workers of a team like [`list`], extended by the project's state files for a team of Claude Code.
pub fn list_beside_sessions(
    read: &dyn ReadStore,
    layout: &Layout,
    team: &TeamName,
    config: &TeamConfig,
    limits: &Limits,
) -> Result<Workers> {
    let mut found = list(read, team, config, limits)?;
    if config.kind() == TeamOrigin::Claude
        && let Some(project) = config.project()
        && let Some(session) =
            Sessions::of(layout, Path::new(project)).of_team(team.as_str(), read.now())
    {
        add_session(&mut found.rows, &session);
    }
    Ok(found)
}

/// Returns the task that each teammate of Claude Code works on, as its client records it in the task file.
fn held_tasks(read: &dyn ReadStore, team: &TeamName) -> HashMap<String, TaskId> {
    let tasks = read.tasks(team).map(|list| list.tasks).unwrap_or_default();
    tasks
        .iter()
        .filter(|task| task.status() == Status::InProgress)
        .filter_map(|task| Some((task.owner()?.to_owned(), task.id().clone())))
        .collect()
}

/// Returns the condition of a worker in one word, for people. A worker that ended normally or was never started is not
/// in doubt.
pub(crate) fn word(status: Option<&str>, verdict: Verdict) -> &'static str {
    match (status, verdict) {
        (Some(STOPPED), Verdict::Unknown) => STOPPED,
        (Some(NOT_STARTED), Verdict::Unknown) => "not started",
        _ => verdict.as_str(),
    }
}

/// The last event about each worker within the end of the journal.
struct LastWorkerEvents {
    steps: HashMap<String, Event>,
    /// The members of the runs that begin in that part of the journal.
    cast: HashSet<String>,
    /// Whether that part of the journal is all of it.
    is_whole: bool,
}

impl LastWorkerEvents {
    fn of(read: &dyn ReadStore, team: &TeamName) -> Result<Self> {
        let events = read.last_events(team, ENDS_WITHIN)?.events;
        let is_whole = events.len() < ENDS_WITHIN;
        let mut cast = HashSet::new();
        for event in &events {
            if let EventKind::RunStarted(run) = event.payload() {
                cast.extend(
                    run.spec
                        .members
                        .iter()
                        .map(|member| member.name.to_string()),
                );
            }
        }
        let steps = events
            .into_iter()
            .filter(|event| event.kind.starts_with(family::WORKER))
            .map(|event| (event.actor.to_string(), event))
            .collect();
        Ok(Self {
            steps,
            cast,
            is_whole,
        })
    }

    /// Returns why a worker is quarantined.
    fn quarantine_of(&self, name: &str) -> Option<Phrase> {
        match self.steps.get(name)?.payload() {
            EventKind::WorkerQuarantined(told) if !told.reason.is_empty() => Some(Phrase::new(
                PhraseCode::LastError,
                [("reason", &told.reason)],
            )),
            _ => None,
        }
    }

    /// Returns whether a run has a member for which no worker was ever started; only a journal that was read completely
    /// can show this.
    fn never_ran(&self, name: &str) -> bool {
        self.is_whole && self.cast.contains(name) && !self.steps.contains_key(name)
    }

    /// Returns how a worker ended normally, in which case it removed its heartbeat.
    fn end_of(&self, name: &str) -> Option<Phrase> {
        let EventKind::WorkerStopped(stopped) = self.steps.get(name)?.payload() else {
            return None;
        };
        Some(match stopped.reason.as_str() {
            "" => Phrase::new(PhraseCode::EndedInOrder, []),
            reason => Phrase::new(PhraseCode::EndedInOrderBecause, [("reason", &reason)]),
        })
    }
}

fn row(
    read: &dyn ReadStore,
    member: Option<&TeamMember>,
    beat: Option<Heartbeat>,
    limits: &Limits,
) -> WorkerRow {
    let assessment = assess(read, beat.as_ref(), limits);
    let beating = beat.as_ref();
    let named = member.map(|member| member.name.clone());
    let said = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    WorkerRow {
        name: named
            .or_else(|| beating.map(|beat| beat.worker_name.as_str().to_owned()))
            .unwrap_or_default(),
        // The heartbeat shows what runs now; the registry only what was planned.
        provider: beating
            .and_then(|beat| said(&beat.provider))
            .or_else(|| member.and_then(|member| said(&member.provider)))
            .unwrap_or_default(),
        backend_type: member.map_or_else(String::new, |member| member.backend.clone()),
        status: beating.map(Heartbeat::word),
        verdict: assessment.verdict,
        evidence: assessment.evidence,
        pid: beating.map(|beat| beat.pid),
        last_poll_at: beating.map(|beat| beat.last_poll_at),
        last_event_at: beating.and_then(|beat| beat.last_event_at),
        consecutive_errors: beating.map_or(0, |beat| beat.consecutive_errors),
        current_task_id: beat.and_then(|beat| beat.current_task_id),
    }
}

impl WorkerRow {
    /// Creates the row of a teammate from a state file.
    pub(crate) fn of_view(view: &WorkerView) -> Self {
        let status = view.status.as_deref().and_then(SessionStatus::parse);
        Self {
            name: view.name.clone(),
            provider: view.role.clone().unwrap_or_default(),
            backend_type: view.backend_type.clone(),
            status: status.map(SessionStatus::as_str),
            verdict: view.verdict,
            evidence: view
                .evidence_codes
                .iter()
                .cloned()
                .map(Phrase::of)
                .collect(),
            pid: view.pid,
            current_task_id: view.current_task_id.clone(),
            last_poll_at: view.last_poll_at,
            last_event_at: view.last_event_at,
            consecutive_errors: view.consecutive_errors,
        }
    }

    /// Returns its condition in one word, for people.
    pub fn word(&self) -> &'static str {
        word(self.status, self.verdict)
    }

    /// Returns whether it ended normally.
    pub fn has_stopped(&self) -> bool {
        self.status == Some(STOPPED)
    }

    /// Returns whether a person should look at it. A member that was never started is not a problem.
    pub fn needs_a_person(&self) -> bool {
        match self.verdict {
            Verdict::Healthy | Verdict::Limited => false,
            Verdict::Unknown => self.last_poll_at.is_some(),
            _ => true,
        }
    }

    /// Returns whether it has a heartbeat and waits for work.
    pub fn is_idle(&self) -> bool {
        matches!(self.verdict, Verdict::Healthy | Verdict::AtRisk) && self.current_task_id.is_none()
    }
}

/// Judges a worker by its heartbeat and the process behind it.
pub(crate) fn assess(
    read: &dyn ReadStore,
    beat: Option<&Heartbeat>,
    limits: &Limits,
) -> Assessment {
    health::judge(
        read.now(),
        beat,
        None,
        |process| read.process_state(process),
        limits,
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use teamster_store::Store;
    use teamster_testkit::{ManualClock, MemStore};
    use teamster_types::heartbeat::WorkerStatus;
    use teamster_types::process::{ProcessId, ProcessState};
    use teamster_types::team::{NewMember, NewTeam};

    use super::*;

    #[test]
    fn process_is_looked_at_however_fresh_its_heartbeat_is() {
        let clock = Arc::new(ManualClock::new(Time::from_millis(1_000_000)));
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = asked.clone();
        let store = MemStore::new(clock.clone(), process(1), move |_| {
            if counted.fetch_add(1, Ordering::Relaxed) == 0 {
                ProcessState::Alive
            } else {
                ProcessState::Gone
            }
        });
        let team: TeamName = "fix-auth".parse().unwrap();
        let member = NewMember {
            name: "worker-1".parse().unwrap(),
            provider: "codex".to_owned(),
            capabilities: None,
        };
        let new = NewTeam {
            name: team.clone(),
            description: String::new(),
            project: "/project".to_owned(),
            members: vec![member],
            run: None,
        };
        let config = store.create_team(&new, None).unwrap();
        store.beat(&beat(&team, store.now())).unwrap();
        let rows = || {
            list(&store, &team, &config, &Limits::default())
                .unwrap()
                .rows
        };

        assert_eq!(rows()[0].verdict, Verdict::Healthy);
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        assert_eq!(rows()[0].verdict, Verdict::Dead);
        assert_eq!(rows()[0].evidence[1].as_str(), "process 7 is gone");
    }

    fn process(pid: u32) -> ProcessId {
        ProcessId {
            pid,
            process_start_time: 1,
            boot_id: "boot".to_owned(),
            pid_ns: String::new(),
            host: String::new(),
        }
    }

    fn beat(team: &TeamName, at: Time) -> Heartbeat {
        let process = process(7);
        Heartbeat {
            worker_name: "worker-1".parse().unwrap(),
            team_name: team.clone(),
            provider: String::new(),
            pid: process.pid,
            last_poll_at: at,
            current_task_id: None,
            consecutive_errors: 0,
            status: WorkerStatus::Polling,
            process_start_time: Some(process.process_start_time),
            boot_id: Some(process.boot_id),
            pid_ns: None,
            host: None,
            agent_session_id: None,
            last_event_at: None,
            limit: None,
            store_refusal: None,
            launch: None,
        }
    }
}

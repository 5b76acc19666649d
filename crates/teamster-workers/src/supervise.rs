//! Supervises the workers of a team: reclaims and restarts dead and hung workers, and records each verdict once.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use teamster_fs::proc::Machine;
use teamster_fs::{Dir, OrTrace as _};
use teamster_isolate::process_tree::{ProcessTree, SurvivingProcesses};
use teamster_journal::payload::{WorkerRestarted, WorkerVerdict};
use teamster_journal::{EventActor, EventKind, NewEvent};
use teamster_store::{Store, StoreError};
use teamster_types::health::{Assessment, Limits, Verdict};
use teamster_types::heartbeat::{Heartbeat, StoreRefusal};
use teamster_types::phrase::Phrase;
use teamster_types::{TeamName, Time, WorkerName};

use crate::alerts::EndAlerts;
use crate::bridge::REPLACE;
use crate::launch::{LaunchError, Launcher};
use crate::reclaim;
use crate::record::{self, LaunchRecord};

/// How long the bridge of a hung worker has to end its worker itself. Processes that are left then have as long again
/// before they are killed.
const HUNG_GRACE: Duration = Duration::from_secs(5);
/// The number of times in a row that a worker is restarted before it is left to a person.
pub const MOST_RESTARTS: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// A worker that has run this long is stable: its earlier restarts no longer count.
const STABLE_AFTER: Duration = Duration::from_secs(10 * 60);

/// How long a stale heartbeat must stay unchanged, by the supervisor's own clock, before it counts as stale. After the
/// machine slept or its time was set, every heartbeat looks stale for a moment; a live worker beats again within 5 seconds.
const STALE_CONFIRMATION: Duration = Duration::from_secs(7);

/// What one check of the team found or did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SupervisorFinding {
    /// A worker is not healthy, for this reason.
    Verdict(WorkerName, Verdict, String),
    /// A worker was restarted, for the given time in a row.
    Restarted(WorkerName, u32),
    /// A worker could not be restarted, for this reason.
    NotRestarted(WorkerName, String),
    /// A worker was restarted too often and is left to a person.
    GivenUp(WorkerName),
}

/// What one check found about a launch.
struct WorkerLook {
    record: LaunchRecord,
    assessment: Assessment,
    /// The processes that survived, if it had to be ended.
    survivors: Option<SurvivingProcesses>,
}

/// Supervises the workers of one team.
pub struct Supervisor<'a> {
    /// The store that the workers belong to.
    pub store: &'a dyn Store,
    /// The machine that the workers run on.
    pub machine: &'a Machine,
    /// The project's folder.
    pub project: &'a Dir,
    /// Restarts workers.
    pub launcher: &'a Launcher<'a>,
    /// The limits that health is judged by.
    pub limits: Limits,
    /// Where the ends of workers are recorded.
    pub alerts: EndAlerts,
    /// The team of the workers.
    pub team: TeamName,
    known: HashMap<WorkerName, LaunchHistory>,
    in_doubt: bool,
    refusal: Option<(WorkerName, StoreRefusal)>,
}

/// What is known about one launch of a worker. A later launch starts with a fresh history, even one by another process.
#[derive(Debug, Default)]
struct LaunchHistory {
    launch: String,
    told: Option<Verdict>,
    /// The last heartbeat, and when it was first seen.
    last: Option<(Time, Instant)>,
    restarts: u32,
    next: Option<Instant>,
    given_up: bool,
}

impl LaunchHistory {
    fn of(record: &LaunchRecord, beat: Option<&Heartbeat>) -> Self {
        let ran = beat.map(|beat| beat.last_poll_at.since(record.started_at));
        Self {
            launch: record.launch.clone(),
            restarts: if ran.is_some_and(|ran| ran >= STABLE_AFTER) {
                0
            } else {
                record.restarts
            },
            ..Self::default()
        }
    }

    /// Returns whether a heartbeat that looks stale may still be followed by another.
    fn is_in_doubt(&mut self, beat: Option<&Heartbeat>) -> bool {
        let Some(beat) = beat else { return false };
        match self.last {
            Some((at, since)) if at == beat.last_poll_at => since.elapsed() < STALE_CONFIRMATION,
            _ => {
                self.last = Some((beat.last_poll_at, Instant::now()));
                true
            }
        }
    }
}

impl<'a> Supervisor<'a> {
    /// Creates the supervisor of a team.
    pub fn new(
        store: &'a dyn Store,
        machine: &'a Machine,
        project: &'a Dir,
        launcher: &'a Launcher<'a>,
        limits: Limits,
        alerts: EndAlerts,
        team: TeamName,
    ) -> Self {
        Self {
            store,
            machine,
            project,
            launcher,
            limits,
            alerts,
            team,
            known: HashMap::new(),
            in_doubt: false,
            refusal: None,
        }
    }

    /// Returns whether the last check left a verdict open, so that another check should follow soon.
    pub fn is_in_doubt(&self) -> bool {
        self.in_doubt
    }

    /// Returns the worker that the store kept from working at the last check, when no other one worked, and why.
    pub fn refusal(&self) -> Option<&(WorkerName, StoreRefusal)> {
        self.refusal.as_ref()
    }

    /// Returns whether a restart of a worker is scheduled.
    pub fn will_restart(&self) -> bool {
        let mut known = self.known.values();
        known.any(|state| state.next.is_some() && !state.given_up)
    }

    /// Checks every worker once, and acts on each verdict.
    ///
    /// Hung workers are ended before anything is recorded: a worker that was stopped in the middle of a change still holds
    /// the team's lock, so every write would fail.
    pub fn check_workers(&mut self) -> Result<Vec<SupervisorFinding>, StoreError> {
        let mut looks: Vec<WorkerLook> = Vec::new();
        self.in_doubt = false;
        let (beats, _) = self.store.heartbeats(&self.team)?;
        let now = self.store.now();
        let refusal = Heartbeat::blocking_refusal(&beats, now, self.limits.stale);
        self.refusal = refusal.map(|(worker, refusal)| (worker.clone(), refusal.clone()));
        let records = record::all(self.project, &self.team)?;
        // A worker without a record is not restarted: it ended in order, or a person stopped it.
        self.known
            .retain(|worker, _| records.iter().any(|record| record.spec.worker == *worker));
        for record in records {
            let beat = beats
                .iter()
                .find(|beat| beat.worker_name == record.spec.worker)
                // The heartbeat of an earlier launch says nothing about this one.
                .filter(|beat| beat.launch.as_deref() == Some(record.launch.as_str()));
            let assessment = reclaim::assess(self.store, beat, Some(&record), &self.limits);
            let state = self.known.entry(record.spec.worker.clone()).or_default();
            if state.launch != record.launch {
                *state = LaunchHistory::of(&record, beat);
            }
            if assessment.verdict == Verdict::Hung && state.is_in_doubt(beat) {
                self.in_doubt = true;
                continue;
            }
            looks.push(WorkerLook {
                record,
                assessment,
                survivors: None,
            });
        }
        self.end_hung(&mut looks);
        let mut found = Vec::new();
        for look in &looks {
            match self.act_on(look, &mut found) {
                // The worker whose verdict is open may hold the lock; the next check decides about it.
                Err(error) if error.busy && self.in_doubt => {
                    let worker = &look.record.spec.worker;
                    tracing::debug!("cannot supervise {worker} yet: {error}");
                    break;
                }
                attended => attended?,
            }
        }
        Ok(found)
    }

    /// Ends the processes of hung workers, all at the same time: they are not proven dead. A bridge that can still react
    /// gives its task back, and keeps the record of its launch unless somebody has asked it to stop.
    fn end_hung(&self, looks: &mut [WorkerLook]) {
        let mut hung: Vec<&mut WorkerLook> = looks
            .iter_mut()
            .filter(|look| look.assessment.verdict == Verdict::Hung)
            .collect();
        if hung.is_empty() {
            return;
        }
        let trees: Vec<ProcessTree<'_>> = hung
            .iter()
            .map(|look| {
                let record = &look.record;
                ProcessTree::of_launch(self.machine, &record.launch, Some(&record.process))
            })
            .collect();
        let ends = ProcessTree::end_from_roots(&trees, REPLACE, HUNG_GRACE);
        drop(trees);
        for (look, end) in hung.iter_mut().zip(ends) {
            look.survivors = end.err();
        }
    }

    /// Acts on a verdict.
    fn act_on(
        &mut self,
        look: &WorkerLook,
        found: &mut Vec<SupervisorFinding>,
    ) -> Result<(), StoreError> {
        let record = &look.record;
        found.extend(self.record_verdict(&record.spec.worker, &look.assessment)?);
        match look.assessment.verdict {
            Verdict::Dead | Verdict::Hung => {
                if look.survivors.is_none() {
                    let now = self.store.now();
                    let worker = &record.spec.worker;
                    self.alerts.record(&self.team, worker, &record.launch, now);
                }
                found.extend(self.replace(look)?);
            }
            Verdict::Healthy | Verdict::Limited => self.reset_restarts_if_stable(record),
            _ => {}
        }
        Ok(())
    }

    /// Records a verdict unless it is already recorded.
    fn record_verdict(
        &mut self,
        worker: &WorkerName,
        assessment: &Assessment,
    ) -> Result<Option<SupervisorFinding>, StoreError> {
        let verdict = assessment.verdict;
        let state = self.known.entry(worker.clone()).or_default();
        if state.told == Some(verdict) {
            return Ok(None);
        }
        let told = WorkerVerdict {
            worker: Some(worker.to_string()),
            verdict: verdict.as_str().to_owned(),
            evidence: Phrase::texts(&assessment.evidence),
            evidence_codes: Phrase::keys(&assessment.evidence).into(),
            ..WorkerVerdict::default()
        };
        let Some(what) = event_of(verdict, told) else {
            state.told = Some(verdict);
            return Ok(None);
        };
        self.store
            .record(&self.team, NewEvent::new(EventActor::System, what))?;
        state.told = Some(verdict);
        let why = assessment.evidence.join(", ");
        let worker = worker.clone();
        Ok(Some(SupervisorFinding::Verdict(worker, verdict, why)))
    }

    fn is_to_stop(&self, worker: &WorkerName) -> bool {
        let signals = self.store.signals(&self.team, worker);
        let signals = signals.ok_or_trace("read the stop requests of a worker");
        signals.is_some_and(|signals| !signals.is_empty())
    }

    /// Returns whether a launch is still on record and nobody has ended it by force.
    fn is_on_record(&self, record: &LaunchRecord) -> Result<bool, StoreError> {
        let found = record::read(self.project, &self.team, &record.spec.worker)?;
        Ok(found.is_some_and(|found| found.launch == record.launch && !found.is_dismissed))
    }

    /// Resets the restart count of a worker that has been healthy for long.
    fn reset_restarts_if_stable(&mut self, record: &LaunchRecord) {
        if self.store.now().since(record.started_at) >= STABLE_AFTER
            && let Some(state) = self.known.get_mut(&record.spec.worker)
        {
            state.restarts = 0;
        }
    }

    /// Takes the tasks of a dead worker back, and restarts it at once or after a pause. The record of its launch says that
    /// it is to be restarted: whoever stops a worker removes it, and whoever starts one replaces it.
    fn replace(&mut self, look: &WorkerLook) -> Result<Option<SupervisorFinding>, StoreError> {
        let record = &look.record;
        let worker = &record.spec.worker;
        if let Some(still) = &look.survivors {
            return Ok(Some(SupervisorFinding::NotRestarted(
                worker.clone(),
                still.to_string(),
            )));
        }
        let launch = Some(record.launch.as_str());
        reclaim::reclaim(
            self.store,
            self.machine,
            &self.team,
            worker,
            launch,
            &EventActor::System,
        )?;
        // A worker that was asked to stop, or was ended by force, is not restarted.
        if self.is_to_stop(worker) {
            return Ok(None);
        }
        if !self.is_on_record(record)? {
            return Ok(None);
        }
        let state = self.known.entry(worker.clone()).or_default();
        if state.given_up {
            return Ok(None);
        }
        if state.restarts >= MOST_RESTARTS {
            state.given_up = true;
            return Ok(Some(SupervisorFinding::GivenUp(worker.clone())));
        }
        let now = Instant::now();
        let pause = FIRST_PAUSE
            .saturating_mul(1 << state.restarts.min(8))
            .min(LONGEST_PAUSE);
        // The first restart is immediate: most workers die once, for a reason that does not recur.
        let next = *state.next.get_or_insert(if state.restarts == 0 {
            now
        } else {
            now + pause
        });
        if now < next {
            return Ok(None);
        }
        state.restarts += 1;
        state.next = None;
        state.told = None;
        let restarts = state.restarts;
        match self.launcher.start(&record.spec, restarts) {
            Ok(_) => {
                let restarted = WorkerRestarted {
                    worker: worker.to_string(),
                    times: restarts,
                };
                let event =
                    NewEvent::new(EventActor::System, EventKind::WorkerRestarted(restarted));
                self.store.record(&self.team, event)?;
                Ok(Some(SupervisorFinding::Restarted(worker.clone(), restarts)))
            }
            Err(LaunchError::Store(error)) => Err(error),
            // It was stopped while it was being started.
            Err(_) if self.is_to_stop(worker) || !self.is_on_record(record)? => Ok(None),
            Err(error) => Ok(Some(SupervisorFinding::NotRestarted(
                worker.clone(),
                error.to_string(),
            ))),
        }
    }
}

/// Returns the event that reports a verdict, or `None` for a verdict that is not reported.
fn event_of(verdict: Verdict, told: WorkerVerdict) -> Option<EventKind> {
    match verdict {
        Verdict::Dead => Some(EventKind::WorkerDead(told)),
        Verdict::Hung => Some(EventKind::WorkerHung(told)),
        Verdict::Silent => Some(EventKind::WorkerSilent(told)),
        Verdict::AtRisk
        | Verdict::Quarantined
        | Verdict::Limited
        | Verdict::Healthy
        | Verdict::Unknown => None,
    }
}

//! The worker processes of a run: starts, supervises and stops them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use teamster_isolate::OrTrace as _;
use teamster_journal::HOST;
use teamster_journal::payload::{Member, RunSpec};
use teamster_store::{Signal, StoreError, StoreErrorKind};
use teamster_types::process::ProcessState;
use teamster_types::{TeamName, WorkerName};
use teamster_workers::alerts::EndAlerts;
use teamster_workers::record::{self, LaunchRecord, WorkerBackend, WorkerSpec};
use teamster_workers::shutdown::{EndKind, ShutdownCoordinator, ShutdownRequest};
use teamster_workers::supervise::{Supervisor, SupervisorFinding};

use super::context::RunContext;
use super::{HostEnvironment, Result, RunError};
use crate::observer::StopLevel;

/// The poll interval of the supervisor.
const SUPERVISE_AGAIN: Duration = Duration::from_secs(2);
/// How long the store may keep the workers from working, before the run ends.
const REFUSAL_PATIENCE: Duration = Duration::from_secs(20);
/// How long workers may take to stop when the run cannot continue.
const ERROR_DEADLINE: Duration = Duration::from_secs(15);

/// The result of starting one worker.
pub(super) enum WorkerStart {
    /// The worker was started.
    New,
    /// A launch of the worker is on record, so the supervisor looks after it.
    Known {
        /// Whether an earlier host has asked it to stop: once it has, another one is started.
        is_leaving: bool,
    },
    /// The worker could not be started, and why.
    Failed(String),
}

/// The workers of a run.
pub(super) struct WorkerPool<'a> {
    supervisor: Supervisor<'a>,
    /// The stop requests that were there when this host began: they are of an earlier one.
    earlier_requests: BTreeMap<WorkerName, Vec<Signal>>,
    /// Whether workers were started for the present stage.
    is_up: bool,
    /// Whether this host has running workers that it has not asked to stop.
    is_supervised: bool,
    next_look: Instant,
    /// Since when the store keeps the workers from working.
    refused_since: Option<Instant>,
}

/// Returns the stop requests to the members of a run.
fn stop_requests(
    env: &HostEnvironment<'_>,
    team: &TeamName,
    members: &[Member],
) -> BTreeMap<WorkerName, Vec<Signal>> {
    let of_member = |member: &Member| {
        let asked = env.store.signals(team, &member.name);
        let asked = asked.ok_or_trace("read the stop requests of a worker")?;
        Some((member.name.clone(), asked))
    };
    members.iter().filter_map(of_member).collect()
}

impl<'a> WorkerPool<'a> {
    /// Returns the pool of a team, with no worker started.
    pub(super) fn new(
        env: &HostEnvironment<'a>,
        team: &TeamName,
        members: &[Member],
        now: Instant,
    ) -> Self {
        Self {
            supervisor: Supervisor::new(
                env.store,
                env.machine,
                env.project,
                env.launcher,
                env.limits,
                EndAlerts::below(&env.layout.claude),
                team.clone(),
            ),
            earlier_requests: stop_requests(env, team, members),
            is_up: false,
            is_supervised: false,
            next_look: now,
            refused_since: None,
        }
    }

    /// Returns whether workers were started for the present stage.
    pub(super) fn is_up(&self) -> bool {
        self.is_up
    }

    /// Returns whether this host has running workers that it has not asked to stop.
    pub(super) fn is_supervised(&self) -> bool {
        self.is_supervised
    }

    /// Returns whether the supervisor will restart a worker.
    pub(super) fn will_restart(&self) -> bool {
        self.supervisor.will_restart()
    }

    /// Notes that a stage was entered for which no worker was started yet.
    pub(super) fn note_stage_entered(&mut self) {
        self.is_up = false;
    }

    /// Notes that every member was started. While one of them is leaving, starting is repeated.
    pub(super) fn note_all_started(&mut self, is_leaving: bool) {
        self.is_up = !is_leaving;
        self.is_supervised = true;
        self.refused_since = None;
    }

    /// Starts one member of the team, unless a launch of it is on record.
    pub(super) fn start(
        &mut self,
        env: &HostEnvironment<'a>,
        spec: &RunSpec,
        member: &Member,
    ) -> Result<WorkerStart> {
        let team = &self.supervisor.team;
        let is_gone = |launch: &LaunchRecord| {
            env.machine.process_state(&launch.process) == ProcessState::Gone
        };
        let launch = record::read(env.project, team, &member.name)?;
        // What a worker that was ended by force has left is taken back by the next one of its name.
        let launch = launch.filter(|launch| !launch.is_dismissed || !is_gone(launch));
        if let Some(launch) = launch {
            let requests = env.store.signals(team, &member.name)?;
            // A worker that died before it could obey an earlier host has nothing left to obey: the supervisor
            // replaces it.
            let earlier = self.earlier_requests.get(&member.name);
            let is_earlier = |asked: &Signal| {
                let mut earlier = earlier.into_iter().flatten();
                earlier
                    .any(|known| known.request_id == asked.request_id && known.drain == asked.drain)
            };
            if is_gone(&launch) && requests.iter().all(is_earlier) {
                env.store.clear_signals(team, &member.name)?;
                return Ok(WorkerStart::Known { is_leaving: false });
            }
            let is_leaving = !requests.is_empty();
            return Ok(WorkerStart::Known { is_leaving });
        }
        // A signal for an earlier worker of this name does not apply to the new one.
        env.store.clear_signals(team, &member.name)?;
        let wanted = WorkerSpec {
            team: team.clone(),
            worker: member.name.clone(),
            provider: member.provider.clone(),
            model: member.model.clone(),
            in_place: spec.in_place,
            backend: if spec.tmux {
                WorkerBackend::Tmux
            } else {
                WorkerBackend::Process
            },
            // Another machine may have to continue the work of this one.
            repo: spec.repo.clone(),
        };
        Ok(match env.launcher.start(&wanted, 0) {
            Ok(_) => WorkerStart::New,
            Err(error) => {
                WorkerStart::Failed(format!("{} could not be started: {error}", member.name))
            }
        })
    }

    /// Returns whether it is time to supervise the workers.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        now >= self.next_look
    }

    /// Replaces dead and hung workers, and returns a sentence for each finding that the journal does not have.
    pub(super) fn supervise(&mut self) -> Result<Vec<String>> {
        let found = self.supervisor.check_workers()?.into_iter();
        let told = found.filter_map(|found| match found {
            SupervisorFinding::Verdict(..) | SupervisorFinding::Restarted(..) => None,
            SupervisorFinding::NotRestarted(worker, why) => {
                Some(format!("{worker} cannot be started: {why}"))
            }
            SupervisorFinding::GivenUp(worker) => Some(format!(
                "{worker} ended too often and is not restarted; `teamster worker start` starts it"
            )),
        });
        Ok(told.collect())
    }

    /// Fails if the store has refused the changes of a worker for a while and no other worker works: they would try without
    /// end, and the user would not learn of it. `now` is from before the workers were supervised.
    pub(super) fn require_store(&mut self, now: Instant) -> Result<()> {
        let Some((worker, refusal)) = self.supervisor.refusal() else {
            self.refused_since = None;
            return Ok(());
        };
        let since = *self.refused_since.get_or_insert(now);
        if now.saturating_duration_since(since) < REFUSAL_PATIENCE {
            return Ok(());
        }
        let hint = refusal.hint.as_deref();
        let message = format!("no worker can go on: {worker} {}", refusal.message);
        let error = StoreError::new(StoreErrorKind::Unreachable, message);
        let error = error.hint(hint.unwrap_or("`teamster store status` checks the store"));
        Err(error.into())
    }

    /// Notes when the workers were supervised.
    pub(super) fn note_supervised(&mut self, now: Instant) {
        self.next_look = now + SUPERVISE_AGAIN;
    }

    /// Notes that this host stops its workers.
    pub(super) fn note_stopping(&mut self) {
        self.is_up = false;
        self.is_supervised = false;
        self.refused_since = None;
    }
}

/// Asks all workers to stop, as urgently as requested, and returns those that are still alive and why. A more urgent
/// request ends the wait. Meanwhile the run is shown.
pub(super) fn stop(
    run: &mut RunContext<'_>,
    reason: &str,
    level: StopLevel,
) -> Result<Vec<String>> {
    let wanted = run.state().stop_request.as_ref();
    let wanted = wanted.and_then(|request| request.deadline_ms);
    let request = ShutdownRequest {
        drain: level == StopLevel::Drain,
        force: level == StopLevel::Kill,
        deadline: wanted.map_or(run.env().stop_deadline, Duration::from_millis),
        ..stop_request(run, reason)
    };
    let ends = with_coordinator(run, level, |shutdown| shutdown.run(&request))?;
    let alive = ends.iter().filter(|end| end.how == EndKind::Alive);
    Ok(alive
        .map(|end| format!("{}: {}", end.worker, end.note))
        .collect())
}

/// Stops all workers because the run cannot continue, and returns a sentence for each that is still alive. If they
/// cannot be asked, because nothing can be written, their processes are ended; their work is in their worktrees, and is
/// resumed from there.
pub(super) fn stop_after_error(run: &mut RunContext<'_>) -> Vec<String> {
    let request = stop_request(run, "the run cannot go on");
    with_coordinator(run, StopLevel::Drain, |shutdown| {
        match shutdown.run(&request) {
            Ok(ends) => {
                let alive = ends.iter().filter(|end| end.how == EndKind::Alive);
                alive
                    .map(|end| format!("{} is still running: {}", end.worker, end.note))
                    .collect()
            }
            Err(error) => {
                let text = format!(
                    "the workers could not be stopped in order, and those that still run are killed: {error}"
                );
                (shutdown.tell)(&text);
                shutdown.end_processes(&request)
            }
        }
    })
}

/// Returns the request that stops all workers of the team.
fn stop_request(run: &RunContext<'_>, reason: &str) -> ShutdownRequest {
    ShutdownRequest {
        team: run.team().clone(),
        only: None,
        actor: HOST.to_owned(),
        reason: reason.to_owned(),
        drain: false,
        force: false,
        deadline: ERROR_DEADLINE,
    }
}

/// Stops workers with a shutdown coordinator while the run is shown; a request above `level` ends the wait.
fn with_coordinator<T>(
    run: &mut RunContext<'_>,
    level: StopLevel,
    work: impl FnOnce(&mut ShutdownCoordinator<'_>) -> T,
) -> T {
    let env = run.env();
    let (store, machine, project, tmux) = (env.store, env.machine, env.project, env.tmux);
    let alerts = EndAlerts::below(&env.layout.claude);
    let run = RefCell::new(run);
    let mut tell = |text: &str| run.borrow_mut().say(text);
    let hurry = || {
        let mut run = run.borrow_mut();
        run.tick_while_stopping();
        run.stop_level() > level
    };
    work(&mut ShutdownCoordinator {
        store,
        machine,
        project,
        alerts,
        tmux,
        tell: &mut tell,
        hurry: &hurry,
    })
}

/// Returns the error of a run whose workers do not stop.
pub(super) fn survivors_error(alive: &[String]) -> RunError {
    RunError::refused(
        format!("these workers did not stop: {}", alive.join(", ")),
        "`teamster shutdown --force` ends them; then `teamster run --resume TEAM`",
    )
}

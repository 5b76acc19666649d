//! Stops a run from outside its terminal.
//!
//! The host ends its run. If one is alive, it receives the request through the journal and treats it like Ctrl-C, in
//! any stage: working, at its plan or at its gate. If there is none, [`cancel`] ends the run itself, under the host's
//! lock.

use std::time::{Duration, Instant};

use teamster_fs::proc::Machine;
use teamster_isolate::terminate;
use teamster_journal::payload::{RunEnd, RunStopRequested, StopLevel};
use teamster_journal::{Event, EventActor, EventKind, FinishedRun, NewEvent};
use teamster_run::host::{Host, ProjectLock, TeamLock};
use teamster_run::observer::{GateReply, RunObserver, RunSnapshot};
use teamster_types::TeamName;
use teamster_types::process::ProcessState;

use super::{STOP_DEADLINE, failed, open_project, spec_of, state_of, with_environment};
use crate::app::App;
use crate::error::{AppError, ErrorKind, Result};
use crate::trace_log;
use crate::workers;

/// How long a host may take beyond the deadline of its workers: for git, for the report, and to exit.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a host may take to kill all workers before it is killed itself.
const FORCE_PATIENCE: Duration = Duration::from_secs(15);
/// How long a host may take to print its last lines after the run has ended.
const LAST_LINES: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Cancels the run of a team in any stage, and returns how it ended. `tell` receives progress messages while waiting.
pub fn cancel(
    app: &App,
    team: &TeamName,
    level: StopLevel,
    tell: &mut dyn FnMut(&str),
) -> Result<FinishedRun> {
    app.must_be_a_person("cancelling a run")?;
    spec_of(app, team)?;
    let (state, _) = state_of(app.read()?, team)?;
    if let Some(finished) = &state.finished {
        return Err(ended_before(team, finished));
    }
    let is_asked = ask_host(app, team, level, true, None)?;
    if is_asked {
        tell(&format!("the host of {team} was told to stop its workers"));
        wait_for_host(app, team, level, STOP_DEADLINE, tell)?;
    }
    let (state, _) = state_of(app.read()?, team)?;
    let finished = match state.finished {
        Some(finished) => finished,
        None => end_unhosted(app, team, level, tell)?,
    };
    if finished.end != RunEnd::Cancelled {
        return Err(ended_before(team, &finished));
    }
    Ok(finished)
}

fn ended_before(team: &TeamName, finished: &FinishedRun) -> AppError {
    let word = finished.end.words();
    let error = AppError::new(
        ErrorKind::Nothing,
        format!(
            "the run of team {team} is over, {word}: {}",
            finished.reason
        ),
    );
    error.hint(format!("`teamster status --team {team}` shows it"))
}

/// Requests that the host of a team's run stop; returns whether there is one.
pub(crate) fn ask_host(
    app: &App,
    team: &TeamName,
    level: StopLevel,
    cancel: bool,
    deadline: Option<Duration>,
) -> Result<bool> {
    let (layout, read) = (&app.layout, app.read()?);
    let has_run = read.team(team)?.run().is_some();
    if !has_run || !TeamLock::is_held(layout, team)? {
        return Ok(false);
    }
    let request = RunStopRequested {
        level,
        cancel,
        deadline_ms: deadline.and_then(|deadline| u64::try_from(deadline.as_millis()).ok()),
    };
    let event = NewEvent::new(EventActor::Person, EventKind::RunStopRequested(request));
    app.store()?.record(team, event)?;
    Ok(true)
}

/// Waits until a host that was asked to stop has ended. A host that was asked to kill all workers and does not end is
/// killed itself, if its process can be identified with certainty.
pub(crate) fn wait_for_host(
    app: &App,
    team: &TeamName,
    level: StopLevel,
    deadline: Duration,
    tell: &mut dyn FnMut(&str),
) -> Result {
    let start = Instant::now();
    let host = app.read()?.team(team)?.host();
    let is_forced = level == StopLevel::Kill;
    let patience = if is_forced {
        FORCE_PATIENCE
    } else {
        deadline + PATIENCE
    };
    while TeamLock::is_held(&app.layout, team)? {
        if start.elapsed() < patience {
            std::thread::sleep(LOOK_AGAIN);
            continue;
        }
        if is_forced {
            return kill_host(app, team, tell);
        }
        return Err(does_not_end(team, ""));
    }
    // The host prints its last lines after it has released its lock, but nothing of a stopped team may be left running.
    let (read, freed) = (app.read()?, Instant::now());
    let lives = || {
        let host = host.as_ref();
        host.is_some_and(|host| read.process_state(host) == ProcessState::Alive)
    };
    while lives() && freed.elapsed() < LAST_LINES {
        std::thread::sleep(LOOK_AGAIN);
    }
    Ok(())
}

fn does_not_end(team: &TeamName, why: &str) -> AppError {
    AppError::new(
        ErrorKind::Failed,
        format!("the host of team {team} was told to stop but has not ended{why}"),
    )
    .hint(format!(
        "`teamster cancel {team} --force` ends it; `teamster status --team {team}` shows where it is"
    ))
}

/// Kills the process that hosts a team, if its record identifies it with certainty.
fn kill_host(app: &App, team: &TeamName, tell: &mut dyn FnMut(&str)) -> Result {
    let host = app.read()?.team(team)?.host();
    let Some(host) = host.filter(|host| {
        app.read()
            .is_ok_and(|read| read.process_state(host) == ProcessState::Alive)
    }) else {
        return Err(does_not_end(team, ": its process cannot be seen"));
    };
    match terminate(&Machine::read(), &host, Duration::ZERO) {
        Ok(_) => {
            tell(&format!("the host of {team} did not end and was killed"));
            Ok(())
        }
        Err(error) => Err(does_not_end(team, &format!(": {error}"))),
    }
}

/// Ends the run of a team without a host. Another run may work in the project meanwhile; its files are not touched.
fn end_unhosted(
    app: &App,
    team: &TeamName,
    level: StopLevel,
    tell: &mut dyn FnMut(&str),
) -> Result<FinishedRun> {
    let spec = spec_of(app, team)?;
    let project = workers::project_of(app, team)?;
    let layout = app.layout.of_project(&project);
    let Some(_team) = TeamLock::take(&layout, team)? else {
        return Err(super::busy());
    };
    // Held, if it is free, while the state files are written.
    let _project = ProjectLock::take(&open_project(&project)?)?;
    let mut observer = UnattendedObserver { level, tell };
    with_environment(
        app,
        app.store()?,
        team,
        &spec,
        &mut observer,
        |environment| {
            Host::new(environment, team.clone(), spec.clone())
                .cancel()
                .map_err(|error| {
                    failed(
                        team,
                        spec.collects,
                        trace_log::of_host(&project, team),
                        error,
                    )
                })
        },
    )?
}

/// Observes the end of a run without a host. It asks no questions.
struct UnattendedObserver<'a> {
    level: StopLevel,
    tell: &'a mut dyn FnMut(&str),
}

impl RunObserver for UnattendedObserver<'_> {
    fn event(&mut self, _event: &Event) {}

    fn past_event(&mut self, _event: &Event) {}

    fn update(&mut self, _snapshot: &RunSnapshot<'_>) {}

    fn say(&mut self, text: &str) {
        (self.tell)(text);
    }

    fn output(&mut self, _lines: &str) {}

    fn stop_level(&self) -> StopLevel {
        self.level
    }

    fn open_gate(&mut self, _text: &str) {}

    fn answer(&mut self) -> Option<GateReply> {
        None
    }

    fn waits_for_answer(&self) -> bool {
        false
    }
}

//! A run that continues without a terminal.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use teamster_fs::{Dir, layout};
use teamster_isolate::detached::DetachedProgram;
use teamster_journal::EventType;
use teamster_types::TeamName;
use teamster_workers::launch::own_program;

use crate::app::App;
use crate::error::{AppError, ErrorKind, Result};
use crate::workers;

/// How long a host may take to start.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The process that hosts a run without a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetachedHost {
    /// Its process.
    pub pid: u32,
    /// The file that it writes to.
    pub log: PathBuf,
}

/// Starts the host of an existing run, and returns once it has announced itself in the journal. `more` are options of
/// `teamster run --resume`.
pub fn begin_detached(app: &App, team: &TeamName, more: &[String]) -> Result<DetachedHost> {
    let project = workers::project_of(app, team)?;
    let before = app.read()?.position(team)?;
    let mut logs = Dir::open_or_create_root(&project)?;
    for name in [layout::OMC, layout::LOGS, team.as_str()] {
        logs = logs.child_or_create(name)?;
    }
    let args: Vec<OsString> = ["run", "--resume", team.as_str(), "--json"]
        .into_iter()
        .chain(more.iter().map(String::as_str))
        .map(OsString::from)
        .collect();
    let address = app.store_address()?;
    let set: Vec<(OsString, OsString)> = address
        .map(|address| (crate::env_vars::STORE.into(), address))
        .into_iter()
        .collect();
    let mut child = DetachedProgram {
        program: &own_program(),
        args: &args,
        folder: &project,
        set: &set,
        unset: &[crate::env_vars::SOCKET, "TMUX", "TMUX_PANE"],
    }
    .start(logs.open_append(layout::RUN_LOG)?)
    .map_err(|error| {
        AppError::new(
            ErrorKind::Failed,
            format!("the host could not be started: {error}"),
        )
    })?;
    let pid = child.id();
    let log = logs.join(layout::RUN_LOG);
    let start = Instant::now();
    loop {
        let events = app.read()?.events(team, before + 1, 100)?.events;
        let has_begun = |event: &teamster_journal::Event| {
            event.is(EventType::RunStarted) || event.is(EventType::RunResumed)
        };
        if events.iter().any(has_begun) {
            break;
        }
        let is_over = !matches!(child.try_wait(), Ok(None));
        if is_over || start.elapsed() > PATIENCE {
            return Err(AppError::new(
                ErrorKind::Failed,
                format!("the host of {team} did not start"),
            )
            .hint(format!("see {}", log.display())));
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    Ok(DetachedHost { pid, log })
}

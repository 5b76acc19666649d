//! Starts workers: the bridge becomes a separate process, and counts as started once its first heartbeat is written.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use teamster_fs::{Dir, Durability, FsError, layout};
use teamster_isolate::STORE;
use teamster_isolate::detached::DetachedProgram;
use teamster_isolate::process_tree::{GUARD, LAUNCH};
use teamster_isolate::tmux::{PaneCommand, Tmux, TmuxError};
use teamster_store::{ReadStore, StoreError};
use teamster_types::heartbeat::Heartbeat;

use crate::guard::{self, GUARDED};
use crate::record::{WorkerBackend, WorkerSpec};
use crate::socket::SOCKET;

/// The variable that a bridge is started with: its team and its worker, joined by a slash. Its child processes can change
/// their own variables, but not this one of the bridge.
pub const BRIDGE: &str = "TEAMSTER_BRIDGE";

/// Variables that a bridge and its guard do not inherit: the caller may itself be a worker, or run in a tmux pane.
const NOT_INHERITED: [&str; 8] = [
    "TEAMSTER_WORKER",
    SOCKET,
    "TMUX",
    "TMUX_PANE",
    LAUNCH,
    BRIDGE,
    GUARD,
    GUARDED,
];

/// How long a bridge may take to start. It usually needs moments, but longer on a machine that is busy with fifty of them.
const START_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The size in bytes at which the output of bridges is rotated.
const LONGEST_LOG: u64 = 4 * 1024 * 1024;
/// The number of bytes of a bridge's output that are shown when it did not start.
const SHOWN_OUTPUT: usize = 2_000;

/// Starts the workers of a project.
pub struct Launcher<'a> {
    /// The store that heartbeats are read from.
    pub store: &'a dyn ReadStore,
    /// The project's folder.
    pub project: &'a Path,
    /// The path of teamster's own program.
    pub teamster: &'a Path,
    /// Teamster's own tmux server; needed only for workers that run in it.
    pub tmux: Result<Tmux, TmuxError>,
    /// How long a worker may take to make its worktree usable before its first heartbeat.
    pub setup: Duration,
    /// The address of the store to pass to bridges, when they cannot read it from the user's settings.
    pub address: Option<OsString>,
}

/// Why a worker did not start.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// A file could not be read or written.
    #[error(transparent)]
    Files(#[from] FsError),
    /// A tmux command failed.
    #[error("{0}")]
    Tmux(String),
    /// The program could not be started.
    #[error("the worker's process could not be started: {0}")]
    Process(#[from] std::io::Error),
    /// The store refused an operation.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The bridge ended before its first heartbeat.
    #[error("worker {worker} did not start: {last}")]
    NotBegun {
        /// The worker's name.
        worker: String,
        /// What the bridge printed last.
        last: String,
    },
}

impl Launcher<'_> {
    /// Starts a worker and waits for its first heartbeat.
    pub fn start(&self, wanted: &WorkerSpec, restarts: u32) -> Result<Heartbeat, LaunchError> {
        let launch = teamster_fs::random_hex();
        let project = Dir::open_or_create_root(self.project)?;
        let logs = project.child_or_create(layout::OMC)?;
        let logs = logs.descend_or_create(&layout::log_folders(&wanted.team, &wanted.worker))?;
        let is_long = |stamp: &teamster_fs::Stamp| stamp.size > LONGEST_LOG;
        if logs
            .stamp(layout::BRIDGE_LOG)?
            .as_ref()
            .is_some_and(is_long)
        {
            logs.rename(layout::BRIDGE_LOG, &logs, layout::OLD_BRIDGE_LOG)?;
        }
        let began = logs
            .stamp(layout::BRIDGE_LOG)?
            .map_or(0, |stamp| stamp.size);
        let args = arguments(wanted, restarts);
        let is_over: Box<dyn FnMut() -> bool> = match wanted.backend {
            WorkerBackend::Process => {
                let output = logs.open_append(layout::BRIDGE_LOG)?;
                let mut child = DetachedProgram {
                    program: self.teamster,
                    args: &args,
                    folder: self.project,
                    set: &self.variables(wanted, &launch),
                    unset: &NOT_INHERITED,
                }
                .start(output)?;
                Box::new(move || !matches!(child.try_wait(), Ok(None)))
            }
            WorkerBackend::Tmux => self.start_pane(wanted, &project, &launch, args)?,
        };
        self.wait(wanted, &launch, &logs, began, is_over)
    }

    /// Starts the bridge in a pane. Its environment is not passed through tmux's arguments, which other users can see, but
    /// through a private file that the bridge removes.
    fn start_pane(
        &self,
        wanted: &WorkerSpec,
        project: &Dir,
        launch: &str,
        mut args: Vec<OsString>,
    ) -> Result<Box<dyn FnMut() -> bool>, LaunchError> {
        let tmux = match &self.tmux {
            Ok(tmux) => tmux.clone(),
            Err(error) => return Err(LaunchError::Tmux(format!("{error}; {}", error.hint()))),
        };
        let ours = project.child_or_create(layout::OMC)?;
        let folder =
            ours.descend_or_create(&layout::agent_folders(&wanted.team, &wanted.worker))?;
        folder.replace(
            layout::AGENT_ENVIRONMENT,
            &environment(&self.variables(wanted, launch)),
            Durability::Fast,
        )?;
        args.push("--environment".into());
        args.push(folder.join(layout::AGENT_ENVIRONMENT).into());
        args.insert(0, self.teamster.into());
        let command = PaneCommand {
            argv: &args,
            env: &[(LAUNCH.into(), launch.into())],
            folder: self.project,
        };
        let started = tmux.start(&wanted.team, &wanted.worker, &command);
        started.map_err(|error| LaunchError::Tmux(format!("{error}; {}", error.hint())))?;
        let (team, worker) = (wanted.team.clone(), wanted.worker.clone());
        Ok(Box::new(move || {
            let pane = tmux.pane_of(&team, &worker);
            pane.is_ok_and(|pane| pane.is_none_or(|pane| pane.dead))
        }))
    }

    /// Returns the variables that a bridge gets in addition to the caller's environment.
    fn variables(&self, wanted: &WorkerSpec, launch: &str) -> Vec<(OsString, OsString)> {
        let mut variables = guard::variables(wanted, launch).to_vec();
        variables.extend(
            self.address
                .iter()
                .map(|address| (STORE.into(), address.clone())),
        );
        variables
    }

    fn wait(
        &self,
        wanted: &WorkerSpec,
        launch: &str,
        logs: &Dir,
        began: u64,
        mut is_over: Box<dyn FnMut() -> bool>,
    ) -> Result<Heartbeat, LaunchError> {
        let deadline = Instant::now() + START_TIMEOUT + self.setup;
        loop {
            let (beats, _) = self.store.heartbeats(&wanted.team)?;
            let ours = |beat: &Heartbeat| beat.launch.as_deref() == Some(launch);
            if let Some(beat) = beats.into_iter().find(ours) {
                return Ok(beat);
            }
            if is_over() || Instant::now() >= deadline {
                let said = logs.read_from(layout::BRIDGE_LOG, began)?;
                let said = said.map(|(bytes, _)| String::from_utf8_lossy(&bytes).into_owned());
                let last = said.unwrap_or_default().trim().to_owned();
                let start = last.len().saturating_sub(SHOWN_OUTPUT);
                let start = (start..=last.len())
                    .find(|at| last.is_char_boundary(*at))
                    .unwrap_or(0);
                return Err(LaunchError::NotBegun {
                    worker: wanted.worker.to_string(),
                    last: match &last[start..] {
                        // On a full disk, a program cannot write why it ended either.
                        "" => match teamster_fs::left_on_full_disk(self.project) {
                            Some(_) => format!("the disk of {} is full", self.project.display()),
                            None => "it printed nothing".to_owned(),
                        },
                        words => words.to_owned(),
                    },
                });
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

/// Returns the arguments that make teamster's own program the bridge.
fn arguments(wanted: &WorkerSpec, restarts: u32) -> Vec<OsString> {
    let mut args: Vec<OsString> = vec!["worker".into(), "bridge".into()];
    let mut say = |name: &str, value: &str| {
        args.push(name.into());
        args.push(value.into());
    };
    say("--team", wanted.team.as_str());
    say("--name", wanted.worker.as_str());
    say("--provider", &wanted.provider);
    say("--backend", wanted.backend.as_str());
    if let Some(model) = &wanted.model {
        say("--model", model);
    }
    if let Some(repo) = &wanted.repo {
        say("--repo", repo);
    }
    if restarts > 0 {
        say("--restarts", &restarts.to_string());
    }
    if wanted.in_place {
        args.push("--in-place".into());
    }
    args
}

/// Returns the caller's environment for a bridge that tmux starts. Each variable ends with a zero byte, which no value
/// contains.
fn environment(more: &[(OsString, OsString)]) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    let mut bytes = Vec::new();
    let own = std::env::vars_os().filter(|(name, _)| {
        !NOT_INHERITED.contains(&name.to_string_lossy().as_ref()) && name != STORE
    });
    for (name, value) in own.chain(more.iter().cloned()) {
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(b'=');
        bytes.extend_from_slice(value.as_bytes());
        bytes.push(0);
    }
    bytes
}

/// Reads and removes the environment that [`Launcher`] wrote for a bridge in a pane.
pub fn take_environment(file: &Path) -> Result<Vec<(OsString, OsString)>, FsError> {
    use std::os::unix::ffi::OsStringExt;
    let (Some(folder), Some(name)) = (file.parent(), file.file_name().and_then(|n| n.to_str()))
    else {
        return Ok(Vec::new());
    };
    let Some(dir) = Dir::open_root(folder)? else {
        return Ok(Vec::new());
    };
    let found = dir.read(name)?;
    dir.remove(name)?;
    let bytes = found.map(|(bytes, _)| bytes).unwrap_or_default();
    Ok(bytes
        .split(|byte| *byte == 0)
        .filter_map(|pair| {
            let at = pair.iter().position(|byte| *byte == b'=')?;
            Some((
                OsString::from_vec(pair[..at].to_vec()),
                OsString::from_vec(pair[at + 1..].to_vec()),
            ))
        })
        .collect())
}

/// Returns the path of teamster's own program, or its name when the path is unknown.
pub fn own_program() -> PathBuf {
    std::env::current_exe().unwrap_or_else(|_| PathBuf::from("teamster"))
}

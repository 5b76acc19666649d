//! Logs of workers on other machines: asked for through the store, and kept here as copies that are read like any log.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use teamster_fs::{Dir, Lock, Sync, Waited, layout};
use teamster_isolate::OrTrace as _;
use teamster_store::{LogPiece, Store};

use super::folder;
use crate::app::App;
use crate::error::{AppError, ErrorKind, Result};
use crate::workers::{self, NamedWorker};

/// The folder of all copies, in the folder that a team has on this machine.
const COPIES: &str = "elsewhere";
/// Whoever adds to copies holds this lock, in the folder of all of them.
const LOCK: &str = ".lock";
/// How long a worker may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often an answer is looked for.
const LOOK: Duration = Duration::from_millis(50);
/// How often a log that somebody follows is asked for.
const FOLLOW: Duration = Duration::from_secs(1);
/// The most answers that one reading waits for, of a megabyte each.
const ANSWERS: usize = 16;

/// Where the logs of a worker can be read.
#[derive(Debug)]
pub struct LogPlace {
    /// The worker, with the folder that its logs, or copies of them, are in.
    pub named: NamedWorker,
    copies: Option<LogCopies>,
}

/// Copies of the logs of a worker on another machine.
struct LogCopies {
    store: Arc<dyn Store>,
    named: NamedWorker,
}

impl std::fmt::Debug for LogCopies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.named.fmt(f)
    }
}

impl LogPlace {
    /// Finds where the logs of a worker can be read. Those of a worker on another machine have to be brought here.
    pub fn find(app: &App, named: NamedWorker) -> Result<Self> {
        let is_here =
            app.layout.database.is_none() || folder(&named)?.is_some() || named.record()?.is_some();
        if is_here {
            return Ok(Self {
                named,
                copies: None,
            });
        }
        let project = workers::team_folder(app, &named.team)?.child_or_create(COPIES)?;
        let named = NamedWorker {
            project: project.path().to_owned(),
            ..named
        };
        let copies = LogCopies {
            store: app.shared_store()?,
            named: named.clone(),
        };
        Ok(Self {
            named,
            copies: Some(copies),
        })
    }

    /// Brings everything here that was written by now. A worker that does not answer is an error only when nothing of its logs is
    /// here.
    pub fn bring(&self) -> Result<()> {
        let Some(copies) = &self.copies else {
            return Ok(());
        };
        match copies.bring() {
            Err(error) if folder(&self.named)?.is_some() => {
                tracing::debug!("older copies of logs are shown: {error}");
                Ok(())
            }
            brought => brought,
        }
    }

    /// Brings here what is written from now on, until what is returned is dropped.
    pub fn keep_bringing(self) -> BroughtLogs {
        let is_over = Arc::new(AtomicBool::new(false));
        if let Some(copies) = self.copies {
            let is_over = Arc::clone(&is_over);
            std::thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    copies.bring().or_trace("bring logs of another machine");
                    std::thread::sleep(FOLLOW);
                }
            });
        }
        BroughtLogs {
            named: self.named,
            is_over,
        }
    }
}

/// Logs that are kept up to date as long as this is there.
#[derive(Debug)]
pub struct BroughtLogs {
    /// The worker, with the folder that its logs, or copies of them, are in.
    pub named: NamedWorker,
    is_over: Arc<AtomicBool>,
}

impl Drop for BroughtLogs {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

impl LogCopies {
    fn bring(&self) -> Result<()> {
        let NamedWorker {
            team,
            worker,
            project,
        } = &self.named;
        let mut folders = vec![layout::OMC];
        folders.extend(layout::log_folders(team, worker));
        for _ in 0..ANSWERS {
            let copies = Dir::open_root(project)?.map(|dir| dir.descend(&folders));
            let present = match copies.transpose()?.flatten() {
                Some(copies) => sizes(&copies)?,
                None => Vec::new(),
            };
            let pieces = self.ask(&present)?;
            if pieces.is_empty() {
                return Ok(());
            }
            let root = Dir::open_or_create_root(project)?;
            // Somebody else here may have asked for the same.
            let Waited::Held(_lock) = Lock::wait(&root, LOCK, PATIENCE, false)? else {
                return Ok(());
            };
            let copies = root.descend_or_create(&folders)?;
            for piece in &pieces {
                add(&copies, piece)?;
            }
        }
        Ok(())
    }

    /// Asks the worker for what is not here yet.
    fn ask(&self, present: &[(String, u64)]) -> Result<Vec<LogPiece>> {
        let NamedWorker { team, worker, .. } = &self.named;
        let (beats, _) = self.store.heartbeats(team)?;
        if !beats.iter().any(|beat| beat.worker_name == *worker) {
            return Err(
                AppError::not_found(format!("there is no log of {worker} on this machine"))
                    .hint("it does not run; a worker that has ended has left its logs on its own machine, in .omc/logs of its clone"),
            );
        }
        let Some(request) = self.store.ask_for_logs(team, worker, present)? else {
            return Ok(Vec::new());
        };
        let asked = Instant::now();
        loop {
            if let Some(pieces) = self.store.answered_logs(team, &request)? {
                return Ok(pieces);
            }
            if asked.elapsed() >= PATIENCE {
                return Err(AppError::new(
                    ErrorKind::Unreachable,
                    format!("{worker} works on another machine and does not answer"),
                )
                .hint("its logs are there, in the folder .omc/logs of its clone; `teamster worker list` shows whether it runs"));
            }
            std::thread::sleep(LOOK);
        }
    }
}

fn sizes(copies: &Dir) -> Result<Vec<(String, u64)>> {
    let mut sizes = Vec::new();
    for entry in copies.entries()? {
        if let Some(stamp) = copies.stamp(&entry.name)? {
            sizes.push((entry.name, stamp.size));
        }
    }
    Ok(sizes)
}

/// Adds a piece to a copy, unless the copy has it.
fn add(copies: &Dir, piece: &LogPiece) -> Result<()> {
    // The name comes from another machine.
    if piece.file.contains('/') || piece.file.starts_with('.') {
        return Err(AppError::refused(format!(
            "a worker names its log {:?}, which is no name of a file",
            piece.file
        )));
    }
    let size = copies.stamp(&piece.file)?.map_or(0, |stamp| stamp.size);
    let text = piece.text.as_bytes();
    if piece.from == size {
        copies.append(&piece.file, text, Sync::Fast)?;
    } else if piece.from == 0 {
        copies.replace(&piece.file, text, Sync::Fast)?;
    }
    Ok(())
}

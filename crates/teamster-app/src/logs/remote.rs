//! Logs of workers on other machines: requested through the store, and kept locally as copies that are read like any
//! log.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use teamster_fs::{Dir, Durability, Lock, LockWait, layout};
use teamster_isolate::OrTrace as _;
use teamster_store::{KnownLog, LogPiece, Store};

use super::folder;
use crate::app::App;
use crate::error::{AppError, ErrorKind, Result};
use crate::workers::{self, NamedWorker};

/// The folder of all copies, within the team's folder on this machine.
const COPIES: &str = "elsewhere";
/// The lock file in the folder of all copies, held while adding to them.
const LOCK: &str = ".lock";
/// How long a worker may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The poll interval while waiting for an answer.
const LOOK: Duration = Duration::from_millis(50);
/// How often a followed log is requested.
const FOLLOW: Duration = Duration::from_secs(1);
/// The maximum number of answers that one read waits for, of half a megabyte each.
const ANSWERS: usize = 128;
/// The file beside the copies of a worker's logs that records the original of each copy, and how far it was copied.
const ORIGINS: &str = ".origins.json";
/// The maximum total size of one worker's copies, in bytes, because the worker's claims about sizes are not trusted.
const MOST_COPIED: u64 = 1024 * 1024 * 1024;

/// Where the logs of a worker can be read.
#[derive(Debug)]
pub struct LogLocation {
    /// The worker, with the folder of its logs or their copies.
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

impl LogLocation {
    /// Finds the logs of a worker. Those of a worker on another machine have to be fetched first.
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

    /// Fetches everything that has been written so far. A worker that does not answer is an error only when there is no
    /// copy of its logs.
    pub fn fetch(&self) -> Result<()> {
        let Some(copies) = &self.copies else {
            return Ok(());
        };
        match copies.fetch() {
            Err(error) if folder(&self.named)?.is_some() => {
                tracing::debug!("older copies of logs are shown: {error}");
                Ok(())
            }
            brought => brought,
        }
    }

    /// Keeps fetching until the returned value is dropped.
    pub fn keep_fetching(self) -> SyncedLogs {
        let is_over = Arc::new(AtomicBool::new(false));
        if let Some(copies) = self.copies {
            let is_over = Arc::clone(&is_over);
            std::thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    copies.fetch().or_trace("bring logs of another machine");
                    std::thread::sleep(FOLLOW);
                }
            });
        }
        SyncedLogs {
            named: self.named,
            is_over,
        }
    }
}

/// Logs that are kept up to date while this value exists.
#[derive(Debug)]
pub struct SyncedLogs {
    /// The worker, with the folder of its logs or their copies.
    pub named: NamedWorker,
    is_over: Arc<AtomicBool>,
}

impl Drop for SyncedLogs {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

impl LogCopies {
    fn fetch(&self) -> Result<()> {
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
                Some(copies) => CopiedLogs::read(&copies)?.known(),
                None => Vec::new(),
            };
            let pieces = self.ask(&present)?;
            if pieces.is_empty() {
                return Ok(());
            }
            let root = Dir::open_or_create_root(project)?;
            // Another process on this machine may be requesting the same.
            let LockWait::Held(_lock) = Lock::wait(&root, LOCK, PATIENCE, false)? else {
                return Ok(());
            };
            let copies = root.descend_or_create(&folders)?;
            CopiedLogs::read(&copies)?.add(&copies, pieces)?;
        }
        tracing::debug!("{worker} has more logs than one request fetches");
        Ok(())
    }

    /// Requests from the worker what is not copied yet.
    fn ask(&self, present: &[KnownLog]) -> Result<Vec<LogPiece>> {
        let NamedWorker { team, worker, .. } = &self.named;
        let (beats, _) = self.store.heartbeats(team)?;
        if !beats.iter().any(|beat| beat.worker_name == *worker) {
            return Err(
                AppError::not_found(format!("there is no log of {worker} on this machine"))
                    .hint("it is not running; the logs of a worker that has ended are on its own machine, in .omc/logs of its clone"),
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

/// A copy of a log, and its original.
#[derive(Debug, Serialize, Deserialize)]
struct CopiedLog {
    /// The name of the copy.
    file: String,
    /// The original, and the offset of its next piece.
    #[serde(flatten)]
    original: KnownLog,
    /// The size of the copy, which differs from that of the original if that contains invalid UTF-8.
    size: u64,
}

/// The copies of a worker's logs.
#[derive(Debug, Default)]
struct CopiedLogs(Vec<CopiedLog>);

impl CopiedLogs {
    /// Reads the list of copies. A copy that was modified is ignored, and fetched again.
    fn read(copies: &Dir) -> Result<Self> {
        let noted = copies.read(ORIGINS)?.map(|(bytes, _)| bytes);
        let noted = noted.and_then(|bytes| serde_json::from_slice::<Vec<CopiedLog>>(&bytes).ok());
        let mut whole = Vec::new();
        for copied in noted.unwrap_or_default() {
            let size = copies.stamp(&copied.file)?.map_or(0, |stamp| stamp.size);
            if size >= copied.size {
                whole.push(copied);
            }
        }
        Ok(Self(whole))
    }

    /// Returns how far each original has been copied.
    fn known(&self) -> Vec<KnownLog> {
        self.0
            .iter()
            .map(|copied| copied.original.clone())
            .collect()
    }

    /// Appends the pieces that a worker has sent. The caller holds the lock of the copies; pieces that another process
    /// added meanwhile are skipped.
    fn add(&mut self, copies: &Dir, pieces: Vec<LogPiece>) -> Result<()> {
        // A rotated log passes its name to its successor, so its copy is renamed first.
        let (known, new): (Vec<_>, Vec<_>) = pieces
            .into_iter()
            .partition(|piece| self.place_of(piece).is_some());
        for piece in known.iter().chain(&new) {
            // The name comes from another machine, so it is not trusted.
            if !layout::is_worker_log(&piece.file) {
                tracing::debug!("a worker sent a log with the invalid name {:?}", piece.file);
                continue;
            }
            let all: u64 = self.0.iter().map(|copied| copied.size).sum();
            if all + piece.text.len() as u64 > MOST_COPIED {
                return Err(AppError::refused(format!(
                    "the copies of this worker's logs in {} take a gigabyte, and it has more",
                    copies.path().display()
                ))
                .hint("remove that folder, or read the logs on the worker's own machine"));
            }
            self.add_piece(copies, piece)?;
            let noted = serde_json::to_vec(&self.0).unwrap_or_default();
            copies.replace(ORIGINS, &noted, Durability::Fast)?;
        }
        Ok(())
    }

    fn place_of(&self, piece: &LogPiece) -> Option<usize> {
        let mut copied = self.0.iter();
        copied.position(|copied| copied.original.identity == piece.identity)
    }

    fn add_piece(&mut self, copies: &Dir, piece: &LogPiece) -> Result<()> {
        let text = piece.text.as_bytes();
        if let Some(place) = self.place_of(piece) {
            let is_next = self.0[place].original.next == piece.from;
            if !is_next && piece.from > 0 {
                return Ok(());
            }
            if self.0[place].file != piece.file {
                copies.rename(&self.0[place].file, copies, &piece.file)?;
                let renamed = self.0.remove(place);
                self.0.retain(|copied| copied.file != piece.file);
                let file = piece.file.clone();
                self.0.push(CopiedLog { file, ..renamed });
            }
        } else if piece.from > 0 {
            return Ok(());
        }
        let place = self.place_of(piece);
        let kept = place.filter(|place| self.0[*place].original.next == piece.from);
        let size = if let Some(place) = kept {
            let size = self.0[place].size;
            // Data that was appended but not recorded before a crash is appended again.
            copies.truncate(&piece.file, size)?;
            copies.append(&piece.file, text, Durability::Fast)?;
            size
        } else {
            copies.replace(&piece.file, text, Durability::Fast)?;
            0
        };
        self.0.retain(|copied| copied.file != piece.file);
        self.0.push(CopiedLog {
            file: piece.file.clone(),
            original: KnownLog {
                identity: piece.identity.clone(),
                next: piece.next,
            },
            size: size + text.len() as u64,
        });
        Ok(())
    }
}

#[cfg(test)]
#[allow(
    clippy::disallowed_methods,
    reason = "the test looks at the copies as a person would"
)]
mod tests {
    use teamster_testkit::scratch::Scratch;

    use super::*;

    fn piece(file: &str, identity: &str, from: u64, text: &str) -> LogPiece {
        LogPiece {
            file: file.to_owned(),
            identity: identity.to_owned(),
            from,
            next: from + text.len() as u64,
            text: text.to_owned(),
        }
    }

    /// A folder of copies; each answer is added by a separate reader.
    struct CopiesFixture(Scratch);

    impl CopiesFixture {
        fn dir(&self) -> Dir {
            Dir::open_root(self.0.path()).unwrap().unwrap()
        }

        fn add(&self, pieces: Vec<LogPiece>) {
            let dir = self.dir();
            CopiedLogs::read(&dir).unwrap().add(&dir, pieces).unwrap();
        }

        fn text(&self, file: &str) -> Option<String> {
            std::fs::read_to_string(self.0.path().join(file)).ok()
        }
    }

    #[test]
    fn pieces_are_added_once_whoever_asked_for_them() {
        let copies = CopiesFixture(Scratch::new("log-copies"));
        copies.add(vec![piece("1.jsonl", "a", 0, "one\n")]);
        copies.add(vec![piece("1.jsonl", "a", 4, "two\n")]);
        // Two concurrent requests get the same answers, one of them late.
        copies.add(vec![piece("1.jsonl", "a", 4, "two\n")]);
        copies.add(vec![piece("1.jsonl", "a", 8, "three\n")]);
        assert_eq!(copies.text("1.jsonl").unwrap(), "one\ntwo\nthree\n");
        let known = CopiedLogs::read(&copies.dir()).unwrap().known();
        assert_eq!((known.len(), known[0].next), (1, 14));
    }

    #[test]
    fn log_that_was_put_aside_keeps_what_is_here_of_it() {
        let copies = CopiesFixture(Scratch::new("log-copies-aside"));
        copies.add(vec![piece("1.jsonl", "a", 0, "old 1\n")]);
        copies.add(vec![
            piece("1.jsonl", "b", 0, "new\n"),
            piece("1.old.jsonl", "a", 6, "old 2\n"),
        ]);
        assert_eq!(copies.text("1.old.jsonl").unwrap(), "old 1\nold 2\n");
        assert_eq!(copies.text("1.jsonl").unwrap(), "new\n");
        // A different file with the same name replaces the copy, and is never appended to it.
        copies.add(vec![piece("1.jsonl", "c", 4, "from its middle\n")]);
        assert_eq!(copies.text("1.jsonl").unwrap(), "new\n");
        copies.add(vec![piece("1.jsonl", "c", 0, "third\n")]);
        assert_eq!(copies.text("1.jsonl").unwrap(), "third\n");
    }

    #[test]
    fn piece_that_was_added_and_not_noted_is_not_there_twice() {
        let copies = CopiesFixture(Scratch::new("log-copies-killed"));
        copies.add(vec![piece("1.jsonl", "a", 0, "one\n")]);
        copies
            .dir()
            .append("1.jsonl", b"two\n", Durability::Fast)
            .unwrap();
        copies.add(vec![piece("1.jsonl", "a", 4, "two\n")]);
        assert_eq!(copies.text("1.jsonl").unwrap(), "one\ntwo\n");
    }

    #[test]
    fn hostile_names_reach_no_file_and_keep_no_log_back() {
        let copies = CopiesFixture(Scratch::new("log-copies-names"));
        copies.add(vec![
            piece("../1.jsonl", "a", 0, "x\n"),
            piece(".origins.json", "b", 0, "[]"),
            piece("notes.txt", "c", 0, "x\n"),
            piece("2.jsonl", "d", 0, "a log\n"),
        ]);
        assert_eq!(copies.text("2.jsonl").unwrap(), "a log\n");
        assert!(copies.text("notes.txt").is_none());
        assert!(copies.text("../1.jsonl").is_none());
        let known = CopiedLogs::read(&copies.dir()).unwrap().known();
        assert_eq!(known.len(), 1);
    }
}

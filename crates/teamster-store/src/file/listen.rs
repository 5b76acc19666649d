//! A listener that keeps its folders open: when nothing changed, a poll costs a few `stat` calls and reads no file.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use teamster_fs::{Dir, OrTrace as _, Stamp, layout};
use teamster_types::message::Mailbox;
use teamster_types::team::TeamOrigin;
use teamster_types::{TeamName, WorkerName};

use super::record::hash_of;
use super::{FileStore, native, no_team, read as files};
use crate::backend::Clock;
use crate::error::Result;
use crate::store::Signal;
use crate::watch::{ChangeCounters, Listen, ListenerUpdate};

/// After this many polls the folders are reopened, so that replaced folders are noticed.
const OPEN_AGAIN: u32 = 10;
/// How long a folder must be unchanged before its stamp is trusted. Two changes within one tick have the same
/// modification time, and some file systems count in seconds.
const SETTLES: Duration = Duration::from_secs(2);

pub(super) struct FileListener {
    claude: PathBuf,
    clock: Arc<dyn Clock>,
    team: TeamName,
    worker: WorkerName,
    open: Option<OpenFolders>,
    quiet: Option<NoSignals>,
    /// The worker's inbox in a team of Claude Code.
    client_inbox: Option<String>,
}

/// The signals folder while it holds no signal for the worker.
struct NoSignals {
    stamp: Option<Stamp>,
    /// When its stamp was first seen.
    since: Instant,
    /// Whether it was read again after its stamp had settled.
    settled: bool,
}

/// The open folders, and how often they were used.
struct OpenFolders {
    teams: Dir,
    team: Dir,
    inode: u64,
    all_tasks: Option<Dir>,
    looks: u32,
}

impl FileListener {
    pub(super) fn new(store: &FileStore, team: &TeamName, worker: &WorkerName) -> Result<Self> {
        let mut listener = Self {
            claude: store.claude.clone(),
            clock: Arc::clone(&store.clock),
            team: team.clone(),
            worker: worker.clone(),
            open: None,
            quiet: None,
            client_inbox: None,
        };
        let open = listener.open()?;
        let config = files::config(&open.team, team)?;
        if config.kind() == TeamOrigin::Claude {
            listener.client_inbox = Some(native::file(worker.as_str()));
        }
        listener.open = Some(open);
        Ok(listener)
    }

    fn open(&self) -> Result<OpenFolders> {
        let missing = || no_team(&self.team);
        let root = Dir::open_root(&self.claude)?.ok_or_else(missing)?;
        let teams = root.child(layout::TEAMS)?.ok_or_else(missing)?;
        let team = teams.child(self.team.as_str())?.ok_or_else(missing)?;
        Ok(OpenFolders {
            inode: team.own_stamp()?.inode,
            teams,
            team,
            all_tasks: root.child(layout::TASKS)?,
            looks: 0,
        })
    }

    /// Returns the open folders if they still belong to the team, and otherwise reopens them.
    fn folders(&mut self) -> Result<OpenFolders> {
        let Some(mut open) = self.open.take() else {
            return self.open();
        };
        open.looks += 1;
        let there = open.teams.stamp(self.team.as_str())?;
        let is_current = there.is_some_and(|stamp| stamp.inode == open.inode);
        if is_current && open.all_tasks.is_some() && open.looks < OPEN_AGAIN {
            return Ok(open);
        }
        self.open()
    }

    fn signals(&mut self, team: &Dir) -> Result<Vec<Signal>> {
        let stamp = team.stamp(layout::SIGNALS)?;
        let quiet = self.quiet.take().filter(|quiet| quiet.stamp == stamp);
        let mut quiet = quiet.unwrap_or_else(|| NoSignals {
            stamp,
            since: Instant::now(),
            settled: false,
        });
        if !quiet.settled {
            quiet.settled = quiet.since.elapsed() >= SETTLES;
            let found = read(team, &self.worker, self.clock.as_ref())?;
            if !found.is_empty() {
                return Ok(found);
            }
        }
        self.quiet = Some(quiet);
        Ok(Vec::new())
    }
}

impl Listen for FileListener {
    fn poll(&mut self) -> Result<ListenerUpdate> {
        let open = self.folders()?;
        // An unreadable signal must not keep the worker from everything else; it is read again with the next poll.
        let signals = self.signals(&open.team);
        let signals = signals.ok_or_trace("read stop signals").unwrap_or_default();
        let tasks = match &open.all_tasks {
            Some(all) => all.stamp(self.team.as_str())?,
            None => None,
        };
        let client_inbox = match &self.client_inbox {
            Some(file) => match open.team.child(layout::NATIVE_INBOXES)? {
                Some(inboxes) => inboxes.stamp(file)?,
                None => None,
            },
            None => None,
        };
        // Another program may append to the inbox without an event in the journal.
        let inbox = Mailbox::Inbox(self.worker.clone());
        let mail = match open.team.child(inbox.folder())? {
            Some(folder) => folder.stamp(&layout::mail_file(&inbox))?,
            None => None,
        };
        let pulse = ChangeCounters {
            client_inbox: number(client_inbox),
            journal: number(open.team.stamp(layout::JOURNAL)?),
            tasks: number(tasks),
            mail: number(mail),
        };
        self.open = Some(open);
        Ok(ListenerUpdate {
            pulse,
            signals,
            // All readers of the logs are on this machine.
            wants_logs: false,
        })
    }
}

/// Returns the pending signals of a worker, from a team's folder.
pub(super) fn read(team: &Dir, worker: &WorkerName, clock: &dyn Clock) -> Result<Vec<Signal>> {
    let mut found = Vec::new();
    let Some(dir) = team.child(layout::SIGNALS)? else {
        return Ok(found);
    };
    for drain in [false, true] {
        let name = layout::signal_file(worker, drain);
        if let Some((bytes, _)) = dir.read(&name)? {
            // The signal of another program may lack fields; its presence is what counts.
            let signal = serde_json::from_slice::<Signal>(&bytes).unwrap_or_else(|_| Signal {
                request_id: String::new(),
                reason: String::new(),
                timestamp: clock.now(),
                drain,
            });
            found.push(Signal { drain, ..signal });
        }
    }
    Ok(found)
}

fn number(stamp: Option<Stamp>) -> u64 {
    stamp.map_or(0, |stamp| {
        hash_of(format!("{} {} {}", stamp.inode, stamp.size, stamp.modified))
    })
}

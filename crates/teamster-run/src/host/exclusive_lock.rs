//! The locks of a host: only one run at a time works in a project, and only one process at a time hosts a team.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use teamster_fs::layout::Layout;
use teamster_fs::{Dir, FsError, Lock, LockWait, OrTrace as _, layout, team_store};
use teamster_store::{HostRight, OtherHost, Store, StoreError};
use teamster_types::TeamName;
use teamster_types::process::ProcessState;

/// How long to wait for a lock: a process that only tests whether it is taken holds it for less than this.
const LOCK_TIMEOUT: Duration = Duration::from_millis(200);
/// How long a host keeps its right in a store that it cannot reach, and how often it renews the right.
const LEASE: Duration = Duration::from_secs(60);
const RENEWAL: Duration = Duration::from_secs(10);

/// The lock of a project, without a team. The kernel frees it when its holder dies.
#[derive(Debug)]
pub struct ProjectLock {
    project: PathBuf,
    lock: Lock,
}

impl ProjectLock {
    /// Takes the lock of a project, or returns `None` when another process holds it.
    pub fn take(project: &Dir) -> Result<Option<Self>, FsError> {
        let [first, second] = layout::OUR_STATE;
        let state = project.child_or_create(first)?.child_or_create(second)?;
        Ok(
            match Lock::wait(&state, layout::RUN_LOCK, LOCK_TIMEOUT, false)? {
                LockWait::Held(lock) => Some(Self {
                    project: project.path().to_owned(),
                    lock,
                }),
                LockWait::TimedOut => None,
            },
        )
    }

    /// Takes the lock of a team as well, or returns `None` when another process holds it. The store of the team is
    /// recorded in the project.
    pub fn with_team(
        self,
        layout: &Layout,
        team: &TeamName,
    ) -> Result<Option<ExclusiveLock>, FsError> {
        let Some(of_team) = TeamLock::take(layout, team)? else {
            return Ok(None);
        };
        let project = Dir::open_or_create_root(&self.project)?;
        team_store::note_store(&project, team, &layout.store_note())?;
        Ok(Some(ExclusiveLock {
            _project: self.lock,
            _team: of_team,
            right: None,
        }))
    }
}

/// The lock of a team alone, for a process that ends its run without working on it. The kernel frees it when its holder
/// dies.
#[derive(Debug)]
pub struct TeamLock {
    _lock: Lock,
}

impl TeamLock {
    /// Takes the lock of a team, or returns `None` when another process holds it or there is no such team.
    pub fn take(layout: &Layout, team: &TeamName) -> Result<Option<Self>, FsError> {
        let Some(folder) = team_store::team_folder(layout, team)? else {
            return Ok(None);
        };
        Ok(
            match Lock::wait(&folder, layout::HOST_LOCK, LOCK_TIMEOUT, false)? {
                LockWait::Held(lock) => Some(Self { _lock: lock }),
                LockWait::TimedOut => None,
            },
        )
    }

    /// Returns whether a process hosts the team.
    pub fn is_held(layout: &Layout, team: &TeamName) -> Result<bool, FsError> {
        match team_store::team_folder(layout, team)? {
            Some(folder) => Lock::is_held(&folder, layout::HOST_LOCK),
            None => Ok(false),
        }
    }
}

/// The lock that a host holds while it runs: that of its project, that of its team, and its right in the store.
#[derive(Debug)]
pub struct ExclusiveLock {
    _project: Lock,
    _team: TeamLock,
    right: Option<HostingRight>,
}

impl ExclusiveLock {
    /// Takes the right to host the team in its store as well, or returns the process that has it. A process that is
    /// proven to be gone loses the right.
    pub fn with_hosting_right(
        mut self,
        store: &Arc<dyn Store>,
        team: &TeamName,
    ) -> Result<Result<Self, OtherHost>, StoreError> {
        let holder = teamster_fs::random_hex();
        let Some(hosting) = store.hosted_by(&holder) else {
            return Ok(Ok(self));
        };
        let mut right = store.hold_host(team, &holder, LEASE, None)?;
        if let HostRight::Theirs(other) = &right
            && let Some(process) = &other.process
            && store.process_state(process) == ProcessState::Gone
        {
            right = store.hold_host(team, &holder, LEASE, Some(&other.holder))?;
        }
        match right {
            HostRight::Theirs(other) => Ok(Err(other)),
            HostRight::Ours => {
                self.right = Some(HostingRight::begin(hosting, team.clone(), holder));
                Ok(Ok(self))
            }
        }
    }

    /// Returns the store that accepts changes only while this process has the right to host the team; `None` where the
    /// locks are sufficient.
    pub fn store(&self) -> Option<Arc<dyn Store>> {
        self.right.as_ref().map(|right| Arc::clone(&right.store))
    }
}

/// The right to host a team, renewed by a thread while it is held.
struct HostingRight {
    store: Arc<dyn Store>,
    team: TeamName,
    holder: String,
    over: mpsc::Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for HostingRight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostingRight")
            .field("team", &self.team)
            .field("holder", &self.holder)
            .finish_non_exhaustive()
    }
}

impl HostingRight {
    fn begin(store: Arc<dyn Store>, team: TeamName, holder: String) -> Self {
        let (over, is_over) = mpsc::channel();
        let (renewed, of_team, by) = (Arc::clone(&store), team.clone(), holder.clone());
        let thread = std::thread::spawn(move || {
            while is_over.recv_timeout(RENEWAL) == Err(RecvTimeoutError::Timeout) {
                match renewed.hold_host(&of_team, &by, LEASE, None) {
                    Ok(HostRight::Ours) => {}
                    // From now on the store refuses every change of this host, which stops the run.
                    Ok(HostRight::Theirs(other)) => {
                        tracing::error!("another process hosts team {of_team}: {other:?}");
                        return;
                    }
                    Err(error) => tracing::warn!("cannot renew the right to host: {error}"),
                }
            }
        });
        Self {
            store,
            team,
            holder,
            over,
            thread: Some(thread),
        }
    }
}

impl Drop for HostingRight {
    fn drop(&mut self) {
        // The thread may have ended already.
        let _ = self.over.send(());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.store
            .release_host(&self.team, &self.holder)
            .or_trace("give the right to host a team back");
    }
}

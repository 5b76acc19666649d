//! The scanner: the folders of a scan, opened once, and facts that are read at most once.

use std::cell::OnceCell;
use std::time::{Duration, Instant};

use teamster_claude::native::PaneArguments;
use teamster_fs::layout::Layout;
use teamster_fs::proc::Machine;
use teamster_fs::{Dir, layout, team_store};
use teamster_store::Result;
use teamster_types::session::ClientSession;
use teamster_types::{TeamName, Time};

use super::panes::Panes;
use super::processes;

/// The time limit of a scan.
#[derive(Clone, Copy, Debug)]
pub struct TimeBudget {
    until: Option<Instant>,
}

impl TimeBudget {
    /// Returns a budget without a limit.
    pub fn unlimited() -> Self {
        Self { until: None }
    }

    /// Returns a budget of this much time from now on.
    pub fn of(span: Duration) -> Self {
        Self {
            until: Instant::now().checked_add(span),
        }
    }

    pub(super) fn is_spent(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// Returns how long to wait for a lock that another process holds: a hook does not wait.
    pub(super) fn patience(&self) -> Duration {
        match self.until {
            None => Duration::from_secs(5),
            Some(_) => Duration::ZERO,
        }
    }
}

/// The inputs of a scan: where it looks, how it judges, and how long it may take.
#[derive(Debug)]
pub struct ScanOptions<'a> {
    /// Where the project and the store are.
    pub layout: &'a Layout,
    /// Decides whether a process is alive.
    pub machine: &'a Machine,
    /// The current time.
    pub now: Time,
    /// The age from which a team counts as old.
    pub ttl: Duration,
    /// The known panes. Where tmux was not queried, every pane counts as possibly open.
    pub panes: Panes,
    /// How long the scan may take.
    pub budget: TimeBudget,
}

/// The folders of a scan, and facts about the machine that are read at most once.
pub(super) struct ZombieScanner<'a> {
    pub(super) options: &'a ScanOptions<'a>,
    pub(super) root: Dir,
    pub(super) teams: Option<Dir>,
    pub(super) tasks: Option<Dir>,
    /// A session that is just ending: its process still runs, but is no sign of life.
    pub(super) ended: Option<&'a str>,
    pub(super) user: u32,
    sessions: OnceCell<Vec<ClientSession>>,
    processes: OnceCell<Vec<(u32, PaneArguments)>>,
}

impl<'a> ZombieScanner<'a> {
    /// Opens the folders; `None` when there is no Claude folder. A symbolic link in place of `teams` is an error.
    pub(super) fn open(
        options: &'a ScanOptions<'a>,
        ended: Option<&'a str>,
    ) -> Result<Option<Self>> {
        let Some(root) = Dir::open_root(&options.layout.claude)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            options,
            teams: root.child(layout::TEAMS)?,
            tasks: root.child(layout::TASKS)?,
            root,
            ended,
            user: teamster_fs::proc::user(),
            sessions: OnceCell::new(),
            processes: OnceCell::new(),
        }))
    }

    /// Returns all names in `teams`, sorted.
    pub(super) fn team_names(&self) -> Result<Vec<String>> {
        let Some(teams) = &self.teams else {
            return Ok(Vec::new());
        };
        let mut names: Vec<String> = teams.entries()?.into_iter().map(|e| e.name).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Returns whether `teams` has an entry of this name.
    pub(super) fn has_team(&self, name: &str) -> bool {
        let teams = self.teams.as_ref();
        teams.is_some_and(|teams| !matches!(teams.stamp(name), Ok(None)))
    }

    /// Returns whether a team that works in this project may be in the store of another home folder.
    pub(super) fn may_be_elsewhere(&self, team: &TeamName) -> bool {
        let layout = self.options.layout;
        team_store::may_be_elsewhere(&layout.project, team, &layout.claude)
    }

    /// Returns the time since a moment, given in nanoseconds since 1970.
    pub(super) fn age(&self, nanoseconds: i64) -> Duration {
        self.options
            .now
            .since(Time::from_millis(nanoseconds / 1_000_000))
    }

    /// Returns the sessions that Claude Code has recorded.
    pub(super) fn sessions(&self) -> &[ClientSession] {
        self.sessions
            .get_or_init(|| teamster_store::client_sessions(&self.root))
    }

    /// Returns the processes whose command line names a team. A hook has no time to look for them, so it finds none.
    pub(super) fn processes(&self) -> &[(u32, PaneArguments)] {
        self.processes.get_or_init(|| {
            if self.is_thorough() {
                processes::of_teams()
            } else {
                Vec::new()
            }
        })
    }

    /// Returns whether tmux was queried: only a scan that a user requested does that, and it has time for everything.
    pub(super) fn is_thorough(&self) -> bool {
        !matches!(self.options.panes, Panes::NotAsked)
    }
}

//! Every environment variable that the command reads, declared once.
//!
//! Those that only name a folder (`TEAMSTER_CLAUDE_DIR`, `CLAUDE_CONFIG_DIR`, `TEAMSTER_PROJECT`,
//! `CLAUDE_PROJECT_DIR`, `HOME`, `XDG_CONFIG_HOME`) are read by `teamster_fs::layout`, the one table of paths.

use std::ffi::OsString;

/// The team to act on when `--team` is not given.
pub const TEAM: &str = "TEAMSTER_TEAM";

/// The caller's worker name. A bridge sets it for its agent, which can then act only as this worker.
pub const WORKER: &str = "TEAMSTER_WORKER";

/// The session whose state `state-file` changes when `--session` is not given.
pub const SESSION: &str = "TEAMSTER_SESSION";

/// The socket of the caller's bridge. A bridge sets it for its agent: requests through it are made as that worker.
pub const SOCKET: &str = teamster_workers::socket::SOCKET;

/// The task that the caller works on. Set by a bridge for its agent, like the three below.
pub const TASK_ID: &str = "TEAMSTER_TASK_ID";
/// The subject of that task.
pub const TASK_SUBJECT: &str = "TEAMSTER_TASK_SUBJECT";
/// A copy of that task's file, without the claim token.
pub const TASK_FILE: &str = "TEAMSTER_TASK_FILE";
/// The number of the attempt, starting at 1.
pub const TASK_ATTEMPT: &str = "TEAMSTER_TASK_ATTEMPT";

/// Any non-empty value turns colours off (<https://no-color.org>).
pub const NO_COLOR: &str = "NO_COLOR";

/// The number of columns of a frame that is printed once.
pub const COLUMNS: &str = "COLUMNS";
/// The number of lines of a frame that is printed once.
pub const LINES: &str = "LINES";

/// The search path for programs.
pub const PATH: &str = "PATH";

/// The user's full-screen editor, with optional arguments.
pub const VISUAL: &str = "VISUAL";
/// The user's editor, if `VISUAL` is not set.
pub const EDITOR: &str = "EDITOR";

/// Set by tmux for its descendants: `socket,pid,session`.
pub const TMUX: &str = "TMUX";
/// The folder in which tmux keeps its sockets.
pub const TMUX_TMPDIR: &str = "TMUX_TMPDIR";

/// The X11 display; if it is set, a browser can be opened.
pub const DISPLAY: &str = "DISPLAY";
/// The Wayland display; if it is set, a browser can be opened.
pub const WAYLAND_DISPLAY: &str = "WAYLAND_DISPLAY";

/// The folder for the user's sockets.
pub const RUN_FOLDER: &str = "XDG_RUNTIME_DIR";

/// Builds for tests only: the host of a run dies by SIGKILL as soon as the journal has this event.
#[cfg(debug_assertions)]
pub const DIE_AT_EVENT: &str = "TEAMSTER_TEST_DIE_AT_EVENT";

/// Builds for tests only: the host does not verify that merged work is really in the branch.
#[cfg(debug_assertions)]
pub const UNCHECKED_MERGES: &str = "TEAMSTER_TEST_UNCHECKED_MERGES";

/// Builds for tests only: a file with the number of milliseconds by which the wall clock is shifted.
#[cfg(debug_assertions)]
pub const CLOCK_OFFSET: &str = "TEAMSTER_TEST_CLOCK_OFFSET";

/// Setting `claim.lease`.
pub const CLAIM_LEASE: &str = "TEAMSTER_CLAIM_LEASE";
/// Setting `store.url`: the URL of the store, which may contain a password. It is not passed on to started programs.
pub const STORE: &str = teamster_isolate::STORE;
/// Setting `store.url_file`.
pub const STORE_URL_FILE: &str = "TEAMSTER_STORE_URL_FILE";
/// Setting `store.durable`.
pub const STORE_DURABLE: &str = "TEAMSTER_STORE_DURABLE";
/// Setting `store.patience`.
pub const STORE_PATIENCE: &str = "TEAMSTER_STORE_PATIENCE";
/// Setting `reservations`.
pub const RESERVATIONS: &str = "TEAMSTER_RESERVATIONS";
/// Setting `notify`.
pub const NOTIFY: &str = "TEAMSTER_NOTIFY";
/// Setting `studio.otlp`.
pub const STUDIO_OTLP: &str = "TEAMSTER_STUDIO_OTLP";
/// Setting `studio.otlp_every`.
pub const STUDIO_OTLP_EVERY: &str = "TEAMSTER_STUDIO_OTLP_EVERY";
/// Setting `health.silent_after`.
pub const HEALTH_SILENT_AFTER: &str = "TEAMSTER_HEALTH_SILENT_AFTER";

/// Setting `team.enabled`.
pub const TEAM_ENABLED: &str = "TEAMSTER_TEAM_ENABLED";

/// Setting `worker.start_limit`.
pub const WORKER_START_LIMIT: &str = "TEAMSTER_WORKER_START_LIMIT";
/// Setting `worker.idle_limit`.
pub const WORKER_IDLE_LIMIT: &str = "TEAMSTER_WORKER_IDLE_LIMIT";
/// Setting `worker.task_limit`.
pub const WORKER_TASK_LIMIT: &str = "TEAMSTER_WORKER_TASK_LIMIT";
/// Setting `worker.heartbeat_messages`.
pub const WORKER_HEARTBEAT_MESSAGES: &str = "TEAMSTER_WORKER_HEARTBEAT_MESSAGES";
/// Setting `run.max_tasks`.
pub const RUN_MAX_TASKS: &str = "TEAMSTER_RUN_MAX_TASKS";
/// Setting `leader`.
pub const LEADER: &str = "TEAMSTER_LEADER";
/// Setting `leader.max_wakes`.
pub const LEADER_MAX_WAKES: &str = "TEAMSTER_LEADER_MAX_WAKES";
/// Setting `leader.budget_share`.
pub const LEADER_BUDGET_SHARE: &str = "TEAMSTER_LEADER_BUDGET_SHARE";
/// Setting `permissions.shell`.
pub const PERMISSIONS_SHELL: &str = "TEAMSTER_PERMISSIONS_SHELL";
/// Setting `permissions.other`.
pub const PERMISSIONS_OTHER: &str = "TEAMSTER_PERMISSIONS_OTHER";
/// Setting `worktree.setup`.
pub const WORKTREE_SETUP: &str = "TEAMSTER_WORKTREE_SETUP";
/// Setting `worktree.setup_limit`.
pub const WORKTREE_SETUP_LIMIT: &str = "TEAMSTER_WORKTREE_SETUP_LIMIT";
/// Setting `gc.keep`.
pub const GC_KEEP: &str = "TEAMSTER_GC_KEEP";
/// Setting `worktree.link`.
pub const WORKTREE_LINK: &str = "TEAMSTER_WORKTREE_LINK";
/// Setting `worktree.link_writable`.
pub const WORKTREE_LINK_WRITABLE: &str = "TEAMSTER_WORKTREE_LINK_WRITABLE";

/// The launch number that a bridge belongs to.
pub const LAUNCH: &str = teamster_isolate::process_tree::LAUNCH;

/// The team and the worker of a bridge, joined by a slash. Set when a bridge is started, so that its descendants can be
/// identified.
pub const BRIDGE: &str = teamster_workers::launch::BRIDGE;

/// The launch number that a guard belongs to: the process above a bridge, which ends the agent if the bridge is killed.
pub const GUARD: &str = teamster_isolate::process_tree::GUARD;
/// The team and the worker of the bridge below a guard, joined by a slash.
pub const GUARDED: &str = teamster_workers::guard::GUARDED;

/// Any value other than an empty one and `0` makes hooks log what they do.
pub const DEBUG: &str = "TEAMSTER_DEBUG";
/// What the trace of a host or a bridge contains, by module and level: `teamster_run=debug,info`, `off`. An absolute
/// path is the file in which hooks log what they do, in addition to stderr.
pub const LOG: &str = "TEAMSTER_LOG";
/// Set by tmux: the pane that the client runs in.
pub const TMUX_PANE: &str = "TMUX_PANE";
/// Set by Claude Code for its hooks: the client's process.
pub const CLAUDE_PID: &str = "CLAUDE_PID";

/// The table as `teamster --help` shows it.
pub const HELP: &str = "\
Environment:
  TEAMSTER_TEAM        the team to act on when --team is not given
  TEAMSTER_WORKER      the calling worker; it can act only for itself
  TEAMSTER_SOCKET      the socket of the worker's bridge, which handles commands of agents
  TEAMSTER_PROJECT     the project folder (else CLAUDE_PROJECT_DIR, else the git work tree)
  TEAMSTER_CLAUDE_DIR  where teams are kept (else CLAUDE_CONFIG_DIR, else ~/.claude)
  TEAMSTER_STORE       the database in which teams are kept, instead of files
  TEAMSTER_DEBUG       makes hooks log what they do, to standard error and to TEAMSTER_LOG
                       (else .bkit/hook.log)
  TEAMSTER_LOG         log filter for runs and workers: teamster_run=debug,info, or off
  VISUAL, EDITOR       the editor for plans (else vi)
  NO_COLOR             disables colours
  Settings have their own variables: see `teamster config show`";

/// Returns the value of a variable; an empty value counts as unset.
pub fn get(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Returns the value as text. Invalid UTF-8 is replaced, which the caller then rejects as an invalid name or setting.
pub fn text(name: &str) -> Option<String> {
    get(name).map(|value| value.to_string_lossy().into_owned())
}

//! Every environment variable that the command reads, declared once.
//!
//! Those that only name a folder (`TEAMSTER_CLAUDE_DIR`, `CLAUDE_CONFIG_DIR`, `TEAMSTER_PROJECT`,
//! `CLAUDE_PROJECT_DIR`, `HOME`, `XDG_CONFIG_HOME`) are read by `teamster_fs::layout`, the one table of paths.

use std::ffi::OsString;

/// The team to act on when `--team` is not given.
pub const TEAM: &str = "TEAMSTER_TEAM";

/// The worker that the caller is. Set by a bridge for its agent; whoever has it can act for nobody else.
pub const WORKER: &str = "TEAMSTER_WORKER";

/// The session whose state `state-file` changes when `--session` is not given.
pub const SESSION: &str = "TEAMSTER_SESSION";

/// The socket of the caller's bridge. Set by a bridge for its agent: whoever speaks through it is that worker.
pub const SOCKET: &str = teamster_workers::socket::SOCKET;

/// The task that the caller works on. Set by a bridge for its agent, like the three below.
pub const TASK_ID: &str = "TEAMSTER_TASK_ID";
/// What that task is about.
pub const TASK_SUBJECT: &str = "TEAMSTER_TASK_SUBJECT";
/// A copy of that task's file, without the proof of the claim.
pub const TASK_FILE: &str = "TEAMSTER_TASK_FILE";
/// 1 for the first try.
pub const TASK_ATTEMPT: &str = "TEAMSTER_TASK_ATTEMPT";

/// Any value but an empty one turns colours off (<https://no-color.org>).
pub const NO_COLOR: &str = "NO_COLOR";

/// How many columns a frame that is printed once may have.
pub const COLUMNS: &str = "COLUMNS";
/// How many lines a frame that is printed once may have.
pub const LINES: &str = "LINES";

/// Where programs are looked for.
pub const PATH: &str = "PATH";

/// The person's editor for a whole screen, with arguments if there are any.
pub const VISUAL: &str = "VISUAL";
/// The person's editor, where no other one is named.
pub const EDITOR: &str = "EDITOR";

/// Set by tmux for what runs in it: `socket,pid,session`.
pub const TMUX: &str = "TMUX";
/// Where tmux keeps the sockets of its servers.
pub const TMUX_TMPDIR: &str = "TMUX_TMPDIR";

/// Where a desktop draws: set where a browser can open.
pub const DISPLAY: &str = "DISPLAY";
/// The same for desktops of the newer kind.
pub const WAYLAND_DISPLAY: &str = "WAYLAND_DISPLAY";

/// Where a user's sockets may lie.
pub const RUN_FOLDER: &str = "XDG_RUNTIME_DIR";

/// Builds for tests only: the host of a run dies by SIGKILL as soon as the journal has this event.
#[cfg(debug_assertions)]
pub const DIE_AT_EVENT: &str = "TEAMSTER_TEST_DIE_AT_EVENT";

/// Builds for tests only: the host does not look whether what it calls merged is merged.
#[cfg(debug_assertions)]
pub const UNCHECKED_MERGES: &str = "TEAMSTER_TEST_UNCHECKED_MERGES";

/// Builds for tests only: a file with the number of milliseconds by which the wall clock is moved.
#[cfg(debug_assertions)]
pub const CLOCK_OFFSET: &str = "TEAMSTER_TEST_CLOCK_OFFSET";

/// Setting `claim.lease`.
pub const CLAIM_LEASE: &str = "TEAMSTER_CLAIM_LEASE";
/// Setting `store.url`: the address of the store, which may have a password in it. No program that we start inherits it.
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

/// The number of the launch that a bridge belongs to.
pub const LAUNCH: &str = teamster_isolate::process_tree::LAUNCH;

/// The team and the worker of a bridge, joined by a slash. Set by whoever starts a bridge: what runs below one is known by it.
pub const BRIDGE: &str = teamster_workers::launch::BRIDGE;

/// The number of the launch that a guard belongs to: the process above a bridge, which ends its agent when it is killed.
pub const GUARD: &str = teamster_isolate::process_tree::GUARD;
/// The team and the worker of the bridge below a guard, joined by a slash.
pub const GUARDED: &str = teamster_workers::guard::GUARDED;

/// Any value but an empty one and `0` makes hooks say what they do.
pub const DEBUG: &str = "TEAMSTER_DEBUG";
/// What the trace of a host or a bridge tells, by module and level: `teamster_run=debug,info`, `off`. An absolute path is
/// the file in which hooks say what they do, besides the error stream.
pub const LOG: &str = "TEAMSTER_LOG";
/// Set by tmux: the pane that the client runs in.
pub const TMUX_PANE: &str = "TMUX_PANE";
/// Set by Claude Code for its hooks: the client's process.
pub const CLAUDE_PID: &str = "CLAUDE_PID";

/// The table as `teamster --help` shows it.
pub const HELP: &str = "\
Environment:
  TEAMSTER_TEAM        the team to act on when --team is not given
  TEAMSTER_WORKER      the worker that the caller is; it can then act for nobody else
  TEAMSTER_SOCKET      where the caller reaches its worker's bridge; commands of agents go there
  TEAMSTER_PROJECT     the project folder (else CLAUDE_PROJECT_DIR, else the git work tree)
  TEAMSTER_CLAUDE_DIR  where teams are kept (else CLAUDE_CONFIG_DIR, else ~/.claude)
  TEAMSTER_STORE       the database in which teams are kept, instead of files
  TEAMSTER_DEBUG       makes hooks say what they do, on the error stream and in TEAMSTER_LOG
                       (else .bkit/hook.log)
  TEAMSTER_LOG         what traces of runs and workers tell: teamster_run=debug,info, or off
  VISUAL, EDITOR       the editor for plans (else vi)
  NO_COLOR             no colours
  Settings have variables of their own: see `teamster config show`";

/// The value of a variable; an empty one counts as not set.
pub fn get(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// The same as text. What is not UTF-8 is no valid name or setting, and its replacement will be refused as such.
pub fn text(name: &str) -> Option<String> {
    get(name).map(|value| value.to_string_lossy().into_owned())
}

//! Implements `teamster hook`.
//!
//! The client waits for a hook and stops its agent if the hook fails. So the hook always exits with 0, and quickly.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use teamster_app::config::team_is_enabled;
use teamster_app::env_vars;
use teamster_claude::hook::{HookContext, HookResponse};
use teamster_claude::native;
use teamster_fs::layout::{self, Layout};
use teamster_fs::proc::arguments;
use teamster_fs::processes::parent_of;
use teamster_fs::stdin::{self, InputEnd};
use teamster_fs::{Dir, Durability};
use teamster_gc::zombies::session_hooks;
use teamster_store::{Clock, SystemClock};
use teamster_types::redact::redact;

use crate::shown::plain_line;

/// The size limit for a payload.
const CAP: usize = 16 * 1024 * 1024;
/// How long to wait for the end of the input. A client that holds it open for longer will not close it.
const INPUT_LIMIT: Duration = Duration::from_secs(1);
/// Stands for the Claude folder when there is no home folder: then there are no teams, but the project's state can
/// still be kept.
const NO_HOME: &str = "/nonexistent/.claude";

/// The name of the client's process.
const CLIENT: &str = "claude";
/// How many ancestor processes are searched for the client.
const NEAREST: usize = 3;

/// Record a Claude Code event (called by the client)
#[derive(Args, Debug)]
#[command(after_help = "\
`teamster install claude` makes the client call it with a payload on its standard input. It always
exits with 0 and never blocks the agent; TEAMSTER_DEBUG=1 makes it report what went wrong.

Examples:
  echo '{\"agent_id\":\"worker-1\"}' | teamster hook SubagentStart
  echo '{}' | TEAMSTER_DEBUG=1 teamster hook Stop")]
pub struct HookArgs {
    /// The event, such as `SubagentStart` [default: taken from the payload]
    event: Option<String>,
}

impl HookArgs {
    pub fn run(self) {
        run(&self.event.unwrap_or_default());
    }
}

/// Returns the event of a call `teamster hook EVENT`. Only a request for help is left to the parser, because it exits
/// with 2 on wrong usage, which would block the agent.
pub fn event_of(mut args: impl Iterator<Item = OsString>) -> Option<String> {
    if args.nth(1)? != "hook" {
        return None;
    }
    let mut event = None;
    for arg in args {
        let arg = arg.to_string_lossy();
        if arg == "--help" || arg == "-h" {
            return None;
        }
        if event.is_none() && !arg.starts_with('-') {
            event = Some(arg.into_owned());
        }
    }
    Some(event.unwrap_or_default())
}

/// Handles the event and returns the exit code, which is always 0.
pub fn run(event: &str) -> ExitCode {
    let began = Instant::now();
    // A panic here must not fail the agent.
    std::panic::set_hook(Box::new(|fault| {
        if is_debugging() {
            let _ = writeln!(std::io::stderr(), "teamster hook: {fault}");
        }
        std::process::exit(0);
    }));
    let input = stdin::read(CAP, INPUT_LIMIT);
    let bytes = match input.end {
        InputEnd::Whole | InputEnd::TimedOut => input.bytes.as_slice(),
        InputEnd::TooLong | InputEnd::Unreadable => &[],
    };
    let context = context(began);
    let response = session_hooks::run(event, bytes, &context);
    if let Some(stdout) = &response.stdout {
        let _ = writeln!(std::io::stdout(), "{stdout}");
    }
    for text in &response.stderr {
        let _ = writeln!(std::io::stderr(), "{text}");
    }
    if is_debugging() {
        report(&context, &response, event, began.elapsed());
    }
    ExitCode::SUCCESS
}

fn context(began: Instant) -> HookContext {
    let current = current_dir();
    let layout = Layout::find(|name| std::env::var_os(name), &current).or_else(|_| {
        let instead = |name: &str| match name {
            "HOME" => None,
            "CLAUDE_CONFIG_DIR" => Some(NO_HOME.into()),
            name => std::env::var_os(name),
        };
        Layout::find(instead, &current)
    });
    let layout = layout.unwrap_or_else(|_| Layout {
        claude: NO_HOME.into(),
        user_config: current.join(".teamster/config.toml"),
        project_config: current.join(".teamster/config.toml"),
        project: current,
        database: None,
    });
    HookContext {
        writes: native::team_is_enabled(&layout) && team_is_enabled(&layout),
        layout,
        now: SystemClock.now(),
        began,
        pane: env_vars::text(env_vars::TMUX_PANE),
        client: match env_vars::text(env_vars::CLAUDE_PID) {
            Some(pid) => pid.parse().ok(),
            None => client_above(),
        },
        worker: env_vars::text(env_vars::WORKER),
        team: env_vars::text(env_vars::TEAM),
    }
}

/// Finds the process of a client that does not pass its pid, as clients before 2.1.325 do: it is a close ancestor,
/// with at most a shell between. Any other process ends sooner than the client, which would then look dead.
fn client_above() -> Option<u32> {
    let parents = std::iter::successors(Some(std::process::id()), |pid| parent_of(*pid));
    let mut parents = parents.skip(1).take(NEAREST);
    parents.find(|pid| {
        let arguments = arguments(*pid).unwrap_or_default();
        let program = arguments.first().map(Path::new);
        program.and_then(Path::file_name) == Some(OsStr::new(CLIENT))
    })
}

/// Returns the client's current folder; an interrupted call is retried.
fn current_dir() -> PathBuf {
    loop {
        match std::env::current_dir() {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            found => return found.unwrap_or_else(|_| PathBuf::from("/nonexistent")),
        }
    }
}

fn is_debugging() -> bool {
    env_vars::get(env_vars::DEBUG).is_some_and(|value| value != "0")
}

/// Prints the result to stderr and to the log file.
fn report(context: &HookContext, response: &HookResponse, event: &str, took: Duration) {
    let mut text = String::new();
    let mut add = |what: &str| {
        let what = plain_line(&redact(what));
        let _ = writeln!(text, "{} {what}", context.now);
    };
    for entry in response.stderr.iter().chain(&response.log) {
        add(entry);
    }
    add(&format!("{event}: done in {} us", took.as_micros()));
    let _ = std::io::stderr().write_all(text.as_bytes());
    let _ = match env_vars::get(env_vars::LOG)
        .map(PathBuf::from)
        .filter(|file| file.is_absolute())
    {
        Some(path) => append(&path, &text),
        None => append_to_project(&context.layout, &text),
    };
}

fn append(path: &Path, text: &str) -> Option<()> {
    let folder = match path.parent()? {
        parent if parent == Path::new("") => Path::new("."),
        parent => parent,
    };
    let dir = Dir::open_root(folder).ok()??;
    let name = path.file_name()?.to_str()?;
    dir.append(name, text.as_bytes(), Durability::Fast).ok()?;
    Some(())
}

fn append_to_project(layout: &Layout, text: &str) -> Option<()> {
    let project = Dir::open_root(&layout.project).ok()??;
    let bkit = project.child_or_create(layout::BKIT).ok()?;
    bkit.append(layout::HOOK_LOG, text.as_bytes(), Durability::Fast)
        .ok()?;
    Some(())
}

//! `teamster play FILE`: the agent of `scripted:` workers. Only a driver calls it, with `-` for a script and a prompt
//! on the standard input, so it is not in the help. It is dispatched before the parser is built, because one run may
//! start hundreds of these.
//!
//! A script can leave behind a process that is detached from its agent, as careless programs do: `play --leave
//! MILLISECONDS` starts `play --linger MILLISECONDS` in a new session, and ends.

use std::ffi::OsString;
use std::io::{Read as _, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use teamster_agents::scripted::{
    Script, ScriptContext, ScriptEnd, ScriptError, ScriptHost, play, script_and_prompt,
};
use teamster_app::env_vars;
use teamster_isolate::detached;

use crate::error::{AppError, ErrorKind, report};
use crate::exit_codes;
use crate::input::read_named;

/// The size limit for the copy of a task.
const LARGEST_TASK: usize = 1024 * 1024;
const LEAVE: &str = "--leave";
const LINGER: &str = "--linger";

/// The parsed arguments of a call.
pub enum PlayRequest {
    /// Play this script.
    Script(PathBuf),
    /// Start a process that lives for this long, and exit.
    Leave(OsString),
    /// Sleep for this long.
    Linger(Duration),
}

/// Returns the request if this is a call of `teamster play`.
pub fn request_from_args(mut args: impl Iterator<Item = OsString>) -> Option<PlayRequest> {
    args.next()?;
    let is_play = args.next()? == "play";
    match (is_play, args.next(), args.next(), args.next()) {
        (true, Some(file), None, None) if file != "--help" && file != "-h" => {
            Some(PlayRequest::Script(file.into()))
        }
        (true, Some(what), Some(span), None) if what == LEAVE => Some(PlayRequest::Leave(span)),
        (true, Some(what), Some(span), None) if what == LINGER => {
            let millis = span.to_string_lossy().parse().ok()?;
            Some(PlayRequest::Linger(Duration::from_millis(millis)))
        }
        _ => None,
    }
}

/// Executes the request.
pub fn run(asked: &PlayRequest) -> ExitCode {
    match asked {
        PlayRequest::Script(file) => run_script(file),
        PlayRequest::Leave(span) => match leave(span) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::from(exit_codes::FAILED),
        },
        PlayRequest::Linger(span) => {
            std::thread::sleep(*span);
            ExitCode::SUCCESS
        }
    }
}

/// Plays a script in the current folder, for the task that the environment variables name.
fn run_script(file: &Path) -> ExitCode {
    let script = if file == Path::new("-") {
        of_input(file)
    } else {
        Script::read(file).map(|script| (script, String::new()))
    };
    let (script, prompt) = match script {
        Ok(script) => script,
        Err(error) => {
            let error = AppError::new(ErrorKind::Usage, error.to_string())
                .hint("docs/scripted.md shows what a script looks like");
            return ExitCode::from(report(&error, false));
        }
    };
    let text = |name| env_vars::text(name).unwrap_or_default();
    let (id, subject) = (text(env_vars::TASK_ID), text(env_vars::TASK_SUBJECT));
    let (team, worker) = (text(env_vars::TEAM), text(env_vars::WORKER));
    let label = label();
    let context = ScriptContext {
        worktree: Path::new("."),
        id: &id,
        subject: &subject,
        attempt: text(env_vars::TASK_ATTEMPT).parse().unwrap_or(1),
        team: &team,
        worker: &worker,
        label: label.as_deref(),
        prompt: &prompt,
        host: &ThisMachine,
    };
    match play(&script, &context, &mut std::io::stdout().lock()) {
        Ok(ScriptEnd::Exit(code)) => ExitCode::from(code),
        Ok(ScriptEnd::Crash) => teamster_isolate::detached::die(),
        // The reader of the output is gone, so the error cannot be reported.
        Err(_) => ExitCode::from(exit_codes::FAILED),
    }
}

/// Reads the script and the prompt from the standard input; the driver has already read and checked the script.
fn of_input(file: &Path) -> Result<(Script, String), ScriptError> {
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .map_err(|error| ScriptError {
            file: file.to_owned(),
            line: None,
            error: error.to_string(),
        })?;
    let (script, prompt) = script_and_prompt(&text);
    Ok((Script::parse(file, script)?, prompt.to_owned()))
}

/// Returns the task's label in the plan, which only its file contains.
fn label() -> Option<String> {
    let file = PathBuf::from(env_vars::get(env_vars::TASK_FILE)?);
    let bytes = read_named(&file, LARGEST_TASK).ok()?;
    let task: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
    let label = task.pointer("/metadata/teamster/label")?;
    label.as_str().map(str::to_owned)
}

struct ThisMachine;

impl ScriptHost for ThisMachine {
    fn pause(&self, span: Duration) {
        std::thread::sleep(span);
    }

    fn ignore_signals(&self) -> Result<(), String> {
        teamster_isolate::detached::ignore_soft_signals()
            .map_err(|error| format!("signals cannot be ignored: {error}"))
    }

    fn spawn_orphan(&self, span: Duration) -> Result<String, String> {
        let started = std::env::current_exe().and_then(|teamster| {
            let args = [
                "play".into(),
                LEAVE.into(),
                span.as_millis().to_string().into(),
            ];
            detached::start_and_leave(&teamster, &args)
        });
        started
            .map(|pid| format!("pid {pid}"))
            .map_err(|error| format!("no orphan could be started: {error}"))
    }
}

fn leave(span: &OsString) -> std::io::Result<()> {
    detached::own_session();
    let args = ["play".into(), LINGER.into(), span.clone()];
    let pid = detached::leave(&std::env::current_exe()?, &args)?;
    writeln!(std::io::stdout(), "{pid}")
}

//! `teamster play FILE`: the agent of `scripted:` workers. Only a driver calls it, so no help names it, and it is
//! dispatched before the parser is built: hundreds of these may be started in one run.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use teamster_agents::scripted::{Played, Scene, Script, play};

use crate::error::{CommandError, ErrorKind};
use crate::{env_vars, exit_codes};

/// The script to play, if that is what the call asks for.
pub fn script_of(mut args: impl Iterator<Item = OsString>) -> Option<PathBuf> {
    args.next()?;
    let is_play = args.next()? == "play";
    match (is_play, args.next(), args.next()) {
        (true, Some(file), None) if file != "--help" && file != "-h" => Some(file.into()),
        _ => None,
    }
}

/// Plays a script in the current folder, for the task that the variables name.
pub fn run(file: &Path) -> ExitCode {
    let script = match Script::read(file) {
        Ok(script) => script,
        Err(error) => {
            let error = CommandError::new(ErrorKind::Usage, error.to_string())
                .hint("docs/scripted.md shows what a script looks like");
            return ExitCode::from(error.report(false));
        }
    };
    let text = |name| env_vars::text(name).unwrap_or_default();
    let (id, subject) = (text(env_vars::TASK_ID), text(env_vars::TASK_SUBJECT));
    let (team, worker) = (text(env_vars::TEAM), text(env_vars::WORKER));
    let scene = Scene {
        worktree: Path::new("."),
        id: &id,
        subject: &subject,
        attempt: text(env_vars::TASK_ATTEMPT).parse().unwrap_or(1),
        team: &team,
        worker: &worker,
        pause: &|span: Duration| std::thread::sleep(span),
    };
    match play(&script, &scene, &mut std::io::stdout().lock()) {
        Ok(Played::Exit(code)) => ExitCode::from(code),
        Ok(Played::Crash) => teamster_isolate::die(),
        // Nobody listens any more; there is nobody to tell.
        Err(_) => ExitCode::from(exit_codes::FAILED),
    }
}

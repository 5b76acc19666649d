//! Ending processes and closing panes that are proven ours, because a person said `--kill`.

use std::ffi::OsStr;
use std::time::Duration;

use teamster_app::env_vars;
use teamster_claude::zombies::{self, Pane, Panes};
use teamster_fs::proc::Machine;
use teamster_isolate::{Ended, GRACE};
use teamster_types::process::ProcessId;

/// A server that does not answer in this time hangs.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) struct Hands<'a> {
    pub(super) machine: &'a Machine,
}

impl zombies::Hands for Hands<'_> {
    fn end(&self, process: &ProcessId) -> Result<Option<String>, String> {
        match teamster_isolate::end(self.machine, process, GRACE) {
            Ok(Ended::Before) => Ok(None),
            Ok(Ended::Asked) => Ok(Some("it ended when it was asked to".to_owned())),
            Ok(Ended::Killed) => Ok(Some(format!(
                "it did not end within {} s and was killed",
                GRACE.as_secs()
            ))),
            Err(error) => Err(error.to_string()),
        }
    }

    fn close(&self, pane: &Pane) -> Result<bool, String> {
        // The server itself looks once more: a pane whose program was started anew stays.
        let kill = format!("kill-pane -t {}", pane.id);
        let if_dead = ["if-shell", "-F", "-t", &pane.id, "#{pane_dead}", &kill];
        tmux(pane, &if_dead)?;
        let left = tmux(pane, &["list-panes", "-a", "-F", Panes::FORMAT])?;
        let left = Pane::parse(&pane.server, &left);
        Ok(left.iter().all(|other| other.id != pane.id))
    }
}

/// What the pane's server answers; one that has ended answers with nothing.
fn tmux(pane: &Pane, words: &[&str]) -> Result<String, String> {
    let path = env_vars::get(env_vars::PATH).unwrap_or_default();
    let tmux = teamster_isolate::find_program("tmux", &path).ok_or("tmux is not on PATH")?;
    let socket = [OsStr::new("-S"), pane.server.as_os_str()];
    let words = words.iter().map(OsStr::new);
    match teamster_isolate::ask(&tmux, socket.into_iter().chain(words), PATIENCE) {
        Ok(answer) => Ok(answer.text),
        Err(silence) => Err(format!("tmux: {silence}")),
    }
}

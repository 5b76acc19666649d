//! Asking tmux which panes there are.

use std::path::{Path, PathBuf};
use std::time::Duration;

use teamster_app::env_vars;
use teamster_claude::zombies::{Pane, Panes};
use teamster_fs::layout::{self, Layout};
use teamster_fs::{Dir, proc};

/// A server that does not answer in this time hangs.
const PATIENCE: Duration = Duration::from_secs(2);
/// An answer this long was cut, and a pane may be missing in it.
const LONGEST_ANSWER: usize = 16 * 1024;

/// Asks every server of this user that can be found: those in tmux's own folder, the one we run in, and the project's.
pub(super) fn ask(layout: &Layout) -> Panes {
    let servers = servers(layout);
    if servers.is_empty() {
        return Panes::Listed(Vec::new());
    }
    let path = env_vars::get(env_vars::PATH).unwrap_or_default();
    let Some(tmux) = teamster_isolate::find_program("tmux", &path) else {
        return Panes::Silent("tmux is not on PATH".to_owned());
    };
    let mut panes = Vec::new();
    for server in servers {
        let socket = server.as_os_str();
        let words = ["list-panes", "-a", "-F", Panes::FORMAT].map(AsRef::as_ref);
        let args = ["-S".as_ref(), socket].into_iter().chain(words);
        match teamster_isolate::ask(&tmux, args, PATIENCE) {
            Ok(answer) if answer.text.len() >= LONGEST_ANSWER => {
                return Panes::Silent("tmux has too many panes to list".to_owned());
            }
            // One that has ended answers with an error, and has no panes.
            Ok(answer) => panes.extend(Pane::parse(&server, &answer.text)),
            Err(silence) => {
                return Panes::Silent(format!("tmux at {}: {silence}", server.display()));
            }
        }
    }
    Panes::Listed(panes)
}

fn servers(layout: &Layout) -> Vec<PathBuf> {
    let run_folder = env_vars::get(env_vars::RUN_FOLDER).map(PathBuf::from);
    let mut found = vec![layout::tmux_socket(&layout.project, run_folder.as_deref())];
    // TMUX is `socket,pid,session`.
    if let Some(inside) = env_vars::text(env_vars::TMUX)
        && let Some(socket) = inside.split(',').next()
    {
        found.push(PathBuf::from(socket));
    }
    let parent = env_vars::get(env_vars::TMUX_TMPDIR).map_or_else(|| "/tmp".into(), PathBuf::from);
    let folder = parent.join(format!("tmux-{}", proc::user()));
    found.extend(in_folder(&folder));
    found.sort();
    found.dedup();
    found.retain(|socket| socket.exists());
    found
}

/// Sockets in a folder that nobody else can have put there.
fn in_folder(folder: &Path) -> Vec<PathBuf> {
    let Ok(Some(dir)) = Dir::open_root(folder) else {
        return Vec::new();
    };
    if !dir.owner().is_ok_and(|owner| owner == proc::user()) {
        return Vec::new();
    }
    let entries = dir.entries().unwrap_or_default();
    entries.iter().map(|entry| dir.join(&entry.name)).collect()
}

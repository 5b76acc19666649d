//! Panes of tmux: which exist, which of teamster's own server are dead, and how a dead pane is closed.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use teamster_fs::layout::{self, Layout};
use teamster_fs::{Dir, FileKind, proc};

use teamster_types::phrase::{Phrase, PhraseCode};

use super::reap::ReapResult;
use super::scanner::ZombieScanner;
use super::{REAP_AND_KILL, Zombie, ZombieAction, ZombieKind};

/// The timeout for an answer from a tmux server.
const PATIENCE: Duration = Duration::from_secs(2);
/// The length from which an answer counts as truncated, so that a pane may be missing from it.
const LONGEST_ANSWER: usize = 16 * 1024;
/// The format of the list of panes.
const FORMAT: &str = "#{pane_id} #{pane_dead}";

/// The environment variables that locate tmux and its servers.
#[derive(Clone, Debug, Default)]
pub struct TmuxEnvironment {
    /// Holds `PATH`, in which tmux is looked for.
    pub path: OsString,
    /// Holds `XDG_RUNTIME_DIR`, where the socket of teamster's own server may be.
    pub run_folder: Option<PathBuf>,
    /// Holds `TMUX`, which is set inside a pane: `socket,pid,session`.
    pub inside: Option<String>,
    /// Holds `TMUX_TMPDIR`, the folder of the sockets if it is not `/tmp`.
    pub sockets: Option<PathBuf>,
}

/// A tmux server, and the program that connects to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TmuxServer {
    /// The tmux program.
    pub program: PathBuf,
    /// The server's socket.
    pub socket: PathBuf,
}

/// A tmux pane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedPane {
    /// The server of the pane.
    pub server: TmuxServer,
    /// The id of the pane, such as `%1`.
    pub id: String,
    /// Whether the program in the pane has ended.
    pub dead: bool,
}

/// The known panes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Panes {
    /// No server was queried.
    NotAsked,
    /// A server did not answer, for this reason.
    Silent(String),
    /// Every server answered; these are all panes.
    Listed(Vec<ListedPane>),
}

impl Panes {
    /// Queries every server of this user that can be found: those in tmux's own folder, the one that this process runs
    /// in, and the project's.
    pub fn ask(layout: &Layout, environment: &TmuxEnvironment) -> Self {
        let sockets = sockets(layout, environment);
        if sockets.is_empty() {
            return Self::Listed(Vec::new());
        }
        let Some(program) = teamster_isolate::find_program("tmux", &environment.path) else {
            return Self::Silent("tmux is not on PATH".to_owned());
        };
        let mut panes = Vec::new();
        for socket in sockets {
            let program = program.clone();
            let server = TmuxServer { program, socket };
            match server.ask(&["list-panes", "-a", "-F", FORMAT]) {
                Ok(text) if text.len() >= LONGEST_ANSWER => {
                    return Self::Silent("tmux has too many panes to list".to_owned());
                }
                // A server that has ended answers with an error, and has no panes.
                Ok(text) => panes.extend(server.parse(&text)),
                Err(silence) => {
                    let socket = server.socket.display();
                    return Self::Silent(format!("tmux at {socket}: {silence}"));
                }
            }
        }
        Self::Listed(panes)
    }
}

impl TmuxServer {
    /// Returns the server's answer to a command; it is empty if the server has ended.
    fn ask(&self, words: &[&str]) -> Result<String, teamster_isolate::ProbeError> {
        let socket = [OsStr::new("-S"), self.socket.as_os_str()];
        let words = words.iter().map(OsStr::new);
        let answer =
            teamster_isolate::probe(&self.program, socket.into_iter().chain(words), PATIENCE)?;
        Ok(answer.text)
    }

    /// Parses the answer to `list-panes -a -F` with [`FORMAT`].
    fn parse(&self, answer: &str) -> Vec<ListedPane> {
        answer
            .lines()
            .filter_map(|line| {
                let (id, dead) = line.split_once(' ')?;
                id.starts_with('%').then(|| ListedPane {
                    server: self.clone(),
                    id: id.to_owned(),
                    dead: dead.trim() == "1",
                })
            })
            .collect()
    }

    /// Closes a pane if it is still dead, and returns whether it is gone.
    fn close_if_dead(&self, id: &str) -> Result<bool, teamster_isolate::ProbeError> {
        // The server checks the pane once more: one whose program was restarted stays.
        let kill = format!("kill-pane -t {id}");
        self.ask(&["if-shell", "-F", "-t", id, "#{pane_dead}", &kill])?;
        let left = self.ask(&["list-panes", "-a", "-F", FORMAT])?;
        Ok(self.parse(&left).iter().all(|other| other.id != id))
    }
}

fn sockets(layout: &Layout, environment: &TmuxEnvironment) -> Vec<PathBuf> {
    let run_folder = environment.run_folder.as_deref();
    let mut found = vec![layout::tmux_socket(&layout.project, run_folder)];
    let inside = environment.inside.as_deref();
    found.extend(inside.and_then(|inside| Some(PathBuf::from(inside.split(',').next()?))));
    let parent = environment.sockets.as_deref().unwrap_or(Path::new("/tmp"));
    found.extend(in_folder(&parent.join(format!("tmux-{}", proc::user()))));
    found.sort();
    found.dedup();
    found.retain(|socket| socket.exists());
    found
}

/// Returns the sockets in a folder, if the folder belongs to this user.
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

/// Returns every dead pane of the project's own server.
pub(super) fn dead_of_ours(scanner: &ZombieScanner<'_>) -> Vec<(Zombie, ListedPane)> {
    let Panes::Listed(panes) = &scanner.options.panes else {
        return Vec::new();
    };
    let project = scanner.options.layout.project.clone();
    let state = layout::OUR_STATE.iter();
    let socket = state
        .fold(project, |path, name| path.join(name))
        .join(layout::TMUX_SOCKET);
    let of_ours = panes
        .iter()
        .filter(|pane| pane.dead && pane.server.socket == socket);
    if of_ours.clone().next().is_none() || !is_our_socket(scanner) {
        return Vec::new();
    }
    of_ours
        .map(|pane| {
            let zombie = Zombie {
                kind: ZombieKind::Pane,
                name: pane.id.clone(),
                team: String::new(),
                age: Duration::ZERO,
                evidence: vec![Phrase::new(PhraseCode::OwnPaneEnded, [])],
                action: ZombieAction::Keep,
                command: REAP_AND_KILL.to_owned(),
            };
            (zombie, pane.clone())
        })
        .collect()
}

/// Closes a dead pane of teamster's own server.
pub(super) fn close(scanner: &ZombieScanner<'_>, pane: &ListedPane, zombie: Zombie) -> ReapResult {
    // The socket may have been replaced by a link to another server.
    if !is_our_socket(scanner) {
        return ReapResult::untouched(zombie);
    }
    match pane.server.close_if_dead(&pane.id) {
        Ok(reaped) => ReapResult {
            reaped,
            ..ReapResult::untouched(zombie)
        },
        Err(silence) => ReapResult {
            problem: Some(format!("tmux: {silence}")),
            ..ReapResult::untouched(zombie)
        },
    }
}

/// Returns whether the socket of the project's server is a real one. A project may contain a symbolic link in its
/// place, and then the panes behind it belong to another server.
fn is_our_socket(scanner: &ZombieScanner<'_>) -> bool {
    let project = &scanner.options.layout.project;
    let Ok(Some(dir)) = Dir::open_at(project, &layout::OUR_STATE) else {
        return false;
    };
    let stamp = dir.stamp(layout::TMUX_SOCKET);
    let is_socket = matches!(stamp, Ok(Some(stamp)) if stamp.kind == FileKind::Other);
    is_socket && dir.owner().is_ok_and(|owner| owner == scanner.user)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_line_by_line() {
        let server = TmuxServer {
            program: "/usr/bin/tmux".into(),
            socket: "/tmp/tmux-0/default".into(),
        };
        let panes = server.parse("%0 0\n%12 1\nno server running\n%3\n");
        let seen: Vec<_> = panes
            .iter()
            .map(|pane| (pane.id.as_str(), pane.dead))
            .collect();
        assert_eq!(seen, [("%0", false), ("%12", true)]);
    }
}

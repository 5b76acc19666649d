//! The tmux server of teamster, on its own socket, where a user can watch workers.
//!
//! It is only for display: nothing is ever typed into a pane. A worker is a window of its team's session, and its
//! program is the pane's own process. A pane stays when its program ends, so that its last output can be read and its
//! exit status is known. Only panes on this socket are ever touched, because no other server is contacted.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use teamster_fs::{Dir, FsError, proc};
use teamster_types::{TeamName, WorkerName};

use crate::bounded::{self, BoundedOutput};
use crate::find_program;

/// The timeout for an answer from the server.
const PATIENCE: Duration = Duration::from_secs(10);
const OUTPUT_LIMIT: u64 = 4 * 1024 * 1024;
/// The limit for one message to the server, less tmux's overhead.
const LONGEST_COMMAND: usize = 16_000;
/// The separator in tmux's output: all fields are numbers or names without this character.
const SEPARATOR: char = '|';
const FORMAT: &str = "#{session_name}|#{window_name}|#{pane_id}|#{pane_pid}|#{pane_dead}|#{pane_dead_status}|#{pane_dead_signal}";
/// The environment variables that the server needs; all others belong to a worker and must not reach another one.
const SERVER_NEEDS: [&str; 6] = ["PATH", "HOME", "USER", "LANG", "LC_ALL", "LC_CTYPE"];
/// The initial window of a session; no worker can have this name.
const PLACEHOLDER: &str = "_";
/// The size of a window that is not yet displayed.
const SIZE: [&str; 4] = ["-x", "200", "-y", "50"];

/// An error of tmux.
#[derive(Debug, thiserror::Error)]
pub enum TmuxError {
    /// The program tmux is not installed.
    #[error("there is no tmux on PATH")]
    NoProgram,
    /// The folder of the socket cannot be used.
    #[error(transparent)]
    Folder(#[from] FsError),
    /// The folder of the socket belongs to another user.
    #[error("{} belongs to another user", .0.display())]
    NotOurs(PathBuf),
    /// The worker already has a pane.
    #[error("worker {worker} of team {team} has a pane already ({pane})")]
    Taken {
        /// The worker's team.
        team: TeamName,
        /// The worker's name.
        worker: WorkerName,
        /// The existing pane.
        pane: String,
    },
    /// The command and environment exceed the limit of tmux.
    #[error(
        "the command and the environment of a pane are {0} bytes long; tmux accepts at most 16000"
    )]
    TooLong(usize),
    /// The program could not be run, or reported an error.
    #[error("`tmux {what}` failed: {why}")]
    Failed {
        /// The command.
        what: String,
        /// The error message.
        why: String,
    },
}

impl TmuxError {
    /// Returns a hint on how to continue.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoProgram => "install tmux to watch workers, or start them without it",
            Self::Folder(_) | Self::NotOurs(_) => "check that folder; it must belong to you alone",
            Self::Taken { .. } => "stop the worker first, or attach to it",
            Self::TooLong(_) => "start the worker without tmux",
            Self::Failed { .. } => "`teamster doctor` checks tmux",
        }
    }
}

/// A pane of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pane {
    /// Its team.
    pub team: TeamName,
    /// The worker that it shows.
    pub worker: WorkerName,
    /// The tmux id of the pane, such as `%3`.
    pub id: String,
    /// The process in the pane, which may have ended.
    pub pid: u32,
    /// Whether the process has ended.
    pub dead: bool,
    /// The exit code, if it exited.
    pub status: Option<i32>,
    /// The signal, if one killed it.
    pub signal: Option<i32>,
}

/// The program to run in a pane.
#[derive(Clone, Debug)]
pub struct PaneCommand<'a> {
    /// The program and its arguments, which are not interpreted by a shell.
    pub argv: &'a [OsString],
    /// Its environment, besides basic variables (`PATH`, `HOME`, the language) and those that tmux sets.
    pub env: &'a [(OsString, OsString)],
    /// The working directory.
    pub folder: &'a Path,
}

/// The server of teamster, whether it is running or not.
#[derive(Clone, Debug)]
pub struct Tmux {
    program: PathBuf,
    socket: PathBuf,
}

impl Tmux {
    /// Finds tmux in the folders of `path`, a list like `PATH`, for the server on `socket`.
    pub fn find(path: &OsStr, socket: &Path) -> Result<Self, TmuxError> {
        Ok(Self {
            program: find_program("tmux", path).ok_or(TmuxError::NoProgram)?,
            socket: socket.to_owned(),
        })
    }

    /// Returns the socket of the server.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Starts a program in a new window of the team, named after the worker.
    pub fn start(
        &self,
        team: &TeamName,
        worker: &WorkerName,
        command: &PaneCommand<'_>,
    ) -> Result<Pane, TmuxError> {
        self.secure_folder()?;
        match self.pane_of(team, worker)? {
            Some(pane) if !pane.dead => {
                return Err(TmuxError::Taken {
                    team: team.clone(),
                    worker: worker.clone(),
                    pane: pane.id,
                });
            }
            // The new pane replaces the dead one, whose output is in the worker's log.
            Some(dead) => self.close_pane(&dead)?,
            None => {}
        }
        // Another worker may create or end the session at the same moment; then the other variant is tried.
        let first = self.has_session(team)?;
        let started = self.new_window(team, worker, command, first);
        match started {
            Err(TmuxError::Failed { .. }) if self.has_session(team)? != first => {
                self.new_window(team, worker, command, !first)?;
            }
            other => other?,
        }
        self.pane_of(team, worker)?
            .ok_or_else(|| TmuxError::Failed {
                what: "new-window".to_owned(),
                why: format!("there is no pane of {worker}"),
            })
    }

    fn new_window(
        &self,
        team: &TeamName,
        worker: &WorkerName,
        command: &PaneCommand<'_>,
        session_exists: bool,
    ) -> Result<(), TmuxError> {
        let mut words: Vec<OsString> = Vec::new();
        let mut say = |list: &[&str]| words.extend(list.iter().map(OsString::from));
        // Set before the program starts: otherwise the pane of a program that ends at once would disappear.
        say(&[
            "start-server",
            ";",
            "set-option",
            "-g",
            "remain-on-exit",
            "on",
            ";",
        ]);
        say(&["set-option", "-g", "allow-rename", "off", ";"]);
        say(&["set-option", "-g", "automatic-rename", "off", ";"]);
        if !session_exists {
            // Every later window would inherit the environment of a new session, so it is created with a temporary
            // window.
            say(&["new-session", "-d", "-s", team.as_str(), "-n", PLACEHOLDER]);
            say(&SIZE);
            say(&["--", "cat", "-", ";"]);
        }
        // A colon with nothing after it means the next free index in exactly this session.
        let target = format!("={team}:");
        say(&["new-window", "-d", "-t", &target, "-n", worker.as_str()]);
        for (name, value) in command.env {
            words.push("-e".into());
            let mut pair = name.clone();
            pair.push("=");
            pair.push(value);
            words.push(escaped(&pair));
        }
        words.push("--".into());
        // A single word would be passed to a shell, and be split there.
        if command.argv.len() == 1 {
            words.extend(["/bin/sh", "-c", r#"exec "$0""#].map(OsString::from));
        }
        words.extend(command.argv.iter().map(|word| escaped(word)));
        if !session_exists {
            let placeholder = format!("{target}={PLACEHOLDER}");
            words.extend([";", "kill-window", "-t", &placeholder].map(OsString::from));
        }
        let length: usize = words.iter().map(|word| word.len() + 1).sum();
        if length > LONGEST_COMMAND {
            return Err(TmuxError::TooLong(length));
        }
        // The working directory is that of the call itself: tmux would expand an argument for it like a format.
        self.ask(&words, command.folder).map(drop)
    }

    /// Returns the pane of a worker; `None` when it has none, or the server is not running.
    pub fn pane_of(&self, team: &TeamName, worker: &WorkerName) -> Result<Option<Pane>, TmuxError> {
        let panes = self.panes()?;
        Ok(panes
            .into_iter()
            .find(|pane| pane.team == *team && pane.worker == *worker))
    }

    /// Returns the panes of all workers on the server.
    pub fn panes(&self) -> Result<Vec<Pane>, TmuxError> {
        let panes = self.listed()?;
        // A busy tmux can miss the end of a program; it checks all of them when the next one ends.
        if panes
            .iter()
            .any(|pane| !pane.dead && proc::has_ended(pane.pid))
        {
            self.ask_if_running(&["run-shell", "true"].map(OsString::from))?;
            return self.listed();
        }
        Ok(panes)
    }

    fn listed(&self) -> Result<Vec<Pane>, TmuxError> {
        let words = ["list-panes", "-a", "-F", FORMAT].map(OsString::from);
        let text = self.ask_if_running(&words)?;
        Ok(text.unwrap_or_default().lines().filter_map(parse).collect())
    }

    /// Closes a pane, if it is still the same one. A program that runs in it gets a hangup.
    pub fn close_pane(&self, pane: &Pane) -> Result<(), TmuxError> {
        let same = self
            .panes()?
            .iter()
            .any(|now| now.id == pane.id && now.pid == pane.pid);
        if same {
            let words = ["kill-pane", "-t", &pane.id].map(OsString::from);
            self.ask_if_running(&words)?;
        }
        Ok(())
    }

    /// Returns the command that shows a pane to a user, to be executed in a terminal.
    pub fn attach_command(&self, pane: &Pane) -> Vec<OsString> {
        let target = format!("={}:={}", pane.team, pane.worker);
        let mut words: Vec<OsString> = vec![self.program.clone().into(), "-S".into()];
        words.push(self.socket.clone().into());
        words.extend(["attach-session", "-t", &target].map(OsString::from));
        words
    }

    /// Returns the process of the server; `None` when it is not running.
    pub fn server_pid(&self) -> Result<Option<u32>, TmuxError> {
        let words = ["display-message", "-p", "#{pid}"].map(OsString::from);
        let text = self.ask_if_running(&words)?;
        Ok(text.and_then(|text| text.trim().parse().ok()))
    }

    /// Ends the server if it has no pane, not even a dead one, and returns whether it is not running any more.
    pub fn end_if_empty(&self) -> Result<bool, TmuxError> {
        let words = ["list-panes", "-a", "-F", "#{pane_id}"].map(OsString::from);
        let Some(text) = self.ask_if_running(&words)? else {
            return Ok(true);
        };
        if !text.trim().is_empty() {
            return Ok(false);
        }
        self.ask_if_running(&["kill-server".into()])?;
        Ok(true)
    }

    fn has_session(&self, team: &TeamName) -> Result<bool, TmuxError> {
        Ok(self.panes()?.iter().any(|pane| pane.team == *team))
    }

    /// Makes sure that only this user can write to the folder: another user could put their own server in its place.
    fn secure_folder(&self) -> Result<(), TmuxError> {
        let Some(folder) = self.socket.parent() else {
            return Ok(());
        };
        let dir = open_folder(folder)?;
        if dir.owner()? == proc::user() {
            dir.make_private()?;
            Ok(())
        } else {
            Err(TmuxError::NotOurs(folder.to_owned()))
        }
    }

    /// Returns the answer of a running server; `None` when it is not running.
    fn ask_if_running(&self, words: &[OsString]) -> Result<Option<String>, TmuxError> {
        if !self.socket.exists() {
            return Ok(None);
        }
        let ended = self.run(words, Path::new("/"))?;
        if ended.status.success() {
            return Ok(Some(String::from_utf8_lossy(&ended.stdout).into_owned()));
        }
        let said = String::from_utf8_lossy(&ended.stderr);
        let none = [
            "no server running",
            "error connecting",
            "no current",
            "server exited",
        ];
        if none.iter().any(|words| said.contains(words)) {
            return Ok(None);
        }
        Err(failed(words, &said))
    }

    fn ask(&self, words: &[OsString], folder: &Path) -> Result<String, TmuxError> {
        let ended = self.run(words, folder)?;
        if ended.status.success() {
            Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
        } else {
            Err(failed(words, &String::from_utf8_lossy(&ended.stderr)))
        }
    }

    fn run(&self, words: &[OsString], folder: &Path) -> Result<BoundedOutput, TmuxError> {
        let mut command = Command::new(&self.program);
        command
            .args(["-f", "/dev/null", "-S"])
            .arg(&self.socket)
            .args(words)
            .current_dir(folder)
            .env_clear()
            .env("SHELL", "/bin/sh")
            .env("TERM", "screen-256color");
        for name in SERVER_NEEDS {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        let ended = bounded::run(command, PATIENCE, OUTPUT_LIMIT)
            .map_err(|error| failed(words, &error.to_string()))?;
        if ended.timed_out {
            return Err(failed(words, "it did not answer within 10 s"));
        }
        Ok(ended)
    }
}

/// Opens the folder of a socket: in a project's state folder, or in the user's runtime folder.
fn open_folder(folder: &Path) -> Result<Dir, FsError> {
    let names: Vec<_> = folder.iter().rev().take(2).collect();
    if names == ["state", ".omc"]
        && let Some(project) = folder.ancestors().nth(2)
        && let Some(project) = Dir::open_root(project)?
    {
        // No symbolic link is followed below the project.
        return project.child_or_create(".omc")?.child_or_create("state");
    }
    Dir::open_or_create_root(folder)
}

fn failed(words: &[OsString], why: &str) -> TmuxError {
    let what = words.iter().find(|word| !word.is_empty());
    TmuxError::Failed {
        what: what.map_or_else(String::new, |word| word.to_string_lossy().into_owned()),
        why: why.trim().to_owned(),
    }
}

/// Escapes a word for tmux: a trailing `;` would end the command.
fn escaped(word: &OsStr) -> OsString {
    match word.as_bytes() {
        [start @ .., b';'] => {
            let mut bytes = start.to_vec();
            bytes.extend(b"\\;");
            OsString::from_vec(bytes)
        }
        _ => word.to_owned(),
    }
}

/// Parses one line of tmux's list; `None` for a pane that is not a worker's.
fn parse(line: &str) -> Option<Pane> {
    let mut fields = line.split(SEPARATOR);
    let mut pane = Pane {
        team: fields.next()?.parse().ok()?,
        worker: fields.next()?.parse().ok()?,
        id: fields.next()?.to_owned(),
        pid: fields.next()?.parse().ok()?,
        dead: fields.next()? == "1",
        status: fields.next()?.parse().ok(),
        signal: fields.next()?.parse().ok(),
    };
    // tmux reports a pane as dead once its terminal is closed, which is before it knows how the program ended, and even
    // when the program continues without a terminal.
    if pane.status.is_none() && pane.signal.is_none() && exists(pane.pid) {
        pane.dead = false;
    }
    Some(pane)
}

fn exists(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| !matches!(test_kill_process(pid), Err(Errno::SRCH)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_ends_with_a_semicolon_is_escaped_once() {
        for (word, wanted) in [
            ("a", "a"),
            (";", "\\;"),
            ("a;", "a\\;"),
            ("a\\;", "a\\\\;"),
            ("a;b", "a;b"),
        ] {
            assert_eq!(escaped(OsStr::new(word)), wanted);
        }
    }

    #[test]
    fn a_line_that_is_no_workers_is_no_pane() {
        let pane = parse("fix|worker-1|%3|42|1|7|").unwrap();
        assert_eq!((pane.id.as_str(), pane.pid), ("%3", 42));
        assert_eq!((pane.dead, pane.status, pane.signal), (true, Some(7), None));
        assert_eq!(parse("fix|worker-1|%3|42|1||9").unwrap().signal, Some(9));
        for other in ["", "fix|bash me|%1|1|0||", "No Team|w|%1|1|0||", "fix|w|%1"] {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}

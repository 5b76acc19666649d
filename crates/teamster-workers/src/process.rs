//! The process of an agent: how it is started, written to, asked to exit and cleaned up after. Workers and
//! [`ask`](crate::ask) share this code.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use teamster_agents::{AgentInput, Interrupt, Launch, SoftSignal};
use teamster_fs::proc::Machine;
use teamster_fs::{Dir, FsError, InboxFile, layout, remove_tree, socket};
use teamster_isolate::OrTrace as _;
use teamster_isolate::Signal;
use teamster_isolate::child::{self, ChildEvent, ChildSpec, OutputStream, RunningChild};
use teamster_isolate::process_tree::{ProcessTree, SurvivingProcesses};
use teamster_types::process::ProcessId;
use teamster_types::redact::LineRedactor;

use crate::socket::SOCKET;

/// How long to wait for output that is still in a pipe after the program has ended.
pub(crate) const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
/// The number of lines of an agent that are shown when its launch failed.
const LAST_LINES: usize = 20;
/// The number of characters of such a line that are kept.
const LAST_LINE: usize = 400;
/// The number of bytes of a line that are searched for secrets before it is cut.
const SEARCHED_BYTES: usize = 16 * 1024;

/// Where an agent is started, and with which variables and launch id.
pub(crate) struct LaunchSite<'a> {
    /// The folder that the agent is started in.
    pub(crate) folder: &'a Path,
    /// Variables that the agent gets besides its own.
    pub(crate) exported: &'a [(OsString, OsString)],
    /// The id of the launch, which all processes that the agent starts carry.
    pub(crate) launch_id: &'a str,
}

/// The process of an agent, and its input while it is open.
pub(crate) struct AgentProcess {
    running: RunningChild,
    input: Option<Sender<Vec<u8>>>,
}

impl AgentProcess {
    /// Starts an agent and writes its first input. Its output goes to `sender`, converted to events by `wrap`.
    pub(crate) fn start<T, F>(
        machine: &Machine,
        launch: &Launch,
        site: &LaunchSite<'_>,
        sender: &Sender<T>,
        wrap: F,
    ) -> io::Result<Self>
    where
        T: Send + 'static,
        F: Fn(ChildEvent) -> T + Clone + Send + 'static,
    {
        let names: Vec<String> = std::env::vars_os()
            .filter_map(|(name, _)| name.into_string().ok())
            .collect();
        let mut unset: Vec<OsString> = launch
            .withheld(names.iter().map(String::as_str))
            .into_iter()
            .map(Into::into)
            .collect();
        // The variables of teamster's own pane are not for the agent.
        unset.extend(["TMUX".into(), "TMUX_PANE".into()]);
        // If a worker's agent started teamster, this is that worker's socket.
        unset.push(SOCKET.into());
        let mut set = launch.set.clone();
        set.extend(site.exported.iter().cloned());
        let start = ChildSpec {
            program: &launch.program,
            args: &launch.args,
            folder: site.folder,
            set: &set,
            unset: &unset,
            number: site.launch_id,
            has_input: launch.input != AgentInput::Nothing,
        };
        let mut running = RunningChild::start(machine, &start, sender, wrap)?;
        let input = running.take_input().map(|input| {
            let (texts, received) = channel();
            child::feed(input, received);
            texts
        });
        let input = match (&launch.input, input) {
            (AgentInput::Text(text), Some(texts)) => {
                let _ = texts.send(text.clone());
                None
            }
            (AgentInput::Dialogue(text), Some(texts)) => {
                let _ = texts.send(text.clone());
                Some(texts)
            }
            _ => None,
        };
        Ok(Self { running, input })
    }

    /// Returns the identity of the process.
    pub(crate) fn id(&self) -> &ProcessId {
        self.running.id()
    }

    /// Writes to the agent's input, if it is still open.
    pub(crate) fn write(&self, bytes: Vec<u8>) {
        if let Some(input) = &self.input {
            let _ = input.send(bytes);
        }
    }

    /// Closes the agent's input.
    pub(crate) fn close_input(&mut self) {
        self.input = None;
    }

    /// Asks the agent to exit in the way that its client understands. Only its exit shows whether it complies.
    pub(crate) fn ask_to_end(&self, interrupt: Interrupt, has_shown_life: bool) {
        match interrupt {
            Interrupt::Line(line) if has_shown_life => match &self.input {
                Some(input) => drop(input.send(line)),
                None => self.running.signal(Signal::INT),
            },
            Interrupt::Signal(SoftSignal::Interrupt) => self.running.signal(Signal::INT),
            // An agent that never started its dialogue reads no input line.
            Interrupt::Line(_) | Interrupt::Signal(SoftSignal::Terminate) => {
                self.running.signal(Signal::TERM);
            }
        }
    }
}

/// Ends the processes that an agent left behind; returns their number, and those that could not be ended.
pub(crate) fn end_leftovers(
    tree: &ProcessTree<'_>,
    grace: Duration,
) -> (usize, Option<SurvivingProcesses>) {
    let leftover = tree.members().len();
    let still_there = if leftover > 0 {
        tree.end(grace.min(Duration::from_secs(1))).err()
    } else {
        None
    };
    tree.forget();
    (leftover, still_there)
}

/// The temp folder of all processes that a launch starts. Dropping it removes the folder with its contents.
pub(crate) struct TempFolder {
    launch_id: String,
    path: Option<PathBuf>,
}

impl TempFolder {
    /// Creates the folder. Its name cannot be guessed, and an existing folder of another user is not used.
    pub(crate) fn make(launch_id: &str) -> Self {
        Self {
            launch_id: launch_id.to_owned(),
            path: make_temp_folder(&layout::launch_temp(launch_id)),
        }
    }

    /// Returns the path of the folder, or `None` when it could not be created.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Creates the file that messages for a program are appended to, or returns `None` when there is no temp folder.
    pub(crate) fn make_inbox(&self) -> Option<InboxFile> {
        let dir = Dir::open_root(self.path()?).ok()??;
        InboxFile::create(dir, layout::AGENT_INBOX).ok_or_trace("create the inbox file of an agent")
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        remove(&layout::launch_temp(&self.launch_id));
    }
}

fn make_temp_folder(name: &str) -> Option<PathBuf> {
    let system = system_temp_folder().ok_or_trace("open the folder for temporary files")??;
    let is_new = system
        .make_dir(name)
        .ok_or_trace("make the temporary folder of a launch")?;
    let is_ours = is_new
        || system
            .child(name)
            .ok()
            .flatten()
            .is_some_and(|dir| dir.owner().ok() == Some(teamster_fs::proc::user()));
    is_ours.then(|| system.join(name))
}

/// Removes the temp folder and the socket of a launch that is over.
pub(crate) fn remove_temp_folder(launch_id: &str) {
    remove(&layout::launch_temp(launch_id));
    remove_socket(launch_id);
}

fn remove(folder: &str) {
    if let Ok(Some(system)) = system_temp_folder() {
        remove_tree(&system, folder).or_trace("remove the temporary folder of a launch");
    }
}

/// Removes the socket that a killed bridge left.
fn remove_socket(launch_id: &str) {
    let folder = layout::launch_socket(launch_id);
    let parent = socket::socket_parent(&std::env::temp_dir(), &folder);
    if let Ok(Some(parent)) = Dir::open_root(&parent) {
        remove_tree(&parent, &folder).or_trace("remove the socket of a launch");
    }
}

fn system_temp_folder() -> Result<Option<Dir>, FsError> {
    Dir::open_root(&std::env::temp_dir())
}

/// The last lines of both streams of an agent, redacted.
#[derive(Debug, Default)]
pub(crate) struct LastLines {
    all: VecDeque<String>,
    errors: VecDeque<String>,
    redactors: [LineRedactor; 2],
}

impl LastLines {
    /// Remembers a line in place of the oldest one.
    pub(crate) fn remember(&mut self, stream: OutputStream, line: &[u8]) {
        // A secret that is cut in two is no longer recognized, so secrets are searched before the line is cut.
        let line = String::from_utf8_lossy(&line[..line.len().min(SEARCHED_BYTES)]);
        let redactor = &mut self.redactors[usize::from(stream == OutputStream::Error)];
        let Some(line) = redactor.line(&line) else {
            return;
        };
        let line: String = line.chars().take(LAST_LINE).collect();
        if stream == OutputStream::Error {
            self.errors.push_back(line.clone());
            if self.errors.len() > LAST_LINES {
                self.errors.pop_front();
            }
        }
        self.all.push_back(line);
        if self.all.len() > LAST_LINES {
            self.all.pop_front();
        }
    }

    /// Returns the end of the error stream.
    pub(crate) fn errors(&self) -> String {
        self.errors
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// Returns the last lines of both streams together.
    pub(crate) fn into_lines(self) -> Vec<String> {
        self.all.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_lines_hold_no_part_of_a_key_and_no_half_of_a_token() {
        let mut last = LastLines::default();
        last.remember(OutputStream::Error, b"-----BEGIN PRIVATE KEY-----");
        for _ in 0..2 * LAST_LINES {
            last.remember(OutputStream::Error, "MIIEowIBAAKCAQEA".repeat(4).as_bytes());
        }
        let token = format!("{} ghp_{}", "x".repeat(LAST_LINE - 10), "a1B2".repeat(9));
        last.remember(OutputStream::Error, token.as_bytes());
        let errors = last.errors();
        assert!(
            !errors.contains("MIIE") && !errors.contains("ghp_"),
            "{errors}"
        );
        assert_eq!(last.into_lines().len(), 2);
    }
}

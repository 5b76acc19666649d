//! A program that runs under watch: its output comes line by line, it is ended with everything it started.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::ops::Deref;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use rustix::process::{Signal, kill_process_group};
use teamster_fs::cgroup::Cgroup;
use teamster_fs::proc::Machine;
use teamster_types::process::ProcessId;

use crate::guard::exit_of;
use crate::process_tree::{LAUNCH, group_name};
use crate::spawn::spawn_in;

/// A line longer than this is handed out in parts: a program that never ends its line must not fill the memory.
pub const LINE_LIMIT: usize = 16 * 1024 * 1024;

/// What a pipe of the system holds, and so what can be read at once.
const PIPE: usize = 64 * 1024;

/// How many bytes of lines are on their way at most; one line alone may be longer. A program that prints faster than it
/// is heard waits, as it would for a full pipe.
pub const ON_THE_WAY: usize = 1024 * 1024;
/// Whoever waits for room is woken when there is this much again: to wake them for every line would cost more than the
/// line itself.
const ROOM_AGAIN: usize = ON_THE_WAY / 2;
/// What a line takes up besides its bytes.
const EACH: usize = 128;

/// Children that somebody waits for, so that the search for orphans leaves them alone.
static WAITED_FOR: Mutex<Option<HashSet<u32>>> = Mutex::new(None);

pub(crate) fn is_waited_for(pid: u32) -> bool {
    let waited = WAITED_FOR.lock().unwrap_or_else(PoisonError::into_inner);
    waited.as_ref().is_some_and(|all| all.contains(&pid))
}

pub(crate) fn wait_for(pid: u32, begins: bool) {
    let mut waited = WAITED_FOR.lock().unwrap_or_else(PoisonError::into_inner);
    let all = waited.get_or_insert_default();
    if begins {
        all.insert(pid);
    } else {
        all.remove(&pid);
    }
}

/// What is to be started.
#[derive(Debug)]
pub struct ChildSpec<'a> {
    /// The program.
    pub program: &'a Path,
    /// Its arguments.
    pub args: &'a [OsString],
    /// Where it runs.
    pub folder: &'a Path,
    /// Variables that are set for it.
    pub set: &'a [(OsString, OsString)],
    /// Variables that it must not inherit.
    pub unset: &'a [OsString],
    /// The number of its launch, by which everything it starts is found again.
    pub number: &'a str,
    /// Whether something will be written to it.
    pub has_input: bool,
}

/// Where a line came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputStream {
    /// Its standard output.
    Output,
    /// Its standard error.
    Error,
}

/// What a running program does.
#[derive(Debug, PartialEq, Eq)]
pub enum ChildEvent {
    /// It printed a line, given without its end.
    Line(OutputStream, OutputLine),
    /// It closed a stream.
    Closed(OutputStream),
    /// It ended.
    Ended(ChildExit),
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildExit {
    /// By itself, with this code.
    Code(i32),
    /// By a signal.
    Signal(i32),
    /// Nobody can tell.
    Unknown,
}

/// A program that runs.
#[derive(Debug)]
pub struct RunningChild {
    id: ProcessId,
    command: String,
    input: Option<ChildStdin>,
    in_group: bool,
}

impl RunningChild {
    /// Starts a program. What it says comes through `said`, made into whatever the receiver takes.
    pub fn start<T, F>(
        machine: &Machine,
        start: &ChildSpec<'_>,
        said: &Sender<T>,
        wrap: F,
    ) -> io::Result<Self>
    where
        T: Send + 'static,
        F: Fn(ChildEvent) -> T + Clone + Send + 'static,
    {
        let mut command = Command::new(start.program);
        command
            .args(start.args)
            .current_dir(start.folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .stdin(if start.has_input {
                Stdio::piped()
            } else {
                Stdio::null()
            })
            // A group of its own: Ctrl-C at our terminal is for us to pass on, not for the agent to see.
            .process_group(0);
        for name in start.unset {
            command.env_remove(name);
        }
        command.envs(start.set.iter().map(|(name, value)| (name, value)));
        command.env(LAUNCH, start.number);
        let name = group_name(start.number);
        let group = Cgroup::find(&name).or_else(|| Cgroup::make(&name));
        let mut child = spawn_in(&mut command, group.as_ref(), machine.me().pid)?;
        let pid = child.id();
        wait_for(pid, true);
        let id = machine.process(pid).unwrap_or_else(|| ProcessId {
            pid,
            process_start_time: 0,
            ..machine.me().clone()
        });
        let in_group = group.is_some_and(|group| group.members().contains(&pid));
        let input = child.stdin.take();
        let room = Arc::new(Room::default());
        if let Some(pipe) = child.stdout.take() {
            listen(
                pipe,
                OutputStream::Output,
                &room,
                said.clone(),
                wrap.clone(),
            );
        }
        if let Some(pipe) = child.stderr.take() {
            listen(pipe, OutputStream::Error, &room, said.clone(), wrap.clone());
        }
        let said = said.clone();
        thread::spawn(move || {
            let status = child.wait();
            wait_for(pid, false);
            let ending = status.map_or(ChildExit::Unknown, exit_of);
            let _ = said.send(wrap(ChildEvent::Ended(ending)));
        });
        Ok(Self {
            id,
            command: say(start.program, start.args),
            input,
            in_group,
        })
    }

    /// Returns the record of its process.
    pub fn id(&self) -> &ProcessId {
        &self.id
    }

    /// Returns the command line, as a person could type it.
    pub fn command(&self) -> &str {
        &self.command
    }

    /// Returns whether the kernel keeps it and what it starts in a group.
    pub fn is_in_group(&self) -> bool {
        self.in_group
    }

    /// Takes its standard input, for a thread that writes to it: a program that does not read must stop nobody else.
    pub fn take_input(&mut self) -> Option<ChildStdin> {
        self.input.take()
    }

    /// Sends a signal to the program and its group. Its pid is not given to another one before its end was seen.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.id.pid).ok();
        if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw)
            && is_waited_for(self.id.pid)
        {
            let _ = kill_process_group(pid, signal);
        }
    }
}

/// The memory for one program's lines on their way.
#[derive(Debug, Default)]
struct Room {
    taken: Mutex<usize>,
    freed: Condvar,
}

/// A line of output without its end, on its way from a program to whoever hears it. It gives its memory back when it is
/// dropped.
#[derive(Debug)]
pub struct OutputLine {
    bytes: Vec<u8>,
    room: Arc<Room>,
}

impl OutputLine {
    /// Waits until there is room for the line, and makes it.
    fn new(bytes: Vec<u8>, room: &Arc<Room>) -> Self {
        let size = bytes.len() + EACH;
        let taken = room.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |taken: &mut usize| *taken > 0 && *taken + size > ON_THE_WAY;
        let waited = room.freed.wait_while(taken, is_full);
        *waited.unwrap_or_else(PoisonError::into_inner) += size;
        Self {
            bytes,
            room: Arc::clone(room),
        }
    }
}

impl Drop for OutputLine {
    fn drop(&mut self) {
        let taken = self.room.taken.lock();
        let mut taken = taken.unwrap_or_else(PoisonError::into_inner);
        let before = *taken;
        *taken = before.saturating_sub(self.bytes.len() + EACH);
        // A line that is longer than that waits until it is alone.
        if *taken == 0 || before > ROOM_AGAIN && *taken <= ROOM_AGAIN {
            self.room.freed.notify_all();
        }
    }
}

impl Deref for OutputLine {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl PartialEq for OutputLine {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for OutputLine {}

/// Hands out lines from a pipe until it is closed.
fn listen<T, F>(
    pipe: impl Read + Send + 'static,
    stream: OutputStream,
    room: &Arc<Room>,
    said: Sender<T>,
    wrap: F,
) where
    T: Send + 'static,
    F: Fn(ChildEvent) -> T + Send + 'static,
{
    let room = Arc::clone(room);
    thread::spawn(move || {
        let mut pipe = BufReader::with_capacity(PIPE, pipe);
        loop {
            let mut line = Vec::new();
            let limit = u64::try_from(LINE_LIMIT).unwrap_or(u64::MAX);
            match pipe.by_ref().take(limit).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => break,
                Ok(_) => {
                    if line.ends_with(b"\n") {
                        line.pop();
                    }
                    if line.ends_with(b"\r") {
                        line.pop();
                    }
                    let line = OutputLine::new(line, &room);
                    if said.send(wrap(ChildEvent::Line(stream, line))).is_err() {
                        // Nobody listens any more. Read on, so that the program can end.
                        let _ = io::copy(&mut pipe, &mut io::sink());
                        return;
                    }
                }
            }
        }
        let _ = said.send(wrap(ChildEvent::Closed(stream)));
    });
}

/// Feeds a program on a thread of its own, and closes its input when there is no more to say.
pub fn feed(mut input: ChildStdin, texts: std::sync::mpsc::Receiver<Vec<u8>>) {
    thread::spawn(move || {
        for text in texts {
            if input.write_all(&text).and_then(|()| input.flush()).is_err() {
                // It closed its input. What it says about that comes through its output.
                return;
            }
        }
    });
}

/// Returns a command line that could be pasted into a shell.
pub fn say(program: &Path, args: &[OsString]) -> String {
    let mut words = vec![PathBuf::from(program).into_os_string()];
    words.extend(args.iter().cloned());
    let words: Vec<String> = words
        .iter()
        .map(|word| quoted(&word.to_string_lossy()))
        .collect();
    words.join(" ")
}

fn quoted(word: &str) -> String {
    let is_plain = !word.is_empty()
        && word
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_=./:,@%+".contains(c));
    if is_plain {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests;

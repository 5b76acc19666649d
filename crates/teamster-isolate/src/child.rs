//! A supervised program: its output arrives line by line, and it is ended together with its descendants.

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
use teamster_types::shell;

use crate::guard::exit_of;
use crate::process_tree::{LAUNCH, group_name};
use crate::spawn::spawn_in;

/// The maximum length of a line; a longer one is delivered in parts, so that a program that prints no newline cannot
/// fill the memory.
pub const LINE_LIMIT: usize = 16 * 1024 * 1024;

/// The capacity of a pipe, and so the read size.
const PIPE: usize = 64 * 1024;

/// The limit for buffered output lines, in bytes; a single line may be longer. A program that prints faster than its
/// output is consumed is blocked, as by a full pipe.
pub const ON_THE_WAY: usize = 1024 * 1024;
/// The fill level at which a blocked reader thread is woken: to wake it for every consumed line would cost more than
/// the line itself.
const ROOM_AGAIN: usize = ON_THE_WAY / 2;
/// The memory overhead of a line, in bytes.
const EACH: usize = 128;

/// Children that a thread waits for, so that [`crate::process_tree::reap_adopted`] leaves them alone.
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

/// What to start, and how.
#[derive(Debug)]
pub struct ChildSpec<'a> {
    /// The program.
    pub program: &'a Path,
    /// Its arguments.
    pub args: &'a [OsString],
    /// The working directory.
    pub folder: &'a Path,
    /// Environment variables to set.
    pub set: &'a [(OsString, OsString)],
    /// Environment variables that it must not inherit.
    pub unset: &'a [OsString],
    /// The launch id, by which all its descendants are found again.
    pub number: &'a str,
    /// Whether it gets a pipe as its standard input.
    pub has_input: bool,
}

/// The stream that a line came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputStream {
    /// The standard output.
    Output,
    /// The standard error.
    Error,
}

/// An event of a running program.
#[derive(Debug, PartialEq, Eq)]
pub enum ChildEvent {
    /// It printed a line, without its newline.
    Line(OutputStream, OutputLine),
    /// It closed a stream.
    Closed(OutputStream),
    /// It ended.
    Ended(ChildExit),
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildExit {
    /// It exited with this code.
    Code(i32),
    /// It was killed by this signal.
    Signal(i32),
    /// The exit status is unknown.
    Unknown,
}

/// A running program.
#[derive(Debug)]
pub struct RunningChild {
    id: ProcessId,
    command: String,
    input: Option<ChildStdin>,
    in_group: bool,
}

impl RunningChild {
    /// Starts a program. Each of its events is converted with `wrap` and sent to `said`.
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
            // Its own process group: Ctrl-C at the terminal is handled by teamster, not seen by the agent.
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
        let room = Arc::new(BufferBudget::default());
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

    /// Returns the command line, quoted for a shell.
    pub fn command(&self) -> &str {
        &self.command
    }

    /// Returns whether it runs in a control group of its own, together with its descendants.
    pub fn is_in_group(&self) -> bool {
        self.in_group
    }

    /// Takes its standard input, for a thread that writes to it: a program that does not read must not block any other
    /// thread.
    pub fn take_input(&mut self) -> Option<ChildStdin> {
        self.input.take()
    }

    /// Sends a signal to the program and its process group. Its pid cannot be reused before it was reaped.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.id.pid).ok();
        if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw)
            && is_waited_for(self.id.pid)
        {
            let _ = kill_process_group(pid, signal);
        }
    }
}

/// The memory budget for one program's buffered lines.
#[derive(Debug, Default)]
struct BufferBudget {
    taken: Mutex<usize>,
    freed: Condvar,
}

/// A line of output without its newline, on its way from a program to its receiver. Dropping it frees its share of the
/// memory budget.
#[derive(Debug)]
pub struct OutputLine {
    bytes: Vec<u8>,
    room: Arc<BufferBudget>,
}

impl OutputLine {
    /// Waits until the budget has room for the line, and creates it.
    fn new(bytes: Vec<u8>, room: &Arc<BufferBudget>) -> Self {
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
        // A line larger than the budget waits until no other line is buffered.
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

/// Delivers lines from a pipe until it is closed.
fn listen<T, F>(
    pipe: impl Read + Send + 'static,
    stream: OutputStream,
    room: &Arc<BufferBudget>,
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
                        // The receiver is gone. Read on, so that the program is not blocked.
                        let _ = io::copy(&mut pipe, &mut io::sink());
                        return;
                    }
                }
            }
        }
        let _ = said.send(wrap(ChildEvent::Closed(stream)));
    });
}

/// Writes to a program's input on a thread of its own, and closes the input when the sender is dropped.
pub fn feed(mut input: ChildStdin, texts: std::sync::mpsc::Receiver<Vec<u8>>) {
    thread::spawn(move || {
        for text in texts {
            if input.write_all(&text).and_then(|()| input.flush()).is_err() {
                // The program closed its input. If that is an error, its output says so.
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
        .map(|word| shell::word(&word.to_string_lossy()))
        .collect();
    words.join(" ")
}

#[cfg(test)]
mod tests;

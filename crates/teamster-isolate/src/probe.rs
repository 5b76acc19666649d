//! Short queries of a program, such as for its version.

use std::ffi::OsStr;
use std::fmt;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::Access;
use rustix::process::{Pid, Signal, kill_process_group};

/// The limit for the output of a query, in bytes.
const ANSWER_LIMIT: u64 = 16 * 1024;
/// The poll interval for the end of a program that has closed its output.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// The answer of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeOutput {
    /// Whether it exited with code 0.
    pub ok: bool,
    /// Its standard output, truncated at 16 KiB; invalid UTF-8 is replaced.
    pub text: String,
}

impl ProbeOutput {
    /// Returns the first line that is not empty.
    pub fn first_line(&self) -> Option<&str> {
        self.text
            .lines()
            .map(str::trim)
            .find(|line| !line.is_empty())
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub enum ProbeError {
    /// The program could not be started.
    NotStarted(std::io::Error),
    /// The program did not end in time, and was killed.
    TimedOut(Duration),
}

impl fmt::Display for ProbeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotStarted(error) => write!(f, "it could not be started: {error}"),
            Self::TimedOut(patience) => {
                write!(f, "it did not answer within {} s", patience.as_secs())
            }
        }
    }
}

/// Returns the path of the program `name` in the folders of `path`, a list like `PATH`.
pub fn find_program(name: &str, path: &OsStr) -> Option<PathBuf> {
    std::env::split_paths(path)
        // An empty entry means the current folder, where a project could plant a program of that name.
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|file| is_program(file))
}

/// Returns whether a file is an executable program.
pub fn is_program(file: &Path) -> bool {
    file.is_file() && rustix::fs::access(file, Access::EXEC_OK).is_ok()
}

/// Runs `program` without input, and gives it `patience` to answer and end.
pub fn probe<I, S>(program: &Path, args: I, patience: Duration) -> Result<ProbeOutput, ProbeError>
where
    I: IntoIterator<Item = S>,
    S: AsRef<OsStr>,
{
    let deadline = Instant::now() + patience;
    let mut command = Command::new(program);
    command
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        // Its own process group, so that its descendants can be killed with it.
        .process_group(0);
    let mut child = crate::spawn::spawn(&mut command).map_err(ProbeError::NotStarted)?;
    let heard = listen(&mut child);
    let text = heard.recv_timeout(deadline.saturating_duration_since(Instant::now()));
    let ended = text.is_ok() && wait_until(&mut child, deadline);
    if !ended {
        end(&mut child);
    }
    match (text, child.wait()) {
        (Ok(text), Ok(status)) if ended => Ok(ProbeOutput {
            ok: status.success(),
            text,
        }),
        _ => Err(ProbeError::TimedOut(patience)),
    }
}

/// Reads the output on a separate thread: a grandchild may keep the pipe open long after the child has ended, and only
/// a thread can be abandoned.
fn listen(child: &mut Child) -> mpsc::Receiver<String> {
    let (say, heard) = mpsc::channel();
    let output = child.stdout.take();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut output) = output {
            let _ = output.by_ref().take(ANSWER_LIMIT).read_to_end(&mut bytes);
            // Discard the rest, so that a program with much output is not blocked.
            let _ = std::io::copy(&mut output, &mut std::io::sink());
        }
        let _ = say.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    heard
}

fn wait_until(child: &mut Child, deadline: Instant) -> bool {
    loop {
        match child.try_wait() {
            Ok(Some(_)) => return true,
            Ok(None) if Instant::now() < deadline => thread::sleep(LOOK_AGAIN),
            _ => return false,
        }
    }
}

/// Kills the child and its group. It has not been reaped yet, so its pid cannot be reused.
fn end(child: &mut Child) {
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(group) = group {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.kill();
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn shell(script: &str, patience: Duration) -> Result<ProbeOutput, ProbeError> {
        probe(Path::new("/bin/sh"), ["-c", script], patience)
    }

    #[test]
    fn a_program_answers_with_its_first_line_and_its_success() {
        let answer = shell("echo; echo ' version 1.2 '; echo more; exit 3", LONG).unwrap();
        assert_eq!(answer.first_line(), Some("version 1.2"));
        assert!(!answer.ok);
    }

    #[test]
    fn a_program_gets_no_input_and_its_answer_is_cut() {
        let answer = shell("cat; head -c 1000000 /dev/zero", LONG).unwrap();
        assert_eq!(answer.text.len(), 16 * 1024);
    }

    #[test]
    fn a_program_that_does_not_end_is_ended_with_what_it_started() {
        let mark = std::env::temp_dir().join(format!("teamster-brief-{}", std::process::id()));
        let script = format!("sleep 600 & echo $! > {}; wait", mark.display());
        let start = Instant::now();
        let silence = shell(&script, Duration::from_secs(1));
        assert!(
            matches!(silence, Err(ProbeError::TimedOut(_))),
            "{silence:?}"
        );
        assert!(start.elapsed() < LONG);
        let pid: i32 = std::fs::read_to_string(&mark)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        let started = Pid::from_raw(pid).unwrap();
        // Its new parent has to reap it first.
        while rustix::process::test_kill_process(started).is_ok() && !is_zombie(pid) {
            assert!(start.elapsed() < LONG, "process {pid} was left behind");
            thread::yield_now();
        }
        std::fs::remove_file(mark).unwrap();
    }

    fn is_zombie(pid: i32) -> bool {
        std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z "))
    }

    #[test]
    fn what_is_not_there_is_not_started_and_not_found() {
        let nowhere = Path::new("/nowhere/at/all");
        let silence = probe(nowhere, ["--version"], LONG);
        assert!(
            matches!(silence, Err(ProbeError::NotStarted(_))),
            "{silence:?}"
        );
        assert_eq!(find_program("sh", OsStr::new("/nowhere")), None);
        let found = find_program("sh", OsStr::new(":/nowhere:/bin:/usr/bin"));
        assert!(found.is_some_and(|file| file.is_absolute()));
    }
}

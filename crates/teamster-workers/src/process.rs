//! An agent's process: how it is started, asked to end, and remembered. One way for workers and for whoever is only asked.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use teamster_agents::{Driver, Exit, Input, Interrupt, Launch, Polite};
use teamster_fs::proc::Machine;
use teamster_isolate::Signal;
use teamster_isolate::child::{self, ChildEvent, ChildSpec, OutputStream, RunningChild};
use teamster_types::redact::LineRedactor;

/// A program that ended may have left its last words in a pipe.
pub(crate) const LAST_WORDS: Duration = Duration::from_secs(2);
/// Lines of the agent that are shown when its launch failed.
const LAST_LINES: usize = 20;
/// So many characters of a line are kept for that.
const LAST_LINE: usize = 400;
/// So many bytes of a line are looked at for secrets before it is cut.
const LOOKED_AT: usize = 16 * 1024;

/// Where an agent is started, and as what.
pub(crate) struct Where<'a> {
    pub(crate) folder: &'a Path,
    /// Variables that it gets besides its own.
    pub(crate) exported: &'a [(OsString, OsString)],
    /// The number of its launch.
    pub(crate) number: &'a str,
}

/// Starts an agent and gives it its first words. The sender is there as long as more can be said to it.
pub(crate) fn begin<T, F>(
    machine: &Machine,
    launch: &Launch,
    place: &Where<'_>,
    sender: &Sender<T>,
    wrap: F,
) -> io::Result<(RunningChild, Option<Sender<Vec<u8>>>)>
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
    // What only our own pane knows is not the agent's.
    unset.extend(["TMUX".into(), "TMUX_PANE".into()]);
    let mut set = launch.set.clone();
    set.extend(place.exported.iter().cloned());
    let start = ChildSpec {
        program: &launch.program,
        args: &launch.args,
        folder: place.folder,
        set: &set,
        unset: &unset,
        number: place.number,
        has_input: launch.input != Input::Nothing,
    };
    let mut running = RunningChild::start(machine, &start, sender, wrap)?;
    let input = running.take_input().map(|input| {
        let (texts, received) = channel();
        child::feed(input, received);
        texts
    });
    let input = match (&launch.input, input) {
        (Input::Text(text), Some(texts)) => {
            let _ = texts.send(text.clone());
            None
        }
        (Input::Dialogue(text), Some(texts)) => {
            let _ = texts.send(text.clone());
            Some(texts)
        }
        _ => None,
    };
    Ok((running, input))
}

/// Asks an agent to end, in the way it understands. Whether it obeys is seen by its end.
pub(crate) fn ask_to_end(
    driver: &dyn Driver,
    running: &RunningChild,
    input: Option<&Sender<Vec<u8>>>,
    has_started: bool,
) {
    match driver.interrupt() {
        Interrupt::Line(line) if has_started => match input {
            Some(input) => drop(input.send(line)),
            None => running.signal(Signal::INT),
        },
        Interrupt::Signal(Polite::Interrupt) => running.signal(Signal::INT),
        // One that never began a dialogue reads no line.
        Interrupt::Line(_) | Interrupt::Signal(Polite::Terminate) => running.signal(Signal::TERM),
    }
}

/// How a process ended, in the words of drivers.
pub(crate) fn exit(ending: child::ChildExit) -> Exit {
    match ending {
        child::ChildExit::Code(code) => Exit::Code(code),
        child::ChildExit::Signal(signal) => Exit::Signal(signal),
        child::ChildExit::Unknown => Exit::Unknown,
    }
}

/// The last lines of both streams, redacted.
#[derive(Debug, Default)]
pub(crate) struct LastLines {
    all: VecDeque<String>,
    errors: VecDeque<String>,
    redactors: [LineRedactor; 2],
}

impl LastLines {
    pub(crate) fn remember(&mut self, stream: OutputStream, line: &[u8]) {
        // A secret that was cut in two is no longer seen as one.
        let line = String::from_utf8_lossy(&line[..line.len().min(LOOKED_AT)]);
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

    /// The end of the error stream.
    pub(crate) fn errors(&self) -> String {
        self.errors
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join("\n")
    }

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

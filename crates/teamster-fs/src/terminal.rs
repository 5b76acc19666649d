//! A question at the terminal, which only what is typed after it was shown can answer.
//!
//! A terminal keeps what is typed while nobody reads: whole lines, and the beginning of one. All of it was typed by
//! somebody who had not seen the question. So a [`TerminalQuestion`] is made when its text is on the screen, throws
//! away what is there until nothing more arrives, and only then lets its caller show the prompt and reads.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, OutputModes, QueueSelector, SpecialCodeIndex, Termios,
    tcflush, tcgetattr, tcgetpgrp, tcgetwinsize, tcsetattr,
};

use crate::dir::retry;

/// A long paste arrives in parts, so what was typed early is gone only when nothing has arrived for this long.
const QUIET: Duration = Duration::from_millis(100);
/// More than a terminal gives for one line.
const CHUNK: usize = 8 * 1024;

/// What a person has done at the terminal since they were last looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Typed {
    /// Nothing that counts.
    Nothing,
    /// From now on input counts, so the prompt is to be shown. This comes once, before any line.
    Ready {
        /// Whether something was typed before and thrown away.
        discarded: bool,
    },
    /// A line, without its end.
    Line(String),
    /// The input is at its end: Ctrl-D, or the terminal is gone. Nothing follows.
    Ended,
}

/// Returns how many columns the terminal of the error stream has, or `None` when there is no terminal or it does not say.
pub fn columns() -> Option<usize> {
    let size = tcgetwinsize(std::io::stderr()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

#[derive(Debug)]
enum ReadingState {
    /// What was typed early is thrown away; the time is when that was last done.
    Discarding(Option<Instant>),
    Reading,
    Ended,
}

/// A question that is on the screen of the terminal of the standard input.
#[derive(Debug)]
pub struct TerminalQuestion {
    /// A descriptor of our own, which never blocks, where the terminal can be opened again.
    own: Option<File>,
    /// The terminal's modes before the question.
    modes: Option<Termios>,
    state: ReadingState,
    discarded: bool,
    line: Vec<u8>,
}

impl TerminalQuestion {
    /// Returns a question whose text is shown in full. Nothing that was typed until now answers it.
    pub fn shown() -> Self {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let own = rustix::fs::open("/dev/fd/0", flags, Mode::empty());
        Self {
            own: own.ok().map(File::from),
            modes: None,
            state: ReadingState::Discarding(None),
            discarded: false,
            line: Vec::new(),
        }
    }

    /// Returns what has been typed since the last call; waits for it up to `limit`.
    pub fn typed(&mut self, limit: Duration) -> Typed {
        if is_in_background() {
            // Touching the terminal would stop the process, and whoever types there types for somebody else.
            std::thread::sleep(limit.min(QUIET));
            return Typed::Nothing;
        }
        match self.state {
            ReadingState::Discarding(since) => self.discard(since, limit),
            ReadingState::Reading => self.read(limit),
            ReadingState::Ended => {
                std::thread::sleep(limit);
                Typed::Nothing
            }
        }
    }

    fn discard(&mut self, since: Option<Instant>, limit: Duration) -> Typed {
        if since.is_none() {
            self.modes = tcgetattr(self.terminal()).ok();
            // Otherwise a line that has only begun cannot be seen.
            self.change_modes(OptionalActions::Now, |modes| {
                modes.local_modes.remove(LocalModes::ICANON);
                modes.special_codes[SpecialCodeIndex::VMIN] = 1;
                modes.special_codes[SpecialCodeIndex::VTIME] = 0;
            });
        }
        let is_waiting = self.is_readable(Duration::ZERO);
        self.discarded |= is_waiting;
        let since = since.filter(|_| !is_waiting);
        if tcflush(self.terminal(), QueueSelector::IFlush).is_err() {
            self.state = ReadingState::Ended;
            return Typed::Ended;
        }
        let silent = since.map_or(Duration::ZERO, |since| since.elapsed());
        if silent < QUIET {
            self.state = ReadingState::Discarding(Some(since.unwrap_or_else(Instant::now)));
            self.is_readable(limit.min(QUIET.saturating_sub(silent)));
            return Typed::Nothing;
        }
        // Whatever a program before us has left: lines, and what is typed is seen.
        self.change_modes(OptionalActions::Flush, |modes| {
            modes.input_modes.insert(InputModes::ICRNL);
            modes
                .output_modes
                .insert(OutputModes::OPOST | OutputModes::ONLCR);
            modes.local_modes.insert(
                LocalModes::ICANON
                    | LocalModes::ECHO
                    | LocalModes::ECHOE
                    | LocalModes::ECHOK
                    | LocalModes::ISIG
                    | LocalModes::IEXTEN,
            );
        });
        self.state = ReadingState::Reading;
        Typed::Ready {
            discarded: self.discarded,
        }
    }

    fn read(&mut self, limit: Duration) -> Typed {
        if !self.is_readable(limit) {
            return Typed::Nothing;
        }
        let mut bytes = [0; CHUNK];
        match retry(|| rustix::io::read(self.terminal(), &mut bytes)) {
            Ok(0) => self.state = ReadingState::Ended,
            Ok(count) => self.line.extend_from_slice(&bytes[..count]),
            // Somebody else was faster to read it.
            Err(rustix::io::Errno::AGAIN) => {}
            Err(_) => self.state = ReadingState::Ended,
        }
        if matches!(self.state, ReadingState::Ended) {
            return Typed::Ended;
        }
        let Some(end) = self.line.iter().position(|byte| *byte == b'\n') else {
            return Typed::Nothing;
        };
        let line: Vec<u8> = self.line.drain(..=end).collect();
        Typed::Line(String::from_utf8_lossy(&line[..end]).into_owned())
    }

    fn is_readable(&self, limit: Duration) -> bool {
        let wait = Timespec {
            tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(limit.subsec_nanos()),
        };
        let terminal = self.terminal();
        let mut fds = [PollFd::new(&terminal, PollFlags::IN)];
        matches!(poll(&mut fds, Some(&wait)), Ok(1..))
    }

    fn change_modes(&self, when: OptionalActions, change: impl FnOnce(&mut Termios)) {
        if let Some(modes) = &self.modes {
            let mut modes = modes.clone();
            change(&mut modes);
            let _ = tcsetattr(self.terminal(), when, &modes);
        }
    }

    fn terminal(&self) -> BorrowedFd<'_> {
        match &self.own {
            Some(own) => own.as_fd(),
            None => rustix::stdio::stdin(),
        }
    }
}

impl Drop for TerminalQuestion {
    fn drop(&mut self) {
        if let Some(modes) = &self.modes
            && !is_in_background()
        {
            let _ = tcsetattr(self.terminal(), OptionalActions::Now, modes);
        }
    }
}

/// Returns whether the terminal is another job's at the moment.
fn is_in_background() -> bool {
    tcgetpgrp(rustix::stdio::stdin()).is_ok_and(|group| group != rustix::process::getpgrp())
}

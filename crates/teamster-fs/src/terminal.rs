//! A question at the terminal that can only be answered by input typed after it was shown.
//!
//! A terminal buffers what is typed while no program reads: whole lines, and the beginning of one. All of that was
//! typed before the question was seen. So a [`TerminalQuestion`] is created when its text is on the screen, discards
//! pending input until no more arrives, and only then lets its caller show the prompt and starts reading.

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

/// A long paste arrives in parts, so early input counts as fully discarded only after nothing has arrived for this
/// long.
const QUIET: Duration = Duration::from_millis(100);
/// The read size, larger than a terminal's maximum line length.
const CHUNK: usize = 8 * 1024;

/// The input from the terminal since the last call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TerminalInput {
    /// No input that counts.
    Nothing,
    /// Input counts from now on, so the prompt is to be shown. This is returned once, before any line.
    Ready {
        /// Whether earlier input was discarded.
        discarded: bool,
    },
    /// A line, without its newline.
    Line(String),
    /// The end of the input: Ctrl-D, or the terminal is gone. Nothing follows.
    Ended,
}

/// Returns the width of the terminal that standard error is connected to; `None` when there is no terminal or it does
/// not report its width.
pub fn columns() -> Option<usize> {
    let size = tcgetwinsize(std::io::stderr()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Keeps the terminal of the standard error from showing control keys as text until this is dropped. A `^C` at the end
/// of the last line moves the cursor, and a program that redraws its last lines then misses one of them.
#[derive(Debug)]
pub struct HiddenControlKeys {
    was_shown: bool,
}

impl HiddenControlKeys {
    /// Hides control keys if there is a terminal that shows them.
    pub fn hide() -> Self {
        Self {
            was_shown: show_control_keys(false),
        }
    }
}

impl Drop for HiddenControlKeys {
    fn drop(&mut self) {
        if self.was_shown {
            show_control_keys(true);
        }
    }
}

/// Lets the terminal show control keys as text or not, and returns whether that changed anything.
fn show_control_keys(shown: bool) -> bool {
    // The live lines are drawn there; the standard input may be something else.
    let terminal = rustix::stdio::stderr();
    let Ok(mut modes) = tcgetattr(terminal) else {
        return false;
    };
    if is_in_background() || modes.local_modes.contains(LocalModes::ECHOCTL) == shown {
        return false;
    }
    modes.local_modes.set(LocalModes::ECHOCTL, shown);
    tcsetattr(terminal, OptionalActions::Now, &modes).is_ok()
}

#[derive(Debug)]
enum ReadingState {
    /// Early input is being discarded; the time is when that was last done.
    Discarding(Option<Instant>),
    Reading,
    Ended,
}

/// A question shown on the terminal of the standard input.
#[derive(Debug)]
pub struct TerminalQuestion {
    /// A separate non-blocking descriptor, where the terminal can be opened again.
    own: Option<File>,
    /// The terminal's modes before the question was asked.
    modes: Option<Termios>,
    state: ReadingState,
    discarded: bool,
    line: Vec<u8>,
}

impl TerminalQuestion {
    /// Returns a question whose text is fully shown. Input typed before this call does not answer it.
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

    /// Returns the input since the last call, waiting up to `limit` for it.
    pub fn typed(&mut self, limit: Duration) -> TerminalInput {
        if is_in_background() {
            // Accessing the terminal from the background would stop the process, and input there is meant for another
            // job.
            std::thread::sleep(limit.min(QUIET));
            return TerminalInput::Nothing;
        }
        match self.state {
            ReadingState::Discarding(since) => self.discard(since, limit),
            ReadingState::Reading => self.read(limit),
            ReadingState::Ended => {
                std::thread::sleep(limit);
                TerminalInput::Nothing
            }
        }
    }

    fn discard(&mut self, since: Option<Instant>, limit: Duration) -> TerminalInput {
        if since.is_none() {
            self.modes = tcgetattr(self.terminal()).ok();
            // In canonical mode a line that was only begun is not visible.
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
            return TerminalInput::Ended;
        }
        let silent = since.map_or(Duration::ZERO, |since| since.elapsed());
        if silent < QUIET {
            self.state = ReadingState::Discarding(Some(since.unwrap_or_else(Instant::now)));
            self.is_readable(limit.min(QUIET.saturating_sub(silent)));
            return TerminalInput::Nothing;
        }
        // Enables line editing and echo, which an earlier program may have switched off.
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
        TerminalInput::Ready {
            discarded: self.discarded,
        }
    }

    fn read(&mut self, limit: Duration) -> TerminalInput {
        if !self.is_readable(limit) {
            return TerminalInput::Nothing;
        }
        let mut bytes = [0; CHUNK];
        match retry(|| rustix::io::read(self.terminal(), &mut bytes)) {
            Ok(0) => self.state = ReadingState::Ended,
            Ok(count) => self.line.extend_from_slice(&bytes[..count]),
            // Another process has read the input first.
            Err(rustix::io::Errno::AGAIN) => {}
            Err(_) => self.state = ReadingState::Ended,
        }
        if matches!(self.state, ReadingState::Ended) {
            return TerminalInput::Ended;
        }
        let Some(end) = self.line.iter().position(|byte| *byte == b'\n') else {
            return TerminalInput::Nothing;
        };
        let line: Vec<u8> = self.line.drain(..=end).collect();
        TerminalInput::Line(String::from_utf8_lossy(&line[..end]).into_owned())
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

/// Returns whether another job is in the terminal's foreground.
fn is_in_background() -> bool {
    tcgetpgrp(rustix::stdio::stdin()).is_ok_and(|group| group != rustix::process::getpgrp())
}

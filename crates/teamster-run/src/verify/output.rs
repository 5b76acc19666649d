//! The output of a check: shown as it arrives, kept in a log file of limited size, and its last lines remembered.
//!
//! Every line is redacted before it goes anywhere. The memory use is bounded, however much is printed.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use teamster_fs::{Dir, Durability, FsError, layout};
use teamster_isolate::child::OutputStream;
use teamster_types::TeamName;
use teamster_types::redact::LineRedactor;
use teamster_types::text::clean;

use super::run::CheckPlace;

/// The number of bytes from the beginning of the output that are kept.
const KEPT_FIRST: usize = 4 * 1024 * 1024;
/// The number of bytes from its end that are kept, less some room for the note about the omitted middle.
const KEPT_LAST: usize = 4 * 1024 * 1024 - 4 * 1024;
/// The number of last lines that are remembered.
const LAST_LINES: usize = 200;
/// The number of characters of each remembered line.
const LAST_LINE: usize = 2_000;
/// The number of bytes of a line that are kept, from its beginning.
const LONGEST_LINE: usize = 64 * 1024;
/// How far behind the end of a kept line the redactor looks, so that it sees a secret that crosses the cut as a whole.
const LOOK_AHEAD: usize = 8 * 1024;
/// The log is written, and lines are shown, in chunks of this size, and whenever the check pauses.
const WRITE_CHUNK: usize = 64 * 1024;
/// How often the output of a check that prints all the time is shown.
const SHOW_INTERVAL: Duration = Duration::from_millis(50);
/// The line between two runs of a check.
const RUN_AGAIN: &str = "[it failed and is run again]";
/// The number of attempts at the same check that have separate logs.
const MOST_LOGS: u32 = 1_000;

/// The output of one check, across all its runs.
pub(super) struct CheckOutput<'a> {
    say: &'a mut dyn FnMut(&str),
    /// Lines that were not shown yet.
    waiting: String,
    /// When lines were last shown.
    shown_at: Option<Instant>,
    /// Whether the check is run for the second time.
    is_repeated: bool,
    log: Option<CheckLog>,
    last: VecDeque<String>,
    redactors: [LineRedactor; 2],
    remarks: Vec<String>,
}

impl<'a> CheckOutput<'a> {
    /// Opens the log. If the log cannot be written, the check runs all the same, and a remark says so.
    pub(super) fn open(
        project: &Dir,
        team: &TeamName,
        place: &CheckPlace<'_>,
        say: &'a mut dyn FnMut(&str),
    ) -> Self {
        let mut remarks = Vec::new();
        let log = CheckLog::open(project, team, place)
            .map_err(|error| remarks.push(format!("its output is not kept: {error}")))
            .ok();
        Self {
            say,
            waiting: String::new(),
            shown_at: None,
            is_repeated: false,
            log,
            last: VecDeque::new(),
            redactors: [LineRedactor::default(); 2],
            remarks,
        }
    }

    /// Takes a line as the check printed it.
    pub(super) fn line(&mut self, stream: OutputStream, raw: &[u8]) {
        // A line that is overwritten again and again, such as a progress bar, counts as several lines.
        for part in raw.split(|byte| *byte == b'\r') {
            if !part.is_empty() || raw.is_empty() {
                self.part(stream, part);
            }
        }
    }

    fn part(&mut self, stream: OutputStream, raw: &[u8]) {
        let is_cut = raw.len() > LONGEST_LINE + LOOK_AHEAD;
        let text = String::from_utf8_lossy(&raw[..raw.len().min(LONGEST_LINE + LOOK_AHEAD)]);
        let redactor = &mut self.redactors[usize::from(stream == OutputStream::Error)];
        let Some(shown) = redactor.line(&text) else {
            return;
        };
        let mut shown = shown.as_ref();
        if is_cut {
            // The end of the text may be half of a secret.
            let mut end = shown.len().saturating_sub(LOOK_AHEAD);
            while !shown.is_char_boundary(end) {
                end -= 1;
            }
            shown = &shown[..end];
        }
        let shown = clean(shown, LONGEST_LINE);
        if !self.is_repeated {
            self.waiting.push_str(&shown);
            self.waiting.push('\n');
        }
        let is_due = self.shown_at.is_none_or(|at| at.elapsed() >= SHOW_INTERVAL);
        if is_due || self.waiting.len() >= WRITE_CHUNK {
            self.show();
        }
        self.keep(&shown);
        if self.last.len() == LAST_LINES {
            self.last.pop_front();
        }
        // Most lines are short, and are clean already.
        let last = if shown.len() <= LAST_LINE {
            shown.into_owned()
        } else {
            clean(&shown, LAST_LINE).into_owned()
        };
        self.last.push_back(last);
    }

    fn show(&mut self) {
        if !self.waiting.is_empty() {
            (self.say)(&self.waiting);
            self.waiting.clear();
            self.shown_at = Some(Instant::now());
        }
    }

    /// Notes that the check is run once more. The output of the second run goes to the log, and is not shown.
    pub(super) fn begin_again(&mut self) {
        self.show();
        (self.say)(&format!("{RUN_AGAIN}\n"));
        self.keep(RUN_AGAIN);
        self.is_repeated = true;
    }

    fn keep(&mut self, line: &str) {
        if let Some(log) = &mut self.log
            && let Err(error) = log.line(line)
        {
            self.remark(format!("its output is not kept from here on: {error}"));
            self.log = None;
        }
    }

    /// Adds a remark for people.
    pub(super) fn remark(&mut self, remark: String) {
        if !self.remarks.contains(&remark) {
            self.remarks.push(remark);
        }
    }

    /// Shows the output so far, and writes it to the log, so that it can be followed there.
    pub(super) fn pause(&mut self) {
        self.show();
        if let Some(log) = &mut self.log
            && let Err(error) = log.write()
        {
            self.remark(format!("its output is not kept from here on: {error}"));
            self.log = None;
        }
    }

    /// Returns the last lines since the previous call.
    pub(super) fn take_last(&mut self) -> String {
        self.show();
        let last: Vec<String> = std::mem::take(&mut self.last).into();
        self.redactors = [LineRedactor::default(); 2];
        last.join("\n")
    }

    /// Returns the path of the log, and the remarks.
    pub(super) fn close(mut self) -> (String, Vec<String>) {
        self.show();
        if let Some(log) = &mut self.log
            && let Err(error) = log.end()
        {
            self.remark(format!("the end of its output is not kept: {error}"));
        }
        let path = self.log.map(|log| log.path).unwrap_or_default();
        (path, self.remarks)
    }
}

/// The log file with the first and the last part of the output.
struct CheckLog {
    folder: Dir,
    name: String,
    path: String,
    /// Text that is not in the file yet.
    waiting: String,
    /// The size of the first part, in bytes.
    first: usize,
    last: VecDeque<String>,
    last_size: usize,
    left_out: u64,
}

impl CheckLog {
    fn open(project: &Dir, team: &TeamName, place: &CheckPlace<'_>) -> Result<Self, FsError> {
        let mut folder = project.child_or_create(layout::OMC)?;
        let mut path = layout::OMC.to_owned();
        for name in layout::verify_folders(team) {
            folder = folder.child_or_create(name)?;
            path = format!("{path}/{name}");
        }
        let mut again = 0;
        let name = loop {
            let name = layout::verify_log(place.on, place.round, place.number, again);
            // The log of an earlier attempt must stay: its verdict in the journal points to it.
            if folder.create_new(&name, b"", Durability::Fast)? || again == MOST_LOGS {
                break name;
            }
            again += 1;
        };
        Ok(Self {
            path: format!("{path}/{name}"),
            folder,
            name,
            waiting: String::new(),
            first: 0,
            last: VecDeque::new(),
            last_size: 0,
            left_out: 0,
        })
    }

    fn line(&mut self, line: &str) -> Result<(), FsError> {
        let size = line.len() + 1;
        if self.last.is_empty() && self.left_out == 0 && self.first + size <= KEPT_FIRST {
            self.first += size;
            self.waiting.push_str(line);
            self.waiting.push('\n');
            if self.waiting.len() >= WRITE_CHUNK {
                return self.write();
            }
            return Ok(());
        }
        self.last_size += size;
        self.last.push_back(line.to_owned());
        while self.last_size > KEPT_LAST
            && let Some(oldest) = self.last.pop_front()
        {
            self.last_size -= oldest.len() + 1;
            self.left_out += oldest.len() as u64 + 1;
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), FsError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        self.folder
            .append(&self.name, self.waiting.as_bytes(), Durability::Fast)?;
        self.waiting.clear();
        Ok(())
    }

    fn end(&mut self) -> Result<(), FsError> {
        if self.left_out > 0 {
            let words = format!("[… {} bytes are left out here …]\n", self.left_out);
            self.waiting.push_str(&words);
        }
        for line in std::mem::take(&mut self.last) {
            self.waiting.push_str(&line);
            self.waiting.push('\n');
            if self.waiting.len() >= WRITE_CHUNK {
                self.write()?;
            }
        }
        self.write()
    }
}

#[cfg(test)]
mod tests;

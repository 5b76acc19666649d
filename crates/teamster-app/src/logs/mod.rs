//! The output of a worker's agent: in pages, as it is written, and line by line.

mod follow;
mod lines;
mod remote;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use teamster_fs::{Dir, layout};
use teamster_types::TaskId;
use teamster_types::redact::redact;

use crate::app::App;
use crate::error::Result;
use crate::workers::NamedWorker;
pub use follow::LogFollower;
pub use lines::{LogLines, WorkerLog};
pub use remote::{LogLocation, SyncedLogs};

/// One line of an agent's output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LogLine {
    /// The time, if the line contains one.
    pub ts: Option<String>,
    /// The writer, such as `agent`, `stderr` or `teamster`.
    pub from: String,
    /// The text in readable form; empty for output that is of no interest to people.
    pub text: String,
    /// The original text, if it differs.
    pub raw: Option<String>,
}

/// The output of an agent for one task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Log {
    /// The task; `null` when there is no log.
    pub task_id: Option<TaskId>,
    /// The tasks for which this worker has a log, the newest first.
    pub tasks: Vec<TaskId>,
    /// The lines, in order.
    pub lines: Vec<LogLine>,
    /// The value of `after` for the next request.
    pub next: u64,
    /// Whether earlier lines were left out.
    pub cut: bool,
}

/// Sent as the event `lines`: the output since the last event. Its id encodes the position where it ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogPart {
    /// The task; `null` when there is no log.
    pub task_id: Option<TaskId>,
    /// The tasks for which this worker has a log, the newest first.
    pub tasks: Vec<TaskId>,
    /// The lines, in order.
    pub lines: Vec<LogLine>,
    /// Whether earlier lines are to be discarded, because of another task or a new log.
    pub begins: bool,
    /// Whether earlier lines were left out.
    pub cut: bool,
}

/// One line of a log, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// The time; empty when the line contains none.
    pub ts: String,
    /// The writer; empty when the line contains none.
    pub from: String,
    /// The text.
    pub text: String,
    is_for_people: bool,
}

impl LogEntry {
    /// Returns whether the line is of no interest to people.
    pub fn is_uninteresting(&self) -> bool {
        self.is_for_people && self.text.is_empty()
    }

    /// Parses one line of a log, in readable form if possible, or as the agent sent it.
    pub fn read(line: &str, raw: bool) -> Self {
        let Ok(entry) = serde_json::from_str::<Value>(line) else {
            return LogEntry {
                ts: String::new(),
                from: String::new(),
                text: line.to_owned(),
                is_for_people: false,
            };
        };
        let shown = entry.get("shown").and_then(Value::as_str);
        let shown = shown.filter(|_| !raw);
        let word = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
        let text = match (shown, entry.get("event")) {
            (Some(shown), _) => shown.to_owned(),
            (None, Some(event)) => event
                .get("teamster")
                .and_then(Value::as_str)
                .map_or_else(|| event.to_string(), str::to_owned),
            (None, None) => word("text").to_owned(),
        };
        LogEntry {
            ts: word("ts").to_owned(),
            from: word("from").to_owned(),
            text,
            is_for_people: shown.is_some(),
        }
    }
}

/// Returns the folder of a worker's logs; `None` when it has none.
fn folder(named: &NamedWorker) -> Result<Option<Dir>> {
    let Some(project) = Dir::open_root(&named.project)? else {
        return Ok(None);
    };
    let Some(mut dir) = project.child(layout::OMC)? else {
        return Ok(None);
    };
    for name in layout::log_folders(&named.team, &named.worker) {
        match dir.child(name)? {
            Some(child) => dir = child,
            None => return Ok(None),
        }
    }
    Ok(Some(dir))
}

/// Returns the tasks with a log, the most recently written first.
fn tasks(folder: &Dir) -> Result<Vec<TaskId>> {
    let mut found: Vec<(i64, TaskId)> = Vec::new();
    for entry in folder.entries()? {
        let task = entry.name.strip_suffix(".jsonl");
        if let Some(Ok(task)) = task.map(str::parse::<TaskId>)
            && let Some(stamp) = folder.stamp(&entry.name)?
        {
            found.push((stamp.modified, task));
        }
    }
    // File system timestamps are coarse: of two logs with the same time, that of the later task is the newer.
    found.sort_by(|one, other| other.cmp(one));
    Ok(found.into_iter().map(|(_, task)| task).collect())
}

/// The maximum size of a page of a log, in bytes.
const PAGE: u64 = 256 * 1024;
/// The maximum length of a line, in characters.
const LONGEST_LINE: usize = 8 * 1024;

/// Returns the lines of a task's log, or of the latest, starting at the byte `after`; only the end of a long one.
pub fn page(app: &App, named: NamedWorker, task: Option<&TaskId>, after: u64) -> Result<Log> {
    let place = LogLocation::find(app, named)?;
    place.fetch()?;
    let named = &place.named;
    let Some(folder) = folder(named)? else {
        return Ok(Log::default());
    };
    let tasks = tasks(&folder)?;
    let Some(task) = task.or(tasks.first()).cloned() else {
        return Ok(Log::default());
    };
    let name = layout::task_log(&task);
    let size = folder.stamp(&name)?.map_or(0, |stamp| stamp.size);
    // A log that is shorter than what was read has been rotated, so it is read from its beginning.
    let from = if after > size { 0 } else { after };
    let begin = from.max(size.saturating_sub(PAGE));
    let bytes = folder.read_from(&name, begin)?;
    let bytes = bytes.map(|(bytes, _)| bytes).unwrap_or_default();
    let whole = bytes.iter().rposition(|byte| *byte == b'\n');
    let whole = &bytes[..whole.map_or(0, |place| place + 1)];
    let skipped = if begin > from {
        partial_line_end(whole)
    } else {
        None
    };
    let shown = &whole[skipped.map_or(0, |place| place + 1)..];
    let lines = String::from_utf8_lossy(shown);
    Ok(Log {
        lines: lines.lines().map(line).collect(),
        next: begin + whole.len() as u64,
        cut: begin > from || after > size,
        task_id: Some(task),
        tasks,
    })
}

/// Returns one line of a log, redacted and shortened.
fn line(text: &str) -> LogLine {
    let (said, raw) = (LogEntry::read(text, false), LogEntry::read(text, true));
    // Redacted before it is shortened, because half a secret would not be recognised.
    let fit = |text: &str| shortened(&redact(text));
    LogLine {
        ts: Some(said.ts).filter(|ts| !ts.is_empty()),
        from: said.from,
        raw: (raw.text != said.text).then(|| fit(&raw.text)),
        text: fit(&said.text),
    }
}

/// Returns the end of a first line that is incomplete at its start; `None` when nothing follows it, in which case the
/// partial line is better than nothing.
fn partial_line_end(bytes: &[u8]) -> Option<usize> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    (end + 1 < bytes.len()).then_some(end)
}

/// Shortens a text and states how much was cut off.
fn shortened(text: &str) -> String {
    let Some((end, _)) = text.char_indices().nth(LONGEST_LINE) else {
        return text.to_owned();
    };
    let more = text[end..].chars().count();
    format!("{}… (+{more})", &text[..end])
}

//! What a worker's agent sent: in pages, as it is written, and line by line.

mod elsewhere;
mod follow;
mod lines;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use teamster_fs::{Dir, layout};
use teamster_types::TaskId;
use teamster_types::redact::redact;

use crate::app::App;
use crate::error::Result;
use crate::workers::NamedWorker;
pub use elsewhere::{BroughtLogs, LogPlace};
pub use follow::LogFollower;
pub use lines::{LogLines, WorkerLog};

/// One line of what an agent sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LogLine {
    /// When, if the line says so.
    pub ts: Option<String>,
    /// Who wrote it, such as `agent`, `stderr` or `teamster`.
    pub from: String,
    /// What was written, as people read it; empty where the agent only talks to itself.
    pub text: String,
    /// The same as it was sent, where that is something else.
    pub raw: Option<String>,
}

/// What an agent sent while it worked on a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Log {
    /// Of which task; `null` when there is no log.
    pub task_id: Option<TaskId>,
    /// The tasks that this worker has a log of, the newest first.
    pub tasks: Vec<TaskId>,
    /// The lines, in order.
    pub lines: Vec<LogLine>,
    /// Ask again with `after` set to this for what comes next.
    pub next: u64,
    /// Whether lines before these were left out.
    pub cut: bool,
}

/// Sent as the event `lines`: what an agent sent since the last one. Its id says where that ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogPart {
    /// Of which task; `null` when there is no log.
    pub task_id: Option<TaskId>,
    /// The tasks that this worker has a log of, the newest first.
    pub tasks: Vec<TaskId>,
    /// The lines, in order.
    pub lines: Vec<LogLine>,
    /// What was shown before is to be forgotten: another task, or a log that was begun anew.
    pub begins: bool,
    /// Whether lines before these were left out.
    pub cut: bool,
}

/// One line of a log, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// When; empty when the line does not say.
    pub ts: String,
    /// Who; empty when the line does not say.
    pub from: String,
    /// What was written.
    pub text: String,
    is_for_people: bool,
}

impl LogEntry {
    /// Returns whether a client only talked to itself.
    pub fn says_nothing(&self) -> bool {
        self.is_for_people && self.text.is_empty()
    }

    /// Reads one line of a log: as people read it where that is known, or as the agent sent it.
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

/// Returns the tasks that there is a log of, the one that was written last first.
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
    // File systems count time in ticks of some milliseconds: of two logs of one tick the later task's is the newer.
    found.sort_by(|one, other| other.cmp(one));
    Ok(found.into_iter().map(|(_, task)| task).collect())
}

/// How much of a log is passed on at once, in bytes.
const PAGE: u64 = 256 * 1024;
/// The longest line that is passed on, in characters.
const LONGEST_LINE: usize = 8 * 1024;

/// Returns the lines of a task's log, or of the latest, from the byte `after` on; of a long one only the end.
pub fn page(app: &App, named: NamedWorker, task: Option<&TaskId>, after: u64) -> Result<Log> {
    let place = LogPlace::find(app, named)?;
    place.bring()?;
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
    // A log that is shorter than what was read was put aside, and begins anew.
    let from = if after > size { 0 } else { after };
    let begin = from.max(size.saturating_sub(PAGE));
    let bytes = folder.read_from(&name, begin)?;
    let bytes = bytes.map(|(bytes, _)| bytes).unwrap_or_default();
    let whole = bytes.iter().rposition(|byte| *byte == b'\n');
    let whole = &bytes[..whole.map_or(0, |place| place + 1)];
    let skipped = if begin > from { middle(whole) } else { None };
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

/// Returns one line of a log, redacted and cut.
fn line(text: &str) -> LogLine {
    let (said, raw) = (LogEntry::read(text, false), LogEntry::read(text, true));
    // Redacted before it is cut: half a secret is no longer seen as one.
    let fit = |text: &str| shortened(&redact(text));
    LogLine {
        ts: Some(said.ts).filter(|ts| !ts.is_empty()),
        from: said.from,
        raw: (raw.text != said.text).then(|| fit(&raw.text)),
        text: fit(&said.text),
    }
}

/// Where the first line ends that is there only from its middle on; `None` when nothing comes behind it: then its end
/// is better than nothing.
fn middle(bytes: &[u8]) -> Option<usize> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    (end + 1 < bytes.len()).then_some(end)
}

/// What is cut off is counted: whoever reads it must know that there is more.
fn shortened(text: &str) -> String {
    let Some((end, _)) = text.char_indices().nth(LONGEST_LINE) else {
        return text.to_owned();
    };
    let more = text[end..].chars().count();
    format!("{}… (+{more})", &text[..end])
}

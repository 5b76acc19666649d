//! What an agent sent, page by page.

use teamster_app::workers::NamedWorker;
use teamster_fs::layout;
use teamster_studio::api::{Log, LogLine};
use teamster_types::TaskId;
use teamster_types::redact::redact;

use crate::commands::worker::logs;
use crate::error::Result;

/// How much of a log is passed on at once, in bytes.
pub(super) const PAGE: u64 = 256 * 1024;
/// The longest line that is passed on, in characters.
const LONGEST_LINE: usize = 8 * 1024;

/// The lines of a task's log from the byte `after` on; of a long one only the end.
pub(super) fn read(named: &NamedWorker, task: Option<&TaskId>, after: u64) -> Result<Log> {
    let Some(folder) = logs::folder(named)? else {
        return Ok(Log::default());
    };
    let tasks = logs::tasks(&folder)?;
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

pub(super) fn line(text: &str) -> LogLine {
    let (said, raw) = (logs::said(text, false), logs::said(text, true));
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
pub(super) fn middle(bytes: &[u8]) -> Option<usize> {
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

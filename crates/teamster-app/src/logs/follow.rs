//! Follows the output of an agent as it is written.

use std::path::PathBuf;

use teamster_fs::{Dir, layout};
use teamster_types::TaskId;

use super::{LogPart, PAGE, SyncedLogs, folder, line, partial_line_end, tasks};
use crate::error::Result;

/// The approximate size of one part in bytes; parts consist of whole lines, so that a long log is sent in pieces.
const PART: usize = 64 * 1024;
/// A log up to this size is sent from its beginning.
const WHOLE: u64 = 4 * 1024 * 1024;

/// A log that is read while it is written. Each line is returned exactly once, even when the log is rotated meanwhile.
#[derive(Debug)]
pub struct LogFollower {
    logs: SyncedLogs,
    /// The requested task; `None` for the latest, and then each next one.
    task: Option<TaskId>,
    at: Option<LogCursor>,
    /// Whether the client has been sent anything yet.
    has_told: bool,
}

/// How far a log was read. The file is identified by its inode, because it is renamed when it is full.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LogCursor {
    task: TaskId,
    inode: u64,
    offset: u64,
}

impl LogCursor {
    fn id(&self) -> String {
        format!("{}.{}.{}", self.task, self.inode, self.offset)
    }

    fn parse(id: &str) -> Option<Self> {
        let mut parts = id.rsplitn(3, '.');
        let offset = parts.next()?.parse().ok()?;
        let inode = parts.next()?.parse().ok()?;
        Some(Self {
            task: parts.next()?.parse().ok()?,
            inode,
            offset,
        })
    }
}

impl LogFollower {
    /// Follows the log of a task, or the latest and then each next one, continuing after an earlier part.
    pub fn new(logs: SyncedLogs, task: Option<&TaskId>, after: Option<&str>) -> Self {
        // A cursor in another task's log does not apply to this one.
        let fits = |place: &LogCursor| task.is_none_or(|task| *task == place.task);
        let at = after.and_then(LogCursor::parse).filter(fits);
        Self {
            logs,
            task: task.cloned(),
            has_told: at.is_some(),
            at,
        }
    }

    /// Returns the folder to watch for changes.
    pub fn folder(&self) -> PathBuf {
        let names = layout::log_folders(&self.logs.named.team, &self.logs.named.worker);
        let folder = self.logs.named.project.join(layout::OMC);
        names.iter().fold(folder, |path, name| path.join(name))
    }

    /// Returns the new lines, and an id for the position where they end; `None` when there are none.
    pub fn next_part(&mut self) -> Result<Option<(String, LogPart)>> {
        let Some(folder) = folder(&self.logs.named)? else {
            return Ok(self.nothing_yet(Vec::new()));
        };
        let tasks = tasks(&folder)?;
        let mut begins = false;
        if let Some(place) = self.at.clone() {
            match read_on(&folder, &place)? {
                LogRead::More(bytes, now) => {
                    return Ok(Some(self.part(tasks, &bytes, now, false, false)));
                }
                LogRead::Nothing => {}
                LogRead::Anew => begins = true,
            }
        }
        let wanted = self.task.as_ref().or(tasks.first()).cloned();
        let Some(wanted) = wanted else {
            return Ok(self.nothing_yet(tasks));
        };
        // The rest of the previous log comes first.
        if !begins && self.at.as_ref().is_some_and(|place| place.task == wanted) {
            return Ok(None);
        }
        let name = layout::task_log(&wanted);
        let Some(stamp) = folder.stamp(&name)? else {
            return Ok(self.nothing_yet(tasks));
        };
        // Only the end of a long log is sent.
        let from = match stamp.size {
            ..=WHOLE => 0,
            size => size - PAGE,
        };
        let Some((bytes, stamp)) = folder.read_from(&name, from)? else {
            return Ok(None);
        };
        let skipped = match from {
            0 => 0,
            _ => partial_line_end(&bytes).map_or(0, |place| place + 1),
        };
        let bytes = whole_lines(&bytes[skipped..]);
        let offset = from + (skipped + bytes.len()) as u64;
        let now = LogCursor {
            task: wanted,
            inode: stamp.inode,
            offset,
        };
        Ok(Some(self.part(tasks, bytes, now, true, from > 0)))
    }

    /// Returns an empty part, once, so that the client knows that there is no log yet.
    fn nothing_yet(&mut self, tasks: Vec<TaskId>) -> Option<(String, LogPart)> {
        if std::mem::replace(&mut self.has_told, true) {
            return None;
        }
        let part = LogPart {
            tasks,
            begins: true,
            ..LogPart::default()
        };
        Some((String::new(), part))
    }

    fn part(
        &mut self,
        tasks: Vec<TaskId>,
        bytes: &[u8],
        now: LogCursor,
        begins: bool,
        cut: bool,
    ) -> (String, LogPart) {
        let id = now.id();
        let part = LogPart {
            task_id: Some(now.task.clone()),
            tasks,
            lines: String::from_utf8_lossy(bytes).lines().map(line).collect(),
            begins,
            cut,
        };
        self.has_told = true;
        self.at = Some(now);
        (id, part)
    }
}

enum LogRead {
    More(Vec<u8>, LogCursor),
    Nothing,
    /// It is a different log from the one that was read.
    Anew,
}

/// Reads what follows a cursor.
fn read_on(folder: &Dir, place: &LogCursor) -> Result<LogRead> {
    let name = layout::task_log(&place.task);
    // The byte before the cursor must end a line; otherwise the cursor belongs to another text.
    let before = place.offset.saturating_sub(1);
    let found = folder.read_from(&name, before)?;
    if let Some((bytes, stamp)) = &found
        && stamp.inode == place.inode
    {
        return Ok(lines_after(bytes, place, stamp.size));
    }
    let old = layout::old_task_log(&place.task);
    match folder.read_from(&old, before)? {
        Some((bytes, stamp)) if stamp.inode == place.inode => {
            match lines_after(&bytes, place, stamp.size) {
                // The rotated log was read to its end; its successor is read from its beginning.
                LogRead::Nothing => Ok(match found {
                    Some((_, stamp)) => from_beginning(folder, &name, place, stamp.inode)?,
                    None => LogRead::Nothing,
                }),
                told => Ok(told),
            }
        }
        _ if found.is_some() => Ok(LogRead::Anew),
        _ => Ok(LogRead::Nothing),
    }
}

fn from_beginning(folder: &Dir, name: &str, place: &LogCursor, inode: u64) -> Result<LogRead> {
    let now = LogCursor {
        task: place.task.clone(),
        inode,
        offset: 0,
    };
    Ok(match folder.read_from(name, 0)? {
        Some((bytes, stamp)) if stamp.inode == inode => lines_after(&bytes, &now, stamp.size),
        _ => LogRead::Nothing,
    })
}

fn lines_after(bytes: &[u8], place: &LogCursor, size: u64) -> LogRead {
    if size < place.offset {
        return LogRead::Anew;
    }
    let rest = match place.offset {
        0 => bytes,
        _ if bytes.first() == Some(&b'\n') => &bytes[1..],
        _ => return LogRead::Anew,
    };
    let whole = whole_lines(rest);
    if whole.is_empty() {
        return LogRead::Nothing;
    }
    let mut now = place.clone();
    now.offset += whole.len() as u64;
    LogRead::More(whole.to_vec(), now)
}

/// Returns as many whole lines as fit into one part, but at least one, however long it is.
fn whole_lines(bytes: &[u8]) -> &[u8] {
    let is_end = |byte: &u8| *byte == b'\n';
    let first = bytes.len().min(PART);
    let end = bytes[..first]
        .iter()
        .rposition(is_end)
        .or_else(|| Some(first + bytes[first..].iter().position(is_end)?));
    &bytes[..end.map_or(0, |end| end + 1)]
}

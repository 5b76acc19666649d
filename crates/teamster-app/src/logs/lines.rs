//! Reads logs line by line while they are written. A log may be rotated at any moment, but each line is returned
//! exactly once.

use teamster_fs::{Dir, FsError, layout};
use teamster_types::TaskId;

use super::{folder, tasks};
use crate::error::Result;
use crate::workers::NamedWorker;

/// Selects one of a worker's logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerLog {
    /// The output of its agent for this task.
    Task(TaskId),
    /// The output of its agent for the latest task, and then for each next one.
    Latest,
    /// The output of its bridge.
    Bridge,
}

/// The lines of a worker's log, as they were written.
#[derive(Debug)]
pub struct LogLines {
    named: NamedWorker,
    source: WorkerLog,
    last: Option<usize>,
    follow: bool,
    /// One per task, so that a retried task continues where its log was left.
    tails: Vec<LogTail>,
}

impl LogLines {
    /// Reads a log from its beginning, or only its `last` lines. With `follow`, an unfinished line is not returned
    /// until it ends.
    pub fn new(named: NamedWorker, source: WorkerLog, last: Option<usize>, follow: bool) -> Self {
        Self {
            named,
            source,
            last,
            follow,
            tails: Vec::new(),
        }
    }

    /// Returns whether the log exists.
    pub fn is_found(&self) -> bool {
        !self.tails.is_empty()
    }

    /// Returns the lines that were not returned before.
    pub fn read(&mut self) -> Result<Vec<String>> {
        let mut read = Vec::new();
        let Some(folder) = folder(&self.named)? else {
            return Ok(read);
        };
        let wanted = match &self.source {
            WorkerLog::Bridge => Some(LogFileNames::bridge()),
            WorkerLog::Task(task) => Some(LogFileNames::of(task)),
            WorkerLog::Latest => tasks(&folder)?.first().map(LogFileNames::of),
        };
        // The rest of the previous log comes before the first line of the next.
        for tail in &mut self.tails {
            read.extend(tail.lines(&folder)?);
        }
        if let Some(names) = wanted
            && self.tails.iter().all(|tail| tail.names != names)
        {
            let mut tail = LogTail::new(names);
            let mut lines = tail.lines(&folder)?;
            if !self.follow {
                lines.extend(tail.unfinished());
            }
            let last = self.last.filter(|_| self.tails.is_empty());
            let from = last.map_or(0, |last| lines.len().saturating_sub(last));
            if !lines.is_empty() || self.follow {
                self.tails.push(tail);
            }
            read.extend(lines.drain(from..));
        }
        Ok(read)
    }
}

/// The files of one log.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LogFileNames {
    now: String,
    /// The rotated log.
    before: String,
}

impl LogFileNames {
    /// Returns the log files of a task's agent.
    fn of(task: &TaskId) -> Self {
        Self {
            now: layout::task_log(task),
            before: layout::old_task_log(task),
        }
    }

    /// Returns the log files of the bridge.
    fn bridge() -> Self {
        Self {
            now: layout::BRIDGE_LOG.to_owned(),
            before: layout::OLD_BRIDGE_LOG.to_owned(),
        }
    }
}

/// How far a log has been read.
#[derive(Debug)]
struct LogTail {
    names: LogFileNames,
    /// The inode of the file that is being read, because its name changes.
    file: Option<u64>,
    read: u64,
    has_begun: bool,
    rest: Vec<u8>,
}

impl LogTail {
    fn new(names: LogFileNames) -> Self {
        Self {
            names,
            file: None,
            read: 0,
            has_begun: false,
            rest: Vec::new(),
        }
    }

    /// Returns the whole lines that have not been read yet.
    fn lines(&mut self, folder: &Dir) -> std::result::Result<Vec<String>, FsError> {
        if self.has_begun {
            self.read_on(folder)?;
        } else {
            self.begin(folder)?;
            self.has_begun = true;
        }
        let whole = self.rest.iter().rposition(|byte| *byte == b'\n');
        let whole: Vec<u8> = self.rest.drain(..whole.map_or(0, |at| at + 1)).collect();
        let whole = String::from_utf8_lossy(&whole);
        Ok(whole.lines().map(str::to_owned).collect())
    }

    /// Returns a last line without a line break.
    fn unfinished(&self) -> Option<String> {
        (!self.rest.is_empty()).then(|| String::from_utf8_lossy(&self.rest).into_owned())
    }

    fn begin(&mut self, folder: &Dir) -> std::result::Result<(), FsError> {
        loop {
            let before = folder.read(&self.names.before)?;
            let now = folder.read(&self.names.now)?;
            let inode = before.as_ref().map(|(_, stamp)| stamp.inode);
            let after = folder.stamp(&self.names.before)?.map(|stamp| stamp.inode);
            if inode != after {
                // The log was rotated in between, so start again with the rotated file.
                continue;
            }
            self.rest = before.map(|(bytes, _)| bytes).unwrap_or_default();
            if let Some((bytes, stamp)) = now {
                self.read = bytes.len() as u64;
                self.file = Some(stamp.inode);
                self.rest.extend(bytes);
            }
            return Ok(());
        }
    }

    fn read_on(&mut self, folder: &Dir) -> std::result::Result<(), FsError> {
        let found = folder.read_from(&self.names.now, self.read)?;
        match (found, self.file) {
            (Some((bytes, stamp)), file) if file.is_none_or(|file| file == stamp.inode) => {
                self.read += bytes.len() as u64;
                self.file = Some(stamp.inode);
                self.rest.extend(bytes);
            }
            // The log was rotated: read the rest of the old file, then the new one from its beginning.
            (_, Some(file)) => {
                if let Some((bytes, stamp)) = folder.read_from(&self.names.before, self.read)?
                    && stamp.inode == file
                {
                    self.rest.extend(bytes);
                }
                self.file = None;
                self.read = 0;
            }
            (_, None) => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use teamster_fs::Durability;

    use super::*;

    #[test]
    fn no_line_is_lost_when_the_log_is_put_aside() {
        let root = teamster_testkit::scratch::Scratch::new("tail");
        let dir = Dir::open_root(root.path()).unwrap().unwrap();
        let names = LogFileNames::of(&"1".parse().unwrap());
        let (now, before) = (names.now.clone(), names.before.clone());
        let add = |text: &str| dir.append(&now, text.as_bytes(), Durability::Fast).unwrap();
        let mut tail = LogTail::new(names);
        assert!(tail.lines(&dir).unwrap().is_empty());
        add("a\nb");
        assert_eq!(tail.lines(&dir).unwrap(), ["a"]);
        assert_eq!(tail.unfinished().unwrap(), "b");
        add("c\nd\n");
        dir.rename(&now, &dir, &before).unwrap();
        // The new file is immediately longer than what was read of the old one.
        add("e, which is a long line\n");
        let mut lines = tail.lines(&dir).unwrap();
        lines.extend(tail.lines(&dir).unwrap());
        assert_eq!(lines, ["bc", "d", "e, which is a long line"]);
        assert!(tail.lines(&dir).unwrap().is_empty());
        let all = LogTail::new(tail.names.clone()).lines(&dir).unwrap();
        assert_eq!(all, ["a", "bc", "d", "e, which is a long line"]);
    }
}

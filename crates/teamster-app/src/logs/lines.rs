//! Logs line by line, read while they are written: they may be put aside at any moment, and no line is shown twice or never.

use teamster_fs::{Dir, FsError, layout};
use teamster_types::TaskId;

use super::{folder, tasks};
use crate::error::Result;
use crate::workers::NamedWorker;

/// Which of a worker's logs is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerLog {
    /// What its agent sent for this task.
    Task(TaskId),
    /// What its agent sent for the latest task, and then for the next.
    Latest,
    /// What its bridge printed.
    Bridge,
}

/// The lines of a worker's log, each as it was written.
#[derive(Debug)]
pub struct LogLines {
    named: NamedWorker,
    source: WorkerLog,
    last: Option<usize>,
    follow: bool,
    /// A task that is tried again is gone on with where it was left.
    tails: Vec<LogTail>,
}

impl LogLines {
    /// Reads a log from its beginning, or only its `last` lines. With `follow` more is expected, so that a line without an
    /// end waits for it.
    pub fn new(named: NamedWorker, source: WorkerLog, last: Option<usize>, follow: bool) -> Self {
        Self {
            named,
            source,
            last,
            follow,
            tails: Vec::new(),
        }
    }

    /// Returns whether there is a log.
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
            WorkerLog::Bridge => Some(Names::bridge()),
            WorkerLog::Task(task) => Some(Names::of(task)),
            WorkerLog::Latest => tasks(&folder)?.first().map(Names::of),
        };
        // What is left of the last one comes before the first of the next.
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
struct Names {
    now: String,
    /// What was put aside.
    before: String,
}

impl Names {
    /// What the agent of a task sent.
    fn of(task: &TaskId) -> Self {
        Self {
            now: layout::task_log(task),
            before: layout::old_task_log(task),
        }
    }

    /// What the bridge printed.
    fn bridge() -> Self {
        Self {
            now: layout::BRIDGE_LOG.to_owned(),
            before: layout::OLD_BRIDGE_LOG.to_owned(),
        }
    }
}

/// How far a log was read.
#[derive(Debug)]
struct LogTail {
    names: Names,
    /// The file that is being read, by its inode, because its name changes.
    file: Option<u64>,
    read: u64,
    has_begun: bool,
    rest: Vec<u8>,
}

impl LogTail {
    fn new(names: Names) -> Self {
        Self {
            names,
            file: None,
            read: 0,
            has_begun: false,
            rest: Vec::new(),
        }
    }

    /// The whole lines that were not read yet.
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

    /// A last line without an end.
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
                // Put aside between the two: begin again with what is aside now.
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
            // It was put aside: its end is there, and the next one begins at its beginning.
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
    use teamster_fs::Sync;

    use super::*;

    #[test]
    fn no_line_is_lost_when_the_log_is_put_aside() {
        let root = teamster_testkit::scratch::Scratch::new("tail");
        let dir = Dir::open_root(root.path()).unwrap().unwrap();
        let names = Names::of(&"1".parse().unwrap());
        let (now, before) = (names.now.clone(), names.before.clone());
        let add = |text: &str| dir.append(&now, text.as_bytes(), Sync::Fast).unwrap();
        let mut tail = LogTail::new(names);
        assert!(tail.lines(&dir).unwrap().is_empty());
        add("a\nb");
        assert_eq!(tail.lines(&dir).unwrap(), ["a"]);
        assert_eq!(tail.unfinished().unwrap(), "b");
        add("c\nd\n");
        dir.rename(&now, &dir, &before).unwrap();
        // Longer at once than what was read of the last one.
        add("e, which is a long line\n");
        let mut lines = tail.lines(&dir).unwrap();
        lines.extend(tail.lines(&dir).unwrap());
        assert_eq!(lines, ["bc", "d", "e, which is a long line"]);
        assert!(tail.lines(&dir).unwrap().is_empty());
        let all = LogTail::new(tail.names.clone()).lines(&dir).unwrap();
        assert_eq!(all, ["a", "bc", "d", "e, which is a long line"]);
    }
}

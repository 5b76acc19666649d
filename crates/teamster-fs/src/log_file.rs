//! A log file with a size limit.

use std::sync::{Mutex, PoisonError};

use crate::{Dir, Durability, FsError};

/// A log that is written line by line. Once it has reached its limit it is rotated, replacing the previous part. If
/// that fails, nothing more is written.
#[derive(Debug)]
pub struct LogFile {
    dir: Dir,
    name: String,
    old: String,
    limit: u64,
    /// Held while a line is written, so that two threads do not both rotate the file.
    writing: Mutex<()>,
}

impl LogFile {
    /// Returns the log `name` in a folder, whose previous part is kept as `old`.
    pub fn new(dir: Dir, name: &str, old: &str, limit: u64) -> Self {
        Self {
            dir,
            name: name.to_owned(),
            old: old.to_owned(),
            limit,
            writing: Mutex::new(()),
        }
    }

    /// Appends a line, including its newline, in one write.
    pub fn append(&self, line: &[u8]) -> Result<(), FsError> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let size = self.dir.stamp(&self.name)?.map_or(0, |stamp| stamp.size);
        if size >= self.limit {
            self.dir.rename(&self.name, &self.dir, &self.old)?;
        }
        self.dir.append(&self.name, line, Durability::Fast)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_at_its_limit_begins_anew_and_keeps_the_part_before() {
        let root = std::env::temp_dir().join(format!("log-{}", crate::random_hex()));
        let dir = Dir::open_or_create_root(&root).unwrap();
        let again = Dir::open_or_create_root(&root).unwrap();
        let log = LogFile::new(again, "host.log", "host.old.log", 20);
        for number in 1..=5 {
            log.append(format!("line {number}\n").as_bytes()).unwrap();
        }
        let read = |name: &str| {
            let (bytes, _) = dir.read(name).unwrap().unwrap();
            String::from_utf8(bytes).unwrap()
        };
        assert_eq!(read("host.old.log"), "line 1\nline 2\nline 3\n");
        assert_eq!(read("host.log"), "line 4\nline 5\n");
        // If the previous part cannot be replaced, the log stays as it is.
        std::fs::remove_file(root.join("host.old.log")).unwrap();
        std::fs::create_dir_all(root.join("host.old.log/in-the-way")).unwrap();
        for _ in 0..5 {
            let _ = log.append(b"more\n");
        }
        assert!(log.append(b"more\n").is_err());
        assert_eq!(read("host.log").len(), 24);
        std::fs::remove_dir_all(root).unwrap();
    }
}

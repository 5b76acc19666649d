//! A log file that does not grow without end.

use crate::{Dir, FsError, Sync};

/// A file that is written to line by line. Once it has reached its limit it is renamed, in place of the part that was
/// renamed before, and begun anew.
#[derive(Debug)]
pub struct LogFile {
    dir: Dir,
    name: String,
    old: String,
    limit: u64,
}

impl LogFile {
    /// Returns the log `name` in a folder. The part before the present one is kept as `old`.
    pub fn new(dir: Dir, name: &str, old: &str, limit: u64) -> Self {
        Self {
            dir,
            name: name.to_owned(),
            old: old.to_owned(),
            limit,
        }
    }

    /// Returns where the log lies.
    pub fn path(&self) -> std::path::PathBuf {
        self.dir.join(&self.name)
    }

    /// Appends a line, with its end, in one write.
    pub fn append(&self, line: &[u8]) -> Result<(), FsError> {
        let before = self.dir.append(&self.name, line, Sync::Fast)?;
        if before.saturating_add(line.len() as u64) >= self.limit {
            self.dir.rename(&self.name, &self.dir, &self.old)?;
        }
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
        std::fs::remove_dir_all(root).unwrap();
    }
}

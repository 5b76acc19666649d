//! A file that teamster appends to while another program reads it, and that shows whether it was read.

use std::path::PathBuf;

use rustix::fs::{OFlags, Stat, Timespec, Timestamps, UTIME_OMIT};

use crate::dir::{Dir, Durability, retry};
use crate::error::FsError;

/// A file that lines are appended to for another program.
///
/// The file's access time shows whether the program has read them: it is set back before each append, and the kernel
/// updates it at the next read. A program that truncates or removes the file has read it, too. Where the kernel keeps
/// no access times (`noatime`) and the file stays, no line ever counts as read.
#[derive(Debug)]
pub struct InboxFile {
    dir: Dir,
    name: String,
    /// The size of the file and its time of modification after the last append.
    written: (i64, (i64, u64)),
}

impl InboxFile {
    /// Creates the file, empty and accessible to its owner only, replacing an older one.
    pub fn create(dir: Dir, name: &str) -> Result<Self, FsError> {
        dir.remove(name)?;
        dir.create_new(name, b"", Durability::Fast)?;
        Ok(Self {
            dir,
            name: name.to_owned(),
            written: (0, (0, 0)),
        })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> PathBuf {
        self.dir.join(&self.name)
    }

    /// Appends a line, which resets the read status.
    pub fn append(&mut self, line: &[u8]) -> Result<(), FsError> {
        let file = self.dir.open_append(&self.name)?;
        let times = Timestamps {
            last_access: Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            },
            last_modification: Timespec {
                tv_sec: 0,
                tv_nsec: UTIME_OMIT,
            },
        };
        retry(|| rustix::fs::futimens(&file, &times))
            .map_err(|error| FsError::io("touch", &self.path(), error))?;
        self.dir.append(&self.name, line, Durability::Fast)?;
        if let Some(stat) = self.stat()? {
            self.written = (stat.st_size, (stat.st_mtime, stat.st_mtime_nsec));
        }
        Ok(())
    }

    /// Returns whether the file was read since the last line was appended.
    pub fn was_read(&self) -> Result<bool, FsError> {
        let (size, modified) = self.written;
        Ok(self.stat()?.is_none_or(|stat| {
            stat.st_size < size || (stat.st_atime, stat.st_atime_nsec) >= modified
        }))
    }

    fn stat(&self) -> Result<Option<Stat>, FsError> {
        let Some((fd, _)) = self.dir.open_plain("look at", &self.name, OFlags::RDONLY)? else {
            return Ok(None);
        };
        let stat = retry(|| rustix::fs::fstat(&fd))
            .map_err(|error| FsError::io("look at", &self.path(), error))?;
        Ok(Some(stat))
    }
}

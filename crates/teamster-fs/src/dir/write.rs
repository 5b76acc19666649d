//! The operations that change files of a folder; each either takes effect as a whole or changes nothing.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::{Dir, Durability, FileKind, retry, step};
use crate::error::{FsError, OrTrace as _};
use crate::fail;

impl Dir {
    /// Creates a file that must not exist yet (`O_EXCL`, 0600) with this content, and returns false when the name is
    /// taken.
    pub fn create_new(&self, name: &str, bytes: &[u8], sync: Durability) -> Result<bool, FsError> {
        self.create_new_with_mode(name, bytes, sync, Mode::RUSR | Mode::WUSR)
    }

    /// Creates a file like [`Self::create_new`] with another mode, restricted by the umask.
    pub(crate) fn create_new_with_mode(
        &self,
        name: &str,
        bytes: &[u8],
        sync: Durability,
        mode: Mode,
    ) -> Result<bool, FsError> {
        let path = self.checked("create", name)?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = match retry(|| rustix::fs::openat(&self.fd, name, flags, mode)) {
            Ok(fd) => fd,
            Err(Errno::EXIST) => return Ok(false),
            Err(error) => return Err(FsError::io("create", &path, error)),
        };
        let written = write_once(&fd, bytes, &path).and_then(|()| match sync {
            Durability::Durable => sync_fd(&fd, &path),
            Durability::Fast => Ok(()),
        });
        if let Err(error) = written {
            // A partial file must not stay under a name that other processes wait for.
            self.remove(name).or_trace("remove a partial file");
            return Err(error);
        }
        Ok(true)
    }

    /// Replaces a file atomically: readers see the old content or the new one. A symbolic link in its place is refused.
    pub fn replace(&self, name: &str, bytes: &[u8], sync: Durability) -> Result<(), FsError> {
        let path = self.checked("write", name)?;
        if let Some(stamp) = self.stamp(name)?
            && stamp.kind != FileKind::File
        {
            return Err(FsError::new("write", &path, self.wrong(name, "plain file")));
        }
        let temp = self.create_temp(name, bytes, sync)?;
        if let Err(error) = self.rename(&temp, self, name) {
            self.remove(&temp).or_trace("remove a temporary file");
            return Err(error);
        }
        if sync == Durability::Durable {
            self.sync()?;
        }
        Ok(())
    }

    /// Creates a file that will be renamed to `name`, and returns its own name.
    fn create_temp(&self, name: &str, bytes: &[u8], sync: Durability) -> Result<String, FsError> {
        let new_name = || {
            let (pid, unique) = (std::process::id(), crate::unique_name());
            format!(".{name}.{pid}.{unique}.tmp")
        };
        let mut temp = new_name();
        while !self.create_new(&temp, bytes, sync)? {
            temp = new_name();
        }
        Ok(temp)
    }

    /// Renames within one file system, replacing an existing entry of the new name.
    pub fn rename(&self, name: &str, into: &Dir, new: &str) -> Result<(), FsError> {
        let path = self.checked("rename", name)?;
        into.checked("rename", new)?;
        retry(|| rustix::fs::renameat(&self.fd, name, &into.fd, new))
            .map_err(|error| FsError::io("rename", &path, error))
    }

    /// Renames only if the new name is free; returns false when it is taken.
    pub fn rename_new(&self, name: &str, into: &Dir, new: &str) -> Result<bool, FsError> {
        let path = self.checked("rename", name)?;
        into.checked("rename", new)?;
        match retry(|| {
            rustix::fs::renameat_with(&self.fd, name, &into.fd, new, RenameFlags::NOREPLACE)
        }) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST | Errno::NOTEMPTY) => Ok(false),
            Err(error) => Err(FsError::io("rename", &path, error)),
        }
    }

    /// Appends bytes with one `write` and returns the previous size of the file.
    ///
    /// A partial write is undone, so that a full disk leaves no torn line.
    pub fn append(&self, name: &str, bytes: &[u8], sync: Durability) -> Result<u64, FsError> {
        let path = self.checked("append to", name)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND;
        let Some((fd, stamp)) = self.open_plain("append to", name, flags)? else {
            return Err(FsError::io("append to", &path, Errno::NOENT));
        };
        let written = write_once(&fd, bytes, &path).and_then(|()| match sync {
            Durability::Durable => sync_fd(&fd, &path),
            Durability::Fast => Ok(()),
        });
        if let Err(error) = written {
            if step("cut", &path).is_ok() {
                retry(|| rustix::fs::ftruncate(&fd, stamp.size)).or_trace("remove a partial line");
            }
            return Err(error);
        }
        Ok(stamp.size)
    }

    /// Opens a file for appending, for another program's output.
    pub fn open_append(&self, name: &str) -> Result<std::fs::File, FsError> {
        let path = self.checked("append to", name)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND;
        match self.open_plain("append to", name, flags)? {
            Some((fd, _)) => Ok(std::fs::File::from(fd)),
            None => Err(FsError::io("append to", &path, Errno::NOENT)),
        }
    }

    /// Truncates a file to `size` bytes.
    pub fn truncate(&self, name: &str, size: u64) -> Result<(), FsError> {
        let path = self.checked("cut", name)?;
        let Some((fd, _)) = self.open_plain("cut", name, OFlags::WRONLY)? else {
            return Ok(());
        };
        retry(|| rustix::fs::ftruncate(&fd, size)).map_err(|error| FsError::io("cut", &path, error))
    }

    /// Flushes the folder's entries to disk.
    pub fn sync(&self) -> Result<(), FsError> {
        step("sync", &self.path)?;
        retry(|| rustix::fs::fsync(&self.fd))
            .map_err(|error| FsError::io("sync", &self.path, error))
    }
}

impl Dir {
    /// Flushes the whole file system of this folder at once, which is cheaper than a flush for each of many new files.
    pub fn sync_disk(&self) -> Result<(), FsError> {
        step("sync", &self.path)?;
        #[cfg(target_os = "linux")]
        retry(|| rustix::fs::syncfs(&self.fd))
            .map_err(|error| FsError::io("sync", &self.path, error))?;
        #[cfg(not(target_os = "linux"))]
        rustix::fs::sync();
        Ok(())
    }
}

/// Symbolic links and permissions.
impl Dir {
    /// Creates a symbolic link to `target`, which belongs to the user, and returns false when the name is taken.
    pub fn make_link(&self, name: &str, target: &Path) -> Result<bool, FsError> {
        if self.stamp(name)?.is_some() {
            return Ok(false);
        }
        match retry(|| rustix::fs::symlinkat(target, self.fd(), name)) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(error) => Err(FsError::io("link", &self.join(name), error)),
        }
    }

    /// Removes all permissions on the folder for everybody but its owner.
    pub fn make_private(&self) -> Result<(), FsError> {
        retry(|| rustix::fs::fchmod(self.fd(), rustix::fs::Mode::RWXU))
            .map_err(|error| FsError::io("make private", self.path(), error))
    }
}

/// Writes everything with one `write`. A partial write is an error: on a local disk it means that the disk is full.
fn write_once(fd: &OwnedFd, bytes: &[u8], path: &Path) -> Result<(), FsError> {
    step("write", path)?;
    if let Some(part) = fail::torn(bytes.len()) {
        let _ = rustix::io::write(fd, &bytes[..part]);
        return step("write", path);
    }
    match retry(|| rustix::io::write(fd, bytes)) {
        Ok(count) if count == bytes.len() => Ok(()),
        Ok(_) => Err(FsError::io(
            "write",
            path,
            io::Error::from(io::ErrorKind::StorageFull),
        )),
        Err(error) => Err(FsError::io("write", path, error)),
    }
}

fn sync_fd(fd: &OwnedFd, path: &Path) -> Result<(), FsError> {
    step("sync", path)?;
    retry(|| rustix::fs::fdatasync(fd)).map_err(|error| FsError::io("sync", path, error))
}

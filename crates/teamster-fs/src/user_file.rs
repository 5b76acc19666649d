//! A file that belongs to the user and that other programs write too: the client's settings, a `.gitignore`.
//!
//! It differs from teamster's own files in three ways. A symbolic link in its place is the user's own and is resolved
//! once, when the file is found; writes always go to the real file. Its mode and its owner are kept. And since its
//! other writers know nothing of teamster's locks, it is replaced only if it has not changed since it was read.
//!
//! teamster processes exclude each other by locking the folder that contains the file: that needs no lock file, so
//! nothing is left behind in a folder of the user's.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Gid, Mode, OFlags, Uid, flock};
use rustix::io::Errno;

use crate::dir::{Dir, Durability, FileKind, Stamp, retry};
use crate::error::{FsError, FsProblem};
use crate::layout::is_temp_of;

const PAUSE: Duration = Duration::from_millis(2);
/// The write permission bits.
const WRITABLE: u32 = 0o222;
const PERMISSIONS: u32 = 0o7777;

/// The owner of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOwner {
    /// The caller owns it.
    Me,
    /// Another user owns it, with this id.
    Other(u32),
}

/// The state of a file when it was read.
#[derive(Clone, Debug)]
pub struct FileSnapshot {
    /// The content.
    pub bytes: Vec<u8>,
    /// The owner.
    pub owner: FileOwner,
    stamp: Stamp,
    mode: u32,
    uid: u32,
    gid: u32,
}

impl FileSnapshot {
    /// Returns whether the caller can replace the file without changing its owner.
    pub fn can_keep_owner(&self) -> bool {
        self.owner == FileOwner::Me || rustix::process::geteuid().is_root()
    }

    /// Returns whether anybody but its owner may read or write the file.
    pub fn is_open_to_others(&self) -> bool {
        self.mode & 0o077 != 0
    }

    /// Returns whether nobody may write the file: it is meant to stay as it is, although a rename would replace it.
    pub fn is_read_only(&self) -> bool {
        self.mode & WRITABLE == 0
    }
}

/// A file of the user's, which may be missing. Its folder exists.
#[derive(Debug)]
pub struct UserFile {
    dir: Dir,
    name: String,
    is_link: bool,
}

/// A locked folder, unlocked on drop.
#[derive(Debug)]
pub struct FolderLock<'a> {
    dir: &'a Dir,
}

impl Drop for FolderLock<'_> {
    fn drop(&mut self) {
        let _ = flock(self.dir.fd(), FlockOperation::Unlock);
    }
}

impl UserFile {
    /// Finds the real file behind `path`; `None` when its folder is missing. A dangling link is an error: it is up to
    /// the owner where the file should be created.
    pub fn find(path: &Path) -> Result<Option<Self>, FsError> {
        let is_link = match std::fs::symlink_metadata(path) {
            Ok(there) => there.is_symlink(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
            Err(error) => return Err(FsError::io("look at", path, error)),
        };
        let real = if is_link {
            path.canonicalize()
                .map_err(|error| FsError::io("follow the link", path, error))?
        } else {
            path.to_owned()
        };
        let unnamed = || FsError::new("open", path, FsProblem::Name);
        let folder = real.parent().ok_or_else(unnamed)?;
        let name = real.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(unnamed)?.to_owned();
        Ok(Dir::open_root(folder)?.map(|dir| Self { dir, name, is_link }))
    }

    /// Returns the path of the real file.
    pub fn path(&self) -> PathBuf {
        self.dir.join(&self.name)
    }

    /// Returns whether the path was a symbolic link.
    pub fn is_link(&self) -> bool {
        self.is_link
    }

    /// Excludes other teamster processes; `None` when one of them held the lock until the timeout. Where folders cannot
    /// be locked (some network file systems), the comparison in [`Self::replace`] is the only protection.
    pub fn lock(&self, patience: Duration) -> Result<Option<FolderLock<'_>>, FsError> {
        self.dir.lock_folder(patience)
    }

    /// Returns the content, owner and stamp of the file; `None` when it is missing.
    pub fn read(&self) -> Result<Option<FileSnapshot>, FsError> {
        let Some((bytes, stamp)) = self.dir.read(&self.name)? else {
            return Ok(None);
        };
        let Some((fd, now)) = self
            .dir
            .open_plain("read", &self.name, OFlags::RDONLY)?
            .filter(|(_, now)| *now == stamp)
        else {
            // The file was replaced during the read; read the new one.
            return self.read();
        };
        let stat = retry(|| rustix::fs::fstat(&fd))
            .map_err(|error| FsError::io("look at", &self.path(), error))?;
        let me = rustix::process::geteuid().as_raw();
        Ok(Some(FileSnapshot {
            bytes,
            owner: if stat.st_uid == me {
                FileOwner::Me
            } else {
                FileOwner::Other(stat.st_uid)
            },
            stamp: now,
            mode: stat.st_mode & PERMISSIONS,
            uid: stat.st_uid,
            gid: stat.st_gid,
        }))
    }

    /// Replaces the file atomically if it is unchanged since `was`. A new file gets `mode`, restricted by the umask.
    /// Returns false, without any change, when another program has written it meanwhile.
    pub fn replace(
        &self,
        was: Option<&FileSnapshot>,
        bytes: &[u8],
        mode: u32,
    ) -> Result<bool, FsError> {
        let temp = temp_name(&self.name);
        let renamed = self.make(&temp, bytes, was, mode).and_then(|()| {
            if self.is_still(was)? {
                match was {
                    Some(_) => self.dir.rename(&temp, &self.dir, &self.name).map(|()| true),
                    None => self.dir.rename_new(&temp, &self.dir, &self.name),
                }
            } else {
                Ok(false)
            }
        });
        if !matches!(renamed, Ok(true)) {
            let _ = self.dir.remove(&temp);
            return renamed;
        }
        self.dir.sync()?;
        Ok(true)
    }

    /// Removes the file if it is unchanged since `was`.
    pub fn remove(&self, was: &FileSnapshot) -> Result<bool, FsError> {
        if !self.is_still(Some(was))? {
            return Ok(false);
        }
        self.dir.remove(&self.name)?;
        self.dir.sync()?;
        Ok(true)
    }

    /// Removes temp files that killed teamster processes left beside the file. The folder must be locked: every writer
    /// holds the lock.
    pub fn sweep(&self) -> Result<(), FsError> {
        for entry in self.dir.entries()? {
            if is_temp_of(&entry.name, &self.name) {
                self.dir.remove(&entry.name)?;
            }
        }
        Ok(())
    }

    fn is_still(&self, was: Option<&FileSnapshot>) -> Result<bool, FsError> {
        let now = self.dir.stamp(&self.name)?;
        Ok(now == was.map(|was| was.stamp))
    }

    fn make(
        &self,
        temp: &str,
        bytes: &[u8],
        was: Option<&FileSnapshot>,
        mode: u32,
    ) -> Result<(), FsError> {
        create_with_mode(&self.dir, temp, bytes, mode)?;
        let Some(was) = was else {
            return Ok(());
        };
        let path = self.dir.join(temp);
        let failed = |error: Errno| FsError::io("copy its permissions to", &path, error);
        let Some((fd, _)) = self.dir.open_plain("open", temp, OFlags::RDONLY)? else {
            return Err(failed(Errno::NOENT));
        };
        let stat = retry(|| rustix::fs::fstat(&fd)).map_err(failed)?;
        if (stat.st_uid, stat.st_gid) != (was.uid, was.gid) {
            let owner = (stat.st_uid != was.uid).then(|| Uid::from_raw(was.uid));
            // The caller may not be allowed to set the group; the file still belongs to the user.
            let changed = retry(|| rustix::fs::fchown(&fd, owner, Some(Gid::from_raw(was.gid))));
            if owner.is_some() {
                changed.map_err(failed)?;
            }
        }
        // The mode is set after the owner, because a change of owner clears some mode bits.
        retry(|| rustix::fs::fchmod(&fd, Mode::from_raw_mode(was.mode))).map_err(failed)
    }
}

fn temp_name(name: &str) -> String {
    format!(".{name}.{}.{}.tmp", std::process::id(), crate::random_hex())
}

fn create_with_mode(dir: &Dir, name: &str, bytes: &[u8], mode: u32) -> Result<(), FsError> {
    if !dir.create_new_with_mode(name, bytes, Durability::Durable, Mode::from_raw_mode(mode))? {
        return Err(FsError::io("create", &dir.join(name), Errno::EXIST));
    }
    Ok(())
}

/// Writing files that others may read: a plugin, a project's settings.
impl Dir {
    /// Locks the folder itself against other teamster processes; `None` when one of them held it until the timeout.
    /// Where folders cannot be locked (some network file systems), no process is excluded.
    pub fn lock_folder(&self, patience: Duration) -> Result<Option<FolderLock<'_>>, FsError> {
        let start = Instant::now();
        loop {
            match retry(|| flock(self.fd(), FlockOperation::NonBlockingLockExclusive)) {
                Ok(()) | Err(Errno::BADF | Errno::NOTSUP | Errno::INVAL | Errno::NOLCK) => {
                    return Ok(Some(FolderLock { dir: self }));
                }
                Err(Errno::WOULDBLOCK) if start.elapsed() < patience => std::thread::sleep(PAUSE),
                Err(Errno::WOULDBLOCK) => return Ok(None),
                Err(error) => return Err(FsError::io("lock", self.path(), error)),
            }
        }
    }

    /// Opens the subfolder `name`, creating it if it is missing, with permissions for others as far as the umask
    /// allows.
    pub fn shared_child_or_create(&self, name: &str) -> Result<Self, FsError> {
        if let Some(dir) = self.child(name)? {
            return Ok(dir);
        }
        let path = self.join(name);
        let mode = Mode::from_raw_mode(0o777);
        match retry(|| rustix::fs::mkdirat(self.fd(), name, mode)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(FsError::io("create", &path, error)),
        }
        self.child(name)?
            .ok_or_else(|| FsError::io("open", &path, Errno::NOENT))
    }

    /// Replaces a file like [`Dir::replace`], with `mode` restricted by the umask.
    pub fn replace_shared(&self, name: &str, bytes: &[u8], mode: u32) -> Result<(), FsError> {
        if let Some(stamp) = self.stamp(name)?
            && stamp.kind != FileKind::File
        {
            let problem = FsProblem::NotA("plain file");
            return Err(FsError::new("write", &self.join(name), problem));
        }
        let temp = temp_name(name);
        create_with_mode(self, &temp, bytes, mode)?;
        let renamed = self.rename(&temp, self, name);
        if renamed.is_err() {
            let _ = self.remove(&temp);
        }
        renamed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    struct Folder(PathBuf);

    impl Folder {
        fn new() -> Self {
            let name = format!("teamster-user-file-{}", crate::random_hex());
            let path = std::env::temp_dir().join(name);
            std::fs::create_dir(&path).unwrap();
            Self(path)
        }

        fn file(&self, name: &str) -> UserFile {
            UserFile::find(&self.0.join(name)).unwrap().unwrap()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_somebody_else_wrote_meanwhile_is_not_replaced() {
        let folder = Folder::new();
        let (path, file) = (folder.0.join("f"), folder.file("f"));
        assert!(file.replace(None, b"1", 0o600).unwrap());
        let was = file.read().unwrap();
        assert!(!file.replace(None, b"2", 0o600).unwrap(), "it is there now");
        std::fs::write(&path, "theirs").unwrap();
        assert!(!file.replace(was.as_ref(), b"3", 0o600).unwrap());
        assert!(!file.remove(&was.unwrap()).unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), b"theirs");
        let was = file.read().unwrap().unwrap();
        assert!(file.replace(Some(&was), b"4", 0o600).unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), b"4");
        assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 1);
    }

    #[test]
    fn the_mode_and_the_link_stay() {
        let folder = Folder::new();
        let (real, link) = (folder.0.join("real"), folder.0.join("link"));
        std::fs::write(&real, "1").unwrap();
        let mode = std::fs::Permissions::from_mode(0o754);
        std::fs::set_permissions(&real, mode).unwrap();
        symlink("real", &link).unwrap();
        let file = folder.file("link");
        assert!(file.is_link());
        let was = file.read().unwrap().unwrap();
        assert_eq!(was.owner, FileOwner::Me);
        assert!(file.replace(Some(&was), b"2", 0o600).unwrap());
        assert!(link.is_symlink());
        assert_eq!(std::fs::read(&real).unwrap(), b"2");
        assert_eq!(real.metadata().unwrap().permissions().mode() & 0o777, 0o754);
        symlink("nowhere", folder.0.join("dangling")).unwrap();
        assert!(UserFile::find(&folder.0.join("dangling")).is_err());
    }

    #[test]
    fn a_locked_folder_keeps_the_next_one_out_until_it_is_let_go() {
        let folder = Folder::new();
        let (one, other) = (folder.file("f"), folder.file("f"));
        let held = one.lock(Duration::ZERO).unwrap().unwrap();
        assert!(other.lock(Duration::ZERO).unwrap().is_none());
        drop(held);
        assert!(other.lock(Duration::ZERO).unwrap().is_some());
    }

    #[test]
    fn only_what_a_killed_writer_left_is_swept() {
        let folder = Folder::new();
        let nonce = crate::random_hex();
        for name in [
            format!(".f.12.{nonce}.tmp"),
            format!(".f.x.{nonce}.tmp"),
            format!(".other.f.12.{nonce}.tmp"),
            "f.tmp".to_owned(),
        ] {
            std::fs::write(folder.0.join(name), "").unwrap();
        }
        folder.file("f").sweep().unwrap();
        assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 3);
    }
}

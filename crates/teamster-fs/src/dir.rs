//! An open folder, and the operations on a single plain name in it.

mod write;

use std::ffi::{CStr, OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Timespec, Timestamps};
use rustix::io::Errno;

use crate::error::{FsError, FsProblem};
use crate::fail;

/// The size limit for reading a file: teamster writes no larger one, so a larger file is foreign and is not read into
/// memory.
const LARGEST: u64 = 128 * 1024 * 1024;

/// Whether a write must have reached the disk before it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The data is on disk before the call returns.
    Durable,
    /// The data survives a crash of the process, but not of the machine.
    Fast,
}

/// The kind of file that a name refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A plain file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// A pipe, a socket, a device.
    Other,
}

/// The metadata that distinguishes one state of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The kind of file.
    pub kind: FileKind,
    /// The inode number.
    pub inode: u64,
    /// The size in bytes.
    pub size: u64,
    /// The modification time in nanoseconds since 1970.
    pub modified: i64,
}

/// One entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The name. Names that are not UTF-8 are left out of listings, since teamster creates none; [`Dir::odd_names`]
    /// returns them.
    pub name: String,
}

/// An open folder.
#[derive(Debug)]
pub struct Dir {
    fd: OwnedFd,
    path: PathBuf,
}

const FOLDER: OFlags = OFlags::DIRECTORY
    .union(OFlags::CLOEXEC)
    .union(OFlags::RDONLY);
// Without NONBLOCK, opening a planted pipe would wait for ever.
const PLAIN: OFlags = OFlags::NOFOLLOW
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK);

impl Dir {
    /// Opens a folder that the user named. Symbolic links in the path are followed: they are the user's own.
    pub fn open_root(path: &Path) -> Result<Option<Self>, FsError> {
        step("open", path)?;
        match retry(|| rustix::fs::open(path, FOLDER, Mode::empty())) {
            Ok(fd) => Ok(Some(Self {
                fd,
                path: path.to_owned(),
            })),
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::NOTDIR) => Err(FsError::new("open", path, FsProblem::NotA("folder"))),
            Err(error) => Err(FsError::io("open", path, error)),
        }
    }

    /// Opens the folder like [`Self::open_root`], and creates it if it is missing. Its parent must exist: a missing
    /// home folder is not created.
    pub fn open_or_create_root(path: &Path) -> Result<Self, FsError> {
        if let Some(dir) = Self::open_root(path)? {
            return Ok(dir);
        }
        step("create", path)?;
        match retry(|| rustix::fs::mkdir(path, Mode::RWXU)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(FsError::io("create", path, error)),
        }
        Self::open_root(path)?.ok_or_else(|| FsError::io("open", path, Errno::NOENT))
    }

    /// Returns the path of the folder, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// Returns the path of a name in the folder, for messages and for file watchers.
    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Opens a subfolder; `None` when it does not exist.
    pub fn child(&self, name: &str) -> Result<Option<Self>, FsError> {
        let path = self.checked("open", name)?;
        match retry(|| rustix::fs::openat(&self.fd, name, FOLDER | OFlags::NOFOLLOW, Mode::empty()))
        {
            Ok(fd) => Ok(Some(Self { fd, path })),
            Err(Errno::NOENT) => Ok(None),
            // A link opened with NOFOLLOW and DIRECTORY is "not a directory" on Linux.
            Err(Errno::NOTDIR | Errno::LOOP) => {
                Err(FsError::new("open", &path, self.wrong(name, "folder")))
            }
            Err(error) => Err(FsError::io("open", &path, error)),
        }
    }

    /// Opens the folder that [`Self::descend`] finds below a folder that the user named; `None` when one of them is
    /// missing.
    pub fn open_at(root: &Path, names: &[&str]) -> Result<Option<Self>, FsError> {
        match Self::open_root(root)? {
            Some(dir) => dir.descend(names),
            None => Ok(None),
        }
    }

    /// Opens a subfolder, creating it (0700) if it is missing.
    pub fn child_or_create(&self, name: &str) -> Result<Self, FsError> {
        if let Some(dir) = self.child(name)? {
            return Ok(dir);
        }
        self.make_dir(name)?;
        let path = self.join(name);
        self.child(name)?
            .ok_or_else(|| FsError::io("open", &path, Errno::NOENT))
    }

    /// Opens the nested folder that a path of plain names leads to; `None` when one of them is missing.
    pub fn descend(&self, names: &[&str]) -> Result<Option<Self>, FsError> {
        if let Ok(found) = self.open_path(names) {
            return Ok(found);
        }
        let mut dir = self.again()?;
        for name in names {
            match dir.child(name)? {
                Some(child) => dir = child,
                None => return Ok(None),
            }
        }
        Ok(Some(dir))
    }

    /// Opens the nested folder that a path of plain names leads to, creating missing ones (0700).
    pub fn descend_or_create(&self, names: &[&str]) -> Result<Self, FsError> {
        if let Ok(Some(dir)) = self.open_path(names) {
            return Ok(dir);
        }
        let mut dir = self.again()?;
        for name in names {
            dir = dir.child_or_create(name)?;
        }
        Ok(dir)
    }

    /// Opens the nested folder with a single call, which follows no symbolic link either. An error means that the path
    /// has to be walked name by name, which also finds out what is wrong with it.
    #[cfg(target_os = "linux")]
    fn open_path(&self, names: &[&str]) -> Result<Option<Self>, FsError> {
        use rustix::fs::{ResolveFlags, openat2};
        let relative = names.join("/");
        let path = self.path.join(&relative);
        if names.is_empty() || !names.iter().all(|name| is_plain(name)) {
            return Err(FsError::new("open", &path, FsProblem::Name));
        }
        step("open", &path)?;
        let flags = FOLDER | OFlags::NOFOLLOW;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        match retry(|| openat2(&self.fd, &relative, flags, Mode::empty(), resolve)) {
            Ok(fd) => Ok(Some(Self { fd, path })),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(FsError::io("open", &path, error)),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn open_path(&self, _names: &[&str]) -> Result<Option<Self>, FsError> {
        Err(FsError::io("open", &self.path, Errno::NOSYS))
    }

    fn again(&self) -> Result<Self, FsError> {
        let fd = self.fd.try_clone();
        let fd = fd.map_err(|error| FsError::io("open", &self.path, error))?;
        let path = self.path.clone();
        Ok(Self { fd, path })
    }

    /// Creates a subfolder (0700), and returns false when the name is taken.
    pub fn make_dir(&self, name: &str) -> Result<bool, FsError> {
        let path = self.checked("create", name)?;
        match retry(|| rustix::fs::mkdirat(&self.fd, name, Mode::RWXU)) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(error) => Err(FsError::io("create", &path, error)),
        }
    }

    /// Removes an empty subfolder, and returns false when there is none.
    pub fn remove_dir(&self, name: &str) -> Result<bool, FsError> {
        self.unlink(name, AtFlags::REMOVEDIR)
    }

    /// Removes a file or a symbolic link (never its target), and returns false when there is none.
    pub fn remove(&self, name: &str) -> Result<bool, FsError> {
        self.unlink(name, AtFlags::empty())
    }

    fn unlink(&self, name: &str, flags: AtFlags) -> Result<bool, FsError> {
        let path = self.checked("remove", name)?;
        match retry(|| rustix::fs::unlinkat(&self.fd, name, flags)) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(FsError::io("remove", &path, error)),
        }
    }

    /// Returns the stamp of a name without following a symbolic link.
    pub fn stamp(&self, name: &str) -> Result<Option<Stamp>, FsError> {
        let path = self.checked("look at", name)?;
        match retry(|| rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)) {
            Ok(stat) => Ok(Some(stamp_of(&stat))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(FsError::io("look at", &path, error)),
        }
    }

    /// Returns the stamp of the folder itself.
    pub fn own_stamp(&self) -> Result<Stamp, FsError> {
        step("look at", &self.path)?;
        let stat = retry(|| rustix::fs::fstat(&self.fd))
            .map_err(|error| FsError::io("look at", &self.path, error))?;
        Ok(stamp_of(&stat))
    }

    /// Returns the whole content of a plain file with its stamp; `None` when there is no such file.
    pub fn read(&self, name: &str) -> Result<Option<(Vec<u8>, Stamp)>, FsError> {
        self.read_from(name, 0)
    }

    /// Returns the content of a plain file from byte `offset` on.
    pub fn read_from(&self, name: &str, offset: u64) -> Result<Option<(Vec<u8>, Stamp)>, FsError> {
        let path = self.checked("read", name)?;
        let Some((file, stamp)) = self.open_plain("read", name, OFlags::RDONLY)? else {
            return Ok(None);
        };
        if stamp.size.saturating_sub(offset) > LARGEST {
            return Err(FsError::new(
                "read",
                &path,
                FsProblem::TooLarge(LARGEST / 1024 / 1024),
            ));
        }
        // One byte more than expected: a short read then proves that the end of the file was reached in one call.
        let expected = usize::try_from(stamp.size.saturating_sub(offset)).unwrap_or(0);
        let mut bytes = vec![0; expected + 1];
        let mut filled = 0;
        loop {
            if filled == bytes.len() {
                bytes.resize(filled + 64 * 1024, 0);
            }
            let position = offset + filled as u64;
            match retry(|| rustix::io::pread(&file, &mut bytes[filled..], position)) {
                Ok(0) => break,
                Ok(count) => {
                    let short = filled + count < bytes.len();
                    filled += count;
                    if short {
                        break;
                    }
                }
                Err(error) => return Err(FsError::io("read", &path, error)),
            }
        }
        bytes.truncate(filled);
        Ok(Some((bytes, stamp)))
    }

    /// Opens a plain file, and refuses every other kind of file.
    pub(crate) fn open_plain(
        &self,
        action: &'static str,
        name: &str,
        flags: OFlags,
    ) -> Result<Option<(OwnedFd, Stamp)>, FsError> {
        let path = self.checked(action, name)?;
        let mode = Mode::RUSR | Mode::WUSR;
        let fd = match retry(|| rustix::fs::openat(&self.fd, name, flags | PLAIN, mode)) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            // A pipe without a reader (NXIO) and a folder opened for writing (ISDIR) are not plain files either.
            Err(Errno::LOOP | Errno::NXIO | Errno::ISDIR) => {
                return Err(FsError::new(action, &path, self.wrong(name, "plain file")));
            }
            Err(error) => return Err(FsError::io(action, &path, error)),
        };
        let stat =
            retry(|| rustix::fs::fstat(&fd)).map_err(|error| FsError::io(action, &path, error))?;
        let stamp = stamp_of(&stat);
        if stamp.kind == FileKind::File {
            Ok(Some((fd, stamp)))
        } else {
            Err(FsError::new(action, &path, FsProblem::NotA("plain file")))
        }
    }

    /// Returns every name in the folder, in no particular order.
    pub fn entries(&self) -> Result<Vec<DirEntry>, FsError> {
        let mut entries = Vec::new();
        self.each_name(|name| {
            if let Ok(name) = name.to_str()
                && name != "."
                && name != ".."
            {
                entries.push(DirEntry {
                    name: name.to_owned(),
                });
            }
        })?;
        Ok(entries)
    }

    /// Returns the names in the folder that are not UTF-8, sorted. teamster creates none, but a user may want to know
    /// of them.
    pub fn odd_names(&self) -> Result<Vec<OsString>, FsError> {
        let mut names = Vec::new();
        self.each_name(|name| {
            if name.to_str().is_err() {
                names.push(OsStr::from_bytes(name.to_bytes()).to_owned());
            }
        })?;
        names.sort_unstable();
        Ok(names)
    }

    fn each_name(&self, mut see: impl FnMut(&CStr)) -> Result<(), FsError> {
        step("list", &self.path)?;
        let failed = |error: Errno| FsError::io("list", &self.path, error);
        let listing = rustix::fs::Dir::read_from(&self.fd).map_err(failed)?;
        for entry in listing {
            see(entry.map_err(failed)?.file_name());
        }
        Ok(())
    }

    /// Opens a subfolder whose name is not UTF-8; `None` when it is missing or not a folder.
    pub(crate) fn odd_child(&self, name: &OsStr) -> Result<Option<Self>, FsError> {
        let path = self.path.join(name);
        step("open", &path)?;
        match retry(|| rustix::fs::openat(&self.fd, name, FOLDER | OFlags::NOFOLLOW, Mode::empty()))
        {
            Ok(fd) => Ok(Some(Self { fd, path })),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Err(error) => Err(FsError::io("open", &path, error)),
        }
    }

    /// Removes an entry whose name is not UTF-8: a file, a symbolic link, or an empty folder.
    pub(crate) fn remove_odd(&self, name: &OsStr, is_folder: bool) -> Result<(), FsError> {
        let path = self.path.join(name);
        step("remove", &path)?;
        let flags = if is_folder {
            AtFlags::REMOVEDIR
        } else {
            AtFlags::empty()
        };
        match retry(|| rustix::fs::unlinkat(&self.fd, name, flags)) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(FsError::io("remove", &path, error)),
        }
    }

    /// Reads up to `buffer.len()` bytes at `offset` of a plain file, and returns how many were read.
    pub fn read_at(
        &self,
        name: &str,
        buffer: &mut [u8],
        offset: u64,
    ) -> Result<Option<usize>, FsError> {
        let path = self.checked("read", name)?;
        let Some((fd, _)) = self.open_plain("read", name, OFlags::RDONLY)? else {
            return Ok(None);
        };
        read_full(&fd, buffer, offset, &path).map(Some)
    }

    /// Opens a file for reads and writes at offsets, creating it if it is missing.
    pub fn open_in_place(&self, name: &str) -> Result<crate::InPlaceFile, FsError> {
        let path = self.checked("open", name)?;
        let flags = OFlags::RDWR | OFlags::CREATE;
        match self.open_plain("open", name, flags)? {
            Some((fd, stamp)) => Ok(crate::InPlaceFile::new(fd, path, stamp)),
            None => Err(FsError::io("open", &path, Errno::NOENT)),
        }
    }

    /// Sets the modification time of an entry, in nanoseconds since 1970.
    pub fn set_modified(&self, name: &str, nanoseconds: i64) -> Result<(), FsError> {
        let path = self.checked("touch", name)?;
        let time = Timespec {
            tv_sec: nanoseconds.div_euclid(1_000_000_000),
            tv_nsec: nanoseconds.rem_euclid(1_000_000_000),
        };
        let times = Timestamps {
            last_access: time,
            last_modification: time,
        };
        retry(|| rustix::fs::utimensat(&self.fd, name, &times, AtFlags::SYMLINK_NOFOLLOW))
            .map_err(|error| FsError::io("touch", &path, error))
    }

    /// Returns the user who owns the folder.
    pub fn owner(&self) -> Result<u32, FsError> {
        step("look at", &self.path)?;
        let stat = retry(|| rustix::fs::fstat(&self.fd))
            .map_err(|error| FsError::io("look at", &self.path, error))?;
        Ok(stat.st_uid)
    }

    /// Returns the device that the folder is on; a removal never crosses to another device.
    pub(crate) fn device(&self) -> Result<u64, FsError> {
        let stat = retry(|| rustix::fs::fstat(&self.fd))
            .map_err(|error| FsError::io("look at", &self.path, error))?;
        Ok(stat.st_dev)
    }

    /// Makes a read-only folder writable so that its content can be removed. A failure shows up in the removal itself.
    pub(crate) fn make_writable(&self) {
        if let Ok(stat) = rustix::fs::fstat(&self.fd)
            && stat.st_mode & 0o300 != 0o300
        {
            let mode = Mode::from_raw_mode(stat.st_mode & 0o7777 | 0o700);
            let _ = rustix::fs::fchmod(&self.fd, mode);
        }
    }

    /// Returns the path of a name, and refuses a name that is not a single plain component: this keeps every path
    /// beneath its folder.
    fn checked(&self, action: &'static str, name: &str) -> Result<PathBuf, FsError> {
        let path = self.path.join(name);
        if !is_plain(name) {
            return Err(FsError::new(action, &path, FsProblem::Name));
        }
        step(action, &path)?;
        Ok(path)
    }

    fn wrong(&self, name: &str, wanted: &'static str) -> FsProblem {
        match rustix::fs::statat(self.fd.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if stamp_of(&stat).kind == FileKind::Link => FsProblem::Link,
            _ => FsProblem::NotA(wanted),
        }
    }
}

/// Returns whether a name is one plain component of a path.
fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && name != "."
        && name != ".."
        && !name.contains(['/', '\0'])
        && name.len() <= 255
}

fn step(action: &'static str, path: &Path) -> Result<(), FsError> {
    fail::step().map_err(|error| FsError::io(action, path, error))
}

pub(crate) fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

pub(crate) fn read_full(
    fd: &OwnedFd,
    buffer: &mut [u8],
    offset: u64,
    path: &Path,
) -> Result<usize, FsError> {
    let mut filled = 0;
    while filled < buffer.len() {
        match retry(|| rustix::io::pread(fd, &mut buffer[filled..], offset + filled as u64)) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) => return Err(FsError::io("read", path, error)),
        }
    }
    Ok(filled)
}

#[allow(clippy::cast_sign_loss, reason = "sizes are never negative")]
fn stamp_of(stat: &rustix::fs::Stat) -> Stamp {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Folder,
        FileType::Symlink => FileKind::Link,
        _ => FileKind::Other,
    };
    Stamp {
        kind,
        inode: stat.st_ino,
        size: stat.st_size as u64,
        modified: stat
            .st_mtime
            .saturating_mul(1_000_000_000)
            .saturating_add(i64::try_from(stat.st_mtime_nsec).unwrap_or(0)),
    }
}

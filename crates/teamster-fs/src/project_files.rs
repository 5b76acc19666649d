//! Files of a project, changed like a user's program would: default modes, no temp files, no locks.
//!
//! All paths are beneath one folder. A path consists of plain names, and no symbolic link in it is followed.

use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::dir::{Dir, FileKind, retry};
use crate::error::{FsError, FsProblem};

/// The requested mode of new files, restricted by the umask.
const FILE_MODE: Mode = Mode::from_raw_mode(0o666);
const FOLDER_MODE: Mode = Mode::from_raw_mode(0o777);

/// A folder and everything beneath it.
#[derive(Debug)]
pub struct ProjectFiles {
    root: Dir,
}

impl ProjectFiles {
    /// Opens the folder; `None` when there is none.
    pub fn open(root: &Path) -> Result<Option<Self>, FsError> {
        Ok(Dir::open_root(root)?.map(|root| Self { root }))
    }

    /// Returns a file's content; `None` when there is no such file.
    pub fn read(&self, path: &Path) -> Result<Option<Vec<u8>>, FsError> {
        let (folders, name) = self.split("read", path)?;
        match self.walk(&folders, false)? {
            Some(dir) => Ok(dir.read(name)?.map(|(bytes, _)| bytes)),
            None => Ok(None),
        }
    }

    /// Writes a file, creating missing parent folders. It is written in place: a temp file left by a killed process
    /// could end up in a commit.
    pub fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), FsError> {
        let (folders, name) = self.split("write", path)?;
        let whole = self.root.path().join(path);
        let Some(dir) = self.walk(&folders, true)? else {
            return Err(FsError::io("write", &whole, Errno::NOENT));
        };
        let flags = OFlags::WRONLY
            | OFlags::CREATE
            | OFlags::NOFOLLOW
            | OFlags::CLOEXEC
            // Opening a pipe in its place must not block.
            | OFlags::NONBLOCK;
        let failed = |error: Errno| match error {
            Errno::NXIO | Errno::ISDIR => {
                FsError::new("write", &whole, FsProblem::NotA("plain file"))
            }
            other => FsError::io("write", &whole, other),
        };
        let fd = retry(|| rustix::fs::openat(dir.fd(), name, flags, FILE_MODE)).map_err(failed)?;
        let stat = retry(|| rustix::fs::fstat(&fd)).map_err(failed)?;
        if rustix::fs::FileType::from_raw_mode(stat.st_mode) != rustix::fs::FileType::RegularFile {
            return Err(FsError::new("write", &whole, FsProblem::NotA("plain file")));
        }
        retry(|| rustix::fs::ftruncate(&fd, 0)).map_err(failed)?;
        let mut rest = bytes;
        while !rest.is_empty() {
            let written = retry(|| rustix::io::write(&fd, rest)).map_err(failed)?;
            rest = &rest[written..];
        }
        Ok(())
    }

    /// Removes a file, and returns false when there is none.
    pub fn remove(&self, path: &Path) -> Result<bool, FsError> {
        let (folders, name) = self.split("remove", path)?;
        match self.walk(&folders, false)? {
            Some(dir) => match dir.stamp(name)?.map(|stamp| stamp.kind) {
                Some(FileKind::Folder) => Err(FsError::new(
                    "remove",
                    &self.root.path().join(path),
                    FsProblem::NotA("plain file"),
                )),
                Some(_) => dir.remove(name),
                None => Ok(false),
            },
            None => Ok(false),
        }
    }

    /// Returns whether there is a folder of this path.
    pub fn has_folder(&self, path: &Path) -> Result<bool, FsError> {
        let (folders, name) = self.split("look at", path)?;
        let kind = match self.walk(&folders, false)? {
            Some(dir) => dir.stamp(name)?.map(|stamp| stamp.kind),
            None => None,
        };
        Ok(kind == Some(FileKind::Folder))
    }

    /// Removes an empty folder, and returns false when there is none.
    pub fn remove_empty_folder(&self, path: &Path) -> Result<bool, FsError> {
        let (folders, name) = self.split("remove", path)?;
        match self.walk(&folders, false)? {
            Some(dir) => dir.remove_dir(name),
            None => Ok(false),
        }
    }

    /// Splits a path into its folders and the last name. Paths into the repository's own `.git` are refused.
    fn split<'p>(
        &self,
        action: &'static str,
        path: &'p Path,
    ) -> Result<(Vec<&'p str>, &'p str), FsError> {
        let refused = || FsError::new(action, &self.root.path().join(path), FsProblem::Name);
        let mut names = Vec::new();
        for part in path.components() {
            match part {
                Component::CurDir => {}
                Component::Normal(name) if !name.eq_ignore_ascii_case(".git") => {
                    names.push(name.to_str().ok_or_else(refused)?);
                }
                _ => return Err(refused()),
            }
        }
        let last = names.pop().ok_or_else(refused)?;
        Ok((names, last))
    }

    fn walk(&self, folders: &[&str], create: bool) -> Result<Option<Dir>, FsError> {
        let mut path = PathBuf::from(self.root.path());
        let mut at: Option<Dir> = None;
        for name in folders {
            let here = at.as_ref().unwrap_or(&self.root);
            path.push(name);
            let mut next = here.child(name)?;
            if next.is_none() && create {
                match retry(|| rustix::fs::mkdirat(here.fd(), *name, FOLDER_MODE)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(FsError::io("create", &path, error)),
                }
                next = here.child(name)?;
            }
            match next {
                Some(dir) => at = Some(dir),
                None => return Ok(None),
            }
        }
        match at {
            Some(dir) => Ok(Some(dir)),
            None => Dir::open_root(self.root.path()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn files_are_reached_beneath_and_nowhere_else() {
        let root = std::env::temp_dir().join(format!("teamster-beneath-{}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        let tree = ProjectFiles::open(&root).unwrap().unwrap();
        tree.write(Path::new("a/b/c.txt"), b"longer").unwrap();
        tree.write(Path::new("./a/b/c.txt"), b"new").unwrap();
        assert_eq!(tree.read(Path::new("a/b/c.txt")).unwrap().unwrap(), b"new");
        let script = root.join("run.sh");
        std::fs::write(&script, "x").unwrap();
        std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
        tree.write(Path::new("run.sh"), b"y").unwrap();
        let mode = std::fs::metadata(&script).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755, "its mode stays");
        assert_eq!(std::fs::read_dir(&root).unwrap().count(), 2, "no temp file");

        symlink("/tmp", root.join("out")).unwrap();
        symlink("/etc/hostname", root.join("link")).unwrap();
        for path in [
            "out/x", "link", "../x", "/tmp/x", "a/../x", ".git/x", "", "a",
        ] {
            assert!(tree.write(Path::new(path), b"").is_err(), "{path}");
        }
        assert!(tree.remove(Path::new("link")).unwrap(), "the link itself");
        assert!(Path::new("/etc").exists());
        assert!(!tree.remove(Path::new("nothing/here")).unwrap());
        assert_eq!(tree.read(Path::new("nothing")).unwrap(), None);
        assert_eq!(
            ProjectFiles::open(&root.join("none")).unwrap().map(drop),
            None
        );
        std::fs::remove_dir_all(root).unwrap();
    }
}

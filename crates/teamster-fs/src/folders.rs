//! Whole folders: removed without following a link out of them, or copied so that changes to the copy cannot affect the
//! original.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::dir::{Dir, FileKind};
use crate::error::{FsError, FsProblem};

/// The limits of a copy.
#[derive(Clone, Copy, Debug)]
pub struct CopyLimits {
    /// The maximum number of files, folders and links.
    pub entries: u64,
    /// The maximum total size of all files, in bytes.
    pub bytes: u64,
    /// The time at which the copy is abandoned.
    pub deadline: Instant,
}

/// Copies the folder `from` to the new folder `to`, within `limits`.
///
/// Where the file system supports it, both files share their content, which takes no space. Times and modes are kept,
/// except that the owner may always write. A symbolic link stays one, with the target that `relink` returns for its
/// folder and its target. Pipes, sockets and devices are left out.
pub fn copy_folder(
    from: &Path,
    to: &Path,
    relink: &dyn Fn(&Path, PathBuf) -> PathBuf,
    limits: CopyLimits,
) -> Result<(), FsError> {
    let mut left = limits;
    let mut folders = vec![(from.to_owned(), to.to_owned())];
    make_folder(from, to)?;
    while let Some((from, to)) = folders.pop() {
        let at = |error| FsError::io("copy", &from, error);
        for entry in fs::read_dir(&from).map_err(at)? {
            let entry = entry.map_err(at)?;
            let (source, target) = (entry.path(), to.join(entry.file_name()));
            let at = |error| FsError::io("copy", &source, error);
            let about = fs::symlink_metadata(&source).map_err(at)?;
            left.take(&source, if about.is_file() { about.len() } else { 0 })?;
            if about.is_dir() {
                make_folder(&source, &target)?;
                folders.push((source, target));
            } else if about.is_symlink() {
                let leads_to = fs::read_link(&source).map_err(at)?;
                symlink(relink(&from, leads_to), &target).map_err(at)?;
            } else if about.is_file() {
                copy_file(&source, &target, &about).map_err(at)?;
            }
        }
    }
    Ok(())
}

impl CopyLimits {
    fn take(&mut self, path: &Path, bytes: u64) -> Result<(), FsError> {
        let entries = self.entries.checked_sub(1);
        let (Some(entries), Some(bytes)) = (entries, self.bytes.checked_sub(bytes)) else {
            return Err(FsError::new("copy", path, FsProblem::TooMuch));
        };
        (self.entries, self.bytes) = (entries, bytes);
        if Instant::now() >= self.deadline {
            return Err(FsError::io("copy", path, io::ErrorKind::TimedOut));
        }
        Ok(())
    }
}

fn make_folder(from: &Path, to: &Path) -> Result<(), FsError> {
    let made = fs::metadata(from).and_then(|about| {
        let mode = about.permissions().mode() & 0o777 | 0o700;
        fs::DirBuilder::new().mode(mode).create(to)
    });
    made.map_err(|error| FsError::io("copy", from, error))
}

/// Copies a file with its mode and modification time; the owner may always write to the copy.
fn copy_file(from: &Path, to: &Path, about: &fs::Metadata) -> io::Result<()> {
    fs::copy(from, to)?;
    let mode = about.permissions().mode() & 0o777 | 0o600;
    fs::set_permissions(to, fs::Permissions::from_mode(mode))?;
    File::options()
        .write(true)
        .open(to)?
        .set_modified(about.modified()?)
}

/// Removes the folder `name` in `dir` and everything beneath it. Symbolic links are removed, not followed; a file
/// system mounted inside is left alone.
pub fn remove_tree(dir: &Dir, name: &str) -> Result<(), FsError> {
    remove_tree_while(dir, name, &|| true).map(drop)
}

/// Removes the folder like [`remove_tree`] for as long as `go_on` returns true, and returns false when something is
/// left.
pub fn remove_tree_while(dir: &Dir, name: &str, go_on: &dyn Fn() -> bool) -> Result<bool, FsError> {
    let Some(folder) = dir.child(name)? else {
        return Ok(true);
    };
    if folder.device()? == dir.device()? && !clear(&folder, go_on)? {
        return Ok(false);
    }
    dir.remove_dir(name)?;
    Ok(true)
}

/// Removes everything in a folder, and returns false when `go_on` stopped it early.
fn clear(folder: &Dir, go_on: &dyn Fn() -> bool) -> Result<bool, FsError> {
    folder.make_writable();
    for entry in folder.entries()? {
        if !go_on() {
            return Ok(false);
        }
        let Some(stamp) = folder.stamp(&entry.name)? else {
            continue;
        };
        if stamp.kind != FileKind::Folder {
            folder.remove(&entry.name)?;
        } else if !remove_tree_while(folder, &entry.name, go_on)? {
            return Ok(false);
        }
    }
    // Other programs may have created anything there; an entry whose name is not UTF-8 would keep the folder for ever.
    for name in folder.odd_names()? {
        if !go_on() {
            return Ok(false);
        }
        let child = folder.odd_child(&name)?;
        if let Some(child) = &child
            && child.device()? == folder.device()?
            && !clear(child, go_on)?
        {
            return Ok(false);
        }
        folder.remove_odd(&name, child.is_some())?;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn limits(entries: u64, bytes: u64) -> CopyLimits {
        let deadline = Instant::now() + Duration::from_secs(60);
        CopyLimits {
            entries,
            bytes,
            deadline,
        }
    }

    fn folder(name: &str) -> PathBuf {
        let root =
            std::env::temp_dir().join(format!("teamster-copy-{name}-{}", crate::random_hex()));
        fs::create_dir_all(root.join("from/in")).unwrap();
        fs::write(root.join("from/in/a"), "abc").unwrap();
        root
    }

    #[test]
    fn copy_keeps_content_links_and_times_and_shares_nothing() {
        let root = folder("whole");
        let (from, to) = (root.join("from"), root.join("to"));
        symlink("in/a", from.join("near")).unwrap();
        symlink("/old/place", from.join("far")).unwrap();
        symlink("/usr/bin/env", from.join("system")).unwrap();
        let relink = |_: &Path, target: PathBuf| match target.strip_prefix("/old") {
            Ok(rest) => Path::new("/new").join(rest),
            Err(_) => target,
        };
        copy_folder(&from, &to, &relink, limits(10, 10)).unwrap();
        assert_eq!(fs::read_to_string(to.join("near")).unwrap(), "abc");
        assert_eq!(
            fs::read_link(to.join("far")).unwrap(),
            Path::new("/new/place")
        );
        assert_eq!(
            fs::read_link(to.join("system")).unwrap(),
            Path::new("/usr/bin/env")
        );
        let modified = |path: PathBuf| fs::metadata(path).unwrap().modified().unwrap();
        assert_eq!(modified(from.join("in/a")), modified(to.join("in/a")));
        fs::write(to.join("in/a"), "changed").unwrap();
        assert_eq!(fs::read_to_string(from.join("in/a")).unwrap(), "abc");
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn copy_of_too_much_is_given_up() {
        let root = folder("much");
        for (number, (entries, bytes)) in [(1, 10), (10, 2)].into_iter().enumerate() {
            let to = root.join(number.to_string());
            let error = copy_folder(&root.join("from"), &to, &|_, it| it, limits(entries, bytes));
            assert!(matches!(error.unwrap_err().problem, FsProblem::TooMuch));
        }
        fs::remove_dir_all(root).unwrap();
    }
}

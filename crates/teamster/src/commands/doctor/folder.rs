//! Checks the folder that holds the teams.

use std::path::{Path, PathBuf};
use std::time::Duration;

use teamster_fs::layout::Layout;
use teamster_fs::{Dir, Durability, FsError, Lock, LockWait, random_hex};

use super::DoctorCheck;

const NAME: &str = "teams folder";
const LOCKS: &str = "file locks";
const RENAME: &str = "rename";
const FILE_SYSTEM: &str = "file system";

/// Checks the folder and tests the operations that the store relies on, with files that are removed again. A missing
/// folder is not created.
pub(super) fn checks(layout: &Layout) -> Vec<DoctorCheck> {
    let folder = &layout.claude;
    match Dir::open_root(folder) {
        Ok(Some(dir)) => {
            let mut checks = vec![file_system(folder)];
            match test_operations(&dir) {
                Ok(tried) => {
                    checks.insert(
                        0,
                        DoctorCheck::fine(NAME, format!("{} is writable", folder.display())),
                    );
                    checks.extend(tried);
                }
                Err(error) => checks.insert(0, unusable(&error)),
            }
            checks
        }
        Ok(None) => vec![missing(folder)],
        Err(error) => vec![unusable(&error)],
    }
}

fn unusable(error: &FsError) -> DoctorCheck {
    DoctorCheck::wrong(
        NAME,
        error.to_string(),
        "check its permissions, or set TEAMSTER_CLAUDE_DIR to a writable folder",
    )
}

/// Only the last component is ever created, so the parent must exist.
fn missing(folder: &Path) -> DoctorCheck {
    let parent = folder.parent().map(PathBuf::from).unwrap_or_default();
    if parent.is_dir() {
        DoctorCheck::fine(
            NAME,
            format!(
                "{} does not exist yet; the first team creates it",
                folder.display()
            ),
        )
    } else {
        DoctorCheck::wrong(
            NAME,
            format!("{} does not exist", parent.display()),
            "check HOME, or set TEAMSTER_CLAUDE_DIR to a writable folder",
        )
    }
}

fn test_operations(dir: &Dir) -> Result<Vec<DoctorCheck>, FsError> {
    // The name has the form of the store's temporary files, so that it is cleaned up if this process dies here.
    let name = |what: &str| format!(".doctor-{what}.{}.{}.tmp", std::process::id(), random_hex());
    let (first, second) = (name("a"), name("b"));
    dir.create_new(&first, b"", Durability::Fast)?;
    let tried = try_rename(dir, &first, &second)
        .and_then(|rename| Ok(vec![rename, try_lock(dir, &second)?]));
    for left in [&first, &second] {
        let removed = dir.remove(left);
        if tried.is_ok() {
            removed?;
        }
    }
    tried
}

fn try_rename(dir: &Dir, from: &str, to: &str) -> Result<DoctorCheck, FsError> {
    dir.rename(from, dir, to)?;
    let moved = dir.stamp(from)?.is_none() && dir.stamp(to)?.is_some();
    Ok(if moved {
        DoctorCheck::fine(RENAME, "works")
    } else {
        DoctorCheck::wrong(
            RENAME,
            "a renamed file is not where it should be",
            "use a local disk",
        )
    })
}

fn try_lock(dir: &Dir, name: &str) -> Result<DoctorCheck, FsError> {
    let elsewhere = "use a local disk: set TEAMSTER_CLAUDE_DIR";
    let LockWait::Held(held) = Lock::wait(dir, name, Duration::ZERO, false)? else {
        return Ok(DoctorCheck::wrong(
            LOCKS,
            "a free lock cannot be taken",
            elsewhere,
        ));
    };
    let check = match Lock::wait(dir, name, Duration::ZERO, false)? {
        LockWait::TimedOut => DoctorCheck::fine(LOCKS, "work"),
        LockWait::Held(_) => DoctorCheck::wrong(LOCKS, "one lock can be held twice", elsewhere),
    };
    drop(held);
    Ok(check)
}

/// Locks on a network file system seem to work on one machine, so the kind of file system is more reliable than a
/// test.
fn file_system(folder: &Path) -> DoctorCheck {
    let Some(kind) = kind_of_file_system(folder) else {
        return DoctorCheck::fine(FILE_SYSTEM, "unknown").optional();
    };
    let is_remote = ["nfs", "cifs", "smb", "9p", "fuse.sshfs", "afs"]
        .iter()
        .any(|remote| kind.starts_with(remote));
    if is_remote {
        return DoctorCheck::wrong(
            FILE_SYSTEM,
            format!("{kind}, over a network"),
            "teams on a network file system are not safe; set TEAMSTER_CLAUDE_DIR to a local disk",
        );
    }
    match kind.as_str() {
        "tmpfs" | "ramfs" => {
            DoctorCheck::fine(FILE_SYSTEM, format!("{kind}: lost when the machine stops"))
        }
        _ => DoctorCheck::fine(FILE_SYSTEM, kind),
    }
}

fn kind_of_file_system(folder: &Path) -> Option<String> {
    let folder = folder.canonicalize().ok()?;
    let system = Dir::open_root(Path::new("/proc/self")).ok()??;
    let (mounts, _) = system.read("mounts").ok()??;
    String::from_utf8_lossy(&mounts)
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ').skip(1);
            let place = fields.next()?.replace("\\040", " ");
            Some((PathBuf::from(place), fields.next()?.to_owned()))
        })
        .filter(|(place, _)| folder.starts_with(place))
        // The last of the longest matches: a later mount hides an earlier one.
        .max_by_key(|(place, _)| place.as_os_str().len())
        .map(|(_, kind)| kind)
}

//! Where a path really leads, and how much free space its disk has.

use std::path::{Component, Path, PathBuf};

/// The free space below which a disk counts as full: the state of a run could no longer be recorded.
pub const LEAST_ROOM: u64 = 64 * 1024;

/// Returns the free space of the file system that a path is on; `None` when it is unknown.
pub fn free_bytes(path: &Path) -> Option<u64> {
    // A file system that reports no blocks has no meaningful answer.
    let found = rustix::fs::statvfs(path)
        .ok()
        .filter(|found| found.f_blocks > 0)?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Returns the remaining free bytes if the disk that a path is on is full; `None` otherwise.
pub fn left_on_full_disk(path: &Path) -> Option<u64> {
    free_bytes(path).filter(|free| *free < LEAST_ROOM)
}

/// Returns the path with every symbolic link resolved; its last components need not exist. Returns `None` when it
/// cannot be resolved: a dangling link, a loop, a `..` behind a missing component, a folder that may not be entered.
pub fn real_path(path: &Path) -> Option<PathBuf> {
    if let Ok(real) = path.canonicalize() {
        return Some(real);
    }
    // The entry exists but cannot be resolved. Writing to a dangling link would create a file wherever it points.
    if path.symlink_metadata().is_ok() {
        return None;
    }
    let Some(Component::Normal(name)) = path.components().next_back() else {
        return None;
    };
    Some(real_path(path.parent()?)?.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_are_followed_and_missing_ends_kept() {
        let root = std::env::temp_dir().join(format!("teamster-real-{}", std::process::id()));
        std::fs::create_dir_all(root.join("in/deep")).unwrap();
        std::fs::create_dir_all(root.join("out")).unwrap();
        let root = root.canonicalize().unwrap();
        symlink(root.join("out"), root.join("in/link")).unwrap();
        symlink(root.join("out/nothing"), root.join("in/dangling")).unwrap();
        symlink(root.join("in/loop"), root.join("in/loop")).unwrap();
        let real = |path: &str| real_path(&root.join(path));
        assert_eq!(real("in/new/er"), Some(root.join("in/new/er")));
        assert_eq!(real("in/link/new"), Some(root.join("out/new")));
        assert_eq!(real("in/deep/../x"), Some(root.join("in/x")));
        assert_eq!(real("in/link/../x"), Some(root.join("x")));
        for unclear in ["in/dangling", "in/dangling/x", "in/loop", "in/no/../x"] {
            assert_eq!(real(unclear), None, "{unclear}");
        }
        std::fs::remove_dir_all(root).unwrap();
    }
}

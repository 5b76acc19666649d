//! Removing a folder with all it holds, without ever leaving it.

use crate::dir::{Dir, FileKind};
use crate::error::FsError;

/// Removes the folder `name` in `dir` and everything beneath it. Links are removed, not followed; another device
/// mounted inside is left alone.
pub fn remove_tree(dir: &Dir, name: &str) -> Result<(), FsError> {
    remove_tree_while(dir, name, &|| true).map(drop)
}

/// The same for as long as `go_on` says so; false when something is left.
pub fn remove_tree_while(dir: &Dir, name: &str, go_on: &dyn Fn() -> bool) -> Result<bool, FsError> {
    let Some(folder) = dir.child(name)? else {
        return Ok(true);
    };
    if folder.device()? == dir.device()? {
        for entry in folder.entries()? {
            if !go_on() {
                return Ok(false);
            }
            let Some(stamp) = folder.stamp(&entry.name)? else {
                continue;
            };
            if stamp.kind != FileKind::Folder {
                folder.remove(&entry.name)?;
            } else if !remove_tree_while(&folder, &entry.name, go_on)? {
                return Ok(false);
            }
        }
    }
    dir.remove_dir(name)?;
    Ok(true)
}

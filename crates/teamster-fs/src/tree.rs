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
    if folder.device()? == dir.device()? && !clear(&folder, go_on)? {
        return Ok(false);
    }
    dir.remove_dir(name)?;
    Ok(true)
}

/// Removes everything in a folder.
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
    // Foreign programs may have put anything there; what is not UTF-8 would keep the folder for ever.
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

//! Removing a folder with all it holds, without ever leaving it.

use crate::dir::{Dir, FileKind};
use crate::error::FsError;

/// Removes the folder `name` in `dir` and everything beneath it. Links are removed, not followed; another device
/// mounted inside is left alone.
pub fn remove_tree(dir: &Dir, name: &str) -> Result<(), FsError> {
    let Some(folder) = dir.child(name)? else {
        return Ok(());
    };
    if folder.device()? == dir.device()? {
        for entry in folder.entries()? {
            match folder.stamp(&entry.name)? {
                Some(stamp) if stamp.kind == FileKind::Folder => remove_tree(&folder, &entry.name)?,
                Some(_) => {
                    folder.remove(&entry.name)?;
                }
                None => {}
            }
        }
    }
    dir.remove_dir(name)?;
    Ok(())
}

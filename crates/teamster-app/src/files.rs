//! Files that the user names.

use std::path::Path;

use teamster_fs::Dir;

use crate::app::recordable;
use crate::error::{AppError, Result};

/// Returns the content of a file. More than `limit` bytes are refused.
pub fn read_file(path: &Path, limit: usize) -> Result<Vec<u8>> {
    let bytes = read_whole(path)?;
    refuse_longer(&bytes, path, limit)?;
    Ok(bytes)
}

/// Refuses content with more than `limit` bytes.
pub fn refuse_longer(bytes: &[u8], path: &Path, limit: usize) -> Result {
    if bytes.len() > limit {
        return Err(AppError::refused(format!(
            "{} is larger than {} KiB",
            path.display(),
            limit / 1024
        ))
        .hint("keep it in the project, and name it here in a few words"));
    }
    Ok(())
}

/// Links on the way to a file that the user named are the user's own; they are resolved first.
fn read_whole(path: &Path) -> Result<Vec<u8>> {
    let missing = || {
        AppError::not_found(format!("there is no file {}", path.display()))
            .hint("paths are taken from the current folder; `-` is the standard input")
    };
    let real = path.canonicalize().map_err(|_| missing())?;
    let (Some(folder), Some(name)) = (real.parent(), real.file_name()) else {
        return Err(missing());
    };
    let dir = Dir::open_root(folder)?.ok_or_else(missing)?;
    let (bytes, _) = dir
        .read(recordable(Path::new(name), "the file")?)?
        .ok_or_else(missing)?;
    Ok(bytes)
}

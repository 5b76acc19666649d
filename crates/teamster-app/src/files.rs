//! Reads and writes files that the user names.

use std::path::Path;

use teamster_fs::{Dir, Durability, OrTrace as _};

use crate::app::recordable;
use crate::error::{AppError, ErrorKind, Result};

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
        .hint("keep it in the project, and refer to it in a short text"));
    }
    Ok(())
}

/// Reads a file. Links in a path that the user gave are the user's own, so they are resolved first.
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

/// Writes a new file that only the user may read, atomically. An existing file is not replaced.
pub fn write_new(path: &Path, bytes: &[u8]) -> Result {
    let (folder, name) = (path.parent(), path.file_name());
    let missing = || {
        AppError::not_found(format!("there is no folder for {}", path.display()))
            .hint("paths are taken from the current folder")
    };
    let name = recordable(Path::new(name.ok_or_else(missing)?), "the file")?;
    let real = folder.ok_or_else(missing)?.canonicalize();
    let dir = Dir::open_root(&real.map_err(|_| missing())?)?.ok_or_else(missing)?;
    let (pid, nonce) = (std::process::id(), teamster_fs::random_hex());
    let temp = format!(".{name}.{pid}.{nonce}.tmp");
    dir.create_new(&temp, bytes, Durability::Durable)?;
    let named = dir.rename_new(&temp, &dir, name);
    if !matches!(named, Ok(true)) {
        dir.remove(&temp).or_trace("remove a file that got no name");
    }
    if named? {
        return Ok(dir.sync()?);
    }
    Err(AppError::new(
        ErrorKind::Conflict,
        format!("{} already exists", path.display()),
    )
    .hint("choose another name, or remove it first; nothing was written"))
}

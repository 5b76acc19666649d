//! Files that the user names on the command line.

use std::io::Read;
use std::path::Path;

use teamster_fs::Dir;

use crate::context::recordable;
use crate::error::{CommandError, ErrorKind, Result};

/// The content of a file; `-` is the standard input. More than `limit` bytes are refused.
pub fn read_named(path: &Path, limit: usize) -> Result<Vec<u8>> {
    let bytes = if path == Path::new("-") {
        let mut bytes = Vec::new();
        let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
        std::io::stdin()
            .lock()
            .take(most)
            .read_to_end(&mut bytes)
            .map_err(|error| {
                CommandError::new(
                    ErrorKind::Failed,
                    format!("cannot read the standard input: {error}"),
                )
            })?;
        bytes
    } else {
        read_file(path)?
    };
    if bytes.len() > limit {
        return Err(CommandError::refused(format!(
            "{} is larger than {} KiB",
            path.display(),
            limit / 1024
        ))
        .hint("keep it in the project, and name it here in a few words"));
    }
    Ok(bytes)
}

/// Links on the way to a file that the user named are the user's own; they are resolved first.
fn read_file(path: &Path) -> Result<Vec<u8>> {
    let missing = || {
        CommandError::not_found(format!("there is no file {}", path.display()))
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

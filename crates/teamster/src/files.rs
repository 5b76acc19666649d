//! Files that the user names on the command line.

use std::io::Read;
use std::path::Path;

use teamster_app::files::{read_file, refuse_longer};

use crate::error::{AppError, ErrorKind, Result};

/// Returns the content of a file; `-` is the standard input. More than `limit` bytes are refused.
pub fn read_named(path: &Path, limit: usize) -> Result<Vec<u8>> {
    if path != Path::new("-") {
        return read_file(path, limit);
    }
    let mut bytes = Vec::new();
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    std::io::stdin()
        .lock()
        .take(most)
        .read_to_end(&mut bytes)
        .map_err(|error| {
            AppError::new(
                ErrorKind::Failed,
                format!("cannot read the standard input: {error}"),
            )
        })?;
    refuse_longer(&bytes, path, limit)?;
    Ok(bytes)
}

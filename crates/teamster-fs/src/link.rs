//! Making a symbolic link on purpose, for something that is the user's own.

use std::path::Path;

use rustix::io::Errno;

use crate::dir::{Dir, retry};
use crate::error::FsError;

impl Dir {
    /// Makes a link to `target`; false when the name is taken.
    pub fn make_link(&self, name: &str, target: &Path) -> Result<bool, FsError> {
        if self.stamp(name)?.is_some() {
            return Ok(false);
        }
        match retry(|| rustix::fs::symlinkat(target, self.fd(), name)) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(error) => Err(FsError::io("link", &self.join(name), error)),
        }
    }
}

/// Keeping a folder to its owner.
impl Dir {
    /// Takes every right to it from everybody else.
    pub fn make_private(&self) -> Result<(), FsError> {
        retry(|| rustix::fs::fchmod(self.fd(), rustix::fs::Mode::RWXU))
            .map_err(|error| FsError::io("make private", self.path(), error))
    }
}

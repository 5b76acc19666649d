//! A file that is read and written in place, at offsets: state that only the holder of a lock accesses.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use crate::dir::{Stamp, read_full, retry};
use crate::error::FsError;
use crate::fail;

/// An open file whose bytes are changed in place.
///
/// A write can be torn by a crash, so it is only for caches and marks whose owner validates them on reading.
#[derive(Debug)]
pub struct InPlaceFile {
    fd: OwnedFd,
    path: PathBuf,
    stamp: Stamp,
}

impl InPlaceFile {
    pub(crate) fn new(fd: OwnedFd, path: PathBuf, stamp: Stamp) -> Self {
        Self { fd, path, stamp }
    }

    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// Returns the stamp that the file had when it was opened.
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// Fills `buffer` from `offset` on, and returns how many bytes were read.
    pub fn read(&self, buffer: &mut [u8], offset: u64) -> Result<usize, FsError> {
        fail::step().map_err(|error| FsError::io("read", &self.path, error))?;
        read_full(&self.fd, buffer, offset, &self.path)
    }

    /// Writes all of `bytes` at `offset`.
    pub fn write(&self, bytes: &[u8], offset: u64) -> Result<(), FsError> {
        fail::step().map_err(|error| FsError::io("write", &self.path, error))?;
        let length = fail::torn_in_place(offset, bytes.len()).unwrap_or(bytes.len());
        let mut done = 0;
        while done < length {
            let position = offset + done as u64;
            match retry(|| rustix::io::pwrite(&self.fd, &bytes[done..length], position)) {
                Ok(count) => done += count,
                Err(error) => return Err(FsError::io("write", &self.path, error)),
            }
        }
        fail::step().map_err(|error| FsError::io("write", &self.path, error))
    }

    /// Truncates or extends the file to `size` bytes.
    pub fn resize(&self, size: u64) -> Result<(), FsError> {
        fail::step().map_err(|error| FsError::io("cut", &self.path, error))?;
        retry(|| rustix::fs::ftruncate(&self.fd, size))
            .map_err(|error| FsError::io("cut", &self.path, error))
    }
}

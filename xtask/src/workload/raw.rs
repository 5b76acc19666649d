//! The writes of the product without the product: the same syncs and renames, in the same order, of the same sizes.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// How data gets to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Flush {
    /// `fsync`
    All,
    /// `fdatasync`
    Data,
}

/// One step of a recipe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Step {
    /// A new file of so many bytes, brought to the disk.
    Create(usize, Flush),
    /// So many bytes more at the end of a file, brought to the disk.
    Append(usize, Flush),
    /// The names of a folder, brought to the disk.
    Names(Flush),
    /// The first file that was made and has no name of its own yet gets this one.
    Rename(String),
    /// A folder is moved to another place, or back.
    MoveFolder,
}

/// Follows a recipe once, in the folder `root`. With `batches`, reads and parses as many batches of lines on the way.
pub(super) fn replay(root: &Path, recipe: &Path, batches: Option<usize>) -> Result<Value> {
    let steps: Vec<Step> = serde_json::from_slice(&std::fs::read(recipe)?)?;
    let mut raw = Raw::open(root)?;
    let share = steps.len().div_ceil(batches.unwrap_or(1).max(1)).max(1);
    let mut lines = match batches {
        Some(_) => Some(BufReader::new(File::open(root.join("lines"))?)),
        None => None,
    };
    let start = Instant::now();
    for steps in steps.chunks(share) {
        if let Some(lines) = &mut lines {
            read_batch(lines)?;
        }
        for step in steps {
            raw.take(step)?;
        }
    }
    Ok(json!({ "seconds": start.elapsed().as_secs_f64() }))
}

fn read_batch(lines: &mut impl BufRead) -> Result<()> {
    let mut line = String::new();
    for _ in 0..super::BATCH {
        line.clear();
        lines.read_line(&mut line)?;
        let message: Value = serde_json::from_str(&line)?;
        std::hint::black_box(message);
    }
    Ok(())
}

struct Raw {
    files: PathBuf,
    pool: PathBuf,
    names: File,
    log: File,
    made: usize,
    waiting: VecDeque<PathBuf>,
    is_placed: bool,
}

impl Raw {
    fn open(root: &Path) -> Result<Self> {
        let (files, pool) = (root.join("raw-files"), root.join("raw-pool"));
        std::fs::create_dir_all(&files)?;
        std::fs::create_dir_all(pool.join("0"))?;
        let log = File::options()
            .append(true)
            .create(true)
            .open(root.join("raw-log"))?;
        Ok(Self {
            names: File::open(&files)?,
            log,
            waiting: VecDeque::new(),
            files,
            pool,
            made: 0,
            is_placed: false,
        })
    }

    fn take(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::Create(size, how) => {
                self.made += 1;
                let path = self.files.join(format!(".{}.next", self.made));
                let mut file = File::options()
                    .write(true)
                    .create_new(true)
                    .open(&path)
                    .context("a file of the raw loop is in the way")?;
                self.waiting.push_back(path);
                file.write_all(&vec![b'x'; *size])?;
                flush(&file, *how)
            }
            Step::Append(size, how) => {
                self.log.write_all(&vec![b'x'; *size])?;
                flush(&self.log, *how)
            }
            Step::Names(how) => flush(&self.names, *how),
            Step::Rename(name) => {
                let file = self.waiting.pop_front().context("nothing to rename")?;
                Ok(std::fs::rename(file, self.files.join(name))?)
            }
            Step::MoveFolder => {
                let (spare, placed) = (self.pool.join("0"), self.files.join("0.lock"));
                self.is_placed = !self.is_placed;
                Ok(if self.is_placed {
                    std::fs::rename(spare, placed)
                } else {
                    std::fs::rename(placed, spare)
                }?)
            }
        }
    }
}

fn flush(file: impl AsFd, how: Flush) -> Result<()> {
    match how {
        Flush::All => rustix::fs::fsync(file)?,
        Flush::Data => rustix::fs::fdatasync(file)?,
    }
    Ok(())
}

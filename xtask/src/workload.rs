//! One side of a benchmark, in a process of its own and built as the product is.
//!
//! `cargo xtask bench` starts these with the release build of xtask. Each prints one JSON object: how long its work
//! took (`seconds`), and what else the row needs.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use teamster_fs::Sync;
use teamster_store::{FileStore, Read, Store};
use teamster_types::task::NewTask;

use crate::fixture;
use crate::product::open_store;

/// The work to do.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Work {
    /// Create, claim and complete, each durable.
    Cycle,
    /// Send messages, each durable.
    Send,
    /// Read messages and acknowledge them, a batch at a time.
    Receive,
    /// Claim until nothing is left; begins when a line arrives.
    Drain,
    /// Claim and give back; the CPU time of each claim.
    Claims,
    /// Read the last events of the journal.
    Journal,
    /// Make only the writes of a recipe.
    Raw,
    /// Make the writes of a recipe, and read and parse a batch of lines before each share of them.
    RawReceive,
}

/// The arguments of a workload.
#[derive(Args, Debug)]
pub(crate) struct Workload {
    work: Work,
    /// The folder of teams; for raw work, any empty folder
    #[arg(long)]
    claude: PathBuf,
    #[arg(long)]
    project: PathBuf,
    #[arg(long, default_value_t = 1)]
    count: usize,
    #[arg(long, default_value_t = 1)]
    worker: usize,
    /// Do not wait for the disk, where the work would
    #[arg(long)]
    fast: bool,
    /// The writes of the product, in order
    #[arg(long)]
    recipe: Option<PathBuf>,
}

/// Messages that one read acknowledges.
pub(crate) const BATCH: usize = 50;
/// A message of usual length.
pub(crate) const CONTENT: &str = "The login form is done. Its tests are in tests/login and pass; \
    the style sheet still needs somebody who knows the design. I go on with task 4.";

impl Workload {
    /// Does the work and prints its figures.
    pub(crate) fn run(&self) -> Result<()> {
        let sync = match self.work {
            Work::Drain if self.fast => Sync::Fast,
            Work::Claims | Work::Journal => Sync::Fast,
            _ => Sync::Durable,
        };
        let store = || open_store(&self.claude, &self.project, sync);
        let figures = match self.work {
            Work::Cycle => self.cycle(&store()?)?,
            Work::Send => {
                let store = store()?;
                self.repeat(|| fixture::send(&store, 1, 2, CONTENT))?
            }
            Work::Receive => {
                let store = store()?;
                self.repeat(|| match fixture::receive(&store, 2, BATCH, true)? {
                    BATCH => Ok(()),
                    _ => bail!("there are too few messages to read"),
                })?
            }
            Work::Drain => self.drain(&store()?)?,
            Work::Claims => self.claims(&store()?)?,
            Work::Journal => {
                let (store, team) = (store()?, fixture::team()?);
                self.repeat(|| match store.last_events(&team, 20)?.events.len() {
                    20 => Ok(()),
                    _ => bail!("the journal is too short"),
                })?
            }
            Work::Raw => self.replay(1, None)?,
            Work::RawReceive => {
                let lines = BufReader::new(File::open(self.claude.join("lines"))?);
                self.replay(self.count, Some(lines))?
            }
        };
        println!("{figures}");
        Ok(())
    }

    fn repeat(&self, mut work: impl FnMut() -> Result<()>) -> Result<Value> {
        let start = Instant::now();
        for _ in 0..self.count {
            work()?;
        }
        Ok(seconds_since(start))
    }

    fn cycle(&self, store: &FileStore) -> Result<Value> {
        let team = fixture::team()?;
        let new = NewTask {
            subject: "A task of usual length".to_owned(),
            description: "It says what is to be done, and how to check it.".repeat(2),
            ..NewTask::default()
        };
        self.repeat(|| {
            store.create_task(&team, "user", &new)?;
            let claimed = fixture::claim(store, self.worker)?;
            store.complete(&team, claimed.task.id(), &claimed.token, None)?;
            Ok(())
        })
    }

    fn drain(&self, store: &FileStore) -> Result<Value> {
        let (team, request) = (fixture::team()?, fixture::claim_request(self.worker)?);
        println!("ready");
        std::io::stdin().lock().read_line(&mut String::new())?;
        let start = Instant::now();
        let mut ids = Vec::new();
        while let Some(claimed) = store.claim(&team, &request)? {
            ids.push(claimed.task.id().to_string());
        }
        let mut figures = seconds_since(start);
        figures["ids"] = json!(ids);
        Ok(figures)
    }

    fn claims(&self, store: &FileStore) -> Result<Value> {
        let team = fixture::team()?;
        let mut cpu = Vec::with_capacity(self.count);
        let mut figures = self.repeat(|| {
            let before = cpu_time();
            let claimed = fixture::claim(store, self.worker)?;
            cpu.push(cpu_time() - before);
            store.release(&team, "user", claimed.task.id(), Some(&claimed.token))?;
            Ok(())
        })?;
        figures["cpu"] = json!(cpu);
        Ok(figures)
    }

    /// Makes the writes of a recipe in `shares`, and reads and parses a batch of lines before each.
    fn replay(&self, shares: usize, mut lines: Option<BufReader<File>>) -> Result<Value> {
        let recipe = self.recipe.as_ref().context("raw work needs a recipe")?;
        let writes: Vec<Write> = serde_json::from_slice(&std::fs::read(recipe)?)?;
        let mut disk = RawDisk::open(&self.claude)?;
        let share = writes.len().div_ceil(shares.max(1)).max(1);
        let start = Instant::now();
        for writes in writes.chunks(share) {
            if let Some(lines) = &mut lines {
                let mut line = String::new();
                for _ in 0..BATCH {
                    line.clear();
                    lines.read_line(&mut line)?;
                    std::hint::black_box(serde_json::from_str::<Value>(&line)?);
                }
            }
            for write in writes {
                disk.make(write)?;
            }
        }
        Ok(seconds_since(start))
    }
}

fn seconds_since(start: Instant) -> Value {
    json!({ "seconds": start.elapsed().as_secs_f64() })
}

/// Returns the seconds of CPU, in the program and in the kernel, that this process has used.
fn cpu_time() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(seconds, nanoseconds).as_secs_f64()
}

/// How data gets to the disk.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Flush {
    /// Flushes contents and metadata (`fsync`).
    All,
    /// Flushes contents only (`fdatasync`).
    Data,
}

impl Flush {
    fn apply(self, file: &File) -> Result<()> {
        match self {
            Self::All => rustix::fs::fsync(file)?,
            Self::Data => rustix::fs::fdatasync(file)?,
        }
        Ok(())
    }
}

/// One write of the product, without the product.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Write {
    /// A new file of so many bytes, brought to the disk.
    Create(usize, Flush),
    /// So many bytes more at the end of a file, brought to the disk.
    Append(usize, Flush),
    /// The names of a folder, brought to the disk.
    Names(Flush),
    /// This name for the first file that was made and has no name of its own yet.
    Rename(String),
    /// A folder, moved to another place or back.
    MoveFolder,
}

/// The files and folders of the raw loop.
struct RawDisk {
    files: PathBuf,
    pool: PathBuf,
    names: File,
    log: File,
    made: usize,
    waiting: VecDeque<PathBuf>,
    is_placed: bool,
}

impl RawDisk {
    fn open(root: &Path) -> Result<Self> {
        let (files, pool) = (root.join("raw-files"), root.join("raw-pool"));
        std::fs::create_dir_all(&files)?;
        std::fs::create_dir_all(pool.join("0"))?;
        let mut log = File::options();
        Ok(Self {
            names: File::open(&files)?,
            log: log.append(true).create(true).open(root.join("raw-log"))?,
            waiting: VecDeque::new(),
            files,
            pool,
            made: 0,
            is_placed: false,
        })
    }

    fn make(&mut self, write: &Write) -> Result<()> {
        match write {
            Write::Create(size, flush) => {
                self.made += 1;
                let path = self.files.join(format!(".{}.next", self.made));
                let mut file =
                    File::create_new(&path).context("a file of the raw loop is in the way")?;
                self.waiting.push_back(path);
                file.write_all(&vec![b'x'; *size])?;
                flush.apply(&file)
            }
            Write::Append(size, flush) => {
                self.log.write_all(&vec![b'x'; *size])?;
                flush.apply(&self.log)
            }
            Write::Names(flush) => flush.apply(&self.names),
            Write::Rename(name) => {
                let file = self.waiting.pop_front().context("nothing to rename")?;
                Ok(std::fs::rename(file, self.files.join(name))?)
            }
            Write::MoveFolder => {
                let (mut from, mut to) = (self.pool.join("0"), self.files.join("0.lock"));
                if self.is_placed {
                    std::mem::swap(&mut from, &mut to);
                }
                self.is_placed = !self.is_placed;
                Ok(std::fs::rename(from, to)?)
            }
        }
    }
}

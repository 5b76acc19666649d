//! One side of a benchmark, in a separate process and built like the product.
//!
//! `cargo xtask bench` and `evidence` start it. It prints one JSON object: how long its work took (`seconds`), and
//! what else the row needs.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "this program works on files from the outside, and prints its figures"
)]

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};
use serde_json::{Value, json};
use teamster_fs::Durability;
use teamster_journal::EventActor;
use teamster_store::Store;
use teamster_types::task::NewTask;

use workload::{BATCH, CONTENT, Flush, STORE, Write};

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

/// One side of a benchmark or a race, through the store's library
#[derive(Debug, Parser)]
struct Workload {
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

fn main() -> Result<()> {
    Workload::parse().run()
}

impl Workload {
    /// Does the work and prints its figures.
    fn run(&self) -> Result<()> {
        let sync = match self.work {
            Work::Drain if self.fast => Durability::Fast,
            Work::Claims | Work::Journal => Durability::Fast,
            _ => Durability::Durable,
        };
        let store = || -> Result<Box<dyn Store>> {
            // A URL contains a password, which the arguments of a process would reveal.
            Ok(match std::env::var(STORE) {
                Ok(url) => Box::new(workload::open_database(&url)?),
                Err(_) => Box::new(workload::open_store(&self.claude, &self.project, sync)?),
            })
        };
        let figures = match self.work {
            Work::Cycle => self.cycle(store()?.as_ref())?,
            Work::Send => {
                let store = store()?;
                self.repeat(|| workload::send(store.as_ref(), 1, 2, CONTENT))?
            }
            Work::Receive => {
                let store = store()?;
                self.repeat(
                    || match workload::receive(store.as_ref(), 2, BATCH, true)? {
                        BATCH => Ok(()),
                        _ => bail!("there are too few messages to read"),
                    },
                )?
            }
            Work::Drain => self.drain(store()?.as_ref())?,
            Work::Claims => self.claims(store()?.as_ref())?,
            Work::Journal => {
                let (store, team) = (store()?, workload::team()?);
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

    fn cycle(&self, store: &dyn Store) -> Result<Value> {
        let team = workload::team()?;
        let new = NewTask {
            subject: "A task of usual length".to_owned(),
            description: "It says what is to be done, and how to check it.".repeat(2),
            ..NewTask::default()
        };
        self.repeat(|| {
            store.create_task(&team, &EventActor::Person, &new)?;
            let claimed = workload::claim(store, self.worker)?;
            store.complete(&team, claimed.task.id(), &claimed.token, None)?;
            Ok(())
        })
    }

    fn drain(&self, store: &dyn Store) -> Result<Value> {
        let (team, request) = (workload::team()?, workload::claim_request(self.worker)?);
        // A new connection has setup work to do at its first change, which is not measured.
        workload::send(store, self.worker, self.worker, CONTENT)?;
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

    fn claims(&self, store: &dyn Store) -> Result<Value> {
        let team = workload::team()?;
        let mut cpu = Vec::with_capacity(self.count);
        let mut figures = self.repeat(|| {
            let before = cpu_time();
            let claimed = workload::claim(store, self.worker)?;
            cpu.push(cpu_time() - before);
            store.release(
                &team,
                &EventActor::Person,
                claimed.task.id(),
                Some(&claimed.token),
            )?;
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

/// Returns the CPU seconds that this process has used, in user and kernel mode.
fn cpu_time() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(seconds, nanoseconds).as_secs_f64()
}

fn bring_to_disk(file: &File, flush: Flush) -> Result<()> {
    match flush {
        Flush::All => rustix::fs::fsync(file)?,
        Flush::Data => rustix::fs::fdatasync(file)?,
    }
    Ok(())
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
                bring_to_disk(&file, *flush)
            }
            Write::Append(size, flush) => {
                self.log.write_all(&vec![b'x'; *size])?;
                bring_to_disk(&self.log, *flush)
            }
            Write::Names(flush) => bring_to_disk(&self.names, *flush),
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

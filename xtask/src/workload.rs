//! One side of a benchmark, in a process of its own and built as the product is.
//!
//! `cargo xtask bench` starts these with the release build of xtask. Each prints one JSON object: how long its work
//! took (`seconds`), and what else the row needs.

pub(crate) mod raw;

use std::io::BufRead;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use teamster_fs::Sync;
use teamster_store::{FileStore, Read, Store};
use teamster_types::task::NewTask;

use crate::kit;
use crate::product::open_store;

/// What is done.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Work {
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
    /// Only the writes of a recipe, with no product around them.
    Raw,
    /// The same, with reading and parsing a batch of lines before each share of them.
    RawReceive,
}

/// One side of a benchmark.
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
        let figures = match self.work {
            Work::Cycle => self.cycle()?,
            Work::Send => self.send()?,
            Work::Receive => self.receive()?,
            Work::Drain => self.drain()?,
            Work::Claims => self.claims()?,
            Work::Journal => self.journal()?,
            Work::Raw => raw::replay(&self.claude, self.recipe()?, None)?,
            Work::RawReceive => raw::replay(&self.claude, self.recipe()?, Some(self.count))?,
        };
        println!("{figures}");
        Ok(())
    }

    fn recipe(&self) -> Result<&PathBuf> {
        self.recipe.as_ref().context("raw work needs a recipe")
    }

    fn store(&self, sync: Sync) -> Result<FileStore> {
        open_store(&self.claude, &self.project, sync)
    }

    fn cycle(&self) -> Result<Value> {
        let (store, team) = (self.store(Sync::Durable)?, kit::team()?);
        let new = NewTask {
            subject: "A task of usual length".to_owned(),
            description:
                "It says in a few sentences what is to be done, and how to see that it is done."
                    .to_owned(),
            ..NewTask::default()
        };
        timed(|| {
            for _ in 0..self.count {
                store.create_task(&team, "user", &new)?;
                let claimed = kit::claim(&store, self.worker)?;
                store.complete(&team, claimed.task.id(), &claimed.token, None)?;
            }
            Ok(())
        })
    }

    fn send(&self) -> Result<Value> {
        let store = self.store(Sync::Durable)?;
        timed(|| (0..self.count).try_for_each(|_| kit::send(&store, 1, 2, CONTENT)))
    }

    fn receive(&self) -> Result<Value> {
        let store = self.store(Sync::Durable)?;
        timed(|| {
            for _ in 0..self.count {
                if kit::receive(&store, 2, BATCH, true)? != BATCH {
                    bail!("there are too few messages to read");
                }
            }
            Ok(())
        })
    }

    fn drain(&self) -> Result<Value> {
        let sync = if self.fast { Sync::Fast } else { Sync::Durable };
        let (store, team) = (self.store(sync)?, kit::team()?);
        let request = teamster_store::ClaimRequest {
            worker: kit::worker(self.worker)?,
            id: None,
            lease: None,
        };
        println!("ready");
        std::io::stdin().lock().read_line(&mut String::new())?;
        let start = Instant::now();
        let mut ids = Vec::new();
        while let Some(claimed) = store.claim(&team, &request)? {
            ids.push(claimed.task.id().to_string());
        }
        Ok(json!({ "seconds": start.elapsed().as_secs_f64(), "ids": ids }))
    }

    fn claims(&self) -> Result<Value> {
        let (store, team) = (self.store(Sync::Fast)?, kit::team()?);
        let mut cpu = Vec::with_capacity(self.count);
        let start = Instant::now();
        for _ in 0..self.count {
            let before = cpu_time();
            let claimed = kit::claim(&store, self.worker)?;
            cpu.push(cpu_time() - before);
            store.release(&team, "user", claimed.task.id(), Some(&claimed.token))?;
        }
        Ok(json!({ "seconds": start.elapsed().as_secs_f64(), "cpu": cpu }))
    }

    fn journal(&self) -> Result<Value> {
        let (store, team) = (self.store(Sync::Fast)?, kit::team()?);
        timed(|| {
            for _ in 0..self.count {
                if store.last_events(&team, 20)?.events.len() != 20 {
                    bail!("the journal is too short");
                }
            }
            Ok(())
        })
    }
}

fn timed(work: impl FnOnce() -> Result<()>) -> Result<Value> {
    let start = Instant::now();
    work()?;
    Ok(json!({ "seconds": start.elapsed().as_secs_f64() }))
}

/// Seconds of CPU, in the program and in the kernel, that this process has used.
fn cpu_time() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    std::time::Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
    .as_secs_f64()
}

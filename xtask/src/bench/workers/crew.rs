//! Scripted workers of the real binary in a real repository.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use teamster_fs::Sync;
use teamster_store::{FileStore, Read};
use teamster_types::event::Event;
use teamster_types::heartbeat::WorkerStatus;

use super::status_kilobytes;
use crate::kit;
use crate::product::{Answer, Place, Product, TEAM};

/// What every worker does with every task: it says something, changes a file and tells what it used.
const SCRIPT: &str = r#"
steps = [
  { say = "working on {subject}" },
  { write = "notes/{id}.md", text = "{subject}\n" },
  { usage = { input = 1200, output = 80, cost_usd = 0.01 } },
  { done = "task {id} is done" },
]
"#;
/// Nothing here takes so long unless something is lost.
const LONG: Duration = Duration::from_secs(900);
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Workers, their team and their repository. Nobody is left when it is dropped.
pub(super) struct Crew<'a> {
    product: &'a Product,
    place: Place,
    store: FileStore,
    /// The bridges.
    pids: Vec<u32>,
    /// Where the ticks of the kernel's clock come from.
    ticks_per_second: u64,
    dismissed: bool,
}

impl<'a> Crew<'a> {
    /// A team with so many workers.
    pub(super) fn assemble(product: &'a Product, workers: usize) -> Result<Self> {
        let place = Place::on_disk()?;
        std::fs::write(place.root().join("script.toml"), SCRIPT)?;
        for words in [
            &["init", "--quiet", "--initial-branch", "main"][..],
            &["config", "user.name", "Bench"],
            &["config", "user.email", "bench@localhost"],
            &["commit", "--quiet", "--allow-empty", "--message", "Begin"],
        ] {
            let mut git = Command::new("git");
            place.dress(&mut git);
            let answer = Answer::of(git.args(words))?;
            if !answer.status.success() {
                bail!("git {words:?} failed: {}", answer.said());
            }
        }
        let store = place.store(Sync::Fast)?;
        let mut crew = Self {
            product,
            place,
            store,
            pids: Vec::new(),
            ticks_per_second: rustix::param::clock_ticks_per_second(),
            dismissed: false,
        };
        crew.must(&["team", "create", TEAM])?;
        crew.grow(workers)?;
        Ok(crew)
    }

    fn must(&self, words: &[&str]) -> Result<Answer> {
        let answer = self.product.call(&self.place, words)?;
        if !answer.status.success() {
            bail!("{words:?} failed: {}", answer.said());
        }
        Ok(answer)
    }

    /// Starts workers until there are so many.
    pub(super) fn grow(&mut self, workers: usize) -> Result<()> {
        let script = self.place.root().join("script.toml");
        let provider = format!("scripted:{}", script.display());
        for number in self.pids.len() + 1..=workers {
            let name = kit::worker(number)?.to_string();
            let answer = self.must(&[
                "worker",
                "start",
                "--name",
                &name,
                "--provider",
                &provider,
                "--json",
            ])?;
            let pid = answer.json().and_then(|said| said["pid"].as_u64());
            let pid = pid.and_then(|pid| u32::try_from(pid).ok());
            self.pids.push(pid.context("a worker told no pid")?);
        }
        Ok(())
    }

    /// Makes tasks and waits until all of them are done; how long that took.
    pub(super) fn work(&mut self, tasks: usize) -> Result<Duration> {
        let start = Instant::now();
        kit::free_tasks(&self.store, tasks)?;
        self.until("all tasks are done", |crew| {
            let (progress, _) = crew.store.progress(&kit::team()?)?;
            Ok(progress.completed_tasks == tasks)
        })?;
        Ok(start.elapsed())
    }

    /// Waits until everybody waits for work.
    pub(super) fn until_idle(&self) -> Result<()> {
        self.until("everybody waits", |crew| {
            let (beats, _) = crew.store.heartbeats(&kit::team()?)?;
            let waiting = beats.iter().filter(|beat| {
                beat.status == WorkerStatus::Polling && beat.current_task_id.is_none()
            });
            Ok(waiting.count() == crew.pids.len())
        })
    }

    fn until(&self, what: &str, is_so: impl Fn(&Self) -> Result<bool>) -> Result<()> {
        let start = Instant::now();
        while !is_so(self)? {
            if start.elapsed() > LONG {
                bail!("waited {} s, and not yet: {what}", LONG.as_secs());
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }

    /// Everything that happened.
    pub(super) fn journal(&self) -> Result<Vec<Event>> {
        let (team, mut events) = (kit::team()?, Vec::new());
        loop {
            let from = events.last().map_or(1, |event: &Event| event.seq + 1);
            let page = self.store.events(&team, from, 1_000)?;
            if page.events.is_empty() {
                return Ok(events);
            }
            events.extend(page.events);
        }
    }

    /// The most memory that any bridge ever had, in MB.
    pub(super) fn most_memory(&self) -> Result<f64> {
        let mut most: f64 = 0.0;
        for pid in &self.pids {
            most = most.max(status_kilobytes(*pid, "VmHWM:")? / 1024.0);
        }
        Ok(most)
    }

    /// User and system time of all bridges so far, without that of their agents.
    pub(super) fn cpu(&self) -> Result<Duration> {
        let mut ticks = 0;
        for pid in &self.pids {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))
                .with_context(|| format!("the bridge {pid} is not there any more"))?;
            // The name in brackets may have spaces; user and system time are the 14th and 15th field of all.
            let (_, fields) = stat.rsplit_once(')').context("a strange stat file")?;
            let fields: Vec<&str> = fields.split_whitespace().collect();
            for place in [11, 12] {
                let field = fields.get(place).context("a short stat file")?;
                ticks += field.parse::<u64>()?;
            }
        }
        Ok(Duration::from_millis(ticks * 1000 / self.ticks_per_second))
    }

    /// Lets everybody go; an error if somebody does not.
    pub(super) fn dismiss(mut self) -> Result<()> {
        self.must(&["shutdown", "--team", TEAM, "--json"])?;
        self.dismissed = true;
        Ok(())
    }
}

impl Drop for Crew<'_> {
    fn drop(&mut self) {
        if !self.dismissed {
            let _ = self.must(&["shutdown", "--team", TEAM, "--force", "--json"]);
        }
    }
}

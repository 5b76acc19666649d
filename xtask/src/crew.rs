//! Workers of the real binary in a real repository.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use teamster_fs::Sync;
use teamster_journal::Event;
use teamster_store::{FileStore, Read};
use teamster_types::heartbeat::{Heartbeat, WorkerStatus};

use crate::kit;
use crate::product::{Answer, Place, Product, TEAM};

/// Nothing here takes so long unless something is lost.
const LONG: Duration = Duration::from_secs(900);
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Workers, their team and their repository. Nobody is left when it is dropped.
pub(crate) struct Crew<'a> {
    product: &'a Product,
    pub(crate) place: Place,
    pub(crate) store: FileStore,
    /// The bridges.
    pub(crate) pids: Vec<u32>,
    /// A program that starts ours, with its words before ours.
    within: Vec<String>,
    dismissed: bool,
}

impl<'a> Crew<'a> {
    /// A team without workers.
    pub(crate) fn assemble(product: &'a Product) -> Result<Self> {
        let place = Place::on_disk()?;
        kit::repository(&place)?;
        let store = place.store(Sync::Fast)?;
        let crew = Self {
            product,
            place,
            store,
            pids: Vec::new(),
            within: Vec::new(),
            dismissed: false,
        };
        crew.must(&["team", "create", TEAM])?;
        Ok(crew)
    }

    /// The same, with everything of ours started by another program.
    pub(crate) fn within(mut self, words: &[&str]) -> Self {
        self.within = words.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// A script that workers play.
    pub(crate) fn script(&self, text: &str) -> Result<String> {
        let script = self.place.root().join("script.toml");
        std::fs::write(&script, text)?;
        Ok(format!("scripted:{}", script.display()))
    }

    pub(crate) fn must(&self, words: &[&str]) -> Result<Answer> {
        let answer = self.call(words, &[])?;
        if !answer.status.success() {
            bail!("{words:?} failed: {}", answer.said());
        }
        Ok(answer)
    }

    fn call(&self, words: &[&str], variables: &[(&str, &str)]) -> Result<Answer> {
        let mut command = match self.within.split_first() {
            None => Command::new(&self.product.binary),
            Some((program, before)) => {
                let mut command = Command::new(program);
                command.args(before).arg(&self.product.binary);
                command
            }
        };
        self.place.dress(&mut command);
        Answer::of(command.args(words).envs(variables.iter().copied()))
    }

    /// Starts workers until there are so many.
    pub(crate) fn grow(
        &mut self,
        workers: usize,
        provider: &str,
        variables: &[(&str, &str)],
    ) -> Result<()> {
        for number in self.pids.len() + 1..=workers {
            let name = kit::worker(number)?.to_string();
            let words = ["worker", "start", "--json", "--name", &name];
            let words = [&words[..], &["--provider", provider]].concat();
            let answer = self.call(&words, variables)?;
            if !answer.status.success() {
                bail!("{name} did not start: {}", answer.said());
            }
            let pid = answer.json().and_then(|said| said["pid"].as_u64());
            let pid = pid.and_then(|pid| u32::try_from(pid).ok());
            self.pids.push(pid.context("a worker told no pid")?);
        }
        Ok(())
    }

    /// Waits until so many tasks are done.
    pub(crate) fn until_done(&self, tasks: usize) -> Result<()> {
        self.until("all tasks are done", |crew| {
            let (progress, _) = crew.store.progress(&kit::team()?)?;
            Ok(progress.completed_tasks == tasks)
        })
    }

    /// Waits until everybody waits for work.
    pub(crate) fn until_idle(&self) -> Result<()> {
        self.until("everybody waits", |crew| {
            let waiting = crew.beats()?.into_iter().filter(|beat| {
                beat.status == WorkerStatus::Polling && beat.current_task_id.is_none()
            });
            Ok(waiting.count() == crew.pids.len())
        })
    }

    /// The last position of the journal.
    pub(crate) fn position(&self) -> Result<u64> {
        Ok(self.store.position(&kit::team()?)?)
    }

    /// The heartbeats of all.
    pub(crate) fn beats(&self) -> Result<Vec<Heartbeat>> {
        Ok(self.store.heartbeats(&kit::team()?)?.0)
    }

    /// Waits until something is so.
    pub(crate) fn until(&self, what: &str, is_so: impl Fn(&Self) -> Result<bool>) -> Result<()> {
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
    pub(crate) fn journal(&self) -> Result<Vec<Event>> {
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

    /// Lets everybody go; how long that took, and an error if somebody does not.
    pub(crate) fn dismiss(mut self) -> Result<Duration> {
        let answer = self.must(&["shutdown", "--team", TEAM, "--json"])?;
        self.dismissed = true;
        let said = answer.json().unwrap_or_default();
        if said["verified"] != true {
            bail!("the shutdown is not verified: {said}");
        }
        Ok(answer.took)
    }
}

impl Drop for Crew<'_> {
    fn drop(&mut self) {
        if !self.dismissed {
            let _ = self.must(&["shutdown", "--team", TEAM, "--force", "--json"]);
        }
    }
}

//! A team of one real worker inside the lab, and everything it leaves.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::Client;
use crate::product::Answer;

/// Nothing here takes so long unless it hangs.
const LONG: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// The only worker.
const WORKER: &str = "ann";

/// The team of one scene, in the lab's project.
pub(super) struct Crew {
    team: &'static str,
    project: PathBuf,
    /// The bridge,
    pub(super) bridge: u32,
    /// and the number of its launch.
    pub(super) launch: String,
}

impl Crew {
    /// A team with one task and the client as its worker.
    pub(super) fn start(
        client: Client,
        team: &'static str,
        tags: &str,
        limits: &[(&str, &str)],
    ) -> Result<Self> {
        let mut crew = Self {
            team,
            project: std::env::current_dir()?,
            bridge: 0,
            launch: String::new(),
        };
        crew.must(&["team", "create", team])?;
        let folder = crew.worktree().display().to_string();
        // One of the scripted models writes where it is told.
        let description = format!("Do it. {tags} [[dir:{folder}]]");
        crew.must(&[
            "task",
            "create",
            "--subject",
            "Change a file",
            "--description",
            &description,
        ])?;
        let mut command = crew.command(&["worker", "start", "--name", WORKER, "--json"]);
        command.args(["--provider", client.word()]);
        command.envs(limits.iter().copied());
        let answer = Answer::of(&mut command)?;
        if !answer.status.success() {
            bail!("the worker did not start: {}", answer.said());
        }
        let pid = answer.json().and_then(|said| said["pid"].as_u64());
        crew.bridge = pid
            .and_then(|pid| u32::try_from(pid).ok())
            .context("no pid")?;
        let spawned = crew.until("worker.spawned")?;
        let launch = spawned["data"]["launch"].as_str();
        launch.context("no launch")?.clone_into(&mut crew.launch);
        Ok(crew)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("teamster");
        command.args(words).env("TEAMSTER_TEAM", self.team);
        command
    }

    pub(super) fn call(&self, words: &[&str]) -> Result<Answer> {
        Answer::of(&mut self.command(words))
    }

    fn must(&self, words: &[&str]) -> Result<Answer> {
        let answer = self.call(words)?;
        if !answer.status.success() {
            bail!("{words:?} failed: {}", answer.said());
        }
        Ok(answer)
    }

    fn worktree(&self) -> PathBuf {
        let folder = format!(".omc/worktrees/{}/{WORKER}", self.team);
        self.project.join(folder)
    }

    /// Every event of this type so far.
    pub(super) fn events(&self, kind: &str) -> Result<Vec<Value>> {
        let answer = self.must(&["journal", "--type", kind, "--json"])?;
        let said = answer.json().context("the journal is no JSON")?;
        Ok(said["events"].as_array().cloned().unwrap_or_default())
    }

    /// Waits for the first event of this type.
    pub(super) fn until(&self, kind: &str) -> Result<Value> {
        self.wait_for(kind, || Ok(self.events(kind)?.into_iter().next()))
    }

    /// Waits until something is there.
    pub(super) fn wait_for<T>(
        &self,
        what: &str,
        mut find: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        let start = Instant::now();
        loop {
            if let Some(found) = find()? {
                return Ok(found);
            }
            if start.elapsed() > LONG {
                let journal = self.call(&["journal"])?.stdout;
                bail!("waited {} s for {what}:\n{journal}", LONG.as_secs());
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// The only task, as it is now.
    pub(super) fn task(&self) -> Result<Value> {
        let answer = self.must(&["task", "show", "1", "--json"])?;
        let said = answer.json().context("the task is no JSON")?;
        Ok(said["task"].clone())
    }

    /// What the client itself printed for the task, line by line.
    pub(super) fn printed(&self) -> Result<Vec<Value>> {
        let file = format!(".omc/logs/{}/{WORKER}/1.jsonl", self.team);
        let text = std::fs::read_to_string(self.project.join(file)).context("the log")?;
        let mut events = Vec::new();
        for line in text.lines() {
            let line: Value = serde_json::from_str(line).context("a line of the log")?;
            if line["from"] == "agent" {
                events.push(line["event"].clone());
            }
        }
        Ok(events)
    }

    /// git in the user's own work tree; what it printed.
    pub(super) fn git(&self, words: &[&str]) -> Result<String> {
        let answer = Answer::of(Command::new("git").args(words).current_dir(&self.project))?;
        if !answer.status.success() {
            bail!("git {words:?} failed: {}", answer.said());
        }
        Ok(answer.stdout.trim().to_owned())
    }

    /// Asks everybody to stop; how that ended.
    pub(super) fn shutdown(&self) -> Result<Answer> {
        self.call(&["shutdown", "--team", self.team, "--json"])
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        let _ = self.call(&["shutdown", "--team", self.team, "--force", "--json"]);
    }
}

//! What the host of a large run costs while its workers are busy and nothing happens.

use std::fmt::Write as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use teamster_fs::Sync;
use teamster_store::{FileStore, Read};

use super::table::{Limit, Row};
use super::workers::{cpu_of, status_kilobytes};
use super::{Programs, Size};
use crate::kit;
use crate::product::{Answer, Place, TEAM};

/// A host may have this much memory,
const MEGABYTES: f64 = 60.0;
/// and use this share of one core while it only waits.
const IDLE: f64 = 0.01;
/// Nothing here takes so long unless something is lost.
const LONG: Duration = Duration::from_secs(300);
/// Everybody begins its first task and is busy with it until it is stopped.
const SCRIPT: &str = r#"
[[step]]
do = "say"
text = "I begin"

[[step]]
do = "sleep"
seconds = 3600
"#;

pub(super) fn measure(programs: &Programs, size: Size) -> Result<Vec<Row>> {
    let run = Hosted::start(programs, size)?;
    run.until_busy(size.hosted)?;
    // Who has just been told that everybody is at work is not idle yet.
    run.until_quiet(size.hosted_time / 3)?;
    let (before, start) = (cpu_of(run.host.id())?, Instant::now());
    std::thread::sleep(size.hosted_time);
    let used = cpu_of(run.host.id())?.saturating_sub(before);
    let share = used.as_secs_f64() / start.elapsed().as_secs_f64();
    let memory = status_kilobytes(run.host.id(), "VmHWM:")? / 1024.0;
    run.end()?;
    let what = format!("{} tasks and {} scripted workers", size.tasks, size.hosted);
    Ok(vec![
        Row {
            key: "host-memory",
            what: format!("the most memory that the host of {what} ever had"),
            against: format!("{MEGABYTES} MB"),
            ratio: memory / MEGABYTES,
            limit: Some(Limit::AtMost(1.0)),
            times: format!("{memory:.1} MB"),
        },
        Row {
            key: "host-idle",
            what: format!(
                "CPU of that host over {} s in which nothing happens",
                size.hosted_time.as_secs()
            ),
            against: format!("{:.0} % of a core", IDLE * 100.0),
            ratio: share / IDLE,
            limit: Some(Limit::AtMost(1.0)),
            times: format!("{:.2} % of a core", share * 100.0),
        },
    ])
}

/// A run whose workers are all busy, in a repository of its own. Nobody is left when it is dropped.
struct Hosted<'a> {
    programs: &'a Programs,
    place: Place,
    store: FileStore,
    host: Child,
    ended: bool,
}

impl<'a> Hosted<'a> {
    fn start(programs: &'a Programs, size: Size) -> Result<Self> {
        let place = Place::on_disk()?;
        kit::repository(&place)?;
        let (script, plan) = (
            place.root().join("script.toml"),
            place.root().join("plan.toml"),
        );
        std::fs::write(&script, SCRIPT)?;
        let mut tasks = String::new();
        for number in 1..=size.tasks {
            write!(
                tasks,
                "[[tasks]]\nid = \"t{number}\"\nsubject = \"task {number}\"\n\n"
            )?;
        }
        std::fs::write(&plan, tasks)?;
        let provider = format!("actor=scripted:{}", script.display());
        let crew = format!("{}:actor", size.hosted);
        let plan = plan.display().to_string();
        let mut words = vec!["run", &crew, "the plan", "--team", TEAM, "--plan", &plan];
        words.extend(["--provider", &provider, "--approve", "never", "--yes"]);
        let mut command = programs.product.command(&place, words);
        let host = command
            .env_remove("TEAMSTER_TEAM")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self {
            programs,
            store: place.store(Sync::Fast)?,
            place,
            host,
            ended: false,
        })
    }

    /// Waits until everybody has a task.
    fn until_busy(&self, workers: usize) -> Result<()> {
        let start = Instant::now();
        let team = kit::team()?;
        loop {
            let progress = self.store.progress(&team);
            if progress.is_ok_and(|(progress, _)| progress.in_progress_tasks == workers) {
                return Ok(());
            }
            if start.elapsed() > LONG {
                bail!("not every one of {workers} workers has a task");
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Waits until nothing new was journalled for so long.
    fn until_quiet(&self, span: Duration) -> Result<()> {
        let (start, team) = (Instant::now(), kit::team()?);
        let mut last = (self.store.position(&team)?, Instant::now());
        while last.1.elapsed() < span {
            if start.elapsed() > LONG {
                bail!("the run does not become quiet");
            }
            std::thread::sleep(Duration::from_millis(200));
            let position = self.store.position(&team)?;
            if position != last.0 {
                last = (position, Instant::now());
            }
        }
        Ok(())
    }

    /// Ends the host, and then everybody; an error if somebody is left.
    fn end(mut self) -> Result<()> {
        self.ended = true;
        self.stop()
    }

    fn stop(&mut self) -> Result<()> {
        // Nobody is to be started anew by a host that sees its workers go.
        self.host.kill()?;
        self.host.wait()?;
        let words = ["shutdown", "--team", TEAM, "--force", "--json"];
        let answer = Answer::of(&mut self.programs.product.command(&self.place, words))?;
        let said = answer.json().context("the shutdown said nothing")?;
        if said["verified"] != true {
            bail!("the shutdown is not verified: {said}");
        }
        Ok(())
    }
}

impl Drop for Hosted<'_> {
    fn drop(&mut self) {
        if !self.ended {
            let _ = self.stop();
        }
    }
}

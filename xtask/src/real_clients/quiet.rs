//! A run whose worker is silent for ten minutes, while sessions of Claude Code come and go in the same project.
//!
//! At every poll, five times a second, the run must be live, its worker healthy (or silent, once the setting says
//! so), and the state file at most a minute old. `QUIET_SECONDS` makes it shorter.

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;
use teamster_testkit::RunCmd;
use teamster_types::Time;

use super::team::{LabTeam, WAIT};
use super::{Lab, RealRun, Report};
use crate::product::{Finished, list, text, wait_for};

/// The name of the run, of its scene and of its team.
pub(super) const NAME: &str = "quiet";
/// The variable with the duration in seconds, and the default.
const SECONDS: &str = "QUIET_SECONDS";
const DEFAULT_SECONDS: u64 = 600;
/// The poll interval, and the time between two sessions.
const LOOK: Duration = Duration::from_millis(200);
const SESSION: Duration = Duration::from_secs(20);
/// How many polls there are for each frame of `top`.
const TOP: usize = 5;
/// The maximum age of the state file.
const OLDEST: Duration = Duration::from_secs(60);

/// Returns the only run of this module.
pub(super) fn run() -> RealRun {
    RealRun {
        name: NAME.to_owned(),
        clients: &["claude-2.1.325"],
        run: Box::new(start),
    }
}

fn seconds() -> u64 {
    let told = std::env::var(SECONDS).ok();
    told.and_then(|told| told.parse().ok())
        .unwrap_or(DEFAULT_SECONDS)
}

fn start(lab: &Lab) -> Result<Report> {
    let length = format!("{SECONDS}={}", seconds());
    let limit = (seconds() + 240).to_string();
    let variables = [("XENV", &*length), ("TMO", &limit)];
    lab.play("claude", &[], NAME, &variables)
}

/// The observations so far.
#[derive(Default)]
struct Quiet {
    report: Report,
    looks: usize,
    oldest: Duration,
    begun: Option<Instant>,
    /// What was wrong, when first and last, and at how many polls.
    wrong: BTreeMap<String, (Duration, Duration, usize)>,
}

/// Runs the team inside the lab and polls it.
pub(super) fn play() -> Result<Report> {
    let mut install = Command::new("teamster");
    Finished::checked(install.args(["install", "claude", "--scope", "user"]))?;
    let team = LabTeam::of_lab(NAME)?;
    let length = Duration::from_secs(seconds());
    let worker = format!(
        "w=command:cat > /dev/null; sleep {}; echo done > quiet.txt",
        length.as_secs() + 60
    );
    let run = RunCmd::new(NAME, "1:w", "work quietly").provider(&worker);
    let mut run = team.run(&run.more(&["--json"]));
    let log = std::fs::File::create(team.folder.with_file_name("run.log"))?;
    let mut run = run
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()?;
    let played = watch(&team, length, &mut run);
    let cancelled = Finished::of(&mut team.command("cancel", &[NAME]));
    let ended = run.wait()?;
    let mut quiet = played?;
    if !cancelled?.success() {
        quiet.report.differences.push(format!(
            "the run cannot be cancelled; it ended with {ended}"
        ));
    }
    for (what, (first, last, count)) in &quiet.wrong {
        let (first, last) = (first.as_secs_f64(), last.as_secs_f64());
        let told = format!("{what} ({count} looks, {first:.1} s to {last:.1} s)");
        quiet.report.differences.push(told);
    }
    let seen = format!("{} in {} s", quiet.looks, length.as_secs());
    quiet.report.saw("looks", seen);
    let seen = format!(
        "lastUpdated at most {:.0} s old",
        quiet.oldest.as_secs_f64()
    );
    quiet.report.saw("state", seen);
    Ok(quiet.report)
}

fn watch(team: &LabTeam, length: Duration, run: &mut Child) -> Result<Quiet> {
    wait_for("the worker works", WAIT, || {
        let status = team.ask("status --json", &[]).unwrap_or_default();
        let is_at_work = list(&status["teams"])
            .flat_map(|team| list(&team["workers"]))
            .any(|worker| worker["verdict"] == "healthy" && worker["currentTaskId"].is_string());
        let has_row = state(team).is_some_and(|state| list(&state["teammates"]).count() == 1);
        Ok((is_at_work && has_row).then_some(()))
    })?;
    let mut quiet = Quiet::default();
    let mut sessions: Vec<Child> = Vec::new();
    let (begin, mut count, mut next) = (Instant::now(), 0, Instant::now());
    while begin.elapsed() < length {
        let start = Instant::now();
        if let Some(status) = run.try_wait()? {
            quiet
                .report
                .differences
                .push(format!("the run has ended: {status}"));
            break;
        }
        if start >= next {
            sessions.push(unrelated(team)?);
            (count, next) = (count + 1, start + SESSION);
        }
        quiet.look(team);
        sessions.retain_mut(|session| !matches!(session.try_wait(), Ok(Some(_))));
        std::thread::sleep(LOOK.saturating_sub(start.elapsed()));
    }
    for mut session in sessions {
        session.wait()?;
    }
    quiet
        .report
        .saw("sessions", format!("{count} came and went"));
    Ok(quiet)
}

/// Starts a session that is unrelated to the run.
fn unrelated(team: &LabTeam) -> Result<Child> {
    let mut client = Command::new("claude");
    client
        .args(["-p", "hello [[scenario:text]]"])
        .current_dir(&team.folder);
    client
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    client.spawn().context("cannot start another session")
}

fn state(team: &LabTeam) -> Option<Value> {
    let file = team.folder.join(".bkit/agent-state.json");
    serde_json::from_slice(&std::fs::read(file).ok()?).ok()
}

impl Quiet {
    fn look(&mut self, team: &LabTeam) {
        self.looks += 1;
        let mut wrong = Vec::new();
        match state(team) {
            None => wrong.push("there is no state".to_owned()),
            Some(state) => {
                let now =
                    Time::from_millis(super::native::now().as_millis().try_into().unwrap_or(0));
                let updated: Option<Time> = text(&state["lastUpdated"]).parse().ok();
                let age = updated.map_or(Duration::MAX, |updated| now.since(updated));
                self.oldest = self.oldest.max(age);
                if age > OLDEST {
                    wrong.push(format!("the state is {} s old", age.as_secs()));
                }
                let (enabled, name) = (&state["enabled"], &state["teamName"]);
                if *enabled != true || *name != NAME {
                    wrong.push(format!("the state is of {name}, enabled {enabled}"));
                }
                if list(&state["teammates"]).count() != 1 {
                    wrong.push(format!("the rows are {}", state["teammates"]));
                }
            }
        }
        let status = team.ask("status --json", &[]).unwrap_or_default();
        let workers = list(&status["teams"]).find(|shown| shown["name"] == NAME);
        let verdict = workers.map_or("nobody", |shown| text(&shown["workers"][0]["verdict"]));
        // The worker is silent for longer than the setting allows, which does not make it dead.
        if !["healthy", "silent"].contains(&verdict) {
            wrong.push(format!("status: the worker is {verdict}"));
        }
        if self.looks % TOP == 1 {
            let top = team.ask("top --once --json", &[]).unwrap_or_default();
            let shown = list(&top["teams"]).find(|shown| shown["name"] == NAME);
            let shown = shown.map_or("nowhere", |shown| text(&shown["state"]));
            if shown != "live" {
                wrong.push(format!("top: the team is {shown}"));
            }
        }
        let at = self.begun.get_or_insert_with(Instant::now).elapsed();
        for what in wrong {
            let (_, last, count) = self.wrong.entry(what).or_insert((at, at, 0));
            (*last, *count) = (at, *count + 1);
        }
    }
}

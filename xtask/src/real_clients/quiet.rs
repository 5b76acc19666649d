//! A run whose worker is silent for ten minutes, while sessions of Claude Code come and go in the same project.
//!
//! At every poll, five times a second, the run must be live, its worker healthy (or silent, once the setting says
//! so), and the state file at most a minute old. `QUIET_SECONDS` makes it shorter.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;
use teamster_testkit::RunCmd;
use teamster_types::Time;

use super::polls::WrongPolls;
use super::session_files::{STATE, read_json};
use super::team::{LabTeam, WAIT};
use super::{Lab, RealRun, Report};
use crate::fixture;
use crate::product::{Finished, check, list, text, unix_time, wait_until};

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
    RealRun::new(NAME.to_owned(), &["claude-2.1.325"], start)
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
    wrong: WrongPolls,
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
    let mut run = team.start_run(&run.more(&["--json"]))?;
    let begin = unix_time();
    let played = watch(&team, length, &mut run);
    let cancelled = Finished::of(&mut team.command("cancel", &[NAME]));
    let ended = run.wait()?;
    let Quiet {
        mut report,
        looks,
        oldest,
        wrong,
    } = played?;
    check!(report.differences, cancelled?.success() =>
        "the run cannot be cancelled; it ended with {ended}");
    report.differences.extend(wrong.describe(begin));
    report.saw("looks", format!("{looks} in {} s", length.as_secs()));
    let seen = format!("lastUpdated at most {:.0} s old", oldest.as_secs_f64());
    report.saw("state", seen);
    Ok(report)
}

fn watch(team: &LabTeam, length: Duration, run: &mut Child) -> Result<Quiet> {
    wait_until("the worker works", WAIT, || {
        let status = team.ask("status --json", &[]).unwrap_or_default();
        let is_at_work = list(&status["teams"])
            .flat_map(|team| list(&team["workers"]))
            .any(|worker| worker["verdict"] == "healthy" && worker["currentTaskId"].is_string());
        let has_row = state(team).is_some_and(|state| list(&state["teammates"]).count() == 1);
        Ok(is_at_work && has_row)
    })?;
    let mut quiet = Quiet::default();
    let mut sessions: Vec<Child> = Vec::new();
    let (begin, mut count, mut next) = (Instant::now(), 0, Instant::now());
    while begin.elapsed() < length {
        let start = Instant::now();
        if let Some(status) = run.try_wait()? {
            let ended = format!("the run has ended: {status}");
            quiet.report.differences.push(ended);
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
    let seen = format!("{count} came and went");
    quiet.report.saw("sessions", seen);
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
    read_json(&team.folder.join(STATE))
}

impl Quiet {
    fn look(&mut self, team: &LabTeam) {
        self.looks += 1;
        let (at, mut wrong) = (unix_time(), Vec::new());
        let state = state(team).unwrap_or_default();
        let updated: Option<Time> = text(&state["lastUpdated"]).parse().ok();
        let age = updated.map_or(Duration::MAX, |updated| fixture::now().since(updated));
        if state.is_null() {
            wrong.push("there is no state".to_owned());
        } else {
            self.oldest = self.oldest.max(age);
            check!(wrong, age <= OLDEST => "the state is {} s old", age.as_secs());
            let (enabled, name) = (&state["enabled"], &state["teamName"]);
            check!(wrong, *enabled == true && *name == NAME =>
                "the state is of {name}, enabled {enabled}");
            let rows = &state["teammates"];
            check!(wrong, list(rows).count() == 1 => "the rows are {rows}");
        }
        let mut is_shown = |view: &str, line: &str, place: &str, expected: &[&str]| {
            let printed = team.ask(line, &[]).unwrap_or_default();
            let shown = list(&printed["teams"]).find(|shown| shown["name"] == NAME);
            let shown = shown.and_then(|shown| shown.pointer(place)?.as_str());
            let shown = shown.unwrap_or("nowhere");
            check!(wrong, expected.contains(&shown) => "{view} is {shown}");
        };
        // The worker is silent for longer than the setting allows, which does not make it dead.
        let verdicts = ["healthy", "silent"];
        let worker = "/workers/0/verdict";
        is_shown("status: the worker", "status --json", worker, &verdicts);
        if self.looks % TOP == 1 {
            is_shown("top: the team", "top --once --json", "/state", &["live"]);
        }
        for what in wrong {
            self.wrong.add(what, at);
        }
    }
}

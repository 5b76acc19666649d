//! What reaches real clients while they work, seen from the requests that their model servers got.
//!
//! A worker with one long command gets a message. The next request of the same task must have it, with its sender, and no
//! request of another task; the receipt must be older than the end of the task.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use super::super::model_server::all_texts;
use super::super::{RealRun, Report};
use crate::product::{Finished, check, list, text, wait_for, words};

/// The longest that a client may take for everything, in seconds.
const LONG: &str = "180";
/// The longest that something is waited for.
const WAIT: Duration = Duration::from_secs(60);
const TEAM: &str = "talk";
const WORKER: &str = "ann";
/// The command in whose middle the message comes.
const TOOL: &str = "sleep 6";
/// What the message says, which nobody else says.
const WORDS: &str = "use the word zebra-7";
/// The scene of a client is named after it.
pub(super) const SCENE: &str = "message-";

/// Returns one run for each client that can be told something while it works.
pub(super) fn runs() -> impl Iterator<Item = RealRun> {
    let clients: [(&str, &[&str]); 2] = [("codex", &["codex"]), ("claude", &["claude-2.1.325"])];
    clients.into_iter().map(|(client, clients)| RealRun {
        name: super::NAME.to_owned(),
        clients,
        run: Box::new(move |lab| {
            let scene = format!("{SCENE}{client}");
            lab.play(client, &[], &scene, &[("TMO", LONG)])
        }),
    })
}

/// Plays the scene of a client, inside the lab.
pub(super) fn play(client: &str) -> Result<Report> {
    let mut report = Report::default();
    ask(&["team", "create", TEAM])?;
    let description = format!("Do it. [[scenario:ok]] [[cmd:{TOOL}; echo mock > hello.txt]]");
    create_task(&description)?;
    ask(&words(&format!(
        "worker start --name {WORKER} --json --provider {client}"
    )))?;
    wait_for("the command of the agent", WAIT, || {
        let events = events("agent.event")?;
        Ok(events
            .iter()
            .any(|event| event.to_string().contains(TOOL))
            .then_some(()))
    })?;
    let before = requests()?;
    let line = [
        "message", "send", "--to", WORKER, "--from", "lead", WORDS, "--json",
    ];
    let message = ask(&line)?["message"]["id"].take();
    let completed = wait_for("the end of the task", WAIT, || {
        Ok(events("task.completed")?.into_iter().next())
    })?;
    let asked = requests()?;
    let has_words = |request: &String| request.contains(WORDS);
    check!(report.differences, !before.iter().any(has_words) => "a request before the message has it");
    let next = asked
        .get(before.len())
        .context("no request after the message")?;
    check!(report.differences, has_words(next) => "the next request has no {WORDS:?}");
    let is_marked =
        next.contains("A message for you from lead:") && next.contains(&format!("> {WORDS}"));
    check!(report.differences, is_marked => "the message is not marked as the lead's");
    let listed = ask(&["message", "list", "--json"])?;
    let mut listed = list(&listed["messages"]);
    let receipt = listed
        .find(|listed| listed["id"] == message)
        .context("no such message")?;
    let (sent, delivered) = (text(&receipt["sentAt"]), text(&receipt["deliveredAt"]));
    let ended = text(&completed["ts"]);
    check!(
        report.differences, !delivered.is_empty() && sent <= delivered && delivered <= ended =>
        "sent {sent}, delivered {delivered:?}, task ended {ended}"
    );
    create_task("Do it. [[scenario:text]]")?;
    wait_for("the end of the next task", WAIT, || {
        Ok((events("task.completed")?.len() == 2).then_some(()))
    })?;
    let later = requests()?;
    let is_told_again = later[asked.len()..].iter().any(has_words);
    check!(report.differences, !is_told_again => "the next task is told again");
    let failed = events("task.failed")?;
    check!(report.differences, failed.is_empty() => "a task failed: {failed:?}");
    let holds = report.differences.is_empty();
    let seen = format!(
        "request {} of {} of its task has it; sent {sent}, delivered {delivered}, task ended {ended}",
        before.len() + 1,
        asked.len()
    );
    let claim = format!("{client}: a message in mid-task is in the next request, and told once");
    report.claim(&claim, holds, seen);
    ask(&["shutdown", "--team", TEAM, "--json"])?;
    Ok(report)
}

fn create_task(description: &str) -> Result<Value> {
    let task = ["task", "create", "--subject", "Change a file"];
    ask(&[&task[..], &["--description", description]].concat())
}

/// Returns what a call of teamster prints, which must succeed.
fn ask(words: &[&str]) -> Result<Value> {
    let mut command = Command::new("teamster");
    let finished = Finished::checked(command.args(words).env("TEAMSTER_TEAM", TEAM))?;
    Ok(finished.json().unwrap_or_default())
}

fn events(kind: &str) -> Result<Vec<Value>> {
    let printed = ask(&["journal", "--type", kind, "--json"])?;
    Ok(list(&printed["events"]).cloned().collect())
}

/// Returns every request that the model's server got, in order, with its texts as they were written.
fn requests() -> Result<Vec<String>> {
    let out = std::env::var("LAB_OUT").context("LAB_OUT is not set")?;
    let (file, folder) = (
        Path::new(&out).join("api.jsonl"),
        Path::new(&out).join("api"),
    );
    let raw: Vec<String> = if file.is_file() {
        let log = std::fs::read_to_string(file)?;
        log.lines().map(str::to_owned).collect()
    } else {
        let entries = std::fs::read_dir(folder)?;
        let mut files: Vec<_> = entries
            .map(|entry| Ok(entry?.path()))
            .collect::<Result<_>>()?;
        files.retain(|file| file.to_string_lossy().ends_with(".req.json"));
        files.sort();
        files
            .iter()
            .map(|file| Ok(std::fs::read_to_string(file)?))
            .collect::<Result<_>>()?
    };
    let with_input = raw.into_iter().filter_map(|request| {
        let request: Value = serde_json::from_str(&request).ok()?;
        Some(all_texts(&request))
    });
    Ok(with_input.collect())
}

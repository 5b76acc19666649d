//! Messages to real clients while they work, judged by the requests to their model servers.
//!
//! A worker with one long command gets a message. The next request of the same task must contain it, with its sender,
//! and no request of another task; the receipt must be older than the end of the task.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use super::super::model_server::all_texts;
use super::super::{RealRun, Report};
use super::{CLAUDE, LabTeam, WAIT, claim};
use crate::product::{check, files, list, text, wait_for};

/// The time limit for everything that a client does, in seconds.
const LONG: &str = "180";
const TEAM: &str = "talk";
const WORKER: &str = "ann";
/// The command during which the message arrives.
const TOOL: &str = "sleep 6";
/// The text of the message, which is unique.
const WORDS: &str = "use the word zebra-7";
/// The prefix of a scene's name, which ends with the name of its client.
pub(super) const SCENE: &str = "message-";

/// Returns one run for each client that takes messages while it works.
pub(super) fn runs() -> impl Iterator<Item = RealRun> {
    let clients: [(&str, &[&str]); 2] = [("codex", &["codex"]), ("claude", &[CLAUDE])];
    clients.into_iter().map(|(client, clients)| RealRun {
        name: format!("{}-{SCENE}{client}", super::NAME),
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
    let team = LabTeam::of_lab(TEAM)?;
    let task = format!("Do it. [[scenario:ok]] [[cmd:{TOOL}; echo mock > hello.txt]]");
    team.create("Change a file", &task)?;
    let start = format!("worker start --name {WORKER} --json --provider {client}");
    team.ask(&start, &[])?;
    team.until_running(TOOL)?;
    let before = requests()?;
    let line = format!("message send --to {WORKER} --from lead --json");
    let message = team.ask(&line, &[WORDS])?["message"]["id"].take();
    let completed = team.until(&["task.completed"])?;
    let asked = requests()?;
    let found = &mut report.differences;
    let has_words = |request: &String| request.contains(WORDS);
    check!(found, !before.iter().any(has_words) => "a request before the message has it");
    let next = asked
        .get(before.len())
        .context("no request after the message")?;
    check!(found, has_words(next) => "the next request has no {WORDS:?}");
    let is_marked =
        next.contains("A message for you from lead:") && next.contains(&format!("> {WORDS}"));
    check!(found, is_marked => "the message is not marked as the lead's");
    let listed = team.ask("message list --json", &[])?;
    let receipt = list(&listed["messages"]).find(|listed| listed["id"] == message);
    let receipt = receipt.context("no such message")?;
    let (sent, delivered) = (text(&receipt["sentAt"]), text(&receipt["deliveredAt"]));
    let ended = text(&completed["ts"]);
    let is_in_time = !delivered.is_empty() && sent <= delivered && delivered <= ended;
    check!(found, is_in_time => "sent {sent}, delivered {delivered:?}, task ended {ended}");
    team.create_task("Change a file", "Do it. [[scenario:text]]")?;
    wait_for("the end of the next task", WAIT, || {
        Ok((team.events("task.completed")?.len() == 2).then_some(()))
    })?;
    let is_told_again = requests()?[asked.len()..].iter().any(has_words);
    check!(found, !is_told_again => "the next task is told again");
    let failed = team.events("task.failed")?;
    check!(found, failed.is_empty() => "a task failed: {failed:?}");
    let (holds, place, count) = (found.is_empty(), before.len() + 1, asked.len());
    let what = format!("{client}: a message in mid-task is in the next request, and told once");
    claim!(report, holds => what,
        "request {place} of {count} of its task has it; sent {sent}, delivered {delivered}, task ended {ended}");
    team.ask("shutdown --json --team", &[TEAM])?;
    Ok(report)
}

/// Returns all requests to the model server, in order, with their texts unescaped.
fn requests() -> Result<Vec<String>> {
    let out = std::env::var("LAB_OUT").context("LAB_OUT is not set")?;
    let out = Path::new(&out);
    let log = out.join("api.jsonl");
    let requests: Vec<String> = if log.is_file() {
        let log = std::fs::read_to_string(log)?;
        log.lines().map(str::to_owned).collect()
    } else {
        let mut names = files(out, &["api"])?;
        names.retain(|name| name.ends_with(".req.json"));
        let read = |name: &String| std::fs::read_to_string(out.join(name));
        names.iter().map(read).collect::<Result<_, _>>()?
    };
    let values = requests
        .iter()
        .map(|request| serde_json::from_str::<Value>(request));
    Ok(values
        .flatten()
        .map(|request| all_texts(&request))
        .collect())
}

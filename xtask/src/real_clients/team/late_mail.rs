//! A client that takes nothing while it works: what came meanwhile is the next prompt of its session, within the same task.

use std::time::Duration;

use anyhow::Result;

use super::super::Report;
use super::super::model_server::{ModelRequest, Step};
use super::{Surroundings, done, new_project};
use crate::product::{list, text, wait_for};

const TEAM: &str = "late-mail";
const WORKER: &str = "ann";
const COMMAND: &str = "sleep 6; echo done > work.txt";
const WORDS: &str = "heed swift-61";
/// The longest that something is waited for.
const WAIT: Duration = Duration::from_secs(90);

fn script(request: &ModelRequest) -> Step {
    match request.results.len() {
        0 => Step::Shell(COMMAND.to_owned()),
        _ if request.texts.contains(WORDS) => done("It is heeded.", ""),
        _ => done("The work is done.", ""),
    }
}

/// Plays the scene with Gemini CLI, inside the lab.
pub(super) fn play() -> Result<Report> {
    let lab = Surroundings::make(script)?;
    let project = new_project(TEAM, &[("README.md", "# Mail\n")])?;
    lab.ask(&project, &["team", "create", TEAM])?;
    let task = [
        "task",
        "create",
        "--team",
        TEAM,
        "--subject",
        "Work for a while",
    ];
    lab.ask(&project, &task)?;
    let start = [
        "worker",
        "start",
        "--team",
        TEAM,
        "--name",
        WORKER,
        "--provider",
        "gemini",
        "--json",
    ];
    lab.ask(&project, &start)?;
    let ended = wait_for("the command of the agent", WAIT, || {
        let events = lab.events(&project, TEAM, "agent.event")?;
        let runs = events
            .iter()
            .any(|event| event.to_string().contains("sleep 6"));
        Ok(runs.then_some(()))
    })
    .and_then(|()| {
        lab.ask(
            &project,
            &["message", "send", "--team", TEAM, "--to", WORKER, WORDS],
        )
    })
    .and_then(|_| {
        wait_for("the end of the task", WAIT, || {
            let ended = lab.events(&project, TEAM, "task.completed")?;
            Ok((!ended.is_empty()).then_some(()))
        })
    });
    let mut report = Report::default();
    let completed = lab.events(&project, TEAM, "task.completed")?;
    let failed = lab.events(&project, TEAM, "task.failed")?;
    let shown = lab.ask(&project, &["message", "list", "--team", TEAM, "--json"])?;
    lab.ask(&project, &["shutdown", "--team", TEAM, "--force", "--json"])?;
    let requests = lab.server.requests();
    let heard = requests
        .iter()
        .position(|request| request.texts.contains(WORDS));
    let seen = format!(
        "request {} of {}",
        heard.map_or(0, |place| place + 1),
        requests.len()
    );
    let is_next = heard.is_some_and(|place| place == 2 && requests.len() == 3);
    report.claim(
        "gemini: what came during its turn is the next prompt of its session",
        is_next,
        seen,
    );
    let is_marked = heard.is_some_and(|place| {
        requests[place]
            .texts
            .contains("A message for you from lead:")
    });
    report.claim("gemini: and it says who wrote it", is_marked, WORDS);
    let is_done = ended.is_ok() && completed.len() == 1 && failed.is_empty();
    report.claim(
        "gemini: the task is done once",
        is_done,
        format!("{} completed, {} failed", completed.len(), failed.len()),
    );
    let mut messages = list(&shown["messages"]);
    let receipt = messages.find(|message| message["content"] == WORDS);
    let delivered = receipt
        .map(|message| text(&message["deliveredAt"]))
        .unwrap_or_default();
    let over = completed
        .first()
        .map(|event| text(&event["ts"]))
        .unwrap_or_default();
    let is_in_time = !delivered.is_empty() && delivered <= over;
    report.claim(
        "gemini: the receipt is older than the end of the task",
        is_in_time,
        format!("delivered {delivered:?}, ended {over}"),
    );
    Ok(report)
}

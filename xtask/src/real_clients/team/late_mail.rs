//! A client that takes no messages while it works: messages that arrive meanwhile are the next prompt of its session,
//! within the same task.

use anyhow::Result;

use super::super::Report;
use super::super::model_server::{ModelRequest, Step};
use super::{LabTeam, Surroundings, claim, done};
use crate::product::{list, text};

const TEAM: &str = "late-mail";
const WORKER: &str = "ann";
const COMMAND: &str = "sleep 6; echo done > work.txt";
const WORDS: &str = "heed swift-61";

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
    let team = lab.new_project(TEAM, &[("README.md", "# Mail\n")])?;
    team.create("Work for a while", "")?;
    team.ask("worker start --provider gemini --json --name", &[WORKER])?;
    let ended = write_in_the_middle(&team);
    let mut report = Report::default();
    let completed = team.events("task.completed")?;
    let failed = team.events("task.failed")?;
    let listed = team.ask("message list --json", &[])?;
    team.ask("shutdown --force --json --team", &[TEAM])?;
    let requests = lab.server.requests();
    let heard = requests
        .iter()
        .position(|request| request.texts.contains(WORDS));
    let (place, count) = (heard.map_or(0, |place| place + 1), requests.len());
    claim!(report, place == 3 && count == 3 =>
        "gemini: what came during its turn is the next prompt of its session", "request {place} of {count}");
    let sender = "A message for you from lead:";
    let is_marked = heard.is_some_and(|place| requests[place].texts.contains(sender));
    claim!(report, is_marked => "gemini: and it says who wrote it", "{WORDS}");
    let (done, failed) = (completed.len(), failed.len());
    let is_once = ended.is_ok() && done == 1 && failed == 0;
    claim!(report, is_once => "gemini: the task is done once", "{done} completed, {failed} failed");
    let receipt = list(&listed["messages"]).find(|message| message["content"] == WORDS);
    let delivered = receipt.map_or("", |message| text(&message["deliveredAt"]));
    let over = completed.first().map_or("", |event| text(&event["ts"]));
    claim!(report, !delivered.is_empty() && delivered <= over =>
        "gemini: the receipt is older than the end of the task", "delivered {delivered:?}, ended {over}");
    Ok(report)
}

/// Sends a message to the worker while it runs its command, and waits for the end of its task.
fn write_in_the_middle(team: &LabTeam) -> Result<()> {
    team.until_running("sleep 6")?;
    team.ask("message send --to", &[WORKER, WORDS])?;
    team.until(&["task.completed"]).map(drop)
}

//! A message to a worker while it runs a command, judged by the requests to its model server.
//!
//! A client that takes messages while it works has it in the next request of the same task; for another one it is the
//! next prompt of its session, within the same task. No request of a later task has it, and the receipt is older than
//! the end of the task.

use anyhow::{Context, Result};

use super::super::Report;
use super::super::model_server::{ModelRequest, Step};
use super::{LabTeam, Surroundings, WAIT, WORKER, claim, done};
use crate::product::{list, text, wait_until};

const TEAM: &str = "talk";
/// The command during which the message arrives.
const COMMAND: &str = "sleep 6; echo done > work.txt";
/// The text of the message, which is unique.
const WORDS: &str = "heed swift-61";

fn script(request: &ModelRequest) -> Step {
    match request.results.len() {
        0 if request.task == "1" => Step::Shell(COMMAND.to_owned()),
        _ if request.texts.contains(WORDS) => done("It is heeded.", ""),
        _ => done("The work is done.", ""),
    }
}

/// Plays the scene of a client, inside the lab.
pub(super) fn play(client: &str) -> Result<Report> {
    let lab = Surroundings::make(script)?;
    let team = lab.new_project(TEAM, &[("README.md", "# Mail\n")])?;
    team.create("Work for a while", "")?;
    team.start_worker(client)?;
    let ended = write_in_the_middle(&team);
    let completed = team.events("task.completed")?;
    let failed = team.events("task.failed")?.len();
    let listed = team.ask("message list --json", &[])?;
    team.shut_down()?;
    let mut report = Report::default();
    let of = |what: &str| format!("{client}: {what}");
    let (requests, later): (Vec<_>, Vec<_>) =
        (lab.server.requests().into_iter()).partition(|request| request.task == "1");
    let has_words = |request: &ModelRequest| request.texts.contains(WORDS);
    let heard = requests.iter().position(has_words);
    let (place, count) = (heard.map_or(0, |place| place + 1), requests.len());
    // Gemini CLI takes no messages while it works.
    let (what, is_next) = match client {
        "gemini" => (
            "is the next prompt of its session",
            place == 3 && count == 3,
        ),
        _ => ("is in the next request", place == 2),
    };
    claim!(report, is_next => of(&format!("what came in mid-task {what}")), "request {place} of {count}");
    let heard = heard.map_or("", |place| &requests[place].texts);
    let is_marked =
        heard.contains("A message for you from lead:") && heard.contains(&format!("> {WORDS}"));
    claim!(report, is_marked => of("and it says who wrote it"), "{WORDS}");
    let is_told_again = later.iter().any(has_words);
    claim!(report, !is_told_again && !later.is_empty() =>
        of("the next task is not told again"), "{} requests", later.len());
    let done = completed.len();
    claim!(report, done == 2 && failed == 0 => of("each task is done once"), "{done} completed, {failed} failed");
    if let Err(error) = ended {
        claim!(report, false => of("the message is sent, and both tasks end"), "{error:#}");
    }
    let receipt = list(&listed["messages"]).find(|message| message["content"] == WORDS);
    let receipt = receipt.context("no such message")?;
    let (sent, delivered) = (text(&receipt["sentAt"]), text(&receipt["deliveredAt"]));
    let over = completed.first().map_or("", |event| text(&event["ts"]));
    claim!(report, !delivered.is_empty() && sent <= delivered && delivered <= over =>
        of("the receipt is older than the end of the task"), "sent {sent}, delivered {delivered:?}, ended {over}");
    Ok(report)
}

/// Sends a message to the worker while it runs its command, and waits for the end of its task and of one more.
fn write_in_the_middle(team: &LabTeam) -> Result<()> {
    team.until_running("sleep 6")?;
    team.ask("message send --from lead --to", &[WORKER, WORDS])?;
    team.until(&["task.completed"])?;
    team.create_task("Work once more", "")?;
    wait_until("the end of the next task", WAIT, || {
        Ok(team.events("task.completed")?.len() == 2)
    })
}

//! Each client calls every tool of a worker: what it sends arrives in its own name, what it asks is answered, and it is asked
//! for no permission on the way.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::super::Report;
use super::super::model_server::{ModelRequest, Step};
use super::{Surroundings, done, new_project, shown};
use crate::product::{text, wait_for};

const TEAM: &str = "tools";
const WORKER: &str = "ann";
/// The longest that something is waited for.
const WAIT: Duration = Duration::from_secs(90);
/// Words that nobody else says.
const SENT: &str = "ready for you, tern-51";
const FORGED: &str = "forged words, tern-52";
const MAIL: &str = "mail for you, tern-53";
const QUESTION: &str = "May I go on, tern-54?";
const ANSWER: &str = "Go on, tern-55.";
const FINDING: &str = "It is too slow, tern-56.";
const PROPOSAL: &str = "Make it fast, tern-57";
const PROGRESS: &str = "half of it, tern-58";

/// The tools that a worker has, and no others.
const TOOLS: [&str; 8] = [
    "add_finding",
    "ask",
    "inbox_read",
    "message_send",
    "propose_task",
    "report_progress",
    "task_get",
    "team_status",
];

/// What some clients list for the server itself.
const SERVER: [&str; 2] = ["mcp__teamster", "teamster"];

/// The calls of the scripted model, one after the other.
fn call(turn: usize) -> Option<Step> {
    let calls = [
        ("message_send", json!({ "to": "lead", "text": SENT })),
        (
            "message_send",
            json!({ "to": "lead", "text": FORGED, "from": "lead" }),
        ),
        ("ask", json!({ "question": QUESTION })),
        ("inbox_read", json!({})),
        (
            "add_finding",
            json!({ "severity": "major", "claim": FINDING }),
        ),
        ("propose_task", json!({ "subject": PROPOSAL })),
        (
            "report_progress",
            json!({ "text": PROGRESS, "percent": 50 }),
        ),
        ("task_get", json!({ "id": "1" })),
        ("team_status", json!({})),
    ];
    let (name, arguments) = calls.into_iter().nth(turn)?;
    Some(Step::Tool(name, arguments))
}

/// Plays the scene of a client, inside the lab.
pub(super) fn play(client: &str) -> Result<Report> {
    let lab = Surroundings::make(|request: &ModelRequest| {
        call(request.results.len()).unwrap_or_else(|| done("All tools were called.", ""))
    })?;
    let project = new_project("tools", &[("README.md", "# Tools\n")])?;
    lab.ask(&project, &["team", "create", TEAM])?;
    let task = [
        "task",
        "create",
        "--team",
        TEAM,
        "--subject",
        "Call every tool",
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
        client,
        "--json",
    ];
    lab.ask(&project, &start)?;
    let mut report = Report::default();
    let ended = answer_and_wait(&lab, &project);
    let stopped = lab.ask(&project, &["shutdown", "--team", TEAM, "--force", "--json"]);
    if let Err(error) = ended.and(stopped) {
        let failed = lab.events(&project, TEAM, "task.failed")?;
        report.claim("the task is done", false, format!("{error:#} {failed:?}"));
    }
    judge(&mut report, &lab, &project, client)?;
    Ok(report)
}

/// Answers the question once it is asked, and writes to the worker before that; then waits for the end of the task.
fn answer_and_wait(lab: &Surroundings, project: &Path) -> Result<()> {
    let asked = wait_for("the question", WAIT, || {
        let asked = lab.events(project, TEAM, "question.asked")?;
        Ok(asked
            .into_iter()
            .find(|event| event["data"]["kind"] == "ask"))
    })?;
    lab.ask(
        project,
        &["message", "send", "--team", TEAM, "--to", WORKER, MAIL],
    )?;
    let id = format!("q{}", asked["seq"]);
    lab.ask(project, &["answer", "--team", TEAM, &id, ANSWER])?;
    wait_for("the end of the task", WAIT, || {
        let ended = lab.events(project, TEAM, "task.completed")?;
        let failed = lab.events(project, TEAM, "task.failed")?;
        Ok((!ended.is_empty() || !failed.is_empty()).then_some(()))
    })
}

fn judge(report: &mut Report, lab: &Surroundings, project: &Path, client: &str) -> Result<()> {
    let requests = lab.server.requests();
    let last = requests.last().context("the model was asked nothing")?;
    let version = version_of(client);
    let mut claim = |what: &str, holds: bool, seen: String| {
        report.claim(&format!("{client} {version}: {what}"), holds, seen);
    };
    let offered = offered_tools(last);
    claim(
        "offers the tools of a worker and no other",
        offered == TOOLS,
        offered.join(", "),
    );
    let result = |turn: usize| last.results.get(turn).cloned().unwrap_or_default();
    let events = |kind: &str| lab.events(project, TEAM, kind);
    let is_hers = |event: &Value, words: &str| {
        event["actor"] == WORKER && event["data"].to_string().contains(words)
    };

    let sent = events("message.sent")?;
    let arrived = sent.iter().filter(|event| is_hers(event, SENT)).count();
    claim(
        "message_send arrives in the worker's own name",
        arrived == 1,
        format!("{arrived} from {WORKER}"),
    );
    let forged = sent
        .iter()
        .filter(|event| event.to_string().contains(FORGED))
        .count();
    claim(
        "a forged sender is refused in words",
        // Gemini CLI looks at the schema itself.
        forged == 0 && (result(1).contains("from") || result(1).contains("additional properties")),
        shown(&result(1)),
    );
    let answered = events("question.answered")?;
    let by: Vec<&str> = answered.iter().map(|event| text(&event["actor"])).collect();
    claim(
        "ask waits and returns the person's answer",
        result(2).contains(ANSWER),
        format!("answered by {}", by.join(", ")),
    );
    let is_list = result(3).contains("messages") || result(3).contains(MAIL);
    let heard = requests
        .iter()
        .position(|request| request.texts.contains(MAIL));
    claim(
        "inbox_read answers, and the mail is known in the same task",
        heard.is_some() && (is_list || !result(3).contains("error")),
        format!("first in request {}", heard.map_or(0, |place| place + 1)),
    );
    let findings = events("finding.added")?;
    claim(
        "add_finding is recorded",
        findings.iter().any(|event| is_hers(event, FINDING)),
        format!("{} findings", findings.len()),
    );
    let asked = events("question.asked")?;
    let proposed = asked
        .iter()
        .filter(|event| event["data"]["kind"] == "proposal" && is_hers(event, PROPOSAL));
    claim(
        "propose_task becomes a question",
        proposed.count() == 1,
        shown(&result(5)),
    );
    let progress = events("worker.progress")?;
    claim(
        "report_progress is recorded",
        progress.iter().any(|event| is_hers(event, PROGRESS)),
        format!("{} reports", progress.len()),
    );
    claim(
        "task_get shows the task",
        result(7).contains("Call every tool"),
        shown(&result(7)),
    );
    claim(
        "team_status shows the team",
        result(8).contains(WORKER),
        shown(&result(8)),
    );
    let agent = events("agent.event")?;
    let asked = agent
        .iter()
        .filter(|event| event.to_string().contains("ermission"))
        .count();
    claim(
        "no permission is asked for",
        asked == 0 && !agent.is_empty(),
        format!("in {} events of the agent", agent.len()),
    );
    let completed = events("task.completed")?.len();
    claim(
        "the task is done",
        completed == 1,
        format!("{completed} completed"),
    );
    Ok(())
}

/// Returns the tools of our server that a client offers to its model, sorted, by the names that we gave them.
fn offered_tools(request: &ModelRequest) -> Vec<String> {
    let mut offered: Vec<String> = request.tool_names();
    offered.retain(|name| name.contains("teamster"));
    for name in &mut offered {
        let tail = |tool: &&&str| {
            name.strip_suffix(**tool).is_some_and(|rest| {
                rest.ends_with("teamster__") || rest.ends_with('/') || rest.ends_with("teamster_")
            })
        };
        if let Some(tool) = TOOLS.iter().find(tail) {
            *name = (*tool).to_owned();
        }
    }
    offered.retain(|name| !SERVER.contains(&name.as_str()));
    offered.sort();
    offered
}

/// Returns the version of a client in this scene.
fn version_of(client: &str) -> String {
    let var = |name: &str| std::env::var(name).unwrap_or_default();
    match client {
        "codex" => var(super::CODEX_VERSION),
        "gemini" => super::GEMINI.to_owned(),
        _ => var(super::CLAUDE_VERSION),
    }
}

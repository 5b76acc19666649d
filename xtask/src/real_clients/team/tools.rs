//! Each client calls every tool of a worker: its messages arrive in its own name, its question is answered, and no
//! permission is requested on the way.

use anyhow::{Context, Result};
use serde_json::json;

use super::super::Report;
use super::super::model_server::{ModelRequest, Step};
use super::{LabTeam, Surroundings, WORKER, claim, done, shown};

const TEAM: &str = "tools";
/// Unique texts.
const SENT: &str = "ready for you, tern-51";
const FORGED: &str = "forged words, tern-52";
const MAIL: &str = "mail for you, tern-53";
const QUESTION: &str = "May I go on, tern-54?";
const ANSWER: &str = "Go on, tern-55.";
const FINDING: &str = "It is too slow, tern-56.";
const PROPOSAL: &str = "Make it fast, tern-57";
const PROGRESS: &str = "half of it, tern-58";

/// All tools of a worker.
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

/// The calls that the journal records once: the claim, the type of the event, and what its data contains.
const RECORDED: [(&str, &str, &[&str]); 4] = [
    (
        "message_send arrives in the worker's own name",
        "message.sent",
        &[SENT],
    ),
    ("add_finding is recorded", "finding.added", &[FINDING]),
    (
        "propose_task becomes a question",
        "question.asked",
        &[PROPOSAL, "\"kind\":\"proposal\""],
    ),
    (
        "report_progress is recorded",
        "worker.progress",
        &[PROGRESS],
    ),
];
/// The calls whose results contain something: the claim, the turn, and the text.
const RETURNED: [(&str, usize, &str); 3] = [
    ("ask waits and returns the person's answer", 2, ANSWER),
    ("task_get shows the task", 7, "Call every tool"),
    ("team_status shows the team", 8, WORKER),
];

/// Entries that some clients list for the server itself.
const SERVER: [&str; 2] = ["mcp__teamster", "teamster"];

/// Returns the calls of the scripted model, one for each turn.
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
    let team = lab.new_project(TEAM, &[("README.md", "# Tools\n")])?;
    team.create("Call every tool", "")?;
    team.start_worker(client)?;
    let mut report = Report::default();
    let ended = answer_and_wait(&team);
    if let Err(error) = ended.and(team.shut_down()) {
        let failed = team.events("task.failed")?;
        claim!(report, false => "the task is done", "{error:#} {failed:?}");
    }
    judge(&mut report, &lab.server.requests(), &team, client)?;
    Ok(report)
}

/// Waits for the question, sends a message to the worker, answers, and waits for the end of the task.
fn answer_and_wait(team: &LabTeam) -> Result<()> {
    let asked = team.until_event(&["question.asked"], |event| event["data"]["kind"] == "ask")?;
    team.ask("message send --to", &[WORKER, MAIL])?;
    team.ask(&format!("answer q{}", asked["seq"]), &[ANSWER])?;
    team.until(&["task.completed", "task.failed"]).map(drop)
}

fn judge(
    report: &mut Report,
    requests: &[ModelRequest],
    team: &LabTeam,
    client: &str,
) -> Result<()> {
    let last = requests.last().context("the model was asked nothing")?;
    let result = |turn: usize| last.results.get(turn).map_or("", String::as_str);
    let version = version_of(client);
    let of = |what: &str| format!("{client} {version}: {what}");
    let offered = offered_tools(last);
    claim!(report, offered == TOOLS => of("offers the tools of a worker and no other"), "{}", offered.join(", "));
    for (what, kind, facts) in RECORDED {
        let mut events = team.events(kind)?;
        events.retain(|event| {
            let data = event["data"].to_string();
            event["actor"] == WORKER && facts.iter().all(|fact| data.contains(fact))
        });
        claim!(report, events.len() == 1 => of(what), "{} {kind} of {WORKER}", events.len());
    }
    for (what, turn, fact) in RETURNED {
        claim!(report, result(turn).contains(fact) => of(what), "{}", shown(result(turn)));
    }
    let sent = team.events("message.sent")?;
    let is_forged = sent.iter().any(|event| event.to_string().contains(FORGED));
    // Gemini CLI validates the schema itself.
    let is_refused = result(1).contains("from") || result(1).contains("additional properties");
    claim!(report, !is_forged && is_refused => of("a forged sender is refused in words"), "{}", shown(result(1)));
    let mut heard = requests.iter();
    let heard = heard.position(|request| request.texts.contains(MAIL));
    let is_list = result(3).contains("messages") || result(3).contains(MAIL);
    claim!(report, heard.is_some() && (is_list || !result(3).contains("error")) =>
        of("inbox_read answers, and the mail is known in the same task"),
        "first in request {}", heard.map_or(0, |place| place + 1));
    let agent = team.events("agent.event")?;
    let mut events = agent.iter();
    let is_asked = events.any(|event| event.to_string().contains("ermission"));
    claim!(report, !is_asked && !agent.is_empty() =>
        of("no permission is asked for"), "in {} events of the agent", agent.len());
    let completed = team.events("task.completed")?.len();
    claim!(report, completed == 1 => of("the task is done"), "{completed} completed");
    Ok(())
}

/// Returns the tools of teamster's server that a client offers to its model, sorted, by their original names.
fn offered_tools(request: &ModelRequest) -> Vec<String> {
    let mut offered = request.tool_names();
    offered.retain(|name| name.contains("teamster"));
    for name in &mut offered {
        let is_it = |tool: &&&str| {
            let before = name.strip_suffix(**tool).unwrap_or_default();
            ["teamster__", "/", "teamster_"]
                .iter()
                .any(|end| before.ends_with(end))
        };
        if let Some(tool) = TOOLS.iter().find(is_it) {
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

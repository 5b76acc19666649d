//! A whole run: Claude Code leads; Claude Code, Codex and Gemini CLI work; Codex reviews. A second team works at the
//! same time in another project of the same user.
//!
//! ```text
//! plan ─▶ 1 greeting (claude) ──┐
//!         2 separator (codex) ──┴▶ 3 joined (gemini) ─▶ review: blocker ─▶ fix ─▶ review of the fix ─▶ landed
//!         4 twice (claude): the first attempt fails
//! ```
//!
//! While 1, 2 and 3 run a command, the person sends them messages. Before that, 2 asks a question, which the leader
//! answers. Every fact that an agent must know is a unique word, so that the requests show which agent knew it, and
//! when.

mod judge;

use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use teamster_testkit::RunCmd;

use super::super::Report;
use super::super::model_server::{ModelRequest, PromptRole, Step};
use super::{LabTeam, Surroundings, claim, done};
use crate::product::{wait_for, wait_until};

const TEAM: &str = "alpha";
const OTHER_TEAM: &str = "beta";
/// Words that only the first or only the second team uses.
const MARK: &str = "marker-alpha-71";
const OTHER_MARK: &str = "marker-beta-72";
/// The timeout of every wait.
const WAIT: Duration = Duration::from_secs(300);

/// The person's task for the run.
const REQUEST: &str = "write a greeting and a separator, and join both, marker-alpha-71";
const CAST: &str = "1:claude:executor,1:codex:executor,1:gemini:tester,1:codex:reviewer";
const CHECK: &str = "test -s joined.txt && test -s twice.txt";
/// Texts of the plan.
const ANALYSIS: &str = "The project has no greeting yet, dunlin-20.";
const DESCRIPTION: &str = "Put it into one line, knot-21, marker-alpha-71.";
const ACCEPT: &str = "The file ends with a line end, curlew-22.";
/// Handovers and reports of tasks.
const GREETING: &str = "The greeting is in greeting.txt, heron-31, marker-alpha-71.";
const SEPARATOR: &str = "The separator is in separator.txt, plover-33, marker-alpha-71.";
const FAILURE: &str = "The first way does not work, stork-34.";
/// A question, and the leader's answer.
const QUESTION: &str = "Which separator shall it be, otter-32?";
const ANSWER: &str = "Take a semicolon, gannet-35.";
/// The reviewer's finding.
const CLAIM: &str = "The joined file says nothing about petrel-36.";
/// The leader's decision about it.
const TRIAGE: &str = "Add one line at the end, marker-alpha-71.";
/// The person's messages to the workers in the middle of their tasks.
const MESSAGES: [(&str, &str, &str); 3] = [
    ("1", "worker-1", "heed ibis-41, marker-alpha-71"),
    ("2", "worker-2", "heed ibis-42, marker-alpha-71"),
    ("3", "worker-3", "heed ibis-43, marker-alpha-71"),
];

/// Plays the scene, inside the lab.
pub(super) fn play() -> Result<Report> {
    let lab = Surroundings::make(script)?;
    let files = [
        ("README.md", "# Greetings\n"),
        ("AGENTS.md", "Keep lines short.\n"),
    ];
    let first = lab.new_project(TEAM, &files)?;
    let second = lab.new_project(OTHER_TEAM, &[("README.md", "# Other\n")])?;
    let run = RunCmd::new(TEAM, CAST, REQUEST)
        .leader("claude")
        .verify(CHECK)
        .more(&["--review", "require"]);
    let start = |team: &LabTeam, run: RunCmd| {
        let run = run.approve("auto").more(&["--yes"]);
        team.start_run(&run)
    };
    let mut hosts = [start(&first, run)?, start(&second, other_run(&second)?)?];
    let told = tell(&first);
    let ended = wait_for("the end of both runs", WAIT, || {
        let [first, second] = &mut hosts;
        Ok(first.try_wait()?.zip(second.try_wait()?))
    });
    let mut report = Report::default();
    if told.is_err() || ended.is_err() {
        for (host, team) in hosts.iter_mut().zip([&first, &second]) {
            let _ = host.kill();
            let _ = team.shut_down();
        }
    }
    let ends = ended.map_or([None; 2], |(one, two)| [Some(one), Some(two)]);
    for (team, end) in [&first, &second].into_iter().zip(ends) {
        let said = std::fs::read_to_string(team.folder.with_extension("log")).unwrap_or_default();
        let last: Vec<&str> = said.lines().rev().take(3).collect();
        let is_good = end.is_some_and(|end| end.success());
        claim!(report, is_good => format!("the run of {} ends with 0", team.name), "{}", last.join(" < "));
    }
    if let Err(error) = told {
        claim!(report, false => "the person's words are sent in time", "{error:#}");
    }
    let requests = lab.server.requests();
    judge::judge_prompts(&mut report, &requests);
    judge::judge_briefings(&mut report, &requests);
    judge::judge_talk(&mut report, &first, &requests)?;
    judge::judge_review(&mut report, &first, &requests);
    judge::judge_teams(&mut report, &requests);
    Ok(report)
}

/// Returns the second run, whose plan is a file: two tasks, of which the second waits for the first.
fn other_run(team: &LabTeam) -> Result<RunCmd> {
    let tasks = format!(
        "[[tasks]]\nid = \"a\"\nsubject = \"Begin\"\nowner = \"worker-1\"\ndescription = \"{OTHER_MARK}\"\n\n\
         [[tasks]]\nid = \"b\"\nsubject = \"Go on\"\nowner = \"worker-2\"\nblockedBy = [\"a\"]\ndescription = \"{OTHER_MARK}\"\n"
    );
    let plan = team.write_plan(&tasks)?;
    let request = format!("do something else, {OTHER_MARK}");
    let run = RunCmd::new(OTHER_TEAM, "1:gemini,1:claude", &request);
    let run = run.plan(&plan).verify("true");
    Ok(run.more(&["--review", "off"]))
}

/// Sends a message to each worker while it runs the command of its task.
fn tell(team: &LabTeam) -> Result<()> {
    let worktrees = team.folder.join(".omc/worktrees").join(TEAM);
    let mut left = MESSAGES.to_vec();
    wait_until("the commands of the workers", WAIT, || {
        // The journal does not contain every command of an agent: one that follows another closely is omitted.
        let is_begun = |(task, worker, _): &mut (&str, &str, &str)| {
            worktrees
                .join(*worker)
                .join(format!("begun-{task}"))
                .exists()
        };
        for (_, worker, words) in left.extract_if(.., is_begun) {
            team.ask("message send --json --to", &[worker, words])?;
        }
        Ok(left.is_empty())
    })
}

/// Returns a command that takes long enough for a message to arrive meanwhile, and marks in its folder that it runs.
fn at_work(task: u32, work: &str) -> String {
    format!("touch begun-{task}; sleep 5; rm begun-{task}; {work}")
}

/// Returns the next step of each model.
fn script(request: &ModelRequest) -> Step {
    let (turn, prompt) = (request.results.len(), &request.prompt);
    match request.role {
        PromptRole::Planner if turn == 0 => Step::Shell("ls".to_owned()),
        PromptRole::Planner => plan(prompt),
        PromptRole::Leader => decide(prompt),
        PromptRole::Reviewer => review(prompt),
        PromptRole::Worker if request.team != OTHER_TEAM => work(&request.task, turn, prompt),
        PromptRole::Worker if turn == 0 => Step::Shell("sleep 4; echo x >> other.txt".to_owned()),
        PromptRole::Worker => done(
            &format!("Done, {OTHER_MARK}."),
            &format!("Take over, {OTHER_MARK}."),
        ),
    }
}

fn work(task: &str, turn: usize, prompt: &str) -> Step {
    match (task, turn) {
        ("1", 0) => Step::Shell(at_work(1, "echo hello > greeting.txt")),
        ("1", _) => done("The greeting is written.", GREETING),
        ("2", 0) => Step::Tool("ask", json!({ "question": QUESTION })),
        ("2", 1) => Step::Shell(at_work(2, "echo ';' > separator.txt")),
        ("2", _) => done("The separator is written.", SEPARATOR),
        ("3", 0) => Step::Shell(at_work(3, "cat greeting.txt separator.txt > joined.txt")),
        ("3", 1) => Step::Tool("report_progress", json!({ "text": "joined" })),
        ("3", _) => done("Both are joined.", ""),
        ("4", 0) if !prompt.contains("An earlier attempt") => {
            let report = json!({ "status": "failed", "summary": FAILURE });
            Step::Say(format!("```teamster\n{report}\n```"))
        }
        ("4", 0) => Step::Shell("echo twice > twice.txt".to_owned()),
        ("4", _) => done("It works now.", ""),
        // The fix that the review asked for.
        (_, 0) => Step::Shell("echo petrel-36 >> joined.txt".to_owned()),
        _ => done("It is mended.", ""),
    }
}

fn fenced(value: &serde_json::Value) -> Step {
    Step::Say(format!("Here it is.\n\n```json\n{value}\n```"))
}

fn plan(prompt: &str) -> Step {
    let task = |id: &str, owner: &str, path: &str, waits: &[&str]| {
        json!({
            "id": id, "subject": format!("Write {path}"), "description": DESCRIPTION, "owner": owner,
            "paths": [path], "blockedBy": waits,
        })
    };
    let mut plan = json!({ "tasks": [
        task("greeting", "worker-1", "greeting.txt", &[]),
        task("separator", "worker-2", "separator.txt", &[]),
        task("joined", "worker-3", "joined.txt", &["greeting", "separator"]),
        task("twice", "worker-1", "twice.txt", &[]),
    ]});
    // A field that is not in the prompt's schema would be refused.
    if prompt.contains("\"accept\"") {
        plan["tasks"][2]["accept"] = json!([ACCEPT]);
    }
    if prompt.contains("\"analysis\"") {
        plan["analysis"] = json!(ANALYSIS);
    }
    fenced(&plan)
}

/// Answers the question if there is one, and makes a task of the finding.
fn decide(prompt: &str) -> Step {
    let asked = prompt.split("Question q").nth(1);
    let asked = asked.filter(|_| prompt.contains("otter-32"));
    let number = asked.and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
    let actions = match number {
        Some(number) => {
            json!([{ "action": "answer", "question": format!("q{number}"), "text": ANSWER }])
        }
        None if prompt.contains("Finding f1 of ") => json!([{
            "action": "create_task", "subject": "Name it in the joined file", "description": TRIAGE,
            "findings": ["f1"], "owner": "worker-3", "paths": ["joined.txt"],
        }]),
        None => json!([]),
    };
    fenced(&json!({ "actions": actions }))
}

fn review(prompt: &str) -> Step {
    let finding = json!({
        "severity": "blocker", "path": "joined.txt", "line": 1, "claim": CLAIM,
        "evidence": "It has two lines.", "suggestion": "Add a line.",
    });
    let is_second = prompt.contains("You have reviewed it before");
    fenced(&if is_second {
        json!({ "verdict": "accept", "findings": [], "criteria": [] })
    } else {
        json!({ "verdict": "changes", "findings": [finding], "criteria": [] })
    })
}

//! Ten thousand messages for one reader: each is delivered once and in order, and they block nothing else.

use std::fmt::Write as _;
use std::io::Write as _;

use serde_json::json;

use crate::kit::now;
use crate::workers::{Crew, asking};

const MANY: usize = 10_000;
const TASKS: usize = 4;
/// The minimum number of short messages that a worker gives its agent at once.
const PAGE: usize = 150;
/// The longest prompt that a worker gives its agent, in characters.
const PROMPT: usize = 50_000;

/// Puts this many numbered messages into a box, as another program would.
fn flood(crew: &Crew, to: &str, count: usize) {
    let mut lines = String::new();
    for number in 0..count {
        let line = json!({
            "id": format!("{number:032x}"), "type": "message", "from": "user", "to": to,
            "content": format!("message number {number} of many"), "timestamp": now(),
        });
        let _ = writeln!(lines, "{line}");
    }
    let file = crew.project.claude(&format!("teams/crew/inbox/{to}.jsonl"));
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let mut file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(file)
        .unwrap();
    file.write_all(lines.as_bytes()).unwrap();
}

/// Returns the numbers of the messages in a text, in order.
fn numbers(text: &str) -> Vec<usize> {
    let parts = text.split("message number ").skip(1);
    parts
        .filter_map(|part| part.split_once(" of many")?.0.parse().ok())
        .collect()
}

#[test]
fn ten_thousand_messages_reach_the_lead_once_and_in_order_in_little_memory() {
    let crew = Crew::new();
    flood(&crew, "lead", MANY);
    let mut read = Vec::new();
    for limit in ["1", "2500", "10000"] {
        let line = format!(
            "ulimit -v 200000; teamster message read --as lead --ack --json --limit {limit}"
        );
        let ran = crew.project.shell(&line).run().succeeds();
        read.extend(numbers(&ran.stdout));
    }
    assert_eq!(read, (0..MANY).collect::<Vec<_>>());
}

#[test]
fn messages_that_fill_several_prompts_reach_a_worker_once_and_in_order() {
    let crew = Crew::new();
    crew.project.run(["team", "join", "crew", "ann"]).exits(0);
    flood(&crew, "ann", MANY);
    for _ in 0..TASKS {
        crew.task("read");
    }
    let prompts = crew.project.home().join("prompts");
    std::fs::create_dir(&prompts).unwrap();
    crew.start(
        "ann",
        &format!("cat > {}/$TEAMSTER_TASK_ID", prompts.display()),
    );
    crew.until_status(&TASKS.to_string(), "completed");
    let mut read = Vec::new();
    for id in 1..=TASKS {
        let text = std::fs::read_to_string(prompts.join(id.to_string())).unwrap();
        assert!(text.chars().count() <= PROMPT);
        read.extend(numbers(&text));
    }
    assert!(read.len() >= TASKS * PAGE, "{} messages", read.len());
    assert_eq!(read, (0..read.len()).collect::<Vec<_>>());
}

#[test]
fn answer_behind_a_flood_of_messages_reaches_the_agent() {
    let crew = Crew::new();
    let (folder, request) = asking::client(&crew);
    let id = crew.task("say hello");
    asking::start(&crew, &folder, &[("TEAMSTER_PERMISSIONS_SHELL", "ask")]);
    crew.until("a request", || {
        let events = crew.events("agent.event");
        events.iter().any(|event| event["data"]["what"] == "asked")
    });
    flood(&crew, "ann", MANY);
    crew.project
        .run(["worker", "answer", "ann", &request, "allow"])
        .succeeds();
    crew.until_status(&id, "completed");
    assert!(folder.join("answers").exists());
}

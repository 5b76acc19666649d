//! Questions of agents are on every interface, and can be answered from each.

use std::time::Duration;

use serde_json::{Value, json};
use teamster_store::Store as _;
use teamster_testkit::recorded;
use teamster_types::TaskId;
use teamster_types::task::Token;

use super::terminal::Terminal;
use super::{Studio, wait_for};
use crate::kit::{TestProject, living};

const TEAM: &str = "/api/v1/teams/fix-auth";

/// Makes a worker at task 1 whose agent asks a question and a permission, and a task that waits for an answer.
fn asking() -> TestProject {
    let project = TestProject::with_team();
    project.task("Serve the page", &[]);
    project.claim("worker-1", "1");
    let stuck = project.task("Name the port", &[]);
    let token = Token::new(project.claim("worker-2", &stuck));
    let busy = json!({ "currentTaskId": "1", "status": "executing" });
    project.beat("worker-1", Duration::ZERO, &living(), &busy);
    let store = project.store(Duration::ZERO);
    let team = "fix-auth".parse().unwrap();
    let task: TaskId = "1".parse().unwrap();
    let tell = |kind: &str, data: Value| {
        let event = recorded(kind, "worker-1", &data).task(&task);
        store.record(&team, event).unwrap()
    };
    tell("worker.started", json!({}));
    tell(
        "question.asked",
        json!({ "kind": "ask", "text": "Which of the two\nports?", "to": "person" }),
    );
    tell(
        "agent.event",
        json!({ "what": "asked", "request": "r1", "text": "Bash rm -r build" }),
    );
    tell(
        "question.asked",
        json!({ "kind": "proposal", "text": "", "to": "person",
            "proposal": { "subject": "Test the port", "description": "Nobody does.", "paths": [], "blockedBy": [] } }),
    );
    let stuck: TaskId = stuck.parse().unwrap();
    store.block(&team, &stuck, &token, "Which name?").unwrap();
    project
}

/// Returns the question of a kind from the API's view.
fn question(view: &Value, kind: &str) -> Value {
    let all = view["questions"].as_array().unwrap();
    all.iter().find(|it| it["kind"] == kind).unwrap().clone()
}

fn id_of(view: &Value, kind: &str) -> String {
    question(view, kind)["id"].as_str().unwrap().to_owned()
}

#[test]
fn status_says_what_waits_for_a_person_and_how_to_answer_it() {
    let project = asking();
    let text = project.run(["status"]).succeeds().stdout;
    for words in [
        "worker-1 asks about task 1: Which of the two ports?",
        "\" --team fix-auth",
        "worker-1 proposes a task: Test the port",
        "--accept --team fix-auth",
        "worker-2 cannot go on with task 2: Which name?",
        "worker-1 asks for permission: Bash rm -r build",
        "teamster worker answer worker-1 r1 allow --team fix-auth",
        "waiting for an answer",
    ] {
        assert!(text.contains(words), "{words} is not in\n{text}");
    }
    let status = project.run(["status", "--json"]).succeeds().json();
    let team = &status["teams"][0];
    assert_eq!(team["questions"].as_array().unwrap().len(), 3);
    assert_eq!(team["requests"][0]["worker"], "worker-1");
    assert_eq!(team["requests"][0]["request"], "r1");
}

#[test]
fn page_shows_questions_and_answers_them_once() {
    let project = asking();
    let studio = Studio::start(&project);
    let view = wait_for("the questions", || {
        let view = studio.json(TEAM);
        (view["questions"].as_array()?.len() == 3).then_some(view)
    });
    assert_eq!(question(&view, "ask")["state"], "open");
    assert_eq!(view["workers"][0]["status"], "waiting for an answer");
    assert_eq!(view["workers"][0]["requests"][0]["request"], "r1");
    let row = wait_for("the list of teams", || {
        let teams = studio.json("/api/v1/teams");
        let row = teams["teams"][0].clone();
        (row["questions"] == 4).then_some(row)
    });
    assert_eq!(row["id"], "fix-auth");

    let ask = id_of(&view, "ask");
    let path = format!("{TEAM}/questions/{ask}");
    let answered = studio.post(&path, &json!({ "text": "the first" }));
    assert_eq!(answered.status, 200, "{}", answered.text());
    assert_eq!(answered.json()["answer"], "the first");
    let late = studio.post(&path, &json!({ "text": "the second" }));
    assert_eq!(late.status, 409, "{}", late.text());
    assert!(late.text().contains("user answered first: the first"));
    let late = project.run(["answer", &ask, "the third"]).fails(4);
    assert!(late.stderr.contains("answered first"), "{}", late.stderr);

    let proposal = id_of(&view, "proposal");
    let path = format!("{TEAM}/questions/{proposal}");
    let made = studio.post(&path, &json!({ "accept": true }));
    assert_eq!(made.json()["task"], "3", "{}", made.text());

    let blocked = id_of(&view, "blocked");
    let path = format!("{TEAM}/questions/{blocked}");
    let unblocked = studio.post(&path, &json!({ "text": "call it http" }));
    assert_eq!(unblocked.status, 200, "{}", unblocked.text());
    wait_for("a task that can be claimed", || {
        let task = studio.json(&format!("{TEAM}/tasks/2"));
        (task["task"]["state"] == "claimable").then_some(())
    });
    let view = wait_for("the answers", || {
        let view = studio.json(TEAM);
        let all = view["questions"].as_array()?.clone();
        all.iter()
            .all(|it| it["state"] == "answered")
            .then_some(view)
    });
    let told = question(&view, "blocked");
    assert_eq!(told["answer"], "call it http");
    assert_eq!(told["answeredBy"], "user");
    assert_eq!(view["workers"][0]["status"], "executing");

    let path = format!("{TEAM}/workers/worker-1/permission");
    let denied = studio.post(
        &path,
        &json!({ "request": "r1", "allow": false, "reason": "no" }),
    );
    assert_eq!(denied.json()["allowed"], false, "{}", denied.text());
    let late = studio.post(&path, &json!({ "request": "r1", "allow": true }));
    assert_eq!(late.status, 409, "{}", late.text());
    assert!(
        late.text().contains("another decision came first"),
        "{}",
        late.text()
    );
    let unknown = studio.post(&path, &json!({ "request": "r9", "allow": true }));
    assert_eq!(unknown.status, 404, "{}", unknown.text());
    let mail = project.run(["message", "read", "--as", "worker-1", "--json"]);
    let mail = mail.json();
    let answers = mail["messages"].as_array().unwrap().iter();
    let answers = answers.filter(|it| it["type"] == "permission_answer");
    assert_eq!(answers.count(), 1, "{mail}");
}

#[test]
fn answer_to_what_is_no_question_is_refused_in_words() {
    let project = TestProject::with_team();
    let studio = Studio::start(&project);
    for (word, body, status) in [
        ("q99", json!({ "text": "x" }), 404),
        ("99", json!({ "text": "x" }), 404),
        ("what", json!({ "text": "x" }), 403),
        ("q1", json!({ "words": "x" }), 400),
    ] {
        let answer = studio.post(&format!("{TEAM}/questions/{word}"), &body);
        assert_eq!(answer.status, status, "{word}: {}", answer.text());
        assert!(answer.json()["error"]["message"].as_str().unwrap().len() > 10);
    }
}

#[test]
fn top_shows_questions_and_a_key_answers_them() {
    let project = asking();
    let frame = project.run(["top", "--once"]).succeeds().stdout;
    for words in [
        "4 questions for you",
        "waits for you (4); its number answers it",
        "asks about task 1: Which of the two ports?",
        "worker-1 asks for permission: Bash rm -r build",
        "1 asks",
    ] {
        assert!(frame.contains(words), "{words} is not in\n{frame}");
    }
    let mut terminal = Terminal::start(&project, &["top"]);
    terminal.wait_for("1-9 answer");
    // While an answer is typed, letters are not commands.
    terminal.press("1quit\u{7f}\u{7f}\u{7f}\u{7f}8080");
    terminal.wait_for("> 8080");
    terminal.press("\r");
    terminal.wait_for("worker-1 has the answer");
    terminal.wait_for("waits for you (3)");
    terminal.press("a");
    terminal.wait_for("accept, or why not> ");
    terminal.press("accept\r");
    terminal.wait_for("created task 3, as worker-1 proposed");
    terminal.wait_for("waits for you (2)");
    terminal.press("2");
    terminal.wait_for("worker-1: allow, or deny and why> ");
    terminal.press("perhaps\r");
    terminal.wait_for("type allow, deny, or deny and why");
    terminal.press("2allow\r");
    terminal.wait_for("allowed for worker-1");
    terminal.press("1\u{1b}");
    terminal.wait_for("1-9 answer");
    terminal.press("q");
    terminal.ends();
    let journal = project.read("teams/fix-auth/events.jsonl");
    assert!(journal.contains("\"answer\":\"8080\""), "{journal}");
    assert!(journal.contains("accepted as task 3"), "{journal}");
}

#[test]
fn command_answers_a_blocked_task_by_its_number_or_its_question() {
    let project = asking();
    let unknown = project.run(["answer", "1", "x"]).fails(3);
    assert!(
        unknown
            .stderr
            .contains("task 1 is not waiting for an answer")
    );
    project.run(["answer", "2", "call it http"]).succeeds();
    let late = project.run(["answer", "2", "call it ftp"]).fails(3);
    assert!(late.stderr.contains("task 2 is not waiting for an answer"));
    let shown = project.run(["task", "show", "2"]).succeeds().stdout;
    assert!(shown.contains("call it http"), "{shown}");
}

//! Findings of an attack on Studio: two answers at once, another team under an old name, silent connections, invalid
//! positions, branches that move behind a gate.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::terminal::Terminal;
use super::{Studio, wait_for};
use crate::kit::TestProject;
use crate::run::Shop;

/// Returns the request body that answers the gate of a run without a host.
fn at_gate(studio: &Studio, answer: &str) -> Value {
    let view = studio.json("/api/v1/teams/shop");
    let gate = &view["approval"];
    json!({ "gate": gate["gate"], "commit": gate["commit"], "answer": answer, "rollback": false, "text": "" })
}

#[test]
fn of_two_answers_at_once_one_is_taken_and_the_other_is_told_so() {
    let shop = Shop::new();
    shop.whole_run(&["--approve", "never"]).run().exits(0);
    let studio = Studio::start(&shop.project);
    let answers = [at_gate(&studio, "approve"), at_gate(&studio, "reject")];
    let mut told: Vec<(u16, Value)> = std::thread::scope(|scope| {
        let asked = answers.each_ref().map(|body| {
            scope.spawn(|| {
                let answer = studio.post("/api/v1/teams/shop/approval", body);
                (answer.status, body["answer"].clone())
            })
        });
        asked.map(|asked| asked.join().unwrap()).into()
    });
    told.sort_by_key(|(status, _)| *status);
    let statuses: Vec<u16> = told.iter().map(|(status, _)| *status).collect();
    assert_eq!(statuses, [200, 409]);
    let finished = wait_for("the end of the run", || {
        shop.events_of("run.finished").pop()
    });
    let outcome = if told[0].1 == "approve" {
        "complete"
    } else {
        "rejected"
    };
    assert_eq!(finished["data"]["outcome"], outcome);
    shop.is_quiet();
}

#[test]
fn the_gate_shows_its_own_commit_wherever_the_branch_is_moved_to() {
    let shop = Shop::new();
    shop.whole_run(&["--approve", "never"]).run().exits(0);
    let commit = shop.asked();
    let base = shop.git(&["rev-parse", "main"]);
    let studio = Studio::start(&shop.project);
    let before = studio.json("/api/v1/teams/shop/changes/@gate");
    shop.git(&[
        "update-ref",
        "refs/heads/omc-team/shop/integration",
        base.trim(),
    ]);
    let after = studio.json("/api/v1/teams/shop/changes/@gate");
    assert_eq!(after, before);
    assert_eq!(after["commit"], commit);
    assert_eq!(after["base"], base.trim());
    assert!(!after["files"].as_array().unwrap().is_empty());
    let moved = studio.json("/api/v1/teams/shop/changes/integration");
    assert_eq!(
        moved["commit"],
        base.trim(),
        "the branch itself is shown as it is"
    );
}

#[test]
fn a_team_that_was_made_anew_is_another_one() {
    let project = TestProject::with_team();
    project.task("Of the first", &[]);
    let studio = Studio::start(&project);
    let events = studio.request("GET", "/api/v1/events?team=fix-auth");
    let mut events = events.bearer(&studio.bearer).listen();
    events.next_of("view");
    project
        .run(["team", "delete", "fix-auth", "--force"])
        .succeeds();
    project.run(["team", "create", "fix-auth"]).succeeds();
    events.next_of("gone");
    assert!(events.next().is_none(), "its stream ends");
    let view = studio.json("/api/v1/teams/fix-auth");
    assert_eq!(view["tasks"], json!([]), "nothing is left of the old one");
    assert_eq!(view["seq"], 1);
}

#[test]
fn positions_that_are_none_end_at_once_and_are_answered_in_one_form() {
    let project = TestProject::with_team();
    project.task("One", &[]);
    let studio = Studio::start(&project);
    let begin = Instant::now();
    let team = "/api/v1/teams/fix-auth";
    let messages = studio.json(&format!("{team}/messages?before=9007199254740991"));
    assert_eq!(messages["messages"], json!([]));
    for (path, status) in [
        (format!("{team}?at=x"), 400),
        (format!("{team}/messages?limit=-3"), 400),
        ("/api/v1/nothing".to_owned(), 404),
    ] {
        let answer = studio.get(&path);
        assert_eq!(answer.status, status, "{path}");
        let said = answer.json()["error"]["message"].clone();
        assert!(said.is_string(), "{}", answer.text());
    }
    let answer = studio.post(team, &json!({}));
    assert_eq!(answer.status, 405);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert!(begin.elapsed() < Duration::from_secs(20));
}

#[test]
fn connections_that_say_nothing_keep_nobody_out() {
    let project = TestProject::with_team();
    let studio = Studio::start(&project);
    // More than the connection limit.
    let silent: Vec<TcpStream> = (0..300)
        .map(|_| {
            let mut socket = TcpStream::connect(("127.0.0.1", studio.port)).unwrap();
            socket.write_all(b"GET / HTTP/1.1\r\nHo").unwrap();
            socket
        })
        .collect();
    assert_eq!(
        studio.get("/api/v1/teams").status,
        200,
        "after some seconds"
    );
    let mut first = &silent[0];
    first.set_read_timeout(Some(super::PATIENCE)).unwrap();
    let mut rest = Vec::new();
    assert!(first.read_to_end(&mut rest).is_ok(), "its place was taken");
}

#[test]
fn a_terminal_is_given_back_when_somebody_ends_top_from_outside() {
    let project = TestProject::with_team();
    let terminal = Terminal::start(&project, &["top"]);
    terminal.wait_for("fix-auth");
    let ended = std::process::Command::new("kill")
        .args(["-TERM", &terminal.id().to_string()])
        .status();
    assert!(ended.unwrap().success());
    terminal.ends();
}

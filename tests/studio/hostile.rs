//! Texts of agents are displayed as text everywhere.

use std::time::Duration;

use serde_json::json;
use teamster_store::{OutgoingMessage, Recipient, Store};

use super::Studio;
use crate::kit::{TestProject, living};

const ESCAPE: &str = "\u{1b}[2J\u{1b}]0;title\u{7}";
const BIDI: &str = "\u{202e}\u{2066}";
const IMAGE: &str = "<img src=x onerror=alert(1)>";

fn hostile() -> String {
    format!("{ESCAPE}{BIDI}{IMAGE}end")
}

/// Asserts that an output contains nothing dangerous.
fn assert_is_harmless(text: &str, what: &str) {
    for forbidden in [
        "\u{1b}", "\\u001b", "\u{7}", "\u{202e}", "\\u202e", "\u{2066}",
    ] {
        assert!(!text.contains(forbidden), "{what} has {forbidden:?}");
    }
}

#[test]
fn escapes_bidi_and_html_in_names_tasks_messages_and_logs_are_shown_as_text() {
    let project = TestProject::with_team();
    let hostile = hostile();
    project.task(&hostile, &["--description", &hostile]);
    let store = project.store(Duration::ZERO);
    let team = "fix-auth".parse().unwrap();
    let outgoing = OutgoingMessage {
        from: "worker-1".to_owned(),
        to: Recipient::Lead,
        kind: "message".to_owned(),
        content: format!("{hostile}\nsecond line"),
        extra: teamster_types::json::Object::new(),
    };
    store.send(&team, &outgoing).unwrap();
    let more = json!({ "provider": hostile, "currentTaskId": "1" });
    project.beat("worker-1", Duration::ZERO, &living(), &more);
    let line = json!({ "ts": "now", "from": "agent", "text": hostile }).to_string();
    project.write(
        ".omc/logs/fix-auth/worker-1/1.jsonl",
        &format!("{line}\nplain {hostile}\n"),
    );
    let state = json!({
        "version": "1.0", "enabled": true, "teamName": hostile, "lastUpdated": crate::kit::now(),
        "teammates": [{ "name": hostile, "status": "working", "currentTask": hostile }],
        "recentMessages": [{ "from": hostile, "to": hostile, "content": hostile }],
    });
    project.write(".bkit/agent-state.json", &state.to_string());
    let studio = Studio::start(&project);
    let rows = studio.json("/api/v1/teams");
    let session = rows["teams"].as_array().unwrap().iter();
    let session = session
        .clone()
        .find(|row| row["kind"] == "state-file")
        .unwrap();
    let session = format!("/api/v1/teams/{}", session["id"].as_str().unwrap());
    for path in [
        "/api/v1/teams",
        "/api/v1/teams/fix-auth",
        "/api/v1/teams/fix-auth?at=3",
        "/api/v1/teams/fix-auth/timeline",
        "/api/v1/teams/fix-auth/tasks/1",
        "/api/v1/teams/fix-auth/messages",
        "/api/v1/teams/fix-auth/journal",
        "/api/v1/teams/fix-auth/workers/worker-1/log",
        "/metrics",
        session.as_str(),
    ] {
        let answer = studio.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        assert_is_harmless(&answer.text(), path);
        if path.ends_with("fix-auth") || path.contains("/tasks/") {
            assert!(answer.text().contains(IMAGE), "{path}: text stays text");
        }
    }
    let path = "/api/v1/events?team=fix-auth&after=0";
    let mut events = studio.request("GET", path).bearer(&studio.bearer).listen();
    loop {
        let event = events.next().unwrap();
        assert_is_harmless(&event.data.to_string(), &event.name);
        if event.name == "view" {
            break;
        }
    }
    for words in [&["top", "--once"][..], &["replay", "fix-auth"], &["status"]] {
        let frame = project.run(words).succeeds().stdout;
        assert_is_harmless(&frame, words[0]);
        if words[0] == "top" {
            assert_eq!(frame.lines().count(), 24);
            assert!(
                frame.lines().all(|line| line.chars().count() <= 80),
                "{frame}"
            );
            assert!(frame.contains("<img src=x"), "{frame}");
        }
    }
}

#[test]
fn lines_of_a_megabyte_are_cut_and_break_nothing() {
    let project = TestProject::with_team();
    let long = "x".repeat(1_000_000);
    let line = json!({ "ts": "now", "from": "agent", "text": long }).to_string();
    project.write(
        ".omc/logs/fix-auth/worker-1/1.jsonl",
        &format!("{line}\n{{\"from\":\"agent\",\"text\":\"short\"}}\n"),
    );
    let state = json!({
        "version": "1.0", "enabled": true, "teamName": long, "lastUpdated": crate::kit::now(),
        "teammates": [{ "name": long, "status": "working" }],
    });
    project.write(".bkit/agent-state.json", &state.to_string());
    let studio = Studio::start(&project);
    let teams = studio.get("/api/v1/teams").text();
    assert!(teams.len() < 200_000, "{}", teams.len());
    let shown = studio
        .get("/api/v1/teams/fix-auth/workers/worker-1/log")
        .text();
    assert!(
        shown.len() < 400_000 && shown.contains("short"),
        "{}",
        shown.len()
    );
    let frame = project.run(["top", "--once"]).succeeds().stdout;
    assert_eq!(frame.lines().count(), 24);
    assert!(frame.lines().all(|line| line.chars().count() <= 80));
}

#[test]
fn no_secret_gets_through() {
    let project = TestProject::with_team();
    let secret = format!("sk-ant-api03-{}", "a1B2".repeat(24));
    project.task(&format!("Use {secret}"), &["--description", &secret]);
    project
        .run([
            "message",
            "send",
            "--to",
            "worker-1",
            &format!("key {secret}"),
        ])
        .succeeds();
    let text = json!({ "from": "agent", "text": secret }).to_string();
    project.write(".omc/logs/fix-auth/worker-1/1.jsonl", &format!("{text}\n"));
    let studio = Studio::start(&project);
    for path in [
        "/api/v1/teams/fix-auth",
        "/api/v1/teams/fix-auth/tasks/1",
        "/api/v1/teams/fix-auth/messages",
        "/api/v1/teams/fix-auth/journal",
        "/api/v1/teams/fix-auth/workers/worker-1/log",
    ] {
        let text = studio.json(path).to_string();
        assert!(!text.contains(&secret), "{path}");
        assert!(text.contains("[redacted]"), "{path}: {text}");
    }
    for words in [
        &["top", "--once"][..],
        &["top", "--once", "--json"],
        &["replay", "fix-auth", "--json"],
    ] {
        assert!(
            !project.run(words).succeeds().stdout.contains(&secret),
            "{words:?}"
        );
    }
}

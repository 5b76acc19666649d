//! What a new session is told about an unfinished run of its project.

use std::time::Instant;

use serde_json::{Value, json};

use super::is_in_time;
use crate::kit::TestProject;

/// Makes a project with a team whose run left this state behind.
fn project(state: &Value) -> TestProject {
    let project = TestProject::with_team();
    project.write(".omc/state/team-state.json", &state.to_string());
    project
}

fn state(more: &Value) -> Value {
    let mut state = json!({
        "active": true, "team": "fix-auth", "task": "fix the login form", "stage": "team-exec",
        "awaitingApproval": false, "progress": {"totalTasks": 5, "completedTasks": 2},
    });
    for (key, value) in more.as_object().unwrap() {
        state[key] = value.clone();
    }
    state
}

/// Returns the text that the client gets at the beginning of a session.
fn told(project: &TestProject) -> Option<String> {
    let begin = Instant::now();
    let ran = project.hook(
        "SessionStart",
        &json!({"session_id": "s1", "source": "startup"}),
    );
    is_in_time(begin, 2);
    if ran.stdout.is_empty() {
        return None;
    }
    let answer = ran.json();
    let output = &answer["hookSpecificOutput"];
    assert_eq!(output["hookEventName"], "SessionStart");
    assert_eq!(answer.as_object().unwrap().len(), 1, "{answer}");
    Some(output["additionalContext"].as_str().unwrap().to_owned())
}

#[test]
fn a_run_whose_host_is_gone_can_be_resumed() {
    let text = told(&project(&state(&json!({})))).unwrap();
    insta::assert_snapshot!(text, @r#"
    The run of teamster team fix-auth ("fix the login form") was interrupted at team-exec, 2 of 5 tasks done.
    `teamster run --resume fix-auth --detach` goes on with it; ask the user first.
    "#);
}

#[test]
fn a_run_that_waits_at_the_gate_waits_for_a_person() {
    let text = told(&project(&state(
        &json!({"stage": "team-verify", "awaitingApproval": true}),
    )))
    .unwrap();
    insta::assert_snapshot!(text, @r#"
    The run of teamster team fix-auth ("fix the login form") waits for the user's approval.
    Approving is the user's alone: they run `teamster approve --team fix-auth`, `teamster reject --team fix-auth` or `teamster revise --team fix-auth TEXT` in a terminal of their own. Tell them, and do not run these yourself.
    "#);
}

#[test]
fn a_run_that_goes_on_is_left_alone() {
    let project = project(&state(&json!({})));
    let lock = project.folder().join(".omc/state/run.lock");
    let lock = std::fs::File::create(lock).unwrap();
    lock.lock().unwrap();
    let text = told(&project).unwrap();
    insta::assert_snapshot!(text, @r#"
    Teamster team fix-auth is at work on this project ("fix the login form"; at team-exec, 2 of 5 tasks done).
    `teamster status --team fix-auth` shows how it stands. Leave the files it works on alone until it is done.
    "#);
}

#[test]
fn what_is_over_or_cannot_be_read_is_not_spoken_of() {
    assert_eq!(told(&TestProject::new()), None);
    for odd in [
        state(&json!({"active": false})),
        state(&json!({"team": "another"})),
        state(&json!({"team": "../fix-auth"})),
        state(&json!({"team": 7})),
        json!([]),
        json!(null),
    ] {
        assert_eq!(told(&project(&odd)), None, "{odd}");
    }
    let project = TestProject::with_team();
    project.write(".omc/state/team-state.json", "{\"active\": tr");
    assert_eq!(told(&project), None);
    let project = TestProject::with_team();
    project.write(".omc/state/team-state.json/x", "a folder in its place");
    assert_eq!(told(&project), None);
}

#[test]
fn a_state_that_is_a_link_is_not_followed_and_a_task_cannot_speak_for_us() {
    let project = project(&state(&json!({
        "task": format!("x\u{1b}[31m\u{202e}\n{}", "a".repeat(10_000)),
        "stage": "\u{7}team-exec",
    })));
    let text = told(&project).unwrap();
    assert!(text.len() < 600, "{text}");
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(!text.contains(['\u{1b}', '\u{202e}', '\u{7}']), "{text}");
    let file = project.folder().join(".omc/state/team-state.json");
    let elsewhere = project.home().join("elsewhere.json");
    std::fs::rename(&file, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &file).unwrap();
    assert_eq!(told(&project), None);
}

#[test]
fn our_own_workers_are_told_nothing() {
    let project = project(&state(&json!({})));
    let ran = project
        .call(["hook", "SessionStart"])
        .input("{\"session_id\": \"s1\"}")
        .env("TEAMSTER_WORKER", "worker-1")
        .run()
        .exits(0);
    assert_eq!(ran.stdout, "");
}

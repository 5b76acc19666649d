//! A lock that is held for too long: the update is late, not lost.

use std::time::{Duration, Instant};

use serde_json::json;
use teamster_fs::{Dir, Lock, Waited};

use super::{names, row, start};
use crate::kit::TestProject;

fn hold(project: &TestProject, name: &str) -> Lock {
    let bkit = Dir::open_root(&project.folder().join(".bkit"))
        .unwrap()
        .unwrap();
    match Lock::wait(&bkit, name, Duration::ZERO, false).unwrap() {
        Waited::Held(lock) => lock,
        Waited::TimedOut => panic!("somebody else has the lock"),
    }
}

#[test]
fn what_cannot_be_done_now_is_done_by_the_next() {
    let project = TestProject::new();
    project.hook("SubagentStart", &start("w1"));
    let lock = hold(&project, ".agent-state.lock");
    let began = Instant::now();
    project.hook("SubagentStart", &start("w2"));
    assert!(
        began.elapsed() < Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(names(&project.state()), ["w1"]);
    let began = Instant::now();
    project.hook(
        "SessionEnd",
        &json!({"session_id": "other", "reason": "other"}),
    );
    assert!(
        began.elapsed() < Duration::from_secs(1),
        "{:?}",
        began.elapsed()
    );
    let pending = std::fs::read_to_string(project.bkit("pending.jsonl")).unwrap();
    assert_eq!(pending.lines().count(), 2, "{pending}");
    drop(lock);
    project.hook("SubagentStop", &start("w1"));
    let state = project.state();
    assert_eq!(names(&state), ["w1", "w2"]);
    assert_eq!(row(&state, "w1")["status"], "completed");
    assert!(project.leftovers().is_empty(), "{:?}", project.leftovers());
}

#[test]
fn what_is_left_holds_no_secret() {
    let project = TestProject::new();
    project.hook("SubagentStart", &start("w1"));
    let lock = hold(&project, ".agent-state.lock");
    let key = format!("sk-ant-api03-{}", "A1b2".repeat(24));
    let payload = json!({"session_id": "s1", "tool_name": "SendMessage", "agent_name": "w1",
        "tool_input": {"to": "lead", "message": format!("the key is {key}")}});
    project.hook("PostToolUse", &payload);
    let pending = std::fs::read_to_string(project.bkit("pending.jsonl")).unwrap();
    assert!(!pending.contains("A1b2"), "{pending}");
    drop(lock);
    project.hook("SubagentStart", &start("w2"));
    assert_eq!(
        project.state()["recentMessages"][0]["content"],
        "the key is [redacted]"
    );
}

#[test]
fn half_a_pending_line_spoils_no_other() {
    let project = TestProject::new();
    project.hook("SubagentStart", &start("w1"));
    std::fs::write(project.bkit("pending.jsonl"), "{\"at\":\"2026-").unwrap();
    let lock = hold(&project, ".agent-state.lock");
    project.hook("SubagentStart", &start("w2"));
    drop(lock);
    project.hook("SubagentStart", &start("w3"));
    assert_eq!(names(&project.state()), ["w1", "w2", "w3"]);
}

#[test]
fn a_lock_that_a_stopped_process_holds_costs_two_seconds_at_most() {
    let project = TestProject::new();
    project.hook("SubagentStart", &start("w1"));
    // The shell takes the lock, says so, and stops itself; it is continued at the end, and ends.
    let line = "exec 9>.bkit/.agent-state.lock; flock 9; echo held; kill -STOP $$";
    let mut holder = project.shell(line).follow();
    assert_eq!(holder.line(), "held");
    let began = Instant::now();
    for event in ["SubagentStart", "Stop"] {
        project.hook(event, &start("w2"));
    }
    assert!(
        began.elapsed() < Duration::from_secs(4),
        "{:?}",
        began.elapsed()
    );
    drop(holder);
    project.hook("SubagentStart", &start("w3"));
    assert!(names(&project.state()).contains(&"w3".to_owned()));
    assert!(project.leftovers().is_empty(), "{:?}", project.leftovers());
}

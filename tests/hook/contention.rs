//! A lock that is held for too long delays an update but does not lose it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use teamster_claude::state::{Begin, Op, StateChange, StateFiles};
use teamster_fs::layout::Layout;
use teamster_fs::{Dir, Lock, LockWait};

use super::{is_in_time, names, row, start};
use crate::kit::{TestProject, now};

fn hold(project: &TestProject, name: &str) -> Lock {
    let bkit = Dir::open_root(&project.folder().join(".bkit"))
        .unwrap()
        .unwrap();
    match Lock::wait(&bkit, name, Duration::ZERO, false).unwrap() {
        LockWait::Held(lock) => lock,
        LockWait::TimedOut => panic!("somebody else has the lock"),
    }
}

#[test]
fn what_cannot_be_done_now_is_done_by_the_next() {
    let project = TestProject::new();
    project.hook("SubagentStart", &start("w1"));
    let lock = hold(&project, ".agent-state.lock");
    let began = Instant::now();
    project.hook("SubagentStart", &start("w2"));
    is_in_time(began, 2);
    assert_eq!(names(&project.state()), ["w1"]);
    let began = Instant::now();
    project.hook(
        "SessionEnd",
        &json!({"session_id": "other", "reason": "other"}),
    );
    is_in_time(began, 1);
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
    // The shell takes the lock, prints a line and stops itself; it is continued at the end, and exits.
    let line = "exec 9>.bkit/.agent-state.lock; flock 9; echo held; kill -STOP $$";
    let mut holder = project.shell(line).follow();
    assert_eq!(holder.line(), "held");
    let began = Instant::now();
    for event in ["SubagentStart", "Stop"] {
        project.hook(event, &start("w2"));
    }
    is_in_time(began, 4);
    drop(holder);
    project.hook("SubagentStart", &start("w3"));
    assert!(names(&project.state()).contains(&"w3".to_owned()));
    assert!(project.leftovers().is_empty(), "{:?}", project.leftovers());
}

/// Returns the shown messages, sorted.
fn said(state: &Value) -> Vec<String> {
    let list = state["recentMessages"].as_array().unwrap();
    let mut said: Vec<String> = list
        .iter()
        .map(|letter| letter["content"].as_str().unwrap().to_owned())
        .collect();
    said.sort();
    said
}

#[test]
fn a_writer_that_is_stopped_while_it_leaves_a_line_costs_nobody_else_an_update() {
    let project = TestProject::new();
    project.hook("SubagentStart", &start("w1"));
    let line = "exec 9>>.bkit/pending.jsonl; flock 9; echo held; kill -STOP $$";
    let mut holder = project.shell(line).follow();
    assert_eq!(holder.line(), "held");
    let lock = hold(&project, ".agent-state.lock");
    for name in ["w2", "w3"] {
        let began = Instant::now();
        project.hook("SubagentStart", &start(name));
        is_in_time(began, 2);
    }
    assert_eq!(names(&project.state()), ["w1"]);
    drop(lock);
    // The stopped writer's line cannot be removed, but it does not block the lines of the others.
    let began = Instant::now();
    project.hook("SubagentStop", &start("w1"));
    is_in_time(began, 2);
    assert_eq!(names(&project.state()), ["w1", "w2", "w3"]);
    assert_eq!(row(&project.state(), "w1")["status"], "completed");
    drop(holder);
    project.hook("SubagentStart", &start("w4"));
    assert_eq!(names(&project.state()), ["w1", "w2", "w3", "w4"]);
    assert!(project.leftovers().is_empty(), "{:?}", project.leftovers());
}

#[test]
fn a_change_that_is_left_at_the_last_moment_needs_nobody_after_it() {
    let project = TestProject::new();
    let states = StateFiles::of(&Layout {
        claude: project.home().join(".claude"),
        project: project.folder(),
        user_config: project.home().join("config.toml"),
        project_config: project.folder().join("config.toml"),
        database: None,
    });
    for round in 0..20 {
        let session = format!("s{round}");
        let begin = vec![Op::Init(Begin::default())];
        let patience = Duration::from_secs(5);
        states
            .apply(StateChange::new(&session, now(), begin), patience)
            .unwrap();
        // Ten writers that do not wait: most of them find the lock taken, and after the last one no other writer
        // comes.
        std::thread::scope(|scope| {
            for writer in 0..10 {
                let (states, session) = (&states, session.as_str());
                scope.spawn(move || {
                    for number in 0..5 {
                        let op = Op::Message {
                            from: "a".to_owned(),
                            to: "b".to_owned(),
                            content: format!("{writer}-{number}"),
                            timestamp: None,
                        };
                        let change = StateChange::new(session, now(), vec![op]);
                        states.apply_or_leave(change, Duration::ZERO).unwrap();
                    }
                });
            }
        });
        let expected: Vec<String> = (0..10)
            .flat_map(|writer| (0..5).map(move |number| format!("{writer}-{number}")))
            .collect();
        assert_eq!(said(&project.state()), expected, "round {round}");
        let end = StateChange::new(&session, now(), vec![Op::CleanUp]);
        states.apply(end, patience).unwrap();
    }
    assert!(project.leftovers().is_empty(), "{:?}", project.leftovers());
}

#[test]
fn forty_hooks_that_all_come_too_late_are_all_applied() {
    let project = TestProject::new();
    project.hook("SubagentStart", &start("w1"));
    let lock = hold(&project, ".agent-state.lock");
    let hooks: Vec<_> = (10..50)
        .map(|number| {
            let payload = json!({"session_id": "s1", "tool_name": "SendMessage", "agent_name": "w1",
                "tool_input": {"to": "lead", "message": format!("{number}")}});
            let call = project.call(["hook", "PostToolUse"]);
            call.input(payload.to_string()).spawn()
        })
        .collect();
    for mut hook in hooks {
        assert!(hook.wait().unwrap().success());
    }
    assert!(said(&project.state()).is_empty());
    drop(lock);
    project.hook("SubagentStop", &start("w1"));
    let expected: Vec<String> = (10..50).map(|number| number.to_string()).collect();
    assert_eq!(said(&project.state()), expected);
}

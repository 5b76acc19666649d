//! Many hooks at the same time, with a reader that polls throughout.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use serde_json::{Value, json};

use super::{names, row, start};
use crate::kit::TestProject;

/// Returns the number of trials; `TEAMSTER_TEST_TRIALS` sets more than usual.
fn trials() -> usize {
    let asked = std::env::var("TEAMSTER_TEST_TRIALS").ok();
    asked.and_then(|asked| asked.parse().ok()).unwrap_or(10)
}

/// Polls the state, and asserts that it is always complete.
struct Poller {
    over: Arc<AtomicBool>,
    thread: JoinHandle<usize>,
}

impl Poller {
    fn begin(project: &TestProject) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let (path, ends) = (project.bkit("agent-state.json"), over.clone());
        let thread = thread::spawn(move || {
            let mut seen = 0;
            let mut rows = 0;
            while !ends.load(Ordering::Relaxed) {
                if let Ok(bytes) = std::fs::read(&path) {
                    let state: Value = serde_json::from_slice(&bytes)
                        .unwrap_or_else(|error| panic!("torn: {error}: {bytes:?}"));
                    let now = state["teammates"].as_array().unwrap().len();
                    assert!(now >= rows, "a row was lost on the way");
                    rows = now;
                    seen += 1;
                }
                thread::yield_now();
            }
            seen
        });
        Self { over, thread }
    }

    fn end(self) -> usize {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn all_at_once(project: &TestProject, calls: &[(&str, Value)]) {
    let children: Vec<_> = calls
        .iter()
        .map(|(event, payload)| {
            let call = project.call(["hook", event]).input(payload.to_string());
            call.spawn()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn twenty_hooks_for_ten_agents_leave_ten_rows() {
    let mut reads = 0;
    for trial in 0..trials() {
        let project = TestProject::new();
        let is_warm = trial % 2 == 1;
        if is_warm {
            project.run([
                "state-file",
                "init",
                "--team",
                "t",
                "--feature",
                "f",
                "--session",
                "s1",
            ]);
        }
        let poller = Poller::begin(&project);
        let calls: Vec<(&str, Value)> = (0..20)
            .map(|number| ("SubagentStart", start(&format!("w{}", number % 10))))
            .collect();
        all_at_once(&project, &calls);
        reads += poller.end();
        let expected: Vec<String> = (0..10).map(|number| format!("w{number}")).collect();
        assert_eq!(names(&project.state()), expected, "trial {trial}");
        assert!(project.leftovers().is_empty(), "{:?}", project.leftovers());
    }
    assert!(reads > 0, "nobody has read");
}

#[test]
fn stops_and_starts_mixed_are_all_there() {
    for trial in 0..trials() / 2 {
        let project = TestProject::new();
        for number in 0..5 {
            project.hook("SubagentStart", &start(&format!("old{number}")));
        }
        let calls: Vec<(&str, Value)> = (0..5)
            .flat_map(|number| {
                [
                    ("SubagentStop", start(&format!("old{number}"))),
                    ("SubagentStart", start(&format!("new{number}"))),
                ]
            })
            .collect();
        all_at_once(&project, &calls);
        let state = project.state();
        for number in 0..5 {
            assert_eq!(
                row(&state, &format!("old{number}"))["status"],
                "completed",
                "trial {trial}"
            );
            assert_eq!(
                row(&state, &format!("new{number}"))["status"],
                "spawning",
                "trial {trial}"
            );
        }
        assert!(project.leftovers().is_empty());
    }
}

#[test]
fn messages_of_many_are_all_kept() {
    let project = TestProject::new();
    project.hook("SubagentStart", &start("w1"));
    let calls: Vec<(&str, Value)> = (0..20)
        .map(|number| {
            let payload = json!({"session_id": "s1", "tool_name": "SendMessage", "agent_name": "w1",
                "tool_input": {"to": "lead", "message": format!("number {number}")}});
            ("PostToolUse", payload)
        })
        .collect();
    all_at_once(&project, &calls);
    let state = project.state();
    let mut said: Vec<&str> = state["recentMessages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|letter| letter["content"].as_str().unwrap())
        .collect();
    said.sort_unstable();
    said.dedup();
    assert_eq!(said.len(), 20);
}

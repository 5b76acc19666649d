//! A writer that dies at each step: no change is lost or applied twice, and no reader sees a partial state.

use std::time::Duration;

use teamster_claude::state::{Begin, Model, Op, StateChange, StateFiles, Status, TeammateRow};
use teamster_fs::fail::{die_after, revive};
use teamster_fs::layout::Layout;
use teamster_types::Time;

use crate::kit::TestProject;

const PATIENCE: Duration = Duration::from_secs(5);

fn layout(project: &TestProject) -> Layout {
    Layout {
        claude: project.home().join(".claude"),
        project: project.folder(),
        user_config: project.home().join("config.toml"),
        project_config: project.folder().join("config.toml"),
        database: None,
    }
}

fn at(second: i64) -> Time {
    Time::from_millis(1_794_728_281_000 + second * 1_000)
}

fn begin() -> Op {
    Op::Ensure(Begin {
        team: "t".to_owned(),
        ..Begin::default()
    })
}

fn add(name: &str) -> Op {
    Op::Start(TeammateRow {
        name: name.to_owned(),
        role: "agent".to_owned(),
        model: Model::Opus,
        task: None,
        task_id: None,
    })
}

fn say(content: &str) -> Op {
    Op::Message {
        from: "a".to_owned(),
        to: "b".to_owned(),
        content: content.to_owned(),
        timestamp: None,
    }
}

fn no_temp_files(project: &TestProject) -> bool {
    project
        .leftovers()
        .iter()
        .all(|name| name == "pending.jsonl")
}

/// Kills a change at each step until it succeeds; the state after each death is complete.
fn killed_at_every_step(prepare: impl Fn(&StateFiles), change: impl Fn() -> StateChange) {
    for steps in 0.. {
        let project = TestProject::new();
        let states = StateFiles::of(&layout(&project));
        prepare(&states);
        let before = states.read().unwrap();
        die_after(steps);
        let result = states.apply(change(), PATIENCE);
        let died = revive();
        let after = states.read().unwrap();
        if !died {
            assert!(result.is_ok(), "{result:?}");
            assert!(steps > 5, "only {steps} steps");
            return;
        }
        // The next writer finds the old or the new state, and can continue from either.
        states.apply(change(), PATIENCE).unwrap();
        let end = states.read().unwrap().unwrap();
        assert!(after == before || after.is_some(), "step {steps}");
        assert!(end.enabled);
        // A session that begins or ends removes what dead writers left.
        let cleanup = StateChange::new("s1", at(100), vec![Op::CleanUp]);
        states.apply(cleanup, PATIENCE).unwrap();
        assert!(
            no_temp_files(&project),
            "step {steps}: {:?}",
            project.leftovers()
        );
    }
}

#[test]
fn the_first_change_of_all() {
    killed_at_every_step(
        |_| {},
        || StateChange::new("s1", at(1), vec![begin(), add("w1")]),
    );
}

#[test]
fn a_change_of_a_state_that_is_there() {
    killed_at_every_step(
        |states| {
            let first = StateChange::new("s1", at(0), vec![begin(), add("w1")]);
            states.apply(first, PATIENCE).unwrap();
        },
        || StateChange::new("s1", at(1), vec![add("w2")]),
    );
}

#[test]
fn a_session_that_takes_the_place_of_an_ended_one() {
    killed_at_every_step(
        |states| {
            let ops = vec![begin(), add("old"), say("of the old one"), Op::CleanUp];
            states
                .apply(StateChange::new("s0", at(0), ops), PATIENCE)
                .unwrap();
        },
        || StateChange::new("s1", at(1), vec![begin(), add("w1")]),
    );
}

#[test]
fn late_changes_are_applied_once_wherever_their_holder_dies() {
    // These changes are not idempotent.
    let late = [
        StateChange::new("s1", at(1), vec![say("one")]),
        StateChange::new("s1", at(2), vec![add("w2"), say("two")]),
        StateChange::new(
            "s1",
            at(3),
            vec![Op::Status {
                name: "w1".to_owned(),
                status: Status::Failed,
                task: None,
                task_id: None,
            }],
        ),
        StateChange::new(
            "s2",
            at(4),
            vec![begin(), add("x1"), say("of another session")],
        ),
    ];
    applied_once(|project| {
        let lines: String = late.iter().map(line).collect();
        std::fs::write(project.bkit("pending.jsonl"), lines).unwrap();
    });
    // The same when appending failed: only the first change was appended, the others have their own files.
    applied_once(|project| {
        std::fs::write(project.bkit("pending.jsonl"), line(&late[0])).unwrap();
        std::fs::create_dir(project.bkit(".pending")).unwrap();
        for (number, change) in late.iter().enumerate().skip(1) {
            let file = project.bkit(&format!(".pending/00000000000000{number}-x.jsonl"));
            std::fs::write(file, line(change)).unwrap();
        }
        // A partial file of a dead writer.
        let torn = project.bkit(".pending/.000000000000009-x.jsonl.999999999.ff.tmp");
        std::fs::write(torn, "{\"at\":").unwrap();
    });
}

fn line(change: &StateChange) -> String {
    serde_json::to_string(change).unwrap() + "\n"
}

fn applied_once(leave: impl Fn(&TestProject)) {
    for steps in 0.. {
        let project = TestProject::new();
        let states = StateFiles::of(&layout(&project));
        let first = StateChange::new("s1", at(0), vec![begin(), add("w1")]);
        states.apply(first, PATIENCE).unwrap();
        leave(&project);
        let own = || {
            StateChange::new(
                "s1",
                at(5),
                vec![Op::Status {
                    name: "w1".to_owned(),
                    status: Status::Working,
                    task: None,
                    task_id: None,
                }],
            )
        };
        die_after(steps);
        let result = states.apply(own(), PATIENCE);
        let died = revive();
        if died {
            states.apply(own(), PATIENCE).unwrap();
        }
        let state = states.read().unwrap().unwrap();
        let said: Vec<&str> = state
            .recent_messages
            .iter()
            .map(|letter| letter.content.as_str())
            .collect();
        assert_eq!(said, ["one", "two"], "step {steps}");
        assert_eq!(
            state.teammate("w1").unwrap().status,
            Status::Working,
            "step {steps}"
        );
        assert_eq!(
            state.teammate("w2").unwrap().status,
            Status::Spawning,
            "step {steps}"
        );
        let all = states.all().unwrap();
        let other = all
            .iter()
            .find(|shown| shown.state.session_id == "s2")
            .unwrap();
        assert_eq!(other.state.recent_messages.len(), 1, "step {steps}");
        assert!(!project.bkit("pending.jsonl").exists(), "step {steps}");
        assert!(!project.bkit(".pending.claimed").exists(), "step {steps}");
        assert!(!project.bkit(".pending").exists(), "step {steps}");
        if !died {
            assert!(result.is_ok());
            assert!(steps > 20, "only {steps} steps");
            return;
        }
    }
}

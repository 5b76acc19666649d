//! The rules of a roster, for any order of operations.

use proptest::prelude::*;
use teamster_types::Time;

use super::memory::SessionMemory;
use super::ops::{Begin, Effect, Op, StateChange, TeammateRow};
use super::record::{AgentState, Model, Phase, Status};
use super::{MOST_MESSAGES, MOST_ROWS};

fn row(name: &str) -> TeammateRow {
    TeammateRow {
        name: name.to_owned(),
        role: "agent".to_owned(),
        model: Model::Sonnet,
        task: None,
        task_id: None,
    }
}

fn status(name: &str, status: Status) -> Op {
    Op::Status {
        name: name.to_owned(),
        status,
        task: None,
        task_id: None,
    }
}

fn message(content: &str) -> Op {
    Op::Message {
        from: String::new(),
        to: String::new(),
        content: content.to_owned(),
        timestamp: None,
    }
}

#[test]
fn the_legal_steps_are_exactly_these() {
    let mut legal = Vec::new();
    for from in Status::ALL {
        let next: Vec<&str> = Status::ALL
            .iter()
            .filter(|to| *to != from && from.may_become(**to))
            .map(|to| to.as_str())
            .collect();
        legal.push(format!("{} → {}", from.as_str(), next.join(", ")));
    }
    insta::assert_snapshot!(legal.join("\n"), @r"
    spawning → working, idle, completed, failed
    working → idle, completed, failed
    idle → working, completed, failed
    completed → working, idle
    failed → working
    ");
}

#[test]
fn words_of_others_become_the_nearest_of_ours() {
    for (word, phase) in [
        ("pm", Phase::Plan),
        ("design", Phase::Design),
        ("qa", Phase::Check),
        ("report", Phase::Act),
        ("archived", Phase::Act),
        ("???", Phase::Plan),
    ] {
        assert_eq!(Phase::nearest(word), phase, "{word}");
    }
    assert_eq!(Model::of("claude-opus-4-8[1m]"), Some(Model::Opus));
    assert_eq!(Model::of("Haiku"), Some(Model::Haiku));
    assert_eq!(Model::of("gpt"), None);
}

#[test]
fn a_row_in_place_keeps_when_it_began() {
    let (mut state, mut memory) = (AgentState::new("s", "t0"), SessionMemory::default());
    Op::Add(row("a")).apply(&mut state, &mut memory, "t1");
    status("a", Status::Completed).apply(&mut state, &mut memory, "t2");
    Op::Start(row("a")).apply(&mut state, &mut memory, "t3");
    let a = &state.teammates[0];
    assert_eq!(
        (a.started_at.as_str(), a.last_activity_at.as_str()),
        ("t1", "t3")
    );
    assert_eq!(a.status, Status::Working);
    Op::Add(row("a")).apply(&mut state, &mut memory, "t4");
    assert_eq!(state.teammates[0].status, Status::Spawning);
    assert_eq!(state.teammates[0].started_at, "t1");
}

#[test]
fn a_tool_does_not_wake_an_agent_whose_turn_is_over() {
    let (mut state, mut memory) = (AgentState::new("s", "t0"), SessionMemory::default());
    Op::Add(row("a")).apply(&mut state, &mut memory, "t1");
    status("a", Status::Completed).apply(&mut state, &mut memory, "t2");
    let act = Op::Act {
        wakes: false,
        name: "a".to_owned(),
        task: None,
        task_id: None,
    };
    assert_eq!(act.apply(&mut state, &mut memory, "t3"), Effect::Nothing);
    assert_eq!(state.teammates[0].status, Status::Completed);
}

fn any_op() -> impl Strategy<Value = Op> {
    let name = || (0..14_u8).prop_map(|number| format!("w{number}"));
    let any_status = proptest::sample::select(Status::ALL);
    prop_oneof![
        name().prop_map(|name| Op::Add(row(&name))),
        name().prop_map(|name| Op::Start(row(&name))),
        name().prop_map(|name| Op::Join(row(&name))),
        (name(), any_status).prop_map(|(name, to)| status(&name, to)),
        name().prop_map(|name| Op::Remove { name }),
        name().prop_map(|name| Op::Act {
            wakes: false,
            name,
            task: None,
            task_id: None
        }),
        "[a-z]{0,4}".prop_map(|content| message(&content)),
        Just(Op::Touch),
        Just(Op::CleanUp),
        Just(Op::Ensure(Begin::default())),
    ]
}

proptest! {
    #[test]
    fn whatever_happens_a_roster_keeps_its_rules(ops in proptest::collection::vec(any_op(), 0..120)) {
        let (mut state, mut memory) = (AgentState::new("s", "t"), SessionMemory::default());
        for (number, op) in ops.iter().enumerate() {
            let before = state.clone();
            let effect = op.apply(&mut state, &mut memory, &format!("t{number:04}"));
            // An effect without a change leaves the state unchanged.
            prop_assert!(effect.is_change() || state == before, "{op:?}: {effect:?}");
            prop_assert!(state.teammates.len() <= MOST_ROWS);
            prop_assert!(state.recent_messages.len() <= MOST_MESSAGES);
            let mut names: Vec<&str> = state.teammates.iter().map(|row| row.name.as_str()).collect();
            names.sort_unstable();
            names.dedup();
            prop_assert_eq!(names.len(), state.teammates.len());
            // No active teammate is dropped, and no row makes a forbidden transition.
            for row in &before.teammates {
                let Some(now) = state.teammate(&row.name) else {
                    let asked = matches!(op, Op::Remove { .. } | Op::CleanUp);
                    prop_assert!(asked || !row.status.is_active());
                    continue;
                };
                let anew = matches!(op, Op::Add(new) if new.name == row.name);
                prop_assert!(anew || row.status.may_become(now.status));
                prop_assert_eq!(&row.started_at, &now.started_at);
            }
        }
        let file = state.to_file();
        prop_assert_eq!(AgentState::parse(&file), Ok(state));
    }

    #[test]
    fn a_change_waits_as_a_line_and_comes_back_the_same(ops in proptest::collection::vec(any_op(), 0..8)) {
        let change = StateChange::new("s", Time::from_millis(1_770_465_600_123), ops).cleaned();
        let line = serde_json::to_string(&change).unwrap();
        prop_assert!(!line.contains('\n'));
        prop_assert_eq!(&serde_json::from_str::<StateChange>(&line).unwrap(), &change);
        prop_assert_eq!(&change.clone().cleaned(), &change);
    }

    #[test]
    fn any_bytes_are_a_state_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = AgentState::parse(&bytes);
    }
}

//! A page that only applies patches sees the same as the server.

use std::sync::Arc;

use serde_json::{Value, json};
use teamster_journal::payload::{AgentAction, AgentEventRecorded, UsageReported};
use teamster_journal::{EventActor, EventKind, NewEvent};
use teamster_store::{Change, ClaimRequest, OutgoingMessage, ReadStore, Recipient, Store};
use teamster_testkit::{ManualClock, MemStore};
use teamster_types::health::Limits;
use teamster_types::json::Object;
use teamster_types::process::{ProcessId, ProcessState};
use teamster_types::task::NewTask;
use teamster_types::team::{NewMember, NewTeam};
use teamster_types::{TeamName, Time};

use super::{LiveTeam, Patch, RunNow, TeamProjection, Viewed, run_lately, run_now};

fn store() -> (MemStore, TeamName) {
    store_whose_host(ProcessState::Alive)
}

fn store_whose_host(life: ProcessState) -> (MemStore, TeamName) {
    let clock = Arc::new(ManualClock::new(Time::from_millis(1_000_000)));
    let process = ProcessId {
        pid: 1,
        process_start_time: 1,
        boot_id: "boot".to_owned(),
        pid_ns: String::new(),
        host: String::new(),
    };
    let store = MemStore::new(clock, process, move |_| life);
    let team: TeamName = "crew".parse().unwrap();
    let member = |name: &str| NewMember {
        name: name.parse().unwrap(),
        provider: "codex".to_owned(),
        capabilities: None,
    };
    let new = NewTeam {
        name: team.clone(),
        description: String::new(),
        project: "/project".to_owned(),
        members: vec![member("ann"), member("ben")],
        run: None,
    };
    store.create_team(&new, None).unwrap();
    (store, team)
}

/// Applies a patch as the page does: whole parts and whole rows replace the old ones.
fn put(page: &mut Value, patch: &Patch) {
    let Value::Object(patch) = json!(patch) else {
        panic!("a patch is an object");
    };
    for (key, part) in patch {
        match key.as_str() {
            "tasks" => put_rows(&mut page["tasks"], &part, "id"),
            "workers" => put_rows(&mut page["workers"], &part, "name"),
            "messages" => {
                let list = page["messages"].as_array_mut().unwrap();
                list.extend(part.as_array().unwrap().iter().cloned());
                let more = list.len().saturating_sub(50);
                list.drain(..more);
            }
            "removedTasks" => {
                let gone = part.as_array().unwrap();
                let rows = page["tasks"].as_array_mut().unwrap();
                rows.retain(|row| !gone.contains(&row["id"]));
            }
            "workerNames" => {
                let names = part.as_array().unwrap();
                let rows = page["workers"].as_array().unwrap().clone();
                let of = |name: &Value| rows.iter().find(|row| row["name"] == *name).cloned();
                page["workers"] = names.iter().filter_map(of).collect();
            }
            _ => page[key.as_str()] = part,
        }
    }
}

fn put_rows(rows: &mut Value, new: &Value, key: &str) {
    let rows = rows.as_array_mut().unwrap();
    for row in new.as_array().unwrap() {
        match rows.iter_mut().find(|old| old[key] == row[key]) {
            Some(old) => *old = row.clone(),
            None => rows.push(row.clone()),
        }
    }
}

#[test]
fn patches_put_in_place_give_the_view_and_patches_twice_change_nothing() {
    let (store, team) = store();
    let mut live = LiveTeam::open(&store, &team, &Limits::default()).unwrap();
    while !live.is_read() {
        live.read_on(&store).unwrap();
    }
    let mut page = json!(live.view());
    let task = |subject: &str| NewTask {
        subject: subject.to_owned(),
        ..NewTask::default()
    };
    let record = |kind: &'static str, data: Value| {
        let data = data.as_object().unwrap();
        let event = NewEvent::new("host", EventKind::parse(kind, data));
        store.record(&team, event).unwrap();
    };
    let claim = ClaimRequest {
        worker: "ann".parse().unwrap(),
        id: None,
        lease: None,
    };
    let mut token = None;
    for step in 0..12 {
        match step {
            0 => drop(
                store
                    .create_task(&team, &EventActor::Person, &task("one"))
                    .unwrap(),
            ),
            1 => drop(
                store
                    .create_task(&team, &EventActor::Person, &task("two"))
                    .unwrap(),
            ),
            2 => {
                token = store
                    .claim(&team, &claim)
                    .unwrap()
                    .map(|claimed| claimed.token);
            }
            3 => drop(
                store
                    .delete_task(&team, &EventActor::Person, &"2".parse().unwrap())
                    .unwrap(),
            ),
            4 => {
                let outgoing = OutgoingMessage {
                    from: "user".to_owned(),
                    to: Recipient::All,
                    kind: "message".to_owned(),
                    content: "hello".to_owned(),
                    extra: Object::new(),
                };
                store.send(&team, &outgoing).unwrap();
            }
            5 => record(
                "run.started",
                json!({ "task": "t", "budget": { "tokens": 5 } }),
            ),
            6 => record("run.stage", json!({ "to": "execute", "round": 0 })),
            7 => {
                let token = token.as_ref().unwrap();
                let id = "1".parse().unwrap();
                store.complete(&team, &id, token, None).unwrap();
            }
            8 => record(
                "verify.started",
                json!({ "on": "integration", "command": "test" }),
            ),
            9 => record("approval.requested", json!({ "gate": "g", "commit": "c" })),
            10 => record("approval.given", json!({ "gate": "g" })),
            _ => record(
                "run.finished",
                json!({ "outcome": "complete", "exitCode": 0 }),
            ),
        }
        let events = store.events(&team, live.last() + 1, 100).unwrap().events;
        let changes: Vec<Change> = events
            .into_iter()
            .map(|event| Change::Event(Box::new(event)))
            .collect();
        assert!(!changes.is_empty(), "step {step} told nothing");
        let patch = live.apply(&store, &changes).unwrap().expect("a patch");
        put(&mut page, &patch);
        assert_eq!(page, json!(live.view()), "after step {step}");
        assert_eq!(live.apply(&store, &changes).unwrap(), None, "told twice");
    }
    let whole = TeamProjection::at(&store, &team, live.last())
        .unwrap()
        .view();
    let view = live.view();
    assert_eq!(whole.seq, view.seq);
    assert_eq!(whole.progress, view.progress);
    assert_eq!(whole.tasks, view.tasks);
    assert_eq!(whole.run, view.run);
    assert_eq!(whole.approval, view.approval);
    assert_eq!(whole.messages, view.messages);
    assert_eq!(whole.verifications, view.verifications);
}

#[test]
fn how_a_run_stands_is_known_before_its_journal_is_read_or_with_it() {
    let (store, team) = store_whose_host(ProcessState::Gone);
    let record = |kind: &'static str| {
        let data = json!({ "stage": "execute" });
        let event = EventKind::parse(kind, data.as_object().unwrap());
        let event = NewEvent::new("host", event);
        store.record(&team, event).unwrap();
    };
    let task = NewTask {
        subject: "left".to_owned(),
        ..NewTask::default()
    };
    store
        .create_task(&team, &EventActor::Person, &task)
        .unwrap();
    record("run.started");
    record("run.stage");
    record("run.finished");
    let open = || LiveTeam::open(&store, &team, &Limits::default()).unwrap();
    assert_eq!(open().view().state, Viewed::Ended);
    assert_eq!(
        run_lately(&store, &team).unwrap(),
        run_now(&store, &team).unwrap()
    );
    // After this many events the end of the run is no longer searched for; only the whole journal shows it.
    for _ in 0..300 {
        record("agent.event");
    }
    let mut live = open();
    assert_eq!(live.view().state, Viewed::Stale);
    assert_eq!(run_lately(&store, &team).unwrap(), RunNow::default());
    assert!(run_now(&store, &team).unwrap().is_finished());
    while !live.is_read() {
        live.read_on(&store).unwrap();
    }
    assert_eq!(live.view().state, Viewed::Ended);
    assert_eq!(live.wanted(), None);
}

#[test]
fn run_that_waits_at_its_gate_without_a_host_has_not_ended() {
    let (store, team) = store_whose_host(ProcessState::Gone);
    let record = |kind: &'static str, data: Value| {
        let event = EventKind::parse(kind, data.as_object().unwrap());
        store.record(&team, NewEvent::new("host", event)).unwrap();
    };
    let task = NewTask {
        subject: "done".to_owned(),
        ..NewTask::default()
    };
    let task = store
        .create_task(&team, &EventActor::Person, &task)
        .unwrap();
    let claim = ClaimRequest {
        worker: "ann".parse().unwrap(),
        id: None,
        lease: None,
    };
    let claimed = store.claim(&team, &claim).unwrap().unwrap();
    store
        .complete(&team, task.id(), &claimed.token, None)
        .unwrap();
    record("run.started", json!({}));
    record("run.stage", json!({ "to": "approval" }));
    let mut live = LiveTeam::open(&store, &team, &Limits::default()).unwrap();
    assert_eq!(live.view().state, Viewed::Stale);
    while !live.is_read() {
        live.read_on(&store).unwrap();
    }
    assert_eq!(live.view().state, Viewed::Stale);
    record("run.finished", json!({ "to": "complete" }));
    let live = LiveTeam::open(&store, &team, &Limits::default()).unwrap();
    assert_eq!(live.view().state, Viewed::Ended);
}

#[test]
fn what_agents_do_leaves_the_tasks_as_they_are() {
    let (store, team) = store();
    let task = NewTask {
        subject: "one".to_owned(),
        ..NewTask::default()
    };
    store
        .create_task(&team, &EventActor::Person, &task)
        .unwrap();
    let mut live = LiveTeam::open(&store, &team, &Limits::default()).unwrap();
    while !live.is_read() {
        live.read_on(&store).unwrap();
    }
    let before = live.view().clone();
    let usage = UsageReported {
        tokens_in: Some(7),
        ..UsageReported::default()
    };
    let usage = NewEvent::new("ann", EventKind::Usage(usage));
    let agent = AgentEventRecorded {
        what: AgentAction::Tool,
        ..AgentEventRecorded::default()
    };
    let agent = NewEvent::new("ann", EventKind::AgentEvent(agent));
    for event in [agent, usage] {
        store.record(&team, event).unwrap();
        let events = store.events(&team, live.last() + 1, 10).unwrap().events;
        let changes: Vec<Change> = events
            .into_iter()
            .map(|event| Change::Event(Box::new(event)))
            .collect();
        let patch = live.apply(&store, &changes).unwrap().expect("a patch");
        assert!(patch.tasks.is_empty() && patch.removed_tasks.is_empty());
        assert_eq!((&patch.critical_path, patch.progress), (&None, None));
    }
    let view = live.view();
    assert_eq!(
        (&view.tasks, view.progress),
        (&before.tasks, before.progress)
    );
    assert_eq!(view.critical_path, before.critical_path);
    assert_eq!(view.cost.total.tokens, 7);
}

#[test]
fn gate_of_a_run_that_was_cancelled_there_and_resumed_is_awaited_in_every_view() {
    let (store, team) = store_whose_host(ProcessState::Gone);
    let member = json!({ "name": "ann", "provider": "claude" });
    let started = json!({ "members": [member] });
    let expected = [
        ("run.started", started.clone(), false),
        ("run.stage", json!({ "to": "approval" }), false),
        (
            "approval.requested",
            json!({ "gate": "g", "commit": "c" }),
            true,
        ),
        (
            "run.finished",
            json!({ "to": "cancelled", "outcome": "cancelled" }),
            false,
        ),
        ("run.resumed", started, true),
        ("run.stage", json!({ "to": "execute" }), false),
    ];
    for (kind, data, awaits) in expected {
        let what = EventKind::parse(kind, data.as_object().unwrap());
        store.record(&team, NewEvent::new("lead", what)).unwrap();
        let now = run_now(&store, &team).unwrap();
        let lately = run_lately(&store, &team).unwrap();
        let gate = crate::requests::open_gate(&store, &team).unwrap();
        let position = store.position(&team).unwrap();
        let told = TeamProjection::at(&store, &team, position).unwrap();
        let page = told.view().approval.is_some_and(|approval| approval.waits);
        let all = [
            now.awaits_approval,
            lately.awaits_approval,
            gate.is_some(),
            page,
        ];
        assert_eq!(all, [awaits; 4], "{kind}");
    }
}

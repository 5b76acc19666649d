//! Regression tests for the findings of a hostile review.

use std::time::Duration;

use serde_json::json;
use teamster_journal::EventActor;
use teamster_store::{ClaimRequest, ReadStore, Reader, Store, StoreErrorKind};
use teamster_testkit::scratch::gone;
use teamster_types::heartbeat::{Heartbeat, WorkerStatus};
use teamster_types::process::ProcessId;
use teamster_types::team::NewMember;
use teamster_types::transitions::TaskEdit;

use super::{FileTeam, age, claim_request, id};

fn beat(crew: &FileTeam, worker: &str, status: WorkerStatus, process: &ProcessId, ago: i64) {
    let at = teamster_types::Time::from_millis(crew.store.now().as_millis() - ago * 1_000);
    let heartbeat = Heartbeat {
        worker_name: worker.parse().unwrap(),
        team_name: crew.team.clone(),
        provider: String::new(),
        pid: process.pid,
        last_poll_at: at,
        current_task_id: None,
        consecutive_errors: 0,
        status,
        process_start_time: Some(process.process_start_time),
        boot_id: Some(process.boot_id.clone()),
        pid_ns: Some(process.pid_ns.clone()),
        host: Some(process.host.clone()),
        agent_session_id: None,
        last_event_at: None,
        limit: None,
        store_refusal: None,
        launch: None,
    };
    crew.store.beat(&heartbeat).unwrap();
}

fn assign(crew: &FileTeam, task: u64, worker: &str) {
    let edit = TaskEdit {
        owner: Some(Some(worker.parse().unwrap())),
        ..TaskEdit::default()
    };
    crew.store
        .update_task(&crew.team, &EventActor::Lead, &id(task), &edit)
        .unwrap();
}

fn me() -> ProcessId {
    teamster_fs::proc::Machine::read().me().clone()
}

#[test]
fn what_is_assigned_to_a_dead_or_quarantined_worker_is_free() {
    let crew = FileTeam::new("lost-owner");
    for (task, status, ago) in [
        (1, WorkerStatus::Polling, 3_600),
        (2, WorkerStatus::Quarantined, 0),
    ] {
        crew.create("assigned");
        assign(&crew, task, "ada");
        assert!(crew.claim("bob", None).unwrap().is_none(), "ada may come");
        beat(&crew, "ada", status, &gone(), ago);
        let claimed = crew.must_claim("bob");
        assert_eq!(*claimed.task.id(), id(task));
        crew.complete(&claimed);
        crew.store
            .remove_heartbeat(&crew.team, &"ada".parse().unwrap())
            .unwrap();
    }
    crew.check_journal();
}

#[test]
fn a_quarantined_worker_gets_no_task() {
    let crew = FileTeam::new("quarantined");
    crew.create("first");
    beat(&crew, "ada", WorkerStatus::Quarantined, &me(), 0);
    for task in [None, Some(id(1))] {
        let refused = crew.claim("ada", task.as_ref()).unwrap_err();
        assert_eq!(refused.kind, StoreErrorKind::Conflict, "{refused}");
    }
    assert_eq!(*crew.must_claim("bob").task.id(), id(1));
}

#[test]
fn a_heartbeat_from_before_the_clock_was_set_back_proves_nothing() {
    let crew = FileTeam::new("set-back");
    crew.create("first");
    let dead = crew.another().claiming_as(gone());
    let short = ClaimRequest {
        lease: Some(Duration::from_secs(1)),
        ..claim_request("ada", None)
    };
    dead.claim(&crew.team, &short).unwrap().unwrap();
    crew.clock.advance(2_000);
    beat(&crew, "ada", WorkerStatus::Executing, &gone(), -5 * 3_600);
    assert_eq!(*crew.must_claim("bob").task.id(), id(1));
}

#[test]
fn a_lock_that_names_a_living_process_is_held_whatever_else_it_says() {
    let crew = FileTeam::with_patience("odd-lock", Duration::from_millis(50));
    crew.create("first");
    let lock = crew.in_tasks("1.lock");
    let pid = std::process::id();
    for odd in [
        json!({"pid": pid, "workerName": "x", "timestamp": 1, "processStartTime": null}),
        json!({"pid": pid, "timestamp": "2026-01-01T00:00:00Z"}),
        json!({"pid": pid}),
    ] {
        std::fs::write(&lock, odd.to_string()).unwrap();
        age(&lock, 3_600);
        let taken = crew.claim("ada", Some(&id(1))).unwrap_err();
        assert_eq!(taken.kind, StoreErrorKind::Conflict, "{odd}");
    }
}

#[test]
fn a_cursor_that_cannot_be_read_loses_no_message() {
    let crew = FileTeam::new("junk-cursor");
    let long = "x".repeat(60_000);
    for _ in 0..20 {
        crew.tell("ada", &long).unwrap();
    }
    assert!(crew.in_team("inbox/ada.1.jsonl").exists(), "it rotated");
    std::fs::write(crew.in_team("inbox/ada.offset"), "junk").unwrap();
    assert_eq!(crew.read("ada", false).unwrap().len(), 20);
    for _ in 0..20 {
        crew.tell("ada", &long).unwrap();
    }
    assert_eq!(crew.read("ada", true).unwrap().len(), 40);
    assert_eq!(crew.read("ada", true).unwrap().len(), 0);
}

#[test]
fn a_damaged_sidecar_stops_nobody() {
    let crew = FileTeam::new("junk-sidecar");
    crew.create("first");
    crew.create("second");
    let claimed = crew.must_claim("ada");
    std::fs::write(crew.in_tasks("1.failure.json"), "garbage").unwrap();
    let failed = crew
        .store
        .fail(&crew.team, &id(1), &claimed.token, "boom")
        .unwrap();
    assert_eq!(failed.failed_attempts(), 1);
    assert_eq!(*crew.must_claim("bob").task.id(), id(2));
}

#[test]
fn what_a_worker_made_counts_although_another_program_called_it_completed() {
    let crew = FileTeam::new("late-result");
    crew.create("first");
    let claimed = crew.must_claim("ada");
    let file = crew.in_tasks("1.json");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("\"in_progress\"", "\"completed\"")).unwrap();
    let result = Some(json!({"commit": "abc"}));
    let complete = || {
        crew.store
            .complete(&crew.team, &id(1), &claimed.token, result.clone())
    };
    assert_eq!(complete().unwrap().raw_result(), result.as_ref());
    let before = crew.store.position(&crew.team).unwrap();
    complete().unwrap();
    assert_eq!(
        crew.store.position(&crew.team).unwrap(),
        before,
        "and only once"
    );
    crew.check_journal();
}

#[test]
fn nobody_joins_a_team_of_claude_code_and_its_lock_is_honoured() {
    let crew = FileTeam::with_patience("join", Duration::from_millis(50));
    let member = NewMember {
        name: "eve".parse().unwrap(),
        provider: String::new(),
        capabilities: None,
    };
    let lock = crew.in_team("config.json.lock");
    std::fs::create_dir(&lock).unwrap();
    let kept = std::fs::read(crew.in_team("config.json")).unwrap();
    let busy = crew.store.join_team(&crew.team, &member).unwrap_err();
    assert_eq!(busy.kind, StoreErrorKind::Conflict, "{busy}");
    std::fs::remove_dir(&lock).unwrap();
    assert_eq!(std::fs::read(crew.in_team("config.json")).unwrap(), kept);
    let theirs = r#"{"name":"crew","members":[]}"#;
    std::fs::write(crew.in_team("config.json"), theirs).unwrap();
    let refused = crew.store.join_team(&crew.team, &member).unwrap_err();
    assert_eq!(refused.kind, StoreErrorKind::Refused, "{refused}");
    assert_eq!(
        std::fs::read_to_string(crew.in_team("config.json")).unwrap(),
        theirs
    );
}

#[test]
fn a_line_without_an_id_can_be_acknowledged() {
    let crew = FileTeam::new("no-id");
    std::fs::write(crew.in_team("inbox/ada.jsonl"), "{\"content\":\"hi\"}\n").unwrap();
    let reader = Reader::Worker("ada".parse().unwrap());
    let empty = crew.store.acknowledge(&crew.team, &reader, "").unwrap_err();
    assert_eq!(empty.kind, StoreErrorKind::Refused);
    let got = crew.store.receive(&crew.team, &reader, 10, false).unwrap();
    let name = got.messages[0].id().to_owned();
    assert_eq!(
        crew.store.acknowledge(&crew.team, &reader, &name).unwrap(),
        1
    );
    assert_eq!(crew.read("ada", false).unwrap(), Vec::<String>::new());
}

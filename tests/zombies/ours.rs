//! A team of teamster is removed only when its run has finished and nothing is left to do.

use teamster_store::Store;
use teamster_testkit::recorded;

use super::{DAY, evidence, is_gone, listed, scanned, touch};
use crate::kit::{TestProject, gone, living};

/// Makes the team `fix-auth`, created long ago, with these events in its journal.
fn aged(events: &[&'static str]) -> TestProject {
    let project = TestProject::with_team();
    let store = project.store(3 * DAY);
    for kind in events {
        store
            .record(
                &"fix-auth".parse().unwrap(),
                recorded(kind, "host", &serde_json::json!({})),
            )
            .unwrap();
    }
    let path = project.claude("teams/fix-auth/config.json");
    let mut config: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    config["createdAt"] = super::millis(3 * DAY).into();
    std::fs::write(&path, config.to_string()).unwrap();
    touch(&project, "fix-auth", 3 * DAY);
    project
}

#[test]
fn a_finished_run_goes_and_leaves_its_journal() {
    let project = aged(&["run.started", "run.finished"]);
    let found = listed(&project, "fix-auth");
    assert_eq!(found["action"], "reap", "{found}");
    project.run(["zombies", "reap"]).succeeds();
    assert!(is_gone(&project, "fix-auth"));
    let journal = project.folder().join(".omc/reports/fix-auth/events.jsonl");
    let journal = std::fs::read_to_string(journal).unwrap();
    assert!(journal.contains("run.finished"));
    let last: serde_json::Value = serde_json::from_str(journal.lines().last().unwrap()).unwrap();
    assert_eq!(last["type"], "zombie.reaped", "{last}");
    assert_eq!(last["data"]["kind"], "team");
    assert!(
        evidence(&last["data"]).contains("its run has finished"),
        "{last}"
    );
    project.run(["zombies", "restore", "fix-auth"]).succeeds();
    let kept = std::fs::read_to_string(project.claude("teams/fix-auth/events.jsonl")).unwrap();
    assert_eq!(kept, journal);
    // The journal can be continued.
    project.task("One more", &[]);
    let events = project.run(["journal", "--json"]).succeeds().json();
    assert!(events.to_string().contains("zombie.reaped"), "{events}");
}

#[test]
fn a_run_that_did_not_finish_stays_at_any_age() {
    for events in [&[][..], &["run.started"], &["run.finished", "run.resumed"]] {
        let project = aged(events);
        let found = listed(&project, "fix-auth");
        assert_eq!(found["action"], "keep", "{found}");
        assert_eq!(found["command"], "teamster team delete fix-auth");
        project.run(["zombies", "reap", "--ttl", "1ms"]).succeeds();
        assert!(!is_gone(&project, "fix-auth"), "{events:?}");
    }
}

#[test]
fn open_tasks_keep_a_team_at_any_age() {
    let project = aged(&["run.started", "run.finished"]);
    project.task("Left over", &[]);
    touch(&project, "fix-auth", 3 * DAY);
    let found = listed(&project, "fix-auth");
    assert_eq!(found["action"], "keep");
    assert!(evidence(&found).contains("1 open task"), "{found}");
    project.run(["zombies", "reap", "--ttl", "1ms"]).succeeds();
    assert!(!is_gone(&project, "fix-auth"));
}

#[test]
fn a_worker_that_lives_keeps_its_team() {
    let project = aged(&["run.started", "run.finished"]);
    project.beat("worker-1", 2 * DAY, &living(), &serde_json::json!({}));
    let found = listed(&project, "fix-auth");
    assert_eq!(found["action"], "keep");
    assert!(
        evidence(&found).contains("old, alive, heartbeat of worker-1"),
        "{found}"
    );
    project.beat("worker-1", 2 * DAY, &gone(), &serde_json::json!({}));
    assert_eq!(listed(&project, "fix-auth")["action"], "reap");
}

#[test]
fn a_lock_that_is_held_keeps_its_team() {
    let project = aged(&["run.started", "run.finished"]);
    let path = project.claude("teams/fix-auth/host.lock");
    let file = std::fs::File::create(&path).unwrap();
    touch(&project, "fix-auth", 3 * DAY);
    assert_eq!(listed(&project, "fix-auth")["action"], "reap");
    file.lock().unwrap();
    let found = listed(&project, "fix-auth");
    assert!(
        evidence(&found).contains("old, alive, host.lock is held"),
        "{found}"
    );
    file.unlock().unwrap();
    // Another process is changing the team at this moment.
    let writer = std::fs::File::open(project.claude("tasks/fix-auth/.teamster.lock")).unwrap();
    writer.lock().unwrap();
    let failed = project.run(["zombies", "reap", "--json"]).exits(1);
    assert!(
        failed
            .stdout
            .contains("another process is changing it right now"),
        "{}",
        failed.stdout
    );
    assert!(!is_gone(&project, "fix-auth"));
    writer.unlock().unwrap();
    project.run(["zombies", "reap"]).succeeds();
    assert!(is_gone(&project, "fix-auth"));
}

#[test]
fn a_run_whose_host_is_gone_is_listed_at_any_age() {
    let project = TestProject::with_team();
    assert_eq!(
        scanned(&project, "team", "fix-auth"),
        None,
        "a team that people work with"
    );
    project
        .store(std::time::Duration::ZERO)
        .record(
            &"fix-auth".parse().unwrap(),
            recorded("run.started", "host", &serde_json::json!({})),
        )
        .unwrap();
    let found = listed(&project, "fix-auth");
    assert_eq!(found["action"], "keep");
    assert!(evidence(&found).contains("its run has not finished; it can be resumed"));
}

#[test]
fn long_run_whose_host_is_gone_is_listed_by_its_first_event() {
    let project = TestProject::with_team();
    let store = project.store(std::time::Duration::ZERO);
    let record = |kind: &str| {
        let event = recorded(kind, "host", &serde_json::json!({}));
        store.record(&"fix-auth".parse().unwrap(), event).unwrap();
    };
    record("run.started");
    for _ in 0..300 {
        record("worker.progress");
    }
    let found = listed(&project, "fix-auth");
    assert!(
        evidence(&found).contains("its run has not finished; it can be resumed"),
        "{found}"
    );
}

#[test]
fn a_worker_reaps_and_restores_nothing() {
    let project = aged(&["run.started", "run.finished"]);
    for words in [
        &["zombies", "reap"][..],
        &["zombies", "restore", "fix-auth"],
    ] {
        let call = project.call(words).env("TEAMSTER_WORKER", "worker-1");
        call.run().fails(6);
    }
    assert!(!is_gone(&project, "fix-auth"));
}

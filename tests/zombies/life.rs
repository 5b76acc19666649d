//! Any sign of life keeps a team, at any age.

use std::time::Duration;

use serde_json::{Value, json};
use teamster_types::process::ProcessId;

use super::{
    DAY, evidence, is_gone, is_there, led_by, listed, put, registry, scanned, team, touch,
};
use crate::kit::{TestProject, gone, living};

const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

fn old(mut config: Value) -> Value {
    config["createdAt"] = json!(1_000_000_000_000_i64);
    config
}

/// Asserts that nothing removes the team, and that the output says why.
#[track_caller]
fn stays(project: &TestProject, name: &str, why: &str) {
    let found = listed(project, name);
    assert_eq!(found["action"], "keep", "{found}");
    assert!(evidence(&found).contains("old, "), "{found}");
    assert!(evidence(&found).contains(why), "{found}");
    project.run(["zombies", "reap", "--ttl", "1ms"]).succeeds();
    assert!(is_there(project, name), "{name}");
}

#[test]
fn a_living_lead_keeps_its_team() {
    let project = TestProject::new();
    team(&project, "led", &old(led_by("led", &living())), YEAR);
    stays(&project, "led", "old, alive, its lead (pid");
}

#[test]
fn a_lead_on_another_machine_cannot_be_judged_and_keeps_its_team() {
    let project = TestProject::new();
    let elsewhere = ProcessId {
        host: "elsewhere".to_owned(),
        ..gone()
    };
    team(&project, "far", &old(led_by("far", &elsewhere)), YEAR);
    stays(&project, "far", "old, perhaps alive, its lead");
}

#[test]
fn a_session_keeps_the_team_it_leads() {
    let project = TestProject::new();
    let me = living();
    let record = |pid: u32, start: u64, session: &str| {
        let record = json!({"pid": pid, "sessionId": session, "procStart": start.to_string()});
        put(
            &project,
            &format!("sessions/{pid}.json"),
            &record.to_string(),
        );
    };
    record(me.pid, me.process_start_time, "1a2b3c4d-0ea7-4bf3");
    let mut named = old(registry("named", 0));
    named["leadSessionId"] = json!("1a2b3c4d-0ea7-4bf3");
    team(&project, "named", &named, YEAR);
    team(&project, "session-1a2b3c4d", &old(registry("x", 0)), YEAR);
    let mut other = old(registry("other", 0));
    other["leadSessionId"] = json!("1");
    team(&project, "other", &other, YEAR);
    stays(&project, "named", "the session of its lead");
    stays(&project, "session-1a2b3c4d", "the session of its lead");
    assert!(is_gone(&project, "other"), "a part of an id is no id");
}

#[test]
fn the_key_beside_a_session_is_never_opened() {
    let project = TestProject::new();
    put(
        &project,
        "sessions/4711.secret.key",
        "{\"peerToken\":\"x\"}",
    );
    team(&project, "old", &old(registry("old", 0)), YEAR);
    let key = project.claude("sessions/4711.secret.key");
    let long_ago = std::time::SystemTime::UNIX_EPOCH;
    let times = std::fs::FileTimes::new()
        .set_accessed(long_ago)
        .set_modified(long_ago);
    std::fs::File::open(&key).unwrap().set_times(times).unwrap();
    project.run(["zombies", "reap"]).succeeds();
    // A read would have changed the access time, because it is not newer than the modification time.
    assert_eq!(
        std::fs::metadata(&key).unwrap().accessed().unwrap(),
        long_ago
    );
    assert!(is_gone(&project, "old"));
}

#[test]
fn unread_messages_keep_a_team_and_read_ones_do_not() {
    let project = TestProject::new();
    for (name, inbox) in [
        (
            "unread",
            r#"[{"from":"a","text":"b","read":false},{"from":"a","text":"c"}]"#,
        ),
        ("read", r#"[{"from":"a","text":"b","read":true}]"#),
        ("emptied", "[]"),
        ("torn", r#"[{"from":"#),
    ] {
        team(&project, name, &old(registry(name, 0)), YEAR);
        put(
            &project,
            &format!("teams/{name}/inboxes/team-lead.json"),
            inbox,
        );
        touch(&project, name, YEAR);
    }
    stays(
        &project,
        "unread",
        "2 unread messages in inboxes/team-lead.json",
    );
    stays(&project, "torn", "inboxes/team-lead.json cannot be read");
    assert!(is_gone(&project, "read"));
    assert!(is_gone(&project, "emptied"));
}

#[test]
fn unread_message_keeps_a_team_whose_lead_is_gone_until_its_ttl_and_no_longer() {
    let project = TestProject::new();
    let unread = r#"[{"from":"a","text":"b","read":false}]"#;
    team(&project, "mail", &led_by("mail", &gone()), Duration::ZERO);
    put(&project, "teams/mail/inboxes/team-lead.json", unread);
    let found = listed(&project, "mail");
    assert_eq!(found["action"], "keep", "{found}");
    assert!(evidence(&found).contains("1 unread message in"), "{found}");
    project.run(["zombies", "reap"]).succeeds();
    assert!(is_there(&project, "mail"));
    team(&project, "mail", &old(led_by("mail", &gone())), YEAR);
    let found = listed(&project, "mail");
    assert_eq!(found["action"], "reap", "{found}");
    assert!(evidence(&found).contains("1 unread message in"), "{found}");
    project.run(["zombies", "reap"]).succeeds();
    assert!(is_gone(&project, "mail"));
}

#[test]
fn team_over_by_another_ttl_is_listed_with_the_command_that_names_it() {
    let project = TestProject::new();
    team(
        &project,
        "old",
        &registry("old", super::millis(DAY / 2)),
        DAY / 2,
    );
    let found = project.run(["zombies", "scan", "--ttl", "1h", "--json"]);
    let found = found.succeeds().json();
    assert_eq!(
        found["zombies"][0]["command"],
        "teamster zombies reap --ttl 1h"
    );
    project.run(["zombies", "reap", "--ttl", "1h"]).succeeds();
    assert!(is_gone(&project, "old"));
}

#[test]
fn an_inbox_folder_keeps_a_team() {
    let project = TestProject::new();
    team(&project, "boxed", &old(registry("boxed", 0)), YEAR);
    std::fs::create_dir_all(project.claude("teams/boxed/inboxes/worker-1@boxed")).unwrap();
    touch(&project, "boxed", YEAR);
    stays(
        &project,
        "boxed",
        "there is a folder inboxes/worker-1@boxed",
    );
}

#[test]
fn a_claim_whose_process_runs_keeps_a_team() {
    let project = TestProject::new();
    let claim = |process: &ProcessId, lease: i64| {
        let until = teamster_types::Time::from_millis(super::millis(Duration::ZERO) + lease);
        json!({"id":"1","subject":"s","status":"in_progress","metadata":{"teamster":{"claim":{
            "worker":"worker-1","token":"t","leasedUntil":until.to_string(),"pid":process.pid,
            "processStartTime":process.process_start_time,"bootId":process.boot_id}}}})
    };
    for (name, task) in [
        ("runs", claim(&living(), -1000)),
        ("leased", claim(&gone(), 600_000)),
        ("dead", claim(&gone(), -1000)),
    ] {
        team(&project, name, &old(registry(name, 0)), YEAR);
        put(&project, &format!("tasks/{name}/1.json"), &task.to_string());
        touch(&project, name, YEAR);
    }
    stays(&project, "runs", "worker-1 (pid");
    stays(
        &project,
        "leased",
        "the claim of worker-1 on task 1 is still valid",
    );
    assert!(is_gone(&project, "dead"));
}

#[test]
fn a_team_is_over_at_any_age_when_its_lead_is_proven_gone() {
    let project = TestProject::new();
    team(&project, "over", &led_by("over", &gone()), Duration::ZERO);
    team(&project, "led", &led_by("led", &living()), Duration::ZERO);
    let mut unknown = led_by("unknown", &gone());
    unknown["leadProcess"]["pidSpace"] = json!("");
    team(&project, "unknown", &unknown, Duration::ZERO);
    assert!(
        evidence(&listed(&project, "over"))
            .contains("is gone, every other member is proven stopped")
    );
    assert_eq!(scanned(&project, "team", "led"), None);
    assert_eq!(
        scanned(&project, "team", "unknown"),
        None,
        "nobody knows where that pid is valid"
    );
    project.run(["zombies", "reap"]).succeeds();
    assert!(is_gone(&project, "over"));
    assert!(is_there(&project, "led"));
}

#[test]
fn open_tasks_wait_for_a_session_that_may_be_resumed() {
    let project = TestProject::new();
    let open = json!({"id":"1","subject":"s","status":"pending"}).to_string();
    team(&project, "over", &led_by("over", &gone()), Duration::ZERO);
    put(&project, "tasks/over/1.json", &open);
    let found = listed(&project, "over");
    assert_eq!(found["action"], "keep");
    assert!(evidence(&found).contains("1 open task, which a resumed session would continue"));
    project.run(["zombies", "reap"]).succeeds();
    assert!(is_there(&project, "over"));
    let mut config = led_by("over", &gone());
    config["createdAt"] = json!(super::millis(2 * DAY));
    team(&project, "over", &config, 2 * DAY);
    put(&project, "tasks/over/1.json", &open);
    touch(&project, "over", 2 * DAY);
    project.run(["zombies", "reap"]).succeeds();
    assert!(is_gone(&project, "over"));
}

#[test]
fn every_recorded_registry_of_every_client_is_judged() {
    let project = TestProject::new();
    let clients =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/claude-code");
    let me = living();
    let mut expected = Vec::new();
    for version in ["2.1.177", "2.1.197", "2.1.325"] {
        for entry in std::fs::read_dir(clients.join(version).join("team")).unwrap() {
            let path = entry.unwrap().path();
            let file = path.file_name().unwrap().to_string_lossy().into_owned();
            if !file.starts_with("config") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let config = old(serde_json::from_str(&text).unwrap());
            let far = format!("{version}-{file}");
            team(&project, &far, &config, 3 * DAY);
            // Newer clients record the machine of their lead: it is not this one.
            let is_recorded = config.get("leadProcess").is_some();
            expected.push((far, if is_recorded { "keep" } else { "reap" }));
            if is_recorded {
                let mut config = config;
                config["leadProcess"]["pidSpace"] = json!(format!("{}#{}", me.host, me.pid_ns));
                let here = format!("here-{version}-{file}");
                team(&project, &here, &config, 3 * DAY);
                expected.push((here, "reap"));
            }
        }
    }
    assert!(expected.len() > 10, "{expected:?}");
    let call = project.call(["zombies", "scan", "--json"]);
    let found = call
        .env("TMUX_TMPDIR", project.home())
        .run()
        .succeeds()
        .json();
    for (name, action) in expected {
        let mut list = found["zombies"].as_array().unwrap().iter();
        let zombie = list.find(|zombie| zombie["name"] == name.as_str()).unwrap();
        assert_eq!(zombie["action"], action, "{zombie}");
    }
}

//! Two sessions in one project: each writes one file, and one of them is shown.

use serde_json::{Value, json};

use super::{names, start};
use crate::kit::{TestProject, gone, living, now};

fn start_in(session: &str, name: &str) -> Value {
    json!({"session_id": session, "agent_name": name})
}

fn side(project: &TestProject, session: &str) -> Option<Value> {
    let text = std::fs::read_to_string(project.bkit(&format!("sessions/{session}.json"))).ok()?;
    Some(serde_json::from_str(&text).unwrap())
}

/// Makes the shown state as old as a session that crashed long ago.
fn grow_stale(project: &TestProject) {
    let mut state = project.state();
    state["lastUpdated"] = json!("2026-01-01T00:00:00.000Z");
    std::fs::write(project.bkit("agent-state.json"), state.to_string()).unwrap();
}

#[test]
fn the_second_session_has_its_own_file_until_the_first_one_ends() {
    let project = TestProject::new();
    project.hook("SubagentStart", &start_in("s1", "w1"));
    project.hook("SubagentStart", &start_in("s2", "x1"));
    assert_eq!(names(&project.state()), ["w1"]);
    assert_eq!(names(&side(&project, "s2").unwrap()), ["x1"]);
    project.hook("SubagentStart", &start_in("s2", "x2"));
    project.hook("SubagentStop", &start_in("s2", "x1"));
    assert_eq!(names(&side(&project, "s2").unwrap()), ["x1", "x2"]);
    project.hook("SessionEnd", &json!({"session_id": "s1"}));
    assert_eq!(project.state()["sessionId"], "s2", "it moves up");
    assert_eq!(names(&project.state()), ["x1", "x2"]);
    assert_eq!(side(&project, "s2"), None, "a session has one file");
    let ended = side(&project, "s1").unwrap();
    assert_eq!(ended["enabled"], false);
    project.hook("SubagentStart", &start_in("s1", "w2"));
    assert_eq!(
        names(&side(&project, "s1").unwrap()),
        ["w2"],
        "the first one is the second now"
    );
    assert_eq!(names(&project.state()), ["x1", "x2"]);
}

#[test]
fn the_end_of_a_session_that_is_not_shown_changes_nothing_that_is() {
    let project = TestProject::new();
    project.hook("SubagentStart", &start_in("s1", "w1"));
    project.hook("SubagentStart", &start_in("s2", "x1"));
    let shown = project.state();
    project.hook("Stop", &json!({"session_id": "s2"}));
    project.hook("SessionEnd", &json!({"session_id": "s3"}));
    assert_eq!(project.state(), shown);
    assert_eq!(side(&project, "s2").unwrap()["enabled"], false);
    assert_eq!(side(&project, "s3"), None);
}

#[test]
fn a_finished_session_is_archived_when_another_one_begins() {
    let project = TestProject::new();
    project.hook("SubagentStart", &start_in("s1", "w1"));
    project.hook("SessionEnd", &json!({"session_id": "s1"}));
    assert_eq!(side(&project, "s1"), None);
    project.hook("SubagentStart", &start_in("s2", "x1"));
    assert_eq!(project.state()["sessionId"], "s2");
    assert_eq!(names(&project.state()), ["x1"]);
    assert_eq!(side(&project, "s1").unwrap()["enabled"], false);
}

#[test]
fn a_stale_session_gives_way_and_is_ended_when_its_process_is_gone() {
    let project = TestProject::new();
    project.hook("SubagentStart", &start_in("s1", "w1"));
    grow_stale(&project);
    let gone = gone();
    let record = json!({"pid": gone.pid, "sessionId": "s1", "procStart": gone.process_start_time.to_string()});
    project.native_file(&format!("sessions/{}.json", gone.pid), &record.to_string());
    project.hook("SubagentStart", &start_in("s2", "x1"));
    assert_eq!(project.state()["sessionId"], "s2");
    assert_eq!(side(&project, "s1").unwrap()["enabled"], false);
    assert_eq!(side(&project, "s1").unwrap()["teammates"], json!([]));
}

#[test]
fn a_crashed_session_is_archived_when_the_next_one_starts() {
    let project = TestProject::new();
    project.hook("SubagentStart", &start_in("s1", "w1"));
    project.hook(
        "SessionStart",
        &json!({"session_id": "s2", "source": "startup"}),
    );
    assert_eq!(
        project.state()["enabled"],
        true,
        "it was heard of a moment ago"
    );
    let record = |process: teamster_types::process::ProcessId| {
        let record = json!({"pid": process.pid, "sessionId": "s1", "procStart": process.process_start_time.to_string()});
        project.native_file(
            &format!("sessions/{}.json", process.pid),
            &record.to_string(),
        );
    };
    record(living());
    project.hook(
        "SessionStart",
        &json!({"session_id": "s2", "source": "startup"}),
    );
    assert_eq!(project.state()["enabled"], true, "its process runs");
    record(gone());
    let ran = project.hook(
        "SessionStart",
        &json!({"session_id": "s2", "source": "startup"}),
    );
    assert_eq!(ran.stdout, "");
    assert_eq!(
        project.state()["enabled"],
        false,
        "its process is proven gone"
    );
    assert_eq!(side(&project, "s1").unwrap()["enabled"], false);
}

#[test]
fn a_session_whose_id_is_a_path_gets_no_file() {
    let project = TestProject::new();
    project.hook("SubagentStart", &start("w1"));
    for session in ["../../evil", "a/b", ".hidden", ".."] {
        project.hook("SubagentStart", &start_in(session, "x1"));
    }
    assert_eq!(names(&project.state()), ["w1"]);
    assert!(!project.folder().join("evil.json").exists());
    assert!(!project.bkit("sessions").exists());
}

#[test]
fn a_script_without_a_session_and_the_clients_session_have_a_state_each() {
    let project = TestProject::new();
    let init = |team: &str| {
        let init = ["state-file", "init", "--team", team, "--feature", "f"];
        project.run(init).succeeds();
    };
    init("t");
    project.hook("SubagentStart", &start_in("s1", "w1"));
    let state = project.state();
    assert_eq!(state["sessionId"], "script");
    assert_eq!(state["teamName"], "t");
    assert_eq!(state["teammates"], json!([]));
    project.run(["state-file", "message", "hello"]).succeeds();
    assert_eq!(side(&project, "s1").unwrap()["recentMessages"], json!([]));
    project.run(["state-file", "cleanup"]).succeeds();
    assert_eq!(project.state()["sessionId"], "s1", "it moves up");
    project.hook("SessionEnd", &json!({"session_id": "s1"}));
    init("t2");
    let state = project.state();
    assert_eq!(state["teamName"], "t2");
    assert_eq!(state["recentMessages"], json!([]), "a new one begins empty");
    assert!(state["startedAt"].as_str().unwrap() <= now().to_string().as_str());
    let archived = std::fs::read_dir(project.bkit("sessions")).unwrap();
    let archived: Vec<String> = archived
        .map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    assert!(
        archived.iter().any(|text| text.contains("hello")),
        "{archived:?}"
    );
}

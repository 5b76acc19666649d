//! Projects with only state files that other programs wrote.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use teamster_testkit::wait::{LONG, poll};
use teamster_types::Time;

use super::Studio;
use crate::kit::{TestProject, now};

fn state(enabled: bool, updated: Time, name: &str) -> Value {
    json!({
        "version": "1.0", "enabled": enabled, "teamName": name, "feature": "login", "pdcaPhase": "do",
        "orchestrationPattern": "swarm", "ctoAgent": "opus", "startedAt": updated, "lastUpdated": updated,
        "teammates": [{ "name": "ann", "role": "tester", "model": "haiku", "status": "working",
            "currentTask": "Testing", "taskId": "7", "startedAt": updated, "lastActivityAt": updated }],
        "progress": { "totalTasks": 4, "completedTasks": 1, "inProgressTasks": 2, "failedTasks": 0, "pendingTasks": 1 },
        "recentMessages": [{ "from": "ann", "to": "all", "content": "hello", "timestamp": updated }],
        "sessionId": "s-1", "unknown": { "kept": true },
    })
}

fn ago(span: Duration) -> Time {
    Time::from_millis(now().as_millis() - i64::try_from(span.as_millis()).unwrap())
}

fn write(project: &TestProject, state: &Value) {
    // As careful programs do: a complete new file, then a rename.
    project.write(".bkit/.new.json", &state.to_string());
    let folder = project.folder().join(".bkit");
    std::fs::rename(folder.join(".new.json"), folder.join("agent-state.json")).unwrap();
}

#[test]
fn a_file_alone_is_shown_live_stale_ended_or_inactive() {
    let project = TestProject::new();
    let studio = Studio::start(&project);
    let projects = studio.json("/api/v1/teams")["projects"].clone();
    assert_eq!(projects[0]["state"], "inactive");
    assert_eq!(projects[0]["exists"], true);
    let request = studio.request("GET", "/api/v1/events");
    let mut events = request.bearer(&studio.bearer).listen();
    for (enabled, age, word) in [
        (true, Duration::ZERO, "live"),
        (true, Duration::from_secs(285), "live"),
        (true, Duration::from_secs(301), "stale"),
        (false, Duration::from_secs(400), "ended"),
        (false, Duration::ZERO, "ended"),
    ] {
        let name = format!("crew-{word}-{}", age.as_secs());
        write(&project, &state(enabled, ago(age), &name));
        let row = loop {
            let overview = events.next_of("overview").data;
            let row = overview["teams"][0].clone();
            if row["name"] == name.as_str() {
                break row;
            }
        };
        assert_eq!(row["state"], word, "{row}");
        assert_eq!(row["kind"], "state-file");
        assert_eq!(row["progress"]["completedTasks"], 1);
        let key = row["id"].as_str().unwrap();
        let view = studio.json(&format!("/api/v1/teams/{key}"));
        assert_eq!(view["state"], word);
        assert_eq!(view["workers"][0]["name"], "ann");
        assert_eq!(view["workers"][0]["role"], "tester");
        assert_eq!(view["workers"][0]["currentTask"], "Testing");
        assert_eq!(view["messages"][0]["content"], "hello");
        assert_eq!(view["session"]["pdcaPhase"], "do");
        assert_eq!(view["session"]["orchestrationPattern"], "swarm");
    }
    std::fs::remove_file(project.folder().join(".bkit/agent-state.json")).unwrap();
    while events.next_of("overview").data["projects"][0]["state"] != "inactive" {}
}

#[test]
fn a_change_of_a_file_is_told_at_once_and_not_at_the_next_poll() {
    let project = TestProject::new();
    write(&project, &state(true, now(), "crew"));
    let studio = Studio::start(&project);
    let rows = studio.json("/api/v1/teams");
    let key = rows["teams"][0]["id"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/events?team={key}");
    let mut events = studio.request("GET", &path).bearer(&studio.bearer).listen();
    assert_eq!(events.next_of("view").data["name"], "crew");
    let mut slowest = Duration::ZERO;
    for number in 0..20 {
        let name = format!("crew-{number}");
        let at = Instant::now();
        write(&project, &state(true, now(), &name));
        while events.next_of("view").data["name"] != name.as_str() {}
        slowest = slowest.max(at.elapsed());
    }
    // Polling would take up to 2 s; a busy machine must not fail this.
    assert!(slowest < Duration::from_millis(1_500), "{slowest:?}");
}

#[test]
fn a_file_that_cannot_be_understood_is_named_and_hides_nobody() {
    let project = TestProject::with_team();
    project.write(".bkit/agent-state.json", "{\"enabled\": tr");
    let studio = Studio::start(&project);
    let rows = studio.json("/api/v1/teams");
    let rows = rows["teams"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    let broken = rows.iter().find(|row| row["kind"] == "state-file").unwrap();
    assert!(
        broken["problem"]
            .as_str()
            .unwrap()
            .contains("agent-state.json")
    );
}

#[test]
fn file_that_another_program_writes_in_place_is_shown_as_it_last_was_until_it_is_whole() {
    let project = TestProject::new();
    write(&project, &state(true, now(), "crew"));
    let studio = Studio::start(&project);
    let rows = studio.json("/api/v1/teams");
    let key = rows["teams"][0]["id"].as_str().unwrap().to_owned();
    let request = studio.request("GET", &format!("/api/v1/events?team={key}"));
    let mut events = request.bearer(&studio.bearer).listen();
    assert_eq!(events.next_of("view").data["name"], "crew");
    let request = studio.request("GET", "/api/v1/events");
    let mut overview = request.bearer(&studio.bearer).listen();
    for number in 0..3 {
        project.write(".bkit/agent-state.json", "{\"version\": \"1.0\", \"ena");
        // Studio has seen half of the file.
        while overview.next_of("overview").data["teams"][0]["problem"].is_null() {}
        let name = format!("crew-{number}");
        project.write(
            ".bkit/agent-state.json",
            &state(true, now(), &name).to_string(),
        );
        while events.next_of("view").data["name"] != name.as_str() {}
        while !overview.next_of("overview").data["teams"][0]["problem"].is_null() {}
    }
}

#[test]
fn state_file_that_is_no_plain_file_is_a_problem_with_its_reason() {
    let project = TestProject::new();
    let studio = Studio::start(&project);
    let problem = || {
        let teams = studio.json("/api/v1/teams")["teams"].clone();
        teams[0]["problem"].as_str().map(str::to_owned)
    };
    let folder = project.folder().join(".bkit");
    std::fs::create_dir_all(folder.join("agent-state.json")).unwrap();
    let said = poll(LONG, problem).expect("a folder is told");
    assert!(said.contains("agent-state.json cannot be read"), "{said}");
    std::fs::remove_dir(folder.join("agent-state.json")).unwrap();
    project.write("elsewhere.json", &state(true, now(), "crew").to_string());
    let target = project.folder().join("elsewhere.json");
    std::os::unix::fs::symlink(target, folder.join("agent-state.json")).unwrap();
    let said = poll(LONG, problem).expect("a link is told");
    assert!(said.contains("agent-state.json cannot be read"), "{said}");
}

#[test]
fn time_ahead_of_the_file_counts_as_its_modification_time() {
    let project = TestProject::new();
    let ahead = Time::from_millis(now().as_millis() + 3_600_000);
    write(&project, &state(true, ahead, "crew"));
    let file = project.folder().join(".bkit/agent-state.json");
    let hour = std::time::SystemTime::now() - Duration::from_secs(3_600);
    std::fs::File::options()
        .write(true)
        .open(file)
        .unwrap()
        .set_modified(hour)
        .unwrap();
    let studio = Studio::start(&project);
    let row = studio.json("/api/v1/teams")["teams"][0].clone();
    assert_eq!(row["state"], "stale", "{row}");
}

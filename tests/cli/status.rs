//! `teamster status`: the state of workers, and what needs a person.

use std::time::Duration;

use serde_json::json;
use teamster_store::{OutgoingMessage, Recipient, Store};
use teamster_types::json::Object;

use crate::kit::{TestProject, gone, living};

const LONG_AGO: Duration = Duration::from_secs(100);

#[test]
fn every_verdict_has_its_evidence() {
    let project = TestProject::new();
    let names = "healthy,errors,stuck,quiet,hung,dead,never";
    project
        .run(["team", "create", "fix-auth", "--members", names])
        .succeeds();
    let quiet = json!({ "status": "executing", "currentTaskId": "3", "lastEventAt": "2020-01-01T00:00:00.000Z" });
    project.beat(
        "healthy",
        Duration::ZERO,
        &living(),
        &json!({ "currentTaskId": "1", "status": "executing" }),
    );
    project.beat(
        "errors",
        Duration::ZERO,
        &living(),
        &json!({ "consecutiveErrors": 2 }),
    );
    project.beat(
        "stuck",
        Duration::ZERO,
        &living(),
        &json!({ "consecutiveErrors": 3 }),
    );
    project.beat("quiet", Duration::ZERO, &living(), &quiet);
    project.beat("hung", LONG_AGO, &living(), &json!({}));
    project.beat("dead", LONG_AGO, &gone(), &json!({}));
    let list = project.run(["worker", "list", "--json"]).succeeds().json();
    let rows = list["workers"].as_array().unwrap();
    let verdicts: Vec<&str> = rows
        .iter()
        .map(|row| row["verdict"].as_str().unwrap())
        .collect();
    assert_eq!(
        verdicts,
        [
            "healthy",
            "at-risk",
            "quarantined",
            "silent",
            "hung",
            "dead",
            "unknown"
        ]
    );
    assert!(
        rows.iter()
            .all(|row| !row["evidence"].as_array().unwrap().is_empty())
    );
    assert_eq!(rows[0]["currentTaskId"], "1");
    assert_eq!(rows[0]["backendType"], "process");
    assert_eq!(rows[0]["provider"], "codex");
    assert_eq!(rows[0]["pid"], living().pid);
    assert_eq!(rows[6]["status"], json!(null));
    assert_eq!(
        rows[5]["evidence"][1],
        format!("process {} is gone", gone().pid)
    );

    let status = project.run(["status", "--json"]).succeeds().json();
    let about: Vec<&str> = status["teams"][0]["problems"]
        .as_array()
        .unwrap()
        .iter()
        .map(|problem| problem["about"].as_str().unwrap())
        .collect();
    assert_eq!(
        about,
        ["errors", "stuck", "quiet", "hung", "dead"],
        "who was never started is no problem"
    );
}

#[test]
fn status_is_short_for_people_and_complete_for_programs() {
    let project = TestProject::with_team();
    project.task("a", &[]);
    project.task("b", &[]);
    project.claim("worker-1", "1");
    insta::assert_snapshot!(project.run(["status"]).succeeds().shown(), @r"
    team fix-auth  [root]/project
    0 of 2 tasks completed, 1 in progress, 1 pending

    WORKER    PROVIDER  VERDICT  STATUS  TASK  SEEN  EVIDENCE
    worker-1            unknown                      no heartbeat, no process to judge: a missing heartbeat alone proves nothing
    worker-2            unknown                      no heartbeat, no process to judge: a missing heartbeat alone proves nothing
    ");
    let status = project.run(["status", "--json"]).succeeds().json();
    let team = &status["teams"][0];
    assert_eq!(team["name"], "fix-auth");
    assert_eq!(team["kind"], "teamster");
    assert_eq!(team["project"], project.folder().to_str().unwrap());
    assert_eq!(team["stage"], json!(null));
    assert_eq!(team["progress"]["inProgressTasks"], 1);
    assert_eq!(team["workers"].as_array().unwrap().len(), 2);
    assert_eq!(team["problems"], json!([]));
}

#[test]
fn status_shows_the_teams_of_this_project_unless_asked_for_others() {
    let project = TestProject::with_team();
    let elsewhere = project.home();
    project
        .run([
            "team",
            "create",
            "far-away",
            "--project",
            elsewhere.to_str().unwrap(),
        ])
        .succeeds();
    let names = |args: &[&str]| -> Vec<String> {
        let all = project
            .run(["status", "--json"].iter().chain(args))
            .succeeds()
            .json();
        all["teams"]
            .as_array()
            .unwrap()
            .iter()
            .map(|team| team["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(&[]), ["fix-auth"]);
    assert_eq!(names(&["--all"]), ["far-away", "fix-auth"]);
    assert_eq!(names(&["--team", "far-away"]), ["far-away"]);
    project
        .run(["status", "--all", "--team", "far-away"])
        .fails(2);
    let empty = TestProject::new();
    insta::assert_snapshot!(empty.run(["status"]).succeeds().shown(), @r#"no team works on [root]/project; start one: `teamster run 2:claude "…"`"#);
    assert_eq!(
        empty.run(["status", "--json"]).json(),
        json!({ "teams": [] })
    );
}

#[test]
fn a_message_that_nobody_reads_is_a_problem_after_a_minute() {
    let project = TestProject::with_team();
    let team = "fix-auth".parse().unwrap();
    let message = OutgoingMessage {
        from: "lead".to_owned(),
        to: Recipient::Worker("worker-1".to_owned()),
        kind: "message".to_owned(),
        content: "hello".to_owned(),
        extra: Object::new(),
    };
    project.store(LONG_AGO).send(&team, &message).unwrap();
    project
        .run(["message", "send", "--to", "worker-2", "just now"])
        .succeeds();
    let problems = || project.run(["status", "--json"]).json()["teams"][0]["problems"].clone();
    assert_eq!(problems()[0]["kind"], "undelivered");
    assert_eq!(problems()[0]["about"], "inbox/worker-1");
    assert_eq!(problems().as_array().unwrap().len(), 1);
    project
        .run(["message", "read", "--as", "worker-1"])
        .succeeds();
    assert_eq!(problems(), json!([]));
}

#[test]
fn damaged_files_are_problems_and_hide_nothing() {
    let project = TestProject::with_team();
    project.task("a", &[]);
    project.task("b", &[]);
    std::fs::write(project.claude("tasks/fix-auth/1.json"), "not json").unwrap();
    project.beat("worker-1", Duration::ZERO, &living(), &json!({}));
    project.write(
        ".omc/state/team-bridge/fix-auth/worker-2.heartbeat.json",
        "{}",
    );
    let status = project.run(["status", "--json"]).succeeds().json();
    let team = &status["teams"][0];
    let files: Vec<&str> = team["problems"]
        .as_array()
        .unwrap()
        .iter()
        .map(|problem| problem["about"].as_str().unwrap())
        .collect();
    assert_eq!(files, ["1.json", "worker-2.heartbeat.json"]);
    assert_eq!(team["progress"]["pendingTasks"], 1);
    assert_eq!(team["workers"][0]["verdict"], "healthy");
}

#[test]
fn a_run_that_waits_for_a_person_is_shown_with_the_command() {
    let project = TestProject::new();
    let begin = "git init --quiet . && echo helo > word && git add word && \
                 git -c user.name=n -c user.email=e commit --quiet -m Begin";
    project.shell(begin).run().succeeds();
    project
        .run([
            "run",
            "1:fixer",
            "say hello",
            "--team",
            "hello",
            "--provider",
            "fixer=command:echo hello > word",
            "--verify",
            "grep -qx hello word",
            "--approve",
            "never",
        ])
        .succeeds();
    let status = || project.run(["status", "--json"]).succeeds().json()["teams"][0].clone();
    let waits = status()["problems"][0].clone();
    assert_eq!(
        (&waits["kind"], &waits["about"]),
        (&json!("approval"), &json!("approval"))
    );
    let text = project.run(["status"]).succeeds().stdout;
    assert!(
        text.contains("\napproval: verified: every check passed; waiting for your decision: `"),
        "{text}"
    );
    let command = text.split('`').nth(1).unwrap();
    assert!(
        command.starts_with("teamster approve --team hello --commit "),
        "{command}"
    );
    project.shell(command).run().succeeds();
    assert_eq!(status()["problems"], json!([]));
    let word = std::fs::read_to_string(project.folder().join("word")).unwrap();
    assert_eq!(word, "hello\n");
}

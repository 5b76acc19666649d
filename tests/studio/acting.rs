//! Actions on the page have the same effect as the commands.

use std::time::Duration;

use serde_json::json;

use super::{Studio, wait_for};
use crate::kit::{TestProject, gone};

#[test]
fn a_message_from_the_page_arrives_as_one_from_the_command_line() {
    let project = TestProject::with_team();
    let studio = Studio::start(&project);
    let path = "/api/v1/teams/fix-auth/messages";
    let sent = studio.post(path, &json!({ "to": "worker-1", "text": "Look at task 3" }));
    assert_eq!(sent.status, 200, "{}", sent.text());
    assert_eq!(sent.json()["ids"].as_array().unwrap().len(), 1);
    let read = project.run(["message", "read", "--as", "worker-1", "--json"]);
    let read = read.json();
    assert_eq!(read["messages"][0]["content"], "Look at task 3");
    assert_eq!(read["messages"][0]["from"], "lead");
    let all = studio.post(path, &json!({ "to": "all", "text": "Stop soon" }));
    assert_eq!(all.json()["ids"].as_array().unwrap().len(), 2);
    for (body, status, word) in [
        (json!({ "to": "nobody", "text": "x" }), 404, "nobody"),
        (json!({ "to": "../../x", "text": "x" }), 403, "worker"),
        (json!({ "to": "worker-1", "text": "" }), 403, "empty"),
        (
            json!({ "to": "worker-1", "text": "x".repeat(70_000) }),
            403,
            "the limit is 65536",
        ),
    ] {
        let answer = studio.post(path, &body);
        assert_eq!(answer.status, status, "{}", answer.text());
        let said = answer.json()["error"]["message"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(said.contains(word), "{said}");
    }
    let page = studio.json("/api/v1/teams/fix-auth/messages?limit=1");
    assert_eq!(page["messages"][0]["content"], "Stop soon");
    assert_eq!(page["more"], true);
    let before = page["messages"][0]["seq"].as_u64().unwrap();
    let path = format!("/api/v1/teams/fix-auth/messages?limit=1&before={before}");
    let older = studio.json(&path);
    assert_eq!(older["messages"][0]["content"], "Look at task 3");
    assert_eq!(older["more"], false);
}

#[test]
fn a_worker_is_stopped_and_everyone_is_drained() {
    let project = TestProject::with_team();
    let begin = "git init --quiet . && git -c user.name=n -c user.email=e commit --quiet --allow-empty -m Begin";
    project.shell(begin).run().succeeds();
    for name in ["worker-1", "worker-2"] {
        let words = [
            "worker",
            "start",
            "--name",
            name,
            "--provider",
            "command:true",
        ];
        project.run(words).succeeds();
    }
    let studio = Studio::start(&project);
    let status = |name: &str| {
        let view = studio.json("/api/v1/teams/fix-auth");
        let workers = view["workers"].as_array().unwrap().clone();
        workers.into_iter().find(|worker| worker["name"] == name)
    };
    wait_for("a healthy worker", || {
        (status("worker-1")?["verdict"] == "healthy").then_some(())
    });
    let path = "/api/v1/teams/fix-auth/workers/worker-1/stop";
    let stopped = studio.post(path, &json!({}));
    assert_eq!(stopped.status, 200, "{}", stopped.text());
    assert_eq!(stopped.json()["verified"], true);
    assert_eq!(stopped.json()["workers"][0]["worker"], "worker-1");
    let drained = studio.post("/api/v1/teams/fix-auth/drain", &json!({}));
    assert_eq!(drained.json()["verified"], true, "{}", drained.text());
    wait_for("everyone's end in the view", || {
        let gone = |name: &str| status(name).is_some_and(|worker| worker["pid"].is_null());
        (gone("worker-1") && gone("worker-2")).then_some(())
    });
    let nobody = "/api/v1/teams/fix-auth/workers/nobody/stop";
    assert_eq!(studio.post(nobody, &json!({})).status, 404);
}

#[test]
fn the_gate_is_answered_in_words_while_there_is_no_run() {
    let project = TestProject::with_team();
    let studio = Studio::start(&project);
    let body = json!({ "gate": "g", "commit": "c", "answer": "approve" });
    let answer = studio.post("/api/v1/teams/fix-auth/approval", &body);
    assert_eq!(answer.status, 409);
    assert_eq!(answer.json()["error"]["kind"], "conflict");
    let wrong = json!({ "gate": "g", "commit": "c", "answer": "maybe" });
    let answer = studio.post("/api/v1/teams/fix-auth/approval", &wrong);
    assert_eq!(answer.status, 400);
}

#[test]
fn zombies_are_shown_with_reasons_and_reaped() {
    let project = TestProject::with_team();
    project.beat("worker-1", Duration::from_secs(3_600), &gone(), &json!({}));
    let studio = Studio::start(&project);
    let shown = project.run(["zombies", "scan", "--json"]).json();
    let found = studio.json("/api/v1/zombies");
    let names = |list: &serde_json::Value| -> Vec<String> {
        let all = list["zombies"].as_array().unwrap().iter();
        all.map(|one| format!("{} {} {}", one["kind"], one["name"], one["action"]))
            .collect()
    };
    assert_eq!(names(&found), names(&shown));
    assert!(!names(&found).is_empty());
    assert!(
        !found["zombies"][0]["evidence"]
            .as_array()
            .unwrap()
            .is_empty()
    );
    let dry = studio
        .post("/api/v1/zombies/reap", &json!({ "dryRun": true }))
        .json();
    assert_eq!(dry["dryRun"], true);
    assert!(
        dry["zombies"]
            .as_array()
            .unwrap()
            .iter()
            .all(|done| done["reaped"] == false)
    );
    let done = studio.post("/api/v1/zombies/reap", &json!({})).json();
    let reaped = done["zombies"].as_array().unwrap().iter();
    assert!(reaped.clone().any(|done| done["reaped"] == true), "{done}");
    assert!(names(&studio.json("/api/v1/zombies")).len() < names(&found).len());
}

#[test]
fn a_worker_may_not_open_studio() {
    let project = TestProject::with_team();
    let call = project.call(["studio", "--port", "0", "--json"]);
    call.env("TEAMSTER_WORKER", "worker-1").run().exits(6);
}

#[test]
fn the_log_and_the_changes_of_a_worker_are_shown() {
    let project = TestProject::with_team();
    let begin = "git init --quiet . && git -c user.name=n -c user.email=e commit --quiet --allow-empty -m Begin";
    project.shell(begin).run().succeeds();
    project.task("Write a file", &[]);
    let studio = Studio::start(&project);
    let log = "/api/v1/teams/fix-auth/workers/worker-1/log";
    assert_eq!(studio.json(log)["taskId"], serde_json::Value::Null);
    let provider = "command:printf 'one\\ntwo\\n' > new.txt; echo written";
    let words = [
        "worker",
        "start",
        "--name",
        "worker-1",
        "--provider",
        provider,
    ];
    project.run(words).succeeds();
    wait_for("the task's end", || {
        let view = studio.json("/api/v1/teams/fix-auth");
        (view["tasks"][0]["state"] == "completed").then_some(())
    });
    let shown = studio.json(log);
    assert_eq!(shown["taskId"], "1");
    let has = |word: &str| {
        let lines = shown["lines"].as_array().unwrap().iter();
        lines
            .clone()
            .any(|line| line["text"].as_str().unwrap().contains(word))
    };
    assert!(has("written"), "{shown}");
    let next = shown["next"].as_u64().unwrap();
    let more = studio.json(&format!("{log}?task=1&after={next}"));
    assert_eq!(more["lines"].as_array().unwrap().len(), 0);
    let changes = studio.json("/api/v1/teams/fix-auth/changes");
    let branch = &changes["branches"][0];
    assert_eq!(branch["name"], "worker-1", "{changes}");
    assert_eq!(branch["files"][0]["path"], "new.txt");
    assert_eq!(branch["files"][0]["added"], 2);
    let diff = studio.json("/api/v1/teams/fix-auth/changes/worker-1?path=new.txt");
    assert!(diff["text"].as_str().unwrap().contains("+two"), "{diff}");
    let task = studio.json("/api/v1/teams/fix-auth/tasks/1");
    assert_eq!(task["files"][0], "new.txt");
    assert_eq!(task["commit"], branch["commit"]);
    assert!(task["events"].as_array().unwrap().len() >= 3);
    project.run(["shutdown", "--force", "--json"]).succeeds();
}

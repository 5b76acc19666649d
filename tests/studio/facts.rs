//! One model: every interface shows the same at the same position of the journal.

use std::time::Duration;

use serde_json::{Value, json};
use teamster_journal::NewEvent;
use teamster_store::Store;
use teamster_testkit::recorded;

use super::Studio;
use crate::kit::{TestProject, gone, living};

/// Makes a team in the middle of a run, with a healthy and a dead worker, and a task in every state.
pub fn in_the_middle() -> TestProject {
    let project = TestProject::with_team();
    project.task("Read the code", &[]);
    let token = project.claim("worker-1", "1");
    project
        .run(["task", "complete", "1", "--token", &token])
        .succeeds();
    project.task("Find the cause", &[]);
    project.claim("worker-1", "2");
    project.task("Fix it", &["--blocked-by", "2"]);
    project.task("Test it", &["--blocked-by", "3"]);
    project
        .run(["message", "send", "--to", "worker-2", "How is it?"])
        .succeeds();
    record_run(&project);
    let old = Duration::from_secs(600);
    project.beat("worker-2", old, &gone(), &json!({}));
    let busy = json!({ "currentTaskId": "2", "status": "executing" });
    project.beat("worker-1", Duration::ZERO, &living(), &busy);
    project
}

/// Records the events of a run's host.
fn record_run(project: &TestProject) {
    let store = project.store(Duration::ZERO);
    let team = "fix-auth".parse().unwrap();
    let record = |event: NewEvent| store.record(&team, event).unwrap();
    let members =
        json!([{ "name": "worker-1", "provider": "codex", "role": "executor", "model": "m-1" }]);
    record(recorded(
        "run.started",
        "host",
        &json!({
            "task": "Fix the login", "agents": "2:executor", "members": members,
            "base": { "commit": "abc", "branch": "main" },
            "verify": [{ "command": "make test", "source": "detected" }],
            "approve": "ask", "maxFix": 3,
            "budget": { "tokens": 100_000, "usd": null, "minutes": 30 },
        }),
    ));
    for (stage, reason) in [("plan", "begin"), ("execute", "planned")] {
        let data = json!({ "to": stage, "reason": reason, "round": 0 });
        record(recorded("run.stage", "host", &data));
    }
    let task = "1".parse().unwrap();
    record(
        recorded(
            "usage",
            "worker-1",
            &json!({
                "provider": "codex", "model": "m-1", "tokensIn": 1_000, "tokensOut": 250,
                "cachedIn": 500, "cacheWrite": 0, "usd": 0.5, "atLeast": false,
            }),
        )
        .task(&task),
    );
    let failed = json!({
        "on": "base", "commit": "abc", "command": "make test", "exitCode": 2, "seconds": 1.5,
        "last": ["one", "two"], "charged": false,
    });
    record(recorded("verify.failed", "host", &failed));
    let conflict = json!({ "commit": "def", "files": ["a.rs"], "times": 1, "final": false });
    record(recorded("merge.conflict", "host", &conflict).task(&task));
    let gate = json!({
        "gate": "g-1", "commit": "def", "base": { "commit": "abc", "branch": "main" },
        "verified": false, "words": "not verified",
    });
    record(recorded("approval.requested", "host", &gate));
}

#[test]
fn status_top_and_the_api_say_the_same() {
    let project = in_the_middle();
    let studio = Studio::start(&project);
    let status = project.run(["status", "--json"]).succeeds().json();
    let status = &status["teams"][0];
    let top = project.run(["top", "--once", "--json"]).succeeds().json();
    let top = &top["teams"][0];
    let api = studio.json("/api/v1/teams/fix-auth");
    let rows = studio.json("/api/v1/teams");
    let row = &rows["teams"][0];
    assert_eq!(api["seq"], top["seq"]);
    for key in ["name", "project", "progress"] {
        assert_eq!(status[key], api[key], "{key}");
        assert_eq!(top[key], api[key], "{key}");
        assert_eq!(row[key], api[key], "{key}");
    }
    assert_eq!(status["stage"], "execute");
    assert_eq!(api["run"]["stage"], status["stage"]);
    assert_eq!(row["stage"], status["stage"]);
    assert_eq!(row["awaitsApproval"], true);
    assert_eq!(api["approval"]["waits"], true);
    assert_eq!(row["problems"], api["problems"].as_array().unwrap().len());
    let workers = status["workers"].as_array().unwrap();
    assert_eq!(workers.len(), 2);
    for (place, worker) in workers.iter().enumerate() {
        for key in [
            "name",
            "status",
            "verdict",
            "pid",
            "currentTaskId",
            "lastPollAt",
            "provider",
        ] {
            assert_eq!(worker[key], api["workers"][place][key], "{key}");
            assert_eq!(worker[key], top["workers"][place][key], "{key}");
        }
    }
    let told = |list: &Value| -> Vec<String> {
        let all = list.as_array().unwrap().iter();
        // Ages grow during the test.
        all.map(|problem| format!("{} {}", problem["kind"], problem["about"]))
            .collect()
    };
    assert_eq!(told(&status["problems"]), told(&api["problems"]));
    assert_eq!(told(&top["problems"]), told(&api["problems"]));
    for key in [
        "run",
        "approval",
        "verifications",
        "merges",
        "cost",
        "messages",
        "criticalPath",
    ] {
        assert_eq!(top[key], api[key], "{key}");
    }
    let tasks = project.run(["task", "list", "--json"]).succeeds().json();
    for (place, task) in tasks["tasks"].as_array().unwrap().iter().enumerate() {
        for key in ["id", "state", "reason", "subject", "status"] {
            assert_eq!(task[key], api["tasks"][place][key], "{key}");
            assert_eq!(task[key], top["tasks"][place][key], "{key}");
        }
    }
    let frame = project.run(["top", "--once"]).succeeds().stdout;
    for words in [
        "fix-auth  live  execute  waits for your approval",
        "1 of 4 tasks, 1 at work",
        "1.8k tokens  $0.50",
    ] {
        assert!(frame.contains(words), "{words}\n{frame}");
    }
    let metrics = studio.get("/metrics").text();
    for line in [
        "teamster_tasks{team=\"fix-auth\",status=\"completed\"} 1",
        "teamster_tokens{team=\"fix-auth\"} 1750",
        "teamster_cost_usd{team=\"fix-auth\"} 0.5",
        "teamster_workers{team=\"fix-auth\",verdict=\"dead\"} 1",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
}

#[test]
fn a_run_is_told_as_its_events_tell_it() {
    let project = in_the_middle();
    let studio = Studio::start(&project);
    let view = studio.json("/api/v1/teams/fix-auth");
    let run = &view["run"];
    assert_eq!(run["task"], "Fix the login");
    assert_eq!(run["base"]["commit"], "abc");
    assert_eq!(
        run["budget"],
        json!({ "tokens": 100_000, "usd": null, "minutes": 30.0 })
    );
    assert_eq!(run["stages"].as_array().unwrap().len(), 2);
    assert_eq!(run["finished"], Value::Null);
    let worker = &view["workers"][0];
    assert_eq!(worker["role"], "executor");
    assert_eq!(worker["model"], "m-1");
    assert_eq!(worker["spent"]["tokens"], 1_750);
    assert_eq!(worker["tasksCompleted"], 1);
    assert_eq!(worker["currentTask"], "Find the cause");
    let verified = &view["verifications"][0];
    assert_eq!(verified["state"], "failed");
    assert_eq!(verified["last"], "one\ntwo");
    assert_eq!(verified["charged"], false);
    assert_eq!(view["merges"][0]["files"], json!(["a.rs"]));
    assert_eq!(view["approval"]["words"], "not verified");
    assert_eq!(view["approval"]["branch"], "main");
    assert_eq!(view["approval"]["base"], "abc");
    assert_eq!(view["cost"]["byTask"][0]["taskId"], "1");
    assert_eq!(view["tasks"][2]["level"], 1);
    assert_eq!(view["tasks"][3]["level"], 2);
    assert_eq!(view["criticalPath"], json!(["2", "3", "4"]));
    let timeline = studio.json("/api/v1/teams/fix-auth/timeline");
    let lane = &timeline["lanes"][0];
    assert_eq!(lane["worker"], "worker-1");
    assert_eq!(lane["spans"][0]["end"], "completed");
    assert_eq!(lane["spans"][1]["end"], "open");
    assert_eq!(timeline["stages"][1]["stage"], "execute");
    // A person answers; the run has not applied it yet, then it does.
    let store = project.store(Duration::ZERO);
    let team = "fix-auth".parse().unwrap();
    let answer = |kind: &'static str| {
        let data = json!({ "gate": "g-1", "commit": "def", "answer": "approve" });
        let event = recorded(kind, "user", &data);
        store.record(&team, event).unwrap();
        let top = project.run(["top", "--once", "--json"]).succeeds().json();
        top["teams"][0]["approval"].clone()
    };
    let said = answer("approval.answered");
    assert_eq!(
        (&said["waits"], &said["answer"]["taken"]),
        (&json!(true), &json!(false))
    );
    let taken = answer("approval.given");
    assert_eq!(
        (&taken["waits"], &taken["answer"]["taken"]),
        (&json!(false), &json!(true))
    );
}

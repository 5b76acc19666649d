//! The `data` of events.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use teamster_journal::{Event, TeamState, WorkerPhase};

use crate::kit::TestProject;
use crate::workers::{Crew, kill_9};

fn events(project: &TestProject, team: &str) -> Vec<Value> {
    let journal = project.read(&format!("teams/{team}/events.jsonl"));
    let events = journal.lines().map(serde_json::from_str);
    events.collect::<Result<_, _>>().unwrap()
}

#[test]
fn of_tasks_what_changed_and_never_a_token() {
    let project = TestProject::with_team();
    project.task("one", &[]);
    let token = project.claim("worker-1", "1");
    project
        .run(["task", "renew", "1", "--token", &token])
        .succeeds();
    let fail = ["task", "fail", "1", "--token", &token, "--error", "no"];
    project.run(fail).succeeds();
    project.run(["task", "retry", "1"]).succeeds();
    project
        .run(["task", "update", "1", "--subject", "two"])
        .succeeds();
    let token = project.claim("worker-1", "1");
    project
        .run(["task", "release", "1", "--token", &token])
        .succeeds();
    let last = project.claim("worker-1", "1");
    project
        .run(["task", "complete", "1", "--token", &last])
        .succeeds();
    project.run(["task", "delete", "1"]).succeeds();
    let steps: Vec<(String, Value, Value)> = events(&project, "fix-auth")
        .into_iter()
        .filter(|event| event["taskId"] == "1")
        .map(|event| {
            let kind = event["type"].as_str().unwrap().to_owned();
            let data = &event["data"];
            (kind, data["from"].clone(), data["to"].clone())
        })
        .collect();
    let (none, pending, begun, done) = (
        json!(null),
        json!("pending"),
        json!("in_progress"),
        json!("completed"),
    );
    let expected = [
        ("task.created", &none, &pending),
        ("task.claimed", &pending, &begun),
        ("task.failed", &begun, &pending),
        ("task.retried", &none, &none),
        ("task.updated", &none, &none),
        ("task.claimed", &pending, &begun),
        ("task.released", &begun, &pending),
        ("task.claimed", &pending, &begun),
        ("task.completed", &begun, &done),
        ("task.deleted", &done, &none),
    ];
    for (step, (kind, from, to)) in steps.iter().zip(expected) {
        assert_eq!((step.0.as_str(), &step.1, &step.2), (kind, from, to));
    }
    assert_eq!(steps.len(), expected.len());
    let text = project.read("teams/fix-auth/events.jsonl");
    assert!(!text.contains(&token) && !text.contains(&last));
    assert!(!text.contains("\"token\""), "{text}");
    let updated = events(&project, "fix-auth");
    let updated = updated.iter().find(|event| event["type"] == "task.updated");
    assert_eq!(updated.unwrap()["data"]["subject"], "two");
}

#[test]
fn of_usage_tokens_and_money_and_null_for_what_is_unknown() {
    let crew = Crew::new();
    let script = crew.project.folder().join("script.toml");
    let text = "
        [[step]]\ntask = 'paid'\ndo = 'usage'\ntokens_in = 1200\ntokens_out = 80\nusd = 0.5\n\
        [[step]]\ntask = 'free'\ndo = 'usage'\ntokens_in = 7\ntokens_out = 1\n";
    std::fs::write(&script, text).unwrap();
    let (paid, free) = (crew.task("paid work"), crew.task("free work"));
    let provider = format!("scripted:{}", script.display());
    crew.start_provider("ann", &provider, &[], &[]).succeeds();
    crew.until_status(&paid, "completed");
    crew.until_status(&free, "completed");
    let used = crew.events("usage");
    let of = |id: &str| {
        let event = used.iter().find(|event| event["taskId"] == id).unwrap();
        event["data"].clone()
    };
    let data = of(&paid);
    assert_eq!(data["tokensIn"], 1200, "{data}");
    assert_eq!(data["tokensOut"], 80);
    assert_eq!(data["cachedIn"], 0);
    assert_eq!(data["usd"], 0.5);
    let data = of(&free);
    assert_eq!(data["tokensIn"], 7);
    assert!(data["usd"].is_null(), "an unknown cost is not 0: {data}");
    assert!(data.get("usd").is_some(), "and it is said to be unknown");
}

#[test]
fn of_a_dead_worker_the_verdict_and_what_it_rests_on() {
    let crew = Crew::new();
    let id = crew.task("long");
    crew.start("ann", "sleep 600");
    crew.until_status(&id, "in_progress");
    let beat = crew.heartbeat("ann").unwrap();
    kill_9(&beat["pid"]);
    crew.until("its end", || {
        !Path::new(&format!("/proc/{}", beat["pid"])).exists()
    });
    crew.age_heartbeat("ann");
    // An idle worker reclaims the tasks of the dead one.
    crew.start("ben", "true");
    crew.until("a burial", || !crew.events("worker.dead").is_empty());
    let data = crew.events("worker.dead")[0]["data"].clone();
    assert_eq!(data["worker"], "ann");
    assert_eq!(data["verdict"], "dead");
    assert!(data["evidence"][0].is_string(), "{data}");
}

#[test]
fn of_a_quarantined_worker_the_verdict_and_what_it_rests_on() {
    let crew = Crew::new();
    for number in 1..=3 {
        crew.task(&format!("impossible {number}"));
    }
    crew.start("ann", "exit 1");
    crew.until("a quarantine", || {
        !crew.events("worker.quarantined").is_empty()
    });
    let data = crew.events("worker.quarantined")[0]["data"].clone();
    assert_eq!(data["worker"], "ann");
    assert_eq!(data["verdict"], "quarantined");
    assert!(data["evidence"][0].is_string(), "{data}");
}

#[test]
fn of_a_hook_its_event_its_session_and_a_name() {
    let project = TestProject::with_team();
    project.beat(
        "worker-1",
        Duration::ZERO,
        &crate::kit::living(),
        &json!({}),
    );
    let payload = json!({
        "session_id": "s-1", "hook_event_name": "TeammateIdle", "cwd": project.folder(),
        "teammate_name": "worker-1", "team_name": "fix-auth",
    });
    project
        .call(["hook", "TeammateIdle"])
        .env("TEAMSTER_TEAM", "fix-auth")
        .env("TEAMSTER_WORKER", "worker-1")
        .input(payload.to_string())
        .run()
        .exits(0);
    let all = events(&project, "fix-auth");
    let received = all.iter().find(|event| event["type"] == "hook.received");
    let data = &received.unwrap()["data"];
    assert_eq!(data["event"], "TeammateIdle");
    assert_eq!(data["session"], "s-1");
    assert_eq!(data["name"], "worker-1");
}

#[test]
fn of_a_question_that_its_worker_waits_until_the_first_answer() {
    let event = |seq: u64, kind: &str, actor: &str, data: Value| -> Event {
        let event = json!({
            "seq": seq, "id": format!("e{seq}"), "ts": "2026-02-07T12:00:00.000Z", "team": "crew", "type": kind,
            "actor": actor, "taskId": "1", "data": data,
        });
        serde_json::from_value(event).unwrap()
    };
    let asked = json!({ "kind": "ask", "text": "Which?", "to": "person" });
    let events = [
        event(1, "task.claimed", "ann", json!({})),
        event(2, "question.asked", "ann", asked),
        event(
            3,
            "question.answered",
            "user",
            json!({ "question": "q2", "answer": "a" }),
        ),
        event(
            4,
            "question.answered",
            "user",
            json!({ "question": "q2", "answer": "b" }),
        ),
    ];
    let phase = |count: usize| TeamState::of(&events[..count]).workers["ann"].phase;
    assert_eq!(phase(1), WorkerPhase::Working);
    assert_eq!(phase(2), WorkerPhase::Waiting);
    assert_eq!(phase(2).as_str(), "waiting for an answer");
    assert_eq!(phase(4), WorkerPhase::Working);
    let state = TeamState::of(&events);
    let question = state.questions.all().next().unwrap();
    assert_eq!(question.answer(), Some("a"));
    assert_eq!(state.questions.open().count(), 0);
}

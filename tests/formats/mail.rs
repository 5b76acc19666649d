//! Workers' messages to their lead, and the records of failures.

use serde_json::Value;

use super::{has_keys, is_moment};
use crate::kit::TestProject;
use crate::workers::Crew;

fn outbox(crew: &Crew) -> Vec<Value> {
    let path = crew.project.claude("teams/crew/outbox/ann.jsonl");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines = text.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().unwrap()
}

fn types(crew: &Crew) -> Vec<String> {
    let messages = outbox(crew).into_iter();
    messages
        .map(|message| message["type"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_worker_tells_of_its_tasks_of_having_none_and_of_its_end() {
    let crew = Crew::new();
    let command = "[ \"$TEAMSTER_TASK_SUBJECT\" = good ] || [ $TEAMSTER_TASK_ATTEMPT -gt 1 ] || exit 1; echo did it";
    crew.start("ann", command);
    crew.until("idleness", || types(&crew) == ["ready", "idle"]);
    let good = crew.task("good");
    crew.until_status(&good, "completed");
    crew.until("the end of all tasks", || types(&crew).len() == 5);
    assert_eq!(
        types(&crew)[2..],
        ["task_complete", "idle", "all_tasks_complete"]
    );
    let bad = crew.task("bad");
    crew.until_status(&bad, "completed");
    crew.until("the end of all tasks", || {
        types(&crew).last().unwrap() == "all_tasks_complete" && types(&crew).len() > 5
    });
    // Between its attempts there was nothing to do, but not everything was completed.
    let expected = [
        "task_failed",
        "idle",
        "task_complete",
        "idle",
        "all_tasks_complete",
    ];
    assert_eq!(types(&crew)[5..], expected);
    crew.project.run(["shutdown", "--json"]).exits(0);
    let told = outbox(&crew);
    for message in &told {
        has_keys(message, &["id", "content"]);
        assert_eq!(
            (&message["from"], &message["to"]),
            (&"ann".into(), &"lead".into())
        );
        is_moment(&message["timestamp"]);
    }
    let of = |kind: &str| told.iter().find(|message| message["type"] == kind).unwrap();
    assert_eq!(of("task_complete")["taskId"], good.as_str());
    assert_eq!(of("task_complete")["summary"], "did it");
    assert_eq!(of("task_failed")["taskId"], bad.as_str());
    assert!(of("task_failed")["error"].is_string());
    let ack = of("shutdown_ack");
    assert_eq!(ack["approve"], true);
    assert!(ack["requestId"].is_string() && ack["reason"].is_string());
}

#[test]
fn a_failure_is_kept_beside_its_task() {
    let project = TestProject::with_team();
    project.task("one", &[]);
    let token = project.claim("worker-1", "1");
    let fail = [
        "task", "fail", "1", "--token", &token, "--error", "it broke",
    ];
    project.run(fail).succeeds();
    let failure: Value =
        serde_json::from_str(&project.read("tasks/fix-auth/1.failure.json")).unwrap();
    assert_eq!(failure["taskId"], "1");
    assert_eq!(failure["lastError"], "it broke");
    assert_eq!(failure["retryCount"], 1);
    is_moment(&failure["lastFailedAt"]);
    let task: Value = serde_json::from_str(&project.read("tasks/fix-auth/1.json")).unwrap();
    assert_eq!(task["status"], "pending");
    assert_eq!(task["metadata"]["failedAttempts"], 1);
    assert_eq!(task["metadata"]["permanentlyFailed"], false);
}

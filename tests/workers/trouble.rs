//! Failures that are not caused by the task: the model's server, the network.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::Crew;

/// Puts a program into the project's own `bin` that prints a recording of the real client, and ends with this code.
pub fn recorded(crew: &Crew, client: &str, stream: &str, code: i32) -> String {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/workers");
    let stream = fixtures.join(client).join(format!("{stream}.jsonl"));
    assert!(stream.exists(), "{}", stream.display());
    let bin = crew.project.home().join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    let program = bin.join(client);
    let script = format!(
        "#!/bin/sh\ncat > /dev/null\ncat '{}'\nexit {code}\n",
        stream.display()
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:/usr/bin:/bin", bin.display())
}

#[test]
fn a_rate_limit_pauses_the_worker_and_costs_the_task_nothing() {
    let crew = Crew::new();
    let id = crew.task("wait for better times");
    let path = recorded(&crew, "codex", "err429", 1);
    crew.start_provider("ann", "codex", &[], &[("PATH", &path)])
        .succeeds();
    crew.until("a pause", || !crew.events("worker.paused").is_empty());
    let paused = &crew.events("worker.paused")[0]["data"];
    assert_eq!(paused["seconds"], 5);
    assert!(
        paused["reason"].as_str().unwrap().contains("rate limit"),
        "{paused}"
    );
    let task = crew.shown(&id);
    assert_eq!(
        (&task["status"], &task["owner"]),
        (&"in_progress".into(), &"ann".into())
    );
    assert_eq!(crew.events("task.failed").len(), 0);
    assert_eq!(crew.worker("ann")["consecutiveErrors"], 0);
    // The failure is over.
    recorded(&crew, "codex", "ok", 0);
    crew.until_status(&id, "completed");
    let usage = crew.events("usage");
    assert_eq!(usage.len(), 1);
    assert!(
        usage[0]["data"]["tokensOut"].as_u64().unwrap() > 0,
        "{usage:?}"
    );
    assert!(
        usage[0]["data"]["usd"].is_null(),
        "an unknown cost is not 0"
    );
}

#[test]
fn a_stream_that_was_cut_is_no_success_whatever_the_exit_code() {
    let crew = Crew::new();
    crew.task("cut");
    let path = recorded(&crew, "codex", "sigkill", 0);
    crew.start_provider("ann", "codex", &[], &[("PATH", &path)])
        .succeeds();
    crew.until("an end", || !crew.events("task.failed").is_empty());
    assert_eq!(crew.events("task.completed").len(), 0);
}

//! Agents that do not start: reported, retried once, and never shown as working.

use std::time::{Duration, Instant};

use super::Crew;
use super::trouble::recorded;

#[test]
fn an_agent_that_says_nothing_is_a_failed_launch_and_three_of_them_quarantine() {
    let crew = Crew::new();
    let id = crew.task("wait");
    let path = recorded(&crew, "codex", "ok", 0);
    let silent = crew.project.home().join("bin/codex");
    let speaking = std::fs::read_to_string(&silent).unwrap();
    std::fs::write(&silent, "#!/bin/sh\nsleep 600\n").unwrap();
    let start = Instant::now();
    crew.start_provider(
        "ann",
        "codex",
        &[],
        &[("PATH", &path), ("TEAMSTER_WORKER_START_LIMIT", "500ms")],
    )
    .succeeds();
    crew.until("a failed launch", || {
        let row = crew.worker("ann");
        assert_ne!(row["status"], "executing", "it was shown as working");
        !crew.events("worker.launch_failed").is_empty()
    });
    assert!(start.elapsed() < Duration::from_secs(30));
    let reason = &crew.events("worker.launch_failed")[0]["data"]["reason"];
    let reason = reason.as_str().unwrap();
    for part in ["bin/codex", "signal", "printed nothing"] {
        assert!(reason.contains(part), "{part} is missing in {reason}");
    }
    crew.until("quarantine", || {
        crew.worker("ann")["verdict"] == "quarantined"
    });
    assert_eq!(
        crew.events("worker.launch_failed").len(),
        6,
        "twice for each of 3 errors"
    );
    assert_eq!(crew.events("worker.started").len(), 0);
    let task = crew.shown(&id);
    assert_eq!(task["status"], "pending", "its task is free");
    assert!(task["metadata"]["failedAttempts"].as_u64().unwrap_or(0) == 0);
    let refused = crew
        .project
        .run(["task", "claim", "--worker", "ann"])
        .exits(4);
    assert!(refused.stderr.contains("quarantined"), "{}", refused.stderr);
    let route = crew
        .project
        .run(["task", "route", &id, "--explain"])
        .exits(0);
    assert!(route.stdout.contains("quarantined"), "{}", route.stdout);
    // A person resumes the worker, and by now the agent starts.
    std::fs::write(&silent, speaking).unwrap();
    crew.project.run(["worker", "resume", "ann"]).succeeds();
    crew.until_status(&id, "completed");
    assert_eq!(crew.events("worker.resumed").len(), 1);
    crew.project.run(["worker", "resume", "ann"]).fails(4);
}

#[test]
fn an_agent_that_ends_at_once_is_told_with_its_exit_and_its_last_words() {
    let crew = Crew::new();
    crew.task("fail");
    crew.start("ann", "echo no such luck >&2; exit 7");
    crew.until("a failure", || !crew.events("task.failed").is_empty());
    let error = crew.events("task.failed")[0]["data"]["failure"]["lastError"].clone();
    let error = error.as_str().unwrap();
    assert!(
        error.contains("exit code 7") && error.contains("no such luck"),
        "{error}"
    );
}

#[test]
fn client_that_is_not_installed_is_refused_at_once_with_the_way_on() {
    let crew = Crew::new();
    crew.task("fail");
    for client in ["codex", "claude", "gemini"] {
        let variables = [("PATH", "/usr/bin:/bin")];
        let refused = crew.start_provider("ann", client, &[], &variables).fails(6);
        let error = refused.error();
        let said = format!("{}{}", error["message"], error["hint"]);
        assert!(said.contains(client), "{said}");
        assert!(said.contains("npm install -g"), "{said}");
        assert!(said.contains("command:PROGRAM"), "{said}");
    }
    let team = crew.project.run(["team", "show", "crew", "--json"]);
    assert!(!team.succeeds().stdout.contains("ann"), "nobody joined");
    assert!(crew.heartbeat("ann").is_none());
}

#[test]
fn client_that_is_removed_while_its_worker_waits_is_named_at_the_next_task() {
    let crew = Crew::new();
    let folder = crew.project.folder().join("bin");
    std::fs::create_dir_all(&folder).unwrap();
    let client = folder.join("codex");
    std::os::unix::fs::symlink("/bin/true", &client).unwrap();
    let path = format!("{}:/usr/bin:/bin", folder.display());
    crew.start_provider("ann", "codex", &[], &[("PATH", &path)])
        .succeeds();
    std::fs::remove_file(&client).unwrap();
    crew.task("fail");
    crew.until("a failed launch", || {
        !crew.events("worker.launch_failed").is_empty()
    });
    let reason = crew.events("worker.launch_failed")[0]["data"]["reason"].clone();
    assert!(
        reason.as_str().unwrap().contains("`codex` is not on PATH"),
        "{reason}"
    );
    // A worker that cannot continue reports that to the lead.
    let told = || {
        let mail = crew
            .project
            .run(["message", "read", "--as", "lead", "--json"]);
        let mail = mail.succeeds().json();
        let mut told = mail["messages"].as_array().unwrap().clone().into_iter();
        told.find(|message| message["type"] == "error")
    };
    crew.until("an error message", || told().is_some());
    let error = told().unwrap();
    assert_eq!(error["from"], "ann");
    let said = error["content"].as_str().unwrap();
    assert!(said.contains("teamster worker resume ann"), "{said}");
    assert!(
        error["error"].as_str().unwrap().contains("codex"),
        "{error}"
    );
}

#[test]
fn a_worker_runs_once_and_an_unknown_provider_changes_nothing() {
    let crew = Crew::new();
    crew.start("ann", "echo hi");
    let second = crew
        .start_provider("ann", "command:echo hi", &[], &[])
        .fails(4);
    assert!(
        second.stderr.contains("is already running"),
        "{}",
        second.stderr
    );
    let unknown = crew.start_provider("ben", "cloud", &[], &[]).fails(2);
    assert!(unknown.stderr.contains("cloud"), "{}", unknown.stderr);
    let team = crew
        .project
        .run(["team", "show", "crew", "--json"])
        .succeeds();
    assert!(!team.stdout.contains("ben"), "{}", team.stdout);
    let call = crew.project.call([
        "worker",
        "start",
        "--name",
        "cyn",
        "--provider",
        "command:true",
    ]);
    call.env("TEAMSTER_WORKER", "ann").run().fails(6);
}

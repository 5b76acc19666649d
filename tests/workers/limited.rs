//! Limits of a provider: which workers wait, what is shown, and the owner of the task meanwhile. The agent is a
//! program that prints what Claude Code prints when a limit of the account is reached.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::Crew;
use crate::agents::one;
use crate::studio::{Studio, wait_for};

/// Reports once that a limit is reached, if a file contains the number of seconds; otherwise does the task.
const PROGRAM: &str = r#"#!/bin/sh
here=$(dirname "$0")
read -r prompt
echo "$TEAMSTER_WORKER" >> "$here/runs"
printf '%s\n' "$prompt" > "$here/prompt-$(wc -l < "$here/runs")"
if test -e "$here/limited"; then
    echo half > half.txt
    until=$(($(date +%s) + $(cat "$here/limited")))UNIT
    rm "$here/limited"
    sed "s/RESETS/$until/" "$here/limit.jsonl"
    cat > /dev/null
    exit 1
fi
cat "$here/ok.jsonl"
cat > /dev/null
"#;

/// Makes the folder with the program. It reports the time in seconds, or in milliseconds if `unit` is `000`.
fn client(crew: &Crew, unit: &str) -> PathBuf {
    let folder = crew.project.home().join("client");
    std::fs::create_dir_all(&folder).unwrap();
    let lines = |name: &str| -> Vec<Value> {
        let recording = one("claude", name);
        let lines = recording.stdout.split(|byte| *byte == b'\n');
        lines
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect()
    };
    let text = |lines: &[Value]| {
        let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
        lines.join("\n") + "\n"
    };
    let mut limit = lines("err429");
    let info = json!({ "status": "rejected", "rateLimitType": "five_hour", "resetsAt": "RESETS" });
    limit.insert(
        1,
        json!({ "type": "rate_limit_event", "rate_limit_info": info }),
    );
    let limit = text(&limit).replace("\"RESETS\"", "RESETS");
    std::fs::write(folder.join("limit.jsonl"), limit).unwrap();
    std::fs::write(folder.join("ok.jsonl"), text(&lines("text"))).unwrap();
    let program = folder.join("claude");
    std::fs::write(&program, PROGRAM.replace("UNIT", unit)).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

fn start(crew: &Crew, folder: &Path, name: &str) {
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", folder.display());
    crew.start_provider(name, "claude", &[], &[("PATH", &path)])
        .succeeds();
}

fn runs(folder: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join("runs")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn is_limited(crew: &Crew, name: &str) -> bool {
    crew.worker(name)["verdict"] == "limited"
}

#[test]
fn worker_goes_on_with_its_task_in_its_worktree_once_the_limit_is_lifted() {
    let crew = Crew::new();
    let folder = client(&crew, "");
    std::fs::write(folder.join("limited"), "3").unwrap();
    start(&crew, &folder, "ann");
    crew.start("ben", "cat > /dev/null; echo ben > ben.txt");
    let id = crew.project.task("do it", &["--owner", "ann"]);
    crew.until("the limit", || is_limited(&crew, "ann"));
    let task = crew.shown(&id);
    assert_eq!(
        (&task["status"], &task["owner"]),
        (&json!("in_progress"), &json!("ann"))
    );
    let task = crew.until_status(&id, "completed");
    assert_eq!(task["owner"], "ann");
    assert_eq!(
        task["metadata"]["teamster"]["result"]["files"],
        json!(["half.txt"]),
        "what was done before the limit is in the result"
    );
    for (kind, count) in [
        ("task.claimed", 1),
        ("task.released", 0),
        ("task.requeued", 0),
        ("task.failed", 0),
        ("worker.paused", 1),
    ] {
        assert_eq!(crew.events(kind).len(), count, "{kind}");
    }
    let paused = &crew.events("worker.paused")[0];
    assert_eq!(paused["taskId"], id.as_str());
    let limit = &paused["data"]["limit"];
    assert_eq!(
        (&limit["provider"], &limit["cause"], &limit["window"]),
        (
            &json!("claude"),
            &json!("rate-limit"),
            &json!("5-hour window")
        )
    );
    assert_eq!(runs(&folder), ["ann", "ann"]);
    let prompt = std::fs::read_to_string(folder.join("prompt-2")).unwrap();
    assert!(
        prompt.contains("until your model could not be reached"),
        "{prompt}"
    );
    assert!(prompt.contains("half.txt"), "{prompt}");
    assert!(!is_limited(&crew, "ann"));
}

#[test]
fn limit_is_shown_with_provider_window_and_end_and_the_worker_stops_at_once() {
    let crew = Crew::new();
    let folder = client(&crew, "000");
    std::fs::write(folder.join("limited"), "3600").unwrap();
    let id = crew.task("do it");
    start(&crew, &folder, "ann");
    crew.until("the limit", || is_limited(&crew, "ann"));
    let row = crew.worker("ann");
    assert_eq!(row["status"], "limited");
    assert_eq!(row["currentTaskId"], id.as_str());
    let evidence = row["evidence"].to_string();
    let beat = crew.heartbeat("ann").unwrap();
    let until = beat["limit"]["until"].as_str().unwrap();
    let words = format!("claude: limited until {until} (5-hour window)");
    assert!(evidence.contains(&words), "{evidence}");
    let ahead: teamster_types::Time = serde_json::from_value(json!(until)).unwrap();
    let ahead = ahead.since(crate::kit::now()).as_secs();
    assert!(
        (3_400..=3_700).contains(&ahead),
        "{until} is {ahead} s away"
    );
    let call = |words: &[&str]| {
        let call = crew.project.call(words).env("COLUMNS", "300");
        call.run().succeeds().stdout
    };
    let status = call(&["status"]);
    assert!(status.contains(&words), "{status}");
    assert!(!status.contains("healthy"), "{status}");
    let shown = call(&["worker", "show", "ann"]);
    assert!(shown.contains(&words), "{shown}");
    let top = call(&["top", "--once"]);
    assert!(top.contains("limited"), "{top}");
    let studio = Studio::start(&crew.project);
    let view = wait_for("the model", || {
        let view = studio.json("/api/v1/teams/crew");
        (view["workers"][0]["verdict"] == "limited").then_some(view)
    });
    let worker = &view["workers"][0];
    assert_eq!(worker["status"], "limited");
    assert_eq!(
        worker["evidence"].as_array().unwrap().last(),
        Some(&json!(words))
    );
    assert_eq!(view["problems"], json!([]), "nobody has to do anything");
    drop(studio);
    // Stopping it does not wait for an hour, and its task is released without a failure.
    crew.project.run(["worker", "stop", "ann"]).exits(0);
    crew.until("its end", || crew.heartbeat("ann").is_none());
    assert_eq!(crew.shown(&id)["status"], "pending");
    assert_eq!(crew.events("task.failed").len(), 0);
}

#[test]
fn one_worker_runs_into_a_limit_and_the_others_of_its_provider_do_not() {
    let crew = Crew::new();
    let folder = client(&crew, "");
    std::fs::write(folder.join("limited"), "3600").unwrap();
    start(&crew, &folder, "ben");
    crew.project.task("do it", &["--owner", "ann"]);
    start(&crew, &folder, "ann");
    crew.until("the limit", || is_limited(&crew, "ann"));
    // One worker that was there and one that starts later.
    start(&crew, &folder, "cid");
    crew.until("what all know", || {
        is_limited(&crew, "ben") && is_limited(&crew, "cid")
    });
    crew.start("dan", "cat > /dev/null; echo dan > dan.txt");
    let ben = crew.project.task("for ben", &["--owner", "ben"]);
    // A worker with another provider continues.
    let free = crew.task("for anybody");
    assert_eq!(crew.until_status(&free, "completed")["owner"], "dan");
    assert_eq!(crew.shown(&ben)["status"], "pending");
    assert_eq!(runs(&folder), ["ann"]);
    assert_eq!(crew.events("worker.paused").len(), 1);
}

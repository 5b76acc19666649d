//! An older teamster beside a newer one, in one project and one home: it keeps or refuses what it does not know.

use serde_json::{Value, json};

use crate::kit::{TestProject, living};
use crate::run::Shop;

/// A key that only a newer version knows.
const KEY: &str = "fromVersion2";

fn change(path: &std::path::Path, with: impl FnOnce(&mut Value)) {
    let text = std::fs::read_to_string(path).unwrap();
    let mut value = serde_json::from_str(&text).unwrap();
    with(&mut value);
    std::fs::write(path, value.to_string()).unwrap();
}

fn read(path: &std::path::Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Appends an event of a kind that this version does not know.
fn append_unknown_event(project: &TestProject, team: &str) {
    let file = project.claude(&format!("teams/{team}/events.jsonl"));
    let text = std::fs::read_to_string(&file).unwrap();
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let event = json!({
        "seq": last["seq"].as_u64().unwrap() + 1, "id": "f".repeat(32), "ts": last["ts"], "team": team,
        "type": "task.pondered", "actor": "worker-9", "taskId": "1", KEY: {"deep": [1, 2]},
        "data": {"thought": "a newer one"},
    });
    std::fs::write(&file, format!("{text}{event}\n")).unwrap();
}

#[test]
fn files_of_a_newer_version_keep_what_this_one_does_not_know() {
    let project = TestProject::with_team();
    project.task("first", &[]);
    let config = project.claude("teams/fix-auth/config.json");
    let task = project.claude("tasks/fix-auth/1.json");
    change(&config, |config| {
        config[KEY] = json!("registry");
        config["teamster"][KEY] = json!("ours");
        config["members"][0][KEY] = json!("member");
    });
    change(&task, |task| {
        task[KEY] = json!("task");
        task["metadata"][KEY] = json!("metadata");
        task["metadata"]["teamster"][KEY] = json!("ours");
    });
    append_unknown_event(&project, "fix-auth");
    let journal = project.read("teams/fix-auth/events.jsonl");
    project
        .run(["team", "join", "fix-auth", "worker-3"])
        .exits(0);
    let token = project.claim("worker-1", "1");
    change(&task, |task| {
        task["metadata"]["teamster"]["claim"][KEY] = json!("claim");
    });
    project
        .run(["task", "renew", "1", "--token", &token])
        .exits(0);
    let kept = read(&task);
    assert_eq!(
        kept["metadata"]["teamster"]["claim"][KEY], "claim",
        "{kept}"
    );
    project.run(fail_with(&token)).exits(0);
    let failure = project.claude("tasks/fix-auth/1.failure.json");
    change(&failure, |failure| failure[KEY] = json!("failure"));
    change(&task, |task| {
        task["metadata"]["teamster"]["notBefore"] = Value::Null;
    });
    let token = project.claim("worker-1", "1");
    project.run(fail_with(&token)).exits(0);
    assert_eq!(read(&failure)[KEY], "failure");
    let (config, task) = (read(&config), read(&task));
    assert_eq!(
        (&config[KEY], &config["teamster"][KEY]),
        (&json!("registry"), &json!("ours"))
    );
    assert_eq!(config["members"][0][KEY], "member", "{config}");
    assert_eq!(
        (&task[KEY], &task["metadata"][KEY]),
        (&json!("task"), &json!("metadata"))
    );
    assert_eq!(task["metadata"]["teamster"][KEY], "ours", "{task}");
    assert!(
        project
            .read("teams/fix-auth/events.jsonl")
            .starts_with(&journal)
    );
    for call in [
        &["status", "--json"][..],
        &["journal", "--json"],
        &["task", "list", "--json"],
    ] {
        project.run(call).succeeds();
    }
    let shown = project
        .run(["journal", "--type", "task.pondered"])
        .succeeds();
    assert!(shown.stdout.contains("a newer one"), "{}", shown.stdout);
}

fn fail_with(token: &str) -> [&str; 7] {
    ["task", "fail", "1", "--token", token, "--error", "no"]
}

#[test]
fn registry_with_a_newer_schema_is_refused_and_left_as_it_is() {
    let project = TestProject::with_team();
    project.task("first", &[]);
    change(&project.claude("teams/fix-auth/config.json"), |config| {
        config["teamster"]["schema"] = json!(2);
    });
    let before: Vec<(String, Vec<u8>)> = contents(&project);
    for call in [
        &["task", "create", "--subject", "second"][..],
        &["task", "claim", "--worker", "worker-1", "1"],
        &["team", "join", "fix-auth", "worker-3"],
        &["message", "send", "--to", "worker-1", "hello"],
    ] {
        let ran = project.run(call);
        assert_ne!(ran.code, Some(0), "{call:?}: {}{}", ran.stdout, ran.stderr);
        assert!(ran.stderr.contains("newer"), "{call:?}: {}", ran.stderr);
    }
    assert_eq!(contents(&project), before);
}

fn contents(project: &TestProject) -> Vec<(String, Vec<u8>)> {
    let files = project.files().into_iter();
    files
        .filter(|file| file.contains(".json") && !file.contains(".lock"))
        .map(|file| (file.clone(), std::fs::read(&file).unwrap()))
        .collect()
}

#[test]
fn heartbeat_of_a_newer_version_makes_nobody_dead() {
    let project = TestProject::with_team();
    project.task("first", &[]);
    project.claim("worker-1", "1");
    let more = json!({"status": "pondering", KEY: 1, "pidNs": living().pid_ns});
    project.beat(
        "worker-1",
        std::time::Duration::from_secs(3_600),
        &living(),
        &more,
    );
    let file = project
        .folder()
        .join(".omc/state/team-bridge/fix-auth/worker-1.heartbeat.json");
    let before = std::fs::read(&file).unwrap();
    let status = project.run(["worker", "list", "--json"]).exits(0);
    assert!(!status.stdout.contains("\"dead\""), "{}", status.stdout);
    project
        .run(["zombies", "reap", "--kill", "--json"])
        .exits(0);
    project
        .run(["task", "claim", "--worker", "worker-2", "1"])
        .fails(4);
    assert_eq!(std::fs::read(&file).unwrap(), before);
}

#[test]
fn trust_of_a_newer_version_is_refused_and_left_as_it_is() {
    let project = TestProject::new();
    project.write(".teamster/config.toml", "[worktree]\nsetup = [\"true\"]\n");
    project.run(["trust", "--yes"]).exits(0);
    let file = project.home().join(".config/teamster/trust.json");
    change(&file, |trust| {
        trust["schema"] = json!(2);
        trust[KEY] = json!(1);
    });
    let before = std::fs::read(&file).unwrap();
    for call in [&["trust", "--yes"][..], &["trust", "--revoke"]] {
        let ran = project.run(call);
        assert_ne!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
        assert!(ran.stderr.contains("schema"), "{}", ran.stderr);
    }
    assert_eq!(std::fs::read(&file).unwrap(), before);
}

#[test]
fn run_with_events_of_a_newer_version_goes_on_and_lands() {
    let shop = Shop::in_use();
    let script = "[[step]]\ntask = \"mend it\"\ndo = \"edit\"\npath = \"news.txt\"\ncontent = \"mended\\n\"\n";
    let more = ["--approve", "never", "--verify", "true"];
    shop.scripted_run(script, &more).run().exits(0);
    append_unknown_event(&shop.project, "shop");
    let session = shop.folder().join(".party/session.json");
    change(&session, |session| session[KEY] = json!("session"));
    let commit = shop.asked();
    shop.run(&["approve", "--team", "shop", "--commit", &commit])
        .exits(0);
    assert_eq!(shop.git(&["rev-parse", "main"]), commit);
    assert_eq!(read(&session)[KEY], "session");
    shop.has_drafts();
    shop.is_quiet();
}

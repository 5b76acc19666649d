//! `teamster worktree` on the command line, and the setting `reservations`.

use std::process::{Child, Command};

use serde_json::{Value, json};

use super::{GitProject, put, team};
use crate::kit::TestProject;
use teamster_isolate::git::Worktree;

fn prepare(project: &GitProject, name: &str) -> Worktree {
    let found = project.found();
    found.repo.exclude_ours().unwrap();
    let worker = name.parse().unwrap();
    Worktree::prepare(&found.repo, &team(), &worker, &found.head)
        .unwrap()
        .worktree
}

fn row<'a>(rows: &'a Value, name: &str) -> &'a Value {
    let rows = rows.as_array().unwrap();
    rows.iter()
        .find(|row| row["name"] == name)
        .unwrap_or_else(|| panic!("no {name} in {rows:?}"))
}

/// A process in a folder, killed on drop.
struct Busy(Child);

impl Busy {
    fn in_folder(folder: &std::path::Path) -> Self {
        let sleep = Command::new("sleep").arg("600").current_dir(folder).spawn();
        Self(sleep.unwrap())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn gc_removes_what_holds_nothing_and_lists_the_rest_with_the_command() {
    let project = GitProject::new();
    let calls = &project.project;
    let said = calls.run(["worktree", "list"]).succeeds();
    assert_eq!(said.stdout, "no worker has a worktree here\n");
    prepare(&project, "clean");
    let dirty = prepare(&project, "dirty");
    put(dirty.path(), "x", "x");
    let unmerged = prepare(&project, "unmerged");
    put(unmerged.path(), "x", "x");
    let work = project.commit_in(unmerged.path(), "Work");
    let busy = prepare(&project, "busy");
    let process = Busy::in_folder(busy.path());
    put(
        &project.folder(),
        ".omc/worktrees/fix-auth/theirs/file",
        "x",
    );

    let shown = calls.run(["worktree", "list"]).succeeds().stdout;
    let shown = shown.replace(&process.0.id().to_string(), "PID");
    insta::assert_snapshot!(shown, @r"
    TEAM      NAME      KIND     STATE    UNMERGED  KEPT BECAUSE
    fix-auth  busy      worker   clean    0         process PID is at work in it
    fix-auth  clean     worker   clean    0
    fix-auth  dirty     worker   dirty    0         1 changed file not committed
    fix-auth  theirs    foreign  unknown  0         it is not a worktree of teamster
    fix-auth  unmerged  worker   clean    1         1 commit not merged
    ");
    let listed = calls.run(["worktree", "list", "--json"]).succeeds().json();
    let clean = row(&listed["worktrees"], "clean");
    assert_eq!(
        (&clean["state"], &clean["kept"]),
        (&json!("clean"), &Value::Null)
    );
    assert_eq!(clean["branch"], "omc-team/fix-auth/clean");
    let other = row(&listed["worktrees"], "unmerged");
    assert_eq!(
        (&other["head"], &other["unmerged"]),
        (&json!(work.as_str()), &json!(1))
    );

    let dry = calls.run(["worktree", "gc", "--dry-run"]).succeeds();
    assert!(
        dry.stdout.contains("would remove fix-auth/clean\n"),
        "{}",
        dry.stdout
    );
    let gone = calls.run(["worktree", "gc", "--json"]).succeeds().json();
    assert_eq!(gone["removed"].as_array().unwrap().len(), 1);
    assert_eq!(row(&gone["removed"], "clean")["kind"], "worker");
    assert_eq!(gone["kept"].as_array().unwrap().len(), 4);
    let command = row(&gone["kept"], "dirty")["command"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(dirty.path().join("x").exists() && unmerged.path().exists() && busy.path().exists());
    assert!(
        project
            .folder()
            .join(".omc/worktrees/fix-auth/theirs/file")
            .exists()
    );
    assert!(!project.has_branch("omc-team/fix-auth/clean"));

    calls.shell(&command).run().succeeds();
    assert!(!dirty.path().exists(), "the command does what it says");
    drop(process);
    let gone = calls
        .run(["worktree", "gc", "--team", "fix-auth", "--json"])
        .succeeds()
        .json();
    assert_eq!(row(&gone["removed"], "busy")["name"], "busy");
}

#[test]
fn a_worktree_of_a_worker_that_lives_stays() {
    let project = GitProject::new();
    let calls = &project.project;
    calls
        .run([
            "team",
            "create",
            "fix-auth",
            "--members",
            "worker-1,worker-2",
        ])
        .succeeds();
    prepare(&project, "worker-1");
    prepare(&project, "worker-2");
    let me = crate::kit::living();
    calls.beat("worker-1", std::time::Duration::ZERO, &me, &json!({}));
    let lock = calls.claude("teams/fix-auth/bridge-worker-2.lock");
    std::fs::write(&lock, "").unwrap();
    let held = std::fs::File::open(&lock).unwrap();
    held.lock().unwrap();
    let gone = calls.run(["worktree", "gc", "--json"]).succeeds().json();
    assert_eq!(gone["removed"], json!([]));
    let why = row(&gone["kept"], "worker-1")["kept"].as_str().unwrap();
    assert!(why.contains("its worker is healthy"), "{why}");
    assert_eq!(
        row(&gone["kept"], "worker-2")["kept"],
        "its bridge is running"
    );
    drop(held);
    let gone = calls.run(["worktree", "gc", "--json"]).succeeds().json();
    assert_eq!(row(&gone["removed"], "worker-2")["name"], "worker-2");
}

#[test]
fn salvage_brings_a_worktree_to_a_branch() {
    let project = GitProject::new();
    let calls = &project.project;
    calls
        .run(["team", "create", "fix-auth", "--members", "worker-1"])
        .succeeds();
    let worktree = prepare(&project, "worker-1");
    put(worktree.path(), "new", "new\n");
    let said = calls.run(["worktree", "salvage", "worker-1"]).succeeds();
    assert_eq!(said.stdout, "omc-team/fix-auth/worker-1.salvaged-1\n");
    assert_eq!(
        project.git(&["show", "omc-team/fix-auth/worker-1.salvaged-1:new"]),
        "new"
    );
    let said = calls
        .run(["worktree", "salvage", "worker-1", "--json"])
        .succeeds()
        .json();
    assert_eq!(said["branch"], "omc-team/fix-auth/worker-1.salvaged-2");
    assert_eq!(said["commit"].as_str().unwrap().len(), 40);

    calls.run(["worktree", "salvage", "nobody"]).fails(3);
    calls.run(["worktree", "salvage", "../../x"]).fails(3);
    put(
        &project.folder(),
        ".omc/worktrees/fix-auth/theirs/file",
        "x",
    );
    calls.run(["worktree", "salvage", "theirs"]).fails(6);
    std::fs::remove_dir_all(worktree.path()).unwrap();
    calls.run(["worktree", "salvage", "worker-1"]).fails(4);
    for words in [
        ["worktree", "gc"].as_slice(),
        &["worktree", "salvage", "worker-1"],
    ] {
        calls
            .call(words)
            .env("TEAMSTER_WORKER", "worker-1")
            .run()
            .fails(6);
    }
}

#[test]
fn without_a_repository_that_is_said() {
    let project = TestProject::new();
    let ran = project.run(["worktree", "list", "--json"]).fails(3);
    let error: Value = serde_json::from_str(&ran.stderr).unwrap();
    assert_eq!(error["error"]["kind"], "not_found");
    assert!(
        error["error"]["hint"]
            .as_str()
            .unwrap()
            .contains("git init")
    );
    let ran = project
        .call(["worktree", "gc"])
        .env("PATH", "/nowhere")
        .run()
        .fails(1);
    assert!(ran.stderr.contains("there is no git"), "{}", ran.stderr);
}

#[test]
fn reservations_can_warn_or_be_off() {
    let project = TestProject::with_team();
    for subject in ["one", "two", "three"] {
        project.task(subject, &["--path", "src/**"]);
    }
    let claim = |id: &str, setting: &str| {
        project
            .call(["task", "claim", "--worker", "worker-1", id])
            .env("TEAMSTER_RESERVATIONS", setting)
            .run()
    };
    claim("1", "enforce").succeeds();
    let refused = claim("2", "enforce").fails(4);
    assert!(refused.stderr.contains("task 1"), "{}", refused.stderr);
    claim("2", "warn").succeeds();
    claim("3", "off").succeeds();
    let journal = project.read("teams/fix-auth/events.jsonl");
    let overlaps: Vec<Value> = journal
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|event| event["type"] == "task.claimed")
        .map(|event| event["data"]["overlaps"].clone())
        .collect();
    assert_eq!(
        overlaps,
        [Value::Null, json!(["1"]), Value::Null],
        "{journal}"
    );
    let wrong = project
        .call(["task", "list"])
        .env("TEAMSTER_RESERVATIONS", "maybe")
        .run();
    assert!(wrong.fails(2).stderr.contains("enforce"));
}

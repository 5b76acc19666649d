//! The doctor finds what is wrong and changes nothing.

use serde_json::{Value, json};

use crate::kit::{TestProject, gone, now};

fn check(report: &Value, name: &str) -> Value {
    let checks = report["checks"].as_array().unwrap();
    let found = checks.iter().find(|check| check["name"] == name);
    found
        .unwrap_or_else(|| panic!("no check {name}: {report}"))
        .clone()
}

#[test]
fn a_fresh_machine_is_in_order_and_stays_untouched() {
    let project = TestProject::new();
    let report = project.run(["doctor", "--json"]).succeeds().json();
    for name in [
        "settings",
        "trace",
        "store",
        "teams folder",
        "registries",
        "team files",
        "claim locks",
        "temp files",
        "git",
    ] {
        assert_eq!(check(&report, name)["ok"], true, "{report}");
    }
    assert_eq!(
        std::fs::read_dir(project.home()).unwrap().count(),
        0,
        "nothing was made"
    );

    let project = TestProject::with_team();
    let before = project.files();
    let report = project.run(["doctor", "--json"]).succeeds().json();
    assert_eq!(check(&report, "file locks")["ok"], true);
    assert_eq!(check(&report, "rename")["ok"], true);
    assert_eq!(project.files(), before);
}

#[test]
fn clients_are_found_with_their_versions_however_they_behave() {
    let project = TestProject::new();
    let bin = project.home().join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    let install = |name: &str, script: &str| {
        use std::os::unix::fs::PermissionsExt;
        let file = bin.join(name);
        std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
    };
    install("claude", "cat; echo '2.1.325 (Claude Code)'");
    install("codex", "exit 1");
    install("git", "echo 'git version 2.30.1'");
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let ran = project
        .call(["doctor", "--json"])
        .env("PATH", path)
        .run()
        .exits(1);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(report["clients"][0]["name"], "claude");
    assert_eq!(report["clients"][0]["version"], "2.1.325 (Claude Code)");
    assert_eq!(report["clients"][1]["version"], json!(null));
    assert_eq!(
        check(&report, "git")["detail"],
        "git version 2.30.1 is too old"
    );
    let nothing = project
        .call(["doctor", "--json"])
        .env("PATH", "/nowhere")
        .run()
        .exits(1);
    let report: Value = serde_json::from_str(&nothing.stdout).unwrap();
    assert_eq!(report["clients"], json!([]));
    assert_eq!(check(&report, "git")["ok"], false);
    assert_eq!(check(&report, "tmux")["required"], false);
}

#[test]
fn damaged_files_and_leftovers_are_named() {
    let project = TestProject::with_team();
    project.task("a", &[]);
    std::fs::write(project.claude("tasks/fix-auth/1.json"), "{").unwrap();
    std::fs::create_dir_all(project.claude("teams/broken")).unwrap();
    std::fs::write(project.claude("teams/broken/config.json"), "").unwrap();
    let dead = gone();
    let lock = json!({
        "pid": dead.pid, "processStartTime": dead.process_start_time, "bootId": dead.boot_id,
        "workerName": "worker-1", "timestamp": now().as_millis() - 60_000,
    });
    std::fs::write(project.claude("tasks/fix-auth/7.lock"), lock.to_string()).unwrap();
    std::fs::write(project.claude("tasks/fix-auth/8.lock"), "").unwrap();
    std::fs::write(
        project.claude("tasks/fix-auth/.9.json.999999999.00ff.tmp"),
        "",
    )
    .unwrap();
    let before = project.files();
    let ran = project.run(["doctor", "--json"]).exits(1);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert!(
        check(&report, "registries")["detail"]
            .as_str()
            .unwrap()
            .starts_with("broken: ")
    );
    assert!(
        check(&report, "team files")["detail"]
            .as_str()
            .unwrap()
            .contains("fix-auth/1.json")
    );
    assert_eq!(
        check(&report, "claim locks")["detail"],
        "tasks/fix-auth/7.lock"
    );
    assert_eq!(check(&report, "claim locks")["required"], false);
    assert_eq!(
        check(&report, "temp files")["detail"],
        "tasks/fix-auth/.9.json.999999999.00ff.tmp"
    );
    let error: Value = serde_json::from_str(&ran.stderr).unwrap();
    assert_eq!(
        error["error"]["message"],
        "problems found: registries, team files"
    );
    assert_eq!(project.files(), before);
}

#[test]
fn without_a_home_it_still_reports() {
    let project = TestProject::new();
    let ran = project
        .call(["doctor", "--json"])
        .without_env("HOME")
        .run()
        .exits(1);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(check(&report, "home")["ok"], false);
}

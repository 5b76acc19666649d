//! Every failure is one clear error with the right exit code, and nothing is half-written.

use std::fs::File;

use serde_json::json;

use crate::kit::TestProject;

#[test]
fn a_program_gets_its_errors_as_one_object() {
    let project = TestProject::new();
    let missing = project.run(["task", "list", "--json"]).fails(3);
    assert_eq!(missing.error()["kind"], "not_found");
    assert!(missing.error()["hint"].is_string());
    let usage = project.run(["task", "create", "--json"]).fails(2);
    assert_eq!(usage.error()["kind"], "usage");
    let refused = project.run(["--json", "team", "create", "../x"]).fails(6);
    assert_eq!(refused.error()["kind"], "refused");
    assert_eq!(
        refused
            .error()
            .as_object()
            .unwrap()
            .keys()
            .collect::<Vec<_>>(),
        ["kind", "message", "hint"]
    );
    let unknown = project.run(["frobnicate", "--json"]).fails(2);
    assert_eq!(unknown.error()["kind"], "usage");
}

#[test]
fn without_a_home_the_store_is_not_reached() {
    let project = TestProject::new();
    for args in [
        &["team", "create", "fix-auth"][..],
        &["team", "list"],
        &["status"],
        &["task", "list"],
    ] {
        project.call(args).without_env("HOME").run().fails(7);
        project.call(args).env("HOME", "").run().fails(7);
        project
            .call(args)
            .env("HOME", "/nowhere/at/all")
            .run()
            .fails(7);
    }
    let unset = project.call(["team", "list"]).without_env("HOME").run();
    insta::assert_snapshot!(unset.shown(), @r"
    error: there is no home folder: HOME is not set
    hint: set HOME, or set TEAMSTER_CLAUDE_DIR to the folder that keeps your teams
    ");
    let missing = project
        .call(["team", "create", "fix-auth"])
        .env("HOME", "/nowhere/at/all")
        .run();
    insta::assert_snapshot!(missing.shown(), @r"
    error: there is no folder /nowhere/at/all to keep teams in
    hint: check HOME, or set TEAMSTER_CLAUDE_DIR to a writable folder
    ");
}

#[test]
fn a_home_that_cannot_be_written_gets_nothing_half_written() {
    let project = TestProject::new();
    // A file in place of the folder blocks every user, even root.
    std::fs::write(project.home().join(".claude"), "").unwrap();
    let ran = project.run(["team", "create", "fix-auth"]);
    assert!(matches!(ran.code, Some(6 | 7)), "{ran:?}");
    assert_eq!(
        ran.stderr
            .lines()
            .filter(|line| line.starts_with("error:"))
            .count(),
        1
    );
    std::fs::remove_file(project.home().join(".claude")).unwrap();
    let ran = project
        .call(["team", "create", "fix-auth"])
        .env("TEAMSTER_CLAUDE_DIR", "/proc/self")
        .run();
    assert_eq!(ran.code, Some(7), "{ran:?}");
}

#[test]
fn a_folder_that_is_gone_is_said_so() {
    let project = TestProject::new();
    let ran = project
        .shell("mkdir x && cd x && rmdir ../x && teamster status")
        .run();
    ran.fails(7);
}

#[test]
fn a_link_in_place_of_a_file_of_ours_is_refused_and_its_target_untouched() {
    let project = TestProject::with_team();
    project.task("a", &[]);
    let target = project.home().join("precious");
    std::fs::write(&target, "precious").unwrap();
    let task = project.claude("tasks/fix-auth/1.json");
    std::fs::remove_file(&task).unwrap();
    std::os::unix::fs::symlink(&target, &task).unwrap();
    for args in [
        &["task", "update", "1", "--subject", "x"][..],
        &["task", "claim", "--worker", "worker-1", "1"],
    ] {
        let ran = project.run(args);
        assert!(matches!(ran.code, Some(1 | 3 | 6)), "{ran:?}");
    }
    let inbox = project.claude("teams/fix-auth/inbox/worker-1.jsonl");
    std::os::unix::fs::symlink(&target, &inbox).unwrap();
    project
        .run(["message", "send", "--to", "worker-1", "hello"])
        .fails(6);
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "precious");
}

#[test]
fn an_answer_that_cannot_be_written_is_an_error() {
    let project = TestProject::with_team();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let ran = project
        .call(["task", "create", "--subject", "a"])
        .stdout(full.into())
        .run()
        .exits(1);
    insta::assert_snapshot!(ran.shown(), @r"
    error: cannot write the output: No space left on device (os error 28)
    hint: the command has completed; only its output is lost
    ");
    assert_eq!(
        project.run(["task", "list", "--json"]).json()["progress"]["totalTasks"],
        json!(1)
    );
}

//! Displayed texts contain no control sequences and no secrets; delivered texts arrive unchanged.

use crate::kit::TestProject;

const EVIL: &str = "\u{1b}[31mred\u{1b}]0;title\u{7}\u{202e}evil";

#[test]
fn texts_from_files_never_drive_a_terminal() {
    let project = TestProject::with_team();
    project
        .run(["task", "create", "--subject", EVIL, "--description", EVIL])
        .succeeds();
    project
        .run(["message", "send", "--to", "worker-1", EVIL])
        .succeeds();
    for args in [
        &["task", "list"][..],
        &["task", "show", "1"],
        &["task", "graph"],
        &["task", "graph", "--format", "dot"],
        &["task", "graph", "--format", "mermaid"],
        &["task", "claim", "--worker", "worker-1"],
        &["message", "list"],
        &["message", "tail"],
        &["message", "read", "--as", "worker-1"],
        &["journal"],
        &["status"],
    ] {
        let ran = project.run(args).succeeds();
        let driven = ran
            .stdout
            .chars()
            .find(|c| (c.is_control() && *c != '\n') || *c == '\u{202e}');
        assert_eq!(driven, None, "{args:?}: {:?}", ran.stdout);
        assert!(!ran.stdout.contains('\u{1b}'), "{args:?}");
    }
    let shown = project.run(["task", "show", "1", "--json"]).json();
    assert_eq!(
        shown["task"]["subject"], EVIL,
        "a program gets it as it was written"
    );
    let read = project.run(["message", "read", "--as", "worker-1", "--json"]);
    assert!(!read.stdout.contains('\u{1b}'), "escaped in JSON");
    assert_eq!(read.json()["messages"][0]["content"], EVIL);
}

#[test]
fn secrets_are_shown_to_whoever_works_with_them_and_to_nobody_else() {
    // Assembled at run time, so that no secret scanner reports this file.
    let secret = format!("ghp_{}", "A1b2C3d4E5f6G7h8I9j0".repeat(2));
    let secret = &secret[..40];
    let project = TestProject::with_team();
    let text = format!("use {secret} for it");
    project
        .run(["task", "create", "--subject", &text, "--description", &text])
        .succeeds();
    project
        .run(["message", "send", "--to", "worker-1", &text])
        .succeeds();
    for args in [
        &["task", "show", "1"][..],
        &["task", "show", "1", "--json"],
        &["task", "claim", "--worker", "worker-1"],
        &["message", "read", "--as", "worker-1"],
        &["message", "read", "--as", "worker-1", "--json"],
    ] {
        assert!(
            project.run(args).succeeds().stdout.contains(secret),
            "{args:?}"
        );
    }
    for args in [
        &["task", "list"][..],
        &["task", "graph"],
        &["task", "graph", "--json"],
        &["message", "list"],
        &["message", "list", "--json"],
        &["message", "tail"],
        &["message", "tail", "--json"],
        &["journal"],
        &["journal", "--json"],
        &["status"],
        &["status", "--json"],
    ] {
        assert!(
            !project.run(args).succeeds().stdout.contains(secret),
            "{args:?}"
        );
    }
    assert!(
        !project.read("teams/fix-auth/events.jsonl").contains(secret),
        "the journal itself"
    );
}

#[test]
fn colours_are_for_terminals_only() {
    let project = TestProject::with_team();
    project.task("a", &[]);
    let on_terminal = |variables: &str| {
        let line = format!("{variables} script -qec 'teamster task list' /dev/null");
        project.shell(&line).run().exits(0).stdout
    };
    if project.shell("command -v script").run().code == Some(0) {
        assert!(on_terminal("").contains("\u{1b}[32mclaimable\u{1b}[0m"));
        assert!(!on_terminal("NO_COLOR=1").contains('\u{1b}'));
    }
    assert!(!project.run(["task", "list"]).stdout.contains('\u{1b}'));
}

#[test]
fn columns_stay_aligned_in_every_script() {
    let project = TestProject::with_team();
    project.task("로그인 양식 고치기", &[]);
    project.task("🦀 crab", &["--owner", "worker-2"]);
    project.task(&"長".repeat(40), &[]);
    insta::assert_snapshot!(project.run(["task", "list"]).succeeds().shown(), @r"
    ID  STATE      OWNER     SUBJECT                                                      WHY
    1   claimable            로그인 양식 고치기                                           free
    2   claimable  worker-2  🦀 crab                                                      assigned to worker-2
    3   claimable            長長長長長長長長長長長長長長長長長長長長長長長長長長長長長…  free

    0 of 3 tasks completed, 3 pending
    ");
}

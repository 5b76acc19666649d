//! A name that could escape, confuse or break something is refused before anything is touched.

use crate::kit::TestProject;

/// Returns invalid names. Those that begin with `-` are flags to the parser.
fn bad_names() -> Vec<String> {
    let mut names: Vec<String> = [
        "../x",
        "a/b",
        "",
        ".",
        "..",
        "/etc",
        "a b",
        "a\nb",
        "a.b",
        "🦀",
        "é",
        "a\u{1b}[31m",
    ]
    .map(str::to_owned)
    .to_vec();
    names.push("a".repeat(300));
    names
}

const FLAGS: [&str; 3] = ["-rf", "--help-me", "-"];

#[test]
fn a_bad_team_name_makes_nothing() {
    let project = TestProject::new();
    for name in bad_names() {
        let name = name.as_str();
        for args in [
            vec!["team", "create", name],
            vec!["team", "join", name, "worker-1"],
            vec!["team", "show", name],
            vec!["team", "delete", name],
            vec!["task", "create", "--subject", "x", "--team", name],
            vec!["task", "list", "--team", name],
            vec!["task", "claim", "--worker", "w", "--team", name],
            vec!["message", "send", "--to", "w", "--team", name, "hello"],
            vec!["message", "list", "--team", name],
            vec!["worker", "list", "--team", name],
            vec!["status", "--team", name],
            vec!["journal", "--team", name],
        ] {
            let ran = project.run(&args).fails(6);
            assert!(!ran.stderr.contains('\u{1b}'), "{args:?}: {}", ran.stderr);
        }
        // An empty variable counts as unset.
        if !name.is_empty() {
            project
                .call(["task", "list"])
                .env("TEAMSTER_TEAM", name)
                .run()
                .fails(6);
        }
    }
    for flag in ["-rf", "--help-me"] {
        project.run(["team", "create", flag]).fails(2);
        project.run(["task", "list", "--team", flag]).fails(2);
    }
    project.run(["team", "create", "-"]).fails(6);
    for name in ["Fix", "-fix", "fix_auth"] {
        project.run(["team", "create", "--", name]).fails(6);
    }
    assert!(project.files().is_empty(), "{:?}", project.files());
}

#[test]
fn a_bad_worker_name_makes_nothing() {
    let project = TestProject::with_team();
    project.task("a", &[]);
    let before = project.files();
    let mut names = bad_names();
    names.extend(
        [
            "lead",
            "leader",
            "team-lead",
            "host",
            "all",
            "system",
            "user",
            "integration",
        ]
        .map(str::to_owned),
    );
    for name in &names {
        let name = name.as_str();
        for args in [
            vec!["team", "create", "other", "--members", name],
            vec!["team", "join", "fix-auth", name],
            vec!["task", "create", "--subject", "x", "--owner", name],
            vec!["task", "update", "1", "--owner", name],
            vec!["task", "claim", "--worker", name],
        ] {
            project.run(&args).fails(6);
        }
        // The lead has mail, and messages can be sent to `all`, `lead` and its alias `team-lead`.
        if name != "lead" {
            project.run(["message", "read", "--as", name]).fails(6);
            if !["all", "team-lead"].contains(&name) {
                project
                    .run(["message", "send", "--to", name, "hello"])
                    .fails(6);
            }
            if name != "user" {
                let from = format!("--from={name}");
                project
                    .run(["message", "send", "--to", "worker-1", &from, "hello"])
                    .fails(6);
            }
        }
        if !name.is_empty() {
            project
                .call(["task", "list"])
                .env("TEAMSTER_WORKER", name)
                .run()
                .fails(6);
        }
    }
    for flag in FLAGS {
        let ran = project.run(["task", "claim", "--worker", flag]);
        assert!(matches!(ran.code, Some(2 | 6)), "{flag}: {ran:?}");
    }
    assert_eq!(project.files(), before);
}

#[test]
fn a_bad_task_id_touches_nothing() {
    let project = TestProject::with_team();
    project.task("a", &[]);
    let before = project.files();
    let mut ids = bad_names();
    ids.extend(["1x", "+1", "0x1", "1.json", "123456789012345678901"].map(str::to_owned));
    for id in &ids {
        let id = id.as_str();
        for args in [
            vec!["task", "show", id],
            vec!["task", "update", id, "--subject", "x"],
            vec!["task", "claim", "--worker", "worker-1", id],
            vec!["task", "complete", id, "--token", "t"],
            vec!["task", "fail", id, "--token", "t", "--error", "e"],
            vec!["task", "release", id, "--token", "t"],
            vec!["task", "renew", id, "--token", "t"],
            vec!["task", "retry", id],
            vec!["task", "delete", id],
            vec!["task", "route", id],
            vec!["task", "create", "--subject", "x", "--blocked-by", id],
            vec!["task", "update", "1", "--blocked-by", id],
        ] {
            project.run(&args).fails(6);
        }
    }
    project.run(["task", "show", "-rf"]).fails(2);
    assert_eq!(project.files(), before);
}

#[test]
fn what_does_not_exist_is_not_found() {
    let project = TestProject::with_team();
    for args in [
        vec!["team", "show", "nobody"],
        vec!["team", "delete", "nobody"],
        vec!["team", "join", "nobody", "w"],
        vec!["task", "list", "--team", "nobody"],
        vec!["journal", "--team", "nobody"],
        vec!["status", "--team", "nobody"],
        vec!["worker", "list", "--team", "nobody"],
        vec!["task", "show", "99"],
        vec!["task", "complete", "99", "--token", "t"],
        vec!["task", "delete", "99"],
        vec!["task", "claim", "--worker", "worker-1", "99"],
        vec!["message", "read", "--as", "nobody"],
        vec!["message", "ack", "--as", "worker-1", "nothing"],
        vec!["task", "import", "nowhere.toml"],
        vec![
            "task",
            "complete",
            "1",
            "--token",
            "t",
            "--result",
            "nowhere.json",
        ],
        vec!["team", "create", "other", "--project", "nowhere"],
    ] {
        project.run(&args).fails(3);
    }
}

#[test]
fn a_refused_name_is_shown_with_what_would_do() {
    let project = TestProject::new();
    insta::assert_snapshot!(project.run(["team", "create", "Fix Auth"]).shown(), @r#"
    error: "Fix Auth" is not a team name: use 1 to 50 of a-z, 0-9 and `-`, not starting with `-`
    hint: a good one is fix-login; `teamster team list` shows those there are
    "#);
    insta::assert_snapshot!(project.run(["team", "create", "x", "--members", "lead"]).shown(), @r"
    error: `lead` is reserved and cannot be the name of a worker
    hint: a good one is worker-1
    ");
    insta::assert_snapshot!(project.run(["task", "show", "one"]).shown(), @r#"
    error: "one" is not a task id: use 1 to 20 digits, such as 7
    hint: `teamster task list` shows the ids
    "#);
}

//! Symlinks, foreign owners, damaged files: they stay, are reported, and hide no others.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{chown, symlink};

use super::{DAY, evidence, is_gone, is_there, listed, put, registry, team, touch};
use crate::kit::{TestProject, skip};

#[test]
fn one_registry_that_cannot_be_read_hides_no_other() {
    let project = TestProject::new();
    for (name, content) in [
        ("broken", "{\"name\":"),
        ("empty", ""),
        ("list", "[]"),
        ("members", "{\"createdAt\":0,\"members\":{}}"),
    ] {
        put(&project, &format!("teams/{name}/config.json"), content);
        touch(&project, name, 3 * DAY);
    }
    team(&project, "old", &registry("old", 0), 3 * DAY);
    for name in ["broken", "empty", "list", "members"] {
        let found = listed(&project, name);
        assert_eq!(found["action"], "keep");
        assert!(
            evidence(&found).starts_with("config.json cannot be read: "),
            "{found}"
        );
    }
    project.run(["zombies", "reap"]).succeeds();
    assert!(is_gone(&project, "old"));
    assert!(project.claude("teams/broken/config.json").exists());
}

#[test]
fn no_link_is_followed() {
    let project = TestProject::new();
    team(
        &project,
        "real",
        &registry("real", super::millis(super::HOUR)),
        super::HOUR,
    );
    let outside = project.home().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("config.json"), registry("x", 0).to_string()).unwrap();
    symlink(&outside, project.claude("teams/linked")).unwrap();
    put(&project, "teams/file", "no folder");
    put(
        &project,
        "teams/tasks-linked/config.json",
        &registry("x", 0).to_string(),
    );
    symlink(&outside, project.claude("tasks/tasks-linked")).unwrap();
    put(
        &project,
        "teams/inside/config.json",
        &registry("x", 0).to_string(),
    );
    symlink(&outside, project.claude("teams/inside/more")).unwrap();
    for name in ["tasks-linked", "inside"] {
        touch(&project, name, 3 * DAY);
    }
    let linked = listed(&project, "linked");
    assert!(
        evidence(&linked).contains("is a symbolic link and not followed"),
        "{linked}"
    );
    assert!(evidence(&listed(&project, "file")).contains("is not a folder"));
    assert!(evidence(&listed(&project, "tasks-linked")).contains("symbolic link"));
    project.run(["zombies", "reap", "--ttl", "1s"]).succeeds();
    assert!(is_gone(&project, "real"));
    for path in ["teams/linked", "teams/file", "teams/tasks-linked"] {
        assert!(project.claude(path).exists(), "{path}");
    }
    assert!(outside.join("config.json").exists());
}

#[test]
fn teams_itself_as_a_link_is_not_followed() {
    for folder in ["teams", "tasks", ".teamster-trash"] {
        let project = TestProject::new();
        team(&project, "old", &registry("old", 0), 3 * DAY);
        let outside = project.home().join("outside");
        let place = project.claude(folder);
        if place.exists() {
            std::fs::rename(&place, &outside).unwrap();
        } else {
            std::fs::create_dir(&outside).unwrap();
        }
        symlink(&outside, &place).unwrap();
        let before = std::fs::read_dir(&outside).unwrap().count();
        let refused = project.run(["zombies", "reap"]).fails(6);
        assert!(
            refused.stderr.contains("symbolic link"),
            "{}",
            refused.stderr
        );
        assert_eq!(
            std::fs::read_dir(&outside).unwrap().count(),
            before,
            "{folder}"
        );
    }
}

#[test]
fn another_users_team_is_never_touched() {
    let project = TestProject::new();
    team(&project, "foreign", &registry("foreign", 0), 3 * DAY);
    team(&project, "foreign-tasks", &registry("x", 0), 3 * DAY);
    let given = chown(project.claude("teams/foreign"), Some(1), None)
        .and_then(|()| chown(project.claude("tasks/foreign-tasks"), Some(1), None));
    if given.is_err() {
        return skip("only root can give a folder to another user");
    }
    for name in ["foreign", "foreign-tasks"] {
        let found = listed(&project, name);
        assert!(
            evidence(&found).contains("belongs to another user (uid 1)"),
            "{found}"
        );
        assert_eq!(found["action"], "keep");
    }
    project.run(["zombies", "reap", "--ttl", "1ms"]).succeeds();
    assert!(is_there(&project, "foreign"));
    assert!(is_there(&project, "foreign-tasks"));
}

#[test]
fn names_that_deceive_are_shown_escaped_and_handled_as_they_are() {
    let project = TestProject::new();
    let names = [
        "esc\u{1b}[31mred",
        "bidi\u{202e}txt.exe",
        "new\nline",
        "$(touch x)",
        "고치다",
    ];
    for name in names {
        team(&project, name, &registry("x", 0), 3 * DAY);
    }
    let long = "n".repeat(255);
    team(&project, &long, &registry("x", 0), 3 * DAY);
    let shown = project.run(["zombies", "scan"]).succeeds().stdout;
    assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{shown}");
    assert!(shown.contains("esc\\u{1b}[31mred"), "{shown}");
    assert!(shown.contains("new\\u{a}line"), "{shown}");
    project.run(["zombies", "reap"]).succeeds();
    for name in names.into_iter().chain([long.as_str()]) {
        assert!(is_gone(&project, name), "{name:?}");
        project.run(["zombies", "restore", name]).succeeds();
        assert!(is_there(&project, name), "{name:?}");
    }
}

#[test]
fn without_a_claude_folder_there_is_nothing_and_nothing_is_made() {
    let project = TestProject::new();
    for command in ["scan", "reap"] {
        let said = project.run(["zombies", command]).succeeds();
        assert_eq!(said.stdout, "nothing is left behind\n");
    }
    assert!(project.files().is_empty());
    project.run(["zombies", "restore", "x"]).fails(3);
    std::fs::create_dir_all(project.claude("teams")).unwrap();
    let before = project.files();
    project.run(["zombies", "reap"]).succeeds();
    project.run(["zombies", "restore", "x"]).fails(3);
    assert_eq!(project.files(), before);
}

#[test]
fn a_name_that_is_not_utf_8_is_listed_readably_and_hides_nobody() {
    let project = TestProject::new();
    team(&project, "old", &registry("old", 0), 3 * DAY);
    let name = OsStr::from_bytes(b"caf\xe9 \xff");
    for folder in ["teams", "tasks"] {
        let odd = project.claude(folder).join(name);
        std::fs::create_dir(&odd).unwrap();
        std::fs::write(odd.join("config.json"), registry("odd", 0).to_string()).unwrap();
    }
    let found = listed(&project, "caf\\xe9 \\xff");
    assert_eq!(found["action"], "keep");
    assert!(evidence(&found).contains("not UTF-8"), "{found}");
    let shown = project.run(["zombies", "scan"]).succeeds().stdout;
    assert!(shown.contains("caf\\xe9 \\xff"), "{shown}");
    let doctor = project.run(["doctor"]).stdout;
    assert!(
        doctor.contains("teams/caf\\xe9 \\xff; tasks/caf\\xe9 \\xff"),
        "{doctor}"
    );
    for words in [&["team", "list"][..], &["status"], &["zombies", "reap"]] {
        project.run(words).succeeds();
    }
    let payload = serde_json::json!({"session_id": "s1", "source": "startup"}).to_string();
    project
        .call(["hook", "SessionStart"])
        .input(payload)
        .run()
        .exits(0);
    assert!(is_gone(&project, "old"));
    assert!(
        project
            .claude("teams")
            .join(name)
            .join("config.json")
            .exists()
    );
    // The shown command is valid for a shell, and removes exactly that.
    let command = found["command"].as_str().unwrap();
    let done = std::process::Command::new("bash")
        .args(["-c", command])
        .status();
    assert!(done.unwrap().success(), "{command}");
    assert!(!project.claude("teams").join(name).exists());
    assert!(project.claude("tasks").join(name).exists());
}

#[test]
fn files_with_odd_names_go_with_their_team_and_come_back_with_it() {
    let project = TestProject::new();
    team(&project, "old", &registry("old", 0), 3 * DAY);
    let odd = project.claude("teams/old").join(OsStr::from_bytes(b"\xff"));
    std::fs::create_dir(&odd).unwrap();
    std::fs::write(odd.join(OsStr::from_bytes(b"\xfe")), "kept").unwrap();
    touch(&project, "old", 3 * DAY);
    project.run(["zombies", "reap"]).succeeds();
    assert!(is_gone(&project, "old"));
    project.run(["zombies", "restore", "old"]).succeeds();
    assert!(odd.join(OsStr::from_bytes(b"\xfe")).exists());
}

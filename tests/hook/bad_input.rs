//! With any input: exit code 0, in time, valid JSON or nothing, and no foreign file is changed.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use serde_json::json;

use super::{is_in_time, names, row, start};
use crate::kit::{Ran, TestProject};

const EVENTS: [&str; 12] = [
    "SubagentStart",
    "SubagentStop",
    "PreToolUse",
    "PostToolUse",
    "TeammateIdle",
    "TaskCreated",
    "TaskCompleted",
    "Notification",
    "Stop",
    "SessionStart",
    "SessionEnd",
    "NobodyKnowsThis",
];

fn check(ran: Ran) -> Ran {
    let ran = ran.exits(0);
    if !ran.stdout.is_empty() {
        assert!(ran.json().is_object());
    }
    assert_eq!(ran.stderr, "");
    ran
}

#[test]
fn unusable_payloads_leave_no_trace() {
    let deep = "[".repeat(100_000);
    let inputs: [&[u8]; 9] = [
        b"",
        b"null",
        b"[]",
        b"42",
        b"\"text\"",
        b"{\"session_id\":\"s1\"",
        b"{\"agent_name\":\"\xff\xfe\"}",
        b"{} trailing",
        deep.as_bytes(),
    ];
    let project = TestProject::new();
    for event in EVENTS {
        for input in inputs {
            let ran = check(project.call(["hook", event]).input(input).run());
            let expected = match event {
                "SubagentStart" | "SubagentStop" => "{\"continue\":true}\n",
                _ => "",
            };
            assert_eq!(ran.stdout, expected, "{event}");
        }
    }
    assert!(!project.folder().join(".bkit").exists());
    assert!(!project.claude("").exists());
}

#[test]
fn too_much_is_not_read_and_a_lot_is_cut() {
    let project = TestProject::new();
    let name = "n".repeat(10_000_000);
    let began = Instant::now();
    check(project.hook("SubagentStart", &start(&name)));
    let state = project.state();
    let shown = state["teammates"][0]["name"].as_str().unwrap();
    assert_eq!(shown.chars().count(), 200);
    let huge = format!("{{\"agent_name\":\"{}\"}}", "x".repeat(17 * 1024 * 1024));
    let ran = check(project.call(["hook", "SubagentStart"]).input(huge).run());
    assert_eq!(ran.stdout, "{\"continue\":true}\n");
    assert_eq!(project.state(), state);
    // The time must not grow with the square of the length.
    is_in_time(began, 8);
}

#[test]
fn deceiving_characters_and_secrets_do_not_get_in() {
    let project = TestProject::new();
    let payload = json!({"session_id": "s\u{1b}[31m1", "agent_name": "w\u{202e}1\u{7}\n\u{1b}]0;t\u{7}x",
        "agent_type": "dev\u{200b}eloper", "team_name": "t\u{9b}31m",
        "tool_input": {"prompt": "use AKIAIOSFODNN7EXAMPLE and TOKEN=ghp_0123456789abcdefghijABCDEFGHIJ012345"}});
    check(project.hook("SubagentStart", &payload));
    let text = std::fs::read_to_string(project.bkit("agent-state.json")).unwrap();
    for bad in [
        "\u{1b}", "\\u001b", "\u{202e}", "\u{200b}", "\u{9b}", "ghp_", "AKIAIOSF",
    ] {
        assert!(!text.contains(bad), "{bad:?} in {text}");
    }
    let state = project.state();
    assert_eq!(state["teammates"][0]["name"], "w1 x");
    assert_eq!(state["teammates"][0]["role"], "developer");
}

#[test]
fn ids_of_other_types_count_as_missing() {
    let project = TestProject::new();
    for value in [
        json!({"a": 1}),
        json!([1]),
        json!(7),
        json!(null),
        json!(true),
        json!(""),
    ] {
        let payload = json!({"session_id": value, "agent_id": value, "agent_type": value, "agent_name": value,
            "team_name": value, "teammate_name": value, "tool_input": value, "tool_response": value,
            "tool_name": value, "task_id": value, "background_tasks": value, "message": value,
            "notification_type": value, "model": value, "exit_code": value});
        for event in EVENTS {
            let ran = project.hook(event, &payload);
            assert_eq!(ran.stderr, "", "{event} {value}");
            assert!(ran.stdout.is_empty() || ran.json().is_object());
        }
    }
}

#[test]
fn an_input_that_is_held_open_costs_a_second() {
    let project = TestProject::new();
    let (reader, mut writer) = std::io::pipe().unwrap();
    let began = Instant::now();
    let child = project
        .call(["hook", "SubagentStart"])
        .stdin(Stdio::from(reader))
        .spawn();
    std::io::Write::write_all(&mut writer, start("w1").to_string().as_bytes()).unwrap();
    let mut child = child;
    assert!(child.wait().unwrap().success());
    is_in_time(began, 2);
    assert_eq!(names(&project.state()), ["w1"], "what had come was enough");
    drop(writer);
}

/// Makes a foreign file that nothing may change.
fn treasure(project: &TestProject) -> std::path::PathBuf {
    let path = project.folder().join("treasure");
    std::fs::write(&path, "gold").unwrap();
    path
}

fn every_event(project: &TestProject) {
    for event in EVENTS {
        let began = Instant::now();
        let ran = project.hook(event, &start("w1"));
        assert!(ran.stdout.is_empty() || ran.json().is_object());
        is_in_time(began, 2);
    }
}

#[test]
fn a_file_where_the_folder_should_be_is_left_alone() {
    let project = TestProject::new();
    std::fs::write(project.folder().join(".bkit"), "mine").unwrap();
    every_event(&project);
    assert_eq!(
        std::fs::read_to_string(project.folder().join(".bkit")).unwrap(),
        "mine"
    );
}

#[test]
fn links_are_not_followed_wherever_they_are_planted() {
    for planted in [
        ".bkit",
        ".bkit/agent-state.json",
        ".bkit/.agent-state.lock",
        ".bkit/pending.jsonl",
        ".bkit/.pending.claimed",
        ".bkit/.pending",
        ".bkit/sessions",
        ".bkit/sessions/s1.json",
        ".bkit/hook.log",
    ] {
        let project = TestProject::new();
        let treasure = treasure(&project);
        let elsewhere = project.folder().join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        let link = project.folder().join(planted);
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        let is_folder = [".bkit", ".bkit/sessions", ".bkit/.pending"].contains(&planted);
        symlink(if is_folder { &elsewhere } else { &treasure }, &link).unwrap();
        every_event(&project);
        let debugged = project
            .call(["hook", "SubagentStart"])
            .env("TEAMSTER_DEBUG", "1");
        debugged.input(start("w1").to_string()).run().exits(0);
        assert_eq!(
            std::fs::read_to_string(&treasure).unwrap(),
            "gold",
            "{planted}"
        );
        assert_eq!(
            std::fs::read_dir(&elsewhere).unwrap().count(),
            0,
            "{planted}"
        );
        assert!(link.is_symlink(), "{planted}");
    }
}

#[test]
fn a_link_at_the_record_of_ends_is_not_followed() {
    let project = TestProject::new();
    project.native_team("alpha", "s1", &[("w1", "in-process")]);
    let treasure = treasure(&project);
    symlink(&treasure, project.claude("zombie-alerts.jsonl")).unwrap();
    let payload = json!({"session_id": "s1", "agent_id": "a1", "agent_type": "w1"});
    let ran = project.hook("SubagentStop", &payload);
    assert_eq!(ran.json()["continue"], true);
    assert!(ran.stderr.contains("was not recorded"), "{}", ran.stderr);
    assert_eq!(std::fs::read_to_string(&treasure).unwrap(), "gold");
}

#[test]
fn a_disk_that_cannot_be_written_blocks_nobody() {
    // Root may write everywhere, but a full disk affects every user.
    let project = TestProject::new();
    std::fs::create_dir(project.folder().join(".bkit")).unwrap();
    let set = |mode| {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(project.folder().join(".bkit"), mode).unwrap();
    };
    set(0o500);
    every_event(&project);
    set(0o700);
    let full = Path::new("/dev/full");
    if full.exists() {
        let out = std::fs::File::options().write(true).open(full).unwrap();
        let call = project
            .call(["hook", "SubagentStart"])
            .input(start("w1").to_string());
        call.stdout(Stdio::from(out)).run().exits(0);
    }
}

#[test]
fn no_file_may_grow_and_the_old_state_stays() {
    let project = TestProject::new();
    project.hook("SubagentStart", &start("w1"));
    let before = std::fs::read(project.bkit("agent-state.json")).unwrap();
    let payload = start("w2").to_string();
    // With `ulimit -f 0`, every write to a file fails as on a full disk.
    let line = "trap '' XFSZ; ulimit -f 0; teamster hook SubagentStart";
    let ran = project.shell(line).input(payload).run().exits(0);
    assert!(ran.stdout.is_empty() || ran.json().is_object());
    assert_eq!(
        std::fs::read(project.bkit("agent-state.json")).unwrap(),
        before
    );
    assert!(project.leftovers().is_empty(), "{:?}", project.leftovers());
}

#[test]
fn a_corrupt_state_is_kept_aside_and_a_fresh_one_begun() {
    for damaged in ["", "{\"version\":", "[]", "null"] {
        let project = TestProject::new();
        std::fs::create_dir(project.folder().join(".bkit")).unwrap();
        std::fs::write(project.bkit("agent-state.json"), damaged).unwrap();
        project.run(["state-file", "read"]).fails(1);
        project.hook("SubagentStart", &start("w1"));
        assert_eq!(names(&project.state()), ["w1"]);
        let aside: Vec<_> = std::fs::read_dir(project.folder().join(".bkit"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.display().to_string().contains("agent-state.corrupt-"))
            .collect();
        assert_eq!(aside.len(), 1, "{damaged}");
        assert_eq!(std::fs::read_to_string(&aside[0]).unwrap(), damaged);
    }
}

#[test]
fn a_state_that_another_program_wrote_is_understood() {
    let project = TestProject::new();
    let foreign = json!({"version": "2.0", "enabled": true, "extra": {"x": 1}, "sessionId": "s1",
        "lastUpdated": "2999-01-01T00:00:00.000+09:00", "pdcaPhase": "qa", "teamName": 7,
        "teammates": [{"name": "w1", "status": "pondering"}, "nonsense", {"role": "nameless"}],
        "recentMessages": "none", "progress": {"totalTasks": 3}});
    std::fs::create_dir(project.folder().join(".bkit")).unwrap();
    std::fs::write(project.bkit("agent-state.json"), foreign.to_string()).unwrap();
    project.hook("SubagentStart", &start("w2"));
    let state = project.state();
    assert_eq!(names(&state), ["w1", "w2"]);
    assert_eq!(row(&state, "w1")["status"], "working");
    assert_eq!(state["pdcaPhase"], "check");
    assert_eq!(state["progress"]["totalTasks"], 3);
    assert_eq!(state["extra"], json!({"x": 1}), "what is not ours is kept");
}

#[test]
fn it_works_without_a_home_a_project_or_an_event() {
    let project = TestProject::new();
    project
        .call(["hook", "SubagentStart"])
        .without_env("HOME")
        .input(start("w1").to_string())
        .run()
        .exits(0);
    assert_eq!(names(&project.state()), ["w1"]);
    let mut payload = start("w2");
    payload["hook_event_name"] = json!("SubagentStart");
    project
        .call(["hook"])
        .input(payload.to_string())
        .run()
        .exits(0);
    assert_eq!(
        names(&project.state()),
        ["w1", "w2"],
        "the payload says which event it is"
    );
    let gone = project
        .call(["hook", "SubagentStart"])
        .env("CLAUDE_PROJECT_DIR", "/nonexistent/project");
    gone.input(start("w3").to_string()).run().exits(0);
    project.run(["hook", "SubagentStart"]).exits(0);
}

#[test]
fn a_wrong_call_blocks_nobody() {
    let project = TestProject::new();
    for words in [
        &["hook", "SubagentStart", "extra"][..],
        &["hook", "--unknown", "SubagentStart"],
        &["hook", "--json"],
        &["hook", ""],
        &["hook"],
    ] {
        project.call(words).input("{}").run().exits(0);
    }
    assert_eq!(names(&project.state()), ["unknown"]);
    project.run(["hook", "--help"]).succeeds();
}

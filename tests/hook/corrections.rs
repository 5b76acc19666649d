//! Mistakes of the first version with hooks and state files: at least one test for each line of the list in
//! `tests/corrections.toml`.

use std::path::Path;
use std::process::Command;

use proptest::prelude::*;
use serde_json::{Value, json};
use teamster_claude::state::{Begin, Model, Op, StateChange, StateFiles, Status, TeammateRow};
use teamster_fs::layout::Layout;
use teamster_types::progress::Progress;

use super::{names, row, start};
use crate::kit::{TestProject, gone, living, now};

const STALE: &str = "2026-01-01T00:00:00.000Z";

fn side(project: &TestProject, session: &str) -> Option<Value> {
    let text = std::fs::read_to_string(project.bkit(&format!("sessions/{session}.json"))).ok()?;
    Some(serde_json::from_str(&text).unwrap())
}

fn edit_state(project: &TestProject, edit: impl FnOnce(&mut Value)) {
    let mut state = project.state();
    edit(&mut state);
    std::fs::write(project.bkit("agent-state.json"), state.to_string()).unwrap();
}

fn contents(project: &TestProject) -> Vec<String> {
    let state = project.state();
    let letters = state["recentMessages"].as_array().unwrap().iter();
    letters
        .map(|letter| letter["content"].as_str().unwrap().to_owned())
        .collect()
}

fn git(folder: &Path, args: &[&str]) -> String {
    let git = Command::new("git").args(args).current_dir(folder).output();
    let git = git.unwrap();
    assert!(git.status.success(), "{git:?}");
    String::from_utf8(git.stdout).unwrap()
}

/// Records that the client's session runs in a process.
fn session_record(
    project: &TestProject,
    session: &str,
    process: &teamster_types::process::ProcessId,
) {
    let record = json!({"pid": process.pid, "sessionId": session,
        "procStart": process.process_start_time.to_string()});
    let file = format!("sessions/{}.json", process.pid);
    project.native_file(&file, &record.to_string());
}

fn begin_session(project: &TestProject, session: &str) {
    let payload = json!({"session_id": session, "source": "startup"});
    project.hook("SessionStart", &payload);
}

#[test]
fn quiet_session_whose_process_runs_is_live_and_ended_by_no_other_session() {
    let project = TestProject::new();
    project.hook("SubagentStart", &start("w1"));
    session_record(&project, "s1", &living());
    edit_state(&project, |state| state["lastUpdated"] = json!(STALE));
    let shown = project.run(["state-file", "read"]).succeeds().stdout;
    assert!(shown.starts_with("live, "), "{shown}");
    for number in 0..20 {
        let other = format!("other-{number}");
        begin_session(&project, &other);
        let payload = json!({"session_id": other, "agent_name": "x"});
        project.hook("SubagentStart", &payload);
        project.hook(
            "SessionEnd",
            &json!({"session_id": other, "reason": "other"}),
        );
        let state = project.state();
        assert_eq!(state["sessionId"], "s1", "session {number}");
        assert_eq!(state["enabled"], true, "session {number}");
        assert_eq!(names(&state), ["w1"], "session {number}");
    }
}

#[test]
fn run_whose_host_holds_its_lock_is_live_and_ended_by_no_other_session() {
    let project = TestProject::with_team();
    let init = [
        "state-file",
        "init",
        "--team",
        "fix-auth",
        "--feature",
        "f",
        "--session",
        "run-fix-auth",
    ];
    project.run(init).succeeds();
    edit_state(&project, |state| state["lastUpdated"] = json!(STALE));
    let lock = std::fs::File::create(project.claude("teams/fix-auth/host.lock")).unwrap();
    lock.lock().unwrap();
    begin_session(&project, "s2");
    project.hook(
        "SubagentStart",
        &json!({"session_id": "s2", "agent_name": "x"}),
    );
    let state = project.state();
    assert_eq!(
        (&state["sessionId"], &state["enabled"]),
        (&json!("run-fix-auth"), &json!(true))
    );
    let shown = project.run(["state-file", "read"]).succeeds().stdout;
    assert!(shown.starts_with("live, "), "{shown}");
}

#[test]
fn session_that_cannot_be_seen_keeps_its_rows_when_it_gives_way() {
    let project = TestProject::new();
    project.hook("SubagentStart", &start("w1"));
    edit_state(&project, |state| state["lastUpdated"] = json!(STALE));
    begin_session(&project, "s2");
    assert_eq!(project.state()["enabled"], true, "its start ends nobody");
    project.hook(
        "SubagentStart",
        &json!({"session_id": "s2", "agent_name": "x"}),
    );
    assert_eq!(project.state()["sessionId"], "s2");
    let displaced = side(&project, "s1").unwrap();
    assert_eq!(displaced["enabled"], true, "nobody has proven its end");
    assert_eq!(names(&displaced), ["w1"]);
    project.hook(
        "TeammateIdle",
        &json!({"session_id": "s1", "teammate_name": "w1"}),
    );
    assert_eq!(row(&side(&project, "s1").unwrap(), "w1")["status"], "idle");
}

#[test]
fn orphans_of_a_killed_lead_keep_its_state() {
    let project = TestProject::new();
    let lead = project.session();
    project.native_team("alpha", &lead, &[("w1", "%1")]);
    project.hook(
        "SubagentStart",
        &json!({"session_id": lead, "agent_id": "x", "agent_name": "w1"}),
    );
    session_record(&project, &lead, &gone());
    // A process with the command line of a client's teammate; it waits until its input ends.
    let line = format!(
        "exec sh -c 'echo $$; read -r _' claude --agent-id w1@alpha --agent-name w1 \
         --team-name alpha --parent-session-id {lead}"
    );
    let (reader, writer) = std::io::pipe().unwrap();
    let mut orphan = project.shell(&line).stdin(reader.into()).follow();
    orphan.line();
    begin_session(&project, "s2");
    assert_eq!(project.state()["enabled"], true, "w1 still runs");
    assert_eq!(names(&project.state()), ["w1"]);
    drop(writer);
    drop(orphan);
    begin_session(&project, "s2");
    assert_eq!(project.state()["enabled"], false, "nobody is left");
}

#[test]
fn team_that_is_reaped_ends_its_state() {
    let project = TestProject::new();
    // Unusual names: any process on this machine for a team of the same name would be a sign of life.
    project.native_team("reaped", "s-reaped", &[("w1", "in-process")]);
    let w1 = json!({"session_id": "s-reaped", "agent_id": "x", "agent_type": "w1"});
    project.hook("SubagentStart", &w1);
    let (file, gone) = (project.claude("teams/reaped/config.json"), gone());
    let mut config: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    config["leadProcess"] = json!({"pid": gone.pid, "procStart": gone.process_start_time.to_string(),
        "pidSpace": format!("{}#{}", gone.host, gone.pid_ns), "claimedAt": 1});
    std::fs::write(&file, config.to_string()).unwrap();
    project.run(["zombies", "reap"]).succeeds();
    assert!(!project.claude("teams/reaped").exists());
    let state = project.state();
    assert_eq!(state["enabled"], false);
    assert_eq!(state["teammates"], json!([]));
}

#[test]
fn teammate_in_a_pane_that_was_killed_is_failed_at_the_next_hook() {
    let project = TestProject::new();
    let lead = project.session();
    project.native_team("alpha", &lead, &[("w1", "%1")]);
    let line = format!(
        "exec sh -c 'echo $$; read -r _' claude --agent-id w1@alpha --agent-name w1 \
         --team-name alpha --parent-session-id {lead}"
    );
    let (reader, writer) = std::io::pipe().unwrap();
    let mut client = project.shell(&line).stdin(reader.into()).follow();
    let pid = client.line();
    let hook = |event: &str, session: &str, pid: Option<&str>| {
        let mut call = project.call(["hook", event]);
        if let Some(pid) = pid {
            call = call.env("CLAUDE_PID", pid);
        }
        let payload = json!({"session_id": session, "agent_type": "general-purpose", "tool_name": "Bash",
            "background_tasks": [{"status": "running"}]});
        call.input(payload.to_string()).run().exits(0).stderr
    };
    assert_eq!(hook("SessionStart", "pane", Some(&pid)), "");
    assert_eq!(hook("PreToolUse", "pane", Some(&pid)), "");
    assert_eq!(hook("Stop", &lead, None), "");
    assert_eq!(row(&project.state(), "w1")["status"], "working");
    drop(writer);
    drop(client);
    let alarm = "[ZOMBIE-ALERT] teammate 'w1' in team 'alpha' has exited (code=-1)\n";
    assert_eq!(hook("Stop", &lead, None), alarm);
    let state = project.state();
    assert_eq!(row(&state, "w1")["status"], "failed");
    assert_eq!(
        row(&state, "w1")["currentTask"],
        format!("process {pid} is gone")
    );
}

#[test]
fn turn_that_ends_by_an_error_of_the_client_is_failed() {
    let project = TestProject::new();
    project.native_team("alpha", "s1", &[("w1", "in-process")]);
    let w1 = json!({"session_id": "s1", "agent_id": "aw1-ee1e2c6a467abe5d", "agent_type": "w1"});
    project.hook("SubagentStart", &w1);
    let mut failure = w1.clone();
    failure["error"] = json!("unknown");
    failure["last_assistant_message"] = json!("API Error: 400 scripted error");
    assert_eq!(project.hook("StopFailure", &failure).stdout, "");
    let failed = project.state();
    assert_eq!(row(&failed, "w1")["status"], "failed");
    assert_eq!(
        row(&failed, "w1")["currentTask"],
        "API Error: 400 scripted error"
    );
    // The client's events at the end of that turn do not make it a success.
    project.hook("SubagentStop", &w1);
    project.hook(
        "TeammateIdle",
        &json!({"session_id": "s1", "teammate_name": "w1", "team_name": "alpha"}),
    );
    assert_eq!(row(&project.state(), "w1")["status"], "failed");
    project.hook("SubagentStart", &w1);
    assert_eq!(
        row(&project.state(), "w1")["status"],
        "working",
        "its next turn"
    );
    assert_eq!(row(&project.state(), "w1")["currentTask"], Value::Null);
    // An error of the lead belongs to no row.
    let before = project.state();
    project.hook(
        "StopFailure",
        &json!({"session_id": "s1", "error": "rate_limit"}),
    );
    assert_eq!(project.state()["teammates"], before["teammates"]);
    assert_eq!(project.state()["enabled"], true);
}

#[test]
fn init_without_a_session_begins_anew_and_archives_what_was() {
    let project = TestProject::new();
    let init = ["state-file", "init", "--team", "t", "--feature", "f"];
    project.run(init).succeeds();
    assert_eq!(project.state()["sessionId"], "script");
    project.run(["state-file", "add", "w1"]).succeeds();
    project
        .run(["state-file", "progress", "--total", "3"])
        .succeeds();
    project.run(["state-file", "message", "hello"]).succeeds();
    // The script was killed here, and is started again.
    project.run(init).succeeds();
    let state = project.state();
    assert_eq!(state["teammates"], json!([]));
    assert_eq!(state["recentMessages"], json!([]));
    assert_eq!(state["progress"]["totalTasks"], 0);
    let archived: Vec<Value> = std::fs::read_dir(project.bkit("sessions"))
        .unwrap()
        .map(|entry| {
            serde_json::from_slice(&std::fs::read(entry.unwrap().path()).unwrap()).unwrap()
        })
        .collect();
    assert_eq!(archived.len(), 1);
    assert_eq!(archived[0]["recentMessages"][0]["content"], "hello");
    assert_eq!(archived[0]["enabled"], false);
}

#[test]
fn init_of_the_same_session_keeps_what_it_has() {
    let project = TestProject::new();
    let init = [
        "state-file",
        "init",
        "--team",
        "t",
        "--feature",
        "f",
        "--session",
        "mine",
    ];
    project.run(init).succeeds();
    project
        .run(["state-file", "add", "w1", "--session", "mine"])
        .succeeds();
    project.run(init).succeeds();
    assert_eq!(names(&project.state()), ["w1"]);
}

#[test]
fn script_without_a_session_changes_nobody_elses_state() {
    let project = TestProject::new();
    project.hook("SubagentStart", &start("w1"));
    let shown = project.state();
    for words in [
        &["add", "w9"][..],
        &["status", "w1", "idle"],
        &["remove", "w1"],
        &["progress", "--total", "3"],
        &["message", "hello"],
        &["cleanup"],
    ] {
        let words = ["state-file"].iter().chain(words);
        project.run(words).fails(3);
        assert_eq!(project.state(), shown);
    }
    project
        .run(["state-file", "init", "--team", "t", "--feature", "f"])
        .succeeds();
    project.run(["state-file", "add", "mine"]).succeeds();
    assert_eq!(project.state(), shown, "a live session keeps its team");
    assert_eq!(names(&side(&project, "script").unwrap()), ["mine"]);
    project
        .run(["state-file", "add", "w2", "--session", "s1"])
        .succeeds();
    assert_eq!(names(&project.state()), ["w1", "w2"]);
    let call = project.call(["state-file", "remove", "w2"]);
    call.env("TEAMSTER_SESSION", "s1").run().succeeds();
    let read = ["state-file", "read", "--session", "script", "--json"];
    assert_eq!(names(&project.run(read).succeeds().json()), ["mine"]);
    let all = project
        .run(["state-file", "read", "--all", "--json"])
        .succeeds()
        .json();
    let all: Vec<&str> = all["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|state| state["sessionId"].as_str().unwrap())
        .collect();
    assert_eq!(all, ["s1", "script"]);
    project
        .run(["state-file", "cleanup", "--session", "s1"])
        .succeeds();
    assert_eq!(
        project.state()["sessionId"],
        "script",
        "the other one moves up"
    );
}

#[test]
fn hook_without_a_session_changes_no_other_sessions_state() {
    let project = TestProject::new();
    project.hook("SubagentStart", &start("w1"));
    let shown = project.state();
    project.hook("Stop", &json!({}));
    project.hook("SessionEnd", &json!({}));
    project.hook("SubagentStop", &json!({"agent_name": "w1"}));
    assert_eq!(project.state(), shown);
}

#[test]
fn state_folder_is_no_untracked_file_in_any_scope() {
    let project = TestProject::new();
    let folder = project.folder();
    git(&folder, &["init", "-q"]);
    std::fs::write(folder.join(".git/info/exclude"), "# mine\n*.log").unwrap();
    project.hook("SubagentStart", &start("w1"));
    assert!(project.bkit("agent-state.json").exists());
    assert_eq!(git(&folder, &["status", "--porcelain"]), "");
    let exclude = || std::fs::read_to_string(folder.join(".git/info/exclude")).unwrap_or_default();
    assert!(exclude().starts_with("# mine\n*.log\n"), "{}", exclude());
    let once = exclude();
    std::fs::remove_dir_all(folder.join(".bkit")).unwrap();
    project.hook("SubagentStart", &start("w1"));
    assert_eq!(exclude(), once, "it is added once");
}

#[test]
fn state_folder_of_a_linked_worktree_is_excluded_and_a_rule_of_the_user_counts() {
    let project = TestProject::new();
    let folder = project.folder();
    git(&folder, &["init", "-q", "main"]);
    let main = folder.join("main");
    let commit = [
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@b",
        "commit",
        "-q",
        "--allow-empty",
        "-m",
        "x",
    ];
    git(&main, &commit);
    git(&main, &["worktree", "add", "-q", "../linked"]);
    let linked = folder.join("linked");
    let hook = |at: &Path| {
        let call = project.call(["hook", "SubagentStart"]).folder(at);
        let call = call
            .without_env("TEAMSTER_PROJECT")
            .without_env("CLAUDE_PROJECT_DIR");
        call.input(start("w1").to_string()).run().succeeds();
        assert!(at.join(".bkit/agent-state.json").exists());
    };
    hook(&linked);
    assert_eq!(git(&linked, &["status", "--porcelain"]), "");
    let other = TestProject::new();
    let folder = other.folder();
    git(&folder, &["init", "-q"]);
    let before = std::fs::read_to_string(folder.join(".git/info/exclude")).unwrap_or_default();
    other.write(".gitignore", ".bkit\n.omc/\n/.party/\n.gitignore\n");
    other.hook("SubagentStart", &start("w1"));
    let exclude = std::fs::read_to_string(folder.join(".git/info/exclude")).unwrap_or_default();
    assert_eq!(exclude, before, "git leaves it alone already");
}

#[test]
fn first_task_of_an_empty_list_is_counted() {
    let project = TestProject::new();
    project.native_team("alpha", "s1", &[("w1", "in-process")]);
    project.hook(
        "SubagentStart",
        &json!({"session_id": "s1", "agent_id": "a", "agent_type": "w1"}),
    );
    std::fs::create_dir_all(project.claude("tasks/alpha")).unwrap();
    project.hook(
        "TaskCreated",
        &json!({"session_id": "s1", "task_id": "1", "task_subject": "New"}),
    );
    assert_eq!(project.state()["progress"]["totalTasks"], 1);
    assert_eq!(project.state()["progress"]["pendingTasks"], 1);
    std::fs::remove_dir_all(project.claude("tasks")).unwrap();
    project.hook(
        "TaskCreated",
        &json!({"session_id": "s1", "task_id": 2, "task_subject": "New"}),
    );
    assert_eq!(
        project.state()["progress"]["totalTasks"],
        1,
        "the list of this session is new"
    );
}

fn pdca(project: &TestProject, feature: &str, phase: &str) {
    let status = json!({"primaryFeature": feature, "features": {feature: {"phase": phase}}});
    project.write("docs/.pdca-status.json", &status.to_string());
}

#[test]
fn every_hook_follows_the_feature_and_the_phase_in_words_that_fit() {
    let project = TestProject::new();
    pdca(&project, "login", "do");
    project.hook("SubagentStart", &start("w1"));
    let is = |feature: &str, phase: &str| {
        let state = project.state();
        assert_eq!(
            (&state["feature"], &state["pdcaPhase"]),
            (&json!(feature), &json!(phase))
        );
    };
    is("login", "do");
    pdca(&project, "search", "do");
    project.hook(
        "TeammateIdle",
        &json!({"session_id": "s1", "teammate_name": "w1"}),
    );
    is("search", "do");
    pdca(&project, "search", "check");
    project.hook("SubagentStart", &start("w2"));
    is("search", "check");
    pdca(&project, "search", "plan");
    project.hook(
        "Notification",
        &json!({"session_id": "s1", "notification_type": "idle_prompt"}),
    );
    is("search", "plan");
    pdca(&project, "search", "design");
    project.hook(
        "PreToolUse",
        &json!({"session_id": "s1", "tool_name": "SendMessage"}),
    );
    is("search", "design");
    pdca(&project, "billing", "do");
    project.hook("SubagentStop", &start("w1"));
    is("billing", "do");
    assert_eq!(
        contents(&project),
        [
            "Feature login → search",
            "Phase do → check (auto-advanced)",
            "Phase check → plan (went back)",
            "Phase plan → design (auto-advanced)",
            "Feature search → billing, phase design → do",
        ]
    );
    let said = project.hook(
        "TaskCompleted",
        &json!({"session_id": "s1", "task_id": "1"}),
    );
    assert_eq!(said.stdout, "{}\n");
    pdca(&project, "billing", "plan");
    let said = project.hook(
        "TaskCompleted",
        &json!({"session_id": "s1", "task_id": "1"}),
    );
    assert_eq!(said.json()["systemMessage"], "Phase do → plan (went back)");
}

fn agent_tool(event_fields: &Value, id: &str, description: &str, prompt: &str) -> Value {
    let mut payload = json!({"session_id": "s1", "prompt_id": "p1", "tool_name": "Agent", "tool_use_id": id,
        "tool_input": {"description": description, "prompt": prompt, "subagent_type": "general-purpose"}});
    for (key, value) in event_fields.as_object().unwrap() {
        payload[key] = value.clone();
    }
    payload
}

#[test]
fn plain_subagent_is_shown_as_the_client_describes_it() {
    let project = TestProject::new();
    let agent = |id: &str| json!({"session_id": "s1", "prompt_id": "p1", "agent_id": id, "agent_type": "general-purpose"});
    let spawn = |id: &str, prompt: &str| {
        project.hook(
            "PreToolUse",
            &agent_tool(&json!({}), id, "Check the readme", prompt),
        );
    };
    spawn("t1", "read the readme");
    let ran = project.hook("SubagentStart", &agent("a72a7e32bbe93b6f7"));
    assert_eq!(
        ran.json()["systemMessage"],
        "Subagent Check the readme spawned"
    );
    assert_eq!(
        ran.json()["hookSpecificOutput"]["agentName"],
        "Check the readme"
    );
    spawn("t2", "read it again");
    project.hook("SubagentStart", &agent("a83b8f43cce04c7f8"));
    let state = project.state();
    assert_eq!(names(&state), ["Check the readme", "Check the readme-2"]);
    let first = row(&state, "Check the readme");
    assert_eq!(first["status"], "working");
    assert_eq!(first["currentTask"], "read the readme");
    assert_eq!(first["role"], "general-purpose");
    assert_eq!(
        row(&state, "Check the readme-2")["currentTask"],
        "read it again"
    );
    // It uses tools, and its turn ends.
    let mut acts = agent("a83b8f43cce04c7f8");
    acts["tool_name"] = json!("TaskUpdate");
    acts["tool_input"] = json!({"taskId": "1", "status": "in_progress"});
    project.hook("PostToolUse", &acts);
    assert_eq!(row(&project.state(), "Check the readme-2")["taskId"], "1");
    let ran = project.hook("SubagentStop", &agent("a72a7e32bbe93b6f7"));
    assert_eq!(
        ran.json()["systemMessage"],
        "Subagent Check the readme stopped (completed)"
    );
    let done = json!({"tool_response": {"status": "completed", "agentId": "a72a7e32bbe93b6f7",
        "resolvedModel": "claude-opus-5-5"}});
    project.hook(
        "PostToolUse",
        &agent_tool(&done, "t1", "Check the readme", "read the readme"),
    );
    let state = project.state();
    assert_eq!(row(&state, "Check the readme")["model"], "opus");
    assert_eq!(row(&state, "Check the readme")["status"], "completed");
    assert_eq!(names(&state).len(), 2, "{state}");
    // This agent was not announced.
    project.hook("SubagentStart", &agent("a94c9f54ddf15d8f9"));
    assert_eq!(
        row(&project.state(), "a94c9f54ddf15d8f9")["status"],
        "spawning"
    );
}

#[test]
fn agent_without_a_team_has_the_name_that_the_lead_gave_it() {
    let project = TestProject::new();
    let mut spawn = agent_tool(&json!({}), "t1", "Parser worker", "you own the parser");
    spawn["tool_input"]["name"] = json!("worker-1");
    spawn["tool_input"]["model"] = json!("haiku");
    project.hook("PreToolUse", &spawn);
    let agent = json!({"session_id": "s1", "prompt_id": "p1", "agent_id": "afbde2726363e2cb6",
        "agent_type": "general-purpose"});
    project.hook("SubagentStart", &agent);
    assert_eq!(row(&project.state(), "worker-1")["status"], "working");
    assert_eq!(row(&project.state(), "worker-1")["model"], "haiku");
    spawn["tool_response"] = json!({"status": "async_launched", "agentId": "afbde2726363e2cb6",
        "resolvedModel": "claude-opus-5-5"});
    project.hook("PostToolUse", &spawn);
    assert_eq!(row(&project.state(), "worker-1")["model"], "opus");
    project.hook("SubagentStop", &agent);
    let state = project.state();
    assert_eq!(names(&state), ["worker-1"]);
    assert_eq!(row(&state, "worker-1")["status"], "completed");
    // An agent that an earlier prompt announced and that never began matches nothing.
    project.hook(
        "PreToolUse",
        &agent_tool(&json!({}), "t2", "Refused", "never begun"),
    );
    let late = json!({"session_id": "s1", "prompt_id": "p2", "agent_id": "b1", "agent_type": "general-purpose"});
    project.hook("SubagentStart", &late);
    assert_eq!(names(&project.state()), ["b1", "worker-1"]);
}

#[test]
fn lead_of_any_name_is_written_as_told() {
    let project = TestProject::new();
    let init = [
        "state-file",
        "init",
        "--team",
        "t",
        "--feature",
        "f",
        "--cto",
        "gpt-5",
    ];
    project.run(init).succeeds();
    assert_eq!(project.state()["ctoAgent"], "gpt-5");
    edit_state(&project, |state| {
        state["ctoAgent"] = json!("claude-opus-4-8[1m]");
    });
    project.run(["state-file", "message", "x"]).succeeds();
    assert_eq!(project.state()["ctoAgent"], "claude-opus-4-8[1m]");
}

#[test]
fn exit_code_in_any_form_decides_answer_row_and_record_alike() {
    for (code, status, recorded) in [
        (json!(1), "failed", 1),
        (json!("1"), "failed", 1),
        (json!(1.0), "failed", 1),
        (json!("-9"), "failed", -9),
        (json!(0), "completed", 0),
        (json!("0"), "completed", 0),
        (json!(0.0), "completed", 0),
        (json!("none"), "completed", 0),
        (json!(0.5), "completed", 0),
        (Value::Null, "completed", 0),
    ] {
        let project = TestProject::new();
        project.native_team("alpha", "s1", &[("w1", "in-process")]);
        let mut w1 = json!({"session_id": "s1", "agent_id": "a", "agent_type": "w1"});
        project.hook("SubagentStart", &w1);
        w1["exit_code"] = code.clone();
        let ran = project.hook("SubagentStop", &w1);
        assert_eq!(ran.json()["hookSpecificOutput"]["status"], status, "{code}");
        assert_eq!(row(&project.state(), "w1")["status"], status, "{code}");
        let alert = &project.alerts()[0];
        assert_eq!(alert["exit_code"], recorded, "{code}");
        assert_eq!(
            alert["type"],
            if recorded == 0 { "normal" } else { "crash" },
            "{code}"
        );
    }
}

#[test]
fn later_stop_of_the_same_turn_agrees_with_the_row() {
    let project = TestProject::new();
    let mut w1 = start("w1");
    project.hook("SubagentStart", &w1);
    project.hook("SubagentStop", &w1);
    w1["exit_code"] = json!(1);
    let ran = project.hook("SubagentStop", &w1);
    assert_eq!(ran.json()["hookSpecificOutput"]["status"], "failed");
    assert_eq!(row(&project.state(), "w1")["status"], "failed");
    w1["exit_code"] = json!(0);
    let ran = project.hook("SubagentStop", &w1);
    assert_eq!(ran.json()["hookSpecificOutput"]["status"], "failed");
    assert_eq!(row(&project.state(), "w1")["status"], "failed");
}

#[test]
fn stop_with_a_session_only_means_the_only_teammate_and_else_nobody() {
    let project = TestProject::new();
    project.native_team("solo", "s1", &[("only", "in-process")]);
    project.hook(
        "SubagentStart",
        &json!({"session_id": "s1", "agent_id": "a", "agent_type": "only"}),
    );
    let ran = project.hook("SubagentStop", &json!({"session_id": "s1", "exit_code": 1}));
    assert_eq!(
        ran.json()["systemMessage"],
        "Subagent only stopped (failed)"
    );
    assert_eq!(row(&project.state(), "only")["status"], "failed");
    assert_eq!(project.alerts()[0]["teammate"], "only");
    assert_eq!(project.alerts()[0]["type"], "crash");
    let several = TestProject::new();
    several.native_team("alpha", "s1", &[("w1", "in-process"), ("w2", "in-process")]);
    several.hook(
        "SubagentStart",
        &json!({"session_id": "s1", "agent_id": "a", "agent_type": "w1"}),
    );
    let before = several.state()["teammates"].clone();
    let ran = several.hook("SubagentStop", &json!({"session_id": "s1", "exit_code": 1}));
    assert_eq!(ran.stdout, "{\"continue\":true}\n", "nobody knows who");
    assert_eq!(several.state()["teammates"], before);
    let alerts = several.alerts();
    assert_eq!(alerts.len(), 1, "{alerts:?}");
    assert_eq!(alerts[0]["teammate"], "unknown");
}

#[test]
fn session_is_told_which_stale_teams_were_moved_and_how_to_restore_them() {
    let project = TestProject::new();
    project.native_team("old-one", "gone", &[]);
    let file = project.claude("teams/old-one/config.json");
    let config = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, config.replace("1794728281220", "1594728281220")).unwrap();
    let long_ago =
        std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_594_728_281);
    for path in [file.as_path(), file.parent().unwrap()] {
        std::fs::File::open(path)
            .unwrap()
            .set_modified(long_ago)
            .unwrap();
    }
    let ran = project.hook(
        "SessionStart",
        &json!({"session_id": "s1", "source": "startup"}),
    );
    assert_eq!(
        ran.json()["hookSpecificOutput"]["additionalContext"],
        "teamster moved the stale team old-one to its trash; `teamster zombies restore old-one` brings it back."
    );
    assert!(!file.exists());
    project.run(["zombies", "restore", "old-one"]).succeeds();
    assert!(file.exists());
}

#[test]
fn idle_teammate_that_only_the_registry_knows_gets_its_row() {
    let project = TestProject::new();
    project.native_team("alpha", "s1", &[("w1", "in-process")]);
    let idle = json!({"session_id": "s1", "teammate_name": "w1", "team_name": "alpha"});
    project.hook("TeammateIdle", &idle);
    let state = project.state();
    let w1 = row(&state, "w1");
    assert_eq!(
        (&w1["status"], &w1["model"]),
        (&json!("idle"), &json!("opus"))
    );
    assert_eq!(state["teamName"], "alpha");
    project.hook(
        "TeammateIdle",
        &json!({"session_id": "s1", "teammate_name": "stranger", "team_name": "alpha"}),
    );
    assert_eq!(names(&project.state()), ["w1"]);
}

#[test]
fn unknown_keys_of_another_program_are_kept() {
    let project = TestProject::new();
    project.hook("SubagentStart", &start("w1"));
    let said = json!({"session_id": "s1", "tool_name": "SendMessage", "agent_name": "w1",
        "tool_input": {"to": "lead", "message": "hello"}});
    project.hook("PostToolUse", &said);
    edit_state(&project, |state| {
        state["foreign"] = json!({"deep": [1, 2]});
        state["teammates"][0]["colour"] = json!("blue");
        state["recentMessages"][0]["id"] = json!(7);
        state["progress"]["skippedTasks"] = json!(3);
    });
    project.hook("SubagentStart", &start("w2"));
    project.hook("SubagentStop", &start("w1"));
    let state = project.state();
    assert_eq!(state["foreign"], json!({"deep": [1, 2]}));
    assert_eq!(state["teammates"][0]["colour"], "blue");
    assert_eq!(state["recentMessages"][0]["id"], 7);
    assert_eq!(state["progress"]["skippedTasks"], 3);
    // The same for a value of an unusable type.
    edit_state(&project, |state| state["version"] = json!(2));
    project.hook("SubagentStart", &start("w3"));
    let state = project.state();
    assert_eq!(state["foreign"], json!({"deep": [1, 2]}));
    assert_eq!(state["teammates"][0]["colour"], "blue");
    assert_eq!(state["progress"]["skippedTasks"], 3);
}

#[test]
fn message_is_kept_up_to_two_thousand_characters() {
    let project = TestProject::new();
    project.hook("SubagentStart", &start("w1"));
    let said = json!({"session_id": "s1", "tool_name": "SendMessage", "agent_name": "w1",
        "tool_input": {"to": "lead", "message": "word ".repeat(500)}});
    project.hook("PostToolUse", &said);
    assert_eq!(contents(&project)[0].chars().count(), 2_000);
}

#[test]
fn message_that_the_client_refused_is_not_shown() {
    let project = TestProject::new();
    project.hook("SubagentStart", &start("w1"));
    let mut said = json!({"session_id": "s1", "tool_name": "SendMessage",
        "tool_input": {"to": "w1", "message": "refused one"},
        "tool_response": {"success": false, "message": "no such teammate"}});
    project.hook("PostToolUse", &said);
    assert!(contents(&project).is_empty());
    said["tool_response"]["success"] = json!(true);
    project.hook("PostToolUse", &said);
    assert_eq!(contents(&project), ["refused one"]);
}

#[test]
fn message_that_another_program_put_into_an_inbox_is_shown_once_by_any_hook() {
    let project = TestProject::new();
    project.native_team("alpha", "s1", &[("w1", "in-process")]);
    let w1 = json!({"session_id": "s1", "agent_id": "a", "agent_type": "w1"});
    project.hook("SubagentStart", &w1);
    let lies = |letters: &Value| {
        project.native_file("teams/alpha/inboxes/w1.json", &letters.to_string());
    };
    let letter = |text: &str| json!({"from": "team-lead", "text": text, "timestamp": now()});
    lies(&json!([letter("from outside"), letter("by tool")]));
    let mut acts = w1.clone();
    acts["tool_name"] = json!("Bash");
    project.hook("PreToolUse", &acts);
    assert_eq!(contents(&project), ["from outside", "by tool"]);
    // The tool's own hook comes after the file and adds nothing; the next message with the same text does.
    let said = json!({"session_id": "s1", "tool_name": "SendMessage",
        "tool_input": {"to": "w1", "message": "by tool"}, "tool_response": {"success": true}});
    project.hook("PostToolUse", &said);
    assert_eq!(contents(&project), ["from outside", "by tool"]);
    project.hook("PostToolUse", &said);
    assert_eq!(contents(&project), ["from outside", "by tool", "by tool"]);
    lies(&json!([]));
    project.hook("PreToolUse", &acts);
    assert_eq!(contents(&project).len(), 3);
}

#[test]
fn open_task_whose_teammate_goes_idle_is_not_counted_as_completed() {
    let project = TestProject::new();
    project.native_team("alpha", "s1", &[("w1", "in-process")]);
    let task = |status: &str| {
        let task = json!({"id": "1", "subject": "A", "description": "", "owner": "w1", "status": status,
            "blocks": [], "blockedBy": []});
        project.native_file("tasks/alpha/1.json", &task.to_string());
    };
    task("in_progress");
    project.hook(
        "SubagentStart",
        &json!({"session_id": "s1", "agent_id": "a", "agent_type": "w1"}),
    );
    assert_eq!(
        project.state()["progress"]["inProgressTasks"],
        1,
        "from the first moment on"
    );
    let done =
        json!({"session_id": "s1", "task_id": "1", "teammate_name": "w1", "team_name": "alpha"});
    project.hook("TaskCompleted", &done);
    let progress = project.state()["progress"].clone();
    assert_eq!(
        (&progress["completedTasks"], &progress["inProgressTasks"]),
        (&json!(0), &json!(1))
    );
    task("completed");
    project.hook("TaskCompleted", &done);
    assert_eq!(project.state()["progress"]["completedTasks"], 1);
}

#[test]
fn progress_is_there_as_soon_as_a_teammate_is_spawned() {
    let project = TestProject::new();
    project.native_team("alpha", "s1", &[("w1", "%1")]);
    let task = json!({"id": "1", "subject": "A", "description": "", "status": "pending", "blocks": [], "blockedBy": []});
    project.native_file("tasks/alpha/1.json", &task.to_string());
    let spawned = json!({"session_id": "s1", "tool_name": "Agent", "tool_input": {"name": "w1", "prompt": "x"},
        "tool_response": {"status": "teammate_spawned", "name": "w1"}});
    project.hook("PostToolUse", &spawned);
    assert_eq!(project.state()["progress"]["totalTasks"], 1);
}

#[test]
fn progress_and_tasks_of_a_native_team_are_right_at_every_look() {
    let project = TestProject::new();
    project.native_team("alpha", "s1", &[("w1", "in-process")]);
    let task = |id: &str, status: &str, owner: &str| {
        let task = json!({"id": id, "subject": format!("Job {id}"), "description": "", "status": status,
            "owner": owner, "blocks": [], "blockedBy": []});
        project.native_file(&format!("tasks/alpha/{id}.json"), &task.to_string());
    };
    task("1", "in_progress", "w1");
    task("2", "pending", "");
    // The numbers of every surface: total, completed, in progress, pending.
    let looks_like = |when: &str, expected: [u64; 4]| {
        let keys = [
            "totalTasks",
            "completedTasks",
            "inProgressTasks",
            "pendingTasks",
        ];
        let numbers = |progress: &Value| keys.map(|key| progress[key].as_u64().unwrap_or(u64::MAX));
        // Before the first teammate begins there are none.
        if project.folder().join(".bkit/agent-state.json").exists() {
            assert_eq!(
                numbers(&project.state()["progress"]),
                expected,
                "the state file {when}"
            );
        }
        for words in [&["status", "--json"][..], &["top", "--once", "--json"]] {
            let shown = project.run(words).succeeds().json();
            let progress = &shown["teams"][0]["progress"];
            assert_eq!(numbers(progress), expected, "{words:?} {when}");
        }
    };
    let w1 = json!({"session_id": "s1", "agent_id": "aw1-ee1e2c6a467abe5d", "agent_type": "w1"});
    let mut spawn = json!({"session_id": "s1", "tool_name": "Agent", "tool_use_id": "t1",
        "tool_input": {"name": "w1", "prompt": "x"}});
    project.hook("PreToolUse", &spawn);
    looks_like("before it is spawned", [2, 0, 1, 1]);
    project.hook("SubagentStart", &w1);
    looks_like("as it begins", [2, 0, 1, 1]);
    spawn["tool_response"] = json!({"status": "teammate_spawned", "name": "w1"});
    project.hook("PostToolUse", &spawn);
    looks_like("after it was spawned", [2, 0, 1, 1]);
    // The client also reports this at idle, for a task in progress.
    let done =
        json!({"session_id": "s1", "task_id": "1", "teammate_name": "w1", "team_name": "alpha"});
    let idle = json!({"session_id": "s1", "teammate_name": "w1", "team_name": "alpha"});
    for _ in 0..2 {
        project.hook("TaskCompleted", &done);
        looks_like("when it is told at idle", [2, 0, 1, 1]);
        project.hook("TeammateIdle", &idle);
        looks_like("when its owner is idle", [2, 0, 1, 1]);
    }
    task("1", "completed", "w1");
    project.hook("TaskCompleted", &done);
    looks_like("when it is done", [2, 1, 0, 1]);
}

#[test]
fn teammates_of_one_base_name_have_their_own_tasks() {
    let project = TestProject::new();
    project.native_team("alpha", "s1", &[]);
    let spawn = |id: &str, prompt: &str, name: &str| {
        let mut payload = json!({"session_id": "s1", "tool_name": "Agent", "tool_use_id": id,
            "tool_input": {"name": "w", "prompt": prompt, "subagent_type": "general-purpose"}});
        project.hook("PreToolUse", &payload);
        payload["tool_response"] = json!({"status": "teammate_spawned", "name": name,
            "teammate_id": format!("{name}@alpha"), "agent_type": "general-purpose"});
        project.hook("PostToolUse", &payload);
    };
    spawn("t1", "first job", "w");
    project.hook(
        "TeammateIdle",
        &json!({"session_id": "s1", "teammate_name": "w", "team_name": "alpha"}),
    );
    spawn("t2", "second job", "w-2");
    let state = project.state();
    assert_eq!(names(&state), ["w", "w-2"]);
    assert_eq!(row(&state, "w")["status"], "idle");
    assert_eq!(row(&state, "w")["currentTask"], Value::Null);
    assert_eq!(row(&state, "w-2")["currentTask"], "second job");
}

fn any_op() -> impl Strategy<Value = Op> {
    let row = TeammateRow {
        name: "w1".to_owned(),
        role: "foreign".to_owned(),
        model: Model::Haiku,
        task: Some("foreign".to_owned()),
        task_id: None,
    };
    let begin = |anew| Begin {
        team: "foreign".to_owned(),
        anew,
        ..Begin::default()
    };
    proptest::sample::select(vec![
        Op::Init(begin(false)),
        Op::Init(begin(true)),
        Op::Ensure(begin(false)),
        Op::Add(row.clone()),
        Op::Start(row.clone()),
        Op::Join(row.clone()),
        Op::StartAgent {
            prompt_id: None,
            row,
        },
        Op::Status {
            name: "w1".to_owned(),
            status: Status::Failed,
            task: None,
            task_id: None,
        },
        Op::Stop {
            name: "w1".to_owned(),
            failed: true,
            reason: None,
        },
        Op::Remove {
            name: "w1".to_owned(),
        },
        Op::Progress(Progress::default()),
        Op::Message {
            from: String::new(),
            to: String::new(),
            content: "foreign".to_owned(),
            timestamp: None,
        },
        Op::Touch,
        Op::CleanUp,
        Op::EndDead { dead: Vec::new() },
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn no_sequence_of_foreign_changes_touches_a_live_session(
        changes in proptest::collection::vec((0..4_usize, any_op()), 1..25),
    ) {
        let project = TestProject::new();
        project.hook("SubagentStart", &start("w1"));
        session_record(&project, "s1", &living());
        edit_state(&project, |state| state["lastUpdated"] = json!(STALE));
        let shown = project.state();
        let states = StateFiles::of(&Layout {
            claude: project.claude(""),
            project: project.folder(),
            user_config: project.home().join("config.toml"),
            project_config: project.folder().join("config.toml"),
        database: None,
});
        for (number, op) in changes {
            let session = ["s2", "s3", "script", ""][number];
            let change = StateChange::new(session, now(), vec![op]);
            // The session without a name cannot have a file beside the shown one, so it is refused.
            let _ = states.apply(change, std::time::Duration::from_secs(5));
            prop_assert_eq!(&project.state(), &shown);
        }
    }
}

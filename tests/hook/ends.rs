//! The end of teammates and sessions: liveness, what is recorded, and what is cleaned up.

use std::time::Duration;

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use serde_json::{Value, json};

use super::{names, row, start};
use crate::kit::TestProject;

/// How often the end of a session is measured, and how many times more CPU it may use among a hundred teams than
/// alone, which is little more than the start of a program.
const TURNS: usize = 9;
const MOST_TIMES: u32 = 6;

#[test]
fn a_stop_while_a_teammate_is_alive_keeps_the_roster() {
    let project = TestProject::new();
    project.hook("SubagentStart", &start("w1"));
    let running = json!({"session_id": "s1", "background_tasks": [{"id": "t", "type": "teammate", "status": "running"}]});
    project.hook("Stop", &running);
    assert_eq!(names(&project.state()), ["w1"]);
    project.native_team("alpha", "s1", &[("w1", "in-process")]);
    project.hook("Stop", &json!({"session_id": "s1", "background_tasks": []}));
    assert_eq!(project.state()["enabled"], true);
    assert_eq!(names(&project.state()), ["w1"]);
    project.native_team("alpha", "s1", &[]);
    project.hook("Stop", &json!({"session_id": "s1", "background_tasks": []}));
    assert_eq!(project.state()["enabled"], false);
}

/// Returns a project whose lead has one teammate in a pane.
fn with_pane() -> TestProject {
    let project = TestProject::new();
    project.native_team("session-9338b893", "9338b893-lead", &[("worker-1", "%1")]);
    let spawned = json!({"session_id": "9338b893-lead", "tool_name": "Agent",
        "tool_input": {"name": "worker-1", "subagent_type": "general-purpose", "prompt": "you own the parser"},
        "tool_response": {"status": "teammate_spawned", "name": "worker-1", "agent_type": "general-purpose",
            "model": "claude-opus-5-5", "tmux_pane_id": "%1"}});
    project.hook("PostToolUse", &spawned);
    project
}

fn from_pane(project: &TestProject, event: &str) {
    let payload = json!({"session_id": "da53d0aa-pane", "agent_type": "general-purpose", "background_tasks": []});
    let call = project.call(["hook", event]).env("TMUX_PANE", "%1");
    call.input(payload.to_string()).run().succeeds();
}

#[test]
fn a_pane_teammate_has_a_row_in_its_leads_state_and_never_cleans_it_up() {
    let project = with_pane();
    let state = project.state();
    let worker = row(&state, "worker-1");
    assert_eq!(worker["status"], "spawning");
    assert_eq!(worker["model"], "opus");
    assert_eq!(worker["currentTask"], "you own the parser");
    assert_eq!(state["teamName"], "session-9338b893");
    from_pane(&project, "SessionStart");
    from_pane(&project, "PreToolUse");
    assert_eq!(row(&project.state(), "worker-1")["status"], "working");
    from_pane(&project, "Stop");
    assert_eq!(project.state()["enabled"], true);
    assert_eq!(row(&project.state(), "worker-1")["status"], "idle");
    from_pane(&project, "SessionEnd");
    let state = project.state();
    assert_eq!(state["sessionId"], "9338b893-lead");
    assert_eq!(row(&state, "worker-1")["status"], "completed");
    assert!(
        !project.bkit("sessions").exists(),
        "its own session has no state"
    );
    assert_eq!(project.alerts()[0]["teammate"], "worker-1");
}

#[test]
fn a_pane_of_another_terminal_server_is_not_taken_for_a_teammate() {
    let project = with_pane();
    let lead = json!({"session_id": "other-lead", "background_tasks": []});
    let call = project.call(["hook", "Stop"]).env("TMUX_PANE", "%1");
    call.input(lead.to_string()).run().succeeds();
    assert_eq!(row(&project.state(), "worker-1")["status"], "spawning");
}

#[test]
fn the_end_of_a_session_costs_little_more_among_a_hundred_teams() {
    let [alone, among_many] = [0, 100].map(|others| {
        let project = TestProject::new();
        for number in 0..others {
            let name = format!("old-{number}");
            project.native_team(&name, &name, &[("w", "in-process")]);
        }
        project.native_team("alpha", "s1", &[("w1", "in-process")]);
        project
    });
    // Alternating, and the minimum of each: a busy machine makes some longer, but none shorter.
    let [mut few, mut many] = [Duration::MAX; 2];
    for _ in 0..TURNS {
        few = few.min(cpu_of_end(&alone));
        many = many.min(cpu_of_end(&among_many));
    }
    println!("the end of a session: {few:?} of CPU alone, {many:?} among a hundred teams");
    assert!(
        many < few * MOST_TIMES,
        "{few:?} alone, {many:?} among many"
    );
}

/// Begins a session with a teammate, ends it, and returns the CPU time of the hook that does so.
fn cpu_of_end(project: &TestProject) -> Duration {
    project.hook("SubagentStart", &start("w1"));
    let payload = json!({"session_id": "s1", "reason": "prompt_input_exit"});
    let call = project.call(["hook", "SessionEnd"]);
    let mut hook = call.input(payload.to_string()).spawn();
    // It has exited and is not reaped yet: only now does the kernel know its total usage.
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(Pid::from_child(&hook)), options).unwrap();
    let used = std::fs::read_to_string(format!("/proc/{}/schedstat", hook.id())).unwrap();
    assert!(hook.wait().unwrap().success());
    assert_eq!(project.state()["enabled"], false);
    assert_eq!(project.state()["teammates"], json!([]));
    let nanoseconds = used.split_whitespace().next().unwrap();
    Duration::from_nanos(nanoseconds.parse().unwrap())
}

#[test]
fn the_end_of_a_teammate_that_is_already_out_of_the_registry_is_recorded() {
    let project = TestProject::new();
    project.native_team("alpha", "s1", &[]);
    let stop = json!({"session_id": "s1", "agent_id": "aworker-1-ee1e2c6a467abe5d", "agent_type": "worker-1"});
    project.hook("SubagentStop", &stop);
    let alerts = project.alerts();
    assert_eq!(alerts.len(), 1);
    assert_eq!(alerts[0]["team"], "alpha");
    assert_eq!(alerts[0]["teammate"], "worker-1");
    // A session that leads no team has no teammates, whatever its agents' ids look like.
    let stop = json!({"session_id": "s9", "agent_id": "aworker-1-ee1e2c6a467abe5d", "agent_type": "worker-1"});
    project.hook("SubagentStop", &stop);
    assert_eq!(project.alerts().len(), 1);
}

#[test]
fn the_end_of_a_teammate_is_recorded_for_exactly_the_one_it_was() {
    let project = TestProject::new();
    project.native_team("alpha", "s1", &[("w1", "in-process"), ("w2", "in-process")]);
    project.native_team("solo", "s2", &[("only", "in-process")]);
    project.native_file("teams/broken/config.json", "{\"leadSessionId\": \"s1\"");
    let stop = |payload: Value| project.hook("SubagentStop", &payload);
    stop(json!({"session_id": "s1", "agent_id": "opaque", "agent_type": "w1"}));
    stop(json!({"session_id": "x", "agent_id": "w2@alpha"}));
    let crash = stop(
        json!({"session_id": "s1", "agent_id": "opaque", "agent_type": "w2", "exit_code": 137}),
    );
    assert_eq!(
        crash.stderr,
        "[ZOMBIE-ALERT] teammate 'w2' in team 'alpha' has exited (code=137)\n"
    );
    stop(json!({"session_id": "s1"}));
    stop(json!({"session_id": "s2"}));
    // None of these is a teammate: a plain subagent, an unknown session, a part of an id, an agent that compaction
    // ends.
    stop(json!({"session_id": "s1", "agent_id": "opaque", "agent_type": "general-purpose"}));
    stop(json!({"session_id": "unknown"}));
    stop(json!({"session_id": "s"}));
    stop(json!({"session_id": "s1", "agent_id": "opaque", "agent_type": ""}));
    stop(json!({"session_id": "zzz", "agent_id": "w1"}));
    let seen: Vec<String> = project
        .alerts()
        .iter()
        .map(|alert| {
            let text = |key: &str| alert[key].as_str().unwrap().to_owned();
            assert!(alert["ts"].as_u64().unwrap() > 1_700_000_000_000);
            format!(
                "{} {} {} {} {}",
                text("team"),
                text("teammate"),
                alert["exit_code"],
                text("type"),
                text("session_id")
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            "alpha w1 0 normal s1",
            "alpha w2 0 normal x",
            "alpha w2 137 crash s1",
            "alpha unknown 0 normal s1",
            "solo only 0 normal s2",
        ]
    );
}

#[test]
fn compaction_ends_nobody() {
    let project = TestProject::new();
    project.hook("SubagentStart", &start("w1"));
    let before = project.state();
    let payload = json!({"session_id": "s1", "agent_id": "acc5ff6330d54d05c", "agent_type": ""});
    let ran = project.hook("SubagentStop", &payload);
    assert_eq!(ran.stdout, "{\"continue\":true}\n");
    assert_eq!(project.state(), before);
}

#[test]
fn a_worker_of_ours_only_journals() {
    let project = TestProject::with_team();
    for event in [
        "SubagentStart",
        "Stop",
        "SessionStart",
        "SessionEnd",
        "UserPromptSubmit",
    ] {
        let call = project
            .call(["hook", event])
            .env("TEAMSTER_WORKER", "worker-1");
        let call = call
            .env("TEAMSTER_TEAM", "fix-auth")
            .input(start("w1").to_string());
        call.run().succeeds();
    }
    assert!(!project.folder().join(".bkit").exists());
    let journal = project
        .run(["journal", "--team", "fix-auth", "--json"])
        .succeeds();
    assert_eq!(
        journal.stdout.matches("hook.received").count(),
        5,
        "{}",
        journal.stdout
    );
    let stranger = project
        .call(["hook", "Stop"])
        .env("TEAMSTER_WORKER", "w")
        .env("TEAMSTER_TEAM", "nobody");
    stranger.input("{}").run().succeeds();
    assert!(
        !project.claude("teams/nobody").exists(),
        "a hook makes no team"
    );
    assert!(!project.claude("tasks/nobody").exists());
}

#[test]
fn a_project_may_turn_the_writing_off() {
    for (file, content) in [
        ("bkit.config.json", "{\"team\": {\"enabled\": false}}"),
        (".teamster/config.toml", "[team]\nenabled = false\n"),
    ] {
        let project = TestProject::new();
        project.write(file, content);
        let ran = project.hook("SubagentStart", &start("w1"));
        assert_eq!(ran.json()["systemMessage"], "Subagent w1 spawned");
        assert!(!project.folder().join(".bkit").exists(), "{file}");
    }
    let project = TestProject::new();
    let call = project
        .call(["hook", "SubagentStart"])
        .env("TEAMSTER_TEAM_ENABLED", "false");
    call.input(start("w1").to_string()).run().succeeds();
    assert!(!project.folder().join(".bkit").exists());
}

#[test]
fn a_pane_is_known_by_its_clients_arguments_even_when_it_was_taken_out() {
    let project = with_pane();
    project.native_team("session-9338b893", "9338b893-lead", &[]);
    // A process with the command line of a client's teammate; it waits until its input ends.
    let line = "exec sh -c 'echo $$; read -r _' claude --agent-id worker-1@session-9338b893 \
        --agent-name worker-1 --team-name session-9338b893 --parent-session-id 9338b893-lead";
    let (reader, writer) = std::io::pipe().unwrap();
    let mut client = project.shell(line).stdin(reader.into()).follow();
    let pid = client.line();
    let payload = json!({"session_id": "da53d0aa-pane", "agent_type": "general-purpose"});
    let call = project.call(["hook", "SessionEnd"]).env("CLAUDE_PID", &pid);
    call.input(payload.to_string()).run().succeeds();
    drop(writer);
    assert_eq!(row(&project.state(), "worker-1")["status"], "completed");
    assert_eq!(project.alerts()[0]["teammate"], "worker-1");
}

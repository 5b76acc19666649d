//! Mistakes that were visible at some moment in sessions of real clients (`cargo xtask real-clients --only native`).

use serde_json::{Value, json};

use super::{names, row};
use crate::kit::{Follower, TestProject, now};

/// A process with the command line of a client's teammate in a pane. It waits until its input ends.
struct Pane<'a> {
    project: &'a TestProject,
    pid: String,
    input: Option<std::io::PipeWriter>,
    process: Option<Follower>,
}

impl<'a> Pane<'a> {
    fn start(project: &'a TestProject, name: &str) -> Self {
        let line = format!(
            "exec sh -c 'echo $$; read -r _' claude --agent-id {name}@alpha --agent-name {name} \
             --team-name alpha --parent-session-id {}",
            project.session()
        );
        let (reader, writer) = std::io::pipe().unwrap();
        let mut process = project.shell(&line).stdin(reader.into()).follow();
        let pid = process.line();
        let pane = Self {
            project,
            pid,
            input: Some(writer),
            process: Some(process),
        };
        pane.hook("SessionStart", &json!({}));
        pane
    }

    /// Calls a hook as this pane's client does.
    fn hook(&self, event: &str, more: &Value) {
        let mut payload = json!({"session_id": "pane", "agent_type": "general-purpose"});
        for (key, value) in more.as_object().unwrap() {
            payload[key] = value.clone();
        }
        let call = self
            .project
            .call(["hook", event])
            .env("CLAUDE_PID", &self.pid);
        call.input(payload.to_string()).run().exits(0);
    }

    fn acts(&self) {
        let tool =
            json!({"tool_name": "SendMessage", "tool_input": {"to": "team-lead", "message": "x"}});
        self.hook("PreToolUse", &tool);
    }

    fn fails(&self) {
        self.hook("StopFailure", &json!({"error": "API Error: 400"}));
    }

    fn end(&mut self) {
        drop(self.input.take());
        drop(self.process.take());
    }
}

/// Calls a hook of the lead that contains nothing about a teammate.
fn lead_acts(project: &TestProject) {
    let payload = json!({"session_id": project.session(), "tool_name": "SendMessage", "tool_input": {"to": "x", "message": "y"},
        "tool_response": {"success": false}});
    project.hook("PostToolUse", &payload);
}

fn task(project: &TestProject, id: &str, status: &str, owner: &str) {
    let task = json!({"id": id, "subject": format!("Job {id}"), "description": "", "status": status,
        "owner": owner, "blocks": [], "blockedBy": []});
    project.native_file(&format!("tasks/alpha/{id}.json"), &task.to_string());
}

fn team() -> TestProject {
    let project = TestProject::new();
    project.native_team("alpha", &project.session(), &[("w1", "%1")]);
    project
}

#[test]
fn team_has_the_name_of_the_registry_whatever_a_call_asks_for() {
    let project = team();
    let spawned = json!({"session_id": project.session(), "tool_name": "Agent",
        "tool_input": {"name": "w1", "prompt": "x", "team_name": "lab"},
        "tool_response": {"status": "teammate_spawned", "name": "w1", "team_name": "alpha"}});
    project.hook("PostToolUse", &spawned);
    assert_eq!(project.state()["teamName"], "alpha");
    // A view finds a team's session by that name.
    let mut pane = Pane::start(&project, "w1");
    pane.acts();
    pane.end();
    let status = project.run(["status", "--json"]).succeeds().json();
    assert_eq!(
        status["teams"][0]["workers"][0]["verdict"], "dead",
        "{status}"
    );
}

#[test]
fn teammate_that_is_killed_is_recorded_once_as_a_crash() {
    let project = team();
    let mut pane = Pane::start(&project, "w1");
    pane.acts();
    lead_acts(&project);
    assert_eq!(project.alerts(), Vec::<Value>::new());
    pane.end();
    for _ in 0..2 {
        lead_acts(&project);
    }
    let alerts = project.alerts();
    assert_eq!(alerts.len(), 1, "{alerts:?}");
    let expected = json!({"ts": alerts[0]["ts"], "team": "alpha", "teammate": "w1", "exit_code": -1,
        "type": "crash", "session_id": project.session()});
    assert_eq!(alerts[0], expected);
}

#[test]
fn teammate_that_nobody_saw_die_is_recorded_when_its_session_is_ended() {
    let project = team();
    let mut pane = Pane::start(&project, "w1");
    pane.acts();
    // The lead is gone too: the next session that begins marks them as ended.
    let gone = crate::kit::gone();
    let record = json!({"pid": gone.pid, "sessionId": project.session(), "procStart": gone.process_start_time.to_string()});
    project.native_file(&format!("sessions/{}.json", gone.pid), &record.to_string());
    pane.end();
    project.hook(
        "SessionStart",
        &json!({"session_id": "s2", "source": "startup"}),
    );
    assert_eq!(project.state()["enabled"], false);
    assert_eq!(project.alerts()[0]["type"], "crash");
}

#[test]
fn teammate_in_a_pane_that_failed_works_again_when_it_acts() {
    let project = team();
    task(&project, "1", "in_progress", "w1");
    let pane = Pane::start(&project, "w1");
    pane.acts();
    let working = |state: &Value| {
        let w1 = row(state, "w1");
        assert_eq!(w1["status"], "working", "{w1}");
        assert_eq!(
            (&w1["taskId"], &w1["currentTask"]),
            (&json!("1"), &json!("Job 1"))
        );
    };
    working(&project.state());
    pane.fails();
    // The client's events at the end of that turn change nothing.
    pane.hook(
        "TeammateIdle",
        &json!({"teammate_name": "w1", "team_name": "alpha"}),
    );
    let failed = project.state();
    assert_eq!(row(&failed, "w1")["status"], "failed");
    assert_eq!(row(&failed, "w1")["currentTask"], "API Error: 400");
    pane.acts();
    working(&project.state());
    // A turn without any tool also ends normally.
    pane.fails();
    pane.hook("Stop", &json!({}));
    assert_eq!(row(&project.state(), "w1")["status"], "idle");
}

#[test]
fn teammate_that_failed_and_is_then_killed_is_dead() {
    let project = team();
    let mut pane = Pane::start(&project, "w1");
    pane.acts();
    pane.fails();
    pane.end();
    for _ in 0..2 {
        let status = project.run(["status", "--json"]).succeeds().json();
        assert_eq!(
            status["teams"][0]["workers"][0]["verdict"], "dead",
            "{status}"
        );
        lead_acts(&project);
    }
    assert_eq!(row(&project.state(), "w1")["status"], "failed");
    assert_eq!(project.alerts().len(), 1);
}

#[test]
fn task_of_another_program_is_counted_at_any_hook() {
    let project = team();
    task(&project, "1", "in_progress", "w1");
    let pane = Pane::start(&project, "w1");
    assert_eq!(project.state()["progress"]["totalTasks"], 1);
    task(&project, "2", "pending", "");
    lead_acts(&project);
    assert_eq!(project.state()["progress"]["totalTasks"], 2);
    task(&project, "3", "pending", "");
    pane.acts();
    assert_eq!(project.state()["progress"]["totalTasks"], 3);
}

#[test]
fn spawned_teammate_keeps_the_task_that_it_has_taken_meanwhile() {
    let project = team();
    task(&project, "1", "in_progress", "w1");
    let pane = Pane::start(&project, "w1");
    pane.acts();
    let spawned = json!({"session_id": project.session(), "tool_name": "Agent", "tool_input": {"name": "w1", "prompt": "begin"},
        "tool_response": {"status": "teammate_spawned", "name": "w1"}});
    project.hook("PostToolUse", &spawned);
    let state = project.state();
    assert_eq!(names(&state), ["w1"]);
    assert_eq!(row(&state, "w1")["currentTask"], "Job 1");
}

#[test]
fn message_of_another_program_that_no_hook_saw_in_the_inbox_is_shown_after_the_turn() {
    let project = team();
    let pane = Pane::start(&project, "w1");
    let message = |from: &str, text: &str| {
        format!(
            "<teammate-message teammate_id=\"{from}\" color=\"blue\">\n{text}\n</teammate-message>"
        )
    };
    let prompt = [
        message("team-lead", "By a member."),
        message("ci", "The build fails."),
        message("ci", r#"{"type":"idle_notification","from":"ci"}"#),
    ];
    let entry = |kind: &str| json!({"type": kind, "timestamp": now(), "message": {"role": "user", "content": prompt.join("\n\n")}});
    // A quotation by an agent is not a delivery, and neither is a partial line.
    let lines = format!("{}\n{}\n{{\"type\":\"us", entry("assistant"), entry("user"));
    project.native_file("projects/here/pane.jsonl", &lines);
    let transcript = json!({"transcript_path": project.claude("projects/here/pane.jsonl")});
    for _ in 0..2 {
        pane.hook("Stop", &transcript);
        let messages = project.state()["recentMessages"].clone();
        let shown = |index: usize, key: &str| messages[index][key].clone();
        assert_eq!(messages.as_array().unwrap().len(), 1, "{messages}");
        let it = [shown(0, "from"), shown(0, "to"), shown(0, "content")];
        assert_eq!(it, ["ci", "w1", "The build fails."]);
    }
    // The client may write it shortly after the end of the turn, and then reports that it is idle.
    let late = lines.replace("The build fails.", "It fails still.");
    pane.hook(
        "Stop",
        &json!({"transcript_path": project.claude("projects/here/late.jsonl")}),
    );
    project.native_file("projects/here/late.jsonl", &late);
    let idle = json!({"teammate_name": "w1", "team_name": "alpha",
        "transcript_path": project.claude("projects/here/late.jsonl")});
    pane.hook("TeammateIdle", &idle);
    assert_eq!(
        project.state()["recentMessages"][1]["content"],
        "It fails still."
    );
    // A transcript outside the client's folder is not opened.
    let outside = project.folder().join("pane.jsonl");
    std::fs::write(
        &outside,
        lines.replace("The build fails.", "From elsewhere."),
    )
    .unwrap();
    pane.hook("Stop", &json!({"transcript_path": outside}));
    assert_eq!(
        project.state()["recentMessages"].as_array().unwrap().len(),
        2
    );
}

#[test]
fn client_that_does_not_tell_its_process_is_found_above_the_hook() {
    let project = team();
    let payload = r#"{"session_id":"pane","agent_type":"general-purpose"}"#;
    let script = format!(
        "sh -c \"echo '{}' | {} hook SessionStart; true\"\necho told\nread -r _\n",
        payload.replace('"', r#"\""#),
        env!("CARGO_BIN_EXE_teamster"),
    );
    std::fs::write(project.folder().join("client"), script).unwrap();
    let line = format!(
        "exec bash -c 'exec -a claude bash client --agent-id w1@alpha --agent-name w1 \
         --team-name alpha --parent-session-id {}'",
        project.session()
    );
    let (reader, writer) = std::io::pipe().unwrap();
    let mut client = project.shell(&line).stdin(reader.into()).follow();
    assert_eq!(client.line(), "told");
    lead_acts(&project);
    assert_eq!(project.alerts(), Vec::<Value>::new());
    drop(writer);
    drop(client);
    lead_acts(&project);
    assert_eq!(row(&project.state(), "w1")["status"], "failed");
    assert_eq!(project.alerts().len(), 1);
}

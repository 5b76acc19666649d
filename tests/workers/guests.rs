//! Workers of teamster in a team of Claude Code, and messages to the teammates of such a team.

use std::path::PathBuf;

use serde_json::{Value, json};
use teamster_types::process::ProcessId;

use super::Crew;
use crate::kit::living;

const TEAM: &str = "session-36fee606";

/// A team of Claude Code with one teammate, beside the team of a [`Crew`].
struct Guests {
    crew: Crew,
}

impl Guests {
    fn new(lead: Option<&ProcessId>) -> Self {
        let guests = Self { crew: Crew::new() };
        let folder = guests.crew.project.folder();
        let mut config = json!({
            "name": TEAM, "createdAt": 1_794_728_921_648_i64, "leadAgentId": format!("team-lead@{TEAM}"),
            "leadSessionId": "36fee606-cef6-41ed-b06f-963acdd7678a", "foreign": {"kept": true},
            "members": [
                {"agentId": format!("team-lead@{TEAM}"), "name": "team-lead", "agentType": "team-lead",
                    "tmuxPaneId": "leader", "cwd": folder, "subscriptions": []},
                {"agentId": format!("worker-1@{TEAM}"), "name": "worker-1", "agentType": "general-purpose",
                    "tmuxPaneId": "in-process", "backendType": "in-process", "cwd": folder, "isActive": true},
            ],
        });
        if let Some(lead) = lead {
            config["leadProcess"] = json!({"pid": lead.pid, "claimedAt": 1,
                "procStart": lead.process_start_time.to_string(),
                "pidSpace": format!("{}#{}", lead.host, lead.pid_ns)});
        }
        guests.put(&format!("teams/{TEAM}/config.json"), &config);
        guests
    }

    fn file(&self, path: &str) -> PathBuf {
        self.crew.project.claude(path)
    }

    fn put(&self, path: &str, content: &Value) {
        let path = self.file(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content.to_string()).unwrap();
    }

    fn task(&self, id: &str, status: &str, owner: Option<&str>) {
        let mut task = json!({"id": id, "subject": format!("part {id}"), "description": "", "status": status,
            "blocks": [], "blockedBy": []});
        if let Some(owner) = owner {
            task["owner"] = json!(owner);
        }
        self.put(&format!("tasks/{TEAM}/{id}.json"), &task);
    }

    fn json(&self, path: &str) -> Value {
        let text = std::fs::read_to_string(self.file(path)).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    fn inbox(&self, name: &str) -> Vec<Value> {
        let inbox = self.json(&format!("teams/{TEAM}/inboxes/{name}.json"));
        inbox.as_array().cloned().unwrap_or_default()
    }

    fn members(&self) -> Vec<String> {
        let config = self.json(&format!("teams/{TEAM}/config.json"));
        let members = config["members"].as_array().unwrap().iter();
        members
            .map(|member| member["name"].as_str().unwrap().to_owned())
            .collect()
    }

    fn start(&self, name: &str, command: &str) {
        let more = ["--team", TEAM];
        self.crew.start_with(name, command, &more, &[]);
    }

    /// Returns every lock folder of the client in the team's folders.
    fn lock_folders(&self) -> Vec<String> {
        let folders = ["teams/{}", "teams/{}/inboxes", "tasks/{}"];
        let folders = folders.iter().map(|folder| folder.replace("{}", TEAM));
        let entries =
            folders.flat_map(|folder| std::fs::read_dir(self.file(&folder)).into_iter().flatten());
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names
            .filter(|name| name.ends_with(".json.lock") || name == ".lock.lock")
            .collect()
    }

    fn run(&self, words: &[&str]) -> crate::kit::Ran {
        self.crew.project.run(words)
    }
}

impl Drop for Guests {
    fn drop(&mut self) {
        let _ = self.run(&["shutdown", "--team", TEAM, "--force", "--json"]);
    }
}

fn texts(inbox: &[Value], from: &str) -> Vec<String> {
    let of_sender = inbox.iter().filter(|letter| letter["from"] == from);
    of_sender
        .map(|letter| letter["text"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn worker_in_a_team_of_claude_code_does_its_tasks_reports_and_leaves_it_clean() {
    let guests = Guests::new(Some(&living()));
    guests.task("1", "pending", None);
    guests.task("2", "in_progress", Some("worker-1"));
    guests.task("3", "pending", Some("worker-1"));
    guests.start("codex-1", "echo it > done.txt; echo did it");
    assert_eq!(guests.members(), ["team-lead", "worker-1", "codex-1"]);
    let task = || guests.json(&format!("tasks/{TEAM}/1.json"));
    guests
        .crew
        .until("task 1 is done", || task()["status"] == "completed");
    assert_eq!(task()["owner"], "codex-1");
    assert_eq!(
        task()["metadata"]["teamster"]["result"]["summary"],
        "did it"
    );
    let reported = || texts(&guests.inbox("team-lead"), "codex-1");
    guests.crew.until("the lead is told", || {
        let is_idle = |text: &String| text.contains("idle_notification");
        reported().iter().any(is_idle)
    });
    assert_eq!(reported()[0], "Task 1 is done. did it");
    for (id, status) in [("2", "in_progress"), ("3", "pending")] {
        let other = guests.json(&format!("tasks/{TEAM}/{id}.json"));
        assert_eq!(
            (&other["status"], &other["owner"]),
            (&json!(status), &json!("worker-1"))
        );
    }
    // The client asks it to shut down like any teammate.
    let request = json!({"type": "shutdown_request", "requestId": "shutdown-1@codex-1", "from": "team-lead",
        "reason": "all done", "timestamp": "2026-11-15T07:38:21.865Z"});
    let now = crate::kit::now();
    let letter = json!([{"from": "team-lead", "text": request.to_string(), "timestamp": now, "type": "message",
        "msg_id": "89ffe610-515a-4630-b9d8-8575f3dbc716", "read": false}]);
    guests.put(&format!("teams/{TEAM}/inboxes/codex-1.json"), &letter);
    guests.crew.until("it has left", || {
        guests.members() == ["team-lead", "worker-1"]
    });
    let approved =
        |text: &String| text.contains("shutdown_approved") && text.contains("shutdown-1@codex-1");
    assert!(reported().iter().any(approved), "{:?}", reported());
    assert!(
        !guests
            .file(&format!("teams/{TEAM}/inboxes/codex-1.json"))
            .exists()
    );
    let config = guests.json(&format!("teams/{TEAM}/config.json"));
    assert_eq!(config["foreign"]["kept"], true);
    // The registry is changed a moment before its lock is released.
    guests
        .crew
        .until("no lock is left", || guests.lock_folders().is_empty());
}

#[test]
fn worker_killed_in_a_team_of_claude_code_is_taken_out_of_it_by_a_reap() {
    let guests = Guests::new(Some(&living()));
    guests.task("1", "pending", None);
    guests.start("codex-1", "touch begun; exec sleep 600");
    let task = || guests.json(&format!("tasks/{TEAM}/1.json"));
    guests
        .crew
        .until("task 1 is begun", || task()["status"] == "in_progress");
    let file = format!(".omc/state/team-bridge/{TEAM}/codex-1.heartbeat.json");
    let file = guests.crew.project.folder().join(file);
    let mut beat: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let launch = beat["launch"].as_str().unwrap().to_owned();
    guests.crew.until("nobody of it is left", || {
        let left = super::carriers("TEAMSTER_LAUNCH", &launch);
        for pid in &left {
            super::kill_9(&json!(pid));
        }
        left.is_empty()
    });
    let then = crate::kit::now().as_millis() - 60_000;
    beat["lastPollAt"] = json!(teamster_types::Time::from_millis(then));
    std::fs::write(&file, beat.to_string()).unwrap();
    assert_eq!(guests.members(), ["team-lead", "worker-1", "codex-1"]);
    let reaped = guests.run(&["zombies", "reap", "--json"]).succeeds().json();
    let of_worker = |zombie: &&Value| zombie["name"] == "codex-1";
    let found = reaped["zombies"].as_array().unwrap().iter().find(of_worker);
    assert_eq!(found.unwrap()["reaped"], true, "{reaped}");
    assert_eq!(guests.members(), ["team-lead", "worker-1"]);
    assert_eq!(
        (&task()["status"], &task()["owner"]),
        (&json!("pending"), &Value::Null)
    );
    assert!(!file.exists());
    assert!(guests.lock_folders().is_empty());
}

#[test]
fn name_of_a_teammate_of_claude_code_is_refused_to_a_worker() {
    let guests = Guests::new(Some(&living()));
    let words = [
        "worker",
        "start",
        "--team",
        TEAM,
        "--name",
        "worker-1",
        "--provider",
        "command:true",
    ];
    let ran = guests.run(&words).fails(4);
    assert!(
        ran.stderr.contains("teammate of Claude Code"),
        "{}",
        ran.stderr
    );
    assert_eq!(guests.members(), ["team-lead", "worker-1"]);
}

#[test]
fn message_in_a_team_of_claude_code_lies_in_the_inbox_that_its_client_reads() {
    let guests = Guests::new(Some(&living()));
    let send = |to: &str, text: &str| {
        guests
            .run(&["message", "send", "--team", TEAM, "--to", to, text])
            .succeeds();
    };
    send("worker-1", "look at task 1");
    let letter = guests.inbox("worker-1")[0].clone();
    assert_eq!(
        letter["from"], "team-lead",
        "a name that the teammate can answer"
    );
    assert_eq!(letter["text"], "look at task 1");
    assert!(letter["timestamp"].is_string(), "{letter}");
    send("lead", "one");
    send("team-lead", "two");
    assert_eq!(texts(&guests.inbox("team-lead"), "user"), ["one", "two"]);
    assert!(!guests.file(&format!("teams/{TEAM}/inbox")).exists());
    assert!(guests.lock_folders().is_empty());
    // In a team of teamster it is an alias of the lead.
    guests
        .run(&[
            "message",
            "send",
            "--team",
            "crew",
            "--to",
            "team-lead",
            "three",
        ])
        .succeeds();
    let mail = guests.run(&[
        "message", "read", "--team", "crew", "--as", "lead", "--json",
    ]);
    assert_eq!(mail.succeeds().json()["messages"][0]["content"], "three");
}

#[test]
fn teammate_of_a_new_client_is_stopped_by_its_lead_who_is_asked_for_it() {
    let guests = Guests::new(Some(&living()));
    let words = ["worker", "stop", "worker-1", "--team", TEAM, "--deadline"];
    let ran = guests
        .run(&[&words[..], &["1s", "--json"]].concat())
        .exits(1);
    assert!(ran.stdout.contains("has not ended it"), "{}", ran.stdout);
    let asked = texts(&guests.inbox("team-lead"), "user");
    assert!(
        asked[0].contains("worker-1") && asked[0].contains("shutdown_request"),
        "{asked:?}"
    );
    assert!(
        guests.inbox("worker-1").is_empty(),
        "it would refuse what its lead has not signed"
    );
    // It is stopped once its client has removed it from the registry.
    let waiting = guests
        .crew
        .project
        .call([&words[..], &["60s", "--json"]].concat())
        .spawn();
    guests.crew.until("it is asked again", || {
        texts(&guests.inbox("team-lead"), "user").len() == 2
    });
    let mut config = guests.json(&format!("teams/{TEAM}/config.json"));
    config["members"].as_array_mut().unwrap().truncate(1);
    guests.put(&format!("teams/{TEAM}/config.json"), &config);
    let output = waiting.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn teammate_of_an_old_client_gets_the_request_of_its_lead_and_is_never_killed() {
    let guests = Guests::new(None);
    let stop = ["worker", "stop", "worker-1", "--team", TEAM];
    let refused = guests.run(&[&stop[..], &["--force"]].concat()).fails(6);
    assert!(
        refused.stderr.contains("teammate of Claude Code"),
        "{}",
        refused.stderr
    );
    assert!(guests.inbox("worker-1").is_empty());
    guests
        .run(&["shutdown", "--team", TEAM, "--deadline", "1s"])
        .exits(1);
    let asked = texts(&guests.inbox("worker-1"), "team-lead");
    let request: Value = serde_json::from_str(&asked[0]).unwrap();
    assert_eq!(request["type"], "shutdown_request");
    assert_eq!(request["from"], "team-lead");
    assert!(
        request["requestId"]
            .as_str()
            .unwrap()
            .ends_with("@worker-1"),
        "{request}"
    );
}

//! Sessions, tickets and findings in `.party`.

use serde_json::{Value, json};

use super::is_moment;
use crate::kit::TestProject;

fn begun() -> TestProject {
    let project = TestProject::new();
    let members = r#"[{"name":"leader","agent":"leader-agent","role":"orchestrator"},{"name":"ann","spawned":true,"model":"opus"}]"#;
    let init = [
        "session",
        "init",
        "--team",
        "crew",
        "--task",
        "Fix it",
        "--members",
        members,
    ];
    project.run(init).succeeds();
    project
}

fn session(project: &TestProject) -> Value {
    let file = project.folder().join(".party/session.json");
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

#[test]
fn a_session_file_has_its_steps_and_its_members() {
    let project = begun();
    let new = session(&project);
    let id = new["id"].as_str().unwrap();
    let time = id.strip_prefix("party-crew-").unwrap();
    assert_eq!(time.len(), "20260207120000-abcd".len(), "{id}");
    assert_eq!(
        (&new["team"], &new["task"]),
        (&json!("crew"), &json!("Fix it"))
    );
    assert_eq!(new["phase"], "IDLE");
    assert_eq!(new["phase_history"], json!([]));
    assert_eq!(new["fix_loop"], json!({ "attempt": 0, "max_attempts": 3 }));
    assert_eq!(new["artifacts"], json!([]));
    assert_eq!(
        new["members"],
        json!([
            { "name": "leader", "agent": "leader-agent", "role": "orchestrator", "spawned": false },
            { "name": "ann", "spawned": true, "model": "opus", "agent": "", "role": "" },
        ])
    );
    is_moment(&new["created_at"]);
    assert_eq!(new["updated_at"], new["created_at"]);
    project
        .run(["state", "transition", "ANALYZING", "to begin with"])
        .succeeds();
    let later = session(&project);
    let step = &later["phase_history"][0];
    assert_eq!(step["from"], "IDLE");
    assert_eq!(step["to"], "ANALYZING");
    assert_eq!(step["reason"], "to begin with");
    is_moment(&step["at"]);
    assert_eq!(later["updated_at"], step["at"]);
}

#[test]
fn a_session_of_an_older_version_goes_on() {
    let project = begun();
    let mut old = session(&project);
    old.as_object_mut().unwrap().remove("updated_at");
    old["phase"] = json!("AWAITING_APPROVAL");
    let revision =
        json!({ "phase": "REVISION", "entered_at": "2026-01-02T00:00:00.000Z", "reason": "r" });
    let idle =
        json!({ "phase": "IDLE", "entered_at": "2026-01-01T00:00:00.000Z", "reason": "begun" });
    old["phase_history"] = json!([idle, revision, revision, revision]);
    project.write(".party/session.json", &old.to_string());
    // Its three revisions still count: a fourth fails the session.
    let step = project.run(["state", "transition", "REVISION", "more", "--json"]);
    assert_eq!(step.succeeds().json()["to"], "FAILED");
    let now = session(&project);
    let history = now["phase_history"].as_array().unwrap();
    assert_eq!(history.len(), 4);
    assert_eq!(history[0]["from"], "IDLE");
    assert_eq!(history[3]["to"], "FAILED");
    is_moment(&now["updated_at"]);
}

#[test]
fn status_says_whether_there_is_a_session() {
    let project = TestProject::new();
    let json = |args: [&str; 2]| {
        let args = args.iter().chain(&["--json"]);
        project.run(args).succeeds().json()
    };
    assert_eq!(json(["session", "status"]), json!({ "exists": false }));
    assert_eq!(
        json(["state", "status"]),
        json!({ "phase": "NONE", "active": false })
    );
    assert!(!project.folder().join(".party").exists());
    let project = begun();
    let json = |args: [&str; 2]| {
        let args = args.iter().chain(&["--json"]);
        project.run(args).succeeds().json()
    };
    project
        .run(["state", "transition", "PLANNING", "it is clear"])
        .succeeds();
    let status = json(["session", "status"]);
    let file = session(&project);
    assert_eq!(status["exists"], true);
    for key in ["id", "team", "phase", "created_at"] {
        assert_eq!(status[key], file[key], "{key}");
    }
    assert_eq!(status["members_count"], 2);
    let status = json(["state", "status"]);
    assert_eq!(status["phase"], "PLANNING");
    assert_eq!(status["active"], true);
}

#[test]
fn a_ticket_file_has_a_description_and_its_times() {
    let project = begun();
    let create = [
        "ticket",
        "create",
        "--title",
        "Test it",
        "--description",
        "With an empty password, too",
        "--assignee",
        "ann",
        "--json",
    ];
    let made = project.run(create).succeeds().json();
    let file = project.folder().join(".party/tickets/TICKET-001.json");
    let read = || -> Value { serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap() };
    assert_eq!(made["ticket"], read());
    let ticket = read();
    assert_eq!(ticket["id"], "TICKET-001");
    assert_eq!(ticket["title"], "Test it");
    assert_eq!(ticket["description"], "With an empty password, too");
    assert_eq!(ticket["assignee"], "ann");
    assert_eq!(ticket["status"], "TODO");
    is_moment(&ticket["created_at"]);
    assert_eq!(ticket["updated_at"], ticket["created_at"]);
    for status in ["BLOCKED", "TODO", "IN_PROGRESS", "DONE"] {
        let update = ["ticket", "update", "TICKET-001", "--status", status];
        project.run(update).succeeds();
        assert_eq!(read()["status"], status);
    }
    assert_eq!(read()["created_at"], ticket["created_at"]);
    assert_ne!(read()["updated_at"], ticket["updated_at"]);
    // A ticket without a description, as older versions wrote it.
    let mut old = read();
    old.as_object_mut().unwrap().remove("description");
    std::fs::write(&file, old.to_string()).unwrap();
    let list = project.run(["ticket", "list", "--json"]).succeeds().json();
    assert_eq!(list["tickets"][0]["description"], "");
}

#[test]
fn a_finding_says_of_which_phase_it_is_and_who_wrote_it_when() {
    let project = begun();
    project.write("note.md", "# Found\n\nIt was the cache.\n");
    let add = project.run(["finding", "add", "ANALYZING", "note.md", "--json"]);
    assert_eq!(add.succeeds().json()["file"], "analyzing-001.md");
    let by_ann = project.call(["finding", "add", "analyzing", "note.md"]);
    by_ann.env("TEAMSTER_WORKER", "ann").run().succeeds();
    for (name, author) in [("analyzing-001.md", "user"), ("analyzing-002.md", "ann")] {
        let file = project.folder().join(".party/findings").join(name);
        let text = std::fs::read_to_string(file).unwrap();
        let (front, body) = text
            .strip_prefix("---\n")
            .and_then(|rest| rest.split_once("---\n"))
            .unwrap();
        let keys: Vec<(&str, &str)> = front
            .lines()
            .map(|line| line.split_once(": ").unwrap())
            .collect();
        assert_eq!(keys[0], ("phase", "analyzing"));
        assert_eq!(keys[1], ("author", author));
        assert_eq!(keys[2].0, "created_at");
        is_moment(&json!(keys[2].1));
        assert_eq!(body.trim(), "# Found\n\nIt was the cache.");
    }
}

#[test]
fn the_gate_of_a_phase_takes_any_finding_of_its_name_that_is_not_empty() {
    for (name, text, opens) in [
        ("analyzing.md", "found", true),
        ("analyzing-by-hand.md", "found", true),
        (
            "analyzing-001.md",
            "---\nphase: analyzing\n---\nfound",
            true,
        ),
        ("analyzing-001.md", "---\nphase: analyzing\n---\n\n", false),
        ("analyzing-001.md", " \n", false),
        ("planning-001.md", "found", false),
        ("analyzing.txt", "found", false),
    ] {
        let project = begun();
        project
            .run(["state", "transition", "ANALYZING", "go"])
            .succeeds();
        project.write(&format!(".party/findings/{name}"), text);
        let step = project.run(["state", "transition", "PLANNING", "found it"]);
        assert_eq!(
            step.code,
            Some(if opens { 0 } else { 4 }),
            "{name} {text:?}"
        );
    }
}

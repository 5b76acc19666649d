//! Sessions with an approval gate.

use serde_json::{Value, json};

use crate::kit::{Ran, TestProject};

/// All phases, and those that may follow each, as specified.
const LEGAL: [(&str, &[&str]); 14] = [
    ("IDLE", &["ANALYZING", "PLANNING"]),
    ("ANALYZING", &["PLANNING", "CANCELLED"]),
    ("PLANNING", &["EXECUTING", "CANCELLED"]),
    ("EXECUTING", &["REVIEWING", "CANCELLED"]),
    (
        "REVIEWING",
        &["AWAITING_APPROVAL", "EXECUTING", "CANCELLED"],
    ),
    (
        "AWAITING_APPROVAL",
        &["APPROVED", "REJECTED", "REVISION", "CANCELLED"],
    ),
    (
        "REVISION",
        &["ANALYZING", "PLANNING", "EXECUTING", "CANCELLED"],
    ),
    ("APPROVED", &["DONE", "CANCELLED"]),
    ("REJECTED", &["DONE", "ROLLED_BACK", "CANCELLED"]),
    ("CANCELLED", &["IDLE"]),
    ("DONE", &[]),
    ("ROLLED_BACK", &[]),
    ("FAILED", &[]),
    // A requested phase that does not exist.
    ("NOWHERE", &[]),
];

fn begun() -> TestProject {
    let project = TestProject::new();
    init(&project, &[]).succeeds();
    project
}

fn init(project: &TestProject, more: &[&str]) -> Ran {
    let args = [
        "session", "init", "--team", "crew", "--task", "Fix it", "--json",
    ];
    project.run(args.iter().chain(more))
}

fn step(project: &TestProject, to: &str) -> Ran {
    project.run(["state", "transition", to, "a reason", "--json"])
}

fn session(project: &TestProject) -> Value {
    let text = std::fs::read_to_string(project.folder().join(".party/session.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Puts the session into a phase, bypassing the transitions.
fn put(project: &TestProject, phase: &str, change: impl FnOnce(&mut Value)) {
    let mut now = session(project);
    now["phase"] = phase.into();
    now["fix_loop"]["attempt"] = 0.into();
    now["phase_history"] = json!([]);
    change(&mut now);
    project.write(".party/session.json", &now.to_string());
}

fn add_findings(project: &TestProject) {
    for phase in ["analyzing", "planning", "executing", "reviewing"] {
        project.write("note.md", "found");
        project.run(["finding", "add", phase, "note.md"]).succeeds();
    }
}

#[test]
fn exactly_the_legal_steps_can_be_taken() {
    let project = begun();
    add_findings(&project);
    for (from, legal) in LEGAL.iter().filter(|(from, _)| *from != "NOWHERE") {
        for (to, _) in LEGAL {
            put(&project, from, |_| {});
            let before = session(&project);
            let ran = step(&project, to);
            if legal.contains(&to) {
                ran.succeeds();
                assert_eq!(session(&project)["phase"], to, "{from} → {to}");
            } else {
                let error = ran.fails(4).error();
                assert_eq!(session(&project), before, "{from} → {to} changed something");
                let said = format!("{}{}", error["message"], error["hint"]);
                for state in legal.iter().filter(|_| to != "NOWHERE") {
                    assert!(said.contains(state), "{from} → {to}: {said}");
                }
            }
        }
    }
}

#[test]
fn a_phase_is_left_only_with_its_finding_and_its_tickets_done() {
    let project = begun();
    step(&project, "ANALYZING").succeeds();
    assert!(
        step(&project, "PLANNING")
            .fails(4)
            .stderr
            .contains("finding of analyzing")
    );
    project.write("empty.md", "  \n");
    project
        .run(["finding", "add", "analyzing", "empty.md"])
        .fails(6);
    project.write(".party/findings/analyzing-by-hand.md", "\n");
    step(&project, "PLANNING").fails(4);
    add_findings(&project);
    step(&project, "PLANNING").succeeds();
    step(&project, "EXECUTING").succeeds();
    let ticket = project
        .run(["ticket", "create", "--title", "Do it"])
        .succeeds();
    assert_eq!(ticket.stdout.trim(), "TICKET-001");
    assert!(
        step(&project, "REVIEWING")
            .fails(4)
            .stderr
            .contains("TICKET-001")
    );
    project
        .run(["ticket", "update", "TICKET-001", "--status", "nearly"])
        .fails(6);
    project
        .run(["ticket", "update", "TICKET-007", "--status", "DONE"])
        .fails(3);
    project
        .run(["ticket", "update", "ticket-001", "--status", "done"])
        .succeeds();
    step(&project, "REVIEWING").succeeds();
    let history = session(&project)["phase_history"].as_array().unwrap().len();
    assert_eq!(history, 4);
    project
        .run(["finding", "add", "dreaming", "note.md"])
        .fails(6);
}

#[test]
fn the_fourth_round_of_fixing_or_revising_fails_the_session() {
    let project = begun();
    add_findings(&project);
    put(&project, "REVIEWING", |_| {});
    for round in 1..=3 {
        step(&project, "EXECUTING").succeeds();
        assert_eq!(session(&project)["fix_loop"]["attempt"], round);
        step(&project, "REVIEWING").succeeds();
    }
    let fourth = step(&project, "EXECUTING").succeeds().json();
    assert_eq!(fourth["to"], "FAILED");
    put(&project, "AWAITING_APPROVAL", |_| {});
    for _ in 1..=3 {
        step(&project, "REVISION").succeeds();
        step(&project, "EXECUTING").succeeds();
        step(&project, "REVIEWING").succeeds();
        step(&project, "AWAITING_APPROVAL").succeeds();
    }
    assert_eq!(step(&project, "REVISION").succeeds().json()["to"], "FAILED");
    step(&project, "IDLE").fails(4);
}

#[test]
fn a_session_under_way_is_put_aside_only_by_force_and_ids_never_meet() {
    let project = begun();
    project.run(["state", "check-lock"]).succeeds();
    let first = session(&project)["id"].as_str().unwrap().to_owned();
    assert!(first.starts_with("party-crew-"), "{first}");
    add_findings(&project);
    step(&project, "ANALYZING").succeeds();
    project.run(["state", "check-lock"]).fails(1);
    let refused = init(&project, &[]).fails(4);
    assert!(refused.stderr.contains(&first), "{}", refused.stderr);
    let mut ids = vec![first.clone()];
    for _ in 0..20 {
        let next = init(&project, &["--force"]).succeeds().json();
        ids.push(next["session"]["id"].as_str().unwrap().to_owned());
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 21);
    let kept = project.folder().join(".party/archive").join(first);
    assert!(kept.join("session.json").exists() && kept.join("findings/analyzing-001.md").exists());
    assert!(
        !project
            .folder()
            .join(".party/findings/analyzing-001.md")
            .exists()
    );
}

#[test]
fn of_many_who_take_one_step_one_does() {
    let project = begun();
    let children: Vec<_> = (0..8)
        .map(|_| {
            project
                .call(["state", "transition", "ANALYZING", "me"])
                .spawn()
        })
        .collect();
    let codes: Vec<Option<i32>> = children
        .into_iter()
        .map(|mut child| child.wait().unwrap().code())
        .collect();
    let won = codes.iter().filter(|code| **code == Some(0)).count();
    assert_eq!(won, 1, "{codes:?}");
    assert_eq!(
        codes.iter().filter(|code| **code == Some(4)).count(),
        7,
        "{codes:?}"
    );
    assert_eq!(
        session(&project)["phase_history"].as_array().unwrap().len(),
        1
    );
}

#[test]
fn a_worker_decides_nothing_at_the_gate() {
    let project = begun();
    for decision in ["APPROVED", "REJECTED", "REVISION", "approved"] {
        put(&project, "AWAITING_APPROVAL", |_| {});
        let call = project.call(["state", "transition", decision, "I say so"]);
        call.env("TEAMSTER_WORKER", "ann").run().fails(6);
        assert_eq!(session(&project)["phase"], "AWAITING_APPROVAL");
    }
    let call = project.call(["session", "init", "--team", "t", "--task", "x", "--force"]);
    call.env("TEAMSTER_WORKER", "ann").run().fails(6);
}

#[test]
fn what_is_damaged_or_planted_is_named_and_left_alone() {
    let project = begun();
    project.write(".party/session.json", "{ torn");
    let status = project.run(["session", "status"]).fails(1);
    assert!(status.stderr.contains("session.json"), "{}", status.stderr);
    init(&project, &[]).fails(1);
    init(&project, &["--force"]).succeeds();
    let other = TestProject::new();
    let target = other.home().join("target");
    std::fs::create_dir(&target).unwrap();
    std::os::unix::fs::symlink(&target, other.folder().join(".party")).unwrap();
    init(&other, &[]).fails(6);
    assert_eq!(std::fs::read_dir(target).unwrap().count(), 0);
    let empty = TestProject::new();
    empty.run(["ticket", "list"]).fails(3);
    for name in ["../x", "", "a/b"] {
        let args = ["session", "init", "--team", name, "--task", "x"];
        empty.run(args).fails(6);
    }
    assert!(!empty.folder().join(".party").exists());
    let members = |text: &str| {
        let args = [
            "session",
            "init",
            "--team",
            "t",
            "--task",
            "x",
            "--members",
            text,
        ];
        empty.run(args)
    };
    members("nonsense").fails(2);
    members("[{}]").fails(6);
    members(r#"[{"name":"a"},{"name":"a"}]"#).fails(6);
    members(r#"[{"name":"a","role":"lead"}]"#).succeeds();
}

/// Returns all records of decisions, by name.
fn approvals(project: &TestProject) -> Vec<Value> {
    let folder = project.folder().join(".party/approvals");
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    names.sort();
    let read = |path| serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    names.into_iter().map(read).collect()
}

#[test]
fn session_of_a_person_is_decided_on_by_either_command_with_one_record() {
    for (args, transition, phase, decision) in [
        (vec!["approve"], "APPROVED", "APPROVED", "approved"),
        (
            vec!["reject", "too slow"],
            "REJECTED",
            "REJECTED",
            "rejected",
        ),
        (
            vec!["revise", "name it total"],
            "REVISION",
            "REVISION",
            "revision",
        ),
        (vec!["reject", "--rollback"], "", "ROLLED_BACK", "rejected"),
    ] {
        let project = begun();
        let id = session(&project)["id"].clone();
        put(&project, "REVIEWING", |_| {});
        project.run(&args).fails(3);
        put(&project, "AWAITING_APPROVAL", |_| {});
        let call = project.call(&args).env("TEAMSTER_WORKER", "ann");
        call.run().fails(6);
        project.run(&args).exits(0);
        assert_eq!(session(&project)["phase"], phase, "{args:?}");
        let made = approvals(&project);
        assert_eq!(made.len(), 1, "{args:?}");
        assert_eq!(made[0]["decision"], decision);
        assert_eq!(made[0]["session_id"], id);
        if transition.is_empty() {
            continue;
        }
        put(&project, "AWAITING_APPROVAL", |_| {});
        step(&project, transition).succeeds();
        let made = approvals(&project);
        assert_eq!(made.len(), 2, "{transition}");
        assert_eq!(made[1]["decision"], decision);
        assert_eq!(made[1]["reason"], "a reason");
        assert_eq!(made[1]["session_id"], id);
    }
}

#[test]
fn refused_step_says_what_is_missing_and_which_command_adds_it() {
    let project = begun();
    step(&project, "ANALYZING").succeeds();
    let error = step(&project, "PLANNING").fails(4).error();
    let hint = error["hint"].as_str().unwrap();
    assert!(
        hint.contains("`teamster finding add analyzing FILE`"),
        "{error}"
    );
    assert!(!hint.contains("PLANNING"), "{error}");
    assert!(hint.contains("CANCELLED"), "{error}");
    add_findings(&project);
    step(&project, "PLANNING").succeeds();
    step(&project, "EXECUTING").succeeds();
    project
        .run(["ticket", "create", "--title", "Do it"])
        .succeeds();
    let error = step(&project, "REVIEWING").fails(4).error();
    let hint = error["hint"].as_str().unwrap();
    assert!(
        hint.contains("`teamster ticket update TICKET-001 --status DONE`"),
        "{error}"
    );
    assert!(!hint.contains("REVIEWING"), "{error}");
}

use super::*;
use teamster_journal::payload::Severity;
use teamster_types::Time;

fn member(name: &str) -> Member {
    Member {
        name: name.parse().unwrap(),
        provider: "claude".to_owned(),
        role: None,
        model: None,
        capabilities: None,
        can: vec!["code-edit".to_owned()],
        prompt: String::new(),
    }
}

fn task(number: u64, status: &str, blocked_by: &[u64]) -> Task {
    let id = TaskId::from_number(number);
    let new = NewTask {
        subject: format!("task {number}"),
        blocked_by: blocked_by
            .iter()
            .copied()
            .map(TaskId::from_number)
            .collect(),
        ..NewTask::default()
    };
    let made = Task::new(id.clone(), &new, Time::from_millis(0));
    let mut raw = made.as_object().clone();
    raw.insert("status".into(), json!(status));
    Task::from_object(&id, raw).unwrap()
}

struct Team {
    tasks: Vec<Task>,
    members: Vec<Member>,
    questions: Vec<OpenQuestion>,
    findings: Vec<OpenFinding>,
}

impl Team {
    fn new() -> Self {
        Self {
            tasks: vec![
                task(1, "completed", &[]),
                task(2, "in_progress", &[]),
                task(3, "pending", &[1]),
                task(4, "pending", &[3]),
            ],
            members: vec![member("ann"), member("ben")],
            questions: vec![
                OpenQuestion {
                    id: "q7".to_owned(),
                    blocks: None,
                },
                OpenQuestion {
                    id: "q9".to_owned(),
                    blocks: Some(TaskId::from_number(4)),
                },
            ],
            findings: Vec::new(),
        }
    }

    /// The same team after a review that found a blocker, a major and a nit.
    fn reviewed() -> Self {
        let findings = [("f1", true), ("f2", true), ("f3", false)];
        let findings = findings.map(|(id, needs_fix)| OpenFinding {
            id: id.to_owned(),
            needs_fix,
        });
        Self {
            findings: findings.to_vec(),
            ..Self::new()
        }
    }

    fn read(&self, actions: &Value) -> Result<LeaderActions, Vec<String>> {
        self.read_text(&json!({ "actions": actions }).to_string())
    }

    fn read_text(&self, said: &str) -> Result<LeaderActions, Vec<String>> {
        LeaderActions::read(
            said,
            &TeamFacts {
                tasks: &self.tasks,
                members: &self.members,
                questions: &self.questions,
                findings: &self.findings,
                most_new: 3,
            },
        )
    }
}

fn id(number: u64) -> TaskId {
    TaskId::from_number(number)
}

#[test]
fn every_action_is_understood() {
    let found = Team::new()
        .read(&json!([
            {"action": "create_task", "id": "a", "subject": "New", "blockedBy": ["b", "1"], "accept": ["It works."],
             "owner": "ben", "paths": ["src/**"]},
            {"action": "create_task", "id": "b", "subject": "Before it", "capabilities": ["code-edit"]},
            {"action": "update_task", "task": "2", "description": "Mind the tests."},
            {"action": "cancel_task", "task": "3", "reason": "not needed"},
            {"action": "assign", "task": "4", "owner": "ann"},
            {"action": "answer", "question": "q7", "text": "Use the second way."},
            {"action": "answer", "question": "q9", "text": "It is in docs/."},
            {"action": "message", "to": "all", "text": "The API is frozen."},
            {"action": "finding", "severity": "minor", "path": "src/a.rs", "line": 3, "claim": "No test."},
            {"action": "note", "text": "Watch the budget."},
        ]))
        .unwrap();
    assert_eq!(found.count, 10);
    let create = &found.changes.create;
    assert_eq!(create[0].after, [1]);
    assert_eq!(create[0].task.blocked_by, [id(1)]);
    assert_eq!(create[0].task.notes.accept, ["It works."]);
    assert_eq!(create[0].task.owner, Some("ben".parse().unwrap()));
    assert_eq!(found.changes.remove, [id(3)]);
    assert_eq!(found.cancelled, [(id(3), "not needed".to_owned())]);
    assert_eq!(found.changes.update.len(), 2);
    assert_eq!(
        found.replies[0],
        (
            "q7".to_owned(),
            LeaderReply::Answer("Use the second way.".to_owned())
        )
    );
    assert_eq!(
        found.changes.unblock,
        [(id(4), "It is in docs/.".to_owned())]
    );
    assert_eq!(found.changes.send[0].to, Recipient::All);
    assert_eq!(found.changes.send[0].from, "lead");
    assert_eq!(found.findings[0].severity, Severity::Minor);
    assert_eq!(found.notes, ["Watch the budget."]);
}

#[test]
fn split_task_hands_its_blockers_to_its_parts() {
    let found = Team::new()
        .read(&json!([{"action": "split_task", "task": "3", "into": [
            {"id": "x", "subject": "One half"},
            {"subject": "Other half", "blockedBy": ["x"]},
        ]}]))
        .unwrap();
    assert_eq!(found.changes.split, [(id(3), vec![0, 1])]);
    assert_eq!(found.changes.create[0].task.blocked_by, [id(1)]);
    assert_eq!(found.changes.create[1].task.blocked_by, [id(1)]);
    assert_eq!(found.changes.create[1].after, [0]);
}

#[test]
fn question_may_be_passed_on_to_the_person() {
    let found = Team::new()
        .read(&json!([{"action": "answer", "question": "q9", "askPerson": true, "text": "I cannot know."}]))
        .unwrap();
    assert!(found.changes.unblock.is_empty());
    assert_eq!(
        found.replies,
        [(
            "q9".to_owned(),
            LeaderReply::AskPerson("I cannot know.".to_owned())
        )]
    );
}

#[test]
fn one_wrong_action_refuses_all_and_is_named_by_its_number() {
    let good = json!({"action": "note", "text": "fine"});
    for (bad, why) in [
        (json!({"action": "approve"}), "unknown variant `approve`"),
        (
            json!({"action": "create_task", "subject": " "}),
            "the subject is empty",
        ),
        (
            json!({"action": "create_task", "subject": "x", "verify": ["rm -rf ."]}),
            "unknown field `verify`",
        ),
        (
            json!({"action": "create_task", "subject": "x", "owner": "eve"}),
            "\"eve\" is not in the team; there are ann, ben",
        ),
        (
            json!({"action": "create_task", "subject": "x", "blockedBy": ["99"]}),
            "neither a task nor an id",
        ),
        (
            json!({"action": "create_task", "id": "a", "subject": "x", "blockedBy": ["a"]}),
            "have a cycle",
        ),
        (
            json!({"action": "create_task", "subject": "x", "capabilities": ["juggling"]}),
            "no member of the team can do any of juggling",
        ),
        (
            json!({"action": "create_task", "id": "2", "subject": "x"}),
            "that of a task that exists",
        ),
        (
            json!({"action": "create_task", "subject": "x", "paths": ["../etc/**"]}),
            "action 2",
        ),
        (
            json!({"action": "update_task", "task": "1", "subject": "x"}),
            "task 1 is completed and stays as it is",
        ),
        (
            json!({"action": "update_task", "task": "3", "blockedBy": ["4"]}),
            "that would be a cycle: 3 waits for 4 waits for 3",
        ),
        (
            json!({"action": "cancel_task", "task": "2", "reason": "no"}),
            "task 2 is in progress, so it cannot be cancelled",
        ),
        (
            json!({"action": "cancel_task", "task": "1", "reason": "no"}),
            "task 1 is completed, so it cannot be cancelled",
        ),
        (
            json!({"action": "cancel_task", "task": "3", "reason": ""}),
            "a reason is needed",
        ),
        (
            json!({"action": "split_task", "task": "3", "into": [{"subject": "x"}]}),
            "at least two",
        ),
        (
            json!({"action": "assign", "task": "4", "owner": "lead"}),
            "\"lead\" is not in the team",
        ),
        (
            json!({"action": "answer", "question": "q1", "text": "yes"}),
            "no open question \"q1\"",
        ),
        (
            json!({"action": "answer", "question": "q7", "text": ""}),
            "the answer to q7 is empty",
        ),
        (
            json!({"action": "message", "to": "user", "text": "approve this"}),
            "\"user\" is not in the team",
        ),
    ] {
        let faults = Team::new().read(&json!([good, bad])).unwrap_err();
        let text = faults.join("; ");
        assert!(text.contains(why), "{bad}: {text}");
        assert!(
            text.starts_with("action 2: ") || text.starts_with("the new tasks"),
            "{text}"
        );
    }
}

#[test]
fn no_more_tasks_are_added_than_the_run_allows() {
    let one = json!({"action": "create_task", "subject": "x"});
    let four = json!([one, one, one, one]);
    let faults = Team::new().read(&four).unwrap_err();
    assert_eq!(
        faults,
        ["action 4: no more than 3 tasks may be added to this run"]
    );
    let many: Vec<Value> = vec![json!({"action": "note", "text": "x"}); 51];
    let faults = Team::new().read(&json!(many)).unwrap_err();
    assert_eq!(faults, ["there are 51 actions; the limit is 50"]);
}

#[test]
fn two_actions_about_one_task_are_refused() {
    let faults = Team::new()
        .read(&json!([
            {"action": "cancel_task", "task": "3", "reason": "no"},
            {"action": "assign", "task": "3", "owner": "ann"},
        ]))
        .unwrap_err();
    assert_eq!(faults, ["action 2: another action changes task 3 already"]);
}

#[test]
fn list_is_found_among_words_and_nonsense_is_told_as_such() {
    let team = Team::new();
    let said = "I thought about {this}.\n```json\n{\"actions\": []}\n```\n";
    assert_eq!(team.read_text(said).unwrap(), LeaderActions::default());
    for (said, why) in [
        ("", "no JSON object"),
        ("no idea", "no JSON object"),
        ("{\"actions\": 3}", "`actions` is not a list"),
        ("{\"actions\": [}", "the JSON cannot be read"),
        ("{\"plan\": []}", "`actions` is not a list"),
    ] {
        let faults = team.read_text(said).unwrap_err().join("; ");
        assert!(faults.contains(why), "{said}: {faults}");
    }
}

#[test]
fn every_finding_that_needs_a_fix_is_settled_or_left_with_a_reason() {
    let team = Team::reviewed();
    let task = |findings: &[&str]| json!({ "action": "create_task", "subject": "Mend", "findings": findings });
    let leave = |id: &str, why: &str| json!({ "action": "answer", "question": id, "text": why });
    let read = team
        .read(&json!([
            task(&["f1", "f3"]),
            leave("f2", "It cannot happen.")
        ]))
        .unwrap();
    assert_eq!(read.settles, [(0, vec![0, 2])]);
    assert_eq!(read.dismissed, [(1, "It cannot happen.".to_owned())]);
    assert_eq!(read.replies, []);
    let nothing = team.read(&json!([])).unwrap();
    assert_eq!(nothing.settles, [], "the host decides then");
    for (actions, why) in [
        (json!([task(&["f1"])]), "nothing is said about finding f2"),
        (
            json!([task(&["f1", "f2"]), leave("f2", "no")]),
            "finding f2 is both fixed and left",
        ),
        (json!([task(&["f9"])]), "there is no finding \"f9\""),
        (
            json!([task(&["f2"]), leave("f1", " ")]),
            "a reason is needed not to fix finding f1",
        ),
        (
            json!([task(&["f2"]), leave("f1", "no"), leave("f1", "no")]),
            "finding f1 is answered twice",
        ),
    ] {
        let faults = team.read(&actions).unwrap_err().join("; ");
        assert!(faults.contains(why), "{actions}: {faults}");
    }
    let faults = Team::new().read(&json!([task(&["f1"])])).unwrap_err();
    assert!(faults[0].contains("there is no finding"), "{faults:?}");
}

#[test]
fn task_that_waits_for_itself_is_refused_in_words() {
    let team = Team::new();
    for (action, why) in [
        (
            json!({ "action": "create_task", "id": "a", "subject": "Mend", "blockedBy": ["a"] }),
            "the new tasks have a cycle",
        ),
        (
            json!({ "action": "update_task", "task": "4", "blockedBy": ["4"] }),
            "that would be a cycle",
        ),
        (
            json!({ "action": "update_task", "task": "3", "blockedBy": ["4"] }),
            "that would be a cycle",
        ),
    ] {
        let faults = team.read(&json!([action])).unwrap_err().join("; ");
        assert!(faults.contains(why), "{faults}");
    }
}

#[test]
fn task_for_anybody_is_not_left_to_who_is_kept_for_the_review() {
    let mut team = Team::new();
    team.members[1].role = Some("reviewer".to_owned());
    team.members[1].can = vec!["poetry".to_owned()];
    let action = json!({ "action": "create_task", "subject": "Write", "capabilities": ["poetry"] });
    let faults = team.read(&json!([action])).unwrap_err().join("; ");
    assert!(
        faults.contains("no member of the team can do any of poetry"),
        "{faults}"
    );
    let action = json!({ "action": "create_task", "subject": "Write", "capabilities": ["poetry"], "owner": "ben" });
    assert!(team.read(&json!([action])).is_ok(), "named by the leader");
}

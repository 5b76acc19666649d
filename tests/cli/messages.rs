//! Messages: sent, read, acknowledged.

use serde_json::json;

use crate::kit::TestProject;

#[test]
fn a_message_comes_again_until_it_is_acknowledged() {
    let project = TestProject::with_team();
    let sent = project
        .run([
            "message",
            "send",
            "--to",
            "worker-1",
            "look at task 3",
            "--json",
        ])
        .succeeds()
        .json();
    let message = &sent["message"];
    assert_eq!(message["from"], "lead");
    assert_eq!(message["to"], "worker-1");
    assert_eq!(message["type"], "message");
    let id = message["id"].as_str().unwrap();

    let read = || {
        project
            .run(["message", "read", "--as", "worker-1", "--json"])
            .succeeds()
            .json()
    };
    assert_eq!(read()["messages"][0]["content"], "look at task 3");
    assert_eq!(read()["messages"][0]["id"], *id);
    assert_eq!(
        project
            .run(["message", "ack", "--as", "worker-1", id, "--json"])
            .json(),
        json!({ "acked": 1 })
    );
    assert_eq!(read(), json!({ "messages": [], "skipped": 0 }));
    project
        .run(["message", "ack", "--as", "worker-1", id])
        .succeeds();
}

#[test]
fn reading_and_acknowledging_can_be_one_step_and_limited() {
    let project = TestProject::with_team();
    for text in ["one", "two", "three"] {
        project
            .run(["message", "send", "--to", "worker-1", text])
            .succeeds();
    }
    let read = |more: &[&str]| {
        let args = ["message", "read", "--as", "worker-1", "--json"];
        let ran = project.run(args.iter().chain(more)).succeeds().json();
        let messages = ran["messages"].as_array().unwrap().clone();
        messages
            .iter()
            .map(|message| message["content"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(read(&["--ack", "--limit", "2"]), ["one", "two"]);
    assert_eq!(read(&["--ack"]), ["three"]);
    insta::assert_snapshot!(project.run(["message", "read", "--as", "worker-1"]).succeeds().shown(), @"no new messages for worker-1");
}

#[test]
fn the_lead_reads_what_workers_and_people_sent() {
    let project = TestProject::with_team();
    project
        .run([
            "message", "send", "--to", "lead", "--from", "worker-1", "done",
        ])
        .succeeds();
    project
        .run(["message", "send", "--to", "lead", "hurry"])
        .succeeds();
    let mail = project
        .run(["message", "read", "--as", "lead", "--json"])
        .succeeds()
        .json();
    let mut senders: Vec<&str> = mail["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["from"].as_str().unwrap())
        .collect();
    senders.sort_unstable();
    assert_eq!(senders, ["user", "worker-1"]);
}

#[test]
fn everyone_gets_a_broadcast_and_it_is_one_event() {
    let project = TestProject::with_team();
    let sent = project
        .run(["message", "broadcast", "stay green", "--json"])
        .succeeds();
    assert_eq!(sent.json(), json!({ "sent": 2 }));
    insta::assert_snapshot!(project.run(["message", "send", "--to", "all", "again"]).succeeds().shown(), @"sent to 2 members: worker-1, worker-2");
    let events = project
        .run(["journal", "--type", "message.sent", "--json"])
        .json();
    assert_eq!(events["events"].as_array().unwrap().len(), 2);
    let read = project
        .run(["message", "read", "--as", "worker-2", "--json"])
        .json();
    assert_eq!(read["messages"].as_array().unwrap().len(), 2);
}

#[test]
fn nobody_is_written_to_by_mistake() {
    let project = TestProject::with_team();
    // The first change of a team creates its lock and its index.
    project.task("a", &[]);
    let before = project.files();
    let unknown = project
        .run(["message", "send", "--to", "wroker-1", "hello"])
        .fails(3);
    insta::assert_snapshot!(unknown.shown(), @r#"
    error: team fix-auth has no member "wroker-1"
    hint: did you mean worker-1, worker-2?
    "#);
    project
        .run(["message", "send", "--to", "worker-1", ""])
        .fails(6);
    let long = "x".repeat(64 * 1024 + 1);
    let ran = project
        .run(["message", "send", "--to", "worker-1", &long])
        .fails(6);
    assert!(ran.stderr.contains("65536"), "{}", ran.stderr);
    project.run(["message", "read"]).fails(2);
    assert_eq!(project.files(), before);
}

#[test]
fn a_list_tells_what_became_of_each_message() {
    let project = TestProject::with_team();
    project
        .run(["message", "send", "--to", "worker-1", "one"])
        .succeeds();
    project
        .run(["message", "read", "--as", "worker-1"])
        .succeeds();
    project
        .run(["message", "send", "--to", "worker-1", "two"])
        .succeeds();
    project
        .run(["message", "send", "--to", "worker-2", "three"])
        .succeeds();
    project
        .run(["message", "read", "--as", "worker-2", "--ack"])
        .succeeds();
    let list = project.run(["message", "list", "--json"]).succeeds().json();
    let receipts: Vec<(bool, bool, bool)> = list["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| {
            (
                message["sentAt"].is_string(),
                message["deliveredAt"].is_string(),
                message["ackedAt"].is_string(),
            )
        })
        .collect();
    assert_eq!(
        receipts,
        [
            (true, true, false),
            (true, false, false),
            (true, true, true)
        ]
    );
    insta::assert_snapshot!(project.run(["message", "list"]).succeeds().shown(), @r"
    SENT     FROM  TO        STATE         CONTENT
    [ago]  lead  worker-1  delivered     one
    [ago]  lead  worker-1  sent          two
    [ago]  lead  worker-2  acknowledged  three
    ");
    insta::assert_snapshot!(project.run(["message", "tail", "--last", "2"]).succeeds().shown(), @r"
    [time]  lead → worker-1
      two
    [time]  lead → worker-2
      three
    ");
}

#[test]
fn outbox_lines_of_the_documented_shapes_show_sender_kind_and_what_they_say() {
    let project = TestProject::with_team();
    let folder = project.claude("teams/fix-auth/outbox");
    std::fs::create_dir_all(&folder).unwrap();
    let lines = [
        r#"{"type":"ready","timestamp":"2026-02-07T12:00:00.000Z"}"#,
        r#"{"type":"task_complete","taskId":"1","summary":"the form works","timestamp":"2026-02-07T12:00:01.000Z"}"#,
        r#"{"type":"task_failed","taskId":"2","error":"no such table","timestamp":"2026-02-07T12:00:02.000Z"}"#,
    ];
    std::fs::write(folder.join("worker-1.jsonl"), lines.join("\n") + "\n").unwrap();
    for args in [
        &["message", "read", "--as", "lead"][..],
        &["message", "tail"],
    ] {
        let text = project.run(args).succeeds().stdout;
        assert!(text.contains("worker-1 → lead  [ready]"), "{text}");
        assert!(text.contains("worker-1 → lead  [task_complete]"), "{text}");
        assert!(text.contains("the form works"), "{text}");
        assert!(text.contains("worker-1 → lead  [task_failed]"), "{text}");
        assert!(text.contains("no such table"), "{text}");
    }
    let listed = project.run(["message", "list"]).succeeds().stdout;
    assert!(listed.contains("worker-1"), "{listed}");
    assert!(listed.contains("the form works"), "{listed}");
}

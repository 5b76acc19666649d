//! `teamster journal` and its output.

use crate::kit::TestProject;

#[test]
fn events_come_in_order_from_anywhere() {
    let project = TestProject::with_team();
    for subject in ["a", "b", "c"] {
        project.task(subject, &[]);
    }
    let seqs = |args: &[&str]| -> Vec<u64> {
        let page = project
            .run(["journal", "--json"].iter().chain(args))
            .succeeds()
            .json();
        page["events"]
            .as_array()
            .unwrap()
            .iter()
            .map(|event| event["seq"].as_u64().unwrap())
            .collect()
    };
    assert_eq!(seqs(&[]), [1, 2, 3, 4]);
    assert_eq!(seqs(&["--from", "3"]), [3, 4]);
    assert_eq!(seqs(&["--from", "99"]), [0_u64; 0]);
    assert_eq!(seqs(&["--last", "2"]), [3, 4]);
    assert_eq!(seqs(&["--last", "0"]), [0_u64; 0]);
    assert_eq!(seqs(&["--type", "team."]), [1]);
    assert_eq!(
        seqs(&["--type", "team.", "--last", "1"]),
        [1],
        "the last that fits"
    );
    project
        .run(["journal", "--from", "1", "--last", "1"])
        .fails(2);
}

#[test]
fn a_journal_is_readable() {
    let project = TestProject::with_team();
    project.task("Fix the login form", &[]);
    project.claim("worker-1", "1");
    project
        .run(["message", "send", "--to", "worker-1", "hello"])
        .succeeds();
    insta::assert_snapshot!(project.run(["journal"]).succeeds().shown(), @r#"
    1  [time]  team.created        user          {"members":["worker-1","worker-2"],"project":"[root]/project"}
    2  [time]  task.created        user          task 1  nothing → pending  {"subject":"Fix the login form"}
    3  [time]  task.claimed        worker-1      task 1  pending → in_progress  {"owner":"worker-1","fence":1}
    4  [time]  message.sent        lead          {"content":"hello","to":"worker-1"}
    "#);
}

#[test]
fn following_shows_each_event_once_as_it_happens() {
    let project = TestProject::with_team();
    let mut follower = project.call(["journal", "--follow", "--json"]).follow();
    assert_eq!(follower.json()["type"], "team.created");
    project.task("a", &[]);
    assert_eq!(follower.json()["seq"], 2);
    project.task("b", &[]);
    assert_eq!(follower.json()["seq"], 3);
}

#[test]
fn messages_are_followed_as_they_are_sent() {
    let project = TestProject::with_team();
    project
        .run(["message", "send", "--to", "worker-1", "before"])
        .succeeds();
    let mut follower = project
        .call(["message", "tail", "--follow", "--json"])
        .follow();
    assert_eq!(follower.json()["content"], "before");
    project
        .run(["message", "send", "--to", "worker-1", "after"])
        .succeeds();
    assert_eq!(follower.json()["content"], "after");
}

#[test]
fn whoever_stops_reading_is_no_error() {
    let project = TestProject::with_team();
    for number in 0..30 {
        project.task(&format!("{number} {}", "x".repeat(400)), &[]);
    }
    let ran = project
        .shell("teamster journal --json | head -c 10 >/dev/null; teamster journal | head -1")
        .run()
        .succeeds();
    assert!(ran.stdout.contains("team.created"));
}

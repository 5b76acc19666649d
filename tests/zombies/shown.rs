//! The output for people.

use std::time::Duration;

use super::{DAY, led_by, put, registry, team, touch};
use crate::kit::{TestProject, gone};

/// Makes one entry of each kind, the same in every run.
fn mixed() -> TestProject {
    let project = TestProject::new();
    team(&project, "old", &registry("old", "yesterday"), 3 * DAY);
    team(&project, "busy", &registry("busy", 1), 3 * DAY);
    put(
        &project,
        "teams/busy/inboxes/team-lead.json",
        r#"[{"from":"w","text":"hi"}]"#,
    );
    touch(&project, "busy", 3 * DAY);
    put(&project, "teams/broken/config.json", "{");
    touch(&project, "broken", 3 * DAY);
    team(
        &project,
        "over",
        &led_by("over", &gone()),
        Duration::from_secs(600),
    );
    let mut config = led_by("over", &gone());
    config["createdAt"] = super::millis(Duration::from_secs(600)).into();
    team(&project, "over", &config, Duration::from_secs(600));
    project
}

fn without_pid(text: &str) -> String {
    text.replace(&format!("pid {}", gone().pid), "pid [pid]")
}

#[test]
fn a_scan_says_what_and_why() {
    let project = mixed();
    let shown = project.run(["zombies", "scan"]).succeeds().shown();
    insta::assert_snapshot!(without_pid(&shown), @r#"
    KIND  NAME    TEAM    AGE     ACTION  EVIDENCE
    team  broken  broken  3 days  keep    config.json cannot be read: not valid JSON: EOF while parsing an object at line 1 column 1
    team  busy    busy    3 days  keep    old, alive, 1 unread message in inboxes/team-lead.json
    team  old     old     3 days  reap    createdAt is "yesterday", which is not a time: its newest file change is used instead, no change for 3 days, no sign of life
    team  over    over    10 min  reap    its lead (pid [pid]) is gone, every other member is proven stopped

    how to deal with what is kept:
      rm -r -- [root]/home/.claude/teams/broken
      rm -r -- [root]/home/.claude/teams/busy [root]/home/.claude/tasks/busy
    "#);
}

#[test]
fn a_reap_says_what_it_did() {
    let project = mixed();
    let shown = project
        .run(["zombies", "reap", "--dry-run"])
        .succeeds()
        .shown();
    insta::assert_snapshot!(without_pid(&shown), @r#"
    KIND  NAME    TEAM    AGE     DONE        EVIDENCE
    team  broken  broken  3 days  kept        config.json cannot be read: not valid JSON: EOF while parsing an object at line 1 column 1
    team  busy    busy    3 days  kept        old, alive, 1 unread message in inboxes/team-lead.json
    team  old     old     3 days  would reap  createdAt is "yesterday", which is not a time: its newest file change is used instead, no change for 3 days, no sign of life
    team  over    over    10 min  would reap  its lead (pid [pid]) is gone, every other member is proven stopped

    how to deal with what is kept:
      rm -r -- [root]/home/.claude/teams/broken
      rm -r -- [root]/home/.claude/teams/busy [root]/home/.claude/tasks/busy
    "#);
    let shown = project.run(["zombies", "reap"]).succeeds().shown();
    insta::assert_snapshot!(without_pid(&shown), @r#"
    KIND  NAME    TEAM    AGE     DONE    EVIDENCE
    team  broken  broken  3 days  kept    config.json cannot be read: not valid JSON: EOF while parsing an object at line 1 column 1
    team  busy    busy    3 days  kept    old, alive, 1 unread message in inboxes/team-lead.json
    team  old     old     3 days  reaped  createdAt is "yesterday", which is not a time: its newest file change is used instead, no change for 3 days, no sign of life
    team  over    over    10 min  reaped  its lead (pid [pid]) is gone, every other member is proven stopped

    teams are kept in the trash for 7 days; `teamster zombies restore TEAM` brings one back

    how to deal with what is kept:
      rm -r -- [root]/home/.claude/teams/broken
      rm -r -- [root]/home/.claude/teams/busy [root]/home/.claude/tasks/busy
    "#);
    let shown = project
        .run(["zombies", "restore", "old"])
        .succeeds()
        .shown();
    insta::assert_snapshot!(shown, @r#"
    restored team old and its tasks
    "#);
}

#[test]
fn programs_get_every_field() {
    let project = mixed();
    let found = project.run(["zombies", "scan", "--json"]).succeeds().json();
    let mut list = found["zombies"].as_array().unwrap().clone();
    for zombie in &mut list {
        assert!(zombie["age"].is_u64(), "{zombie}");
        zombie["age"] = "[seconds]".into();
    }
    let text = serde_json::to_string_pretty(&list).unwrap();
    let root = project.home();
    let text = text.replace(root.parent().unwrap().to_str().unwrap(), "[root]");
    insta::assert_snapshot!(without_pid(&text), @r#"
    [
      {
        "kind": "team",
        "name": "broken",
        "team": "broken",
        "age": "[seconds]",
        "evidence": [
          "config.json cannot be read: not valid JSON: EOF while parsing an object at line 1 column 1"
        ],
        "action": "keep",
        "command": "rm -r -- [root]/home/.claude/teams/broken"
      },
      {
        "kind": "team",
        "name": "busy",
        "team": "busy",
        "age": "[seconds]",
        "evidence": [
          "old, alive",
          "1 unread message in inboxes/team-lead.json"
        ],
        "action": "keep",
        "command": "rm -r -- [root]/home/.claude/teams/busy [root]/home/.claude/tasks/busy"
      },
      {
        "kind": "team",
        "name": "old",
        "team": "old",
        "age": "[seconds]",
        "evidence": [
          "createdAt is \"yesterday\", which is not a time: its newest file change is used instead",
          "no change for 3 days, no sign of life"
        ],
        "action": "reap",
        "command": "teamster zombies reap"
      },
      {
        "kind": "team",
        "name": "over",
        "team": "over",
        "age": "[seconds]",
        "evidence": [
          "its lead (pid [pid]) is gone",
          "every other member is proven stopped"
        ],
        "action": "reap",
        "command": "teamster zombies reap"
      }
    ]
    "#);
}

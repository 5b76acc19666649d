//! The life of a task.

use serde_json::{Value, json};

use crate::kit::TestProject;

#[test]
fn a_task_is_made_claimed_and_finished() {
    let project = TestProject::with_team();
    assert_eq!(project.task("Fix the login form", &[]), "1");
    assert_eq!(
        project.task("Test it", &["--blocked-by", "1", "--capability", "testing"]),
        "2"
    );
    insta::assert_snapshot!(project.run(["task", "list"]).succeeds().shown(), @r"
    ID  STATE      OWNER  SUBJECT             WHY
    1   claimable         Fix the login form  free
    2   waiting           Test it             waits for 1

    0 of 2 tasks completed, 2 pending
    ");

    let claimed = project
        .run(["task", "claim", "--worker", "worker-1", "--json"])
        .succeeds()
        .json();
    assert_eq!(claimed["task"]["id"], "1");
    assert_eq!(claimed["task"]["state"], "in_progress");
    assert_eq!(claimed["fence"], 1);
    assert!(claimed["leasedUntil"].as_str().unwrap().ends_with('Z'));
    let token = claimed["token"].as_str().unwrap();
    let claim = &claimed["task"]["metadata"]["teamster"]["claim"];
    assert_eq!(claim["worker"], "worker-1");
    assert_eq!(claim.get("token"), None, "the task never shows its token");

    let refused = project
        .run(["task", "claim", "--worker", "worker-2", "1"])
        .fails(4);
    insta::assert_snapshot!(refused.shown(), @r"
    error: task 1 is claimed by worker-1 (lease until [time])
    hint: `teamster task list --claimable` shows others
    ");
    let nothing = project
        .run(["task", "claim", "--worker", "worker-2", "--json"])
        .fails(5);
    assert_eq!(nothing.error()["kind"], "nothing");

    let renewed = project
        .run([
            "task", "renew", "1", "--token", token, "--lease", "1h", "--json",
        ])
        .succeeds()
        .json();
    assert!(renewed["leasedUntil"].as_str() > claimed["leasedUntil"].as_str());

    let stale = project
        .run(["task", "complete", "1", "--token", "wrong"])
        .fails(4);
    insta::assert_snapshot!(stale.shown(), @r"
    error: the token does not hold task 1: worker-1 holds it under a newer claim
    hint: nothing was changed; `teamster task show` shows who has it
    ");
    insta::assert_snapshot!(project.run(["task", "complete", "1", "--token", token]).succeeds().shown(), @r#"finished task 1 "Fix the login form": completed"#);
    project
        .run(["task", "complete", "1", "--token", token])
        .succeeds();

    let next = project
        .run(["task", "list", "--claimable", "--json"])
        .succeeds()
        .json();
    assert_eq!(next["tasks"][0]["id"], "2");
    assert_eq!(next["tasks"].as_array().unwrap().len(), 1);
    assert_eq!(
        next["progress"],
        json!({
            "totalTasks": 2, "completedTasks": 1, "inProgressTasks": 0, "failedTasks": 0, "pendingTasks": 1,
        })
    );
}

#[test]
fn a_claim_is_printed_with_everything_its_worker_needs() {
    let project = TestProject::with_team();
    let more = [
        "--description",
        "Two lines:\n\tthe second",
        "--path",
        "src/**",
    ];
    project.task("Fix the login form", &more);
    insta::assert_snapshot!(project.run(["task", "claim", "--worker", "worker-1"]).succeeds().shown(), @r"
    task 1: Fix the login form
      state       in_progress, worker-1 works on it, lease until [time]
      owner       worker-1
      paths       src/**
      created     [time]

    Two lines:
        the second

    token [32 hexadecimal digits]
    yours until [time] UTC; `teamster task renew 1 --token TOKEN` extends it
    ");
    insta::assert_snapshot!(project.run(["task", "show", "1"]).succeeds().shown(), @r"
    task 1: Fix the login form
      state       in_progress, worker-1 works on it, lease until [time]
      owner       worker-1
      paths       src/**
      created     [time]

    Two lines:
        the second
    ");
}

#[test]
fn a_task_fails_waits_and_begins_anew() {
    let project = TestProject::with_team();
    project.task("a", &[]);
    let token = project.claim("worker-1", "1");
    let failed = project
        .run([
            "task",
            "fail",
            "1",
            "--token",
            &token,
            "--error",
            "no such file",
            "--json",
        ])
        .succeeds()
        .json();
    assert_eq!(failed["task"]["state"], "waiting");
    assert_eq!(failed["task"]["metadata"]["failedAttempts"], 1);
    let shown = project.run(["task", "show", "1", "--json"]).json();
    assert_eq!(shown["failure"]["lastError"], "no such file");
    project
        .run(["task", "claim", "--worker", "worker-1", "1"])
        .fails(4);
    project.run(["task", "retry", "1"]).succeeds();
    project
        .run(["task", "claim", "--worker", "worker-1", "1"])
        .succeeds();
}

#[test]
fn the_fifth_failure_is_the_last_and_blocks_what_waits_for_it() {
    let project = TestProject::with_team();
    project.task("a", &[]);
    project.task("b", &["--blocked-by", "1"]);
    for attempt in 1..=5 {
        let token = project.claim("worker-1", "1");
        project
            .run(["task", "fail", "1", "--token", &token, "--error", "boom"])
            .succeeds();
        if attempt < 5 {
            // A person need not wait for the back-off: a manual retry starts the count again.
            set_back_off_to_now(&project);
        }
    }
    let list = project.run(["task", "list", "--json"]).succeeds().json();
    assert_eq!(list["tasks"][0]["state"], "failed");
    assert_eq!(list["tasks"][0]["status"], "completed");
    assert_eq!(list["tasks"][1]["state"], "blocked");
    assert_eq!(list["tasks"][1]["reason"], "blocked by failure of 1");
    assert_eq!(list["progress"]["failedTasks"], 1);
    insta::assert_snapshot!(project.run(["task", "list"]).shown(), @r"
    ID  STATE    OWNER     SUBJECT  WHY
    1   failed   worker-1  a        failed permanently: boom
    2   blocked            b        blocked by failure of 1

    0 of 2 tasks completed, 1 pending, 1 failed permanently
    ");
}

/// Makes the back-off after a failure look expired.
fn set_back_off_to_now(project: &TestProject) {
    let file = project.claude("tasks/fix-auth/1.json");
    let mut task: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    task["metadata"]["teamster"]["notBefore"] = json!("2020-01-01T00:00:00.000Z");
    std::fs::write(file, task.to_string()).unwrap();
}

#[test]
fn a_task_is_given_back_by_its_worker_or_by_a_person() {
    let project = TestProject::with_team();
    project.task("a", &[]);
    let token = project.claim("worker-1", "1");
    project
        .run(["task", "release", "1", "--token", &token])
        .succeeds();
    project
        .run(["task", "release", "1", "--token", &token])
        .fails(4);
    project.claim("worker-2", "1");
    project.run(["task", "release", "1"]).fails(2);
    project
        .run(["task", "release", "1", "--token", "x", "--force"])
        .fails(2);
    let freed = project
        .run(["task", "release", "1", "--force", "--json"])
        .succeeds()
        .json();
    assert_eq!(freed["task"]["state"], "claimable");
    project.run(["task", "release", "1", "--force"]).fails(4);
}

#[test]
fn a_task_is_changed_and_its_mirror_with_it() {
    let project = TestProject::with_team();
    for subject in ["a", "b", "c"] {
        project.task(subject, &[]);
    }
    let changed = project
        .run([
            "task",
            "update",
            "3",
            "--blocked-by",
            "1,2",
            "--owner",
            "worker-2",
            "--path",
            "src/**",
            "--json",
        ])
        .succeeds()
        .json();
    assert_eq!(changed["task"]["blockedBy"], json!(["1", "2"]));
    assert_eq!(changed["task"]["owner"], "worker-2");
    let first = project.run(["task", "show", "1", "--json"]).json();
    assert_eq!(first["task"]["blocks"], json!(["3"]));

    let cycle = project
        .run(["task", "update", "1", "--blocked-by", "3"])
        .fails(6);
    insta::assert_snapshot!(cycle.shown(), @r"
    error: that would be a cycle: 1 waits for 3 waits for 1
    hint: nothing was changed
    ");
    project
        .run(["task", "update", "1", "--blocked-by", "9"])
        .fails(6);
    project.run(["task", "update", "3"]).fails(2);
    project
        .run([
            "task", "update", "3", "--owner", "worker-1", "--clear", "owner",
        ])
        .fails(2);

    let cleared = project
        .run([
            "task",
            "update",
            "3",
            "--clear",
            "owner",
            "--clear",
            "blocked-by",
            "--clear",
            "path",
            "--json",
        ])
        .succeeds()
        .json();
    assert_eq!(cleared["task"].get("owner"), None);
    assert_eq!(cleared["task"]["blockedBy"], json!([]));
    assert_eq!(cleared["task"]["metadata"]["teamster"].get("paths"), None);
}

#[test]
fn a_task_is_removed_unless_somebody_works_on_it() {
    let project = TestProject::with_team();
    project.task("a", &[]);
    project.task("b", &["--blocked-by", "1"]);
    project.claim("worker-1", "1");
    let held = project.run(["task", "delete", "1"]).fails(4);
    insta::assert_snapshot!(held.shown(), @r"
    error: task 1 is claimed by worker-1 (lease until [time])
    hint: `teamster task release 1 --force` takes it back first
    ");
    project.run(["task", "release", "1", "--force"]).succeeds();
    project.run(["task", "delete", "1"]).succeeds();
    let left = project.run(["task", "list", "--json"]).json();
    assert_eq!(left["tasks"][0]["id"], "2");
    assert_eq!(left["tasks"][0]["state"], "claimable");
    assert_eq!(project.task("c", &[]), "3", "an id is never used twice");
}

#[test]
fn a_result_is_kept_as_an_object() {
    let project = TestProject::with_team();
    project.write("result.json", r#"{"tests":12}"#);
    project.write("result.txt", "all tests pass\n");
    for (file, expected) in [
        ("result.json", json!({ "tests": 12 })),
        ("result.txt", json!({ "text": "all tests pass\n" })),
    ] {
        let id = project.task("a", &[]);
        let token = project.claim("worker-1", &id);
        let done = project
            .run([
                "task", "complete", &id, "--token", &token, "--result", file, "--json",
            ])
            .succeeds()
            .json();
        assert_eq!(done["task"]["metadata"]["teamster"]["result"], expected);
    }
    let id = project.task("a", &[]);
    let token = project.claim("worker-1", &id);
    let piped =
        format!("echo '[1]' | teamster task complete {id} --token {token} --result - --json");
    let done = project.shell(&piped).run().succeeds().json();
    assert_eq!(
        done["task"]["metadata"]["teamster"]["result"],
        json!({ "value": [1] })
    );
}

#[test]
fn tasks_are_listed_by_status_and_by_where_they_stand() {
    let project = TestProject::with_team();
    project.task("a", &[]);
    project.task("b", &["--blocked-by", "1"]);
    project.task("c", &[]);
    project.claim("worker-1", "3");
    let ids = |status: &str| -> Vec<String> {
        let list = project
            .run(["task", "list", "--status", status, "--json"])
            .succeeds()
            .json();
        list["tasks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|task| task["id"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(ids("pending"), ["1", "2"]);
    assert_eq!(ids("claimable"), ["1"]);
    assert_eq!(ids("waiting"), ["2"]);
    assert_eq!(ids("in_progress"), ["3"]);
    assert!(ids("completed").is_empty());
    project.run(["task", "list", "--status", "done"]).fails(2);
}

#[test]
fn texts_beyond_their_limit_are_refused_with_the_limit() {
    let project = TestProject::with_team();
    let long = "x".repeat(501);
    let ran = project.run(["task", "create", "--subject", &long]).fails(6);
    assert!(
        ran.stderr.contains("501 characters; the limit is 500"),
        "{}",
        ran.stderr
    );
    let long = "x".repeat(10_001);
    project
        .run(["task", "create", "--subject", "a", "--description", &long])
        .fails(6);
    project.run(["task", "create", "--subject", " "]).fails(6);
    assert_eq!(
        project.run(["task", "list", "--json"]).json()["tasks"],
        json!([])
    );
}

#[test]
fn a_damaged_task_is_named_and_hides_no_other() {
    let project = TestProject::with_team();
    project.task("a", &[]);
    project.task("b", &[]);
    std::fs::write(project.claude("tasks/fix-auth/1.json"), "{\"id\":\"1\",").unwrap();
    let list = project.run(["task", "list", "--json"]).succeeds().json();
    assert_eq!(list["tasks"][0]["id"], "2");
    assert_eq!(list["problems"][0]["file"], "1.json");
    insta::assert_snapshot!(project.run(["task", "list"]).succeeds().shown(), @r"
    ID  STATE      OWNER  SUBJECT  WHY
    2   claimable         b        free

    0 of 1 tasks completed, 1 pending
    1.json cannot be read: not valid JSON: EOF while parsing a value at line 1 column 10
    ");
    project.run(["task", "show", "1"]).fails(1);
    project
        .run(["task", "claim", "--worker", "worker-1"])
        .succeeds();
}

#[test]
fn the_graph_is_drawn_for_people_and_programs() {
    let project = TestProject::with_team();
    project.task("Say \"hi\" <b>", &[]);
    project.task("b", &["--blocked-by", "1"]);
    project.task("c", &[]);
    project.task("d", &["--blocked-by", "2,3"]);
    let graph = project.run(["task", "graph", "--json"]).succeeds().json();
    assert_eq!(graph["edges"][0], json!({ "from": "1", "to": "2" }));
    assert_eq!(graph["criticalPath"], json!(["1", "2", "4"]));
    assert_eq!(graph["nodes"].as_array().unwrap().len(), 4);
    assert_eq!(
        project.run(["task", "graph", "--format", "json"]).json(),
        graph
    );
    insta::assert_snapshot!(project.run(["task", "graph"]).succeeds().shown(), @r#"
    1 [claimable] Say "hi" <b>
    3 [claimable] c
      2 [waiting] b  ← 1
        4 [waiting] d  ← 2, 3

    longest chain left: 1 → 2 → 4
    "#);
    insta::assert_snapshot!(project.run(["task", "graph", "--format", "dot"]).succeeds().shown(), @r##"
    digraph tasks {
      rankdir=LR;
      node [shape=box, style=filled];
      "1" [label="1 Say \"hi\" <b>", fillcolor="#ffffff"];
      "2" [label="2 b", fillcolor="#eeeeee"];
      "3" [label="3 c", fillcolor="#ffffff"];
      "4" [label="4 d", fillcolor="#eeeeee"];
      "1" -> "2";
      "2" -> "4";
      "3" -> "4";
    }
    "##);
    insta::assert_snapshot!(project.run(["task", "graph", "--format", "mermaid"]).succeeds().shown(), @r#"
    graph LR
      t1["1 Say #34;hi#34; #60;b#62;"]:::claimable
      t2["2 b"]:::waiting
      t3["3 c"]:::claimable
      t4["4 d"]:::waiting
      t1 --> t2
      t2 --> t4
      t3 --> t4
      classDef claimable fill:#ffffff
      classDef waiting fill:#eeeeee
      classDef blocked fill:#f4cccc
      classDef in_progress fill:#cfe2f3
      classDef completed fill:#d9ead3
      classDef failed fill:#f4cccc
      classDef missing fill:#f4cccc
    "#);
}

#[test]
fn routing_is_explained() {
    let project = TestProject::with_team();
    project
        .run([
            "team",
            "join",
            "fix-auth",
            "worker-2",
            "--provider",
            "codex",
        ])
        .succeeds();
    project.task("a", &["--capability", "code-review"]);
    let route = project
        .run(["task", "route", "1", "--json"])
        .succeeds()
        .json();
    assert_eq!(route["worker"], "worker-2");
    assert_eq!(route["workers"][0]["fitness"], 1.0);
    insta::assert_snapshot!(project.run(["task", "route", "1", "--explain"]).succeeds().shown(), @r"
    task 1 suits worker-2 best

    WORKER    SCORE  SUM
    worker-2  1.00   fitness 1 (code-review 1) = 1
    worker-1  0.50   fitness 0.5 (code-review 0.5 by general) = 0.5
    ");
}

#[test]
fn task_whose_paths_another_has_reserved_is_not_claimable_and_says_so() {
    let project = TestProject::with_team();
    project.task("first", &["--path", "src/**"]);
    project.task("second", &["--path", "src/main.rs"]);
    project.task("third", &["--path", "docs/**"]);
    project.claim("worker-1", "1");
    let claimable = |more: &[(&str, &str)]| -> Vec<String> {
        let mut call = project.call(["task", "list", "--claimable", "--json"]);
        for (name, value) in more {
            call = call.env(name, value);
        }
        let json = call.run().succeeds().json();
        let tasks = json["tasks"].as_array().unwrap().clone();
        let id = |task: &Value| task["id"].as_str().unwrap().to_owned();
        tasks.iter().map(id).collect()
    };
    assert_eq!(claimable(&[]), ["3"]);
    assert_eq!(claimable(&[("TEAMSTER_RESERVATIONS", "warn")]), ["2", "3"]);
    let all = project.run(["task", "list", "--json"]).succeeds().json();
    assert_eq!(all["tasks"][1]["state"], "waiting");
    let why = all["tasks"][1]["reason"].as_str().unwrap();
    assert!(why.contains("same files as task 1"), "{why}");
    project
        .run(["task", "claim", "--worker", "worker-2", "2"])
        .fails(4);
}

#[test]
fn worker_makes_no_team_joins_none_gives_no_task_away_and_moves_no_session() {
    let project = TestProject::with_team();
    project.task("mine", &["--owner", "worker-1"]);
    let session = ["session", "init", "--team", "fix-auth", "--task", "Fix it"];
    project.run(session).succeeds();
    let before = project.run(["task", "show", "1", "--json"]).succeeds();
    for args in [
        &["team", "create", "mine"][..],
        &["team", "join", "fix-auth", "zoe"],
        &["task", "update", "1", "--owner", "worker-2"],
        &["task", "update", "1", "--clear", "owner"],
        &["state", "transition", "ANALYZING", "I say so"],
        &["merge", "fix-auth"],
    ] {
        let call = project.call(args).env("TEAMSTER_WORKER", "worker-1");
        call.env("TEAMSTER_TEAM", "fix-auth").run().fails(6);
    }
    let after = project.run(["task", "show", "1", "--json"]).succeeds();
    assert_eq!(before.stdout, after.stdout);
    let teams = project.run(["team", "list", "--json"]).succeeds().json();
    assert_eq!(teams["teams"].as_array().unwrap().len(), 1, "{teams}");
    let state = project.run(["state", "status", "--json"]).succeeds().json();
    assert_eq!(state["phase"], "IDLE");
    let change = ["task", "update", "1", "--subject", "Mine, still"];
    let call = project.call(change).env("TEAMSTER_WORKER", "worker-1");
    call.env("TEAMSTER_TEAM", "fix-auth").run().succeeds();
}

#[test]
fn tags_security_and_docs_route_like_the_capabilities_they_abbreviate() {
    let project = TestProject::new();
    project.run(["team", "create", "crew"]).succeeds();
    for (name, provider) in [("rev", "codex"), ("scribe", "gemini")] {
        let join = ["team", "join", "crew", name, "--provider", provider];
        project.run(join).succeeds();
    }
    for (tag, expected) in [("security", "rev"), ("docs", "scribe")] {
        let id = project.task(tag, &["--capability", tag]);
        let routed = project.run(["task", "route", &id, "--json"]).succeeds();
        let routed = routed.json();
        let rows = routed["workers"].as_array().unwrap();
        let fitness = |name: &str| {
            let row = rows.iter().find(|row| row["worker"] == name).unwrap();
            row["fitness"].as_f64().unwrap()
        };
        for name in ["rev", "scribe"] {
            let is_expected = name == expected;
            assert_eq!(fitness(name) > 0.9, is_expected, "{tag}: {routed}");
        }
    }
}

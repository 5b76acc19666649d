//! The command line, one file for each area. In all of them, an agent acts only in its own name and removes nothing.

mod config;
mod demo;
mod doctor;
mod errors;
mod help;
mod journal;
mod messages;
mod names;
mod native;
mod plans;
mod status;
mod tasks;
mod teams;
mod trust;
mod viewing;

use crate::kit::TestProject;

#[test]
fn a_worker_acts_for_itself() {
    let project = TestProject::with_team();
    project.task("a", &[]);
    let as_worker = |args: &[&str]| project.call(args).env("TEAMSTER_WORKER", "worker-1").run();
    let claimed = as_worker(&["task", "claim", "--json"]).succeeds().json();
    assert_eq!(claimed["task"]["owner"], "worker-1");
    as_worker(&["message", "send", "--to", "lead", "hello"]).succeeds();
    as_worker(&["message", "send", "--to", "worker-2", "hello"]).succeeds();
    as_worker(&["message", "read"]).succeeds();
    let mail = project
        .run(["message", "read", "--as", "lead", "--json"])
        .json();
    assert_eq!(mail["messages"][0]["from"], "worker-1");
    let journal = project
        .run(["journal", "--type", "task.claimed", "--json"])
        .json();
    assert_eq!(journal["events"][0]["actor"], "worker-1");
    as_worker(&["task", "create", "--subject", "found something"]).succeeds();
    let journal = project.run(["journal", "--last", "1", "--json"]).json();
    assert_eq!(journal["events"][0]["actor"], "worker-1");
}

#[test]
fn a_worker_cannot_act_for_another_or_remove_anything() {
    let project = TestProject::with_team();
    project.task("a", &[]);
    project.task("b", &[]);
    project.claim("worker-2", "1");
    for args in [
        &["task", "claim", "--worker", "worker-2"][..],
        &[
            "message", "send", "--to", "worker-2", "--from", "lead", "hello",
        ],
        &[
            "message", "send", "--to", "lead", "--from", "worker-2", "hello",
        ],
        &["message", "send", "--to", "lead", "--from", "user", "hello"],
        &["message", "broadcast", "--from", "lead", "hello"],
        &["message", "read", "--as", "worker-2"],
        &["message", "read", "--as", "lead"],
        &["message", "ack", "--as", "worker-2", "x"],
        &["task", "release", "1", "--force"],
        &["task", "delete", "2"],
        &["team", "delete", "fix-auth"],
    ] {
        let ran = project
            .call(args)
            .env("TEAMSTER_WORKER", "worker-1")
            .run()
            .fails(6);
        assert!(ran.stderr.contains("worker-1"), "{args:?}: {}", ran.stderr);
        project.call(args).env("TEAMSTER_WORKER", "").run();
    }
    let refused = project
        .call(["task", "claim", "--worker", "worker-2"])
        .env("TEAMSTER_WORKER", "worker-1")
        .run();
    insta::assert_snapshot!(refused.shown(), @r"
    error: worker-1 is calling and cannot act as worker-2
    hint: leave --worker out
    ");
}

//! Permission requests of an agent that a person has to decide, from the terminal of a run to its gate. The agent
//! plays the recorded dialogue of a real client.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;
use teamster_testkit::RunCmd;

use super::Shop;
use crate::kit::Call;
use crate::studio::terminal::Terminal;
use crate::studio::{Studio, wait_for};
use crate::workers::asking::client_in;

/// The request of the recorded client.
const WANTED: &str = "worker-1 asks for permission: Bash echo hello-from-mock";

/// Prepares a run of one worker that has to ask a person before it runs a command; returns it with the id of the
/// request.
fn run(shop: &Shop, more: &[&str]) -> (Call, String) {
    let (folder, request) = client_in(&shop.aside());
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", folder.display());
    let args = RunCmd::new("shop", "1:claude", "say hello")
        .leader("engine")
        .verify("true")
        .more(&["--review", "off"]);
    let call = shop.call(args.more(more));
    let call = call.env("PATH", path);
    (call.env("TEAMSTER_PERMISSIONS_SHELL", "ask"), request)
}

/// Returns the text in one line: a terminal and the gate wrap long lines.
fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn request_that_nobody_answers_is_named_at_the_gate_and_does_not_land_by_itself() {
    let shop = Shop::new();
    let (call, request) = run(&shop, &["--approve", "auto"]);
    let ran = call.env("TEAMSTER_WORKER_IDLE_LIMIT", "1s").run();
    let ran = ran.exits(11);
    let said = in_one_line(&format!("{}{}", ran.stdout, ran.stderr));
    assert!(said.contains(WANTED), "{said}");
    let command = format!("teamster worker answer worker-1 {request} allow --team shop");
    assert!(said.contains(&command), "{said}");
    let denied = "worker-1 was not allowed in task 1: Bash echo hello-from-mock";
    assert!(said.contains(denied), "{said}");
    assert!(said.contains("nobody answered within 1 s"), "{said}");
    // The gate is open, and its content is in the view model of every viewer.
    let studio = Studio::start(&shop.project);
    let view = studio.json("/api/v1/teams/shop");
    assert_eq!(view["approval"]["waits"], true);
    let shown = &view["approval"]["shown"]["denied"][0];
    assert_eq!(shown["worker"], "worker-1");
    assert_eq!(shown["taskId"], "1");
    assert_eq!(shown["by"], "nobody");
    let what = shown["what"].as_str().unwrap();
    assert!(what.starts_with("Bash echo hello-from-mock"), "{what}");
    shop.run(["approve", "--team", "shop", "--commit", &shop.asked()])
        .succeeds();
    let report = in_one_line(&shop.report());
    assert!(report.contains("## Denied permissions"), "{report}");
    assert!(
        report.contains("nobody answered within 1 s"),
        "the report says so:\n{report}"
    );
}

#[test]
fn request_is_in_status_top_and_model_with_the_command_that_answers_it() {
    let shop = Shop::new();
    let (call, request) = run(&shop, &["--approve", "auto"]);
    let mut host = call.spawn();
    shop.until("a request", || {
        let mut said = shop.events_of("agent.event").into_iter();
        said.any(|event| event["data"]["what"] == "asked")
    });
    let command = format!("teamster worker answer worker-1 {request} allow --team shop");
    let status = shop.run(["status", "--team", "shop"]).succeeds().stdout;
    assert!(in_one_line(&status).contains(WANTED), "{status}");
    assert!(status.contains(&command), "{status}");
    let top = shop.call(["top", "--once", "--team", "shop"]);
    let top = top.env("COLUMNS", "200").run().succeeds().stdout;
    assert!(in_one_line(&top).contains(WANTED), "{top}");
    assert!(in_one_line(&top).contains(&command), "{top}");
    let studio = Studio::start(&shop.project);
    let view = wait_for("the request in the model", || {
        let view = studio.json("/api/v1/teams/shop");
        let waits = view["workers"][0]["requests"][0].is_object();
        waits.then_some(view)
    });
    assert_eq!(view["workers"][0]["requests"][0]["command"], *command);
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    shop.run(&words).succeeds();
    assert!(host.wait().unwrap().success());
    assert_eq!(shop.git(&["show", "main:hello.txt"]), "hello");
    for shown in shop.events_of("approval.shown") {
        assert_eq!(shown["data"]["denied"], json!([]), "it was allowed");
    }
}

#[test]
fn request_is_answered_at_the_terminal_and_the_person_is_told_of_it() {
    let shop = Shop::new();
    let (call, _) = run(&shop, &[]);
    // A desktop that records its notifications.
    let told = shop.aside().join("told");
    let program = shop.aside().join("client/notify-send");
    std::fs::write(
        &program,
        format!("#!/bin/sh\necho \"$@\" >> {}\n", told.display()),
    )
    .unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let call = call.env("TEAMSTER_NOTIFY", "desktop");
    let mut terminal = Terminal::of_call(call);
    terminal.wait_for("worker-1 asks for permission");
    terminal.wait_for("Type: allow · deny WHY");
    terminal.wait_for("answer> ");
    let is_told =
        || std::fs::read_to_string(&told).is_ok_and(|text| text.contains("asks for permission"));
    wait_for("the notification", || is_told().then_some(()));
    terminal.press("deny not today\r");
    terminal.wait_for("denied for worker-1");
    // It changed nothing, and the person has decided: there is nothing left to ask.
    terminal.ends();
    let report = in_one_line(&shop.report());
    let denied = "worker-1 was not allowed in task 1: Bash echo hello-from-mock";
    assert!(report.contains(denied), "{report}");
    assert!(report.contains("you denied it: not today"), "{report}");
}

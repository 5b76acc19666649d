//! Stopping a run, gently and less so, leaving it, and taking it up again.

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use teamster_testkit::RunCmd;

use super::Shop;

/// Two tasks; each notes that it has begun, and waits to be let go.
const PLAN: &str =
    "[[tasks]]\nid = \"one\"\nsubject = \"One\"\n\n[[tasks]]\nid = \"two\"\nsubject = \"Two\"\n";
const WAITING: &str = "[[step]]\ndo = \"run\"\ncommand = \"echo $TEAMSTER_TASK_ID > t-$TEAMSTER_TASK_ID.txt; touch ROOT/begun-$TEAMSTER_TASK_ID; until test -e ROOT/go; do sleep 0.02; done\"\n";

fn begin(shop: &Shop, script: &str) -> Child {
    let script = shop.script(script);
    let plan = shop.plan(PLAN);
    let args = RunCmd::new("shop", "1:w", "two parts")
        .provider(&script)
        .plan(&plan)
        .approve("auto")
        .verify("true");
    let host = shop.call(&args).spawn();
    shop.until("the first task", || shop.aside().join("begun-1").exists());
    host
}

fn signal(host: &Child, signal: &str) {
    let pid = host.id().to_string();
    let sent = Command::new("kill").args([signal, &pid]).status();
    assert!(sent.unwrap().success());
}

fn exit_code(shop: &Shop, host: &mut Child) -> Option<i32> {
    let mut ended = None;
    shop.until("the host ends", || {
        ended = host.try_wait().unwrap();
        ended.is_some()
    });
    ended.unwrap().code()
}

fn is_cancelled(shop: &Shop) {
    assert_eq!(shop.stage(), "cancelled");
    let state = shop.state_file(".omc/state/team-state.json");
    assert_eq!(state["stage"], "cancelled");
    assert_eq!(shop.state_file(".party/session.json")["phase"], "CANCELLED");
    shop.is_quiet();
}

fn goes_on(shop: &Shop) {
    std::fs::write(shop.aside().join("go"), "").unwrap();
    shop.run(&["run", "--resume", "shop"]).exits(0);
    assert_eq!(shop.stage(), "complete");
    assert_eq!(shop.git(&["show", "main:t-1.txt"]), "1");
    assert_eq!(shop.git(&["show", "main:t-2.txt"]), "2");
    assert_eq!(shop.state_file(".party/session.json")["phase"], "DONE");
    shop.has_drafts();
    shop.is_quiet();
}

/// Once: what is begun is finished, and nothing else is begun.
fn drains(by: &str) {
    let shop = Shop::in_use();
    let before = shop.of_user();
    let mut host = begin(&shop, WAITING);
    signal(&host, by);
    shop.until("the drain", || !shop.events_of("signal.drain").is_empty());
    std::fs::write(shop.aside().join("go"), "").unwrap();
    assert_eq!(exit_code(&shop, &mut host), Some(13));
    is_cancelled(&shop);
    assert_eq!(shop.of_user(), before);
    assert_eq!(shop.events_of("task.completed").len(), 1);
    assert!(!shop.aside().join("begun-2").exists());
    goes_on(&shop);
    assert_eq!(shop.events_of("task.claimed").len(), 2);
}

#[test]
fn the_first_ctrl_c_lets_current_tasks_be_finished() {
    drains("-INT");
}

#[test]
fn a_closed_terminal_lets_current_tasks_be_finished() {
    drains("-HUP");
}

#[test]
fn the_second_ctrl_c_interrupts_and_keeps_what_there_is() {
    let shop = Shop::in_use();
    let before = shop.of_user();
    let mut host = begin(&shop, WAITING);
    signal(&host, "-INT");
    shop.until("the drain", || !shop.events_of("signal.drain").is_empty());
    signal(&host, "-INT");
    assert_eq!(exit_code(&shop, &mut host), Some(13));
    is_cancelled(&shop);
    assert_eq!(shop.of_user(), before);
    assert!(shop.events_of("task.completed").is_empty());
    let left = shop.left().join("\n");
    assert!(left.contains("worker-1"), "{left}");
    goes_on(&shop);
}

#[test]
fn the_third_ctrl_c_kills_whoever_does_not_listen() {
    let shop = Shop::in_use();
    let script = format!("[[step]]\ndo = \"ignore-signals\"\n{WAITING}");
    let mut host = begin(&shop, &script);
    let start = Instant::now();
    signal(&host, "-INT");
    shop.until("the drain", || !shop.events_of("signal.drain").is_empty());
    signal(&host, "-INT");
    shop.until("the stop", || !shop.events_of("signal.shutdown").is_empty());
    signal(&host, "-INT");
    assert_eq!(exit_code(&shop, &mut host), Some(13));
    assert!(start.elapsed() < Duration::from_secs(30));
    is_cancelled(&shop);
    shop.has_drafts();
}

#[test]
fn a_detached_run_goes_on_without_its_terminal_and_one_project_has_one_run() {
    let shop = Shop::in_use();
    let script = shop.script(WAITING);
    let plan = shop.plan(PLAN);
    let args = RunCmd::new("shop", "1:w", "two parts")
        .provider(&script)
        .plan(&plan)
        .verify("true")
        .more(&["--json"]);
    let detached = args.clone().more(&["--detach"]);
    let begun = shop.call(detached).run().succeeds();
    assert_eq!(begun.json()["team"], "shop");
    let host = begun.json()["pid"].as_u64().unwrap();
    shop.until("the first task", || shop.aside().join("begun-1").exists());
    // Nobody else may work here meanwhile, under another name or the same.
    let other = RunCmd::new("other", "1:w", "more").provider(&script);
    let refused = shop.run(&other).fails(4);
    assert!(refused.stderr.contains("another run"), "{}", refused.stderr);
    assert!(!shop.project.claude("teams/other").exists());
    shop.run(&args).fails(4);
    shop.run(&["run", "--resume", "shop"]).fails(4);
    std::fs::write(shop.aside().join("go"), "").unwrap();
    let commit = shop.gate();
    shop.run(&["approve", "--team", "shop", "--commit", &commit])
        .succeeds();
    shop.until("its end", || {
        !std::path::Path::new(&format!("/proc/{host}/cmdline")).exists() || shop.alive().is_empty()
    });
    assert_eq!(shop.git(&["rev-parse", "main"]), commit);
    // What is over is over.
    let events = shop.events().len();
    let again = shop.run(&["run", "--resume", "shop"]).exits(0);
    assert!(again.stdout.contains("complete"), "{}", again.stdout);
    assert_eq!(shop.events().len(), events);
    assert_eq!(shop.left(), [""; 0]);
    shop.has_drafts();
    shop.is_quiet();
}

#[test]
fn whoever_was_asked_to_stop_by_a_killed_host_is_replaced_by_the_next() {
    let shop = Shop::in_use();
    let mut host = begin(&shop, WAITING);
    signal(&host, "-INT");
    shop.until("the drain", || !shop.events_of("signal.drain").is_empty());
    host.kill().unwrap();
    host.wait().unwrap();
    let mut next = shop.call(&["run", "--resume", "shop"]).spawn();
    shop.until("the next host", || {
        !shop.events_of("run.resumed").is_empty()
    });
    std::fs::write(shop.aside().join("go"), "").unwrap();
    assert_eq!(exit_code(&shop, &mut next), Some(0));
    assert_eq!(shop.stage(), "complete");
    assert_eq!(shop.events_of("task.completed").len(), 2);
    assert_eq!(shop.git(&["show", "main:t-2.txt"]), "2");
    shop.has_drafts();
    shop.is_quiet();
}

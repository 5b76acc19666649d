//! Stopping a run at each level, detaching it, and resuming it.

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use teamster_testkit::RunCmd;

use super::Shop;
use crate::studio::terminal::Terminal;

/// Two tasks; each records its start, and waits until it is released.
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

/// Prepares a run of both tasks, which ends at its gate.
fn two_parts(shop: &Shop) -> RunCmd {
    let (script, plan) = (shop.script(WAITING), shop.plan(PLAN));
    let args = RunCmd::new("shop", "1:w", "two parts").provider(&script);
    args.plan(&plan).verify("true")
}

/// Sends a signal to one process.
pub fn signal(pid: u32, signal: &str) {
    let pid = pid.to_string();
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

/// The first level: current tasks are finished, and no other is begun.
fn drains(by: &str) {
    let shop = Shop::in_use();
    let before = shop.of_user();
    let mut host = begin(&shop, WAITING);
    signal(host.id(), by);
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
    signal(host.id(), "-INT");
    shop.until("the drain", || !shop.events_of("signal.drain").is_empty());
    signal(host.id(), "-INT");
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
    signal(host.id(), "-INT");
    shop.until("the drain", || !shop.events_of("signal.drain").is_empty());
    signal(host.id(), "-INT");
    shop.until("the stop", || !shop.events_of("signal.shutdown").is_empty());
    signal(host.id(), "-INT");
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
    // No other run may work here meanwhile, under another name or the same.
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
    // A finished run stays finished.
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
    signal(host.id(), "-INT");
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

#[test]
fn ctrl_c_says_at_once_what_happens_what_is_waited_for_and_what_the_next_one_does() {
    let shop = Shop::in_use();
    let args = two_parts(&shop);
    let out = shop.aside().join("out");
    let mut host = shop
        .call(&args)
        .spawn_into(std::fs::File::create(&out).unwrap());
    let printed = || std::fs::read_to_string(&out).unwrap();
    shop.until("the first task", || shop.aside().join("begun-1").exists());
    signal(host.id(), "-INT");
    // The task is still running, so only an immediate message can be there.
    shop.until("what happens now", || {
        printed().contains("finishing worker-1 (task 1), then stopping; Ctrl-C again: stop now")
    });
    shop.until("the drain", || !shop.events_of("signal.drain").is_empty());
    assert!(shop.events_of("task.completed").is_empty());
    signal(host.id(), "-INT");
    shop.until("the second", || {
        let text = printed();
        text.contains("stopping worker-1 (task 1);") && text.contains("Ctrl-C again: kill")
    });
    assert_eq!(exit_code(&shop, &mut host), Some(13));
    is_cancelled(&shop);
}

#[test]
fn live_lines_go_on_after_ctrl_c() {
    let shop = Shop::in_use();
    let args = two_parts(&shop);
    let terminal = Terminal::of_call(shop.call(&args));
    shop.until("the first task", || shop.aside().join("begun-1").exists());
    terminal.wait_for("task 1 One");
    let host = terminal.id().to_string();
    let sent = Command::new("kill").args(["-INT", &host]).status();
    assert!(sent.unwrap().success());
    terminal.wait_for("finishing worker-1");
    terminal.wait_for("stopping ·");
    // The clock in the live line advances while the run waits for the task.
    let clock = || {
        let text = terminal.text();
        let line = text.lines().rfind(|line| line.contains("stopping ·"));
        line.and_then(|line| line.split(" · ").nth(3).map(str::to_owned))
    };
    let first = clock();
    shop.until("the clock moves on", || {
        let now = clock();
        now.is_some() && now != first
    });
    std::fs::write(shop.aside().join("go"), "").unwrap();
    terminal.exits(13);
    is_cancelled(&shop);
}

#[test]
fn host_that_git_refuses_stops_its_workers_and_says_what_is_left_and_how_to_go_on() {
    let shop = Shop::in_use();
    // The first task ends when the second is being worked on, and leaves a lock that keeps git from moving the team's
    // branch.
    let branch = "refs/heads/omc-team/shop/integration.lock";
    let script = shop.script(&format!(
        "[[step]]\ntask = \"One\"\ndo = \"run\"\ncommand = \"echo 1 > t-1.txt; until test -e ROOT/begun-2; do sleep 0.02; done; \
         touch $(git rev-parse --git-common-dir)/{branch}\"\n\
         [[step]]\ntask = \"Two\"\ndo = \"run\"\ncommand = \"echo 2 > t-2.txt; touch ROOT/begun-2; until test -e ROOT/go; do \
         sleep 0.02; done\"\n"
    ));
    let plan = shop.plan(PLAN);
    let args = RunCmd::new("shop", "2:w", "two parts")
        .provider(&script)
        .plan(&plan)
        .approve("auto")
        .verify("true");
    let ran = shop.run(&args);
    assert!(
        matches!(ran.code, Some(1 | 4)),
        "{:?}: {}",
        ran.code,
        ran.stderr
    );
    shop.is_quiet();
    let text = format!("{}{}", ran.stdout, ran.stderr);
    for part in [
        "integration.lock",
        "left to merge: task ",
        "left: worktree",
        "the workers were stopped, and what they did is kept",
        "resume: `teamster run --resume shop`",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    // Each task is named once, by what is left of it: whether the second was done by then is a matter of timing.
    let left = text.lines().filter_map(|line| {
        let line = line.trim_start();
        let of = line.strip_prefix("left to do: task ");
        of.or_else(|| line.strip_prefix("left to merge: task "))
    });
    let ids = left.flat_map(|list| list.split(" (").next().unwrap().split(", "));
    let mut ids: Vec<&str> = ids.collect();
    ids.sort_unstable();
    assert_eq!(ids, ["1", "2"], "{text}");
    assert!(shop.events_of("run.finished").is_empty());
    std::fs::remove_file(shop.folder().join(".git").join(branch)).unwrap();
    goes_on(&shop);
}

#[test]
fn stages_after_a_resume_are_those_that_happened_with_their_reasons() {
    let shop = Shop::in_use();
    let script =
        shop.script("[[step]]\ndo = \"edit\"\npath = \"made.txt\"\ncontent = \"made\\n\"\n");
    // The check waits for a file, so that the run is stopped in the middle of it.
    let sign = shop.aside().join("go");
    let at = shop.aside().join("at-check");
    let check = format!(
        "test ! -e made.txt || {{ touch {}; until test -e {}; do sleep 0.02; done; }}",
        at.display(),
        sign.display()
    );
    let args = RunCmd::new("shop", "1:w", "make it")
        .provider(&script)
        .approve("auto")
        .verify(&check);
    let mut host = shop.call(&args).spawn();
    shop.until("the check", || at.exists());
    signal(host.id(), "-INT");
    assert_eq!(exit_code(&shop, &mut host), Some(13));
    std::fs::write(&sign, "").unwrap();
    shop.run(&["run", "--resume", "shop"]).exits(0);
    let state = shop.state_file(".omc/state/team-state.json");
    let history = state["stageHistory"].as_array().unwrap().iter();
    let history: Vec<String> = history
        .map(|entry| {
            let told = |key: &str| entry[key].as_str().unwrap().to_owned();
            format!("{}: {}", told("stage"), told("reason"))
        })
        .collect();
    assert_eq!(
        history[..3],
        [
            "team-plan: the run begins",
            "team-exec: the plan is made",
            "team-verify: every task is done",
        ]
    );
    assert_eq!(
        history[3..5],
        [
            "cancelled: a person stopped it",
            "team-verify: the run was taken up again",
        ]
    );
    let repeated = history
        .iter()
        .filter(|entry| entry.ends_with("a person stopped it"));
    assert_eq!(repeated.count(), 1, "{history:?}");
    let session = shop.state_file(".party/session.json");
    let steps = session["phase_history"].as_array().unwrap().iter();
    let stopped = steps.filter(|step| step["reason"] == "a person stopped it");
    let stopped: Vec<&serde_json::Value> = stopped.map(|step| &step["to"]).collect();
    assert_eq!(stopped, ["CANCELLED"]);
}

//! Cancelling a run from outside its terminal, at any stage, and stopping the team of a run without a terminal.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::Child;

use serde_json::Value;
use teamster_testkit::RunCmd;

use super::Shop;

/// A task that records its start, and waits until it is released.
const WAITING: &str = "[[step]]\ndo = \"run\"\ncommand = \"echo made > made.txt; touch ROOT/begun; until test -e ROOT/go; do sleep 0.02; done\"\n";
const MADE: &str = "[[step]]\ndo = \"edit\"\npath = \"made.txt\"\ncontent = \"made\\n\"\n";

fn detached(shop: &Shop, script: &str) {
    let more = ["--verify", "true", "--detach", "--json"];
    shop.scripted_run(script, &more).run().succeeds();
    shop.until("the task", || shop.aside().join("begun").exists());
}

/// Returns the only end of the run so far, which must be a cancellation.
#[track_caller]
fn cancelled(shop: &Shop) -> Value {
    let ends = shop.events_of("run.finished");
    assert_eq!(ends.len(), 1, "{ends:?}");
    let end = ends[0]["data"].clone();
    assert_eq!(
        (&end["outcome"], &end["exitCode"]),
        (&"cancelled".into(), &13.into())
    );
    assert_eq!(
        shop.state_file(".omc/state/team-state.json")["stage"],
        "cancelled"
    );
    assert_eq!(shop.state_file(".party/session.json")["phase"], "CANCELLED");
    end
}

/// Returns the last output of a detached run's host.
fn result_of(shop: &Shop) -> Value {
    let log = std::fs::read_to_string(shop.folder().join(".omc/logs/shop/run.log")).unwrap();
    let results = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut results = results.filter(|line| line["type"] == "result");
    results
        .next_back()
        .unwrap_or_else(|| panic!("no result in\n{log}"))
}

#[track_caller]
fn ends(shop: &Shop, mut host: Child, code: i32) {
    let mut ended = None;
    shop.until("the host ends", || {
        ended = host.try_wait().unwrap();
        ended.is_some()
    });
    assert_eq!(ended.unwrap().code(), Some(code));
}

#[test]
fn detached_run_is_cancelled_from_another_folder_and_can_be_taken_up() {
    let shop = Shop::in_use();
    detached(&shop, WAITING);
    let elsewhere = shop.aside();
    let ran = shop.call(["cancel", "shop"]).folder(&elsewhere).run();
    let ran = ran.exits(0);
    assert!(
        ran.stdout.contains("cancelled: a person cancelled it"),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout.contains("teamster run --resume shop"),
        "{}",
        ran.stdout
    );
    cancelled(&shop);
    shop.is_quiet();
    assert_eq!(result_of(&shop)["exitCode"], 13);
    // Unfinished work is kept.
    assert!(shop.left().join("\n").contains("worker-1"));
    std::fs::write(shop.aside().join("go"), "").unwrap();
    let again = ["run", "--resume", "shop", "--approve", "auto"];
    shop.run(again).exits(0);
    assert_eq!(shop.git(&["show", "main:made.txt"]), "made");
    shop.has_drafts();
}

#[test]
fn shutdown_of_a_detached_run_ends_it_as_cancelled() {
    for args in [
        &["shutdown", "--team", "shop"][..],
        &["shutdown", "--team", "shop", "--force"],
    ] {
        let shop = Shop::in_use();
        detached(&shop, WAITING);
        let ran = shop.run(args).exits(0);
        assert!(ran.stdout.contains("worker-1"), "{}", ran.stdout);
        shop.is_quiet();
        cancelled(&shop);
        assert_eq!(result_of(&shop)["exitCode"], 13, "{args:?}");
        assert!(shop.events_of("worker.restarted").is_empty());
    }
}

#[test]
fn drain_from_elsewhere_lets_the_task_be_finished() {
    let shop = Shop::in_use();
    detached(&shop, WAITING);
    let cancel = shop.call(["cancel", "shop", "--drain", "--json"]).spawn();
    shop.until("the drain", || !shop.events_of("signal.drain").is_empty());
    std::fs::write(shop.aside().join("go"), "").unwrap();
    ends(&shop, cancel, 0);
    cancelled(&shop);
    assert_eq!(shop.events_of("task.completed").len(), 1);
    shop.is_quiet();
}

#[test]
fn run_that_waits_at_its_plan_is_cancelled() {
    let shop = Shop::in_use();
    let more = ["--approve-plan", "--verify", "true"];
    let host = shop.scripted_run(MADE, &more).spawn();
    shop.until("the plan", || !shop.events_of("plan.proposed").is_empty());
    shop.run(["cancel", "shop"]).exits(0);
    ends(&shop, host, 13);
    cancelled(&shop);
    assert!(shop.events_of("task.created").is_empty());
    shop.is_quiet();
}

#[test]
fn run_that_waits_at_its_gate_is_cancelled_with_a_host_and_without() {
    for has_host in [true, false] {
        let shop = Shop::in_use();
        let before = shop.of_user();
        let approve = if has_host { "ask" } else { "never" };
        let host = shop
            .scripted_run(MADE, &["--verify", "true", "--approve", approve])
            .spawn();
        let commit = shop.gate();
        let host = if has_host {
            Some(host)
        } else {
            ends(&shop, host, 0);
            None
        };
        let ran = shop.run(["cancel", "shop", "--json"]).exits(0);
        assert_eq!(ran.json()["outcome"], "cancelled");
        if let Some(host) = host {
            ends(&shop, host, 13);
        }
        assert_eq!(cancelled(&shop)["commit"], commit.as_str());
        assert_eq!(shop.of_user(), before);
        let late = shop.run(["approve", "--team", "shop", "--commit", &commit]);
        let late = late.fails(4);
        assert!(late.stderr.contains("cancelled"), "{}", late.stderr);
        shop.is_quiet();
        // After a resume it is at its gate again.
        shop.run(["run", "--resume", "shop", "--approve", "auto"])
            .exits(0);
        assert_eq!(shop.git(&["show", "main:made.txt"]), "made");
    }
}

#[test]
fn run_whose_host_was_killed_is_cancelled_with_whoever_is_left() {
    let shop = Shop::in_use();
    let mut host = shop.scripted_run(WAITING, &["--verify", "true"]).spawn();
    shop.until("the task", || shop.aside().join("begun").exists());
    host.kill().unwrap();
    host.wait().unwrap();
    shop.run(["cancel", "shop"]).exits(0);
    cancelled(&shop);
    shop.is_quiet();
    assert!(shop.report().contains("Cancelled"), "{}", shop.report());
}

#[test]
fn cancelling_is_refused_to_agents_and_says_where_there_is_nothing_to_cancel() {
    let shop = Shop::in_use();
    let tries = WAITING.replace(
        "touch ROOT/begun",
        "teamster cancel shop > ROOT/said 2>&1; echo $? > ROOT/code; touch ROOT/begun",
    );
    let script = shop.script(&tries);
    let args = RunCmd::new("shop", "1:w", "mend it")
        .provider(&script)
        .verify("true")
        .approve("auto");
    let host = shop.call(&args).spawn();
    shop.until("the task", || shop.aside().join("begun").exists());
    let said = |name: &str| std::fs::read_to_string(shop.aside().join(name)).unwrap();
    assert_eq!(said("code").trim(), "6", "{}", said("said"));
    assert!(shop.events_of("run.stop_requested").is_empty());
    std::fs::write(shop.aside().join("go"), "").unwrap();
    ends(&shop, host, 0);
    let over = shop.run(["cancel", "shop"]).fails(5);
    assert!(over.stderr.contains("is over, complete"), "{}", over.stderr);
    shop.run(["cancel", "nobody"]).fails(3);
    shop.run(["team", "create", "plain"]).succeeds();
    let plain = shop.run(["cancel", "plain"]).fails(3);
    assert!(
        plain.stderr.contains("was not made by a run"),
        "{}",
        plain.stderr
    );
}

#[test]
fn forced_removal_of_a_team_ends_its_run_and_removes_all_of_it() {
    let shop = Shop::in_use();
    detached(&shop, WAITING);
    let kept = shop.run(["team", "delete", "shop"]).fails(4);
    assert!(kept.stderr.contains("host (pid "), "{}", kept.stderr);
    assert!(!shop.alive().is_empty(), "nobody was touched");
    shop.run(["team", "delete", "shop", "--force"]).exits(0);
    shop.is_quiet();
    assert!(!shop.project.claude("teams/shop").exists());
    assert!(!shop.project.claude("tasks/shop").exists());
    let kept = shop.folder().join(".omc/reports/shop/events.jsonl");
    let journal = std::fs::read_to_string(kept).unwrap();
    assert!(journal.contains("\"run.finished\""), "{journal}");
    shop.has_drafts();
}

#[test]
fn forced_removal_touches_nothing_where_somebody_cannot_be_ended() {
    let shop = Shop::in_use();
    detached(&shop, WAITING);
    // A worker that is known only by its heartbeat, with a process that teamster did not start.
    let beat = std::fs::read_to_string(
        shop.folder()
            .join(".omc/state/team-bridge/shop/worker-1.heartbeat.json"),
    );
    let beats = shop.project.files();
    let mut foreign: Value =
        serde_json::from_str(&beat.unwrap_or_else(|_| panic!("{beats:?}"))).unwrap();
    foreign["workerName"] = "other".into();
    foreign["host"] = "elsewhere".into();
    foreign["bootId"] = "another-boot".into();
    foreign["pidNs"] = "another".into();
    foreign.as_object_mut().unwrap().remove("launch");
    foreign["lastPollAt"] = crate::kit::now().to_string().into();
    shop.project.write(
        ".omc/state/team-bridge/shop/other.heartbeat.json",
        &foreign.to_string(),
    );
    // A shell that waits in a loop starts a new `sleep` again and again.
    let alive = || {
        let is_lasting = |pid: &u32| {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
            name.is_ok_and(|name| !["sleep", "test"].contains(&name.trim()))
        };
        shop.alive()
            .into_iter()
            .filter(is_lasting)
            .collect::<Vec<_>>()
    };
    let before = alive();
    let refused = shop.run(["team", "delete", "shop", "--force"]).fails(4);
    assert!(
        refused.stderr.contains("other (heartbeat"),
        "{}",
        refused.stderr
    );
    assert_eq!(alive(), before, "nobody was touched");
    assert!(shop.events_of("run.stop_requested").is_empty());
    std::fs::remove_file(
        shop.folder()
            .join(".omc/state/team-bridge/shop/other.heartbeat.json"),
    )
    .unwrap();
    shop.run(["cancel", "shop", "--force"]).exits(0);
    shop.is_quiet();
}

/// A message is one write with its newline, so that simultaneous writes of other processes do not break it up.
#[test]
fn messages_of_a_shutdown_have_a_line_each_in_a_pipe() {
    let shop = Shop::in_use();
    detached(&shop, WAITING);
    let (ours, theirs) = UnixDatagram::pair().unwrap();
    let mut command = shop.call(["shutdown", "--team", "shop"]).command();
    command.stderr(OwnedFd::from(theirs.try_clone().unwrap()));
    command.stdout(OwnedFd::from(theirs));
    let ended = command.status().unwrap();
    assert!(ended.success());
    drop(command);
    ours.set_nonblocking(true).unwrap();
    let mut messages = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(length) = ours.recv(&mut buffer) {
        if length == 0 {
            break;
        }
        messages.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
    }
    assert!(messages.len() >= 2, "{messages:?}");
    for message in &messages {
        assert!(message.ends_with('\n'), "{messages:?}");
        assert!(message.trim_end().len() > 1, "{messages:?}");
    }
}

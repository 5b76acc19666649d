//! Invalid settings of a project must not prevent a user from stopping something.

use std::process::Command;

use super::runs;
use crate::kit::Ran;
use crate::run::Shop;

const BAD: &str = "[claim]\nlease = \"soon\"\n[store]\npatience = 3\n";

/// Asserts that the command succeeded and warned in one line that settings were ignored.
#[track_caller]
fn warns_once(ran: &Ran) {
    let warnings = ran.stderr.lines().filter(|line| line.contains("warning:"));
    let warnings: Vec<&str> = warnings.collect();
    assert_eq!(warnings.len(), 1, "{}", ran.stderr);
    assert!(warnings[0].contains("config.toml, line 2"), "{warnings:?}");
}

#[test]
fn workers_and_teams_are_stopped_although_a_setting_is_bad() {
    let shop = Shop::new();
    shop.run(&["team", "create", "shop"]).exits(0);
    for name in ["ann", "ben"] {
        let start = ["worker", "start", "--team", "shop", "--in-place", "--name"];
        let more = [name, "--provider", "command:true"];
        shop.call(start.iter().chain(&more)).run().exits(0);
    }
    shop.project.write(".teamster/config.toml", BAD);
    shop.run(&["worker", "list", "--team", "shop"]).exits(2);
    for words in [
        ["worker", "stop", "ann", "--team", "shop"].as_slice(),
        &["shutdown", "--team", "shop"],
        &["zombies", "reap", "--kill"],
        &["team", "delete", "shop"],
    ] {
        warns_once(&shop.run(words).exits(0));
    }
    shop.is_quiet();
    assert!(!shop.project.claude("teams/shop").exists());
}

#[test]
fn work_is_rejected_although_a_setting_is_bad() {
    let shop = Shop::new();
    let never = ["--verify", "true", "--approve", "never"];
    shop.scripted_run(&runs("echo mended >> news.txt"), &never)
        .run()
        .exits(0);
    shop.project.write(".teamster/config.toml", BAD);
    // The host that carries out a rejection may be one that resumes the run.
    warns_once(&shop.run(&["run", "--resume", "shop"]).exits(0));
    let commit = shop.asked();
    let reject = ["reject", "--team", "shop", "--commit", &commit];
    // From another folder the project's settings are also read.
    let elsewhere = shop.aside();
    let call = shop.call(&reject).folder(&elsewhere);
    call.run().exits(10);
    assert_eq!(shop.stage(), "rejected");
}

#[test]
fn run_is_interrupted_although_a_setting_has_become_bad() {
    let shop = Shop::new();
    let script = runs("touch ROOT/at-work; until test -e ROOT/never; do sleep 0.02; done");
    let mut run = shop.scripted_run(&script, &["--verify", "true"]).spawn();
    shop.until("the worker", || shop.aside().join("at-work").exists());
    shop.project.write(".teamster/config.toml", BAD);
    let pid = run.id().to_string();
    let interrupt = || Command::new("kill").args(["-INT", &pid]).status().unwrap();
    interrupt();
    shop.until("the drain", || !shop.events_of("signal.drain").is_empty());
    interrupt();
    assert_eq!(run.wait().unwrap().code(), Some(13));
    shop.is_quiet();
}

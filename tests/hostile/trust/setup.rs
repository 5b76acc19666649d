//! `worktree.setup` of a project, wherever a worktree is prepared.

use super::{Canary, runs};
use crate::run::Shop;

const NEVER: [&str; 4] = ["--verify", "true", "--approve", "never"];

/// Starts a run that waits at the gate, then adds settings that were not accepted.
fn at_gate_with_new_setup() -> (Shop, String) {
    let shop = Shop::new();
    shop.scripted_run(&runs("echo mended >> news.txt"), &NEVER)
        .run()
        .exits(0);
    let commit = shop.asked();
    Canary::new(&shop).plant_setup();
    (shop, commit)
}

#[test]
fn setup_that_nobody_accepted_does_not_run_at_approve() {
    let (shop, commit) = at_gate_with_new_setup();
    shop.run(&["approve", "--team", "shop", "--commit", &commit])
        .exits(0);
    assert_eq!(Canary::new(&shop).calls(), 0);
    assert!(shop.git(&["show", "main:news.txt"]).contains("mended"));
}

#[test]
fn setup_that_nobody_accepted_does_not_run_at_reject() {
    let (shop, commit) = at_gate_with_new_setup();
    shop.run(&["reject", "no", "--team", "shop", "--commit", &commit])
        .exits(10);
    assert_eq!(Canary::new(&shop).calls(), 0);
}

#[test]
fn revise_with_unaccepted_setup_is_refused_and_leaves_the_gate_open() {
    let (shop, commit) = at_gate_with_new_setup();
    let at = ["--team", "shop", "--commit", &commit];
    let refused = shop
        .call(["revise", "more"].iter().chain(&at))
        .run()
        .exits(6);
    assert!(
        refused.stderr.contains("`teamster trust`"),
        "{}",
        refused.stderr
    );
    assert_eq!(Canary::new(&shop).calls(), 0);
    shop.call(["approve"].iter().chain(&at)).run().exits(0);
    assert!(shop.git(&["show", "main:news.txt"]).contains("mended"));
}

#[test]
fn resume_with_unaccepted_setup_is_refused_until_it_is_accepted() {
    let shop = Shop::new();
    let canary = Canary::new(&shop);
    let script = runs("echo mended >> news.txt")
        + &runs("echo again >> news.txt").replace("mend it", "Fix what");
    let verify = ["--verify", "! grep -q mended news.txt", "--max-fix", "0"];
    shop.scripted_run(&script, &verify).run().exits(11);
    canary.plant_setup();
    let resume = ["run", "--resume", "shop", "--max-fix", "1"];
    let refused = shop.run(&resume).exits(6);
    assert!(
        refused.stderr.contains("`teamster trust`"),
        "{}",
        refused.stderr
    );
    assert_eq!(canary.calls(), 0);
    shop.run(&["trust", "--yes"]).exits(0);
    shop.run(&resume).exits(11);
    assert!(canary.calls() > 0, "accepted setup runs");
}

#[test]
fn setup_that_appears_while_a_worker_works_does_not_run_before_the_checks() {
    let shop = Shop::new();
    let canary = Canary::new(&shop);
    let settings = format!("[worktree]\nsetup = [{:?}]\n", canary.command());
    std::fs::write(shop.aside().join("config.toml"), settings).unwrap();
    let project = shop.folder();
    let script = runs(&format!(
        "echo mended >> news.txt; mkdir -p {0}/.teamster; cp ROOT/config.toml {0}/.teamster",
        project.display()
    ));
    let verify = ["--verify", "true", "--approve", "auto"];
    let refused = shop.scripted_run(&script, &verify).run().exits(6);
    assert!(
        refused.stderr.contains("`teamster trust`"),
        "{}",
        refused.stderr
    );
    assert_eq!(canary.calls(), 0);
    shop.run(&["trust", "--yes"]).exits(0);
    shop.run(&["run", "--resume", "shop"]).exits(0);
    assert!(canary.calls() > 0, "accepted setup runs");
    assert!(shop.git(&["show", "main:news.txt"]).contains("mended"));
    shop.is_quiet();
}

#[test]
fn revoked_setup_does_not_run_when_a_moved_branch_is_verified_again() {
    let shop = Shop::new();
    let canary = Canary::new(&shop);
    canary.plant_setup();
    let more = [NEVER.as_slice(), &["--trust-project"]].concat();
    shop.scripted_run(&runs("echo mended >> news.txt"), &more)
        .run()
        .exits(0);
    let (commit, calls) = (shop.asked(), canary.calls());
    assert!(calls > 0, "accepted setup runs");
    shop.run(&["trust", "--revoke"]).exits(0);
    shop.git(&["commit", "--quiet", "--allow-empty", "--message", "Later"]);
    let refused = shop
        .run(&["approve", "--team", "shop", "--commit", &commit])
        .exits(6);
    assert!(
        refused.stderr.contains("`teamster trust`"),
        "{}",
        refused.stderr
    );
    assert_eq!(canary.calls(), calls);
}

//! Checks that are detected in the files of a project.

use crate::studio::terminal::Terminal;
use std::os::unix::fs::PermissionsExt;

use super::{Canary, runs};
use crate::kit::Call;
use crate::run::Shop;

const AUTO: [&str; 2] = ["--approve", "auto"];

/// Makes a shop with a Makefile, in which `make` and `go` count their calls.
fn shop_with_makefile() -> Shop {
    let shop = Shop::new();
    shop.project.write("Makefile", "test:\n\ttrue\n");
    shop.git(&["add", "Makefile"]);
    shop.git(&["commit", "--quiet", "--message", "Add a Makefile"]);
    let programs = shop.aside().join("bin");
    std::fs::create_dir(&programs).unwrap();
    for program in ["make", "go"] {
        let file = programs.join(program);
        let text = format!("#!/bin/sh\n{}\n", Canary::new(&shop).command());
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(file, PermissionsExt::from_mode(0o755)).unwrap();
    }
    shop
}

/// Puts the shop's programs before those of the system on `PATH`.
fn with_programs(shop: &Shop, call: Call) -> Call {
    let path = format!("{}/bin:/usr/bin:/bin", shop.aside().display());
    call.env("PATH", path)
}

fn run(shop: &Shop, more: &[&str]) -> crate::kit::Ran {
    let more = [AUTO.as_slice(), more].concat();
    let call = shop.scripted_run(&runs("echo mended >> news.txt"), &more);
    with_programs(shop, call).run()
}

#[test]
fn check_found_in_a_fresh_clone_does_not_run_before_it_was_accepted() {
    let shop = shop_with_makefile();
    let canary = Canary::new(&shop);
    let refused = run(&shop, &[]).exits(6);
    for part in [
        "make test",
        "Makefile",
        "`teamster trust`",
        "--trust-project",
        "--verify CMD",
    ] {
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }
    assert!(!shop.project.claude("teams/shop").exists());
    run(&shop, &["--dry-run"]).exits(0);
    assert_eq!(canary.calls(), 0);
    run(&shop, &["--trust-project"]).exits(0);
    let calls = canary.calls();
    assert!(calls > 0, "an accepted check runs");
    // Accepting once is enough.
    shop.run(&["team", "delete", "shop"]).exits(0);
    run(&shop, &[]).exits(0);
    assert!(canary.calls() > calls, "an accepted check runs again");
}

#[test]
fn check_given_by_the_person_runs_alone_and_needs_no_trust() {
    let shop = shop_with_makefile();
    run(&shop, &["--verify", "grep -q new news.txt"]).exits(0);
    assert_eq!(Canary::new(&shop).calls(), 0);
}

#[test]
fn check_that_is_new_is_asked_about_without_those_that_were_accepted() {
    let shop = shop_with_makefile();
    let call = |words: &[&str]| with_programs(&shop, shop.call(words)).run();
    let shown = call(&["trust", "--show"]).exits(0).stdout;
    assert!(
        shown.contains("verify: make test\n    (Makefile)"),
        "{shown}"
    );
    call(&["trust", "--yes"]).exits(0);
    shop.project.write("Makefile", "test:\n\tfalse\n");
    let shown = call(&["trust", "--show", "--json"]).exits(0).json();
    assert_eq!(shown["state"], "accepted");
    shop.project.write("go.mod", "module m\n");
    let shown = call(&["trust", "--show", "--json"]).exits(0).json();
    assert_eq!(shown["state"], "changed");
    let refused = run(&shop, &[]).exits(6);
    assert!(
        refused.stderr.contains("go test ./..."),
        "{}",
        refused.stderr
    );
    assert!(!refused.stderr.contains("make test"), "{}", refused.stderr);
    assert_eq!(Canary::new(&shop).calls(), 0);
}

#[test]
fn check_that_was_revoked_does_not_run_when_a_moved_branch_is_verified_again() {
    let shop = shop_with_makefile();
    let canary = Canary::new(&shop);
    let call = shop.scripted_run(
        &runs("echo mended >> news.txt"),
        &["--approve", "never", "--trust-project"],
    );
    with_programs(&shop, call).run().exits(0);
    let (commit, calls) = (shop.asked(), canary.calls());
    shop.run(&["trust", "--revoke"]).exits(0);
    shop.git(&["commit", "--quiet", "--allow-empty", "--message", "Later"]);
    let approve = ["approve", "--team", "shop", "--commit", &commit];
    let refused = with_programs(&shop, shop.call(&approve)).run().exits(6);
    assert!(refused.stderr.contains("make test"), "{}", refused.stderr);
    assert_eq!(canary.calls(), calls);
    // The run can continue with the check after its source file is gone.
    std::fs::remove_file(shop.folder().join("Makefile")).unwrap();
    let resume = ["run", "--resume", "shop", "--trust-project"];
    with_programs(&shop, shop.call(&resume)).run().exits(0);
    assert!(canary.calls() > calls, "an accepted check runs");
}

#[test]
fn trust_file_of_an_older_version_accepts_settings_and_no_checks() {
    let shop = shop_with_makefile();
    Canary::new(&shop).plant_setup();
    let call = |words: &[&str]| with_programs(&shop, shop.call(words)).run();
    call(&["trust", "--yes"]).exits(0);
    let file = shop.aside().join(".config/teamster/trust.json");
    let mut trust: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let projects = trust["projects"].as_object_mut().unwrap();
    for project in projects.values_mut() {
        project.as_object_mut().unwrap().remove("checks").unwrap();
    }
    std::fs::write(&file, trust.to_string()).unwrap();
    let refused = run(&shop, &[]).exits(6);
    assert!(refused.stderr.contains("make test"), "{}", refused.stderr);
    assert!(
        !refused.stderr.contains("worktree.setup"),
        "{}",
        refused.stderr
    );
    run(&shop, &["--verify", "true"]).exits(0);
}

#[test]
fn check_that_was_found_is_shown_and_asked_about_at_a_terminal() {
    let shop = shop_with_makefile();
    let canary = Canary::new(&shop);
    let provider = shop.script(&runs("echo mended >> news.txt"));
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_teamster"));
    let path = format!(
        "{}/bin:{}:/usr/bin:/bin",
        shop.aside().display(),
        binary.parent().unwrap().display()
    );
    let words = ["run", "1:w", "mend it", "--team", "shop", "--provider"];
    let more = [provider.as_str(), "--approve", "auto"];
    let answer = |text: &str, code: i32| {
        let call = shop.call(words.iter().chain(&more)).env("PATH", &path);
        let mut terminal = Terminal::of_call(call);
        terminal.wait_for("verify: make test");
        terminal.wait_for("Run them? [y/N]");
        terminal.press(text);
        terminal.exits(code);
    };
    answer("n\n", 6);
    assert_eq!(canary.calls(), 0);
    answer("y\n", 0);
    assert!(canary.calls() > 0, "an accepted check runs");
}

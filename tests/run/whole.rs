//! A whole run: planned, worked on, in conflict, merged, verified, fixed, asked about, and decided.

use super::shop::Shop;

/// Everything up to the gate, which nobody answers.
fn at_gate() -> Shop {
    let shop = Shop::in_use();
    shop.whole_run(&["--approve", "never"]).run().exits(0);
    shop
}

fn kinds(shop: &Shop, kind: &str) -> usize {
    shop.events_of(kind).len()
}

#[test]
fn approved_work_lands_and_nothing_else_is_touched_or_left() {
    let shop = at_gate();
    let before = shop.git(&["rev-parse", "main"]);
    shop.has_drafts();
    shop.is_quiet();
    assert_eq!(kinds(&shop, "merge.conflict"), 1);
    assert_eq!(kinds(&shop, "merge.merged"), 5);
    let stages: Vec<String> = shop
        .events_of("run.stage")
        .iter()
        .map(|event| event["data"]["to"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        stages,
        ["plan", "execute", "verify", "fix", "verify", "approval"]
    );
    let commit = shop.asked();
    let approved = shop.run(&["approve", "--team", "shop", "--commit", &commit]);
    approved.exits(0);
    assert_eq!(shop.git(&["rev-parse", "main"]), commit);
    let range = format!("{before}..main");
    let merges = shop.git(&["log", "--merges", "--first-parent", "--format=%s", &range]);
    assert_eq!(merges.lines().count(), 4, "{merges}");
    // The tests are run on what was committed, where the user's own files cannot help.
    let fresh = shop.aside().join("fresh");
    shop.git(&["worktree", "add", "--quiet", fresh.to_str().unwrap(), "main"]);
    for suite in ["test.sh", "check.sh"] {
        let ran = std::process::Command::new("sh")
            .arg(suite)
            .current_dir(&fresh)
            .status();
        assert!(ran.unwrap().success(), "{suite}");
    }
    shop.git(&["worktree", "remove", "--force", fresh.to_str().unwrap()]);
    assert_eq!(shop.left(), [""; 0]);
    shop.has_drafts();
    shop.is_quiet();
    let report = shop.report();
    for part in ["Mend adding", "sh check.sh", "news.txt"] {
        assert!(report.contains(part), "{part} is not in\n{report}");
    }
}

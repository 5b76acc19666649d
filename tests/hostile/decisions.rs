//! Simultaneous decisions at the gate: exactly one counts, and the others are reported as conflicts.

use std::process::Child;

use crate::run::Shop;

/// Every task makes a new commit, including that of a revision.
const NEWS: &str = "[[step]]\ndo = \"run\"\ncommand = \"echo $TEAMSTER_TASK_ID >> news.txt\"\n";

/// Makes six decisions about one gate, all started before any of them has ended.
fn race(first: usize) {
    let shop = Shop::in_use();
    let before = shop.git(&["rev-parse", "main"]);
    shop.scripted_run(NEWS, &["--approve", "never", "--verify", "true"])
        .run()
        .exits(0);
    let commit = shop.asked();
    let asked = shop.events_of("approval.requested").remove(0);
    let mut all = [
        &["approve", "--team", "shop", "--commit", &commit][..],
        &["reject", "--team", "shop", "--commit", &commit],
        &["revise", "once more", "--team", "shop", "--commit", &commit],
    ];
    all.rotate_left(first);
    let mut racers: Vec<(&str, Child)> = all
        .iter()
        .chain(&all)
        .map(|args| (args[0], shop.call(*args).spawn()))
        .collect();
    let ends: Vec<(&str, Option<i32>)> = racers
        .iter_mut()
        .map(|(word, child)| (*word, child.wait().unwrap().code()))
        .collect();
    let mut decided = shop.events();
    decided.retain(|event| event["data"]["gate"] == asked["data"]["gate"]);
    decided.retain(|event| event["type"].as_str().unwrap().starts_with("approval."));
    let words = [
        ("approval.given", "approve"),
        ("approval.refused", "reject"),
        ("approval.revised", "revise"),
    ];
    let taken: Vec<&str> = decided
        .iter()
        .filter_map(|event| words.iter().find(|(kind, _)| event["type"] == *kind))
        .map(|(_, word)| *word)
        .collect();
    assert_eq!(taken.len(), 1, "{ends:?}: {decided:?}");
    for (word, code) in &ends {
        assert!(
            *word == taken[0] || !matches!(code, Some(0) | None),
            "{word} ended with {code:?} although it was {taken:?}: {ends:?}"
        );
    }
    let main = shop.git(&["rev-parse", "main"]);
    let expected = if taken[0] == "approve" {
        commit
    } else {
        before
    };
    assert_eq!(main, expected, "{taken:?}");
    shop.has_drafts();
}

#[test]
fn eighteen_decisions_in_three_races_are_one_decision_each() {
    std::thread::scope(|scope| {
        for first in 0..3 {
            scope.spawn(move || race(first));
        }
    });
}

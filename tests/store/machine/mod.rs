//! A store in files against a simple model, while its processes die at any file operation and others write the same
//! files.
//!
//! After a death the operation has happened whole or not at all; the next one succeeds; nothing is left lying
//! about; the journal alone still rebuilds the files; and in the end whatever can be claimed is given to somebody.

mod act;
mod choose;
mod mail;
mod model;
mod ops;
mod others;
mod run;
mod world;

use std::cell::RefCell;

use proptest::test_runner::{Config, TestCaseError, TestRunner};

use run::{Counts, Run};

/// How many sequences of operations; nightly runs set more.
const CASES: u32 = 200;

#[test]
fn a_store_whose_processes_die_anywhere_behaves_like_one_whose_do_not() {
    let cases = std::env::var("TEAMSTER_CASES")
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or(CASES);
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 3_000,
        ..Config::default()
    };
    let counts = RefCell::new(Counts::default());
    let steps = proptest::collection::vec(ops::step(), 1..50);
    let ran = TestRunner::new(config).run(&steps, |steps| {
        let mut run = Run::new();
        let told = steps
            .iter()
            .try_for_each(|step| run.step(step))
            .and_then(|()| run.end());
        counts.borrow_mut().add(&run.counts);
        told.map_err(|wrong| TestCaseError::fail(format!("{wrong}\nafter\n{}", run.log.join("\n"))))
    });
    let counts = counts.into_inner();
    if let Err(error) = ran {
        panic!("{error}\n{counts:?}");
    }
    println!("{cases} sequences: {counts:?}");
    assert!(counts.deaths > 0, "nobody died: {counts:?}");
    assert!(counts.committed > 0, "no death came after the commit");
    assert!(counts.undone > 0, "no death came before the commit");
    assert!(counts.menders > 0, "nobody died while mending");
}

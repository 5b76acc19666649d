//! The one suite, on every back end there is.

use std::time::Duration;

use teamster_testkit::MemStore;
use teamster_testkit::conformance::{StoreFixture, run_all};
use teamster_testkit::scratch::{Scratch, gone, stopped_clock};
use teamster_types::process::{Life, ProcessId};

const PATIENCE: Duration = Duration::from_secs(5);

#[test]
fn the_file_store_conforms() {
    let mut scratches = Vec::new();
    run_all("file", |test| {
        let scratch = Scratch::new(test);
        let clock = stopped_clock();
        let project = scratch.project().display().to_string();
        let fixture = StoreFixture::new(
            scratch.store(clock.clone(), PATIENCE),
            scratch.store(clock.clone(), PATIENCE).claiming_as(gone()),
            clock,
            &project,
        );
        scratches.push(scratch);
        fixture
    });
}

#[test]
fn the_memory_store_conforms() {
    run_all("memory", |_| {
        let clock = stopped_clock();
        let dead = gone();
        let alive = ProcessId {
            process_start_time: dead.process_start_time + 1,
            ..dead.clone()
        };
        let judged = dead.clone();
        let store = MemStore::new(clock.clone(), alive, move |process| {
            if *process == judged {
                Life::Gone
            } else {
                Life::Alive
            }
        });
        let ghost = store.claiming_as(dead);
        StoreFixture::new(store, ghost, clock, "/project")
    });
}

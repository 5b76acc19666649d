//! Eight concurrent clients, and a check that their operations are linearizable.

use std::sync::Arc;
use std::time::{Duration, Instant};

use teamster_store::Store;
use teamster_testkit::drive::{CLIENTS, ClientHandles, DriveResult, drive};
use teamster_testkit::scratch::{Scratch, gone, stopped_clock};
use teamster_testkit::{ManualClock, MemStore};
use teamster_types::process::{ProcessId, ProcessState};

/// The number of histories of 200 operations each, on both stores together; nightly runs set more. The file store is
/// slow, so most of them run in memory.
const HISTORIES: u64 = 1_000;

fn histories() -> u64 {
    let set = std::env::var("TEAMSTER_HISTORIES").ok();
    set.and_then(|count| count.parse().ok())
        .unwrap_or(HISTORIES)
}

fn in_files(scratch: &Scratch, patience: Duration, deaths: u64) -> ClientHandles {
    let clock = stopped_clock();
    let face = |_| -> (Box<dyn Store>, Box<dyn Store>) {
        let open = || scratch.store(clock.clone(), patience);
        (Box::new(open()), Box::new(open().claiming_as(gone())))
    };
    ClientHandles {
        faces: (0..CLIENTS).map(face).collect(),
        clock: clock.clone(),
        deaths,
    }
}

fn in_memory() -> ClientHandles {
    let clock: Arc<ManualClock> = stopped_clock();
    let dead = gone();
    let alive = ProcessId {
        process_start_time: dead.process_start_time + 1,
        ..dead.clone()
    };
    let judged = dead.clone();
    let store = MemStore::new(clock.clone(), alive.clone(), move |process| {
        if *process == judged {
            ProcessState::Gone
        } else {
            ProcessState::Alive
        }
    });
    let face = |_| -> (Box<dyn Store>, Box<dyn Store>) {
        let living = store.claiming_as(alive.clone());
        (Box::new(living), Box::new(store.claiming_as(dead.clone())))
    };
    ClientHandles {
        faces: (0..CLIENTS).map(face).collect(),
        clock,
        deaths: 0,
    }
}

/// The results of a number of histories.
struct Judged {
    operations: usize,
    deaths: u64,
    said: String,
}

/// Runs and checks this many histories.
fn judge_all(store: &str, faces: &ClientHandles, project: &str, count: u64) -> Judged {
    let start = Instant::now();
    let (mut operations, mut died) = (0, 0);
    for number in 0..count {
        let DriveResult { history, deaths } = drive(faces, number, project);
        operations += history.entries.len();
        died += deaths;
        if let Err(wrong) = history.judge() {
            panic!("history {number} on the {store} store: {wrong}");
        }
    }
    let said = format!(
        "{store}: {count} histories of {CLIENTS} clients, {operations} operations, {died} deaths, {:.1} s",
        start.elapsed().as_secs_f32()
    );
    Judged {
        operations,
        deaths: died,
        said,
    }
}

#[test]
fn histories_in_memory_are_linearizable() {
    let count = histories() * 7 / 10;
    let judged = judge_all("memory", &in_memory(), "/project", count);
    println!("{}", judged.said);
    assert!(judged.operations as u64 >= count * 190);
}

#[test]
fn histories_in_files_are_linearizable() {
    let scratch = Scratch::new("histories");
    let faces = in_files(&scratch, Duration::from_secs(30), 0);
    let project = scratch.project().display().to_string();
    let count = histories() * 3 / 10;
    let judged = judge_all("file", &faces, &project, count);
    println!("{}", judged.said);
    assert!(judged.operations as u64 >= count * 190);
}

#[test]
fn histories_in_files_are_linearizable_though_clients_die() {
    let scratch = Scratch::new("deadly-histories");
    let faces = in_files(&scratch, Duration::from_millis(100), 8);
    let project = scratch.project().display().to_string();
    let judged = judge_all("file", &faces, &project, histories() / 20);
    println!("{}", judged.said);
    assert!(judged.deaths > 0, "nobody died");
}

//! Watching for changes as they happen.

use std::time::{Duration, Instant};

use teamster_store::{Change, Watch};

use super::fixture::{StoreFixture, worker};

/// The timeout, which is longer than any watcher needs.
const PATIENCE: Duration = Duration::from_secs(10);
const GLANCE: Duration = Duration::from_millis(20);

fn open(fixture: &StoreFixture, after: u64) -> Box<dyn Watch> {
    fixture
        .store
        .watch(&fixture.team, after)
        .unwrap_or_else(|error| panic!("watch: {error}"))
}

/// Returns the positions of events up to `last`; other changes are skipped.
fn events_until(watch: &mut dyn Watch, last: u64) -> Vec<u64> {
    let start = Instant::now();
    let mut seen = Vec::new();
    while seen.last() != Some(&last) && start.elapsed() < PATIENCE {
        seen.extend(positions(&wait(watch, PATIENCE)));
    }
    seen
}

fn wait(watch: &mut dyn Watch, patience: Duration) -> Vec<Change> {
    watch
        .wait(patience)
        .unwrap_or_else(|error| panic!("wait: {error}"))
}

fn positions(changes: &[Change]) -> Vec<u64> {
    let events = changes.iter();
    events
        .filter_map(|change| match change {
            Change::Event(event) => Some(event.seq),
            _ => None,
        })
        .collect()
}

pub(super) fn every_event_is_seen_once_and_in_order(fixture: &StoreFixture) {
    let mut watch = open(fixture, fixture.position());
    let begin = fixture.position();
    for number in 0..5 {
        fixture.create(&format!("number {number}"));
        let claimed = fixture.claim("worker-1");
        fixture.renew(&claimed);
        fixture.complete(&claimed);
    }
    let end = fixture.position();
    let seen = events_until(&mut *watch, end);
    assert_eq!(seen, (begin + 1..=end).collect::<Vec<_>>());
    let later = positions(&wait(&mut *watch, GLANCE));
    assert_eq!(later, Vec::<u64>::new(), "each once");
    fixture.create("one more");
    assert_eq!(events_until(&mut *watch, end + 1), [end + 1]);
}

pub(super) fn a_watcher_that_comes_late_sees_what_it_missed(fixture: &StoreFixture) {
    for number in 0..5 {
        fixture.create(&format!("number {number}"));
    }
    let mut from_the_start = open(fixture, 0);
    let mut from_the_middle = open(fixture, 3);
    assert_eq!(
        events_until(&mut *from_the_start, 6),
        (1..=6).collect::<Vec<_>>()
    );
    assert_eq!(events_until(&mut *from_the_middle, 6), [4, 5, 6]);
}

pub(super) fn a_watcher_sees_what_others_do_meanwhile(fixture: &StoreFixture) {
    const TASKS: u64 = 30;
    let mut watch = open(fixture, fixture.position());
    let begin = fixture.position();
    let seen = std::thread::scope(|scope| {
        let watcher = scope.spawn(move || events_until(&mut *watch, begin + TASKS));
        for number in 0..TASKS {
            fixture.create(&format!("number {number}"));
        }
        watcher
            .join()
            .unwrap_or_else(|_| panic!("the watcher failed"))
    });
    assert_eq!(seen, (begin + 1..=begin + TASKS).collect::<Vec<_>>());
}

pub(super) fn beats_are_seen_as_they_come_and_go(fixture: &StoreFixture) {
    let mut watch = open(fixture, fixture.position());
    let mut beats = |count: usize| {
        let start = Instant::now();
        let mut seen = Vec::new();
        while seen.len() < count && start.elapsed() < PATIENCE {
            let changes = wait(&mut *watch, PATIENCE);
            seen.extend(changes.into_iter().filter_map(|change| match change {
                Change::Beat(worker) => Some(worker),
                _ => None,
            }));
        }
        seen.sort_unstable();
        seen
    };
    fixture.beat("worker-1", |_| {});
    fixture.beat("worker-2", |_| {});
    assert_eq!(beats(2), [worker("worker-1"), worker("worker-2")]);
    fixture.wait_secs(3);
    fixture.beat("worker-2", |beat| beat.consecutive_errors = 1);
    assert_eq!(beats(1), [worker("worker-2")]);
    let ended = fixture
        .store
        .remove_heartbeat(&fixture.team, &worker("worker-1"));
    fixture.step("end the beat", ended);
    assert_eq!(beats(1), [worker("worker-1")]);
}

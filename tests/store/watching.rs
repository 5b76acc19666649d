//! Watching a team in the file store.

use std::time::{Duration, Instant};

use serde_json::json;
use teamster_store::{Change, ReadStore, Watch};

use super::FileTeam;

const PATIENCE: Duration = Duration::from_secs(10);

/// Waits until a matching change is seen; returns how long that took.
fn until(watch: &mut dyn Watch, wanted: impl Fn(&Change) -> bool) -> Duration {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if watch.wait(PATIENCE).unwrap().iter().any(&wanted) {
            return start.elapsed();
        }
    }
    panic!("nothing was seen");
}

fn is_event(change: &Change) -> bool {
    matches!(change, Change::Event(_))
}

#[test]
fn a_change_is_noticed_by_notification_long_before_the_poll() {
    let crew = FileTeam::new("notified");
    crew.create("first");
    let mut watch = crew
        .store
        .watch(&crew.team, crew.store.position(&crew.team).unwrap())
        .unwrap();
    // The poll interval is 500 ms. By polling alone, ten changes would take seconds.
    let start = Instant::now();
    for number in 0..10 {
        std::thread::scope(|scope| {
            scope.spawn(|| crew.create(&format!("number {number}")));
            until(&mut *watch, is_event);
        });
    }
    assert!(
        start.elapsed() < Duration::from_millis(2_500),
        "ten changes took {:?}",
        start.elapsed()
    );
}

/// Returns the nanoseconds of CPU time of this thread.
fn time_used() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let used = text.split(' ').next().and_then(|used| used.parse().ok());
    used.unwrap_or(0)
}

#[test]
fn a_watcher_that_sees_nothing_does_nothing() {
    let crew = FileTeam::new("idle-watch");
    crew.create("first");
    let position = crew.store.position(&crew.team).unwrap();
    let mut watch = crew.store.watch(&crew.team, position).unwrap();
    // The first wait consumes the notifications about its own creation.
    watch.wait(Duration::from_millis(50)).unwrap();
    let before = time_used();
    let patience = Duration::from_millis(1_200);
    assert_eq!(watch.wait(patience).unwrap(), []);
    let used = Duration::from_nanos(time_used() - before);
    assert!(
        used * 10 < patience,
        "it was busy for {used:?} of {patience:?}"
    );
}

#[test]
fn what_others_do_to_the_files_is_noticed() {
    let crew = FileTeam::new("foreign-watched");
    crew.create("first");
    crew.create("second");
    let mut watch = crew
        .store
        .watch(&crew.team, crew.store.position(&crew.team).unwrap())
        .unwrap();
    let is_foreign = |change: &Change| *change == Change::Foreign;
    let task = |id: &str, subject: &str| {
        json!({"id": id, "subject": subject, "status": "pending"}).to_string()
    };
    std::fs::write(crew.in_tasks("3.json"), task("3", "made by others")).unwrap();
    until(&mut *watch, is_foreign);
    std::fs::write(
        crew.in_tasks("2.json"),
        task("2", "rewritten in place by others"),
    )
    .unwrap();
    until(&mut *watch, is_foreign);
    std::fs::remove_file(crew.in_tasks("3.json")).unwrap();
    until(&mut *watch, is_foreign);
    let config = crew.in_team("config.json");
    let mut text = std::fs::read_to_string(&config).unwrap();
    text.push('\n');
    std::fs::write(&config, text).unwrap();
    until(&mut *watch, is_foreign);
}

#[test]
fn a_watcher_outlives_a_journal_that_rotates_and_a_line_that_is_damaged() {
    let crew = FileTeam::new("watch-damage");
    crew.create("first");
    let mut watch = crew.store.watch(&crew.team, 0).unwrap();
    until(&mut *watch, is_event);
    let journal = crew.in_team("events.jsonl");
    let mut text = std::fs::read_to_string(&journal).unwrap();
    text.push_str("damaged\n");
    std::fs::write(&journal, text).unwrap();
    crew.create("second");
    until(
        &mut *watch,
        |change| matches!(change, Change::Event(event) if event.seq == 3),
    );
    std::fs::rename(&journal, crew.in_team("events.1.jsonl")).unwrap();
    crew.create("third");
    until(
        &mut *watch,
        |change| matches!(change, Change::Event(event) if event.seq == 4),
    );
}

//! The journal under many writers: a reader that follows it misses nothing.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use teamster_journal::EventActor;
use teamster_store::{Change, ReadStore as _, Signal, Store as _, Watch};

use crate::{Database, PATIENCE, create};

const WRITERS: usize = 16;
const EACH: usize = 25;

/// Follows the journal until `last` is seen, and returns the positions in the order of their arrival.
fn follow(watch: &mut dyn Watch, last: u64) -> Vec<u64> {
    let start = Instant::now();
    let mut seen = Vec::new();
    while seen.last() != Some(&last) && start.elapsed() < PATIENCE * 4 {
        for change in watch.wait(Duration::from_secs(5)).unwrap() {
            if let Change::Event(event) = change {
                seen.push(event.seq);
            }
        }
    }
    seen
}

#[test]
fn follower_sees_every_position_once_in_order_while_16_writers_commit() {
    let Some(database) = Database::new() else {
        return;
    };
    let (store, team) = database.team();
    let last = 1 + (WRITERS * EACH) as u64;
    let mut watch = store.watch(&team, 0).unwrap();
    let seen = thread::scope(|scope| {
        let follower = scope.spawn(move || follow(&mut *watch, last));
        for writer in 0..WRITERS {
            let (database, team) = (&database, &team);
            scope.spawn(move || {
                let store = database.store(PATIENCE);
                for number in 0..EACH {
                    create(&store, team, &format!("{writer} {number}"));
                }
            });
        }
        follower.join().unwrap()
    });
    assert_eq!(seen, (1..=last).collect::<Vec<_>>());
    let ids: BTreeSet<_> = store
        .tasks(&team)
        .unwrap()
        .tasks
        .iter()
        .map(|task| task.id().clone())
        .collect();
    assert_eq!(ids.len(), WRITERS * EACH, "no number was given twice");
}

#[test]
fn watcher_is_woken_by_a_change_long_before_it_would_look_by_itself() {
    let Some(database) = Database::new() else {
        return;
    };
    let (store, team) = database.team();
    let mut watch = store.watch(&team, 1).unwrap();
    // The fastest of several attempts counts: the machine may be busy, but a watcher without notifications is never
    // fast.
    let quickest = (2..12)
        .map(|position| {
            thread::scope(|scope| {
                let (sender, written) = std::sync::mpsc::channel();
                let (store, team) = (&store, &team);
                scope.spawn(move || {
                    create(store, team, "news");
                    sender.send(Instant::now()).unwrap();
                });
                assert_eq!(follow(&mut *watch, position), [position]);
                let heard = Instant::now();
                heard.saturating_duration_since(written.recv().unwrap())
            })
        })
        .min()
        .unwrap();
    assert!(quickest < Duration::from_millis(150), "{quickest:?}");
}

#[test]
fn worker_among_a_thousand_hears_at_once_what_is_for_it_and_takes_turns_otherwise() {
    let Some(database) = Database::new() else {
        return;
    };
    let (store, team) = database.team();
    database.sql(
        "INSERT INTO teamster.beats (team, worker, body) SELECT 'crew', 'w' || n, '{}' FROM generate_series(1, 1000) AS n",
    );
    let ada = "ada".parse().unwrap();
    let mut listener = store.listen(&team, &ada).unwrap();
    // The first poll opens the connection for notifications.
    listener.poll().unwrap();
    let before = listener.poll().unwrap();
    let looked = Instant::now();
    create(&store, &team, "news");
    thread::sleep(Duration::from_millis(300));
    let soon = listener.poll().unwrap();
    // On a very busy machine its turn may have come already.
    if looked.elapsed() < Duration::from_secs(4) {
        assert_eq!(soon.pulse, before.pulse);
    }
    let stop = Signal {
        request_id: "1".to_owned(),
        reason: "done".to_owned(),
        timestamp: store.now(),
        drain: false,
    };
    store.signal(&team, &EventActor::Lead, &ada, &stop).unwrap();
    let asked = Instant::now();
    while listener.poll().unwrap().signals.is_empty() {
        assert!(asked.elapsed() < Duration::from_secs(3), "nobody woke it");
    }
}

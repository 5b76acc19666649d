//! Foreign locks, locks of dead processes, and locks that vanish.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use serde_json::json;
use teamster_journal::EventActor;
use teamster_store::{Backend, ReadStore, Store, StoreErrorKind};
use teamster_testkit::recorded;
use teamster_testkit::scratch::gone;
use teamster_types::process::ProcessId;
use teamster_types::task::NewTask;

use super::{FileTeam, age, claim_request, id};

const MOMENT: Duration = Duration::from_millis(150);

/// Holds a lock folder like another client, until it is told to stop.
fn hold(folder: &Path, stop: &AtomicBool) {
    std::fs::create_dir(folder).unwrap();
    while !stop.load(Ordering::SeqCst) {
        age(folder, 0);
        std::thread::yield_now();
    }
    assert!(folder.is_dir(), "a live lock of others was taken away");
    std::fs::remove_dir(folder).unwrap();
}

/// Holds a lock folder while `act` runs, and releases it after a moment.
fn while_held<T: Send>(folder: &Path, act: impl FnOnce() -> T + Send) -> (T, Duration) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| hold(folder, &stop));
        while !folder.is_dir() {
            std::thread::yield_now();
        }
        let start = Instant::now();
        let writer = scope.spawn(move || {
            let done = act();
            (done, start.elapsed())
        });
        while start.elapsed() < MOMENT && !writer.is_finished() {
            std::thread::yield_now();
        }
        let through = writer.is_finished();
        stop.store(true, Ordering::SeqCst);
        assert!(!through, "it was written through the lock");
        writer.join().unwrap()
    })
}

#[test]
fn a_writer_waits_for_the_lock_of_others_and_then_writes() {
    let crew = FileTeam::new("foreign-lock");
    crew.create("first");
    let task_lock = crew.in_tasks("1.json.lock");
    let (claimed, waited) = while_held(&task_lock, || crew.claim("ada", Some(&id(1))).unwrap());
    assert!(waited >= MOMENT);
    let claimed = claimed.unwrap();
    let (done, waited) = while_held(&task_lock, || crew.complete(&claimed));
    assert!(done.is_done() && waited >= MOMENT);

    let list_lock = crew.in_tasks(".lock.lock");
    let (second, _) = while_held(&list_lock, || crew.create("second"));
    assert_eq!(second, id(2));
    let (deleted, _) = while_held(&list_lock, || {
        crew.store
            .delete_task(&crew.team, &EventActor::Lead, &id(2))
            .unwrap()
    });
    assert_eq!(deleted.id(), &id(2));
    assert!(!task_lock.exists() && !list_lock.exists());
    crew.check_journal();
}

#[test]
fn a_locked_task_keeps_nobody_from_other_work() {
    let crew = FileTeam::new("foreign-lock-aside");
    crew.create("locked by others");
    crew.create("free");
    std::fs::create_dir(crew.in_tasks("1.json.lock")).unwrap();
    let start = Instant::now();
    assert_eq!(crew.must_claim("ada").task.id(), &id(2));
    crew.tell("ada", "hello").unwrap();
    assert!(start.elapsed() < Duration::from_secs(2), "nobody waited");
}

#[test]
fn a_lock_that_others_keep_ends_in_a_conflict_and_changes_nothing() {
    let patience = Duration::from_millis(200);
    let crew = FileTeam::with_patience("foreign-lock-kept", patience);
    crew.create("first");
    let claimed = crew.must_claim("ada");
    let before = std::fs::read(crew.in_tasks("1.json")).unwrap();
    let position = crew.store.position(&crew.team).unwrap();
    let folder = crew.in_tasks("1.json.lock");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| hold(&folder, &stop));
        while !folder.is_dir() {
            std::thread::yield_now();
        }
        let start = Instant::now();
        let error = crew
            .store
            .complete(&crew.team, &id(1), &claimed.token, None)
            .unwrap_err();
        assert!(start.elapsed() >= patience);
        assert_eq!(error.kind, StoreErrorKind::Conflict, "{error}");
        assert!(error.message.contains("1.json.lock"), "{error}");
        stop.store(true, Ordering::SeqCst);
    });
    assert_eq!(std::fs::read(crew.in_tasks("1.json")).unwrap(), before);
    assert_eq!(crew.store.position(&crew.team).unwrap(), position);
    assert!(crew.complete(&claimed).is_done(), "later it works");
}

#[test]
fn a_lock_folder_that_others_left_long_ago_is_cleared() {
    let crew = FileTeam::new("foreign-lock-left");
    crew.create("first");
    for name in ["1.json.lock", ".lock.lock"] {
        std::fs::create_dir(crew.in_tasks(name)).unwrap();
        age(&crew.in_tasks(name), 31);
    }
    crew.claim("ada", Some(&id(1))).unwrap();
    crew.create("second");
    assert!(!crew.in_tasks("1.json.lock").exists());
}

/// Returns a claim lock as another claimant leaves it.
fn claim_lock(process: &ProcessId, timestamp: i64) -> String {
    json!({
        "pid": process.pid,
        "workerName": "zoe",
        "timestamp": timestamp,
        "processStartTime": process.process_start_time,
        "bootId": process.boot_id,
        "pidNs": process.pid_ns,
        "host": process.host,
        "nonce": "n",
    })
    .to_string()
}

#[test]
fn a_claim_lock_is_taken_over_only_when_it_is_old_and_its_process_is_gone() {
    let patience = Duration::from_millis(50);
    let crew = FileTeam::with_patience("claim-locks", patience);
    crew.create("first");
    let now = || crew.store.now().as_millis();
    let lock = crew.in_tasks("1.lock");
    let claim = || {
        let claimed = crew.claim("ada", Some(&id(1)));
        if let Ok(Some(claimed)) = &claimed {
            let (team, token) = (&crew.team, Some(&claimed.token));
            crew.store
                .release(team, &"-".into(), &id(1), token)
                .unwrap();
            assert!(!lock.exists(), "a lock exists only while a claim is made");
        }
        claimed.map(drop).map_err(|error| error.kind)
    };
    let alive = teamster_fs::proc::Machine::read().me().clone();
    let elsewhere = ProcessId {
        host: "another".to_owned(),
        boot_id: "another".to_owned(),
        ..gone()
    };
    let cases = [
        ("gone and old", gone(), 31_000, Ok(())),
        ("gone, just old enough", gone(), 30_000, Ok(())),
        (
            "gone but fresh",
            gone(),
            29_999,
            Err(StoreErrorKind::Conflict),
        ),
        (
            "gone, from the future",
            gone(),
            -5_000,
            Err(StoreErrorKind::Conflict),
        ),
        (
            "alive and old",
            alive,
            600_000,
            Err(StoreErrorKind::Conflict),
        ),
        (
            "on another machine",
            elsewhere,
            600_000,
            Err(StoreErrorKind::Conflict),
        ),
    ];
    for (what, process, old, expected) in cases {
        let content = claim_lock(&process, now() - old);
        std::fs::write(&lock, &content).unwrap();
        assert_eq!(claim(), expected, "{what}");
        if expected.is_err() {
            assert_eq!(std::fs::read_to_string(&lock).unwrap(), content, "{what}");
            std::fs::remove_file(&lock).unwrap();
        }
    }
}

#[test]
fn a_claim_whose_lock_was_taken_away_is_not_made() {
    let crew = FileTeam::new("lock-taken");
    crew.create("first");
    let lock = crew.in_tasks("1.lock");
    let theirs = claim_lock(&gone(), crew.store.now().as_millis());
    let before = std::fs::read(crew.in_tasks("1.json")).unwrap();
    let worker = "ada".parse().unwrap();
    for replaced in [true, false] {
        let made = crew.store.change(&crew.team, "claim", &mut |tx| {
            assert!(tx.lock_claim(&id(1), &worker)?);
            std::fs::remove_file(&lock).unwrap();
            if replaced {
                std::fs::write(&lock, &theirs).unwrap();
            }
            let task = tx.open(&id(1))?.unwrap();
            tx.put(task);
            tx.event(recorded("task.claimed", "ada", &serde_json::json!({})).task(&id(1)));
            Ok(())
        });
        let error = made.unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::Conflict, "{error}");
        assert_eq!(lock.exists(), replaced, "theirs is not ours to remove");
        assert_eq!(std::fs::read(crew.in_tasks("1.json")).unwrap(), before);
        let _ = std::fs::remove_file(&lock);
    }
    assert_eq!(crew.store.position(&crew.team).unwrap(), 2);
    crew.claim("ada", Some(&id(1))).unwrap();
}

#[test]
fn an_empty_claim_lock_is_a_live_one_being_written_until_it_is_old() {
    let crew = FileTeam::with_patience("empty-locks", Duration::from_millis(50));
    crew.create("first");
    crew.create("second");
    let lock = crew.in_tasks("1.lock");
    for content in ["", "{\"pid\":", "\0\0\0"] {
        std::fs::write(&lock, content).unwrap();
        let refused = crew.claim("ada", Some(&id(1))).unwrap_err();
        assert_eq!(refused.kind, StoreErrorKind::Conflict);
        let other = crew.must_claim("ada");
        assert_eq!(other.task.id(), &id(2), "it is passed by");
        crew.store
            .release(&crew.team, &"-".into(), &id(2), Some(&other.token))
            .unwrap();
        age(&lock, 28);
        assert!(crew.claim("ada", Some(&id(1))).is_err());
        assert_eq!(std::fs::read_to_string(&lock).unwrap(), content);
        age(&lock, 31);
        let claimed = crew.claim("ada", Some(&id(1))).unwrap().unwrap();
        crew.store
            .release(&crew.team, &"-".into(), &id(1), Some(&claimed.token))
            .unwrap();
        assert!(!lock.exists());
    }
}

#[test]
fn a_clock_that_jumps_takes_no_lock_of_the_living() {
    let crew = FileTeam::with_patience("jumps", Duration::from_millis(50));
    crew.create("first");
    let alive = teamster_fs::proc::Machine::read().me().clone();
    let lock = crew.in_tasks("1.lock");
    let content = claim_lock(&alive, crew.store.now().as_millis());
    std::fs::write(&lock, &content).unwrap();
    for hours in [5_i64, -10, 48] {
        crew.clock.advance(hours * 3_600_000);
        assert!(crew.claim("ada", Some(&id(1))).is_err(), "{hours} h");
        assert_eq!(std::fs::read_to_string(&lock).unwrap(), content);
    }
    std::fs::remove_file(&lock).unwrap();
    let claimed = crew.claim("ada", Some(&id(1))).unwrap().unwrap();
    for hours in [-100_i64, 1_000] {
        crew.clock.advance(hours * 3_600_000);
        assert!(crew.claim("bob", Some(&id(1))).is_err(), "{hours} h");
        let renewed = crew.store.renew(&crew.team, &id(1), &claimed.token, None);
        renewed.unwrap();
    }
    assert!(crew.complete(&claimed).is_done());
    crew.check_journal();
}

/// Programs that judge stale locks without a guard lock claim 2 to 22 of these twice.
#[test]
fn five_hundred_stale_locks_and_four_claimers_give_every_task_once() {
    const TASKS: usize = 500;
    let crew = FileTeam::new("stale-locks");
    let plan: Vec<teamster_store::PlannedTask> = (0..TASKS)
        .map(|number| teamster_store::PlannedTask {
            task: NewTask {
                subject: format!("number {number}"),
                ..NewTask::default()
            },
            after: Vec::new(),
        })
        .collect();
    crew.store
        .import_tasks(&crew.team, &EventActor::Lead, &plan)
        .unwrap();
    let stale = claim_lock(&gone(), crew.store.now().as_millis() - 60_000);
    for number in 1..=TASKS {
        std::fs::write(crew.in_tasks(&format!("{number}.lock")), &stale).unwrap();
    }
    let begin = Barrier::new(4);
    let given: Vec<u128> = std::thread::scope(|scope| {
        let claimers: Vec<_> = (0..4)
            .map(|number| {
                // On a busy machine the other three may take arbitrarily long.
                let store = crew.patient(Duration::from_secs(120));
                let (begin, team) = (&begin, &crew.team);
                scope.spawn(move || {
                    let claim_request = claim_request(&format!("claimer-{number}"), None);
                    begin.wait();
                    let mut given = Vec::new();
                    while let Some(claimed) = store.claim(team, &claim_request).unwrap() {
                        let (id, token) = (claimed.task.id(), &claimed.token);
                        store.complete(team, id, token, None).unwrap();
                        given.push(id.number());
                    }
                    given
                })
            })
            .collect();
        let parts = claimers.into_iter().map(|claimer| claimer.join().unwrap());
        parts.flatten().collect()
    });
    let different: HashSet<u128> = given.iter().copied().collect();
    assert_eq!(
        given.len(),
        TASKS,
        "none was left over, none was given twice"
    );
    assert_eq!(different.len(), TASKS);
    let (progress, _) = crew.store.progress(&crew.team).unwrap();
    assert_eq!(progress.completed_tasks, TASKS);
    let left = std::fs::read_dir(crew.in_tasks("")).unwrap();
    let locks = left.filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_string_lossy().ends_with(".lock") && name != ".teamster.lock"
    });
    assert_eq!(locks.count(), 0);
    crew.check_journal();
}

#[test]
fn a_team_lock_that_is_removed_while_others_wait_lets_nobody_in_twice() {
    let crew = FileTeam::new("lock-removed");
    crew.create("first");
    let lock = crew.in_tasks(".teamster.lock");
    let (entered, inside) = channel();
    let (go_on, may_go_on) = channel::<()>();
    let (holder, waiter) = (crew.another(), crew.another());
    std::thread::scope(|scope| {
        let team = &crew.team;
        let held = scope.spawn(move || {
            holder.change(team, "hold", &mut |tx| {
                let _ = entered.send(());
                // Only the first time: it may have to start over.
                let _ = may_go_on.recv_timeout(Duration::from_secs(5));
                tx.event(recorded("worker.started", "holder", &serde_json::json!({})));
                Ok(())
            })
        });
        inside.recv().unwrap();
        let waiting = scope.spawn(move || {
            waiter.record(
                team,
                recorded("worker.started", "waiter", &serde_json::json!({})),
            )
        });
        std::fs::remove_file(&lock).unwrap();
        // A third process makes a new lock and enters while the first still believes that it is alone.
        let third = crew.store.record(
            team,
            recorded("worker.started", "third", &serde_json::json!({})),
        );
        third.unwrap();
        drop(go_on);
        held.join().unwrap().unwrap();
        waiting.join().unwrap().unwrap();
    });
    let page = crew.store.events(&crew.team, 1, 100).unwrap();
    let positions: Vec<u64> = page.events.iter().map(|event| event.seq).collect();
    assert_eq!(positions, [1, 2, 3, 4, 5], "no position was used twice");
    let mut actors: Vec<&str> = page.events[2..].iter().map(|e| e.actor.as_str()).collect();
    actors.sort_unstable();
    assert_eq!(actors, ["holder", "third", "waiter"]);
    crew.check_journal();
}

#[test]
fn a_lock_of_ours_that_is_held_too_long_says_by_whom() {
    let crew = FileTeam::with_patience("held-long", Duration::from_millis(100));
    crew.create("first");
    let holder = crew.another();
    let (entered, inside) = channel();
    let (go_on, may_go_on) = channel::<()>();
    std::thread::scope(|scope| {
        let team = &crew.team;
        scope.spawn(move || {
            holder
                .change(team, "task claim", &mut |tx| {
                    tx.lock_claim(&id(1), &"ada".parse().unwrap())?;
                    let _ = entered.send(());
                    let _ = may_go_on.recv_timeout(Duration::from_secs(5));
                    Ok(())
                })
                .unwrap();
        });
        inside.recv().unwrap();
        let error = crew.tell("ada", "hello").unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::Conflict);
        assert!(
            error.busy,
            "whoever renews a lease must not take it for lost"
        );
        let me = std::process::id().to_string();
        assert!(error.message.contains(&me), "{error}");
        assert!(error.message.contains("task claim"), "{error}");
        drop(go_on);
    });
    crew.tell("ada", "hello").unwrap();
}

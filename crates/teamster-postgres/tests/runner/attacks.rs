//! Faults of the server: terminated sessions, a crash, a lock held by another client, too many connections.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use teamster_postgres::{PgSettings, PgStore, StoreUrl, init};
use teamster_store::{ReadStore as _, StoreErrorKind};
use teamster_testkit::postgres::PostgresServer;
use teamster_types::TeamName;
use teamster_types::heartbeat::{Heartbeat, WorkerStatus};

use crate::{Database, PATIENCE, claim, complete, create, make_team};

const TASKS: usize = 400;
const WORKERS: usize = 6;

/// Lets workers claim and complete everything, each with its own store, while `disturb` runs.
fn work_through(
    open: &(impl Fn() -> PgStore + Sync),
    team: &TeamName,
    disturb: impl Fn(&AtomicBool) + Send + Sync,
) {
    let is_over = AtomicBool::new(false);
    // Opening a store fails at once when the server is unreachable, so all stores are opened before the disturbance
    // begins.
    let stores: Vec<PgStore> = (0..WORKERS).map(|_| open()).collect();
    thread::scope(|scope| {
        let disturbing = scope.spawn(|| disturb(&is_over));
        let workers: Vec<_> = stores
            .iter()
            .enumerate()
            .map(|(number, store)| {
                scope.spawn(move || {
                    let worker = format!("worker-{number}");
                    while let Some(claimed) = claim(store, team, &worker).unwrap() {
                        complete(store, team, &claimed).unwrap();
                    }
                })
            })
            .collect();
        let ended: Vec<_> = workers
            .into_iter()
            .map(thread::ScopedJoinHandle::join)
            .collect();
        is_over.store(true, Ordering::SeqCst);
        disturbing.join().unwrap();
        for worker in ended {
            worker.unwrap();
        }
    });
}

/// Asserts that every task was claimed once and completed once, and that the journal has no gap.
fn judge(store: &PgStore, team: &TeamName) {
    let events = store.events(team, 1, usize::MAX).unwrap().events;
    let positions: Vec<u64> = events.iter().map(|event| event.seq).collect();
    assert_eq!(positions, (1..=events.len() as u64).collect::<Vec<_>>());
    for kind in ["task.claimed", "task.completed"] {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for event in events.iter().filter(|event| event.kind == kind) {
            let id = event.task_id.as_ref().unwrap().to_string();
            *counts.entry(id).or_default() += 1;
        }
        assert_eq!(counts.len(), TASKS, "{kind}");
        assert!(
            counts.values().all(|count| *count == 1),
            "{kind}: {counts:?}"
        );
    }
    let tasks = store.tasks(team).unwrap().tasks;
    assert!(tasks.iter().all(teamster_types::task::Task::is_done));
}

#[test]
fn stream_of_ended_sessions_loses_nothing_and_doubles_nothing() {
    let Some(database) = Database::new() else {
        return;
    };
    let (store, team) = database.team();
    for number in 0..TASKS {
        create(&store, &team, &format!("number {number}"));
    }
    let ended = format!(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
         WHERE datname = '{}' AND application_name = 'teamster'",
        database.name
    );
    let killed = AtomicUsize::new(0);
    work_through(&|| database.store(PATIENCE), &team, |is_over| {
        let mut seen = 0;
        while !is_over.load(Ordering::SeqCst) {
            // Wait for some progress between two disturbances, so that the test ends on any machine.
            let position = store.position(&team).unwrap();
            if position > seen && database.sql(&ended) != "0" {
                seen = position;
                killed.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    let killed = killed.load(Ordering::SeqCst);
    assert!(killed > 1, "sessions were ended {killed} times only");
    judge(&store, &team);
}

#[test]
fn crash_of_the_server_loses_nothing_that_was_acknowledged() {
    let Some(mut server) = PostgresServer::start("") else {
        return;
    };
    let url = StoreUrl::parse(&server.database()).unwrap();
    init(&url).unwrap();
    let settings = PgSettings {
        patience: Duration::from_secs(90),
        ..PgSettings::default()
    };
    let open = || PgStore::open(url.clone(), settings.clone()).unwrap();
    let store = open();
    let team = make_team(&store, "crew");
    for number in 0..TASKS {
        create(&store, &team, &format!("number {number}"));
    }
    // Workers open their stores before the first crash.
    let stores: Vec<PgStore> = (0..WORKERS).map(|_| open()).collect();
    let acknowledged = std::sync::Mutex::new(Vec::new());
    thread::scope(|scope| {
        for (number, store) in stores.iter().enumerate() {
            let (team, acknowledged) = (&team, &acknowledged);
            scope.spawn(move || {
                let worker = format!("worker-{number}");
                while let Some(claimed) = claim(store, team, &worker).unwrap() {
                    complete(store, team, &claimed).unwrap();
                    let id = claimed.task.id().to_string();
                    acknowledged.lock().unwrap().push(id);
                }
            });
        }
        for _ in 0..2 {
            let before = acknowledged.lock().unwrap().len();
            teamster_testkit::wait::wait_until("somebody has done something", || {
                let now = acknowledged.lock().unwrap().len();
                now > before || now == TASKS
            });
            server.crash_and_restart();
        }
    });
    judge(&store, &team);
    assert_eq!(acknowledged.lock().unwrap().len(), TASKS);
}

#[test]
fn lock_that_somebody_holds_is_waited_for_and_named_in_the_end() {
    let Some(database) = Database::new() else {
        return;
    };
    let (store, team) = database.team();
    let hold = "BEGIN; SELECT FROM teamster.positions FOR UPDATE; SELECT pg_sleep(2); COMMIT";
    thread::scope(|scope| {
        let holder = scope.spawn(|| database.sql(hold));
        let sleeps = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(2)%' AND wait_event = 'PgSleep'";
        teamster_testkit::wait::wait_until("the lock is held", || database.sql(sleeps) == "1");
        create(&store, &team, "waits");
        holder.join().unwrap();
    });
    let impatient = database.store(Duration::from_millis(50));
    let hold = "BEGIN; SELECT FROM teamster.positions FOR UPDATE; SELECT pg_sleep(30); COMMIT";
    thread::scope(|scope| {
        let holder = scope.spawn(|| {
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| database.sql(hold))).is_err()
        });
        let sleeps = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(30)%' AND wait_event = 'PgSleep'";
        teamster_testkit::wait::wait_until("the lock is held", || database.sql(sleeps) == "1");
        let error = teamster_store::Store::record(
            &impatient,
            &team,
            teamster_testkit::recorded("agent.event", "ada", &serde_json::json!({})),
        )
        .unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::Conflict, "{error}");
        database.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(30)%' AND pid <> pg_backend_pid()");
        assert!(holder.join().unwrap(), "the holder was ended");
    });
    create(&store, &team, "goes on");
}

/// A hundred workers that wait for the same task would slow down the one that is claiming it.
#[test]
fn worker_that_polls_does_not_wait_for_a_task_that_another_is_claiming() {
    let Some(database) = Database::new() else {
        return;
    };
    let (store, team) = database.team();
    create(&store, &team, "the only one");
    let settings = PgSettings {
        patience: PATIENCE,
        polls: true,
        ..PgSettings::default()
    };
    let polling = PgStore::open(database.url(), settings).unwrap();
    let hold = "BEGIN; SELECT FROM teamster.tasks FOR UPDATE; SELECT pg_sleep(60); COMMIT";
    let sleeps =
        "FROM pg_stat_activity WHERE query LIKE '%pg_sleep(60)%' AND wait_event = 'PgSleep'";
    let took = |store: &PgStore| {
        let start = Instant::now();
        assert!(claim(store, &team, "ada").unwrap().is_none());
        start.elapsed()
    };
    thread::scope(|scope| {
        let holder = scope.spawn(|| {
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| database.sql(hold))).is_err()
        });
        let count = format!("SELECT count(*) {sleeps}");
        teamster_testkit::wait::wait_until("the task is held", || database.sql(&count) == "1");
        // A store that does not poll waits a second before it reports that there is nothing to do.
        assert!(took(&store) >= Duration::from_secs(1));
        let quickest = (0..10).map(|_| took(&polling)).min().unwrap();
        assert!(quickest < Duration::from_millis(500), "{quickest:?}");
        database.sql(&format!("SELECT pg_terminate_backend(pid) {sleeps}"));
        assert!(holder.join().unwrap(), "the holder was ended");
    });
    assert!(claim(&polling, &team, "ada").unwrap().is_some());
}

/// The lock is held longer than a statement waits for it, and shorter than a worker retries.
#[test]
fn lock_of_the_team_that_is_held_for_long_spoils_no_connection() {
    let Some(database) = Database::new() else {
        return;
    };
    let (_, team) = database.team();
    // A store with its own clock takes the lock of the team first, like any store after too many conflicts.
    let settings = PgSettings {
        clock: Some(teamster_testkit::scratch::stopped_clock()),
        patience: Duration::from_secs(60),
        ..PgSettings::default()
    };
    let store = PgStore::open(database.url(), settings).unwrap();
    let hold = "BEGIN; SELECT FROM teamster.positions FOR UPDATE; SELECT pg_sleep(10); COMMIT";
    thread::scope(|scope| {
        let holder = scope.spawn(|| database.sql(hold));
        let sleeps = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(10)%' AND wait_event = 'PgSleep'";
        teamster_testkit::wait::wait_until("the lock is held", || database.sql(sleeps) == "1");
        create(&store, &team, "waits for long");
        holder.join().unwrap();
    });
    create(&store, &team, "goes on");
    let left = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%' AND datname = current_database()";
    assert_eq!(database.sql(left), "0");
}

#[test]
fn of_launches_that_want_one_seat_at_once_one_gets_it() {
    let Some(database) = Database::new() else {
        return;
    };
    let (store, team) = database.team();
    let me = teamster_fs::proc::Machine::read().me().clone();
    let beat = |launch: &str| Heartbeat {
        worker_name: "ada".parse().unwrap(),
        team_name: team.clone(),
        provider: "claude".to_owned(),
        pid: me.pid,
        last_poll_at: store.now(),
        current_task_id: None,
        consecutive_errors: 0,
        status: WorkerStatus::Ready,
        process_start_time: Some(me.process_start_time),
        boot_id: Some(me.boot_id.clone()),
        pid_ns: Some(me.pid_ns.clone()),
        host: Some(me.host.clone()),
        agent_session_id: None,
        last_event_at: None,
        limit: None,
        store_refusal: None,
        launch: Some(launch.to_owned()),
    };
    let mut seen: Option<String> = None;
    for round in 0..5 {
        let launches: Vec<String> = (0..WORKERS).map(|n| format!("{round}-{n}")).collect();
        let begin = std::sync::Barrier::new(WORKERS);
        let taken: Vec<String> = thread::scope(|scope| {
            let tries: Vec<_> = launches
                .iter()
                .map(|launch| {
                    let (store, beat, seen, begin) = (&store, beat(launch), &seen, &begin);
                    scope.spawn(move || {
                        begin.wait();
                        store
                            .register_launch(&beat, seen.as_deref())
                            .unwrap()
                            .then_some(launch)
                    })
                })
                .collect();
            tries
                .into_iter()
                .filter_map(|tried| tried.join().unwrap())
                .cloned()
                .collect()
        });
        assert_eq!(taken.len(), 1, "{taken:?} have one seat");
        // The winner may repeat its call: the reply to the first one may have been lost.
        assert!(
            store
                .register_launch(&beat(&taken[0]), seen.as_deref())
                .unwrap()
        );
        seen = Some(taken[0].clone());
    }
}

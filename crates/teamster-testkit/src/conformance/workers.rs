//! Heartbeats and stop signals.

use teamster_journal::EventActor;
use teamster_store::{Signal, StoreErrorKind};
use teamster_types::heartbeat::WorkerStatus;

use super::fixture::{StoreFixture, id, name, worker};

pub(super) fn a_heartbeat_is_replaced_and_ends(fixture: &StoreFixture) {
    let beats = || {
        let (beats, damaged) = fixture.step("heartbeats", fixture.store.heartbeats(&fixture.team));
        assert!(damaged.is_empty());
        beats
    };
    assert_eq!(beats(), []);
    let second = fixture.beat("worker-2", |_| {});
    fixture.beat("worker-1", |_| {});
    fixture.wait_secs(5);
    let first = fixture.beat("worker-1", |beat| {
        beat.status = WorkerStatus::Executing;
        beat.current_task_id = Some(id(3));
        beat.process_start_time = Some(99);
        beat.boot_id = Some("b".to_owned());
    });
    assert_eq!(beats(), [first.clone(), second.clone()]);
    let process = first.process().unwrap_or_else(|| panic!("no process"));
    assert_eq!((process.pid, process.process_start_time), (4711, 99));
    for _ in 0..2 {
        let ended = fixture
            .store
            .remove_heartbeat(&fixture.team, &worker("worker-1"));
        fixture.step("end the beat", ended);
    }
    assert_eq!(beats(), [second]);
    let position = fixture.position();
    assert_eq!(position, 1, "beats are not journalled");

    let mut stray = first;
    stray.team_name = name("elsewhere");
    fixture.refuse("beat", StoreErrorKind::NotFound, |store| store.beat(&stray));
}

pub(super) fn a_stop_signal_waits_until_it_is_obeyed(fixture: &StoreFixture) {
    let first = worker("worker-1");
    let listener = fixture.store.listen(&fixture.team, &first);
    let mut listener = fixture.step("listen", listener);
    // A listener gets the pending signals immediately, and each time it asks.
    let mut signals = || {
        let there = fixture.step("signals", fixture.store.signals(&fixture.team, &first));
        for _ in 0..3 {
            assert_eq!(fixture.step("hear", listener.poll()).signals, there);
        }
        there
    };
    assert_eq!(signals(), []);
    let claim_request = |drain: bool, reason: &str| Signal {
        request_id: format!("r-{reason}"),
        reason: reason.to_owned(),
        timestamp: fixture.store.now(),
        drain,
    };
    let (stop, drain) = (claim_request(false, "over"), claim_request(true, "enough"));
    let position = fixture.position();
    for signal in [&drain, &stop] {
        let put = fixture
            .store
            .signal(&fixture.team, &EventActor::Lead, &first, signal);
        fixture.step("signal", put);
    }
    assert_eq!(
        fixture.kinds_after(position),
        ["signal.drain", "signal.shutdown"]
    );
    assert_eq!(signals(), [stop.clone(), drain.clone()]);
    let other = fixture.store.signals(&fixture.team, &worker("worker-2"));
    assert_eq!(fixture.step("signals", other), [], "it is for one worker");
    let again = claim_request(false, "now, please");
    let put = fixture
        .store
        .signal(&fixture.team, &EventActor::Lead, &first, &again);
    fixture.step("signal", put);
    assert_eq!(signals(), [again, drain], "the last claim_request counts");
    for _ in 0..2 {
        let cleared = fixture.store.clear_signals(&fixture.team, &first);
        fixture.step("clear", cleared);
        assert_eq!(signals(), []);
    }
}

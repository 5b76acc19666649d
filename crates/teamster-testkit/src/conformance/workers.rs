//! Heartbeats and stop signals.

use teamster_store::{Kind, Signal};
use teamster_types::heartbeat::WorkerStatus;

use super::stage::{Stage, id, name, worker};

pub(super) fn a_heartbeat_is_replaced_and_ends(stage: &Stage) {
    let beats = || {
        let (beats, damaged) = stage.step("heartbeats", stage.store.heartbeats(&stage.team));
        assert!(damaged.is_empty());
        beats
    };
    assert_eq!(beats(), []);
    let second = stage.beat("worker-2", |_| {});
    stage.beat("worker-1", |_| {});
    stage.wait_secs(5);
    let first = stage.beat("worker-1", |beat| {
        beat.status = WorkerStatus::Executing;
        beat.current_task_id = Some(id(3));
        beat.process_start_time = Some(99);
        beat.boot_id = Some("b".to_owned());
    });
    assert_eq!(beats(), [first.clone(), second.clone()]);
    let process = first.process().unwrap_or_else(|| panic!("no process"));
    assert_eq!((process.pid, process.process_start_time), (4711, 99));
    for _ in 0..2 {
        let ended = stage.store.end_beat(&stage.team, &worker("worker-1"));
        stage.step("end the beat", ended);
    }
    assert_eq!(beats(), [second]);
    let position = stage.position();
    assert_eq!(position, 1, "beats are not journalled");

    let mut stray = first;
    stray.team_name = name("elsewhere");
    stage.refuse("beat", Kind::NotFound, |store| store.beat(&stray));
}

pub(super) fn a_stop_signal_waits_until_it_is_obeyed(stage: &Stage) {
    let first = worker("worker-1");
    let listener = stage.store.listen(&stage.team, &first);
    let mut listener = stage.step("listen", listener);
    // Whoever listens hears what is there, at once and each time.
    let mut signals = || {
        let there = stage.step("signals", stage.store.signals(&stage.team, &first));
        for _ in 0..3 {
            assert_eq!(stage.step("hear", listener.hear()).signals, there);
        }
        there
    };
    assert_eq!(signals(), []);
    let wish = |drain: bool, reason: &str| Signal {
        request_id: format!("r-{reason}"),
        reason: reason.to_owned(),
        timestamp: stage.store.now(),
        drain,
    };
    let (stop, drain) = (wish(false, "over"), wish(true, "enough"));
    let position = stage.position();
    for signal in [&drain, &stop] {
        let put = stage.store.signal(&stage.team, "lead", &first, signal);
        stage.step("signal", put);
    }
    assert_eq!(
        stage.kinds_after(position),
        ["signal.drain", "signal.shutdown"]
    );
    assert_eq!(signals(), [stop.clone(), drain.clone()]);
    let other = stage.store.signals(&stage.team, &worker("worker-2"));
    assert_eq!(stage.step("signals", other), [], "it is for one worker");
    let again = wish(false, "now, please");
    let put = stage.store.signal(&stage.team, "lead", &first, &again);
    stage.step("signal", put);
    assert_eq!(signals(), [again, drain], "the last wish counts");
    for _ in 0..2 {
        let cleared = stage.store.clear_signals(&stage.team, &first);
        stage.step("clear", cleared);
        assert_eq!(signals(), []);
    }
}

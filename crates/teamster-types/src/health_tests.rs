use proptest::prelude::*;

use super::*;
use crate::heartbeat::{LimitCause, ProviderLimit, StoreRefusal};

const NOW: Time = Time::from_millis(1_770_465_600_000);

fn ago(seconds: i64) -> Time {
    Time::from_millis(NOW.as_millis() - seconds * 1_000)
}

fn beat(seconds_old: i64, status: WorkerStatus, errors: u32) -> Heartbeat {
    Heartbeat {
        worker_name: "worker-1".parse().unwrap(),
        team_name: "fix-ts-errors".parse().unwrap(),
        provider: "codex".to_owned(),
        pid: 12_345,
        last_poll_at: ago(seconds_old),
        current_task_id: None,
        consecutive_errors: errors,
        status,
        process_start_time: Some(77),
        boot_id: Some("boot".to_owned()),
        pid_ns: None,
        host: None,
        agent_session_id: None,
        last_event_at: None,
        limit: None,
        store_refusal: None,
        launch: None,
    }
}

fn by_life(heartbeat: &Heartbeat, life: ProcessState) -> Assessment {
    judge(NOW, Some(heartbeat), None, |_| life, &Limits::default())
}

#[test]
fn refusal_blocks_a_team_of_which_no_other_living_worker_has_a_task_or_is_starting() {
    let error = |message: &str, seconds_old: u64| {
        Some(StoreRefusal {
            at: NOW.before(Duration::from_secs(seconds_old)),
            message: message.to_owned(),
            hint: None,
        })
    };
    let unable = Heartbeat {
        store_refusal: error("full", 13),
        ..beat(1, WorkerStatus::Polling, 0)
    };
    let idle = beat(1, WorkerStatus::Polling, 0);
    let quarantined = beat(1, WorkerStatus::Quarantined, 5);
    let long_ago = Heartbeat {
        store_refusal: error("long ago", 16),
        ..idle.clone()
    };
    let busy = beat(1, WorkerStatus::Executing, 0);
    let gone = Heartbeat {
        last_poll_at: NOW.before(Duration::from_secs(60)),
        ..busy.clone()
    };
    let had_one = Heartbeat {
        store_refusal: error("of the task before", 16),
        ..busy.clone()
    };
    let unable_to_end = Heartbeat {
        current_task_id: Some("1".parse().unwrap()),
        store_refusal: error("full", 6),
        ..busy.clone()
    };
    let holding = Heartbeat {
        current_task_id: Some("1".parse().unwrap()),
        ..idle.clone()
    };
    let starting = beat(1, WorkerStatus::Ready, 0);
    let blocking = |beats: &[&Heartbeat]| {
        let beats: Vec<Heartbeat> = beats.iter().copied().cloned().collect();
        let stale = Limits::default().stale;
        Heartbeat::blocking_refusal(&beats, NOW, stale).map(|(_, refusal)| refusal.message.clone())
    };
    assert_eq!(blocking(&[]), None);
    assert_eq!(blocking(&[&idle, &quarantined, &long_ago]), None);
    let limited = Heartbeat {
        limit: Some(ProviderLimit {
            provider: "codex".to_owned(),
            cause: LimitCause::default(),
            window: None,
            until: NOW,
        }),
        ..holding.clone()
    };
    for refused in [&unable, &unable_to_end] {
        for other in [refused, &idle, &quarantined, &long_ago, &gone, &limited] {
            assert_eq!(blocking(&[refused, other]).as_deref(), Some("full"));
            assert_eq!(blocking(&[other, refused]).as_deref(), Some("full"));
        }
        for other in [&busy, &had_one, &holding, &starting] {
            assert_eq!(blocking(&[refused, other]), None);
            assert_eq!(blocking(&[other, refused]), None);
        }
    }
    assert!(blocking(&[&unable, &unable_to_end]).is_some());
}

#[test]
fn age_and_process_decide_before_anything_the_heartbeat_says() {
    use ProcessState::{Alive, Gone, Unknown};
    let unknown = Verdict::Unknown;
    for (age, life, expected) in [
        (Some(0), Alive, Verdict::Healthy),
        (Some(0), Gone, Verdict::Dead),
        (Some(0), Unknown, Verdict::Healthy),
        (Some(29), Alive, Verdict::Healthy),
        (Some(29), Gone, Verdict::Dead),
        (Some(29), Unknown, Verdict::Healthy),
        (Some(30), Alive, Verdict::Hung),
        (Some(30), Gone, Verdict::Dead),
        (Some(30), Unknown, unknown),
        (Some(1_000_000), Alive, Verdict::Hung),
        (Some(1_000_000), Gone, Verdict::Dead),
        (Some(1_000_000), Unknown, unknown),
        (Some(-3_600), Alive, Verdict::Healthy),
        (Some(-3_600), Gone, Verdict::Dead),
        (Some(-3_600), Unknown, unknown),
        (None, Alive, unknown),
        (None, Gone, Verdict::Dead),
        (None, Unknown, unknown),
    ] {
        let heartbeat = age.map(|age| beat(age, WorkerStatus::Polling, 0));
        let found = assess(NOW, heartbeat.as_ref(), life, &Limits::default());
        assert_eq!(found.verdict, expected, "{age:?} {life:?}: {found}");
    }
}

#[test]
fn stale_beats_quarantine_and_quarantine_beats_silence_and_silence_beats_risk() {
    use WorkerStatus::{Executing, Polling, Quarantined, Ready, Shutdown};
    let minutes = 60;
    for (status, errors, quiet, expected) in [
        (Ready, 0, None, Verdict::Healthy),
        (Polling, 1, None, Verdict::Healthy),
        (Polling, 2, None, Verdict::AtRisk),
        (Polling, 3, None, Verdict::Quarantined),
        (Polling, u32::MAX, None, Verdict::Quarantined),
        (Shutdown, 0, None, Verdict::Healthy),
        (Quarantined, 0, None, Verdict::Quarantined),
        (Quarantined, 2, Some(60 * minutes), Verdict::Quarantined),
        (Executing, 0, None, Verdict::Healthy),
        (Executing, 0, Some(0), Verdict::Healthy),
        (Executing, 0, Some(299), Verdict::Healthy),
        (Executing, 0, Some(300), Verdict::Silent),
        (Executing, 0, Some(-300), Verdict::Healthy),
        (Executing, 2, Some(299), Verdict::AtRisk),
        (Executing, 2, Some(300), Verdict::Silent),
        (Executing, 3, Some(300), Verdict::Quarantined),
        // An idle worker has nothing to report.
        (Polling, 0, Some(60 * minutes), Verdict::Healthy),
        (Ready, 2, Some(60 * minutes), Verdict::AtRisk),
    ] {
        let mut heartbeat = beat(1, status, errors);
        heartbeat.last_event_at = quiet.map(ago);
        assert_eq!(
            by_life(&heartbeat, ProcessState::Gone).verdict,
            Verdict::Dead
        );
        for life in [ProcessState::Alive, ProcessState::Unknown] {
            let found = by_life(&heartbeat, life);
            assert_eq!(
                found.verdict, expected,
                "{status:?} {errors} {quiet:?} {life:?}"
            );
        }
        heartbeat.last_poll_at = ago(31);
        assert_eq!(
            by_life(&heartbeat, ProcessState::Gone).verdict,
            Verdict::Dead
        );
        assert_eq!(
            by_life(&heartbeat, ProcessState::Alive).verdict,
            Verdict::Hung
        );
        assert_eq!(
            by_life(&heartbeat, ProcessState::Unknown).verdict,
            Verdict::Unknown
        );
    }
}

#[test]
fn every_verdict_says_why() {
    let mut silent = beat(2, WorkerStatus::Executing, 0);
    silent.current_task_id = Some("3".parse().unwrap());
    silent.last_event_at = Some(ago(6 * 60));
    let mut far = beat(47, WorkerStatus::Polling, 2);
    far.host = Some("build-2".to_owned());
    let says = [
        by_life(&beat(2, WorkerStatus::Polling, 0), ProcessState::Alive).to_string(),
        by_life(&beat(2, WorkerStatus::Polling, 0), ProcessState::Gone).to_string(),
        by_life(&beat(47, WorkerStatus::Polling, 0), ProcessState::Gone).to_string(),
        by_life(&beat(47, WorkerStatus::Polling, 0), ProcessState::Alive).to_string(),
        by_life(&far, ProcessState::Unknown).to_string(),
        by_life(&beat(2, WorkerStatus::Polling, 2), ProcessState::Alive).to_string(),
        by_life(&beat(2, WorkerStatus::Quarantined, 3), ProcessState::Alive).to_string(),
        by_life(&silent, ProcessState::Alive).to_string(),
        by_life(&beat(-5, WorkerStatus::Polling, 1), ProcessState::Alive).to_string(),
        by_life(&beat(-300, WorkerStatus::Polling, 0), ProcessState::Alive).to_string(),
        assess(NOW, None, ProcessState::Gone, &Limits::default()).to_string(),
        assess(NOW, None, ProcessState::Alive, &Limits::default()).to_string(),
        assess(NOW, None, ProcessState::Unknown, &Limits::default()).to_string(),
    ];
    insta::assert_snapshot!(says.join("\n"), @r"
    healthy: heartbeat 2 s old
    dead: heartbeat 2 s old, process 12345 is gone
    dead: heartbeat 47 s old, process 12345 is gone
    hung: heartbeat 47 s old, pid 12345 alive
    unknown: heartbeat 47 s old, pid 12345 on build-2 cannot be judged from here, 2 errors in a row
    at-risk: heartbeat 2 s old, 2 errors in a row
    quarantined: heartbeat 2 s old, 3 errors in a row, says it is quarantined
    silent: heartbeat 2 s old, no event from the agent for 6 min on task 3
    healthy: heartbeat 0 s old, 1 error in a row
    healthy: heartbeat 5 min in the future (a clock was set), pid 12345 alive
    dead: no heartbeat, its process is gone
    unknown: no heartbeat, process alive: it is starting, or its heartbeat was removed
    unknown: no heartbeat, no process to judge: a missing heartbeat alone proves nothing
    ");
}

#[test]
fn heartbeat_with_a_pid_alone_is_dead_once_it_is_stale_and_its_pid_is_gone() {
    let mut documented = beat(600, WorkerStatus::Polling, 0);
    documented.process_start_time = None;
    documented.boot_id = None;
    let found = by_life(&documented, ProcessState::Gone);
    assert_eq!(
        found.to_string(),
        "dead: heartbeat 10 min old, process 12345 is gone, judged by its pid alone"
    );
    // The process with this pid may be a different one by now.
    assert_eq!(
        by_life(&documented, ProcessState::Alive).verdict,
        Verdict::Unknown
    );
    documented.last_poll_at = ago(2);
    assert_eq!(
        by_life(&documented, ProcessState::Gone).verdict,
        Verdict::Healthy
    );
}

#[test]
fn limits_are_settings() {
    let strict = Limits {
        stale: Duration::from_secs(5),
        silent: Duration::from_secs(10),
        at_risk_errors: 1,
        quarantine_errors: 2,
    };
    let mut heartbeat = beat(1, WorkerStatus::Executing, 1);
    let verdict =
        |heartbeat: &Heartbeat| assess(NOW, Some(heartbeat), ProcessState::Alive, &strict).verdict;
    assert_eq!(verdict(&heartbeat), Verdict::AtRisk);
    heartbeat.last_event_at = Some(ago(10));
    assert_eq!(verdict(&heartbeat), Verdict::Silent);
    heartbeat.consecutive_errors = 2;
    assert_eq!(verdict(&heartbeat), Verdict::Quarantined);
    heartbeat.last_poll_at = ago(5);
    assert_eq!(verdict(&heartbeat), Verdict::Hung);
}

#[test]
fn verdicts_are_written_as_they_are_said() {
    for (verdict, word) in [
        (Verdict::Healthy, "healthy"),
        (Verdict::AtRisk, "at-risk"),
        (Verdict::Quarantined, "quarantined"),
        (Verdict::Silent, "silent"),
        (Verdict::Hung, "hung"),
        (Verdict::Dead, "dead"),
        (Verdict::Unknown, "unknown"),
    ] {
        assert_eq!(verdict.as_str(), word);
        assert_eq!(serde_json::to_value(verdict).unwrap(), word);
        assert_eq!(
            serde_json::from_value::<Verdict>(word.into()).unwrap(),
            verdict
        );
    }
}

fn any_status() -> impl Strategy<Value = WorkerStatus> {
    prop::sample::select(vec![
        WorkerStatus::Ready,
        WorkerStatus::Polling,
        WorkerStatus::Executing,
        WorkerStatus::Shutdown,
        WorkerStatus::Quarantined,
    ])
}

fn any_moment() -> impl Strategy<Value = i64> {
    prop_oneof![
        any::<i64>(),
        (-1_000_000..1_000_000_i64).prop_map(|near| NOW.as_millis() + near)
    ]
}

prop_compose! {
    fn any_heartbeat()(
        status in any_status(), errors in prop_oneof![0..5_u32, any::<u32>()],
        poll in any_moment(), event in prop::option::of(any_moment()), host in prop::option::of(".{0,5}"),
    ) -> Heartbeat {
        let mut heartbeat = beat(0, status, errors);
        heartbeat.last_poll_at = Time::from_millis(poll);
        heartbeat.last_event_at = event.map(Time::from_millis);
        heartbeat.host = host;
        heartbeat
    }
}

proptest! {
    #[test]
    fn every_worker_gets_a_verdict_with_evidence(
        heartbeat in prop::option::of(any_heartbeat()), now in any_moment(),
        life in prop::sample::select(vec![ProcessState::Alive, ProcessState::Gone, ProcessState::Unknown]),
        stale in any::<u64>(), silent in any::<u64>(), at_risk_errors in any::<u32>(), quarantine_errors in any::<u32>(),
    ) {
        let limits = Limits {
            stale: Duration::from_millis(stale),
            silent: Duration::from_millis(silent),
            at_risk_errors,
            quarantine_errors,
        };
        for limits in [limits, Limits::default()] {
            let now = Time::from_millis(now);
            let found = assess(now, heartbeat.as_ref(), life, &limits);
            prop_assert!(!found.evidence.is_empty());
            prop_assert!(found.evidence.iter().all(|words| !words.as_str().is_empty()));
            let fresh = heartbeat.as_ref().is_some_and(|beat| beat.is_fresh(now, limits.stale));
            if found.verdict == Verdict::Dead {
                prop_assert!(life == ProcessState::Gone);
            }
            if found.verdict == Verdict::Hung {
                prop_assert!(!fresh && life == ProcessState::Alive && heartbeat.is_some());
            }
            if fresh {
                prop_assert_ne!(found.verdict, Verdict::Unknown);
            }
        }
    }
}

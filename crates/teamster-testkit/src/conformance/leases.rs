//! How long a claim lasts, and when it may be taken over.

use std::time::Duration;

use teamster_store::{Claimed, Kind};
use teamster_types::failure::ATTEMPTS;
use teamster_types::heartbeat::Heartbeat;
use teamster_types::task::Status;
use teamster_types::transitions::{HEARTBEAT_FRESH, LEASE};

use super::stage::{Stage, wish};

pub(super) fn a_task_longer_than_its_lease_is_renewed_and_completed(stage: &Stage) {
    stage.create("long");
    let claimed = stage.claim("worker-1");
    let position = stage.position();
    for _ in 0..10 {
        stage.wait_secs(40);
        let renewed = stage.renew(&claimed);
        assert_eq!(renewed.token, claimed.token);
        assert_eq!(renewed.fence, claimed.fence);
        assert_eq!(renewed.leased_until, stage.store.now().after(LEASE));
        assert_eq!(renewed.task, stage.task(claimed.task.id()));
    }
    assert!(
        stage.store.now() > claimed.leased_until,
        "long past its first lease"
    );
    assert_eq!(stage.position(), position, "renewals are not journalled");
    assert!(stage.complete(&claimed).is_done());
}

pub(super) fn a_lease_that_ran_out_takes_nothing_from_the_living(stage: &Stage) {
    let first = stage.create("slow");
    let claimed = stage.claim("worker-1");
    stage.wait(LEASE * 10);
    stage.nothing_for("worker-2");
    for who in ["worker-2", "worker-1"] {
        stage.refuse("claim", Kind::Conflict, |store| {
            store.claim(&stage.team, &wish(who, Some(&first)))
        });
    }
    stage.renew(&claimed);
    stage.wait(LEASE * 10);
    assert!(stage.complete(&claimed).is_done());
}

pub(super) fn a_dead_worker_loses_its_task_at_once_when_the_lease_ends(stage: &Stage) {
    let first = stage.create("abandoned");
    let lost = stage.claim_as_ghost("worker-1");
    stage.wait(LEASE.saturating_sub(Duration::from_millis(1)));
    stage.nothing_for("worker-2");
    stage.wait(Duration::from_millis(1));
    let position = stage.position();
    let taken = stage.claim("worker-2");
    assert_eq!(taken.task.id(), &first);
    assert_eq!(taken.fence, 2);
    assert_eq!(
        stage.kinds_after(position),
        ["task.requeued", "task.claimed"]
    );
    let failure = stage.step("failure", stage.store.failure(&stage.team, &first));
    let failure = failure.unwrap_or_else(|| panic!("the attempt was not counted"));
    assert_eq!(failure.retry_count, 1);
    assert!(failure.last_error.contains("worker-1"), "{failure:?}");
    stage.refuse_token(&first, &lost.token);
    stage.complete(&taken);
    stage.refuse_token(&first, &lost.token);
}

pub(super) fn a_task_is_taken_early_only_from_who_is_proven_dead(stage: &Stage) {
    let first = stage.create("abandoned");
    let lost = stage.claim_as_ghost("worker-1");
    let requeue = || stage.store.requeue(&stage.team, "system", &first);
    stage.refuse("requeue", Kind::Conflict, |_| requeue());
    stage.beat("worker-1", |beat| ghostly(beat, &lost));
    stage.refuse("requeue", Kind::Conflict, |_| requeue());
    stage.wait(HEARTBEAT_FRESH);
    let position = stage.position();
    let free = stage.step("requeue", requeue());
    assert_eq!(free.owner(), None);
    assert_eq!(stage.kinds_after(position), ["task.requeued"]);
    stage.refuse_token(&first, &lost.token);
    let failure = stage.step("failure", stage.store.failure(&stage.team, &first));
    assert_eq!(failure.map(|failure| failure.retry_count), Some(1));
    let taken = stage.claim("worker-2");
    assert_eq!(taken.task.id(), &first, "nobody has to wait");
    stage.refuse("requeue", Kind::Conflict, |_| requeue());
    stage.complete(&taken);
    stage.refuse("requeue", Kind::Conflict, |_| requeue());
}

/// The heartbeat of the process that made this claim.
fn ghostly(beat: &mut Heartbeat, claimed: &Claimed) {
    let Some(claim) = claimed.task.claim() else {
        panic!("a claimed task has a claim");
    };
    beat.pid = claim.pid;
    beat.process_start_time = Some(claim.process_start_time);
    beat.boot_id = Some(claim.boot_id);
    beat.pid_ns = Some(claim.pid_ns);
    beat.host = Some(claim.host);
}

pub(super) fn a_dead_process_keeps_its_task_while_the_lease_lasts(stage: &Stage) {
    let first = stage.create("held");
    let held = stage.claim_as_ghost("worker-1");
    stage.nothing_for("worker-2");
    stage.refuse("claim", Kind::Conflict, |store| {
        store.claim(&stage.team, &wish("worker-2", Some(&first)))
    });
    stage.wait(LEASE * 3);
    let late = stage.renew(&held);
    assert!(late.leased_until > stage.store.now());
    stage.nothing_for("worker-2");
    assert!(
        stage.complete(&held).is_done(),
        "as long as nobody took it over the token is good"
    );
}

pub(super) fn a_fresh_heartbeat_speaks_for_a_worker(stage: &Stage) {
    let first = stage.create("held");
    stage.claim_as_ghost("worker-1");
    stage.wait(LEASE);
    stage.beat("worker-1", |_| {});
    stage.wait(HEARTBEAT_FRESH.saturating_sub(Duration::from_millis(1)));
    stage.nothing_for("worker-2");
    stage.refuse("claim", Kind::Conflict, |store| {
        store.claim(&stage.team, &wish("worker-2", Some(&first)))
    });
    stage.beat("worker-3", |_| {});
    stage.wait(Duration::from_millis(1));
    let taken = stage.claim("worker-2");
    assert_eq!(
        taken.task.id(),
        &first,
        "an old heartbeat speaks for nobody, and another's neither"
    );
}

pub(super) fn a_restarted_worker_gets_its_own_task_back_by_id(stage: &Stage) {
    let first = stage.create("mine");
    let lost = stage.claim_as_ghost("worker-1");
    stage.beat("worker-1", |_| {});
    let back = stage.claim_id("worker-1", &first);
    assert_eq!(back.fence, 2);
    let failure = stage.step("failure", stage.store.failure(&stage.team, &first));
    assert_eq!(failure, None, "starting anew is not failing");
    stage.refuse_token(&first, &lost.token);
    stage.complete(&back);
}

pub(super) fn only_a_restarted_worker_gets_it_back(stage: &Stage) {
    let first = stage.create("mine");
    stage.claim_as_ghost("worker-1");
    stage.refuse("claim", Kind::Conflict, |store| {
        store.claim(&stage.team, &wish("worker-2", Some(&first)))
    });
    stage.nothing_for("worker-1");
    let back = stage.claim_id("worker-1", &first);
    stage.refuse("claim", Kind::Conflict, |store| {
        store.claim(&stage.team, &wish("worker-1", Some(&first)))
    });
    stage.complete(&back);
}

pub(super) fn a_task_that_kills_its_workers_fails_for_good(stage: &Stage) {
    let first = stage.create("deadly");
    for attempt in 1..=ATTEMPTS {
        let claimed = stage.claim_as_ghost("worker-1");
        assert_eq!(
            claimed.task.fence(),
            u64::from(attempt),
            "nobody has to wait"
        );
        stage.wait(LEASE);
    }
    let position = stage.position();
    let none = stage.store.claim(&stage.team, &wish("worker-2", None));
    assert_eq!(stage.step("claim", none), None);
    assert_eq!(stage.kinds_after(position), ["task.failed"]);
    let task = stage.task(&first);
    assert_eq!(task.status(), Status::Completed);
    assert!(task.is_failed());
    stage.nothing_for("worker-2");
}

pub(super) fn a_clock_set_back_takes_nothing_away(stage: &Stage) {
    let first = stage.create("held");
    let held = stage.claim("worker-1");
    stage.clock.advance(-7_200_000);
    stage.nothing_for("worker-2");
    let renewed = stage.renew(&held);
    assert_eq!(renewed.leased_until, stage.store.now().after(LEASE));
    stage.refuse("claim", Kind::Conflict, |store| {
        store.claim(&stage.team, &wish("worker-2", Some(&first)))
    });
    assert!(stage.complete(&held).is_done());
}

pub(super) fn a_clock_set_forward_takes_nothing_from_the_living(stage: &Stage) {
    stage.create("held");
    stage.create("waiting after a failure");
    let held = stage.claim("worker-1");
    stage.fail(&stage.claim("worker-2"), "boom");
    stage.clock.advance(86_400_000);
    let other = stage.claim("worker-2");
    assert_ne!(other.task.id(), held.task.id());
    stage.clock.advance(-86_400_000);
    assert!(stage.complete(&held).is_done());
    assert!(stage.complete(&other).is_done());
}

//! How long a claim lasts, and when it may be taken over.

use std::time::Duration;

use teamster_journal::EventActor;
use teamster_store::{Claimed, StoreErrorKind};
use teamster_types::failure::ATTEMPTS;
use teamster_types::heartbeat::Heartbeat;
use teamster_types::task::Status;
use teamster_types::transitions::{HEARTBEAT_FRESH, LEASE};

use super::fixture::{StoreFixture, claim_request};

pub(super) fn a_task_longer_than_its_lease_is_renewed_and_completed(fixture: &StoreFixture) {
    fixture.create("long");
    let claimed = fixture.claim("worker-1");
    let position = fixture.position();
    for _ in 0..10 {
        fixture.wait_secs(40);
        let renewed = fixture.renew(&claimed);
        assert_eq!(renewed.token, claimed.token);
        assert_eq!(renewed.fence, claimed.fence);
        assert_eq!(renewed.leased_until, fixture.store.now().after(LEASE));
        assert_eq!(renewed.task, fixture.task(claimed.task.id()));
    }
    assert!(
        fixture.store.now() > claimed.leased_until,
        "long past its first lease"
    );
    assert_eq!(fixture.position(), position, "renewals are not journalled");
    assert!(fixture.complete(&claimed).is_done());
}

pub(super) fn a_lease_that_ran_out_takes_nothing_from_the_living(fixture: &StoreFixture) {
    let first = fixture.create("slow");
    let claimed = fixture.claim("worker-1");
    fixture.wait(LEASE * 10);
    fixture.nothing_for("worker-2");
    for who in ["worker-2", "worker-1"] {
        fixture.refuse("claim", StoreErrorKind::Conflict, |store| {
            store.claim(&fixture.team, &claim_request(who, Some(&first)))
        });
    }
    fixture.renew(&claimed);
    fixture.wait(LEASE * 10);
    assert!(fixture.complete(&claimed).is_done());
}

pub(super) fn a_dead_worker_loses_its_task_at_once_when_the_lease_ends(fixture: &StoreFixture) {
    let first = fixture.create("abandoned");
    let lost = fixture.claim_as_ghost("worker-1");
    fixture.wait(LEASE.saturating_sub(Duration::from_millis(1)));
    fixture.nothing_for("worker-2");
    fixture.wait(Duration::from_millis(1));
    let position = fixture.position();
    let taken = fixture.claim("worker-2");
    assert_eq!(taken.task.id(), &first);
    assert_eq!(taken.fence, 2);
    assert_eq!(
        fixture.kinds_after(position),
        ["task.requeued", "task.claimed"]
    );
    let failure = fixture.step("failure", fixture.store.failure(&fixture.team, &first));
    let failure = failure.unwrap_or_else(|| panic!("the attempt was not counted"));
    assert_eq!(failure.retry_count, 1);
    assert!(failure.last_error.contains("worker-1"), "{failure:?}");
    fixture.refuse_token(&first, &lost.token);
    fixture.complete(&taken);
    fixture.refuse_token(&first, &lost.token);
}

pub(super) fn a_task_is_taken_early_only_from_who_is_proven_dead(fixture: &StoreFixture) {
    let first = fixture.create("abandoned");
    let lost = fixture.claim_as_ghost("worker-1");
    let requeue = || {
        fixture
            .store
            .requeue(&fixture.team, &EventActor::System, &first)
    };
    fixture.refuse("requeue", StoreErrorKind::Conflict, |_| requeue());
    fixture.beat("worker-1", |_| {});
    fixture.refuse("requeue", StoreErrorKind::Conflict, |_| requeue());
    // The process is gone, so even a recent heartbeat does not help.
    fixture.beat("worker-1", |beat| ghostly(beat, &lost));
    let position = fixture.position();
    let free = fixture.step("requeue", requeue());
    assert_eq!(free.owner(), None);
    assert_eq!(fixture.kinds_after(position), ["task.requeued"]);
    fixture.refuse_token(&first, &lost.token);
    let failure = fixture.step("failure", fixture.store.failure(&fixture.team, &first));
    assert_eq!(failure.map(|failure| failure.retry_count), Some(1));
    let taken = fixture.claim("worker-2");
    assert_eq!(taken.task.id(), &first, "nobody has to wait");
    fixture.refuse("requeue", StoreErrorKind::Conflict, |_| requeue());
    fixture.complete(&taken);
    fixture.refuse("requeue", StoreErrorKind::Conflict, |_| requeue());
}

/// Makes a heartbeat that of the process that made this claim.
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

pub(super) fn a_dead_process_keeps_its_task_while_the_lease_lasts(fixture: &StoreFixture) {
    let first = fixture.create("held");
    let held = fixture.claim_as_ghost("worker-1");
    fixture.nothing_for("worker-2");
    fixture.refuse("claim", StoreErrorKind::Conflict, |store| {
        store.claim(&fixture.team, &claim_request("worker-2", Some(&first)))
    });
    fixture.wait(LEASE * 3);
    let late = fixture.renew(&held);
    assert!(late.leased_until > fixture.store.now());
    fixture.nothing_for("worker-2");
    assert!(
        fixture.complete(&held).is_done(),
        "as long as nobody took it over the token is good"
    );
}

pub(super) fn a_fresh_heartbeat_speaks_for_a_worker(fixture: &StoreFixture) {
    let first = fixture.create("held");
    fixture.claim_as_ghost("worker-1");
    fixture.wait(LEASE);
    fixture.beat("worker-1", |_| {});
    fixture.wait(HEARTBEAT_FRESH.saturating_sub(Duration::from_millis(1)));
    fixture.nothing_for("worker-2");
    fixture.refuse("claim", StoreErrorKind::Conflict, |store| {
        store.claim(&fixture.team, &claim_request("worker-2", Some(&first)))
    });
    fixture.beat("worker-3", |_| {});
    fixture.wait(Duration::from_millis(1));
    let taken = fixture.claim("worker-2");
    assert_eq!(
        taken.task.id(),
        &first,
        "an old heartbeat speaks for nobody, and another's neither"
    );
}

pub(super) fn a_restarted_worker_gets_its_own_task_back_by_id(fixture: &StoreFixture) {
    let first = fixture.create("mine");
    let lost = fixture.claim_as_ghost("worker-1");
    fixture.beat("worker-1", |_| {});
    let back = fixture.claim_id("worker-1", &first);
    assert_eq!(back.fence, 2);
    let failure = fixture.step("failure", fixture.store.failure(&fixture.team, &first));
    assert_eq!(failure, None, "starting anew is not failing");
    fixture.refuse_token(&first, &lost.token);
    fixture.complete(&back);
}

pub(super) fn only_a_restarted_worker_gets_it_back(fixture: &StoreFixture) {
    let first = fixture.create("mine");
    fixture.claim_as_ghost("worker-1");
    fixture.refuse("claim", StoreErrorKind::Conflict, |store| {
        store.claim(&fixture.team, &claim_request("worker-2", Some(&first)))
    });
    fixture.nothing_for("worker-1");
    let back = fixture.claim_id("worker-1", &first);
    fixture.refuse("claim", StoreErrorKind::Conflict, |store| {
        store.claim(&fixture.team, &claim_request("worker-1", Some(&first)))
    });
    fixture.complete(&back);
}

pub(super) fn a_task_that_kills_its_workers_fails_for_good(fixture: &StoreFixture) {
    let first = fixture.create("deadly");
    for attempt in 1..=ATTEMPTS {
        let claimed = fixture.claim_as_ghost("worker-1");
        assert_eq!(
            claimed.task.fence(),
            u64::from(attempt),
            "nobody has to wait"
        );
        fixture.wait(LEASE);
    }
    let position = fixture.position();
    let none = fixture
        .store
        .claim(&fixture.team, &claim_request("worker-2", None));
    assert_eq!(fixture.step("claim", none), None);
    assert_eq!(fixture.kinds_after(position), ["task.failed"]);
    let task = fixture.task(&first);
    assert_eq!(task.status(), Status::Completed);
    assert!(task.is_failed());
    fixture.nothing_for("worker-2");
}

pub(super) fn a_clock_set_back_takes_nothing_away(fixture: &StoreFixture) {
    let first = fixture.create("held");
    let held = fixture.claim("worker-1");
    fixture.clock.advance(-7_200_000);
    fixture.nothing_for("worker-2");
    let renewed = fixture.renew(&held);
    assert_eq!(renewed.leased_until, fixture.store.now().after(LEASE));
    fixture.refuse("claim", StoreErrorKind::Conflict, |store| {
        store.claim(&fixture.team, &claim_request("worker-2", Some(&first)))
    });
    assert!(fixture.complete(&held).is_done());
}

pub(super) fn a_clock_set_forward_takes_nothing_from_the_living(fixture: &StoreFixture) {
    fixture.create("held");
    fixture.create("waiting after a failure");
    let held = fixture.claim("worker-1");
    fixture.fail(&fixture.claim("worker-2"), "boom");
    fixture.clock.advance(86_400_000);
    let other = fixture.claim("worker-2");
    assert_ne!(other.task.id(), held.task.id());
    fixture.clock.advance(-86_400_000);
    assert!(fixture.complete(&held).is_done());
    assert!(fixture.complete(&other).is_done());
}

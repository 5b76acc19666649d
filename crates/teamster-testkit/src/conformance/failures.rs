//! The consequences of failed attempts.

use std::time::Duration;

use serde_json::json;
use teamster_journal::EventActor;
use teamster_store::{Store, StoreErrorKind};
use teamster_types::TaskId;
use teamster_types::task::Status;
use teamster_types::transitions::TaskEdit;

use super::fixture::{StoreFixture, claim_request, worker};

const MOMENT: Duration = Duration::from_millis(1);

pub(super) fn the_pause_doubles_and_the_fifth_failure_is_the_last(fixture: &StoreFixture) {
    let first = fixture.create("hopeless");
    for (attempt, pause) in (1..).zip([5, 10, 20, 40]) {
        let failed = fixture.fail(&fixture.claim("worker-1"), "boom");
        assert_eq!(failed.status(), Status::Pending);
        assert_eq!(failed.owner(), None);
        assert_eq!(
            json!(failed.as_object())["metadata"]["failedAttempts"],
            attempt
        );
        fixture.wait(Duration::from_secs(pause).saturating_sub(MOMENT));
        fixture.nothing_for("worker-1");
        fixture.wait(MOMENT);
    }
    let failed = fixture.fail(&fixture.claim("worker-1"), "boom for good");
    assert_eq!(failed.status(), Status::Completed);
    let metadata = json!(failed.as_object())["metadata"].clone();
    assert_eq!(metadata["permanentlyFailed"], true);
    assert_eq!(metadata["failedAttempts"], 5);
    assert_eq!(metadata["error"], "boom for good");
    assert!(!failed.is_done());
    fixture.wait_secs(86_400);
    fixture.nothing_for("worker-1");
    fixture.refuse("claim", StoreErrorKind::Conflict, |store| {
        store.claim(&fixture.team, &claim_request("worker-1", Some(&first)))
    });
}

pub(super) fn a_pause_holds_for_everyone_and_by_id_too(fixture: &StoreFixture) {
    let first = fixture.create("resting");
    let second = fixture.create("ready");
    fixture.fail(&fixture.claim("worker-1"), "boom");
    fixture.wait(Duration::from_secs(5).saturating_sub(MOMENT));
    fixture.refuse("claim", StoreErrorKind::Conflict, |store| {
        store.claim(&fixture.team, &claim_request("worker-2", Some(&first)))
    });
    assert_eq!(
        fixture.claim("worker-2").task.id(),
        &second,
        "the next one is given meanwhile"
    );
    fixture.wait(MOMENT);
    let claimed = fixture.claim("worker-3");
    assert_eq!(claimed.task.id(), &first);
    fixture.release(&claimed);
    assert_eq!(
        fixture.claim("worker-3").task.id(),
        &first,
        "a pause that is over does not begin again"
    );
}

pub(super) fn a_failure_says_what_went_wrong_last(fixture: &StoreFixture) {
    let first = fixture.create("flaky");
    let failure = || fixture.step("failure", fixture.store.failure(&fixture.team, &first));
    assert_eq!(failure(), None);
    for (count, error) in (1..).zip(["no such file", "timeout", "tests are red"]) {
        fixture.fail(&fixture.claim("worker-1"), error);
        let known = failure().unwrap_or_else(|| panic!("no failure is known"));
        assert_eq!(known.task_id, first);
        assert_eq!(known.last_error, error);
        assert_eq!(known.retry_count, count);
        assert_eq!(known.last_failed_at, fixture.store.now());
        fixture.wait_secs(60);
    }
    fixture.complete(&fixture.claim("worker-1"));
    assert_eq!(
        failure().map(|known| known.retry_count),
        Some(3),
        "how often it took is still known"
    );
}

pub(super) fn a_retry_begins_anew(fixture: &StoreFixture) {
    let first = fixture.create("hopeless at first");
    let second = fixture.create_with("waits", |new| new.blocked_by = vec![first.clone()]);
    for _ in 0..5 {
        fixture.fail(&fixture.claim("worker-1"), "boom");
        fixture.wait_secs(60);
    }
    let again = fixture.step(
        "retry",
        fixture
            .store
            .retry(&fixture.team, &EventActor::Lead, &first),
    );
    assert_eq!(again.status(), Status::Pending);
    assert!(!again.is_failed());
    assert_eq!(again.error(), None);
    assert_eq!(again.fence(), 5, "the fence never goes back");
    let failure = fixture.step("failure", fixture.store.failure(&fixture.team, &first));
    assert_eq!(failure, None);
    let failed = fixture.fail(&fixture.claim("worker-1"), "boom");
    assert_eq!(
        failed.status(),
        Status::Pending,
        "it has all its attempts again"
    );
    fixture.wait_secs(5);
    fixture.complete(&fixture.claim("worker-1"));
    assert_eq!(fixture.claim("worker-1").task.id(), &second);
}

pub(super) fn a_retry_ends_a_pause(fixture: &StoreFixture) {
    let first = fixture.create("resting");
    fixture.update(&first, |edit: &mut TaskEdit| {
        edit.owner = Some(Some(worker("worker-1")));
    });
    fixture.fail(&fixture.claim("worker-1"), "boom");
    fixture.nothing_for("worker-1");
    fixture.step(
        "retry",
        fixture
            .store
            .retry(&fixture.team, &EventActor::Lead, &first),
    );
    assert_eq!(fixture.claim("worker-1").task.id(), &first);
}

pub(super) fn an_assigned_task_stays_its_owners_whatever_gives_it_back(fixture: &StoreFixture) {
    let store = &fixture.store;
    let first = fixture.create("for one");
    let free = fixture.create("for anybody");
    fixture.update(&first, |edit: &mut TaskEdit| {
        edit.owner = Some(Some(worker("worker-1")));
    });
    let owner = |id: &TaskId| {
        let task = fixture.step("task", store.task(&fixture.team, id));
        task.owner().map(str::to_owned)
    };
    let mine = Some("worker-1".to_owned());
    fixture.fail(&fixture.claim_id("worker-1", &first), "boom");
    assert_eq!(owner(&first), mine, "after a failed attempt");
    // Another worker claims an unassigned task and fails it, which leaves it unassigned.
    let other = fixture.claim("worker-2");
    assert_eq!(other.task.id(), &free);
    fixture.fail(&other, "boom");
    assert_eq!(owner(&free), None);
    fixture.wait_secs(60);
    for _ in 0..4 {
        let claimed = fixture.claim_id("worker-1", &first);
        fixture.fail(&claimed, "boom");
        fixture.wait_secs(60);
    }
    let retried = store.retry(&fixture.team, &EventActor::Lead, &first);
    fixture.step("retry", retried);
    assert_eq!(owner(&first), mine, "after a retry");
    fixture.claim_id("worker-1", &first);
    let released = store.release(&fixture.team, &EventActor::Lead, &first, None);
    fixture.step("release", released);
    assert_eq!(owner(&first), mine, "after a release");
    fixture.update(&first, |edit: &mut TaskEdit| edit.owner = Some(None));
    fixture.claim_id("worker-1", &first);
    let released = store.release(&fixture.team, &EventActor::Lead, &first, None);
    fixture.step("release", released);
    assert_eq!(owner(&first), None, "a person took it away");
}

pub(super) fn only_what_failed_is_retried(fixture: &StoreFixture) {
    let first = fixture.create("first");
    let retry = |store: &dyn Store| store.retry(&fixture.team, &EventActor::Lead, &first);
    fixture.refuse("retry", StoreErrorKind::Conflict, retry);
    let claimed = fixture.claim("worker-1");
    fixture.refuse("retry", StoreErrorKind::Conflict, retry);
    fixture.complete(&claimed);
    fixture.refuse("retry", StoreErrorKind::Conflict, retry);
}

pub(super) fn a_clock_set_back_makes_no_pause_longer(fixture: &StoreFixture) {
    let first = fixture.create("resting");
    fixture.fail(&fixture.claim("worker-1"), "boom");
    fixture.clock.advance(-7_200_000);
    assert_eq!(
        fixture.claim("worker-1").task.id(),
        &first,
        "no pause is longer than a minute, whatever the clock says"
    );
}

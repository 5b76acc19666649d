//! What a failure costs.

use std::time::Duration;

use serde_json::json;
use teamster_store::{Kind, Store};
use teamster_types::task::Status;
use teamster_types::transitions::Edit;

use super::stage::{Stage, wish, worker};

const MOMENT: Duration = Duration::from_millis(1);

pub(super) fn the_pause_doubles_and_the_fifth_failure_is_the_last(stage: &Stage) {
    let first = stage.create("hopeless");
    for (attempt, pause) in (1..).zip([5, 10, 20, 40]) {
        let failed = stage.fail(&stage.claim("worker-1"), "boom");
        assert_eq!(failed.status(), Status::Pending);
        assert_eq!(failed.owner(), None);
        assert_eq!(
            json!(failed.as_object())["metadata"]["failedAttempts"],
            attempt
        );
        stage.wait(Duration::from_secs(pause).saturating_sub(MOMENT));
        stage.nothing_for("worker-1");
        stage.wait(MOMENT);
    }
    let failed = stage.fail(&stage.claim("worker-1"), "boom for good");
    assert_eq!(failed.status(), Status::Completed);
    let metadata = json!(failed.as_object())["metadata"].clone();
    assert_eq!(metadata["permanentlyFailed"], true);
    assert_eq!(metadata["failedAttempts"], 5);
    assert_eq!(metadata["error"], "boom for good");
    assert!(!failed.is_done());
    stage.wait_secs(86_400);
    stage.nothing_for("worker-1");
    stage.refuse("claim", Kind::Conflict, |store| {
        store.claim(&stage.team, &wish("worker-1", Some(&first)))
    });
}

pub(super) fn a_pause_holds_for_everyone_and_by_id_too(stage: &Stage) {
    let first = stage.create("resting");
    let second = stage.create("ready");
    stage.fail(&stage.claim("worker-1"), "boom");
    stage.wait(Duration::from_secs(5).saturating_sub(MOMENT));
    stage.refuse("claim", Kind::Conflict, |store| {
        store.claim(&stage.team, &wish("worker-2", Some(&first)))
    });
    assert_eq!(
        stage.claim("worker-2").task.id(),
        &second,
        "the next one is given meanwhile"
    );
    stage.wait(MOMENT);
    let claimed = stage.claim("worker-3");
    assert_eq!(claimed.task.id(), &first);
    stage.release(&claimed);
    assert_eq!(
        stage.claim("worker-3").task.id(),
        &first,
        "a pause that is over does not begin again"
    );
}

pub(super) fn a_failure_says_what_went_wrong_last(stage: &Stage) {
    let first = stage.create("flaky");
    let failure = || stage.step("failure", stage.store.failure(&stage.team, &first));
    assert_eq!(failure(), None);
    for (count, error) in (1..).zip(["no such file", "timeout", "tests are red"]) {
        stage.fail(&stage.claim("worker-1"), error);
        let known = failure().unwrap_or_else(|| panic!("no failure is known"));
        assert_eq!(known.task_id, first);
        assert_eq!(known.last_error, error);
        assert_eq!(known.retry_count, count);
        assert_eq!(known.last_failed_at, stage.store.now());
        stage.wait_secs(60);
    }
    stage.complete(&stage.claim("worker-1"));
    assert_eq!(
        failure().map(|known| known.retry_count),
        Some(3),
        "how often it took is still known"
    );
}

pub(super) fn a_retry_begins_anew(stage: &Stage) {
    let first = stage.create("hopeless at first");
    let second = stage.create_with("waits", |new| new.blocked_by = vec![first.clone()]);
    for _ in 0..5 {
        stage.fail(&stage.claim("worker-1"), "boom");
        stage.wait_secs(60);
    }
    let again = stage.step("retry", stage.store.retry(&stage.team, "lead", &first));
    assert_eq!(again.status(), Status::Pending);
    assert!(!again.is_failed());
    assert_eq!(again.error(), None);
    assert_eq!(again.fence(), 5, "the fence never goes back");
    let failure = stage.step("failure", stage.store.failure(&stage.team, &first));
    assert_eq!(failure, None);
    let failed = stage.fail(&stage.claim("worker-1"), "boom");
    assert_eq!(
        failed.status(),
        Status::Pending,
        "it has all its attempts again"
    );
    stage.wait_secs(5);
    stage.complete(&stage.claim("worker-1"));
    assert_eq!(stage.claim("worker-1").task.id(), &second);
}

pub(super) fn a_retry_ends_a_pause(stage: &Stage) {
    let first = stage.create("resting");
    stage.update(&first, |edit: &mut Edit| {
        edit.owner = Some(Some(worker("worker-1")));
    });
    stage.fail(&stage.claim("worker-1"), "boom");
    stage.nothing_for("worker-2");
    stage.step("retry", stage.store.retry(&stage.team, "lead", &first));
    assert_eq!(stage.claim("worker-2").task.id(), &first);
}

pub(super) fn only_what_failed_is_retried(stage: &Stage) {
    let first = stage.create("first");
    let retry = |store: &dyn Store| store.retry(&stage.team, "lead", &first);
    stage.refuse("retry", Kind::Conflict, retry);
    let claimed = stage.claim("worker-1");
    stage.refuse("retry", Kind::Conflict, retry);
    stage.complete(&claimed);
    stage.refuse("retry", Kind::Conflict, retry);
}

pub(super) fn a_clock_set_back_makes_no_pause_longer(stage: &Stage) {
    let first = stage.create("resting");
    stage.fail(&stage.claim("worker-1"), "boom");
    stage.clock.advance(-7_200_000);
    assert_eq!(
        stage.claim("worker-1").task.id(),
        &first,
        "no pause is longer than a minute, whatever the clock says"
    );
}

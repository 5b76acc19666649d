//! Which workers may claim a task that requires capabilities.

use teamster_store::StoreErrorKind;
use teamster_types::TaskId;
use teamster_types::routing::LONG_ENOUGH;
use teamster_types::team::NewMember;

use super::fixture::{StoreFixture, claim_request, worker};

fn join(fixture: &StoreFixture, name: &str, provider: &str) {
    let member = NewMember {
        name: worker(name),
        provider: provider.to_owned(),
        capabilities: None,
    };
    fixture.step("join", fixture.store.join_team(&fixture.team, &member));
}

fn needs(fixture: &StoreFixture, capability: &str) -> TaskId {
    fixture.create_with("only some can do it", |new| {
        new.capabilities = vec![capability.to_owned()];
    })
}

pub(super) fn a_task_goes_only_to_those_who_can_do_it(fixture: &StoreFixture) {
    join(fixture, "codex-1", "codex");
    join(fixture, "gemini-1", "gemini");
    let review = needs(fixture, "code-review");
    let plain = fixture.create("anyone can do it");
    assert_eq!(fixture.claim("gemini-1").task.id(), &plain);
    fixture.nothing_for("gemini-1");
    fixture.wait(LONG_ENOUGH * 100);
    fixture.nothing_for("gemini-1");
    assert_eq!(fixture.claim("codex-1").task.id(), &review);
}

pub(super) fn a_better_idle_worker_is_waited_for_but_not_for_ever(fixture: &StoreFixture) {
    join(fixture, "codex-1", "codex");
    join(fixture, "claude-1", "claude");
    let review = needs(fixture, "code-review");
    fixture.beat("codex-1", |_| {});
    fixture.nothing_for("claude-1");
    fixture.beat("codex-1", |beat| {
        beat.current_task_id = Some(review.clone());
    });
    let claimed = fixture.claim("claude-1");
    assert_eq!(claimed.task.id(), &review, "a busy one is not waited for");
    fixture.release(&claimed);
    fixture.beat("codex-1", |_| {});
    fixture.nothing_for("claude-1");
    fixture.wait(LONG_ENOUGH);
    fixture.beat("codex-1", |_| {});
    assert_eq!(fixture.claim("claude-1").task.id(), &review);
}

pub(super) fn an_assigned_worker_need_not_be_the_best(fixture: &StoreFixture) {
    join(fixture, "gemini-1", "gemini");
    let review = needs(fixture, "code-review");
    fixture.update(&review, |edit| edit.owner = Some(Some(worker("gemini-1"))));
    assert_eq!(fixture.claim("gemini-1").task.id(), &review);
}

pub(super) fn what_was_assigned_to_the_dead_is_free(fixture: &StoreFixture) {
    fixture.create("tells which process is gone");
    let scout = fixture.claim_as_ghost("worker-2");
    let claim = scout.task.claim().unwrap_or_else(|| panic!("no claim"));
    let process = claim.process();
    fixture.complete(&scout);
    let assigned = fixture.create_with("for worker-2", |new| new.owner = Some(worker("worker-2")));
    fixture.beat("worker-2", |_| {});
    fixture.nothing_for("worker-1");
    fixture.beat("worker-2", |beat| {
        beat.pid = process.pid;
        beat.process_start_time = Some(process.process_start_time);
        beat.boot_id = Some(process.boot_id.clone());
        beat.pid_ns = Some(process.pid_ns.clone());
        beat.host = Some(process.host.clone());
    });
    let position = fixture.position();
    assert_eq!(fixture.claim("worker-1").task.id(), &assigned);
    assert_eq!(
        fixture.kinds_after(position),
        ["task.updated", "task.claimed"],
        "the journal says that it lost its owner"
    );
}

pub(super) fn a_quarantined_worker_gets_nothing_and_keeps_nothing(fixture: &StoreFixture) {
    let assigned = fixture.create_with("for worker-2", |new| new.owner = Some(worker("worker-2")));
    let free = fixture.create("for anyone");
    fixture.beat("worker-2", |beat| beat.consecutive_errors = 3);
    for claim_request in [
        claim_request("worker-2", None),
        claim_request("worker-2", Some(&free)),
    ] {
        fixture.refuse("claim", StoreErrorKind::Conflict, |store| {
            store.claim(&fixture.team, &claim_request)
        });
    }
    assert_eq!(fixture.claim("worker-1").task.id(), &assigned);
    fixture.beat("worker-2", |_| {});
    assert_eq!(
        fixture.claim("worker-2").task.id(),
        &free,
        "once it is well again"
    );
}

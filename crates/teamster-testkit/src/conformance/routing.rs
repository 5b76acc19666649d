//! Who may pull a task that not everyone can do.

use std::time::Duration;

use teamster_store::Kind;
use teamster_types::TaskId;
use teamster_types::routing::LONG_ENOUGH;
use teamster_types::team::NewMember;
use teamster_types::transitions::HEARTBEAT_FRESH;

use super::stage::{Stage, wish, worker};

fn join(stage: &Stage, name: &str, provider: &str) {
    let member = NewMember {
        name: worker(name),
        provider: provider.to_owned(),
        capabilities: None,
    };
    stage.step("join", stage.store.join_team(&stage.team, &member));
}

fn needs(stage: &Stage, capability: &str) -> TaskId {
    stage.create_with("only some can do it", |new| {
        new.capabilities = vec![capability.to_owned()];
    })
}

pub(super) fn a_task_goes_only_to_those_who_can_do_it(stage: &Stage) {
    join(stage, "codex-1", "codex");
    join(stage, "gemini-1", "gemini");
    let review = needs(stage, "code-review");
    let plain = stage.create("anyone can do it");
    assert_eq!(stage.claim("gemini-1").task.id(), &plain);
    stage.nothing_for("gemini-1");
    stage.wait(LONG_ENOUGH * 100);
    stage.nothing_for("gemini-1");
    assert_eq!(stage.claim("codex-1").task.id(), &review);
}

pub(super) fn a_better_idle_worker_is_waited_for_but_not_for_ever(stage: &Stage) {
    join(stage, "codex-1", "codex");
    join(stage, "claude-1", "claude");
    let review = needs(stage, "code-review");
    stage.beat("codex-1", |_| {});
    stage.nothing_for("claude-1");
    stage.beat("codex-1", |beat| {
        beat.current_task_id = Some(review.clone());
    });
    let claimed = stage.claim("claude-1");
    assert_eq!(claimed.task.id(), &review, "a busy one is not waited for");
    stage.release(&claimed);
    stage.beat("codex-1", |_| {});
    stage.nothing_for("claude-1");
    stage.wait(LONG_ENOUGH);
    stage.beat("codex-1", |_| {});
    assert_eq!(stage.claim("claude-1").task.id(), &review);
}

pub(super) fn an_assigned_worker_need_not_be_the_best(stage: &Stage) {
    join(stage, "gemini-1", "gemini");
    let review = needs(stage, "code-review");
    stage.update(&review, |edit| edit.owner = Some(Some(worker("gemini-1"))));
    assert_eq!(stage.claim("gemini-1").task.id(), &review);
}

pub(super) fn what_was_assigned_to_the_dead_is_free(stage: &Stage) {
    stage.create("tells which process is gone");
    let scout = stage.claim_as_ghost("worker-2");
    let claim = scout.task.claim().unwrap_or_else(|| panic!("no claim"));
    let process = claim.process();
    stage.complete(&scout);
    let assigned = stage.create_with("for worker-2", |new| new.owner = Some(worker("worker-2")));
    stage.beat("worker-2", |beat| {
        beat.pid = process.pid;
        beat.process_start_time = Some(process.process_start_time);
        beat.boot_id = Some(process.boot_id.clone());
        beat.pid_ns = Some(process.pid_ns.clone());
        beat.host = Some(process.host.clone());
    });
    stage.wait(HEARTBEAT_FRESH.saturating_sub(Duration::from_millis(1)));
    stage.nothing_for("worker-1");
    stage.wait(Duration::from_millis(1));
    let position = stage.position();
    assert_eq!(stage.claim("worker-1").task.id(), &assigned);
    assert_eq!(
        stage.kinds_after(position),
        ["task.updated", "task.claimed"],
        "the journal says that it lost its owner"
    );
}

pub(super) fn a_quarantined_worker_gets_nothing_and_keeps_nothing(stage: &Stage) {
    let assigned = stage.create_with("for worker-2", |new| new.owner = Some(worker("worker-2")));
    let free = stage.create("for anyone");
    stage.beat("worker-2", |beat| beat.consecutive_errors = 3);
    for wish in [wish("worker-2", None), wish("worker-2", Some(&free))] {
        stage.refuse("claim", Kind::Conflict, |store| {
            store.claim(&stage.team, &wish)
        });
    }
    assert_eq!(stage.claim("worker-1").task.id(), &assigned);
    stage.beat("worker-2", |_| {});
    assert_eq!(
        stage.claim("worker-2").task.id(),
        &free,
        "once it is well again"
    );
}

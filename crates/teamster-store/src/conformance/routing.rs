//! Who may pull a task that not everyone can do.

use teamster_types::TaskId;
use teamster_types::routing::LONG_ENOUGH;
use teamster_types::team::NewMember;

use super::stage::{Stage, worker};

fn join(stage: &Stage, name: &str, provider: &str) {
    let member = NewMember {
        name: worker(name),
        provider: provider.to_owned(),
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

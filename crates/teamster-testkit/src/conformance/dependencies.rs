//! Who waits for whom.

use serde_json::json;
use teamster_store::{Kind, LostMerge, Merge};
use teamster_types::TaskId;
use teamster_types::task::NewTask;
use teamster_types::transitions::Edit;

use super::stage::{Stage, id, wish};

fn after(stage: &Stage, subject: &str, blockers: &[u64]) -> TaskId {
    stage.create_with(subject, |new| {
        new.blocked_by = blockers.iter().map(|number| id(*number)).collect();
    })
}

fn numbers(ids: &[TaskId]) -> Vec<u128> {
    ids.iter().map(TaskId::number).collect()
}

pub(super) fn a_task_waits_for_its_blockers(stage: &Stage) {
    stage.create("first");
    after(stage, "second", &[1]);
    assert_eq!(numbers(stage.task(&id(1)).blocks()), [2]);
    let claimed = stage.claim("worker-1");
    stage.nothing_for("worker-2");
    let error = stage.refuse("claim", Kind::Conflict, |store| {
        store.claim(&stage.team, &wish("worker-2", Some(&id(2))))
    });
    assert!(error.message.contains("waits for 1"), "{error}");
    stage.complete(&claimed);
    assert_eq!(stage.claim("worker-2").task.id(), &id(2));
}

pub(super) fn a_diamond_opens_from_the_top(stage: &Stage) {
    stage.create("top");
    after(stage, "left", &[1]);
    after(stage, "right", &[1]);
    after(stage, "bottom", &[2, 3]);
    assert_eq!(numbers(stage.task(&id(1)).blocks()), [2, 3]);
    stage.complete(&stage.claim("worker-1"));
    let (left, right) = (stage.claim("worker-1"), stage.claim("worker-2"));
    assert_eq!((left.task.id(), right.task.id()), (&id(2), &id(3)));
    stage.complete(&right);
    stage.nothing_for("worker-2");
    stage.complete(&left);
    assert_eq!(stage.claim("worker-2").task.id(), &id(4));
}

pub(super) fn in_a_run_a_task_waits_for_the_merge_of_its_blockers(stage: &Stage) {
    let unmerged = |new: &mut NewTask| {
        new.notes.insert("merged".into(), json!(false));
    };
    stage.create_with("first", unmerged);
    stage.create_with("second", |new| {
        unmerged(new);
        new.blocked_by = vec![id(1)];
    });
    let merge = Merge {
        commit: "c1".to_owned(),
        made: Some("m1".to_owned()),
        files: vec!["a.txt".to_owned()],
    };
    let store = stage.store.as_ref();
    stage.refuse("merged", Kind::Conflict, |store| {
        store.merged(&stage.team, "lead", &id(1), &merge)
    });
    stage.complete(&stage.claim("worker-1"));
    stage.nothing_for("worker-2");
    let error = stage.refuse("claim", Kind::Conflict, |store| {
        store.claim(&stage.team, &wish("worker-2", Some(&id(2))))
    });
    assert!(
        error.message.contains("waits for the merge of 1"),
        "{error}"
    );
    let position = stage.position();
    for _ in 0..2 {
        let noted = store.merged(&stage.team, "lead", &id(1), &merge);
        let task = stage.step("merged", noted);
        assert_eq!(task.ours("merged"), Some(&json!(true)));
    }
    let kinds = stage.kinds_after(position);
    assert_eq!(kinds, ["merge.merged"], "it is told once");
    let told = stage.events().pop().map(|event| event.data);
    let commit = told.as_ref().and_then(|data| data.get("commit"));
    assert_eq!(commit, Some(&json!("c1")));
    let lost = LostMerge {
        commit: Some("c1".to_owned()),
        head: "h1".to_owned(),
    };
    for _ in 0..2 {
        let task = stage.step(
            "merge lost",
            store.merge_lost(&stage.team, "lead", &id(1), &lost),
        );
        assert!(task.is_unmerged());
    }
    stage.nothing_for("worker-2");
    for _ in 0..2 {
        let task = stage.step("unchanged", store.unchanged(&stage.team, "lead", &id(1)));
        assert!(task.is_unchanged());
    }
    let kinds = stage.kinds_after(position);
    let told = ["merge.merged", "merge.lost", "task.unchanged"];
    assert_eq!(kinds, told, "each is told once");
    assert_eq!(stage.claim("worker-2").task.id(), &id(2));
}

pub(super) fn what_is_given_up_blocks_those_behind_it(stage: &Stage) {
    stage.create("first");
    after(stage, "second", &[1]);
    let claimed = stage.claim("worker-1");
    stage.refuse("give up", Kind::Conflict, |store| {
        store.give_up(&stage.team, "lead", &id(1), "no")
    });
    stage.complete(&claimed);
    let store = stage.store.as_ref();
    let done = store.give_up(&stage.team, "lead", &id(1), "it does not fit");
    stage.step("give up", done);
    stage.nothing_for("worker-1");
    let task = stage.task(&id(1));
    assert_eq!(
        (task.is_failed(), task.error()),
        (true, Some("it does not fit"))
    );
    stage.step("retry", store.retry(&stage.team, "user", &id(1)));
    assert_eq!(stage.claim("worker-2").task.id(), &id(1));
}

pub(super) fn mirrors_follow_every_edit(stage: &Stage) {
    for subject in ["a", "b", "c"] {
        stage.create(subject);
    }
    after(stage, "d", &[1, 1, 2, 1]);
    let blockers = |task| numbers(stage.task(&id(task)).blocked_by());
    let mirror = |task| numbers(stage.task(&id(task)).blocks());
    assert_eq!(blockers(4), [1, 2], "a blocker is named once");
    assert_eq!(
        (mirror(1), mirror(2), mirror(3)),
        (vec![4], vec![4], vec![])
    );
    let set = |blockers: &[u64]| {
        stage.update(&id(4), |edit: &mut Edit| {
            edit.blocked_by = Some(blockers.iter().map(|number| id(*number)).collect());
        });
    };
    set(&[3, 2, 3]);
    assert_eq!(
        (mirror(1), mirror(2), mirror(3)),
        (vec![], vec![4], vec![4])
    );
    set(&[]);
    assert_eq!((mirror(1), mirror(2), mirror(3)), (vec![], vec![], vec![]));
    assert_eq!(stage.claim_id("worker-1", &id(4)).task.id(), &id(4));
}

pub(super) fn a_cycle_is_refused_with_its_path(stage: &Stage) {
    stage.create("first");
    after(stage, "second", &[1]);
    after(stage, "third", &[2]);
    let refuse = |task: u64, blockers: &[u64], path: &str| {
        let edit = Edit {
            blocked_by: Some(blockers.iter().map(|number| id(*number)).collect()),
            ..Edit::default()
        };
        let error = stage.refuse("update", Kind::Refused, |store| {
            store.update_task(&stage.team, "lead", &id(task), &edit)
        });
        assert!(error.message.contains(path), "{error}");
    };
    refuse(1, &[1], "1 waits for 1");
    refuse(1, &[2], "1 waits for 2 waits for 1");
    refuse(1, &[3], "1 waits for 3 waits for 2 waits for 1");
}

pub(super) fn a_blocker_must_exist(stage: &Stage) {
    let first = stage.create("first");
    let new = NewTask {
        subject: "second".to_owned(),
        blocked_by: vec![first.clone(), id(9)],
        ..NewTask::default()
    };
    let error = stage.refuse("create", Kind::Refused, |store| {
        store.create_task(&stage.team, "lead", &new)
    });
    assert!(error.message.contains('9'), "{error}");
    let itself = NewTask {
        blocked_by: vec![id(2)],
        ..new.clone()
    };
    stage.refuse("create", Kind::Refused, |store| {
        store.create_task(&stage.team, "lead", &itself)
    });
    let edit = Edit {
        blocked_by: Some(vec![id(9)]),
        ..Edit::default()
    };
    stage.refuse("update", Kind::Refused, |store| {
        store.update_task(&stage.team, "lead", &first, &edit)
    });
}

pub(super) fn a_failed_blocker_blocks_visibly(stage: &Stage) {
    stage.create("hopeless");
    after(stage, "waits", &[1]);
    for _ in 0..5 {
        stage.fail(&stage.claim("worker-1"), "boom");
        stage.wait_secs(60);
    }
    stage.nothing_for("worker-1");
    let error = stage.refuse("claim", Kind::Conflict, |store| {
        store.claim(&stage.team, &wish("worker-1", Some(&id(2))))
    });
    assert!(error.message.contains("blocked by failure of 1"), "{error}");
    stage.step("retry", stage.store.retry(&stage.team, "lead", &id(1)));
    stage.complete(&stage.claim("worker-1"));
    assert_eq!(stage.claim("worker-1").task.id(), &id(2));
}

pub(super) fn a_deleted_blocker_blocks_nobody(stage: &Stage) {
    stage.create("superfluous");
    stage.create("needed");
    after(stage, "waits for both", &[1, 2]);
    stage.delete(&id(1));
    assert_eq!(numbers(stage.task(&id(3)).blocked_by()), [2]);
    stage.complete(&stage.claim("worker-1"));
    assert_eq!(stage.claim("worker-1").task.id(), &id(3));
}

pub(super) fn a_deleted_dependent_leaves_no_mirror(stage: &Stage) {
    stage.create("first");
    after(stage, "second", &[1]);
    after(stage, "third", &[1]);
    stage.delete(&id(2));
    assert_eq!(numbers(stage.task(&id(1)).blocks()), [3]);
}

pub(super) fn a_blocker_that_others_invented_blocks(stage: &Stage) {
    let first = stage.create("first");
    stage.rewrite_as_foreign(&first, |object| {
        object.insert("blockedBy".to_owned(), json!(["99"]));
    });
    stage.nothing_for("worker-1");
    let error = stage.refuse("claim", Kind::Conflict, |store| {
        store.claim(&stage.team, &wish("worker-1", Some(&first)))
    });
    assert!(error.message.contains("missing task 99"), "{error}");
    stage.rewrite_as_foreign(&first, |object| {
        object.insert("blockedBy".to_owned(), json!([]));
    });
    stage.claim("worker-1");
}

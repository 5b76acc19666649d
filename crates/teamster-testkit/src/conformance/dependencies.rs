//! Dependencies between tasks.

use serde_json::json;
use teamster_journal::EventActor;
use teamster_store::{LostMerge, StoreErrorKind, TaskMerge};
use teamster_types::TaskId;
use teamster_types::task::NewTask;
use teamster_types::transitions::TaskEdit;

use super::fixture::{StoreFixture, claim_request, id};

fn after(fixture: &StoreFixture, subject: &str, blockers: &[u64]) -> TaskId {
    fixture.create_with(subject, |new| {
        new.blocked_by = blockers.iter().map(|number| id(*number)).collect();
    })
}

fn numbers(ids: &[TaskId]) -> Vec<u128> {
    ids.iter().map(TaskId::number).collect()
}

pub(super) fn a_task_waits_for_its_blockers(fixture: &StoreFixture) {
    fixture.create("first");
    after(fixture, "second", &[1]);
    assert_eq!(numbers(fixture.task(&id(1)).blocks()), [2]);
    let claimed = fixture.claim("worker-1");
    fixture.nothing_for("worker-2");
    let error = fixture.refuse("claim", StoreErrorKind::Conflict, |store| {
        store.claim(&fixture.team, &claim_request("worker-2", Some(&id(2))))
    });
    assert!(error.message.contains("waits for 1"), "{error}");
    fixture.complete(&claimed);
    assert_eq!(fixture.claim("worker-2").task.id(), &id(2));
}

pub(super) fn a_diamond_opens_from_the_top(fixture: &StoreFixture) {
    fixture.create("top");
    after(fixture, "left", &[1]);
    after(fixture, "right", &[1]);
    after(fixture, "bottom", &[2, 3]);
    assert_eq!(numbers(fixture.task(&id(1)).blocks()), [2, 3]);
    fixture.complete(&fixture.claim("worker-1"));
    let (left, right) = (fixture.claim("worker-1"), fixture.claim("worker-2"));
    assert_eq!((left.task.id(), right.task.id()), (&id(2), &id(3)));
    fixture.complete(&right);
    fixture.nothing_for("worker-2");
    fixture.complete(&left);
    assert_eq!(fixture.claim("worker-2").task.id(), &id(4));
}

pub(super) fn in_a_run_a_task_waits_for_the_merge_of_its_blockers(fixture: &StoreFixture) {
    let unmerged = |new: &mut NewTask| {
        new.notes.is_to_be_merged = true;
    };
    fixture.create_with("first", unmerged);
    fixture.create_with("second", |new| {
        unmerged(new);
        new.blocked_by = vec![id(1)];
    });
    let merge = TaskMerge {
        commit: "c1".to_owned(),
        made: Some("m1".to_owned()),
        files: vec!["a.txt".to_owned()],
    };
    let store = fixture.store.as_ref();
    fixture.refuse("merged", StoreErrorKind::Conflict, |store| {
        store.merged(&fixture.team, &EventActor::Lead, &id(1), &merge)
    });
    fixture.complete(&fixture.claim("worker-1"));
    fixture.nothing_for("worker-2");
    let error = fixture.refuse("claim", StoreErrorKind::Conflict, |store| {
        store.claim(&fixture.team, &claim_request("worker-2", Some(&id(2))))
    });
    assert!(
        error.message.contains("waits for the merge of 1"),
        "{error}"
    );
    let position = fixture.position();
    for _ in 0..2 {
        let noted = store.merged(&fixture.team, &EventActor::Lead, &id(1), &merge);
        let task = fixture.step("merged", noted);
        assert!(task.is_merged());
    }
    let kinds = fixture.kinds_after(position);
    assert_eq!(kinds, ["merge.merged"], "it is told once");
    let told = fixture.events().pop().map(|event| event.data);
    let commit = told.as_ref().and_then(|data| data.get("commit"));
    assert_eq!(commit, Some(&json!("c1")));
    let lost = LostMerge {
        commit: Some("c1".to_owned()),
        head: "h1".to_owned(),
    };
    for _ in 0..2 {
        let task = fixture.step(
            "merge lost",
            store.merge_lost(&fixture.team, &EventActor::Lead, &id(1), &lost),
        );
        assert!(task.is_unmerged());
    }
    fixture.nothing_for("worker-2");
    for _ in 0..2 {
        let task = fixture.step(
            "unchanged",
            store.unchanged(&fixture.team, &EventActor::Lead, &id(1)),
        );
        assert!(task.is_unchanged());
    }
    let kinds = fixture.kinds_after(position);
    let told = ["merge.merged", "merge.lost", "task.unchanged"];
    assert_eq!(kinds, told, "each is told once");
    assert_eq!(fixture.claim("worker-2").task.id(), &id(2));
}

pub(super) fn what_is_given_up_blocks_those_behind_it(fixture: &StoreFixture) {
    fixture.create("first");
    after(fixture, "second", &[1]);
    let claimed = fixture.claim("worker-1");
    fixture.refuse("give up", StoreErrorKind::Conflict, |store| {
        store.give_up(&fixture.team, &EventActor::Lead, &id(1), "no")
    });
    fixture.complete(&claimed);
    let store = fixture.store.as_ref();
    let done = store.give_up(&fixture.team, &EventActor::Lead, &id(1), "it does not fit");
    fixture.step("give up", done);
    fixture.nothing_for("worker-1");
    let task = fixture.task(&id(1));
    assert_eq!(
        (task.is_failed(), task.error()),
        (true, Some("it does not fit"))
    );
    fixture.step(
        "retry",
        store.retry(&fixture.team, &EventActor::Person, &id(1)),
    );
    assert_eq!(fixture.claim("worker-2").task.id(), &id(1));
}

pub(super) fn mirrors_follow_every_edit(fixture: &StoreFixture) {
    for subject in ["a", "b", "c"] {
        fixture.create(subject);
    }
    after(fixture, "d", &[1, 1, 2, 1]);
    let blockers = |task| numbers(fixture.task(&id(task)).blocked_by());
    let mirror = |task| numbers(fixture.task(&id(task)).blocks());
    assert_eq!(blockers(4), [1, 2], "a blocker is named once");
    assert_eq!(
        (mirror(1), mirror(2), mirror(3)),
        (vec![4], vec![4], vec![])
    );
    let set = |blockers: &[u64]| {
        fixture.update(&id(4), |edit: &mut TaskEdit| {
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
    assert_eq!(fixture.claim_id("worker-1", &id(4)).task.id(), &id(4));
}

pub(super) fn a_cycle_is_refused_with_its_path(fixture: &StoreFixture) {
    fixture.create("first");
    after(fixture, "second", &[1]);
    after(fixture, "third", &[2]);
    let refuse = |task: u64, blockers: &[u64], path: &str| {
        let edit = TaskEdit {
            blocked_by: Some(blockers.iter().map(|number| id(*number)).collect()),
            ..TaskEdit::default()
        };
        let error = fixture.refuse("update", StoreErrorKind::Refused, |store| {
            store.update_task(&fixture.team, &EventActor::Lead, &id(task), &edit)
        });
        assert!(error.message.contains(path), "{error}");
    };
    refuse(1, &[1], "1 waits for 1");
    refuse(1, &[2], "1 waits for 2 waits for 1");
    refuse(1, &[3], "1 waits for 3 waits for 2 waits for 1");
}

pub(super) fn a_blocker_must_exist(fixture: &StoreFixture) {
    let first = fixture.create("first");
    let new = NewTask {
        subject: "second".to_owned(),
        blocked_by: vec![first.clone(), id(9)],
        ..NewTask::default()
    };
    let error = fixture.refuse("create", StoreErrorKind::Refused, |store| {
        store.create_task(&fixture.team, &EventActor::Lead, &new)
    });
    assert!(error.message.contains('9'), "{error}");
    let itself = NewTask {
        blocked_by: vec![id(2)],
        ..new.clone()
    };
    fixture.refuse("create", StoreErrorKind::Refused, |store| {
        store.create_task(&fixture.team, &EventActor::Lead, &itself)
    });
    let edit = TaskEdit {
        blocked_by: Some(vec![id(9)]),
        ..TaskEdit::default()
    };
    fixture.refuse("update", StoreErrorKind::Refused, |store| {
        store.update_task(&fixture.team, &EventActor::Lead, &first, &edit)
    });
}

pub(super) fn a_failed_blocker_blocks_visibly(fixture: &StoreFixture) {
    fixture.create("hopeless");
    after(fixture, "waits", &[1]);
    for _ in 0..5 {
        fixture.fail(&fixture.claim("worker-1"), "boom");
        fixture.wait_secs(60);
    }
    fixture.nothing_for("worker-1");
    let error = fixture.refuse("claim", StoreErrorKind::Conflict, |store| {
        store.claim(&fixture.team, &claim_request("worker-1", Some(&id(2))))
    });
    assert!(error.message.contains("blocked by failure of 1"), "{error}");
    fixture.step(
        "retry",
        fixture
            .store
            .retry(&fixture.team, &EventActor::Lead, &id(1)),
    );
    fixture.complete(&fixture.claim("worker-1"));
    assert_eq!(fixture.claim("worker-1").task.id(), &id(2));
}

pub(super) fn a_deleted_blocker_blocks_nobody(fixture: &StoreFixture) {
    fixture.create("superfluous");
    fixture.create("needed");
    after(fixture, "waits for both", &[1, 2]);
    fixture.delete(&id(1));
    assert_eq!(numbers(fixture.task(&id(3)).blocked_by()), [2]);
    fixture.complete(&fixture.claim("worker-1"));
    assert_eq!(fixture.claim("worker-1").task.id(), &id(3));
}

pub(super) fn a_deleted_dependent_leaves_no_mirror(fixture: &StoreFixture) {
    fixture.create("first");
    after(fixture, "second", &[1]);
    after(fixture, "third", &[1]);
    fixture.delete(&id(2));
    assert_eq!(numbers(fixture.task(&id(1)).blocks()), [3]);
}

pub(super) fn a_blocker_that_others_invented_blocks(fixture: &StoreFixture) {
    let first = fixture.create("first");
    fixture.rewrite_as_foreign(&first, |object| {
        object.insert("blockedBy".to_owned(), json!(["99"]));
    });
    fixture.nothing_for("worker-1");
    let error = fixture.refuse("claim", StoreErrorKind::Conflict, |store| {
        store.claim(&fixture.team, &claim_request("worker-1", Some(&first)))
    });
    assert!(error.message.contains("missing task 99"), "{error}");
    fixture.rewrite_as_foreign(&first, |object| {
        object.insert("blockedBy".to_owned(), json!([]));
    });
    fixture.claim("worker-1");
}

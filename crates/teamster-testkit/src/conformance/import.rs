//! Importing a plan, atomically.

use teamster_journal::EventActor;
use teamster_store::{PlannedTask, StoreErrorKind};
use teamster_types::TaskId;
use teamster_types::task::NewTask;

use super::fixture::{StoreFixture, id};

fn planned(subject: &str, after: &[usize]) -> PlannedTask {
    PlannedTask {
        task: NewTask {
            subject: subject.to_owned(),
            ..NewTask::default()
        },
        after: after.to_vec(),
    }
}

fn numbers(ids: &[TaskId]) -> Vec<u128> {
    ids.iter().map(TaskId::number).collect()
}

pub(super) fn a_plan_is_made_whole(fixture: &StoreFixture) {
    fixture.create("there before");
    // A task of a plan may refer to a later one.
    let plan = [
        planned("deploy", &[2, 1]),
        planned("test", &[2]),
        planned("build", &[]),
    ];
    let position = fixture.position();
    let made = fixture.step(
        "import",
        fixture
            .store
            .import_tasks(&fixture.team, &EventActor::Lead, &plan),
    );
    let ids: Vec<u128> = made.iter().map(|task| task.id().number()).collect();
    assert_eq!(ids, [2, 3, 4]);
    assert_eq!(fixture.kinds_after(position), ["task.created"; 3]);
    let (deploy, test, build) = (
        fixture.task(&id(2)),
        fixture.task(&id(3)),
        fixture.task(&id(4)),
    );
    assert_eq!([deploy.clone(), test.clone(), build.clone()], made[..]);
    assert_eq!(numbers(deploy.blocked_by()), [4, 3]);
    assert_eq!(numbers(test.blocked_by()), [4]);
    assert_eq!(numbers(build.blocks()), [2, 3]);
    fixture.complete(&fixture.claim("worker-1"));
    for expected in [4, 3, 2] {
        let claimed = fixture.claim("worker-1");
        assert_eq!(claimed.task.id(), &id(expected));
        fixture.complete(&claimed);
    }
    assert_eq!(fixture.create("after the plan"), id(5));
}

pub(super) fn a_plan_may_build_on_what_is_there(fixture: &StoreFixture) {
    fixture.create("there before");
    let mut plan = [planned("one", &[]), planned("two", &[0])];
    for planned in &mut plan {
        planned.task.blocked_by = vec![id(1)];
    }
    fixture.step(
        "import",
        fixture
            .store
            .import_tasks(&fixture.team, &EventActor::Lead, &plan),
    );
    assert_eq!(numbers(fixture.task(&id(1)).blocks()), [2, 3]);
    assert_eq!(numbers(fixture.task(&id(3)).blocked_by()), [1, 2]);
}

pub(super) fn a_wrong_plan_makes_nothing(fixture: &StoreFixture) {
    fixture.create("there before");
    let refuse = |plan: &[PlannedTask], said: &str| {
        let error = fixture.refuse("import", StoreErrorKind::Refused, |store| {
            store.import_tasks(&fixture.team, &EventActor::Lead, plan)
        });
        assert!(error.message.contains(said), "{error}");
    };
    refuse(&[], "no tasks");
    refuse(
        &[planned("hen", &[1]), planned("egg", &[0])],
        "\"hen\" waits for \"egg\" waits for \"hen\"",
    );
    refuse(&[planned("alone", &[0])], "\"alone\" waits for \"alone\"");
    refuse(&[planned("first", &[]), planned("second", &[7])], "task 8");
    refuse(&[planned("first", &[]), planned("", &[])], "empty");
    let mut unknown = [planned("first", &[]), planned("second", &[])];
    unknown[1].task.blocked_by = vec![id(9)];
    refuse(&unknown, "9");
    assert_eq!(fixture.create("the next"), id(2), "no id was used up");
}

pub(super) fn a_plan_cannot_close_a_cycle_through_ids_it_guesses(fixture: &StoreFixture) {
    let mut plan = [planned("first", &[1]), planned("second", &[])];
    plan[1].task.blocked_by = vec![id(1)];
    fixture.refuse("import", StoreErrorKind::Refused, |store| {
        store.import_tasks(&fixture.team, &EventActor::Lead, &plan)
    });
}

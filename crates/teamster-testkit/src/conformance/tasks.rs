//! Creating, changing and removing tasks.

use serde_json::json;
use teamster_journal::EventActor;
use teamster_store::StoreErrorKind;
use teamster_types::progress::Progress;
use teamster_types::task::{DESCRIPTION_LIMIT, NewTask, SUBJECT_LIMIT, Status, Token};
use teamster_types::transitions::TaskEdit;

use super::fixture::{StoreFixture, claim_request, id, worker};

pub(super) fn a_new_task_is_pending_and_whole(fixture: &StoreFixture) {
    let new = NewTask {
        subject: "Fix type errors".to_owned(),
        description: "in src/auth".to_owned(),
        active_form: Some("Fixing type errors".to_owned()),
        owner: Some(worker("worker-1")),
        capabilities: vec!["testing".to_owned()],
        paths: vec!["src/auth/**".to_owned()],
        verify: vec!["cargo check".to_owned()],
        ..NewTask::default()
    };
    let created = fixture.step(
        "create",
        fixture
            .store
            .create_task(&fixture.team, &EventActor::Lead, &new),
    );
    assert_eq!(created.id(), &id(1));
    let task = fixture.task(&id(1));
    assert_eq!(task, created, "what is answered is what is kept");
    let shown = json!(task.as_object());
    assert_eq!(shown["id"], "1");
    assert_eq!(shown["subject"], "Fix type errors");
    assert_eq!(shown["description"], "in src/auth");
    assert_eq!(shown["activeForm"], "Fixing type errors");
    assert_eq!(shown["status"], "pending");
    assert_eq!(shown["owner"], "worker-1");
    assert_eq!(shown["blocks"], json!([]));
    assert_eq!(shown["blockedBy"], json!([]));
    assert_eq!(shown["metadata"]["permanentlyFailed"], false);
    assert_eq!(shown["metadata"]["failedAttempts"], 0);
    let ours = &shown["metadata"]["teamster"];
    assert_eq!(ours["version"], 1);
    assert_eq!(ours["fence"], 0);
    assert_eq!(ours["capabilities"], json!(["testing"]));
    assert_eq!(ours["paths"], json!(["src/auth/**"]));
    assert_eq!(ours["verify"], json!(["cargo check"]));
    assert_eq!(task.created_at(), Some(fixture.store.now()));
    assert!(task.claim().is_none());
}

pub(super) fn ids_grow_and_are_never_used_again(fixture: &StoreFixture) {
    for number in 1..=3 {
        assert_eq!(fixture.create("one of three"), id(number));
    }
    fixture.delete(&id(3));
    assert_eq!(fixture.create("after the last was deleted"), id(4));
    for number in [1, 2, 4] {
        fixture.delete(&id(number));
    }
    assert_eq!(fixture.create("after all were deleted"), id(5));
}

pub(super) fn texts_have_limits(fixture: &StoreFixture) {
    // Limits are in characters, not in bytes.
    let long = "é".repeat(SUBJECT_LIMIT);
    let longer = format!("{long}é");
    let endless = "ö".repeat(DESCRIPTION_LIMIT);
    let first = fixture.create_with(&long, |new| new.description.clone_from(&endless));
    assert_eq!(fixture.task(&first).subject(), long);
    assert_eq!(fixture.task(&first).description(), endless);

    let wrong = [
        (longer.as_str(), String::new(), "500"),
        ("fine", format!("{endless}ö"), "10000"),
        ("", String::new(), "empty"),
        (" \n ", String::new(), "empty"),
    ];
    for (subject, description, said) in wrong {
        let new = NewTask {
            subject: subject.to_owned(),
            description: description.clone(),
            ..NewTask::default()
        };
        let error = fixture.refuse("create", StoreErrorKind::Refused, |store| {
            store.create_task(&fixture.team, &EventActor::Lead, &new)
        });
        assert!(error.message.contains(said), "{error}");
        let edit = TaskEdit {
            subject: Some(subject.to_owned()),
            description: Some(description),
            ..TaskEdit::default()
        };
        let error = fixture.refuse("update", StoreErrorKind::Refused, |store| {
            store.update_task(&fixture.team, &EventActor::Lead, &first, &edit)
        });
        assert!(error.message.contains(said), "{error}");
    }
}

pub(super) fn an_update_changes_what_it_names_and_nothing_else(fixture: &StoreFixture) {
    let first = fixture.create_with("before", |new| {
        new.description.push_str("kept");
        new.paths = vec!["src/**".to_owned()];
    });
    let before = fixture.task(&first);
    let after = fixture.update(&first, |edit| edit.subject = Some("after".to_owned()));
    assert_eq!(after.subject(), "after");
    assert_eq!(after.description(), "kept");
    assert_eq!(after.paths(), ["src/**"]);
    assert_eq!(after.version(), before.version() + 1);
    assert_eq!(after, fixture.task(&first));

    let assigned = fixture.update(&first, |edit| edit.owner = Some(Some(worker("worker-2"))));
    assert_eq!(assigned.owner(), Some("worker-2"));
    let free = fixture.update(&first, |edit| edit.owner = Some(None));
    assert_eq!(free.owner(), None);
    let able = fixture.update(&first, |edit| {
        edit.capabilities = Some(vec!["testing".to_owned()]);
        edit.paths = Some(Vec::new());
    });
    assert_eq!(able.capabilities(), ["testing"]);
    assert_eq!(able.paths(), Vec::<String>::new());
}

pub(super) fn the_owner_of_a_task_at_work_is_not_edited(fixture: &StoreFixture) {
    let first = fixture.create("at work");
    let claimed = fixture.claim("worker-1");
    let assign = TaskEdit {
        owner: Some(Some(worker("worker-2"))),
        ..TaskEdit::default()
    };
    fixture.refuse("assign", StoreErrorKind::Conflict, |store| {
        store.update_task(&fixture.team, &EventActor::Lead, &first, &assign)
    });
    let renamed = fixture.update(&first, |edit| edit.subject = Some("better said".to_owned()));
    assert_eq!(
        renamed.owner(),
        Some("worker-1"),
        "other fields may change meanwhile"
    );
    fixture.complete(&claimed);
    fixture.refuse("assign", StoreErrorKind::Conflict, |store| {
        store.update_task(&fixture.team, &EventActor::Lead, &first, &assign)
    });
}

pub(super) fn what_is_not_there_is_not_found(fixture: &StoreFixture) {
    fixture.create("the only one");
    let (team, nine, token) = (&fixture.team, id(9), Token::new("nobody gave it"));
    let edit = TaskEdit::default();
    fixture.refuse("show", StoreErrorKind::NotFound, |store| {
        store.task(team, &nine)
    });
    fixture.refuse("update", StoreErrorKind::NotFound, |store| {
        store.update_task(team, &EventActor::Lead, &nine, &edit)
    });
    fixture.refuse("delete", StoreErrorKind::NotFound, |store| {
        store.delete_task(team, &EventActor::Lead, &nine)
    });
    fixture.refuse("claim", StoreErrorKind::NotFound, |store| {
        store.claim(team, &claim_request("worker-1", Some(&nine)))
    });
    fixture.refuse("renew", StoreErrorKind::NotFound, |store| {
        store.renew(team, &nine, &token, None)
    });
    fixture.refuse("complete", StoreErrorKind::NotFound, |store| {
        store.complete(team, &nine, &token, None)
    });
    fixture.refuse("fail", StoreErrorKind::NotFound, |store| {
        store.fail(team, &nine, &token, "x")
    });
    fixture.refuse("release", StoreErrorKind::NotFound, |store| {
        store.release(team, &EventActor::Lead, &nine, None)
    });
    fixture.refuse("retry", StoreErrorKind::NotFound, |store| {
        store.retry(team, &EventActor::Lead, &nine)
    });
}

pub(super) fn a_task_at_work_is_not_deleted(fixture: &StoreFixture) {
    let first = fixture.create("at work");
    let claimed = fixture.claim("worker-1");
    let error = fixture.refuse("delete", StoreErrorKind::Conflict, |store| {
        store.delete_task(&fixture.team, &EventActor::Lead, &first)
    });
    assert!(error.message.contains("worker-1"), "{error}");
    fixture.complete(&claimed);
    fixture.delete(&first);
    fixture.refuse("show", StoreErrorKind::NotFound, |store| {
        store.task(&fixture.team, &first)
    });
}

pub(super) fn a_deleted_task_takes_its_failure_along(fixture: &StoreFixture) {
    let first = fixture.create("fails");
    fixture.fail(&fixture.claim("worker-1"), "boom");
    let failure = |id| fixture.step("failure", fixture.store.failure(&fixture.team, id));
    assert!(failure(&first).is_some());
    fixture.delete(&first);
    assert_eq!(failure(&first), None);
    assert!(fixture.tasks().is_empty());
}

pub(super) fn tasks_are_listed_by_number_and_counted(fixture: &StoreFixture) {
    for number in 1..=12 {
        fixture.create(&format!("number {number}"));
    }
    let numbers: Vec<u128> = fixture
        .tasks()
        .iter()
        .map(|task| task.id().number())
        .collect();
    assert_eq!(numbers, (1..=12).collect::<Vec<_>>());
    fixture.complete(&fixture.claim("worker-1"));
    fixture.claim("worker-2");
    for _ in 0..5 {
        let claimed = fixture.claim_id("worker-3", &id(3));
        fixture.fail(&claimed, "boom");
        fixture.wait_secs(60);
    }
    fixture.rewrite_as_foreign(&id(12), |object| {
        object["metadata"]["_internal"] = json!(true);
    });
    let (progress, problems) = fixture.step("progress", fixture.store.progress(&fixture.team));
    assert!(problems.is_empty());
    let expected = Progress {
        total_tasks: 11,
        completed_tasks: 1,
        in_progress_tasks: 1,
        failed_tasks: 1,
        pending_tasks: 8,
    };
    assert_eq!(
        progress, expected,
        "internal tasks do not count, and failed ones are not completed"
    );
    let left = fixture.step("work left", fixture.store.work_left(&fixture.team));
    assert_eq!((left.pending, left.in_progress), (8, 1));
    assert_eq!(fixture.task(&id(3)).status(), Status::Completed);
}

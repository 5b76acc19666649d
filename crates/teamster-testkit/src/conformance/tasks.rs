//! Making, changing and removing tasks.

use serde_json::json;
use teamster_store::Kind;
use teamster_types::progress::Progress;
use teamster_types::task::{DESCRIPTION_LIMIT, NewTask, SUBJECT_LIMIT, Status, Token};
use teamster_types::transitions::Edit;

use super::stage::{Stage, id, wish, worker};

pub(super) fn a_new_task_is_pending_and_whole(stage: &Stage) {
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
    let created = stage.step("create", stage.store.create_task(&stage.team, "lead", &new));
    assert_eq!(created.id(), &id(1));
    let task = stage.task(&id(1));
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
    assert_eq!(task.moment("createdAt"), Some(stage.store.now()));
    assert!(task.claim().is_none());
}

pub(super) fn ids_grow_and_are_never_used_again(stage: &Stage) {
    for number in 1..=3 {
        assert_eq!(stage.create("one of three"), id(number));
    }
    stage.delete(&id(3));
    assert_eq!(stage.create("after the last was deleted"), id(4));
    for number in [1, 2, 4] {
        stage.delete(&id(number));
    }
    assert_eq!(stage.create("after all were deleted"), id(5));
}

pub(super) fn texts_have_limits(stage: &Stage) {
    // Limits are in characters, not in bytes.
    let long = "é".repeat(SUBJECT_LIMIT);
    let longer = format!("{long}é");
    let endless = "ö".repeat(DESCRIPTION_LIMIT);
    let first = stage.create_with(&long, |new| new.description.clone_from(&endless));
    assert_eq!(stage.task(&first).subject(), long);
    assert_eq!(stage.task(&first).description(), endless);

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
        let error = stage.refuse("create", Kind::Refused, |store| {
            store.create_task(&stage.team, "lead", &new)
        });
        assert!(error.message.contains(said), "{error}");
        let edit = Edit {
            subject: Some(subject.to_owned()),
            description: Some(description),
            ..Edit::default()
        };
        let error = stage.refuse("update", Kind::Refused, |store| {
            store.update_task(&stage.team, "lead", &first, &edit)
        });
        assert!(error.message.contains(said), "{error}");
    }
}

pub(super) fn an_update_changes_what_it_names_and_nothing_else(stage: &Stage) {
    let first = stage.create_with("before", |new| {
        new.description.push_str("kept");
        new.paths = vec!["src/**".to_owned()];
    });
    let before = stage.task(&first);
    let after = stage.update(&first, |edit| edit.subject = Some("after".to_owned()));
    assert_eq!(after.subject(), "after");
    assert_eq!(after.description(), "kept");
    assert_eq!(after.paths(), ["src/**"]);
    assert_eq!(after.version(), before.version() + 1);
    assert_eq!(after, stage.task(&first));

    let assigned = stage.update(&first, |edit| edit.owner = Some(Some(worker("worker-2"))));
    assert_eq!(assigned.owner(), Some("worker-2"));
    let free = stage.update(&first, |edit| edit.owner = Some(None));
    assert_eq!(free.owner(), None);
    let able = stage.update(&first, |edit| {
        edit.capabilities = Some(vec!["testing".to_owned()]);
        edit.paths = Some(Vec::new());
    });
    assert_eq!(able.capabilities(), ["testing"]);
    assert_eq!(able.paths(), Vec::<String>::new());
}

pub(super) fn the_owner_of_a_task_at_work_is_not_edited(stage: &Stage) {
    let first = stage.create("at work");
    let claimed = stage.claim("worker-1");
    let assign = Edit {
        owner: Some(Some(worker("worker-2"))),
        ..Edit::default()
    };
    stage.refuse("assign", Kind::Conflict, |store| {
        store.update_task(&stage.team, "lead", &first, &assign)
    });
    let renamed = stage.update(&first, |edit| edit.subject = Some("better said".to_owned()));
    assert_eq!(
        renamed.owner(),
        Some("worker-1"),
        "other fields may change meanwhile"
    );
    stage.complete(&claimed);
    stage.refuse("assign", Kind::Conflict, |store| {
        store.update_task(&stage.team, "lead", &first, &assign)
    });
}

pub(super) fn what_is_not_there_is_not_found(stage: &Stage) {
    stage.create("the only one");
    let (team, nine, token) = (&stage.team, id(9), Token::new("nobody gave it"));
    let edit = Edit::default();
    stage.refuse("show", Kind::NotFound, |store| store.task(team, &nine));
    stage.refuse("update", Kind::NotFound, |store| {
        store.update_task(team, "lead", &nine, &edit)
    });
    stage.refuse("delete", Kind::NotFound, |store| {
        store.delete_task(team, "lead", &nine)
    });
    stage.refuse("claim", Kind::NotFound, |store| {
        store.claim(team, &wish("worker-1", Some(&nine)))
    });
    stage.refuse("renew", Kind::NotFound, |store| {
        store.renew(team, &nine, &token, None)
    });
    stage.refuse("complete", Kind::NotFound, |store| {
        store.complete(team, &nine, &token, None)
    });
    stage.refuse("fail", Kind::NotFound, |store| {
        store.fail(team, &nine, &token, "x")
    });
    stage.refuse("release", Kind::NotFound, |store| {
        store.release(team, "lead", &nine, None)
    });
    stage.refuse("retry", Kind::NotFound, |store| {
        store.retry(team, "lead", &nine)
    });
}

pub(super) fn a_task_at_work_is_not_deleted(stage: &Stage) {
    let first = stage.create("at work");
    let claimed = stage.claim("worker-1");
    let error = stage.refuse("delete", Kind::Conflict, |store| {
        store.delete_task(&stage.team, "lead", &first)
    });
    assert!(error.message.contains("worker-1"), "{error}");
    stage.complete(&claimed);
    stage.delete(&first);
    stage.refuse("show", Kind::NotFound, |store| {
        store.task(&stage.team, &first)
    });
}

pub(super) fn a_deleted_task_takes_its_failure_along(stage: &Stage) {
    let first = stage.create("fails");
    stage.fail(&stage.claim("worker-1"), "boom");
    let failure = |id| stage.step("failure", stage.store.failure(&stage.team, id));
    assert!(failure(&first).is_some());
    stage.delete(&first);
    assert_eq!(failure(&first), None);
    assert!(stage.tasks().is_empty());
}

pub(super) fn tasks_are_listed_by_number_and_counted(stage: &Stage) {
    for number in 1..=12 {
        stage.create(&format!("number {number}"));
    }
    let numbers: Vec<u128> = stage
        .tasks()
        .iter()
        .map(|task| task.id().number())
        .collect();
    assert_eq!(numbers, (1..=12).collect::<Vec<_>>());
    stage.complete(&stage.claim("worker-1"));
    stage.claim("worker-2");
    for _ in 0..5 {
        let claimed = stage.claim_id("worker-3", &id(3));
        stage.fail(&claimed, "boom");
        stage.wait_secs(60);
    }
    stage.rewrite_as_foreign(&id(12), |object| {
        object["metadata"]["_internal"] = json!(true);
    });
    let (progress, problems) = stage.step("progress", stage.store.progress(&stage.team));
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
    assert_eq!(stage.task(&id(3)).status(), Status::Completed);
}

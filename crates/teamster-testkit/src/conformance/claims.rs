//! Who gets which task, and what its token is good for.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::json;
use teamster_store::{ClaimRequest, Kind};
use teamster_types::task::{Status, Token};
use teamster_types::transitions::LEASE;

use super::stage::{Stage, id, wish, worker};

pub(super) fn own_tasks_come_first_then_free_ones_by_number(stage: &Stage) {
    for number in 1..=5 {
        stage.create_with(&format!("number {number}"), |new| {
            new.owner = match number {
                4 | 5 => Some(worker("worker-1")),
                2 => Some(worker("worker-2")),
                _ => None,
            };
        });
    }
    let order: Vec<u128> = (0..4)
        .map(|_| stage.claim("worker-1").task.id().number())
        .collect();
    assert_eq!(order, [4, 5, 1, 3]);
    stage.nothing_for("worker-1");
    assert_eq!(stage.claim("worker-2").task.id(), &id(2));
}

pub(super) fn what_belongs_to_another_is_not_offered(stage: &Stage) {
    let first = stage.create_with("assigned", |new| new.owner = Some(worker("worker-2")));
    stage.nothing_for("worker-1");
    let error = stage.refuse("claim", Kind::Conflict, |store| {
        store.claim(&stage.team, &wish("worker-1", Some(&first)))
    });
    assert!(error.message.contains("worker-2"), "{error}");
    stage.claim_id("worker-2", &first);
}

pub(super) fn an_internal_task_is_claimed_only_by_id(stage: &Stage) {
    let hidden = stage.create("of the system");
    let own = stage.create_with("also hidden", |new| new.owner = Some(worker("worker-1")));
    for task in [&hidden, &own] {
        stage.rewrite_as_foreign(task, |object| {
            object["metadata"]["_internal"] = json!(true);
        });
    }
    stage.nothing_for("worker-1");
    stage.complete(&stage.claim_id("worker-1", &hidden));
    stage.complete(&stage.claim_id("worker-1", &own));
}

pub(super) fn a_claim_says_who_until_when_and_under_which_token(stage: &Stage) {
    let first = stage.create("first");
    let claimed = stage.claim("worker-1");
    assert_eq!(claimed.task, stage.task(&first));
    assert_eq!(claimed.task.status(), Status::InProgress);
    assert_eq!(claimed.task.owner(), Some("worker-1"));
    assert_eq!((claimed.fence, claimed.task.fence()), (1, 1));
    assert_eq!(claimed.leased_until, stage.store.now().after(LEASE));
    assert!(
        claimed.token.reveal().len() >= 32,
        "a token cannot be guessed"
    );
    let claim = claimed.task.claim().unwrap_or_else(|| panic!("no claim"));
    assert_eq!(claim.worker, worker("worker-1"));
    assert_eq!(claim.token, claimed.token);
    assert_eq!(claim.leased_until, claimed.leased_until);
    assert_ne!(claim.pid, 0, "the claim names its process");

    stage.release(&claimed);
    let short = ClaimRequest {
        lease: Some(Duration::from_secs(7)),
        ..wish("worker-2", None)
    };
    let again = stage.step("claim", stage.store.claim(&stage.team, &short));
    let again = again.unwrap_or_else(|| panic!("nothing was given"));
    assert_eq!(again.fence, 2, "the fence grows with every claim");
    assert_ne!(again.token, claimed.token);
    assert_eq!(
        again.leased_until,
        stage.store.now().after(Duration::from_secs(7))
    );
}

pub(super) fn a_taken_or_finished_task_is_not_given_again(stage: &Stage) {
    let first = stage.create("first");
    let claimed = stage.claim("worker-1");
    let refuse = |who: &str, said: &str| {
        let error = stage.refuse("claim", Kind::Conflict, |store| {
            store.claim(&stage.team, &wish(who, Some(&first)))
        });
        assert!(error.message.contains(said), "{error}");
    };
    refuse("worker-2", "worker-1");
    refuse("worker-1", "worker-1");
    stage.nothing_for("worker-2");
    stage.complete(&claimed);
    refuse("worker-2", "completed");
    stage.nothing_for("worker-2");
}

pub(super) fn an_empty_table_gives_nothing_and_tells_nothing(stage: &Stage) {
    stage.nothing_for("worker-1");
    stage.nothing_for("nobody-knows-me");
    assert_eq!(stage.kinds_after(1), Vec::<String>::new());
}

pub(super) fn every_worker_gets_another_task(stage: &Stage) {
    for number in 1..=20 {
        stage.create(&format!("number {number}"));
    }
    let mut given = HashSet::new();
    for number in 0..20 {
        let claimed = stage.claim(&format!("pool-{}", number % 7));
        assert!(
            given.insert(claimed.task.id().clone()),
            "{} was given twice",
            claimed.task.id()
        );
    }
    stage.nothing_for("pool-1");
}

pub(super) fn an_old_token_changes_nothing(stage: &Stage) {
    let first = stage.create("first");
    let old = stage.claim("worker-1");
    stage.release(&old);
    stage.refuse_token(&first, &old.token);
    let new = stage.claim("worker-2");
    stage.refuse_token(&first, &old.token);
    stage.refuse_token(&first, &Token::new("made up"));
    stage.complete(&new);
    stage.refuse_token(&first, &old.token);
}

pub(super) fn completing_twice_is_completing_once(stage: &Stage) {
    let first = stage.create("first");
    let claimed = stage.claim("worker-1");
    let (team, token) = (&stage.team, &claimed.token);
    let result = json!({"summary": "done", "files": 3});
    let done = stage.step(
        "complete",
        stage
            .store
            .complete(team, &first, token, Some(result.clone())),
    );
    assert_eq!(done.status(), Status::Completed);
    assert!(done.is_done());
    assert_eq!(done.ours("result"), Some(&result));
    assert_eq!(done.moment("completedAt"), Some(stage.store.now()));
    let position = stage.position();
    stage.wait_secs(500);
    let again = stage.step(
        "complete again",
        stage
            .store
            .complete(team, &first, token, Some(json!("something else"))),
    );
    assert_eq!(again, done, "the second time changes nothing");
    assert_eq!(stage.position(), position, "and tells nothing");
    for (what, refused) in [
        ("renew", stage.store.renew(team, &first, token, None).err()),
        ("fail", stage.store.fail(team, &first, token, "x").err()),
        (
            "release",
            stage.store.release(team, "-", &first, Some(token)).err(),
        ),
        (
            "force",
            stage.store.release(team, "lead", &first, None).err(),
        ),
    ] {
        let kind = refused.map(|error| error.kind);
        assert_eq!(kind, Some(Kind::Conflict), "{what} of a completed task");
    }
    assert_eq!(stage.task(&first), done);
}

pub(super) fn an_owner_changed_by_others_ends_the_claim(stage: &Stage) {
    let first = stage.create("first");
    let claimed = stage.claim("worker-1");
    for owner in [json!("worker-2"), json!(null), json!("")] {
        stage.rewrite_as_foreign(&first, |object| {
            object.insert("owner".to_owned(), owner.clone());
        });
        stage.refuse_token(&first, &claimed.token);
    }
    stage.rewrite_as_foreign(&first, |object| {
        object.insert("owner".to_owned(), json!("worker-1"));
    });
    stage.complete(&claimed);
}

pub(super) fn a_task_put_back_by_others_ends_the_claim(stage: &Stage) {
    let first = stage.create("first");
    let claimed = stage.claim("worker-1");
    stage.rewrite_as_foreign(&first, |object| {
        object.insert("status".to_owned(), json!("pending"));
    });
    stage.refuse_token(&first, &claimed.token);
    stage.rewrite_as_foreign(&first, |object| {
        object.shift_remove("owner");
    });
    let new = stage.claim("worker-2");
    stage.refuse_token(&first, &claimed.token);
    stage.complete(&new);
}

pub(super) fn a_released_task_is_as_good_as_new(stage: &Stage) {
    let first = stage.create("first");
    let claimed = stage.claim("worker-1");
    let free = stage.release(&claimed);
    assert_eq!(free.status(), Status::Pending);
    assert_eq!(free.owner(), None);
    assert!(free.claim().is_none());
    let failure = stage.step("failure", stage.store.failure(&stage.team, &first));
    assert_eq!(failure, None, "giving back is not failing");
    assert_eq!(
        stage.claim("worker-2").task.id(),
        &first,
        "nobody has to wait"
    );
}

pub(super) fn a_person_may_take_a_task_back(stage: &Stage) {
    let first = stage.create("first");
    let force = || stage.store.release(&stage.team, "user", &first, None);
    stage.refuse("force", Kind::Conflict, |_| force());
    let claimed = stage.claim("worker-1");
    stage.step("force", force());
    stage.refuse_token(&first, &claimed.token);
    let last = stage.events().pop().map(|event| (event.kind, event.actor));
    assert_eq!(
        last,
        Some(("task.released".to_owned(), "user".to_owned())),
        "the journal says who insisted"
    );
    stage.claim("worker-2");
}

pub(super) fn a_task_that_others_called_completed_keeps_its_result(stage: &Stage) {
    let first = stage.create("first");
    let claimed = stage.claim("worker-1");
    stage.rewrite_as_foreign(&first, |object| {
        object.insert("status".to_owned(), json!("completed"));
    });
    let result = json!({"summary": "done"});
    let done = stage
        .store
        .complete(&stage.team, &first, &claimed.token, Some(result.clone()));
    let done = stage.step("complete", done);
    assert_eq!(
        done.ours("result"),
        Some(&result),
        "what its worker made counts"
    );
    assert_eq!(stage.task(&first), done);
}

pub(super) fn tasks_whose_paths_overlap_are_not_worked_on_at_once(stage: &Stage) {
    let with_paths = |subject: &str, paths: &[&str]| {
        stage.create_with(subject, |new| {
            new.paths = paths.iter().map(|&path| path.to_owned()).collect();
        })
    };
    let auth = with_paths("auth", &["src/auth/**", "docs/auth.md"]);
    let login = with_paths("login", &["src/*/login.rs"]);
    let ui = with_paths("ui", &["src/ui/**"]);
    let free = stage.create("no paths, no reservation");
    let first = stage.claim("worker-1");
    assert_eq!(first.task.id(), &auth);
    let error = stage.refuse("claim", Kind::Conflict, |store| {
        store.claim(&stage.team, &wish("worker-2", Some(&login)))
    });
    assert!(error.message.contains("task 1"), "{error}");
    let second = stage.claim("worker-2");
    assert_eq!(second.task.id(), &ui, "the next that meets nobody");
    assert_eq!(stage.claim("worker-2").task.id(), &free);
    stage.nothing_for("worker-2");
    stage.complete(&first);
    stage.nothing_for("worker-2");
    stage.complete(&second);
    assert_eq!(stage.claim("worker-2").task.id(), &login);
}

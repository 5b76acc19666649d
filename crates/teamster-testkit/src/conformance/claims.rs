//! Which worker gets which task, and what a claim's token allows.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::json;
use teamster_journal::EventActor;
use teamster_store::{ClaimRequest, StoreErrorKind};
use teamster_types::task::{Status, Token};
use teamster_types::transitions::LEASE;

use super::fixture::{StoreFixture, claim_request, id, worker};

pub(super) fn own_tasks_come_first_then_free_ones_by_number(fixture: &StoreFixture) {
    for number in 1..=5 {
        fixture.create_with(&format!("number {number}"), |new| {
            new.owner = match number {
                4 | 5 => Some(worker("worker-1")),
                2 => Some(worker("worker-2")),
                _ => None,
            };
        });
    }
    let order: Vec<u128> = (0..4)
        .map(|_| fixture.claim("worker-1").task.id().number())
        .collect();
    assert_eq!(order, [4, 5, 1, 3]);
    fixture.nothing_for("worker-1");
    assert_eq!(fixture.claim("worker-2").task.id(), &id(2));
}

pub(super) fn what_belongs_to_another_is_not_offered(fixture: &StoreFixture) {
    let first = fixture.create_with("assigned", |new| new.owner = Some(worker("worker-2")));
    fixture.nothing_for("worker-1");
    let error = fixture.refuse("claim", StoreErrorKind::Conflict, |store| {
        store.claim(&fixture.team, &claim_request("worker-1", Some(&first)))
    });
    assert!(error.message.contains("worker-2"), "{error}");
    fixture.claim_id("worker-2", &first);
}

pub(super) fn an_internal_task_is_claimed_only_by_id(fixture: &StoreFixture) {
    let hidden = fixture.create("of the system");
    let own = fixture.create_with("also hidden", |new| new.owner = Some(worker("worker-1")));
    for task in [&hidden, &own] {
        fixture.rewrite_as_foreign(task, |object| {
            object["metadata"]["_internal"] = json!(true);
        });
    }
    fixture.nothing_for("worker-1");
    fixture.complete(&fixture.claim_id("worker-1", &hidden));
    fixture.complete(&fixture.claim_id("worker-1", &own));
}

pub(super) fn a_claim_says_who_until_when_and_under_which_token(fixture: &StoreFixture) {
    let first = fixture.create("first");
    let claimed = fixture.claim("worker-1");
    assert_eq!(claimed.task, fixture.task(&first));
    assert_eq!(claimed.task.status(), Status::InProgress);
    assert_eq!(claimed.task.owner(), Some("worker-1"));
    assert_eq!((claimed.fence, claimed.task.fence()), (1, 1));
    assert_eq!(claimed.leased_until, fixture.store.now().after(LEASE));
    assert!(
        claimed.token.reveal().len() >= 32,
        "a token cannot be guessed"
    );
    let claim = claimed.task.claim().unwrap_or_else(|| panic!("no claim"));
    assert_eq!(claim.worker, worker("worker-1"));
    assert_eq!(claim.token, claimed.token);
    assert_eq!(claim.leased_until, claimed.leased_until);
    assert_ne!(claim.pid, 0, "the claim names its process");

    fixture.release(&claimed);
    let short = ClaimRequest {
        lease: Some(Duration::from_secs(7)),
        ..claim_request("worker-2", None)
    };
    let again = fixture.step("claim", fixture.store.claim(&fixture.team, &short));
    let again = again.unwrap_or_else(|| panic!("nothing was given"));
    assert_eq!(again.fence, 2, "the fence grows with every claim");
    assert_ne!(again.token, claimed.token);
    assert_eq!(
        again.leased_until,
        fixture.store.now().after(Duration::from_secs(7))
    );
}

pub(super) fn a_taken_or_finished_task_is_not_given_again(fixture: &StoreFixture) {
    let first = fixture.create("first");
    let claimed = fixture.claim("worker-1");
    let refuse = |who: &str, said: &str| {
        let error = fixture.refuse("claim", StoreErrorKind::Conflict, |store| {
            store.claim(&fixture.team, &claim_request(who, Some(&first)))
        });
        assert!(error.message.contains(said), "{error}");
    };
    refuse("worker-2", "worker-1");
    refuse("worker-1", "worker-1");
    fixture.nothing_for("worker-2");
    fixture.complete(&claimed);
    refuse("worker-2", "completed");
    fixture.nothing_for("worker-2");
}

pub(super) fn an_empty_table_gives_nothing_and_tells_nothing(fixture: &StoreFixture) {
    fixture.nothing_for("worker-1");
    fixture.nothing_for("nobody-knows-me");
    assert_eq!(fixture.kinds_after(1), Vec::<String>::new());
}

pub(super) fn every_worker_gets_another_task(fixture: &StoreFixture) {
    for number in 1..=20 {
        fixture.create(&format!("number {number}"));
    }
    let mut given = HashSet::new();
    for number in 0..20 {
        let claimed = fixture.claim(&format!("pool-{}", number % 7));
        assert!(
            given.insert(claimed.task.id().clone()),
            "{} was given twice",
            claimed.task.id()
        );
    }
    fixture.nothing_for("pool-1");
}

pub(super) fn an_old_token_changes_nothing(fixture: &StoreFixture) {
    let first = fixture.create("first");
    let old = fixture.claim("worker-1");
    fixture.release(&old);
    fixture.refuse_token(&first, &old.token);
    let new = fixture.claim("worker-2");
    fixture.refuse_token(&first, &old.token);
    fixture.refuse_token(&first, &Token::new("made up"));
    fixture.complete(&new);
    fixture.refuse_token(&first, &old.token);
}

pub(super) fn completing_twice_is_completing_once(fixture: &StoreFixture) {
    let first = fixture.create("first");
    let claimed = fixture.claim("worker-1");
    let (team, token) = (&fixture.team, &claimed.token);
    let result = json!({"summary": "done", "files": 3});
    let done = fixture.step(
        "complete",
        fixture
            .store
            .complete(team, &first, token, Some(result.clone())),
    );
    assert_eq!(done.status(), Status::Completed);
    assert!(done.is_done());
    assert_eq!(done.raw_result(), Some(&result));
    assert_eq!(done.completed_at(), Some(fixture.store.now()));
    let position = fixture.position();
    fixture.wait_secs(500);
    let again = fixture.step(
        "complete again",
        fixture
            .store
            .complete(team, &first, token, Some(json!("something else"))),
    );
    assert_eq!(again, done, "the second time changes nothing");
    assert_eq!(fixture.position(), position, "and tells nothing");
    for (what, refused) in [
        (
            "renew",
            fixture.store.renew(team, &first, token, None).err(),
        ),
        ("fail", fixture.store.fail(team, &first, token, "x").err()),
        (
            "release",
            fixture
                .store
                .release(team, &"-".into(), &first, Some(token))
                .err(),
        ),
        (
            "force",
            fixture
                .store
                .release(team, &EventActor::Lead, &first, None)
                .err(),
        ),
    ] {
        let kind = refused.map(|error| error.kind);
        assert_eq!(
            kind,
            Some(StoreErrorKind::Conflict),
            "{what} of a completed task"
        );
    }
    assert_eq!(fixture.task(&first), done);
}

pub(super) fn an_owner_changed_by_others_ends_the_claim(fixture: &StoreFixture) {
    let first = fixture.create("first");
    let claimed = fixture.claim("worker-1");
    for owner in [json!("worker-2"), json!(null), json!("")] {
        fixture.rewrite_as_foreign(&first, |object| {
            object.insert("owner".to_owned(), owner.clone());
        });
        fixture.refuse_token(&first, &claimed.token);
    }
    fixture.rewrite_as_foreign(&first, |object| {
        object.insert("owner".to_owned(), json!("worker-1"));
    });
    fixture.complete(&claimed);
}

pub(super) fn a_task_put_back_by_others_ends_the_claim(fixture: &StoreFixture) {
    let first = fixture.create("first");
    let claimed = fixture.claim("worker-1");
    fixture.rewrite_as_foreign(&first, |object| {
        object.insert("status".to_owned(), json!("pending"));
    });
    fixture.refuse_token(&first, &claimed.token);
    fixture.rewrite_as_foreign(&first, |object| {
        object.shift_remove("owner");
    });
    let new = fixture.claim("worker-2");
    fixture.refuse_token(&first, &claimed.token);
    fixture.complete(&new);
}

pub(super) fn a_released_task_is_as_good_as_new(fixture: &StoreFixture) {
    let first = fixture.create("first");
    let claimed = fixture.claim("worker-1");
    let free = fixture.release(&claimed);
    assert_eq!(free.status(), Status::Pending);
    assert_eq!(free.owner(), None);
    assert!(free.claim().is_none());
    let failure = fixture.step("failure", fixture.store.failure(&fixture.team, &first));
    assert_eq!(failure, None, "giving back is not failing");
    assert_eq!(
        fixture.claim("worker-2").task.id(),
        &first,
        "nobody has to wait"
    );
}

pub(super) fn a_person_may_take_a_task_back(fixture: &StoreFixture) {
    let first = fixture.create("first");
    let force = || {
        fixture
            .store
            .release(&fixture.team, &EventActor::Person, &first, None)
    };
    fixture.refuse("force", StoreErrorKind::Conflict, |_| force());
    let claimed = fixture.claim("worker-1");
    fixture.step("force", force());
    fixture.refuse_token(&first, &claimed.token);
    let last = fixture
        .events()
        .pop()
        .map(|event| (event.kind, event.actor.to_string()));
    assert_eq!(
        last,
        Some(("task.released".to_owned(), "user".to_owned())),
        "the journal says who insisted"
    );
    fixture.claim("worker-2");
}

pub(super) fn a_task_that_others_called_completed_keeps_its_result(fixture: &StoreFixture) {
    let first = fixture.create("first");
    let claimed = fixture.claim("worker-1");
    fixture.rewrite_as_foreign(&first, |object| {
        object.insert("status".to_owned(), json!("completed"));
    });
    let result = json!({"summary": "done"});
    let done = fixture
        .store
        .complete(&fixture.team, &first, &claimed.token, Some(result.clone()));
    let done = fixture.step("complete", done);
    assert_eq!(
        done.raw_result(),
        Some(&result),
        "what its worker made counts"
    );
    assert_eq!(fixture.task(&first), done);
}

pub(super) fn tasks_whose_paths_overlap_are_not_worked_on_at_once(fixture: &StoreFixture) {
    let with_paths = |subject: &str, paths: &[&str]| {
        fixture.create_with(subject, |new| {
            new.paths = paths.iter().map(|&path| path.to_owned()).collect();
        })
    };
    let auth = with_paths("auth", &["src/auth/**", "docs/auth.md"]);
    let login = with_paths("login", &["src/*/login.rs"]);
    let ui = with_paths("ui", &["src/ui/**"]);
    let free = fixture.create("no paths, no reservation");
    let first = fixture.claim("worker-1");
    assert_eq!(first.task.id(), &auth);
    let error = fixture.refuse("claim", StoreErrorKind::Conflict, |store| {
        store.claim(&fixture.team, &claim_request("worker-2", Some(&login)))
    });
    assert!(error.message.contains("task 1"), "{error}");
    let second = fixture.claim("worker-2");
    assert_eq!(second.task.id(), &ui, "the next that meets nobody");
    assert_eq!(fixture.claim("worker-2").task.id(), &free);
    fixture.nothing_for("worker-2");
    fixture.complete(&first);
    fixture.nothing_for("worker-2");
    fixture.complete(&second);
    assert_eq!(fixture.claim("worker-2").task.id(), &login);
}

//! Tasks that wait for an answer, and changes that are committed together.

use teamster_journal::payload::{
    Addressee, EmptyPayload, ProposedTask, QuestionAnswered, QuestionAsked, QuestionId,
    QuestionKind,
};
use teamster_journal::{EventActor, EventKind, NewEvent, Question, Questions};
use teamster_store::{
    AcceptedProposal, OutgoingMessage, PlannedTask, Recipient, StoreErrorKind, TeamChanges,
};
use teamster_types::TaskId;
use teamster_types::json::Object;
use teamster_types::task::{MergeMark, NewTask, Status};
use teamster_types::transitions::TaskEdit;

use super::fixture::{StoreFixture, claim_request};

fn planned(subject: &str, after: &[usize]) -> PlannedTask {
    PlannedTask {
        task: NewTask {
            subject: subject.to_owned(),
            ..NewTask::default()
        },
        after: after.to_vec(),
    }
}

pub(super) fn blocked_task_waits_for_an_answer_and_loses_no_attempt(fixture: &StoreFixture) {
    let id = fixture.create("needs a decision");
    let claimed = fixture.claim("worker-1");
    let blocked = fixture
        .store
        .block(&fixture.team, &id, &claimed.token, "Which port?");
    let blocked = fixture.step("block", blocked);
    assert_eq!(blocked.status(), Status::Pending);
    assert_eq!(blocked.failed_attempts(), 0);
    fixture.nothing_for("worker-2");
    fixture.refuse("claim by id", StoreErrorKind::Conflict, |store| {
        store.claim(&fixture.team, &claim_request("worker-1", Some(&id)))
    });
    fixture.refuse(
        "complete after the block",
        StoreErrorKind::Conflict,
        |store| store.complete(&fixture.team, &id, &claimed.token, None),
    );
    let answered = fixture
        .store
        .unblock(&fixture.team, &EventActor::Lead, &id, "8080");
    let answered = fixture.step("unblock", answered);
    assert_eq!(answered.block_answers()[0].answer, "8080");
    fixture.refuse("a second answer", StoreErrorKind::Conflict, |store| {
        store.unblock(&fixture.team, &EventActor::Lead, &id, "9090")
    });
    let again = fixture.claim("worker-2");
    assert_eq!(again.task.id(), &id);
    assert_eq!(again.task.block_answers()[0].reason, "Which port?");
    assert!(again.fence > claimed.fence);
}

pub(super) fn block_without_the_claim_is_refused(fixture: &StoreFixture) {
    let id = fixture.create("held");
    let stale = fixture.claim("worker-1");
    fixture.release(&stale);
    let claimed = fixture.claim("worker-2");
    fixture.refuse(
        "block with an old token",
        StoreErrorKind::Conflict,
        |store| store.block(&fixture.team, &id, &stale.token, "why"),
    );
    fixture.refuse("block without a reason", StoreErrorKind::Refused, |store| {
        store.block(&fixture.team, &id, &claimed.token, " ")
    });
    fixture.refuse(
        "answer what was not asked",
        StoreErrorKind::Conflict,
        |store| store.unblock(&fixture.team, &EventActor::Lead, &id, "yes"),
    );
}

pub(super) fn changes_are_made_together(fixture: &StoreFixture) {
    let large = fixture.create("too large");
    let waiting = fixture.create_with("waits for it", |new| {
        new.blocked_by = vec![large.clone()];
    });
    let needless = fixture.create("not needed");
    let blocked = fixture.create("blocked");
    let claimed = fixture.claim_id("worker-1", &blocked);
    let step = fixture
        .store
        .block(&fixture.team, &blocked, &claimed.token, "How?");
    fixture.step("block", step);
    let changes = TeamChanges {
        create: vec![planned("first half", &[]), planned("second half", &[0])],
        split: vec![(large.clone(), vec![0, 1])],
        update: vec![(
            waiting.clone(),
            TaskEdit {
                subject: Some("waits for both halves".to_owned()),
                ..TaskEdit::default()
            },
        )],
        remove: vec![needless.clone()],
        unblock: vec![(blocked.clone(), "Like this.".to_owned())],
        choose: Vec::new(),
        send: vec![OutgoingMessage {
            from: "lead".to_owned(),
            to: Recipient::Worker("worker-2".to_owned()),
            kind: "message".to_owned(),
            content: "look at the halves".to_owned(),
            extra: Object::new(),
        }],
        accept: Vec::new(),
        record: vec![NewEvent::new(
            "lead",
            EventKind::TeamRestored(EmptyPayload {}),
        )],
    };
    let made = fixture.step(
        "apply",
        fixture
            .store
            .apply(&fixture.team, &EventActor::Lead, &changes),
    );
    let ids: Vec<TaskId> = made.iter().map(|task| task.id().clone()).collect();
    assert_eq!(ids.len(), 2);
    let left: Vec<TaskId> = fixture
        .tasks()
        .iter()
        .map(|task| task.id().clone())
        .collect();
    assert!(
        !left.contains(&large) && !left.contains(&needless),
        "{left:?}"
    );
    let waiting = fixture.task(&waiting);
    assert_eq!(waiting.blocked_by(), ids);
    assert_eq!(waiting.subject(), "waits for both halves");
    assert!(fixture.task(&blocked).block().is_none());
}

pub(super) fn one_of_several_results_is_chosen_once(fixture: &StoreFixture) {
    let mut results = Vec::new();
    for number in 0..3 {
        let id = fixture.create_with(&format!("result {number}"), |new| {
            new.notes.is_candidate = true;
        });
        let claimed = fixture.claim_id("worker-1", &id);
        let done = fixture
            .store
            .complete(&fixture.team, &id, &claimed.token, None);
        fixture.step("complete", done);
        results.push(id);
    }
    let open = fixture.create_with("still at it", |new| new.notes.is_candidate = true);
    let choice = |ids: &[&TaskId]| TeamChanges {
        choose: ids
            .iter()
            .enumerate()
            .map(|(place, id)| ((*id).clone(), place == 0))
            .collect(),
        ..TeamChanges::default()
    };
    fixture.refuse(
        "choose before all are done",
        StoreErrorKind::Conflict,
        |store| {
            store.apply(
                &fixture.team,
                &EventActor::Lead,
                &choice(&[&results[0], &open]),
            )
        },
    );
    let all = choice(&[&results[1], &results[0], &results[2]]);
    fixture.step(
        "choose",
        fixture.store.apply(&fixture.team, &EventActor::Lead, &all),
    );
    assert!(fixture.task(&results[1]).is_unmerged(), "it is merged next");
    for other in [&results[0], &results[2]] {
        let mark = fixture.task(other).merge_mark();
        assert_eq!(mark, Some(MergeMark::NotChosen));
    }
    fixture.refuse("choose again", StoreErrorKind::Conflict, |store| {
        store.apply(&fixture.team, &EventActor::Lead, &choice(&[&results[0]]))
    });
}

pub(super) fn one_bad_change_undoes_all(fixture: &StoreFixture) {
    let first = fixture.create("first");
    let at_work = fixture.create("at work");
    fixture.claim_id("worker-1", &at_work);
    for bad in [
        TeamChanges {
            remove: vec![at_work.clone()],
            ..TeamChanges::default()
        },
        TeamChanges {
            split: vec![(at_work.clone(), vec![0])],
            ..TeamChanges::default()
        },
        TeamChanges {
            split: vec![(first.clone(), vec![7])],
            ..TeamChanges::default()
        },
        TeamChanges {
            unblock: vec![(first.clone(), "nobody asked".to_owned())],
            ..TeamChanges::default()
        },
        TeamChanges {
            send: vec![OutgoingMessage {
                from: "lead".to_owned(),
                to: Recipient::Worker("nobody-9".to_owned()),
                kind: "message".to_owned(),
                content: "hello".to_owned(),
                extra: Object::new(),
            }],
            ..TeamChanges::default()
        },
    ] {
        let changes = TeamChanges {
            create: vec![planned("new", &[])],
            ..bad
        };
        let before = fixture.tasks().len();
        let outcome = fixture
            .store
            .apply(&fixture.team, &EventActor::Lead, &changes);
        assert!(outcome.is_err(), "{changes:?}");
        assert_eq!(fixture.tasks().len(), before, "{changes:?}");
    }
}

pub(super) fn proposal_becomes_one_task_and_is_answered_once(fixture: &StoreFixture) {
    let asked = EventKind::QuestionAsked(QuestionAsked {
        kind: QuestionKind::Proposal,
        text: String::new(),
        to: Addressee::Person,
        proposal: Some(ProposedTask {
            subject: "mend it".to_owned(),
            ..ProposedTask::default()
        }),
    });
    let event = NewEvent::new("worker-1", asked);
    let seq = fixture.step("ask", fixture.store.record(&fixture.team, event));
    let question = QuestionId::at(seq);
    let accepted = TeamChanges {
        create: vec![planned("mend it", &[])],
        accept: vec![AcceptedProposal {
            question,
            place: 0,
            about: None,
            words: "soon".to_owned(),
        }],
        ..TeamChanges::default()
    };
    let apply = |changes: &TeamChanges| {
        let store = &fixture.store;
        store.apply(&fixture.team, &EventActor::Person, changes)
    };
    let made = fixture.step("accept", apply(&accepted));
    let events = fixture.events();
    let questions = Questions::of(&events);
    let answer = format!("accepted as task {}: soon", made[0].id());
    let found = questions.get(question).and_then(Question::answer);
    assert_eq!(found, Some(answer.as_str()));
    let before = (fixture.tasks().len(), events.len());
    let late = QuestionAnswered {
        question,
        answer: "no".to_owned(),
    };
    let late = NewEvent::new(EventActor::Leader, EventKind::QuestionAnswered(late));
    let answered = TeamChanges {
        create: vec![planned("mend it another way", &[])],
        record: vec![late],
        ..TeamChanges::default()
    };
    fixture.refuse("accept again", StoreErrorKind::Conflict, |_| {
        apply(&accepted)
    });
    fixture.refuse("answer what was answered", StoreErrorKind::Conflict, |_| {
        apply(&answered)
    });
    let after = (fixture.tasks().len(), fixture.events().len());
    assert_eq!(after, before, "nothing was made or recorded");
}

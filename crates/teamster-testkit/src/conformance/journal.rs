//! The journal: one line for each change, in order, without secrets.

use std::sync::PoisonError;

use serde_json::json;
use teamster_journal::payload::WorkerRestarted;
use teamster_journal::{EventActor, EventKind, NewEvent};
use teamster_store::{Reader, Recipient, rebuild};
use teamster_types::json::Object;
use teamster_types::message::CONTENT_LIMIT;
use teamster_types::task::DESCRIPTION_LIMIT;

use super::fixture::{StoreFixture, worker};

pub(super) fn writer_is_told_the_position_of_its_own_event_whoever_else_writes(
    fixture: &StoreFixture,
) {
    let told = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let told = &told;
            scope.spawn(move || {
                for number in 0..8 {
                    let worker = format!("w-{writer}-{number}");
                    let restarted = WorkerRestarted {
                        worker: worker.clone(),
                        times: number,
                    };
                    let event = NewEvent::new("lead", EventKind::WorkerRestarted(restarted));
                    let recorded = fixture.store.record(&fixture.team, event);
                    let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
                    told.push((worker, recorded.ok()));
                }
            });
        }
    });
    let all = fixture.events();
    let told = told.into_inner().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(told.len(), 32);
    for (worker, seq) in told {
        let event = all.iter().find(|event| Some(event.seq) == seq);
        let written = event.map(|event| event.data["worker"].clone());
        assert_eq!(written, Some(json!(worker)), "at position {seq:?}");
    }
}

pub(super) fn positions_grow_by_one_and_pages_fit_together(fixture: &StoreFixture) {
    for number in 0..9 {
        fixture.create(&format!("number {number}"));
    }
    let all = fixture.events();
    let positions: Vec<u64> = all.iter().map(|event| event.seq).collect();
    assert_eq!(positions, (1..=10).collect::<Vec<_>>());
    assert_eq!(all[0].kind, "team.created");
    assert_eq!(fixture.position(), 10);
    let page = |from, limit| {
        fixture
            .step("page", fixture.store.events(&fixture.team, from, limit))
            .events
    };
    let mut pages = Vec::new();
    while let Some(from) = Some(pages.len() as u64 + 1).filter(|from| *from <= 10) {
        let part = page(from, 3);
        assert!(!part.is_empty());
        pages.extend(part);
    }
    assert_eq!(pages, all);
    assert_eq!(page(0, 2), all[..2]);
    assert_eq!(page(11, 5), []);
    assert_eq!(page(5, 0), []);
    let last = |count| {
        fixture
            .step("last", fixture.store.last_events(&fixture.team, count))
            .events
    };
    assert_eq!(last(4), all[6..]);
    assert_eq!(last(100), all);
    assert_eq!(last(0), []);
}

pub(super) fn the_pulse_changes_with_the_team_and_only_then(fixture: &StoreFixture) {
    let listener = fixture.store.listen(&fixture.team, &worker("worker-1"));
    let mut listener = fixture.step("listen", listener);
    let mut pulse = || fixture.step("hear", listener.poll()).pulse;
    fixture.create("first");
    let before = pulse();
    let _ = fixture.step("look", fixture.store.tasks(&fixture.team));
    assert_eq!(pulse(), before);
    fixture.tell("worker-2", "worker-1", "hello");
    let told = pulse();
    assert_ne!(told.journal, before.journal);
    let claimed = fixture.claim("worker-1");
    let taken = pulse();
    assert!(taken.journal != told.journal && taken.tasks != told.tasks);
    let id = claimed.task.id().clone();
    let renewed = fixture
        .store
        .renew(&fixture.team, &id, &claimed.token, None);
    fixture.step("renew", renewed);
    assert_eq!(pulse().journal, taken.journal, "a renewed lease is no news");
}

pub(super) fn every_step_has_its_event_and_its_actor(fixture: &StoreFixture) {
    let position = fixture.position();
    let first = fixture.create("first");
    fixture.update(&first, |edit| edit.subject = Some("better".to_owned()));
    fixture.release(&fixture.claim("worker-1"));
    fixture.fail(&fixture.claim("worker-1"), "boom");
    fixture.step(
        "retry",
        fixture
            .store
            .retry(&fixture.team, &EventActor::Person, &first),
    );
    fixture.complete(&fixture.claim("worker-2"));
    fixture.delete(&first);
    fixture.tell("worker-2", "worker-1", "hello");
    fixture.read_and_ack("worker-1");
    let told: Vec<(String, String)> = fixture
        .events()
        .into_iter()
        .filter(|event| event.seq > position)
        .map(|event| (event.kind, event.actor.to_string()))
        .collect();
    let expected = [
        ("task.created", "lead"),
        ("task.updated", "lead"),
        ("task.claimed", "worker-1"),
        ("task.released", "worker-1"),
        ("task.claimed", "worker-1"),
        ("task.failed", "worker-1"),
        ("task.retried", "user"),
        ("task.claimed", "worker-2"),
        ("task.completed", "worker-2"),
        ("task.deleted", "lead"),
        ("message.sent", "worker-2"),
        ("message.delivered", "worker-1"),
        ("message.acked", "worker-1"),
    ]
    .map(|(kind, actor)| (kind.to_owned(), actor.to_owned()));
    assert_eq!(told, expected);
    let of_tasks = fixture.events();
    let claimed = of_tasks
        .iter()
        .find(|event| event.kind == "task.claimed")
        .unwrap_or_else(|| panic!("no claim was told"));
    assert_eq!(claimed.task_id.as_ref(), Some(&first));
    assert_eq!(claimed.data["from"], "pending");
    assert_eq!(claimed.data["to"], "in_progress");
    assert_eq!(claimed.data["fence"], 1);
    assert_eq!(claimed.ts, fixture.store.now());
}

pub(super) fn an_event_of_ones_own_gets_the_next_position(fixture: &StoreFixture) {
    let before = fixture.position();
    let restarted = WorkerRestarted {
        worker: "worker-1".to_owned(),
        times: 17,
    };
    let event = NewEvent::new("host", EventKind::WorkerRestarted(restarted));
    let at = fixture.step("record", fixture.store.record(&fixture.team, event));
    assert_eq!(at, before + 1);
    let last = fixture.events().pop().unwrap_or_else(|| panic!("no event"));
    assert_eq!((last.seq, last.kind.as_str()), (at, "worker.restarted"));
    assert_eq!(last.actor, "host");
    assert_eq!(last.data["worker"], "worker-1");
    assert_eq!(last.data["times"], 17);
    assert_eq!(last.task_id, None);
}

pub(super) fn the_last_event_of_a_type_is_found_wherever_it_is(fixture: &StoreFixture) {
    let find = |kinds: &[&str]| {
        let found = fixture.store.last_of(&fixture.team, kinds);
        let found = found.unwrap_or_else(|error| panic!("{error}"));
        found.map(|event| (event.seq, event.kind))
    };
    assert_eq!(find(&["run."]), None);
    let record = |kind: &'static str| {
        let mut data = Object::new();
        data.insert("text".to_owned(), "\"type\":\"run.started\"".into());
        let event = NewEvent::new("host", EventKind::parse(kind, &data));
        fixture.step("record", fixture.store.record(&fixture.team, event))
    };
    let started = record("run.started");
    let stage_at = record("run.stage");
    for _ in 0..300 {
        record("agent.event");
    }
    assert_eq!(find(&["run."]), Some((stage_at, "run.stage".to_owned())));
    let either = find(&["run.started", "approval."]);
    assert_eq!(either, Some((started, "run.started".to_owned())));
    assert_eq!(find(&["verify."]), None);
    assert_eq!(find(&["team."]).map(|(seq, _)| seq), Some(1));
}

pub(super) fn a_token_is_nowhere_in_the_journal(fixture: &StoreFixture) {
    let first = fixture.create("first");
    let mut tokens = Vec::new();
    for _ in 0..3 {
        let claimed = fixture.claim("worker-1");
        fixture.renew(&claimed);
        fixture.rewrite_as_foreign(&first, |object| {
            object.insert("note".to_owned(), json!("seen"));
        });
        fixture.release(&claimed);
        tokens.push(claimed.token);
    }
    let ghost = fixture.claim_as_ghost("worker-1");
    tokens.push(ghost.token);
    tokens.push(fixture.claim_id("worker-1", &first).token);
    fixture.wait_secs(1_000);
    let journal = json!(fixture.events()).to_string();
    for token in tokens {
        assert!(!journal.contains(token.reveal()), "a token was told");
    }
}

pub(super) fn a_secret_is_nowhere_in_the_journal(fixture: &StoreFixture) {
    let secret = format!("sk-ant-api03-{}", "A1b2C3d4".repeat(11));
    let password = "hunter2-hunter2-hunter2";
    let first = fixture.create_with("log in", |new| {
        new.description = format!("use {secret} and postgres://me:{password}@db/x");
    });
    fixture.tell("lead", "worker-1", &format!("the key is {secret}"));
    let claimed = fixture.claim("worker-1");
    fixture.fail(&claimed, &format!("401 for Authorization: Bearer {secret}"));
    let journal = json!(fixture.events()).to_string();
    for canary in [secret.as_str(), password] {
        assert!(!journal.contains(canary), "{canary} stands in the journal");
    }
    assert!(
        fixture.task(&first).description().contains(&secret),
        "the task itself must arrive as written"
    );
    assert!(fixture.read("worker-1")[0].contains(&secret));
}

pub(super) fn long_texts_come_back_whole(fixture: &StoreFixture) {
    let description = "line after line, ünd so on\n".repeat(DESCRIPTION_LIMIT / 27);
    let first = fixture.create_with("long", |new| new.description.clone_from(&description));
    let message = "m".repeat(CONTENT_LIMIT);
    fixture.tell("lead", "worker-1", &message);
    let claimed = fixture.claim("worker-1");
    let result = json!({
        "summary": "s".repeat(20_000),
        "files": (0..2_000).map(|n| format!("src/file_{n}.rs")).collect::<Vec<_>>(),
    });
    let completed =
        fixture
            .store
            .complete(&fixture.team, &first, &claimed.token, Some(result.clone()));
    fixture.step("complete", completed);
    let events = fixture.events();
    let of = |kind: &str| {
        events
            .iter()
            .find(|event| event.kind == kind)
            .unwrap_or_else(|| panic!("no {kind} was told"))
    };
    assert_eq!(of("task.created").data["description"], json!(description));
    assert_eq!(of("message.sent").data["content"], json!(message));
    let told = &of("task.completed").data["metadata"]["teamster"]["result"];
    assert_eq!(told, &result);
}

pub(super) fn a_foreign_key_is_rebuilt_too(fixture: &StoreFixture) {
    let first = fixture.create("first");
    fixture.rewrite_as_foreign(&first, |object| {
        object.insert(
            "x-priority".to_owned(),
            json!({"level": 3, "why": ["a", null]}),
        );
        object["metadata"]["mine"] = json!({"deep": {"er": [1, 2]}});
        object.insert("nothing".to_owned(), json!(null));
    });
    let claimed = fixture.claim("worker-1");
    fixture.rewrite_as_foreign(&first, |object| {
        object["x-priority"] = json!({"why": []});
        object["metadata"]["mine"] = json!("flat");
    });
    fixture.complete(&claimed);
    let mut told = rebuild::Tasks::default();
    fixture.events().iter().for_each(|event| told.apply(event));
    let task = told
        .iter()
        .next()
        .unwrap_or_else(|| panic!("nothing was rebuilt"));
    assert_eq!(task.as_object()["x-priority"], json!({"why": []}));
    assert_eq!(task.as_object()["metadata"]["mine"], "flat");
    fixture.send("worker-1", Recipient::Lead, "done");
    fixture.receive(&Reader::Lead, 10, true);
    fixture.receive(&Reader::Worker(worker("worker-2")), 10, true);
}

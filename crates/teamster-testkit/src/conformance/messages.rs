//! Messages: in order, at least once, never again once acknowledged.

use serde_json::json;
use teamster_store::{OutgoingMessage, Reader, Recipient, StoreErrorKind};
use teamster_types::message::CONTENT_LIMIT;

use super::fixture::{MEMBERS, StoreFixture, contents, message, worker};

fn reader(who: &str) -> Reader {
    Reader::Worker(worker(who))
}

pub(super) fn messages_arrive_in_order_for_each_sender(fixture: &StoreFixture) {
    let mut sent = Vec::new();
    for number in 0..30 {
        let from = if number % 3 == 0 { "lead" } else { "worker-2" };
        let text = format!("{from} {number}");
        let message = fixture.tell(from, "worker-1", &text);
        assert_eq!(message.from(), from);
        assert_eq!(message.to(), "worker-1");
        assert_eq!(message.timestamp(), Some(fixture.store.now()));
        sent.push(text);
    }
    assert_eq!(fixture.read_and_ack("worker-1"), sent);
    assert!(fixture.read("worker-2").is_empty(), "nobody else gets them");
}

pub(super) fn what_is_not_acknowledged_comes_again(fixture: &StoreFixture) {
    fixture.tell("lead", "worker-1", "one");
    let first = fixture.receive(&reader("worker-1"), 10, false);
    fixture.tell("lead", "worker-1", "two");
    let second = fixture.receive(&reader("worker-1"), 10, false);
    assert_eq!(contents(&first), ["one"]);
    assert_eq!(contents(&second), ["one", "two"]);
    assert_eq!(
        first.messages[0], second.messages[0],
        "the same message, with the same id"
    );
    assert_eq!(fixture.read_and_ack("worker-1"), ["one", "two"]);
    assert!(fixture.read_and_ack("worker-1").is_empty());
    fixture.tell("lead", "worker-1", "three");
    assert_eq!(fixture.read("worker-1"), ["three"]);
}

pub(super) fn an_acknowledgement_reaches_back_to_the_last_one(fixture: &StoreFixture) {
    let ids: Vec<String> = (0..5)
        .map(|number| {
            let sent = fixture.tell("lead", "worker-1", &format!("number {number}"));
            sent.id().to_owned()
        })
        .collect();
    let ack = |id: &str| {
        let acked = fixture
            .store
            .acknowledge(&fixture.team, &reader("worker-1"), id);
        fixture.step("acknowledge", acked)
    };
    assert_eq!(ack(&ids[2]), 3);
    assert_eq!(fixture.read("worker-1"), ["number 3", "number 4"]);
    let position = fixture.position();
    assert_eq!(ack(&ids[2]), 0, "acknowledging twice is no error");
    assert_eq!(ack(&ids[0]), 0);
    assert_eq!(fixture.position(), position);
    assert_eq!(ack(&ids[4]), 2);
    assert!(fixture.read("worker-1").is_empty());
    fixture.refuse("acknowledge", StoreErrorKind::NotFound, |store| {
        store.acknowledge(&fixture.team, &reader("worker-1"), "no such message")
    });
    let elsewhere = fixture.tell("lead", "worker-2", "not yours");
    fixture.refuse("acknowledge", StoreErrorKind::NotFound, |store| {
        store.acknowledge(&fixture.team, &reader("worker-1"), elsewhere.id())
    });
}

pub(super) fn a_reader_takes_as_much_as_it_wants(fixture: &StoreFixture) {
    for number in 0..7 {
        fixture.tell("lead", "worker-1", &number.to_string());
    }
    let mut got = Vec::new();
    loop {
        let part = contents(&fixture.receive(&reader("worker-1"), 3, true));
        if part.is_empty() {
            break;
        }
        got.push(part.join(" "));
    }
    assert_eq!(got, ["0 1 2", "3 4 5", "6"]);
    assert!(
        contents(&fixture.receive(&reader("worker-1"), 0, true)).is_empty(),
        "who wants nothing gets nothing"
    );
}

pub(super) fn the_lead_reads_every_outbox_and_its_own_inbox(fixture: &StoreFixture) {
    fixture.send("worker-1", Recipient::Lead, "one from 1");
    fixture.send("worker-2", Recipient::Lead, "one from 2");
    fixture.send("user", Recipient::Lead, "from a person");
    fixture.send("worker-1", Recipient::Lead, "two from 1");
    let mut got = contents(&fixture.receive(&Reader::Lead, 100, false));
    let from_first: Vec<&String> = got.iter().filter(|text| text.ends_with("from 1")).collect();
    assert_eq!(from_first, ["one from 1", "two from 1"]);
    got.sort();
    assert_eq!(
        got,
        ["from a person", "one from 1", "one from 2", "two from 1"]
    );
    assert_eq!(
        contents(&fixture.receive(&Reader::Lead, 100, true)).len(),
        4
    );
    assert!(contents(&fixture.receive(&Reader::Lead, 100, false)).is_empty());
    fixture.send("worker-2", Recipient::Lead, "two from 2");
    assert_eq!(
        contents(&fixture.receive(&Reader::Lead, 100, true)),
        ["two from 2"]
    );
    assert!(
        fixture.read("worker-1").is_empty(),
        "an outbox is not its worker's inbox"
    );
}

pub(super) fn a_broadcast_reaches_everyone_but_its_sender(fixture: &StoreFixture) {
    let position = fixture.position();
    let sent = fixture.send("worker-2", Recipient::All, "stand-up");
    let to: Vec<&str> = sent
        .iter()
        .map(teamster_types::message::Message::to)
        .collect();
    assert_eq!(to, ["worker-1", "worker-3"]);
    assert_ne!(sent[0].id(), sent[1].id());
    assert_eq!(fixture.kinds_after(position), ["message.sent"], "one event");
    let event = fixture.events().pop().unwrap_or_else(|| panic!("no event"));
    assert_eq!(event.actor, "worker-2");
    assert_eq!(event.data["to"], "all");
    assert_eq!(event.data["sent"], 2);
    assert_eq!(fixture.read("worker-1"), ["stand-up"]);
    assert_eq!(fixture.read("worker-3"), ["stand-up"]);
    assert!(fixture.read("worker-2").is_empty());
    assert_eq!(
        fixture.send("lead", Recipient::All, "all of you").len(),
        MEMBERS.len()
    );
}

pub(super) fn nobody_writes_into_the_void(fixture: &StoreFixture) {
    for (to, hint) in [("worker-11", "worker-1"), ("wrker-3", "worker-3")] {
        let error = fixture.refuse("send", StoreErrorKind::NotFound, |store| {
            let to = Recipient::Worker(to.to_owned());
            store.send(&fixture.team, &message("lead", to, "hello?"))
        });
        let hints = error.hint.unwrap_or_default();
        assert!(hints.contains(hint), "{hints}");
    }
    for wrong in ["../x", "", "lead", "a b", "-rf"] {
        fixture.refuse("send", StoreErrorKind::NotFound, |store| {
            let to = Recipient::Worker(wrong.to_owned());
            store.send(&fixture.team, &message("lead", to, "hello?"))
        });
    }
    fixture.refuse("receive", StoreErrorKind::NotFound, |store| {
        store.receive(&fixture.team, &reader("worker-11"), 10, true)
    });
    let empty = fixture.new_team("alone", &[]);
    fixture.step("make a team", fixture.store.create_team(&empty, None));
    let nobody = fixture
        .store
        .send(&empty.name, &message("lead", Recipient::All, "hello?"));
    assert_eq!(
        nobody.map_err(|error| error.kind),
        Err(StoreErrorKind::NotFound)
    );
}

pub(super) fn keys_and_types_of_others_survive(fixture: &StoreFixture) {
    let mut outgoing = OutgoingMessage {
        kind: "shutdown_ack".to_owned(),
        ..message("worker-1", Recipient::Lead, "yes")
    };
    outgoing.extra.insert("requestId".to_owned(), json!("r-17"));
    outgoing
        .extra
        .insert("later".to_owned(), json!({"deep": [1, 2.50]}));
    fixture.step("send", fixture.store.send(&fixture.team, &outgoing));
    let got = fixture.receive(&Reader::Lead, 10, true).messages;
    assert_eq!(got[0].kind(), "shutdown_ack");
    assert_eq!(got[0].text("requestId"), "r-17");
    assert_eq!(
        got[0].as_object()["later"].to_string(),
        r#"{"deep":[1,2.5]}"#
    );
}

pub(super) fn content_has_a_limit(fixture: &StoreFixture) {
    let full = "x".repeat(CONTENT_LIMIT);
    fixture.tell("lead", "worker-1", &full);
    assert_eq!(fixture.read_and_ack("worker-1"), [full.as_str()]);
    let error = fixture.refuse("send", StoreErrorKind::Refused, |store| {
        let to = Recipient::Worker("worker-1".to_owned());
        store.send(&fixture.team, &message("lead", to, &format!("{full}x")))
    });
    assert!(error.message.contains("65536"), "{error}");
}

pub(super) fn receipts_tell_what_became_of_a_message(fixture: &StoreFixture) {
    let sent_at = fixture.store.now();
    fixture.tell("lead", "worker-1", "read and acknowledged");
    fixture.tell("lead", "worker-2", "nobody reads it");
    fixture.wait_secs(10);
    let late = fixture.store.now();
    fixture.tell("lead", "worker-1", "read only");
    let delivered_at = fixture.store.now();
    let got = fixture.receive(&reader("worker-1"), 10, false);
    fixture.wait_secs(10);
    fixture.read("worker-1");
    let acked_at = fixture.store.now();
    let acked = fixture
        .store
        .acknowledge(&fixture.team, &reader("worker-1"), got.messages[0].id());
    fixture.step("acknowledge", acked);
    let filed = fixture.step("list", fixture.store.messages(&fixture.team));
    let find = |content: &str| {
        filed
            .iter()
            .find(|filed| filed.message.content() == content)
            .unwrap_or_else(|| panic!("{content} is not listed"))
    };
    let first = find("read and acknowledged");
    assert_eq!(first.mailbox, "inbox/worker-1");
    assert_eq!(first.message.timestamp(), Some(sent_at));
    assert_eq!(
        first.delivered_at,
        Some(delivered_at),
        "the first time counts"
    );
    assert_eq!(first.acked_at, Some(acked_at));
    let second = find("read only");
    assert_eq!(second.delivered_at, Some(delivered_at));
    assert_eq!(second.acked_at, None);
    let third = find("nobody reads it");
    assert_eq!((third.delivered_at, third.acked_at), (None, None));

    let waiting = fixture.step(
        "undelivered",
        fixture.store.undelivered(&fixture.team, late),
    );
    let waiting: Vec<&str> = waiting
        .iter()
        .map(|filed| filed.message.content())
        .collect();
    assert_eq!(waiting, ["nobody reads it"]);
    let none = fixture.step(
        "undelivered",
        fixture.store.undelivered(&fixture.team, sent_at),
    );
    assert!(none.is_empty(), "what was sent just now is not late");
}

pub(super) fn whoever_peeks_has_not_been_told(fixture: &StoreFixture) {
    let peek = |limit| {
        let peeked = fixture
            .store
            .peek(&fixture.team, &reader("worker-1"), limit);
        contents(&fixture.step("peek", peeked))
    };
    assert!(peek(10).is_empty());
    let first = fixture.tell("lead", "worker-1", "one");
    fixture.tell("lead", "worker-1", "two");
    let position = fixture.position();
    assert_eq!(peek(1), ["one"]);
    assert_eq!(peek(10), ["one", "two"]);
    assert_eq!(fixture.position(), position, "nothing is recorded");
    fixture.wait_secs(10);
    let acked_at = fixture.store.now();
    let acked = fixture
        .store
        .acknowledge(&fixture.team, &reader("worker-1"), first.id());
    fixture.step("acknowledge", acked);
    assert_eq!(peek(10), ["two"]);
    let filed = fixture.step("list", fixture.store.messages(&fixture.team));
    let receipts: Vec<_> = filed
        .iter()
        .map(|filed| (filed.delivered_at, filed.acked_at))
        .collect();
    assert_eq!(
        receipts,
        [(Some(acked_at), Some(acked_at)), (None, None)],
        "an acknowledgement says that it was delivered"
    );
}

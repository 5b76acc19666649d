//! Messages: in order, at least once, never again once acknowledged.

use serde_json::json;
use teamster_store::{Kind, Outgoing, Reader, Recipient};
use teamster_types::message::CONTENT_LIMIT;

use super::stage::{MEMBERS, Stage, contents, message, worker};

fn reader(who: &str) -> Reader {
    Reader::Worker(worker(who))
}

pub(super) fn messages_arrive_in_order_for_each_sender(stage: &Stage) {
    let mut sent = Vec::new();
    for number in 0..30 {
        let from = if number % 3 == 0 { "lead" } else { "worker-2" };
        let text = format!("{from} {number}");
        let message = stage.tell(from, "worker-1", &text);
        assert_eq!(message.from(), from);
        assert_eq!(message.to(), "worker-1");
        assert_eq!(message.timestamp(), Some(stage.store.now()));
        sent.push(text);
    }
    assert_eq!(stage.read_and_ack("worker-1"), sent);
    assert!(stage.read("worker-2").is_empty(), "nobody else gets them");
}

pub(super) fn what_is_not_acknowledged_comes_again(stage: &Stage) {
    stage.tell("lead", "worker-1", "one");
    let first = stage.receive(&reader("worker-1"), 10, false);
    stage.tell("lead", "worker-1", "two");
    let second = stage.receive(&reader("worker-1"), 10, false);
    assert_eq!(contents(&first), ["one"]);
    assert_eq!(contents(&second), ["one", "two"]);
    assert_eq!(
        first.messages[0], second.messages[0],
        "the same message, with the same id"
    );
    assert_eq!(stage.read_and_ack("worker-1"), ["one", "two"]);
    assert!(stage.read_and_ack("worker-1").is_empty());
    stage.tell("lead", "worker-1", "three");
    assert_eq!(stage.read("worker-1"), ["three"]);
}

pub(super) fn an_acknowledgement_reaches_back_to_the_last_one(stage: &Stage) {
    let ids: Vec<String> = (0..5)
        .map(|number| {
            let sent = stage.tell("lead", "worker-1", &format!("number {number}"));
            sent.id().to_owned()
        })
        .collect();
    let ack = |id: &str| {
        let acked = stage
            .store
            .acknowledge(&stage.team, &reader("worker-1"), id);
        stage.step("acknowledge", acked)
    };
    assert_eq!(ack(&ids[2]), 3);
    assert_eq!(stage.read("worker-1"), ["number 3", "number 4"]);
    let position = stage.position();
    assert_eq!(ack(&ids[2]), 0, "acknowledging twice is no error");
    assert_eq!(ack(&ids[0]), 0);
    assert_eq!(stage.position(), position);
    assert_eq!(ack(&ids[4]), 2);
    assert!(stage.read("worker-1").is_empty());
    stage.refuse("acknowledge", Kind::NotFound, |store| {
        store.acknowledge(&stage.team, &reader("worker-1"), "no such message")
    });
    let elsewhere = stage.tell("lead", "worker-2", "not yours");
    stage.refuse("acknowledge", Kind::NotFound, |store| {
        store.acknowledge(&stage.team, &reader("worker-1"), elsewhere.id())
    });
}

pub(super) fn a_reader_takes_as_much_as_it_wants(stage: &Stage) {
    for number in 0..7 {
        stage.tell("lead", "worker-1", &number.to_string());
    }
    let mut got = Vec::new();
    loop {
        let part = contents(&stage.receive(&reader("worker-1"), 3, true));
        if part.is_empty() {
            break;
        }
        got.push(part.join(" "));
    }
    assert_eq!(got, ["0 1 2", "3 4 5", "6"]);
    assert!(
        contents(&stage.receive(&reader("worker-1"), 0, true)).is_empty(),
        "who wants nothing gets nothing"
    );
}

pub(super) fn the_lead_reads_every_outbox_and_its_own_inbox(stage: &Stage) {
    stage.send("worker-1", Recipient::Lead, "one from 1");
    stage.send("worker-2", Recipient::Lead, "one from 2");
    stage.send("user", Recipient::Lead, "from a person");
    stage.send("worker-1", Recipient::Lead, "two from 1");
    let mut got = contents(&stage.receive(&Reader::Lead, 100, false));
    let from_first: Vec<&String> = got.iter().filter(|text| text.ends_with("from 1")).collect();
    assert_eq!(from_first, ["one from 1", "two from 1"]);
    got.sort();
    assert_eq!(
        got,
        ["from a person", "one from 1", "one from 2", "two from 1"]
    );
    assert_eq!(contents(&stage.receive(&Reader::Lead, 100, true)).len(), 4);
    assert!(contents(&stage.receive(&Reader::Lead, 100, false)).is_empty());
    stage.send("worker-2", Recipient::Lead, "two from 2");
    assert_eq!(
        contents(&stage.receive(&Reader::Lead, 100, true)),
        ["two from 2"]
    );
    assert!(
        stage.read("worker-1").is_empty(),
        "an outbox is not its worker's inbox"
    );
}

pub(super) fn a_broadcast_reaches_everyone_but_its_sender(stage: &Stage) {
    let position = stage.position();
    let sent = stage.send("worker-2", Recipient::All, "stand-up");
    let to: Vec<&str> = sent
        .iter()
        .map(teamster_types::message::Message::to)
        .collect();
    assert_eq!(to, ["worker-1", "worker-3"]);
    assert_ne!(sent[0].id(), sent[1].id());
    assert_eq!(stage.kinds_after(position), ["message.sent"], "one event");
    let event = stage.events().pop().unwrap_or_else(|| panic!("no event"));
    assert_eq!(event.actor, "worker-2");
    assert_eq!(event.data["to"], "all");
    assert_eq!(event.data["sent"], 2);
    assert_eq!(stage.read("worker-1"), ["stand-up"]);
    assert_eq!(stage.read("worker-3"), ["stand-up"]);
    assert!(stage.read("worker-2").is_empty());
    assert_eq!(
        stage.send("lead", Recipient::All, "all of you").len(),
        MEMBERS.len()
    );
}

pub(super) fn nobody_writes_into_the_void(stage: &Stage) {
    for (to, hint) in [("worker-11", "worker-1"), ("wrker-3", "worker-3")] {
        let error = stage.refuse("send", Kind::NotFound, |store| {
            let to = Recipient::Worker(to.to_owned());
            store.send(&stage.team, &message("lead", to, "hello?"))
        });
        let hints = error.hint.unwrap_or_default();
        assert!(hints.contains(hint), "{hints}");
    }
    for wrong in ["../x", "", "lead", "a b", "-rf"] {
        stage.refuse("send", Kind::NotFound, |store| {
            let to = Recipient::Worker(wrong.to_owned());
            store.send(&stage.team, &message("lead", to, "hello?"))
        });
    }
    stage.refuse("receive", Kind::NotFound, |store| {
        store.receive(&stage.team, &reader("worker-11"), 10, true)
    });
    let empty = stage.new_team("alone", &[]);
    stage.step("make a team", stage.store.create_team(&empty, None));
    let nobody = stage
        .store
        .send(&empty.name, &message("lead", Recipient::All, "hello?"));
    assert_eq!(nobody.map_err(|error| error.kind), Err(Kind::NotFound));
}

pub(super) fn keys_and_types_of_others_survive(stage: &Stage) {
    let mut outgoing = Outgoing {
        kind: "shutdown_ack".to_owned(),
        ..message("worker-1", Recipient::Lead, "yes")
    };
    outgoing.extra.insert("requestId".to_owned(), json!("r-17"));
    outgoing
        .extra
        .insert("later".to_owned(), json!({"deep": [1, 2.50]}));
    stage.step("send", stage.store.send(&stage.team, &outgoing));
    let got = stage.receive(&Reader::Lead, 10, true).messages;
    assert_eq!(got[0].kind(), "shutdown_ack");
    assert_eq!(got[0].text("requestId"), "r-17");
    assert_eq!(
        got[0].as_object()["later"].to_string(),
        r#"{"deep":[1,2.5]}"#
    );
}

pub(super) fn content_has_a_limit(stage: &Stage) {
    let full = "x".repeat(CONTENT_LIMIT);
    stage.tell("lead", "worker-1", &full);
    assert_eq!(stage.read_and_ack("worker-1"), [full.as_str()]);
    let error = stage.refuse("send", Kind::Refused, |store| {
        let to = Recipient::Worker("worker-1".to_owned());
        store.send(&stage.team, &message("lead", to, &format!("{full}x")))
    });
    assert!(error.message.contains("65536"), "{error}");
}

pub(super) fn receipts_tell_what_became_of_a_message(stage: &Stage) {
    let sent_at = stage.store.now();
    stage.tell("lead", "worker-1", "read and acknowledged");
    stage.tell("lead", "worker-2", "nobody reads it");
    stage.wait_secs(10);
    let late = stage.store.now();
    stage.tell("lead", "worker-1", "read only");
    let delivered_at = stage.store.now();
    let got = stage.receive(&reader("worker-1"), 10, false);
    stage.wait_secs(10);
    stage.read("worker-1");
    let acked_at = stage.store.now();
    let acked = stage
        .store
        .acknowledge(&stage.team, &reader("worker-1"), got.messages[0].id());
    stage.step("acknowledge", acked);
    let filed = stage.step("list", stage.store.messages(&stage.team));
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

    let waiting = stage.step("undelivered", stage.store.undelivered(&stage.team, late));
    let waiting: Vec<&str> = waiting
        .iter()
        .map(|filed| filed.message.content())
        .collect();
    assert_eq!(waiting, ["nobody reads it"]);
    let none = stage.step("undelivered", stage.store.undelivered(&stage.team, sent_at));
    assert!(none.is_empty(), "what was sent just now is not late");
}

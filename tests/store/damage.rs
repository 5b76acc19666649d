//! Files that other programs wrote, damaged or lost.

use serde_json::{Value, json};
use teamster_journal::{EventActor, LINE_LIMIT};
use teamster_store::{OutgoingMessage, ReadStore, Reader, Store, StoreErrorKind};
use teamster_types::message::Message;
use teamster_types::task::{NewTask, Status};

use super::{FileTeam, id, message};

#[test]
fn a_damaged_task_is_reported_by_name_and_hides_no_other() {
    let crew = FileTeam::new("damaged-tasks");
    let good = std::fs::read({
        crew.create("the pattern");
        crew.in_tasks("1.json")
    })
    .unwrap();
    let damaged: &[(&str, &[u8])] = &[
        ("2.json", b""),
        ("3.json", &good[..good.len() / 2]),
        ("4.json", b"[]"),
        (
            "5.json",
            b"{\"id\":\"6\",\"subject\":\"x\",\"status\":\"pending\"}",
        ),
        ("6.json", b"{\"id\":\"6\",\"subject\":\"x\"}"),
        (
            "7.json",
            b"{\"id\":\"7\",\"subject\":\"x\",\"status\":\"done\"}",
        ),
        ("8.json", b"\xff\xfe\x00\x01"),
        (
            "9.json",
            b"{\"id\":\"9\",\"subject\":\"x\",\"status\":\"pending\",\"blockedBy\":[\"../1\"]}",
        ),
    ];
    for (name, bytes) in damaged {
        std::fs::write(crew.in_tasks(name), bytes).unwrap();
    }
    let tenth = crew.create("after the damage");
    assert_eq!(tenth, id(10), "ids of damaged files are not handed out");
    let list = crew.store.tasks(&crew.team).unwrap();
    let reported: Vec<&str> = list.problems.iter().map(|damaged| &*damaged.file).collect();
    let names: Vec<&str> = damaged.iter().map(|(name, _)| *name).collect();
    assert_eq!(reported, names);
    assert!(
        list.problems
            .iter()
            .all(|damaged| !damaged.error.is_empty())
    );
    assert_eq!(list.tasks.len(), 2);
    let (progress, problems) = crew.store.progress(&crew.team).unwrap();
    assert_eq!((progress.total_tasks, problems.len()), (2, damaged.len()));

    assert_eq!(crew.must_claim("ada").task.id(), &id(1));
    assert_eq!(crew.must_claim("ada").task.id(), &tenth);
    assert!(crew.claim("ada", None).unwrap().is_none());
    let error = crew.claim("ada", Some(&id(3))).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Failed);
    assert!(error.message.contains("3.json"), "{error}");
    for (name, bytes) in damaged {
        let now = std::fs::read(crew.in_tasks(name)).unwrap();
        assert_eq!(now, *bytes, "{name} is left as it is");
    }

    let mended = String::from_utf8(good).unwrap().replace("\"1\"", "\"3\"");
    std::fs::write(crew.in_tasks("3.json"), mended).unwrap();
    assert_eq!(crew.must_claim("bob").task.id(), &id(3), "once it is whole");
}

#[test]
fn what_others_wrote_keeps_its_keys_its_order_and_its_digits() {
    let crew = FileTeam::new("foreign-keys");
    crew.create("ours");
    let foreign = r#"{
  "zeta": 18446744073709551616,
  "status": "pending",
  "blockedBy": [],
  "metadata": {
    "b": 1.50,
    "a": [
      null,
      1e+400
    ],
    "teamster": {
      "future": {
        "z": 0.10
      }
    }
  },
  "subject": "theirs",
  "alpha": {
    "y": "\u0000 ünd",
    "x": -0.0
  },
  "id": "2",
  "blocks": []
}"#;
    std::fs::write(crew.in_tasks("2.json"), foreign).unwrap();
    let keys = |text: &str| -> Vec<String> {
        let value: Value = serde_json::from_str(text).unwrap();
        value.as_object().unwrap().keys().cloned().collect()
    };
    let read = || std::fs::read_to_string(crew.in_tasks("2.json")).unwrap();
    let claimed = crew.claim("ada", Some(&id(2))).unwrap().unwrap();
    let (team, token) = (&crew.team, &claimed.token);
    crew.store.renew(team, &id(2), token, None).unwrap();
    let new = NewTask {
        subject: "waits for it".to_owned(),
        blocked_by: vec![id(2)],
        ..NewTask::default()
    };
    crew.store
        .create_task(team, &EventActor::Lead, &new)
        .unwrap();
    let result = Some(json!({"done": true}));
    crew.store.complete(team, &id(2), token, result).unwrap();
    let after = read();
    let mut expected = keys(foreign);
    expected.push("owner".to_owned());
    assert_eq!(keys(&after), expected, "ours come last");
    for kept in [
        "\"zeta\": 18446744073709551616",
        "\"b\": 1.50",
        "1e+400",
        "\"z\": 0.10",
        "\"x\": -0.0",
        "\"y\": \"\\u0000 ünd\"",
    ] {
        assert!(after.contains(kept), "{kept} is not in {after}");
    }
    crew.notice().unwrap();
    crew.check_journal();
}

#[test]
fn an_index_that_is_lost_cut_or_scribbled_over_is_made_anew() {
    let crew = FileTeam::new("index");
    for number in 1..=30 {
        crew.create(&format!("number {number}"));
    }
    let whole = std::fs::read(crew.in_tasks(".teamster.index")).unwrap();
    let mut damages: Vec<Option<Vec<u8>>> = vec![None, Some(Vec::new())];
    for length in [1, 7, 100, 128, 129, 200, whole.len() / 2, whole.len() - 1] {
        damages.push(Some(whole[..length].to_vec()));
    }
    for byte in [0, 8, 16, 24, 40, 90, 127] {
        let mut scribbled = whole.clone();
        scribbled[byte] ^= 0xff;
        damages.push(Some(scribbled));
    }
    damages.push(Some(vec![0xff; whole.len()]));
    damages.push(Some(vec![0; whole.len()]));
    for (given, damage) in (1..).zip(&damages) {
        match damage {
            None => std::fs::remove_file(crew.in_tasks(".teamster.index")).unwrap(),
            Some(bytes) => std::fs::write(crew.in_tasks(".teamster.index"), bytes).unwrap(),
        }
        let (progress, _) = crew.store.progress(&crew.team).unwrap();
        assert_eq!(progress.completed_tasks, given - 1, "{damage:?}");
        let claimed = crew.must_claim("ada");
        assert_eq!(claimed.task.id(), &id(given as u64), "{damage:?}");
        crew.complete(&claimed);
    }
    crew.check_journal();
    let foreign = crew.store.events(&crew.team, 1, usize::MAX).unwrap().events;
    assert!(foreign.iter().all(|event| event.actor != "foreign"));
}

#[test]
fn the_high_water_mark_of_others_is_honoured() {
    let crew = FileTeam::new("mark");
    crew.create("first");
    std::fs::write(crew.in_tasks(".highwatermark"), "41\n").unwrap();
    assert_eq!(crew.create("second"), id(42));
    std::fs::write(crew.in_tasks(".highwatermark"), "7").unwrap();
    assert_eq!(crew.create("third"), id(43), "a lower one changes nothing");
    std::fs::write(crew.in_tasks(".highwatermark"), "many").unwrap();
    assert_eq!(crew.create("fourth"), id(44));
    crew.store
        .delete_task(&crew.team, &EventActor::Lead, &id(44))
        .unwrap();
    let mark = std::fs::read_to_string(crew.in_tasks(".highwatermark")).unwrap();
    assert_eq!(mark, "44", "others must not use it again either");
}

#[test]
fn a_huge_id_of_others_uses_up_no_ids() {
    let crew = FileTeam::new("huge");
    crew.create("first");
    let plant = |id: &str| {
        let task = json!({"id": id, "subject": "theirs", "status": "pending", "blocks": [], "blockedBy": []});
        std::fs::write(crew.in_tasks(&format!("{id}.json")), task.to_string()).unwrap();
    };
    plant("18446744073709551615");
    assert_eq!(crew.create("second"), id(2));
    plant("99999999999999999999");
    plant("007");
    plant("100000000000000000000");
    assert_eq!(crew.create("third"), id(8));
    let order: Vec<String> = std::iter::from_fn(|| crew.claim("ada", None).unwrap())
        .map(|claimed| {
            crew.complete(&claimed);
            claimed.task.id().to_string()
        })
        .collect();
    let expected = [
        "1",
        "2",
        "007",
        "8",
        "18446744073709551615",
        "99999999999999999999",
    ];
    assert_eq!(order, expected, "by number, and 21 digits are no id");
}

#[test]
fn a_torn_last_line_of_the_journal_is_cut_off() {
    let crew = FileTeam::new("torn-journal");
    crew.create("first");
    let journal = crew.in_team("events.jsonl");
    let whole = std::fs::read(&journal).unwrap();
    for torn in [&b"{\"seq\":3,\"id\":"[..], b"x", b"{}"] {
        std::fs::write(&journal, [&whole[..], torn].concat()).unwrap();
        let page = crew.store.events(&crew.team, 1, 10).unwrap();
        assert_eq!(page.events.len(), 2, "readers do not see it");
        assert_eq!(crew.store.position(&crew.team).unwrap(), 2);
        crew.notice().unwrap();
        let mended = std::fs::read(&journal).unwrap();
        assert_eq!(mended, whole, "the next writer cuts it off");
    }
    crew.create("second");
    crew.check_journal();
}

#[test]
fn no_position_is_given_twice_after_a_line_that_another_program_wrote() {
    let crew = FileTeam::new("foreign-line");
    crew.create("first");
    let journal = crew.in_team("events.jsonl");
    let whole = std::fs::read_to_string(&journal).unwrap();
    let first = whole.lines().next().unwrap();
    assert!(first.contains("\"seq\":1,"));
    for seq in ["1", "18446744073709551615"] {
        let foreign = first.replacen("\"seq\":1,", &format!("\"seq\":{seq},"), 1);
        std::fs::write(&journal, format!("{whole}{foreign}\n")).unwrap();
        assert_eq!(crew.store.position(&crew.team).unwrap(), 2, "after {seq}");
        crew.create("second");
        assert_eq!(crew.store.position(&crew.team).unwrap(), 3, "after {seq}");
        let last = crew.store.last_events(&crew.team, 1).unwrap().events;
        assert_eq!((last[0].seq, last[0].kind.as_str()), (3, "task.created"));
    }
}

#[test]
fn a_commit_of_several_events_counts_only_with_its_last_one() {
    let crew = FileTeam::new("torn-commit");
    let plan = [0, 1, 2].map(|_| teamster_store::PlannedTask {
        task: NewTask {
            subject: "planned".to_owned(),
            ..NewTask::default()
        },
        after: Vec::new(),
    });
    let journal = crew.in_team("events.jsonl");
    let before = std::fs::read(&journal).unwrap();
    crew.store
        .import_tasks(&crew.team, &EventActor::Lead, &plan)
        .unwrap();
    let after = std::fs::read(&journal).unwrap();
    let first_line = after[before.len()..]
        .iter()
        .position(|byte| *byte == b'\n')
        .unwrap();
    let half = &after[..=before.len() + first_line];
    std::fs::write(&journal, half).unwrap();
    // Only a power failure loses written data; it loses the cache as well.
    std::fs::remove_file(crew.in_tasks(".teamster.index")).unwrap();
    let page = crew.store.events(&crew.team, 1, 10).unwrap();
    assert_eq!(page.events.len(), 1, "half a commit is none");
    assert_eq!(crew.store.position(&crew.team).unwrap(), 1);
    crew.notice().unwrap();
    assert!(std::fs::read(&journal).unwrap().starts_with(&before));
    crew.check_journal();
}

#[test]
fn a_damaged_line_in_the_middle_is_reported_and_hides_no_later_one() {
    let crew = FileTeam::new("damaged-journal");
    for number in 0..5 {
        crew.create(&format!("number {number}"));
    }
    let journal = crew.in_team("events.jsonl");
    let text = std::fs::read_to_string(&journal).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines[2] = "x".repeat(lines[2].len());
    std::fs::write(&journal, lines.join("\n") + "\n").unwrap();
    let page = crew.store.events(&crew.team, 1, 100).unwrap();
    let positions: Vec<u64> = page.events.iter().map(|event| event.seq).collect();
    assert_eq!(positions, [1, 2, 4, 5, 6]);
    assert_eq!(page.damaged.len(), 1);
    let place = lines[0].len() + lines[1].len() + 2;
    let damaged = &page.damaged[0];
    assert_eq!(damaged.file, format!("events.jsonl at byte {place}"));
    crew.create("after the damage");
    assert_eq!(crew.store.position(&crew.team).unwrap(), 7);
    let last = crew.store.last_events(&crew.team, 2).unwrap().events;
    assert_eq!(
        last.iter().map(|event| event.seq).collect::<Vec<_>>(),
        [6, 7]
    );
}

#[test]
fn long_texts_lie_beside_the_journal_and_no_line_is_longer_than_it_may_be() {
    let crew = FileTeam::new("blobs");
    let text = "a line of text\n".repeat(600);
    let new = NewTask {
        subject: "long".to_owned(),
        description: text.clone(),
        paths: (0..900).map(|number| format!("src/{number}.rs")).collect(),
        ..NewTask::default()
    };
    crew.store
        .create_task(&crew.team, &EventActor::Lead, &new)
        .unwrap();
    crew.tell("ada", &"m".repeat(64 * 1024)).unwrap();
    let journal = std::fs::read_to_string(crew.in_team("events.jsonl")).unwrap();
    for line in journal.lines() {
        assert!(line.len() < LINE_LIMIT, "a line of {} bytes", line.len());
    }
    crew.check_journal();
    let blobs: Vec<_> = std::fs::read_dir(crew.in_team("blobs")).unwrap().collect();
    assert!(!blobs.is_empty());
    for blob in blobs {
        std::fs::remove_file(blob.unwrap().path()).unwrap();
    }
    let page = crew.store.events(&crew.team, 1, 100).unwrap();
    assert_eq!(page.events.len(), 3, "a lost text loses no event");
}

#[test]
fn a_line_that_is_no_message_is_skipped_counted_and_told_once() {
    let crew = FileTeam::new("malformed");
    crew.tell("ada", "one").unwrap();
    let inbox = crew.in_team("inbox/ada.jsonl");
    let mut text = std::fs::read_to_string(&inbox).unwrap();
    text.push_str(
        "not json\n\n[1]\n{\"id\":\"x\",\"from\":\"lead\",\"content\":\"two\",\"later\":1}\n",
    );
    std::fs::write(&inbox, text).unwrap();
    crew.tell("ada", "three").unwrap();
    let reader = Reader::Worker("ada".parse().unwrap());
    for _ in 0..2 {
        let got = crew.store.receive(&crew.team, &reader, 10, false).unwrap();
        let contents: Vec<&str> = got.messages.iter().map(Message::content).collect();
        assert_eq!(contents, ["one", "two", "three"]);
        assert_eq!(got.skipped, 2);
        assert_eq!(got.messages[1].as_object()["later"], 1);
    }
    let events = crew.store.events(&crew.team, 1, 100).unwrap().events;
    let told = events
        .iter()
        .filter(|event| event.kind == "message.malformed");
    assert_eq!(told.count(), 2, "each is told once");
    assert_eq!(crew.read("ada", true).unwrap().len(), 3);
    assert!(crew.read("ada", true).unwrap().is_empty());
}

#[test]
fn line_that_is_no_message_is_told_once_however_the_mail_is_read() {
    let crew = FileTeam::new("malformed-peek");
    let inbox = crew.in_team("inbox/ada.jsonl");
    crew.tell("ada", "one").unwrap();
    let reader = Reader::Worker("ada".parse().unwrap());
    let peek = || {
        let got = crew.store.peek(&crew.team, &reader, 10).unwrap();
        let contents = got
            .messages
            .iter()
            .map(|message| message.content().to_owned());
        (contents.collect::<Vec<_>>(), got.skipped)
    };
    let told = || {
        let events = crew.store.events(&crew.team, 1, 100).unwrap().events;
        let told = events.iter();
        told.filter(|event| event.kind == "message.malformed")
            .count()
    };
    let add = |line: &str| {
        let text = std::fs::read_to_string(&inbox).unwrap();
        std::fs::write(&inbox, text + line).unwrap();
    };
    add("not json\n");
    for _ in 0..2 {
        assert_eq!((peek(), told()), ((vec!["one".to_owned()], 1), 0));
    }
    let id = crew.store.peek(&crew.team, &reader, 1).unwrap().messages[0]
        .id()
        .to_owned();
    crew.store.acknowledge(&crew.team, &reader, &id).unwrap();
    for _ in 0..2 {
        assert_eq!(
            (peek(), told()),
            ((Vec::new(), 1), 1),
            "no message lies before it now"
        );
    }
    crew.tell("ada", "two").unwrap();
    add("[1]\n");
    crew.tell("ada", "three").unwrap();
    assert_eq!((peek().1, told()), (2, 1));
    let last = crew.store.peek(&crew.team, &reader, 10).unwrap().messages[1]
        .id()
        .to_owned();
    crew.store.acknowledge(&crew.team, &reader, &last).unwrap();
    assert_eq!((peek(), told()), ((Vec::new(), 0), 2));
}

#[test]
fn a_torn_message_is_cut_off_before_the_next_one() {
    let crew = FileTeam::new("torn-inbox");
    crew.tell("ada", "one").unwrap();
    let inbox = crew.in_team("inbox/ada.jsonl");
    let whole = std::fs::read(&inbox).unwrap();
    std::fs::write(&inbox, [&whole[..], b"{\"id\":\"half"].concat()).unwrap();
    assert_eq!(crew.read("ada", false).unwrap(), ["one"]);
    crew.tell("ada", "two").unwrap();
    assert_eq!(crew.read("ada", true).unwrap(), ["one", "two"]);
}

#[test]
fn a_cursor_that_is_damaged_or_too_far_repeats_rather_than_loses() {
    let crew = FileTeam::new("cursor");
    crew.tell("ada", "one").unwrap();
    crew.read("ada", true).unwrap();
    crew.tell("ada", "two").unwrap();
    let far = "{\"bytesRead\":99999999}";
    let strange = "{\"segment\":77,\"bytesRead\":3,\"later\":true}";
    for cursor in ["", "garbage", "[]", far, strange] {
        std::fs::write(crew.in_team("inbox/ada.offset"), cursor).unwrap();
        let got = crew.read("ada", false).unwrap();
        assert!(got.contains(&"two".to_owned()), "{cursor:?}: {got:?}");
    }
}

/// Messages for a native teammate go into its client's own file, beside the client's messages.
#[test]
fn a_native_teammate_gets_plain_messages_in_its_own_inbox() {
    let crew = FileTeam::new("native");
    let file = crew.in_team("config.json");
    let mut config: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    config["members"][1]["backendType"] = json!("claude-native");
    std::fs::write(&file, config.to_string()).unwrap();
    std::fs::create_dir(crew.in_team("inboxes")).unwrap();
    let theirs =
        json!([{"from": "team-lead", "text": "theirs", "timestamp": "t", "lead_sig": "s"}]);
    std::fs::write(crew.in_team("inboxes/bob.json"), theirs.to_string()).unwrap();
    crew.tell("bob", "ours").unwrap();
    let all = OutgoingMessage {
        to: teamster_store::Recipient::All,
        ..message("", "to all")
    };
    assert_eq!(crew.store.send(&crew.team, &all).unwrap().len(), 2);
    let bytes = std::fs::read(crew.in_team("inboxes/bob.json")).unwrap();
    let entries: Vec<Value> = serde_json::from_slice(&bytes).unwrap();
    let texts: Vec<&str> = entries
        .iter()
        .map(|e| e["text"].as_str().unwrap())
        .collect();
    assert_eq!(texts, ["theirs", "ours", "to all"]);
    assert_eq!(entries[0]["lead_sig"], "s");
    assert_eq!(crew.read("ada", true).unwrap(), ["to all"]);
    let events = crew.store.events(&crew.team, 1, 100).unwrap().events;
    let sent = events.iter().filter(|event| event.kind == "message.sent");
    assert_eq!(sent.count(), 2, "one event for all");
    crew.check_journal();
}

#[test]
fn a_change_of_others_is_told_even_if_our_own_is_refused() {
    let crew = FileTeam::new("refused");
    crew.create("first");
    let claimed = crew.must_claim("ada");
    let file = crew.in_tasks("1.json");
    let mut task: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    task["owner"] = json!("somebody-else");
    std::fs::write(&file, task.to_string()).unwrap();
    let stale = crew
        .store
        .complete(&crew.team, &id(1), &claimed.token, None)
        .unwrap_err();
    assert_eq!(stale.kind, StoreErrorKind::Conflict);
    crew.notice().unwrap();
    let events = crew.store.events(&crew.team, 1, 100).unwrap().events;
    let foreign: Vec<_> = events.iter().filter(|e| e.actor == "foreign").collect();
    assert_eq!(foreign.len(), 1, "it is told once: {foreign:?}");
    crew.notice().unwrap();
    crew.check_journal();
    assert_eq!(
        crew.store.task(&crew.team, &id(1)).unwrap().status(),
        Status::InProgress
    );
}

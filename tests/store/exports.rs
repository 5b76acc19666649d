//! Moving a team from one file store to another: damaged, killed, raced.

use teamster_fs::fail;
use teamster_journal::EventActor;
use teamster_store::{
    FileStore, ReadStore as _, Recipient, Result, Signal, Store as _, StoreError, StoreErrorKind,
    TeamExport,
};
use teamster_testkit::scratch::{Scratch, stopped_clock};

use super::{FileTeam, PATIENCE, leftovers, message};

/// Creates a team with a bit of everything, and returns it with its export.
fn crew(name: &str) -> (FileTeam, Vec<u8>) {
    let crew = FileTeam::new(name);
    for subject in ["first", "second", "third"] {
        crew.create(subject);
    }
    let done = crew.must_claim("ada");
    crew.complete(&done);
    let failed = crew.must_claim("ada");
    let (id, token) = (failed.task.id(), &failed.token);
    crew.store.fail(&crew.team, id, token, "no disk").unwrap();
    for content in ["one", "two"] {
        crew.tell("ada", content).unwrap();
    }
    let mut to_lead = message("ada", "done");
    "ada".clone_into(&mut to_lead.from);
    to_lead.to = Recipient::Lead;
    crew.store.send(&crew.team, &to_lead).unwrap();
    crew.read("ada", true).unwrap();
    crew.tell("ada", "three").unwrap();
    let signal = Signal {
        request_id: "r".to_owned(),
        reason: "enough".to_owned(),
        timestamp: crew.store.now(),
        drain: false,
    };
    crew.store
        .signal(
            &crew.team,
            &EventActor::Lead,
            &"bob".parse().unwrap(),
            &signal,
        )
        .unwrap();
    let lines = lines_of(&crew.store);
    (crew, lines)
}

fn lines_of(store: &FileStore) -> Vec<u8> {
    let team = "crew".parse().unwrap();
    store.export_team(&team).unwrap().0.to_lines()
}

/// Creates an empty store in a separate folder.
fn elsewhere(name: &str) -> (FileStore, Scratch) {
    let scratch = Scratch::new(name);
    (scratch.store(stopped_clock(), PATIENCE), scratch)
}

fn import(store: &FileStore, lines: &[u8]) -> Result<()> {
    store.import_team(&TeamExport::from_lines(lines)?)
}

fn refused(lines: &[u8]) -> StoreError {
    match TeamExport::from_lines(lines) {
        Err(error) => error,
        Ok(_) => panic!("it was taken: {}", String::from_utf8_lossy(lines)),
    }
}

#[test]
fn import_killed_before_any_file_operation_made_the_team_or_left_nothing_to_see() {
    let (_crew, lines) = crew("import-killed");
    let export = TeamExport::from_lines(&lines).unwrap();
    let mut seen = [0, 0];
    for steps in 0.. {
        let (store, scratch) = elsewhere("import-killed");
        fail::die_after(steps);
        let made = store.import_team(&export);
        let died = fail::revive();
        let next = scratch.store(stopped_clock(), PATIENCE);
        let is_there = next.team(&export.team).is_ok();
        seen[usize::from(is_there)] += 1;
        assert!(
            is_there || made.is_err(),
            "step {steps}: it was said to be made"
        );
        if !is_there {
            assert_eq!(next.teams().unwrap(), [], "step {steps}");
            let error = next.tasks(&export.team).unwrap_err();
            assert_eq!(
                error.kind,
                StoreErrorKind::NotFound,
                "step {steps}: {error}"
            );
            // The next import is not blocked, here by the same process.
            next.import_team(&export).unwrap();
        }
        assert_eq!(lines_of(&next), lines, "step {steps}");
        let task = next.create_task(
            &export.team,
            &EventActor::Lead,
            &teamster_types::task::NewTask {
                subject: "next".to_owned(),
                ..Default::default()
            },
        );
        assert_eq!(task.unwrap().id().as_str(), "4", "step {steps}");
        if !died {
            made.unwrap();
            assert_eq!(leftovers(&scratch.layout().claude), [""; 0]);
            break;
        }
    }
    assert!(seen[0] > 20 && seen[1] > 1, "{seen:?}");
}

#[test]
fn team_can_be_made_anew_where_an_import_was_killed() {
    let (_crew, lines) = crew("import-then-create");
    let export = TeamExport::from_lines(&lines).unwrap();
    for steps in 0.. {
        let (store, scratch) = elsewhere("import-then-create");
        fail::die_after(steps);
        let _ = store.import_team(&export);
        let died = fail::revive();
        let next = scratch.store(stopped_clock(), PATIENCE);
        if next.team(&export.team).is_err() {
            let new = teamster_types::team::NewTeam {
                name: export.team.clone(),
                description: String::new(),
                project: scratch.project().display().to_string(),
                members: Vec::new(),
                run: None,
            };
            next.create_team(&new, None).unwrap();
            let tasks = next.tasks(&export.team).unwrap().tasks;
            assert_eq!(tasks, [], "step {steps}: tasks of the import came along");
        }
        if !died {
            break;
        }
    }
}

#[test]
fn two_imports_at_once_make_one_team() {
    let (_crew, lines) = crew("imports-at-once");
    let export = TeamExport::from_lines(&lines).unwrap();
    for _ in 0..10 {
        let (_, scratch) = elsewhere("imports-at-once");
        let made = std::thread::scope(|scope| {
            let both = [(); 2].map(|()| {
                let store = scratch.store(stopped_clock(), PATIENCE);
                let export = &export;
                scope.spawn(move || store.import_team(export))
            });
            both.map(|thread| thread.join().unwrap())
        });
        let errors: Vec<&StoreError> = made.iter().filter_map(|made| made.as_ref().err()).collect();
        assert_eq!(errors.len(), 1, "{made:?}");
        assert_eq!(errors[0].kind, StoreErrorKind::Conflict);
        assert_eq!(errors[0].message, "there is a team crew already");
        let store = scratch.store(stopped_clock(), PATIENCE);
        assert_eq!(lines_of(&store), lines);
        assert_eq!(leftovers(&scratch.layout().claude), [""; 0]);
    }
}

#[test]
fn imported_team_is_used_as_it_was_and_nobody_is_called_foreign() {
    let (crew, lines) = crew("import-used");
    let (store, scratch) = elsewhere("import-used");
    import(&store, &lines).unwrap();
    assert_eq!(
        store.position(&crew.team).unwrap(),
        crew.store.position(&crew.team).unwrap()
    );
    let imported = FileTeam {
        store,
        clock: stopped_clock(),
        team: crew.team.clone(),
        scratch,
    };
    assert_eq!(imported.read("ada", false).unwrap(), ["three"]);
    let claimed = imported.must_claim("bob");
    assert_eq!(claimed.task.id().as_str(), "3");
    let events = imported
        .store
        .events(&crew.team, 1, usize::MAX)
        .unwrap()
        .events;
    let foreign = |event: &&teamster_journal::Event| event.actor == EventActor::Foreign;
    assert_eq!(events.iter().find(foreign), None);
    for (place, event) in (1..).zip(&events) {
        assert_eq!(event.seq, place);
    }
}

#[test]
fn lines_that_are_no_messages_and_rotated_mailboxes_are_carried() {
    let crew = FileTeam::new("export-mail");
    let long = "x".repeat(60_000);
    for number in 0..40 {
        crew.tell("ada", &format!("{number} {long}")).unwrap();
    }
    assert!(crew.in_team("inbox/ada.1.jsonl").exists(), "it has rotated");
    let inbox = crew.in_team("inbox/ada.jsonl");
    let mut bytes = std::fs::read(&inbox).unwrap();
    bytes.extend(b"\n{\"torn\xff\0\n{\"content\":\"by another program\"}\n");
    std::fs::write(&inbox, bytes).unwrap();
    let reader = teamster_store::Reader::Worker("ada".parse().unwrap());
    crew.store.receive(&crew.team, &reader, 25, true).unwrap();
    crew.store.receive(&crew.team, &reader, 5, false).unwrap();
    let before = crew.store.messages(&crew.team).unwrap();
    let lines = lines_of(&crew.store);
    let (store, _scratch) = elsewhere("export-mail");
    import(&store, &lines).unwrap();
    assert_eq!(lines_of(&store), lines);
    assert_eq!(store.messages(&crew.team).unwrap(), before);
    let rest = store.receive(&crew.team, &reader, 1_000, false).unwrap();
    assert_eq!((rest.messages.len(), rest.skipped), (16, 1));
}

#[test]
fn damaged_export_is_refused_by_the_number_of_its_line() {
    let (_crew, lines) = crew("export-damaged");
    let text = String::from_utf8(lines.clone()).unwrap();
    let all: Vec<&str> = text.lines().collect();
    let joined = |lines: &[&str]| {
        let mut text = lines.join("\n");
        text.push('\n');
        text.into_bytes()
    };
    let with = |place: usize, line: &str| {
        let mut changed = all.clone();
        changed[place] = line;
        joined(&changed)
    };
    let event = all
        .iter()
        .position(|line| line.contains("\"event\""))
        .unwrap();
    let swapped = {
        let mut changed = all.clone();
        changed.swap(event, event + 1);
        joined(&changed)
    };
    let renamed = all[2].replace("first", "other");
    let working = all[2].replace("\"completed\"", "\"in_progress\"");
    let half = &text.as_bytes()[..text.len() / 2];
    let cases: [(&str, Vec<u8>, String); 9] = [
        ("no JSON", with(3, "{\"task\""), "line 4 ".into()),
        (
            "an unknown line",
            with(4, "{\"colour\":1}"),
            "line 5 ".into(),
        ),
        (
            "a line that is twice there",
            with(3, all[2]),
            "line 4 ".into(),
        ),
        (
            "no id",
            with(3, "{\"task\":\"../x\",\"content\":{}}"),
            "line 4 ".into(),
        ),
        (
            "events in another order",
            swapped,
            format!("line {} ", event + 2),
        ),
        ("a claim", with(2, &working), "line 3 ".into()),
        (
            "another subject",
            with(2, &renamed),
            format!("line {} ", all.len()),
        ),
        (
            "a missing line",
            joined(&[&all[..3], &all[4..]].concat()),
            format!("line {} ", all.len() - 1),
        ),
        (
            "no end",
            joined(&all[..all.len() - 1]),
            format!("line {} ", all.len()),
        ),
    ];
    for (what, lines, says) in cases {
        let error = refused(&lines);
        assert_eq!(error.kind, StoreErrorKind::Failed, "{what}: {error}");
        assert!(error.message.starts_with(&says), "{what}: {error}");
    }
    assert_eq!(refused(half).kind, StoreErrorKind::Failed);
    assert_eq!(refused(b"").kind, StoreErrorKind::Failed);
    assert_eq!(refused(b"hello\n").kind, StoreErrorKind::Failed);
    let newer = text.replacen("\"teamsterExport\":1", "\"teamsterExport\":2", 1);
    let error = refused(newer.as_bytes());
    assert_eq!(error.kind, StoreErrorKind::Refused);
    assert!(error.message.contains("version 2"), "{error}");
    assert!(error.message.contains("this one supports 1"), "{error}");
    assert!(TeamExport::from_lines(&lines).is_ok());
}

#[test]
fn any_byte_that_is_changed_is_noticed() {
    let (_crew, lines) = crew("export-bytes");
    let mut places: Vec<usize> = (0..lines.len()).step_by(97).collect();
    places.push(lines.len() - 1);
    for place in places {
        let mut changed = lines.clone();
        changed[place] ^= 1;
        assert!(TeamExport::from_lines(&changed).is_err(), "byte {place}");
    }
}

#[test]
fn what_only_files_can_keep_is_not_exported_in_part() {
    let (crew, _) = crew("export-native");
    let inboxes = crew.in_team("inboxes");
    std::fs::create_dir_all(&inboxes).unwrap();
    let letter = "[{\"from\":\"x\",\"text\":\"hello\",\"timestamp\":\"2026-01-01T00:00:00.000Z\"}]";
    std::fs::write(inboxes.join("eve.json"), letter).unwrap();
    let error = crew.store.export_team(&crew.team).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Refused);
    assert!(error.message.contains("eve"), "{error}");
    std::fs::remove_dir_all(inboxes).unwrap();
    std::fs::write(crew.in_tasks("2.json"), "{\"half").unwrap();
    let error = crew.store.export_team(&crew.team).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Failed);
    assert!(error.message.contains("2.json"), "{error}");
}

#[test]
fn tasks_of_somebody_else_are_not_in_the_way_silently() {
    let (_crew, lines) = crew("import-in-the-way");
    let (store, scratch) = elsewhere("import-in-the-way");
    let tasks = scratch.layout().claude.join("tasks/crew");
    std::fs::create_dir_all(&tasks).unwrap();
    std::fs::write(tasks.join("1.json"), "{}").unwrap();
    let error = import(&store, &lines).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Conflict);
    assert!(error.message.contains("in the way"), "{error}");
    assert_eq!(std::fs::read(tasks.join("1.json")).unwrap(), b"{}");
}

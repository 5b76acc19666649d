//! Exporting a team, and importing it into another store.

use teamster_journal::EventActor;
use teamster_store::{Reader, Recipient, Signal, StoreErrorKind, TeamExport};
use teamster_types::task::Status;

use super::fixture::{StoreFixture, name, worker};

/// Prepares a team with a bit of everything: tasks in every state, failures, half-read mail, a signal, long texts.
fn busy(fixture: &StoreFixture) {
    fixture.create_with("first", |new| new.description = "x".repeat(9_500));
    fixture.create("second");
    fixture.create("third");
    let removed = fixture.create("fourth");
    fixture.delete(&removed);
    let done = fixture.claim("worker-1");
    fixture.complete(&done);
    let failed = fixture.claim("worker-1");
    fixture.fail(&failed, "no such file");
    for content in ["one", "two", "three"] {
        fixture.tell("lead", "worker-1", content);
    }
    fixture.send("worker-1", Recipient::Lead, "done");
    let reader = Reader::Worker(worker("worker-1"));
    fixture.receive(&reader, 1, true);
    fixture.receive(&reader, 1, false);
    let signal = Signal {
        request_id: "r1".to_owned(),
        reason: "enough".to_owned(),
        timestamp: fixture.store.now(),
        drain: true,
    };
    let told = fixture.store.signal(
        &fixture.team,
        &EventActor::Lead,
        &worker("worker-2"),
        &signal,
    );
    fixture.step("signal", told);
}

fn export(fixture: &StoreFixture) -> TeamExport {
    fixture
        .step("export", fixture.store.export_team(&fixture.team))
        .0
}

fn replace_by(fixture: &StoreFixture, export: &TeamExport) {
    let (store, team) = (&fixture.store, &fixture.team);
    if let Err(error) = store
        .delete_team(team, &EventActor::Person, true)
        .and_then(|_| store.import_team(export))
    {
        panic!("the team cannot be imported: {error}");
    }
}

pub(super) fn an_exported_team_is_imported_as_it_was(fixture: &StoreFixture) {
    busy(fixture);
    let before = fixture.snapshot();
    let taken = export(fixture);
    assert_eq!(
        fixture.snapshot().differences(&before),
        [""; 0],
        "an export changes nothing"
    );
    let lines = taken.to_lines();
    let read = TeamExport::from_lines(&lines).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(read, taken);
    replace_by(fixture, &read);
    let after = fixture.snapshot();
    assert_eq!(after.differences(&before), [""; 0]);
    assert_eq!(export(fixture).to_lines(), lines, "the same again");
    // Read messages stay read, and the next task gets a number that was never used.
    assert_eq!(fixture.read("worker-1"), ["two", "three"]);
    assert_eq!(fixture.create("fifth").as_str(), "5");
}

pub(super) fn a_claim_is_not_carried_and_its_token_is_refused(fixture: &StoreFixture) {
    fixture.create("at work");
    let held = fixture.claim_as_ghost("worker-1");
    let (taken, released) = fixture.step("export", fixture.store.export_team(&fixture.team));
    assert_eq!(released, [held.task.id().clone()]);
    let lines = taken.to_lines();
    assert!(!String::from_utf8_lossy(&lines).contains(held.token.reveal()));
    let again = export(fixture).to_lines();
    assert_eq!(again, lines, "the same moment, the same export");
    // In the exported store the work continues: the holder keeps its claim.
    fixture.renew(&held);
    replace_by(fixture, &taken);
    fixture.refuse_token(held.task.id(), &held.token);
    let task = fixture.task(held.task.id());
    assert_eq!(task.status(), Status::Pending);
    assert_eq!(task.failed_attempts(), 0, "no attempt is lost");
    let next = fixture.claim("worker-2");
    assert!(
        next.fence > held.fence,
        "{} after {}",
        next.fence,
        held.fence
    );
    fixture.complete(&next);
    fixture.refuse_token(held.task.id(), &held.token);
}

pub(super) fn a_team_that_is_there_is_not_imported_over(fixture: &StoreFixture) {
    fixture.create("must survive");
    let taken = export(fixture);
    fixture.create("newer than the export");
    fixture.refuse("import", StoreErrorKind::Conflict, |store| {
        store.import_team(&taken)
    });
    let missing = fixture.store.export_team(&name("nowhere"));
    assert_eq!(
        missing.map(drop).map_err(|error| error.kind),
        Err(StoreErrorKind::NotFound)
    );
}

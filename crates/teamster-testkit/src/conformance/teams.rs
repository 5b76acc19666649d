//! Teams and their members.

use serde_json::json;
use teamster_journal::EventActor;
use teamster_store::StoreErrorKind;
use teamster_types::team::{NewMember, TeamOrigin};

use super::fixture::{MEMBERS, StoreFixture, id, name, worker};

pub(super) fn a_team_is_made_once(fixture: &StoreFixture) {
    let config = fixture.step("team", fixture.store.team(&fixture.team));
    assert_eq!(config.kind(), TeamOrigin::Teamster);
    assert_eq!(config.project(), Some(fixture.project.as_str()));
    assert_eq!(config.description(), "fix type errors");
    let members: Vec<String> = config.members().into_iter().map(|m| m.name).collect();
    assert_eq!(members, MEMBERS);
    assert!(config.host().is_some(), "it says which process made it");
    let event = fixture.events().remove(0);
    assert_eq!(event.kind, "team.created");
    assert_eq!(event.data["members"], json!(MEMBERS));
    assert_eq!(event.data["project"], json!(fixture.project));

    fixture.create("must survive");
    let again = fixture.new_team("fix-ts", &["worker-9"]);
    fixture.refuse("make the team", StoreErrorKind::Conflict, |store| {
        store.create_team(&again, None)
    });
    let other = fixture.new_team("another", &[]);
    let made = fixture.store.create_team(&other, Some("0123abc"));
    let made = fixture.step("make another", made);
    assert_eq!(made.as_object()["teamster"]["base"], "0123abc");
    let teams = fixture.step("teams", fixture.store.teams());
    let names: Vec<&str> = teams.iter().map(|team| team.name.as_str()).collect();
    assert_eq!(names, ["another", "fix-ts"]);
    let empty = fixture.step("tasks", fixture.store.tasks(&other.name));
    assert!(empty.tasks.is_empty(), "teams share nothing");
}

pub(super) fn a_team_that_is_not_there_is_not_found(fixture: &StoreFixture) {
    let (store, nowhere) = (&fixture.store, name("nowhere"));
    let new = teamster_types::task::NewTask {
        subject: "x".to_owned(),
        ..Default::default()
    };
    let kinds = [
        store.team(&nowhere).err(),
        store.tasks(&nowhere).err(),
        store.task(&nowhere, &id(1)).err(),
        store.progress(&nowhere).err(),
        store.events(&nowhere, 1, 10).err(),
        store.messages(&nowhere).err(),
        store.heartbeats(&nowhere).err(),
        store.create_task(&nowhere, &EventActor::Lead, &new).err(),
        store
            .delete_team(&nowhere, &EventActor::Person, false)
            .err(),
        store.watch(&nowhere, 0).err(),
    ];
    for (place, error) in kinds.into_iter().enumerate() {
        let kind = error.map(|error| error.kind);
        assert_eq!(kind, Some(StoreErrorKind::NotFound), "call {place}");
    }
    let teams = fixture.step("teams", store.teams());
    assert_eq!(teams.len(), 1, "asking makes nothing");
}

pub(super) fn a_member_joins_once_and_may_change_its_provider(fixture: &StoreFixture) {
    let join = |provider: &str| {
        let member = NewMember {
            name: worker("late"),
            provider: provider.to_owned(),
            capabilities: None,
        };
        fixture.step("join", fixture.store.join_team(&fixture.team, &member))
    };
    let position = fixture.position();
    let config = join("codex");
    assert_eq!(
        config,
        fixture.step("team", fixture.store.team(&fixture.team))
    );
    let late = config.members().pop().unwrap_or_else(|| panic!("nobody"));
    assert_eq!(
        (late.name.as_str(), late.provider.as_str()),
        ("late", "codex")
    );
    join("codex");
    join("");
    assert_eq!(
        fixture.kinds_after(position),
        ["member.joined"],
        "joining again changes nothing"
    );
    let config = join("gemini");
    assert_eq!(config.members().len(), MEMBERS.len() + 1);
    assert_eq!(fixture.kinds_after(position), ["member.joined"; 2]);
    fixture.tell("lead", "late", "welcome");
    assert_eq!(fixture.read("late"), ["welcome"]);
}

pub(super) fn a_removed_team_is_gone_and_its_name_is_free(fixture: &StoreFixture) {
    for round in 0..3 {
        let new = fixture.new_team("short-lived", &["worker-1"]);
        fixture.step("make", fixture.store.create_team(&new, None));
        let task = teamster_types::task::NewTask {
            subject: format!("round {round}"),
            ..Default::default()
        };
        let made = fixture
            .store
            .create_task(&new.name, &EventActor::Lead, &task);
        let made = fixture.step("create", made);
        assert_eq!(made.id(), &id(1), "the new team knows nothing of the old");
        let removed = fixture
            .store
            .delete_team(&new.name, &EventActor::Person, false);
        fixture.step("delete", removed);
        assert_eq!(
            fixture.store.team(&new.name).map_err(|error| error.kind),
            Err(StoreErrorKind::NotFound)
        );
        let again = fixture
            .store
            .delete_team(&new.name, &EventActor::Person, false);
        assert_eq!(
            again.map_err(|error| error.kind),
            Err(StoreErrorKind::NotFound)
        );
    }
    let teams = fixture.step("teams", fixture.store.teams());
    assert_eq!(teams.len(), 1);
}

pub(super) fn a_team_is_not_removed_from_under_the_living(fixture: &StoreFixture) {
    fixture.create("first");
    let remove = |force| {
        fixture.refuse("delete", StoreErrorKind::Conflict, |store| {
            store.delete_team(&fixture.team, &EventActor::Person, force)
        })
    };
    let claimed = fixture.claim("worker-1");
    remove(false);
    let error = remove(true);
    assert!(error.message.contains("worker-1"), "{error}");
    fixture.release(&claimed);
    fixture.beat("worker-2", |_| {});
    let error = remove(true);
    assert!(error.message.contains("worker-2"), "{error}");
    fixture.wait_secs(30);
    fixture.claim_as_ghost("worker-3");
    remove(false);
    let removed = fixture
        .store
        .delete_team(&fixture.team, &EventActor::Person, true);
    assert!(
        removed.is_ok(),
        "a lease of the dead yields to force: {removed:?}"
    );
}

//! Teams and their members.

use serde_json::json;
use teamster_store::Kind;
use teamster_types::team::{Kind as TeamKind, NewMember};

use super::stage::{MEMBERS, Stage, id, name, worker};

pub(super) fn a_team_is_made_once(stage: &Stage) {
    let config = stage.step("team", stage.store.team(&stage.team));
    assert_eq!(config.kind(), TeamKind::Teamster);
    assert_eq!(config.project(), Some(stage.project.as_str()));
    assert_eq!(config.description(), "fix type errors");
    let members: Vec<String> = config.members().into_iter().map(|m| m.name).collect();
    assert_eq!(members, MEMBERS);
    assert!(config.host().is_some(), "it says which process made it");
    let event = stage.events().remove(0);
    assert_eq!(event.kind, "team.created");
    assert_eq!(event.data["members"], json!(MEMBERS));
    assert_eq!(event.data["project"], json!(stage.project));

    stage.create("must survive");
    let again = stage.new_team("fix-ts", &["worker-9"]);
    stage.refuse("make the team", Kind::Conflict, |store| {
        store.create_team(&again, None)
    });
    let other = stage.new_team("another", &[]);
    let made = stage.store.create_team(&other, Some("0123abc"));
    let made = stage.step("make another", made);
    assert_eq!(made.as_object()["teamster"]["base"], "0123abc");
    let teams = stage.step("teams", stage.store.teams());
    let names: Vec<&str> = teams.iter().map(|team| team.name.as_str()).collect();
    assert_eq!(names, ["another", "fix-ts"]);
    let empty = stage.step("tasks", stage.store.tasks(&other.name));
    assert!(empty.tasks.is_empty(), "teams share nothing");
}

pub(super) fn a_team_that_is_not_there_is_not_found(stage: &Stage) {
    let (store, nowhere) = (&stage.store, name("nowhere"));
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
        store.create_task(&nowhere, "lead", &new).err(),
        store.delete_team(&nowhere, "user", false).err(),
        store.watch(&nowhere, 0).err(),
    ];
    for (place, error) in kinds.into_iter().enumerate() {
        let kind = error.map(|error| error.kind);
        assert_eq!(kind, Some(Kind::NotFound), "call {place}");
    }
    let teams = stage.step("teams", store.teams());
    assert_eq!(teams.len(), 1, "asking makes nothing");
}

pub(super) fn a_member_joins_once_and_may_change_its_provider(stage: &Stage) {
    let join = |provider: &str| {
        let member = NewMember {
            name: worker("late"),
            provider: provider.to_owned(),
            capabilities: None,
        };
        stage.step("join", stage.store.join_team(&stage.team, &member))
    };
    let position = stage.position();
    let config = join("codex");
    assert_eq!(config, stage.step("team", stage.store.team(&stage.team)));
    let late = config.members().pop().unwrap_or_else(|| panic!("nobody"));
    assert_eq!(
        (late.name.as_str(), late.provider.as_str()),
        ("late", "codex")
    );
    join("codex");
    join("");
    assert_eq!(
        stage.kinds_after(position),
        ["member.joined"],
        "joining again changes nothing"
    );
    let config = join("gemini");
    assert_eq!(config.members().len(), MEMBERS.len() + 1);
    assert_eq!(stage.kinds_after(position), ["member.joined"; 2]);
    stage.tell("lead", "late", "welcome");
    assert_eq!(stage.read("late"), ["welcome"]);
}

pub(super) fn a_removed_team_is_gone_and_its_name_is_free(stage: &Stage) {
    for round in 0..3 {
        let new = stage.new_team("short-lived", &["worker-1"]);
        stage.step("make", stage.store.create_team(&new, None));
        let task = teamster_types::task::NewTask {
            subject: format!("round {round}"),
            ..Default::default()
        };
        let made = stage.store.create_task(&new.name, "lead", &task);
        let made = stage.step("create", made);
        assert_eq!(made.id(), &id(1), "the new team knows nothing of the old");
        let removed = stage.store.delete_team(&new.name, "user", false);
        stage.step("delete", removed);
        assert_eq!(
            stage.store.team(&new.name).map_err(|error| error.kind),
            Err(Kind::NotFound)
        );
        let again = stage.store.delete_team(&new.name, "user", false);
        assert_eq!(again.map_err(|error| error.kind), Err(Kind::NotFound));
    }
    let teams = stage.step("teams", stage.store.teams());
    assert_eq!(teams.len(), 1);
}

pub(super) fn a_team_is_not_removed_from_under_the_living(stage: &Stage) {
    stage.create("first");
    let remove = |force| {
        stage.refuse("delete", Kind::Conflict, |store| {
            store.delete_team(&stage.team, "user", force)
        })
    };
    let claimed = stage.claim("worker-1");
    remove(false);
    let error = remove(true);
    assert!(error.message.contains("worker-1"), "{error}");
    stage.release(&claimed);
    stage.beat("worker-2", |_| {});
    let error = remove(true);
    assert!(error.message.contains("worker-2"), "{error}");
    stage.wait_secs(30);
    stage.claim_as_ghost("worker-3");
    remove(false);
    let removed = stage.store.delete_team(&stage.team, "user", true);
    assert!(
        removed.is_ok(),
        "a lease of the dead yields to force: {removed:?}"
    );
}

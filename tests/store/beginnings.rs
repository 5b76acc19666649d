//! Teams that are created and removed by processes that die.

use teamster_fs::fail;
use teamster_journal::EventActor;
use teamster_store::{ReadStore, Store, StoreErrorKind};
use teamster_types::task::NewTask;
use teamster_types::team::NewTeam;

use super::{FileTeam, id};

fn new_team(crew: &FileTeam) -> NewTeam {
    NewTeam {
        name: "other".parse().unwrap(),
        description: String::new(),
        project: crew.scratch.project().display().to_string(),
        members: Vec::new(),
        run: None,
    }
}

fn task() -> NewTask {
    NewTask {
        subject: "first".to_owned(),
        ..NewTask::default()
    }
}

#[test]
fn a_team_whose_maker_dies_is_there_or_not() {
    let (mut made, mut not_made) = (0, 0);
    for step in 0.. {
        let crew = FileTeam::new("maker-dies");
        let new = new_team(&crew);
        fail::die_after(step);
        let _ = crew.store.create_team(&new, None);
        let died = fail::revive();
        let names: Vec<String> = crew
            .store
            .teams()
            .unwrap()
            .into_iter()
            .map(|team| {
                assert!(team.config.is_ok(), "step {step}: half a team");
                team.name
            })
            .collect();
        if names.contains(&"other".to_owned()) {
            made += 1;
        } else {
            not_made += 1;
            crew.store.create_team(&new, None).unwrap();
        }
        let first = crew
            .store
            .create_task(&new.name, &EventActor::Lead, &task())
            .unwrap();
        assert_eq!(first.id(), &id(1), "step {step}");
        assert_eq!(crew.store.position(&new.name).unwrap(), 2, "step {step}");
        if !died {
            break;
        }
    }
    assert!(made > 0 && not_made > 5, "{made} and {not_made}");
}

#[test]
fn a_team_whose_remover_dies_is_there_or_gone() {
    let (mut there, mut gone) = (0, 0);
    for step in 0.. {
        let crew = FileTeam::new("remover-dies");
        let new = new_team(&crew);
        crew.store.create_team(&new, None).unwrap();
        crew.store
            .create_task(&new.name, &EventActor::Lead, &task())
            .unwrap();
        fail::die_after(step);
        let _ = crew
            .store
            .delete_team(&new.name, &EventActor::Person, false);
        let died = fail::revive();
        // The next caller finds it complete, or finishes its removal.
        match crew
            .store
            .create_task(&new.name, &EventActor::Lead, &task())
        {
            Ok(task) => {
                there += 1;
                assert_eq!(task.id(), &id(2), "step {step}");
                crew.store
                    .delete_team(&new.name, &EventActor::Person, false)
                    .unwrap();
            }
            Err(error) => {
                gone += 1;
                assert_eq!(error.kind, StoreErrorKind::NotFound, "step {step}: {error}");
            }
        }
        let left = crew.store.team(&new.name).map_err(|error| error.kind);
        assert_eq!(left, Err(StoreErrorKind::NotFound), "step {step}");
        for folder in ["teams/other", "tasks/other"] {
            assert!(
                !crew.claude().join(folder).exists(),
                "step {step}: {folder}"
            );
        }
        let trash = std::fs::read_dir(crew.claude().join(".teamster-trash")).unwrap();
        for folder in trash {
            let folder = folder.unwrap().path();
            assert!(folder.join("teams/config.json").exists(), "step {step}");
            assert!(folder.join("tasks/1.json").exists(), "step {step}");
        }
        let kept = crew
            .scratch
            .project()
            .join(".omc/reports/other/events.jsonl");
        let kept = std::fs::read_to_string(kept).unwrap();
        assert!(
            kept.contains("team.deleted"),
            "step {step}: its journal is kept"
        );
        crew.store.create_team(&new, None).unwrap();
        if !died {
            break;
        }
    }
    assert!(there > 5 && gone > 5, "{there} and {gone}");
}

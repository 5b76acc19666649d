//! Symlinks, pipes and folders planted in place of the store's own files: refused or harmless, and never followed.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use teamster_journal::EventActor;
use teamster_store::{ReadStore, Result, Store, StoreError, StoreErrorKind};

use super::{FileTeam, claim_request, id, make_pipe};

/// The kinds of trap.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Trap {
    /// A symlink to a foreign file that looks valid.
    Link,
    /// A dangling symlink: following it would create a file at its target.
    Dangling,
    LinkToFolder,
    Pipe,
    Folder,
}

const TRAPS: [Trap; 5] = [
    Trap::Link,
    Trap::Dangling,
    Trap::LinkToFolder,
    Trap::Pipe,
    Trap::Folder,
];

/// Foreign property: the files that the symlinks point at, and nothing beside them.
struct Victim {
    folder: PathBuf,
    before: BTreeMap<PathBuf, Vec<u8>>,
}

impl Victim {
    fn new(crew: &FileTeam) -> Self {
        let folder = crew.scratch.path().join("somebody-else");
        std::fs::create_dir_all(folder.join("inner")).unwrap();
        Self {
            folder,
            before: BTreeMap::new(),
        }
    }

    /// Plants a trap at `place`. A symlink then points at the file that was there.
    fn plant(&mut self, trap: Trap, place: &Path) {
        let content = match std::fs::symlink_metadata(place) {
            Ok(there) if there.is_dir() => {
                std::fs::rename(place, self.folder.join("moved")).unwrap();
                None
            }
            Ok(_) => {
                let content = std::fs::read(place).unwrap();
                std::fs::remove_file(place).unwrap();
                Some(content)
            }
            Err(_) => None,
        };
        let target = self.folder.join("target");
        match trap {
            Trap::Link => {
                if self.folder.join("moved").exists() {
                    symlink(self.folder.join("moved"), place).unwrap();
                } else {
                    std::fs::write(&target, content.unwrap_or_default()).unwrap();
                    symlink(&target, place).unwrap();
                }
            }
            Trap::Dangling => symlink(self.folder.join("nothing"), place).unwrap(),
            Trap::LinkToFolder => symlink(self.folder.join("inner"), place).unwrap(),
            Trap::Pipe => make_pipe(place),
            Trap::Folder => std::fs::create_dir(place).unwrap(),
        }
        self.before = contents(&self.folder);
    }

    fn is_untouched(&self) -> bool {
        contents(&self.folder) == self.before
    }
}

/// Returns every file below a folder with its bytes, and every folder.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
            found.insert(path, Vec::new());
        } else {
            let bytes = std::fs::read(&path).unwrap();
            found.insert(path, bytes);
        }
    }
    found
}

/// Plants each trap in one place and performs an operation; `judge` checks the result.
fn plant_each(
    what: &str,
    place: impl Fn(&FileTeam) -> PathBuf,
    arrange: impl Fn(&FileTeam),
    act: impl Fn(&FileTeam) -> Vec<Result<()>>,
    judge: impl Fn(Trap, &[Result<()>]),
) {
    for trap in TRAPS {
        let crew = FileTeam::new("planted");
        crew.create("first");
        crew.create("second");
        crew.tell("ada", "one").unwrap();
        crew.tell("bob", "one").unwrap();
        arrange(&crew);
        let mut victim = Victim::new(&crew);
        victim.plant(trap, &place(&crew));
        let answers = act(&crew);
        assert!(victim.is_untouched(), "{what}: {trap:?} was followed");
        judge(trap, &answers);
    }
}

fn refused(answer: &Result<()>) -> bool {
    let kind = answer.as_ref().map_err(|error| error.kind);
    matches!(kind, Err(StoreErrorKind::Refused))
}

/// Asserts that everything was refused, with a message that names the path and a hint.
fn all_refused(trap: Trap, answers: &[Result<()>]) {
    for (place, answer) in answers.iter().enumerate() {
        assert!(refused(answer), "{trap:?}, answer {place}: {answer:?}");
        let error: &StoreError = answer.as_ref().unwrap_err();
        assert!(error.message.contains("crew"), "{error}");
        assert!(error.hint.is_some(), "{error}");
    }
}

#[test]
fn in_place_of_a_task() {
    let act = |crew: &FileTeam| {
        let list = crew.store.tasks(&crew.team).unwrap();
        let names: Vec<&str> = list.problems.iter().map(|problem| &*problem.file).collect();
        assert_eq!(names, ["1.json"], "it is reported by its name");
        assert_eq!(list.tasks.len(), 1, "and hides no other");
        let next = crew.must_claim("ada");
        assert_eq!(next.task.id(), &id(2));
        let first = id(1);
        let edit = teamster_types::transitions::TaskEdit {
            subject: Some("x".to_owned()),
            ..Default::default()
        };
        vec![
            crew.store.task(&crew.team, &first).map(drop),
            crew.claim("ada", Some(&first)).map(drop),
            crew.store
                .update_task(&crew.team, &EventActor::Lead, &first, &edit)
                .map(drop),
            crew.store
                .delete_task(&crew.team, &EventActor::Lead, &first)
                .map(drop),
        ]
    };
    let place = |crew: &FileTeam| crew.in_tasks("1.json");
    plant_each(
        "a task",
        place,
        |_| {},
        act,
        |trap, answers| {
            for answer in answers {
                // A missing file is not a task, but a dangling symlink is still a symlink.
                assert!(refused(answer), "{trap:?}: {answer:?}");
            }
        },
    );
}

#[test]
fn in_place_of_a_claim_lock() {
    let act = |crew: &FileTeam| {
        let next = crew.must_claim("ada");
        assert_eq!(next.task.id(), &id(2), "the locked one is passed by");
        vec![crew.claim("ada", Some(&id(1))).map(drop)]
    };
    let place = |crew: &FileTeam| crew.in_tasks("1.lock");
    plant_each("a claim lock", place, |_| {}, act, all_refused);
}

#[test]
fn in_place_of_a_failure() {
    let act = |crew: &FileTeam| {
        let claimed = crew.must_claim("ada");
        let failed = crew
            .store
            .fail(&crew.team, &id(1), &claimed.token, "boom")
            .map(drop);
        assert_eq!(
            crew.store.task(&crew.team, &id(1)).unwrap(),
            claimed.task,
            "nothing was half done"
        );
        vec![failed]
    };
    let place = |crew: &FileTeam| crew.in_tasks("1.failure.json");
    plant_each("a failure", place, |_| {}, act, all_refused);
}

#[test]
fn in_place_of_an_inbox() {
    let act = |crew: &FileTeam| {
        assert_eq!(crew.read("bob", true).unwrap(), ["one"]);
        let sent = crew.store.send(&crew.team, &{
            let mut all = super::message("", "to all");
            all.to = teamster_store::Recipient::All;
            all
        });
        assert!(sent.is_err(), "a message for all is for all or for nobody");
        assert!(crew.read("bob", true).unwrap().is_empty());
        crew.tell("bob", "two").unwrap();
        assert_eq!(crew.read("bob", true).unwrap(), ["two"]);
        vec![crew.tell("ada", "two"), crew.read("ada", true).map(drop)]
    };
    let place = |crew: &FileTeam| crew.in_team("inbox/ada.jsonl");
    plant_each("an inbox", place, |_| {}, act, all_refused);
}

#[test]
fn in_place_of_a_cursor() {
    let act = |crew: &FileTeam| vec![crew.read("ada", true).map(drop)];
    let place = |crew: &FileTeam| crew.in_team("inbox/ada.offset");
    plant_each("a cursor", place, |_| {}, act, all_refused);
}

#[test]
fn in_place_of_the_registry() {
    let act = |crew: &FileTeam| {
        vec![
            crew.store.team(&crew.team).map(drop),
            crew.tell("ada", "two"),
        ]
    };
    let place = |crew: &FileTeam| crew.in_team("config.json");
    plant_each("the registry", place, |_| {}, act, all_refused);
}

#[test]
fn in_place_of_the_journal() {
    let act = |crew: &FileTeam| {
        vec![
            crew.store.events(&crew.team, 1, 10).map(drop),
            crew.claim("ada", None).map(drop),
            crew.tell("ada", "two"),
        ]
    };
    let place = |crew: &FileTeam| crew.in_team("events.jsonl");
    plant_each("the journal", place, |_| {}, act, all_refused);
}

#[test]
fn in_place_of_the_index() {
    let act = |crew: &FileTeam| vec![crew.claim("ada", None).map(drop)];
    let place = |crew: &FileTeam| crew.in_tasks(".teamster.index");
    plant_each("the index", place, |_| {}, act, all_refused);
}

#[test]
fn in_place_of_the_teams_lock() {
    let act = |crew: &FileTeam| {
        vec![
            crew.claim("ada", None).map(drop),
            crew.tell("ada", "two"),
            crew.read("ada", true).map(drop),
        ]
    };
    let place = |crew: &FileTeam| crew.in_tasks(".teamster.lock");
    plant_each("the team's lock", place, |_| {}, act, all_refused);
}

#[test]
fn in_place_of_the_high_water_mark() {
    let act = |crew: &FileTeam| {
        let new = teamster_types::task::NewTask {
            subject: "third".to_owned(),
            ..Default::default()
        };
        vec![
            crew.store
                .create_task(&crew.team, &EventActor::Lead, &new)
                .map(drop),
        ]
    };
    let place = |crew: &FileTeam| crew.in_tasks(".highwatermark");
    plant_each("the high-water mark", place, |_| {}, act, all_refused);
}

/// In place of folders: what they lead to must not be touched.
#[test]
fn in_place_of_a_folder() {
    let folders = [
        "teams/crew",
        "tasks/crew",
        "teams",
        "tasks",
        "teams/crew/inbox",
        "teams/crew/.teamster-locks",
    ];
    for folder in folders {
        for trap in [Trap::Link, Trap::Dangling, Trap::LinkToFolder, Trap::Pipe] {
            let crew = FileTeam::new("planted-folder");
            crew.create("first");
            crew.tell("ada", "one").unwrap();
            let mut victim = Victim::new(&crew);
            victim.plant(trap, &crew.claude().join(folder));
            let answers = [
                crew.claim("ada", Some(&id(1))).map(drop),
                crew.tell("ada", "two"),
                crew.read("ada", true).map(drop),
            ];
            assert!(victim.is_untouched(), "{folder}: {trap:?} was followed");
            let wrong = answers.iter().filter(|answer| {
                answer
                    .as_ref()
                    .is_err_and(|error| error.kind != StoreErrorKind::Refused)
            });
            assert_eq!(wrong.count(), 0, "{folder}: {trap:?}: {answers:?}");
            assert!(
                answers.iter().any(refused),
                "{folder}: {trap:?} was not noticed"
            );
        }
    }
}

/// A name that only a commit uses: guessing it has no effect.
#[test]
fn under_the_name_of_a_commit() {
    for trap in TRAPS {
        let crew = FileTeam::new("planted-next");
        crew.create("first");
        let seq = crew.store.position(&crew.team).unwrap() + 1;
        let mut victim = Victim::new(&crew);
        let place = crew.in_tasks(&format!(".1.json.{seq}.next"));
        victim.plant(trap, &place);
        let claimed = crew.claim("ada", Some(&id(1)));
        assert!(victim.is_untouched(), "{trap:?} was followed");
        if trap == Trap::Folder {
            assert!(claimed.is_err(), "it stands in the way");
            std::fs::remove_dir(&place).unwrap();
            crew.claim("ada", Some(&id(1))).unwrap();
        } else {
            claimed.unwrap();
        }
        crew.check_journal();
    }
}

/// Names of past or invented commits, found by the process that repairs a team.
#[test]
fn under_the_name_of_a_commit_that_never_was() {
    for trap in TRAPS {
        for ahead in [false, true] {
            for suffix in ["next", "gone"] {
                let crew = FileTeam::new("planted-old-next");
                crew.create("first");
                let before = std::fs::read(crew.in_tasks("1.json")).unwrap();
                let seq = crew.store.position(&crew.team).unwrap();
                let seq = if ahead { seq + 5 } else { seq };
                let mut victim = Victim::new(&crew);
                let place = crew.in_tasks(&format!(".1.json.{seq}.{suffix}"));
                victim.plant(trap, &place);
                // A lock file that is not clean makes the next process repair the team.
                std::fs::write(crew.in_tasks(".teamster.lock"), "{}\n").unwrap();
                crew.tell("ada", "one").unwrap();
                assert!(victim.is_untouched(), "{trap:?} was followed");
                assert_eq!(
                    std::fs::read(crew.in_tasks("1.json")).unwrap(),
                    before,
                    "{trap:?} {suffix} took the place of a task"
                );
                crew.check_journal();
            }
        }
    }
}

#[test]
fn a_second_name_of_somebody_elses_file_is_not_written_through() {
    let crew = FileTeam::new("hard-links");
    crew.create("first");
    crew.tell("ada", "one").unwrap();
    crew.read("ada", true).unwrap();
    let victim = crew.scratch.path().join("victim");
    for name in [crew.in_tasks("1.json"), crew.in_team("inbox/ada.offset")] {
        std::fs::rename(&name, &victim).unwrap();
        std::fs::hard_link(&victim, &name).unwrap();
        let before = std::fs::read(&victim).unwrap();
        if let Some(claimed) = crew.claim("ada", None).unwrap() {
            crew.store
                .renew(&crew.team, &id(1), &claimed.token, None)
                .unwrap();
        }
        crew.tell("ada", "two").unwrap();
        crew.read("ada", true).unwrap();
        assert_eq!(std::fs::read(&victim).unwrap(), before);
        assert_ne!(std::fs::read(&name).unwrap(), before);
        std::fs::remove_file(&victim).unwrap();
    }
}

#[test]
fn names_that_lead_elsewhere_never_reach_the_disk() {
    let crew = FileTeam::new("names");
    let before = contents(&crew.claude());
    for wrong in ["../x", "a/b", "", "a\0b", "-rf", "🦀", &"x".repeat(300)] {
        assert!(wrong.parse::<teamster_types::TeamName>().is_err());
        assert!(wrong.parse::<teamster_types::TaskId>().is_err());
        assert!(wrong.parse::<teamster_types::WorkerName>().is_err());
        assert!(crew.tell(wrong, "hello").is_err(), "{wrong:?}");
    }
    assert!(
        crew.store
            .claim(&crew.team, &claim_request("ada", Some(&id(9))))
            .is_err()
    );
    let after = contents(&crew.claude());
    let ours = |path: &PathBuf| path.to_string_lossy().contains(".teamster");
    let of = |all: &BTreeMap<PathBuf, Vec<u8>>| -> Vec<PathBuf> {
        all.keys().filter(|path| !ours(path)).cloned().collect()
    };
    assert_eq!(of(&before), of(&after));
}

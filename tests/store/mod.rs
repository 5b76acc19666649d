//! The store, attacked from all sides.

mod beginnings;
mod damage;
mod databases;
mod every_step;
mod exports;
mod histories;
mod listening;
mod locks;
mod machine;
mod mended;
mod planted;
mod readers;
mod rotation;
mod watching;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use teamster_journal::EventActor;
use teamster_store::{
    Backend, ClaimRequest, Claimed, FileStore, OutgoingMessage, ReadStore, Reader, Recipient,
    Result, Store, rebuild,
};
use teamster_testkit::conformance::{StoreFixture, run_all};
use teamster_testkit::scratch::{Scratch, gone, stopped_clock};
use teamster_testkit::{ManualClock, MemStore};
use teamster_types::process::{ProcessId, ProcessState};
use teamster_types::task::{NewTask, Task};
use teamster_types::team::{NewMember, NewTeam};
use teamster_types::{TaskId, TeamName};

/// A timeout that is long enough for anything that terminates at all.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// A team in the file store, for tests that attack it from outside.
pub struct FileTeam {
    pub store: FileStore,
    pub clock: Arc<ManualClock>,
    pub team: TeamName,
    pub scratch: Scratch,
}

impl FileTeam {
    /// Makes a team of `ada` and `bob` in a separate folder.
    pub fn new(name: &str) -> Self {
        Self::with_patience(name, PATIENCE)
    }

    /// Makes the same with another lock timeout.
    pub fn with_patience(name: &str, patience: Duration) -> Self {
        let scratch = Scratch::new(name);
        let clock = stopped_clock();
        let crew = Self {
            store: scratch.store(clock.clone(), patience),
            clock,
            team: "crew".parse().unwrap(),
            scratch,
        };
        let members = ["ada", "bob"].map(|name| NewMember {
            name: name.parse().unwrap(),
            provider: String::new(),
            capabilities: None,
        });
        let new = NewTeam {
            name: crew.team.clone(),
            description: String::new(),
            project: crew.scratch.project().display().to_string(),
            members: members.to_vec(),
            run: None,
        };
        crew.store.create_team(&new, None).unwrap();
        crew
    }

    /// Opens the same files like another process.
    pub fn another(&self) -> FileStore {
        self.patient(PATIENCE)
    }

    /// Opens the same files with a longer lock timeout.
    pub fn patient(&self, patience: Duration) -> FileStore {
        self.scratch.store(self.clock.clone(), patience)
    }

    pub fn claude(&self) -> PathBuf {
        self.scratch.layout().claude
    }

    /// Returns the path of a file in the task folder.
    pub fn in_tasks(&self, name: &str) -> PathBuf {
        self.claude().join("tasks/crew").join(name)
    }

    /// Returns the path of a file in the team's folder.
    pub fn in_team(&self, name: &str) -> PathBuf {
        self.claude().join("teams/crew").join(name)
    }

    pub fn create(&self, subject: &str) -> TaskId {
        let new = NewTask {
            subject: subject.to_owned(),
            ..NewTask::default()
        };
        let made = self
            .store
            .create_task(&self.team, &EventActor::Lead, &new)
            .unwrap();
        made.id().clone()
    }

    pub fn claim(&self, worker: &str, id: Option<&TaskId>) -> Result<Option<Claimed>> {
        self.store.claim(&self.team, &claim_request(worker, id))
    }

    /// Claims a task, which must exist.
    pub fn must_claim(&self, worker: &str) -> Claimed {
        self.claim(worker, None)
            .unwrap()
            .expect("there is something to claim")
    }

    pub fn complete(&self, claimed: &Claimed) -> Task {
        let (id, token) = (claimed.task.id(), &claimed.token);
        self.store.complete(&self.team, id, token, None).unwrap()
    }

    pub fn tell(&self, to: &str, content: &str) -> Result<()> {
        let sent = self.store.send(&self.team, &message(to, content));
        sent.map(drop)
    }

    pub fn read(&self, who: &str, ack: bool) -> Result<Vec<String>> {
        let reader = Reader::Worker(who.parse()?);
        let got = self.store.receive(&self.team, &reader, 100_000, ack)?;
        let messages = got.messages.iter();
        Ok(messages
            .map(|message| message.content().to_owned())
            .collect())
    }

    /// Reads every task file for changes by other programs.
    pub fn notice(&self) -> Result<()> {
        self.store
            .change(&self.team, "look", &mut |tx| tx.refresh().map(drop))
            .map(drop)
    }

    /// Asserts that the journal alone rebuilds the task files, and that its positions have no gap.
    pub fn check_journal(&self) {
        let page = self.store.events(&self.team, 1, usize::MAX).unwrap();
        let mut told = rebuild::Tasks::default();
        for (seq, event) in (1..).zip(&page.events) {
            assert_eq!(event.seq, seq, "positions grow by one");
            told.apply(event);
        }
        let list = self.store.tasks(&self.team).unwrap().tasks;
        let ids = |tasks: Vec<&Task>| -> Vec<TaskId> {
            tasks.iter().map(|task| task.id().clone()).collect()
        };
        assert_eq!(ids(told.iter().collect()), ids(list.iter().collect()));
        for (told, there) in told.iter().zip(&list) {
            assert!(
                rebuild::is_same_task(told, there),
                "the journal rebuilds\n{}\nbut the file says\n{}",
                Value::Object(told.public()),
                Value::Object(there.public())
            );
        }
    }
}

pub fn id(number: u64) -> TaskId {
    TaskId::from_number(number)
}

pub fn claim_request(worker: &str, id: Option<&TaskId>) -> ClaimRequest {
    ClaimRequest {
        worker: worker.parse().unwrap(),
        id: id.cloned(),
        lease: None,
    }
}

pub fn message(to: &str, content: &str) -> OutgoingMessage {
    OutgoingMessage {
        from: "lead".to_owned(),
        to: Recipient::Worker(to.to_owned()),
        kind: "message".to_owned(),
        content: content.to_owned(),
        extra: Map::new(),
    }
}

/// Makes a pipe without a reader: opening it the wrong way blocks forever.
pub fn make_pipe(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}

/// Sets a modification time back by this many seconds.
pub fn age(path: &Path, seconds: u64) {
    let then = std::time::SystemTime::now() - Duration::from_secs(seconds);
    std::fs::File::open(path)
        .unwrap()
        .set_modified(then)
        .unwrap();
}

/// Returns files and folders that must be gone once the teams are repaired.
pub fn leftovers(claude: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![claude.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let end = path
                .extension()
                .and_then(|end| end.to_str())
                .unwrap_or_default();
            let is_lock = path.is_dir() && end == "lock";
            if is_lock || ["next", "gone", "tmp"].contains(&end) {
                found.push(path.display().to_string());
            } else if path.is_dir() {
                folders.push(path);
            }
        }
    }
    found
}

#[test]
fn the_file_store_conforms() {
    let mut scratches = Vec::new();
    run_all("file", |test| {
        let scratch = Scratch::new(test);
        let clock = stopped_clock();
        let project = scratch.project().display().to_string();
        let fixture = StoreFixture::new(
            scratch.store(clock.clone(), PATIENCE),
            scratch.store(clock.clone(), PATIENCE).claiming_as(gone()),
            clock,
            &project,
        );
        scratches.push(scratch);
        fixture
    });
}

#[test]
fn the_memory_store_conforms() {
    run_all("memory", |_| {
        let clock = stopped_clock();
        let dead = gone();
        let alive = ProcessId {
            process_start_time: dead.process_start_time + 1,
            ..dead.clone()
        };
        let judged = dead.clone();
        let store = MemStore::new(clock.clone(), alive, move |process| {
            if *process == judged {
                ProcessState::Gone
            } else {
                ProcessState::Alive
            }
        });
        let ghost = store.claiming_as(dead);
        StoreFixture::new(store, ghost, clock, "/project")
    });
}

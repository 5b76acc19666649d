//! A real file store, with everything that is done to it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use teamster_store::{
    Backend, ClaimRequest, Clock, FileStore, OutgoingMessage, ReadStore, Reader, Recipient, Result,
    Store, rebuild,
};
use teamster_testkit::ManualClock;
use teamster_testkit::recorded;
use teamster_testkit::scratch::{Scratch, gone, stopped_clock};
use teamster_types::process::ProcessId;
use teamster_types::task::Task;
use teamster_types::team::{NewMember, NewTeam};
use teamster_types::{TaskId, TeamName, WorkerName};

use super::super::leftovers;
use super::Mail;
use super::model::{self, Tasks};

pub const WORKERS: [&str; 3] = ["ada", "bob", "cyd"];
/// The keys of teamster at the top of a task file.
const KNOWN: [&str; 9] = [
    "id",
    "subject",
    "description",
    "activeForm",
    "status",
    "owner",
    "blocks",
    "blockedBy",
    "metadata",
];
const KNOWN_METADATA: [&str; 4] = ["permanentlyFailed", "failedAttempts", "error", "teamster"];

pub struct World {
    pub store: FileStore,
    pub ghost: FileStore,
    pub clock: Arc<ManualClock>,
    pub team: TeamName,
    dead: ProcessId,
    scratch: Scratch,
}

impl World {
    pub fn new() -> Self {
        let scratch = Scratch::new("machine");
        let clock = stopped_clock();
        // There is no other process to wait for, except locks that a dead process left.
        let patience = Duration::from_millis(20);
        let world = Self {
            store: scratch.store(clock.clone(), patience),
            ghost: scratch.store(clock.clone(), patience).claiming_as(gone()),
            dead: gone(),
            clock,
            team: "crew".parse().unwrap(),
            scratch,
        };
        let members = WORKERS.iter().map(|name| NewMember {
            name: name.parse().unwrap(),
            provider: String::new(),
            capabilities: None,
        });
        let new = NewTeam {
            name: world.team.clone(),
            description: String::new(),
            project: world.scratch.project().display().to_string(),
            members: members.collect(),
            run: None,
        };
        world.store.create_team(&new, None).unwrap();
        world
    }

    pub fn now(&self) -> i64 {
        self.clock.now().as_millis()
    }

    fn tasks_folder(&self) -> PathBuf {
        self.scratch.layout().claude.join("tasks/crew")
    }

    fn team_folder(&self) -> PathBuf {
        self.scratch.layout().claude.join("teams/crew")
    }

    pub fn task_file(&self, id: u64) -> PathBuf {
        self.tasks_folder().join(format!("{id}.json"))
    }

    pub fn index_file(&self) -> PathBuf {
        self.tasks_folder().join(".teamster.index")
    }

    pub fn claim(&self, worker: &str, ghost: bool, id: Option<u64>) -> Result<Option<Claimed>> {
        let request = ClaimRequest {
            worker: worker.parse().unwrap(),
            id: id.map(TaskId::from_number),
            lease: None,
        };
        let store = if ghost { &self.ghost } else { &self.store };
        let claimed = store.claim(&self.team, &request)?;
        Ok(claimed.map(|claimed| Claimed {
            id: number(claimed.task.id()),
            token: claimed.token.reveal().to_owned(),
        }))
    }

    pub fn send(&self, from: &str, to: Recipient, content: String) -> Result<usize> {
        let outgoing = OutgoingMessage {
            from: from.to_owned(),
            to,
            kind: "message".to_owned(),
            content,
            extra: Map::new(),
        };
        Ok(self.store.send(&self.team, &outgoing)?.len())
    }

    /// Returns the names of the messages that a reader gets.
    pub fn receive(&self, who: &str, limit: usize, ack: bool) -> Result<Vec<String>> {
        let delivery = self.store.receive(&self.team, &reader(who), limit, ack)?;
        assert_eq!(delivery.skipped, 0, "a line is no message");
        let contents = delivery.messages.iter();
        Ok(contents.map(|message| tag(message.content())).collect())
    }

    /// Returns what every reader would get.
    pub fn unread(&self) -> std::result::Result<Vec<Vec<String>>, String> {
        let readers = WORKERS.into_iter().chain(["lead"]);
        readers
            .map(|who| {
                self.receive(who, 100_000, false)
                    .map_err(|error| format!("{who} cannot read: {error}"))
            })
            .collect()
    }

    /// Returns whether the boxes contain exactly these messages.
    pub fn fits(&self, mail: &Mail) -> bool {
        let mut there: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for filed in self.store.messages(&self.team).unwrap() {
            let tag = tag(filed.message.content());
            there.entry(filed.mailbox).or_default().push(tag);
        }
        let expected: BTreeMap<String, Vec<String>> = mail
            .boxes
            .iter()
            .map(|(label, mailbox)| (label.clone(), mailbox.messages.clone()))
            .collect();
        there == expected
    }

    /// Makes an inbox so long that the next message finds it full. An empty line is not a message.
    pub fn fill_inbox(&self, worker: &str) {
        use std::io::Write as _;
        let path = self.team_folder().join(format!("inbox/{worker}.jsonl"));
        let mut file = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .unwrap();
        let mut line = vec![b' '; 1024 * 1024];
        line.push(b'\n');
        file.write_all(&line).unwrap();
    }

    /// Returns how many full segments the mailboxes have.
    pub fn segments(&self) -> usize {
        let inbox = std::fs::read_dir(self.team_folder().join("inbox")).unwrap();
        inbox
            .filter(|entry| {
                let name = entry.as_ref().unwrap().file_name();
                name.to_string_lossy().matches('.').count() == 2
            })
            .count()
    }

    /// Returns the ids and names of all messages of a box, in order.
    pub fn mailbox(&self, label: &str) -> Vec<(String, String)> {
        let filed = self.store.messages(&self.team).unwrap();
        filed
            .into_iter()
            .filter(|filed| filed.mailbox == label)
            .map(|filed| (filed.message.id().to_owned(), tag(filed.message.content())))
            .collect()
    }

    /// Makes a small change: the process that takes the lock repairs the team.
    pub fn touch(&self) -> Result<()> {
        let event = recorded("worker.started", "test", &serde_json::json!({}));
        self.store.record(&self.team, event).map(drop)
    }

    /// Reads every task file for changes by other programs.
    pub fn notice(&self) -> Result<()> {
        self.store
            .change(&self.team, "look", &mut |tx| tx.refresh().map(drop))
            .map(drop)
    }

    /// Reads the state from the files.
    pub fn observe(&self) -> Tasks {
        let list = self.store.tasks(&self.team).unwrap();
        assert!(list.problems.is_empty(), "{:?}", list.problems);
        let tasks = list.tasks.iter().map(|task| {
            let failure = self.store.failure(&self.team, task.id()).unwrap();
            let failures = failure.map_or(0, |failure| failure.retry_count);
            (number(task.id()), self.abstracted(task, failures))
        });
        Tasks {
            tasks: tasks.collect(),
        }
    }

    fn abstracted(&self, task: &Task, failures: u32) -> model::Task {
        let object = task.as_object();
        let metadata = object.get("metadata").and_then(Value::as_object);
        let mut extra = BTreeMap::new();
        for (key, value) in object {
            if !KNOWN.contains(&key.as_str()) {
                extra.insert(key.clone(), value.to_string());
            }
        }
        for (key, value) in metadata.into_iter().flatten() {
            if !KNOWN_METADATA.contains(&key.as_str()) {
                extra.insert(format!("metadata.{key}"), value.to_string());
            }
        }
        model::Task {
            subject: task.subject().to_owned(),
            status: task.status(),
            owner: task.owner().map(str::to_owned),
            assigned: task.assigned_to().map(str::to_owned),
            blocked_by: task.blocked_by().iter().map(number).collect(),
            blocks: task.blocks().iter().map(number).collect(),
            failed: task.is_failed(),
            attempts: metadata
                .and_then(|metadata| metadata.get("failedAttempts")?.as_u64())
                .unwrap_or(0),
            failures,
            not_before: task.not_before().map(teamster_types::Time::as_millis),
            fence: task.fence(),
            claim: task.claim().map(|claim| model::Claim {
                token: claim.token.reveal().to_owned(),
                worker: claim.worker.to_string(),
                ghost: claim.process() == self.dead,
                until: claim.leased_until.as_millis(),
            }),
            extra,
        }
    }

    /// Returns tasks with a half-written leftover claim lock: they cannot be claimed before it is 30 seconds old.
    pub fn locked(&self) -> BTreeSet<u64> {
        let mut locked = BTreeSet::new();
        for entry in std::fs::read_dir(self.tasks_folder()).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let Some(id) = name.strip_suffix(".lock").and_then(|id| id.parse().ok()) else {
                continue;
            };
            let written = entry.metadata().unwrap().modified().unwrap();
            let written = written.duration_since(std::time::UNIX_EPOCH).unwrap();
            if self.now() - i64::try_from(written.as_millis()).unwrap() < 30_000 {
                locked.insert(id);
            }
        }
        locked
    }

    /// Returns files and folders that must be gone once the team is repaired.
    pub fn leftovers(&self) -> Vec<String> {
        leftovers(&self.scratch.layout().claude)
    }

    /// Reads new events from the journal, and applies them.
    pub fn follow(&self, told: &mut Told) {
        let page = self
            .store
            .events(&self.team, told.last + 1, usize::MAX)
            .unwrap();
        assert!(page.damaged.is_empty(), "{:?}", page.damaged);
        for event in &page.events {
            assert_eq!(event.seq, told.last + 1, "positions grow by one");
            told.last = event.seq;
            told.tasks.apply(event);
            if event.actor == "foreign"
                && let Some(id) = &event.task_id
            {
                told.foreign.insert(number(id));
            }
        }
    }

    /// Checks whether the journal alone rebuilds the task files; returns the difference.
    pub fn rebuilt_wrong(&self, told: &Told) -> Option<String> {
        let list = self.store.tasks(&self.team).unwrap();
        let rebuilt: Vec<&Task> = told.tasks.iter().collect();
        let ids =
            |tasks: &[&Task]| -> Vec<u64> { tasks.iter().map(|task| number(task.id())).collect() };
        let there: Vec<&Task> = list.tasks.iter().collect();
        if ids(&rebuilt) != ids(&there) {
            return Some(format!(
                "the journal tells of tasks {:?}, but there are {:?}",
                ids(&rebuilt),
                ids(&there)
            ));
        }
        rebuilt
            .iter()
            .zip(&there)
            .find(|(told, there)| !rebuild::is_same_task(told, there))
            .map(|(told, there)| {
                format!(
                    "the journal rebuilds\n{}\nbut the file says\n{}",
                    Value::Object(told.public()),
                    Value::Object(there.public())
                )
            })
    }

    /// Writes a task file like another program: in place, or to a new file that replaces it.
    pub fn write_as_foreign(&self, id: u64, object: &Map<String, Value>, in_place: bool) {
        let text = serde_json::to_string_pretty(&json!(object)).unwrap();
        let file = self.task_file(id);
        if in_place {
            std::fs::write(file, text).unwrap();
        } else {
            let beside = self.tasks_folder().join(".claude-write");
            std::fs::write(&beside, text).unwrap();
            std::fs::rename(beside, file).unwrap();
        }
    }

    pub fn read_as_foreign(&self, id: u64) -> Map<String, Value> {
        let bytes = std::fs::read(self.task_file(id)).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }
}

/// The state that the journal has given so far.
#[derive(Default)]
pub struct Told {
    last: u64,
    tasks: rebuild::Tasks,
    /// Tasks that other programs changed, by the journal.
    pub foreign: BTreeSet<u64>,
}

pub struct Claimed {
    pub id: u64,
    pub token: String,
}

pub fn number(id: &TaskId) -> u64 {
    u64::try_from(id.number()).unwrap()
}

pub fn reader(who: &str) -> Reader {
    match who.parse::<WorkerName>() {
        Ok(worker) => Reader::Worker(worker),
        Err(_) => Reader::Lead,
    }
}

/// Returns the name of a message, which is the text before its padding.
fn tag(content: &str) -> String {
    content.split(' ').next().unwrap_or_default().to_owned()
}

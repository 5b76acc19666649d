//! The export of a whole team, for moving it from one store to another.
//!
//! Values that stores count differently have one form here: a position in a mailbox is the number of lines before it.
//! Heartbeats are not exported, because they belong to processes that write to the old store.

use std::collections::{BTreeSet, HashMap};

use teamster_journal::payload::TaskChange;
use teamster_journal::{Event, EventActor, EventKind, NewEvent};
use teamster_types::failure::Failure;
use teamster_types::message::{Mailbox, Message};
use teamster_types::task::{Status, Task};
use teamster_types::team::{SCHEMA, TeamConfig, TeamOrigin};
use teamster_types::transitions;
use teamster_types::{TaskId, TeamName, Time, WorkerName};

use crate::error::{Result, StoreError, StoreErrorKind};
use crate::store::Signal;

/// The recorded reason for releasing a task that is in progress when its team is exported.
const MOVED: &str = "its team was exported while it was in progress";

/// Everything that another store needs to continue a team.
#[derive(Clone, Debug, PartialEq)]
pub struct TeamExport {
    /// The name of the team.
    pub team: TeamName,
    /// The registry.
    pub config: TeamConfig,
    /// The highest task id ever assigned, so that none is assigned twice.
    pub highest_task: Option<TaskId>,
    /// The tasks, in the order of their ids. None of them is in progress.
    pub tasks: Vec<Task>,
    /// The failure records of tasks, in the order of their ids.
    pub failures: Vec<Failure>,
    /// The mailboxes that have lines, in the order of their names.
    pub mailboxes: Vec<ExportedMailbox>,
    /// The stop signals that wait, by worker.
    pub signals: Vec<(WorkerName, Signal)>,
    /// The journal, in the order of its positions.
    pub events: Vec<Event>,
}

/// A mailbox with all its lines.
#[derive(Clone, Debug, PartialEq)]
pub struct ExportedMailbox {
    /// Which mailbox it is.
    pub mailbox: Mailbox,
    /// How many lines are acknowledged.
    pub acked: u64,
    /// How many lines were delivered at least once.
    pub delivered: u64,
    /// The lines, oldest first.
    pub lines: Vec<MailLine>,
}

/// A line of a mailbox.
#[derive(Clone, Debug, PartialEq)]
pub enum MailLine {
    /// A message.
    Message(Message),
    /// A line that another program wrote and that is not a message, as text without a line end.
    Foreign(String),
}

impl MailLine {
    /// Parses a line. A line that is not a message becomes text that every store can hold.
    pub fn parse(bytes: &[u8]) -> Self {
        match Message::parse(bytes) {
            Ok(message) => Self::Message(message),
            Err(_) => Self::Foreign(
                String::from_utf8_lossy(bytes).replace(['\0', '\n', '\r'], "\u{fffd}"),
            ),
        }
    }

    /// Returns the line as it is stored, without its line end.
    pub fn text(&self) -> String {
        match self {
            Self::Message(message) => {
                serde_json::to_string(message.as_object()).unwrap_or_default()
            }
            Self::Foreign(text) => text.clone(),
        }
    }
}

impl TeamExport {
    /// Returns the position of the last event; 0 when there is none.
    pub fn position(&self) -> u64 {
        self.events.last().map_or(0, |event| event.seq)
    }

    /// Returns the number of lines in all mailboxes.
    pub fn messages(&self) -> usize {
        let mailboxes = self.mailboxes.iter();
        mailboxes.map(|mailbox| mailbox.lines.len()).sum()
    }

    /// Releases every task in progress, with an event for each, and returns the ids of these tasks.
    ///
    /// The export carries the fence of a task, but not the token of its claim: the worker that held the task in the old
    /// store cannot write in the new one, and the next claim there has a higher fence. No attempt is counted. Two
    /// exports of the same state are identical, so the events take their ids and their time from the journal.
    pub(crate) fn release_claims(&mut self) -> Result<Vec<TaskId>> {
        let mut released = Vec::new();
        let ts = self.events.last().map(|event| event.ts);
        for task in &mut self.tasks {
            if task.status() != Status::InProgress {
                continue;
            }
            let before = task.clone();
            transitions::release(task, None)?;
            released.push(task.id().clone());
            let change = TaskChange::between(Some(&before), Some(task)).reason(MOVED);
            let event = NewEvent::new(EventActor::System, EventKind::TaskReleased(change));
            let seq = self.events.last().map_or(0, |event| event.seq) + 1;
            let id = format!("export-{seq}-{}", task.id());
            let ts = ts.or(before.created_at()).unwrap_or(Time::from_millis(0));
            let team = self.team.to_string();
            self.events
                .push(event.task(task.id()).placed(seq, id, ts, team));
        }
        Ok(released)
    }

    /// Refuses an export that no store could work with. The error names what is wrong.
    pub(crate) fn check(&self) -> Result<()> {
        let team = &self.team;
        if self.config.kind() != TeamOrigin::Teamster {
            return Err(not_ours(team));
        }
        let schema = TeamConfig::schema_of(&self.config.to_file());
        if let Some(newer) = schema.filter(|schema| *schema > SCHEMA) {
            return Err(StoreError::refused(format!(
                "team {team} uses a newer format ({newer}) than this teamster supports ({SCHEMA})"
            ))
            .hint("use the newer teamster that wrote it; nothing was changed"));
        }
        let held = self
            .tasks
            .iter()
            .find(|task| task.status() == Status::InProgress);
        if let Some(held) = held {
            return Err(damaged(format!(
                "task {} of team {team} is in progress, and an export holds no claims",
                held.id()
            )));
        }
        let mut names = BTreeSet::new();
        for mailbox in &self.mailboxes {
            let (label, size) = (mailbox.mailbox.label(), mailbox.lines.len() as u64);
            if mailbox.acked > mailbox.delivered || mailbox.delivered > size {
                return Err(damaged(format!(
                    "{label} has {size} lines, of which {} are delivered and {} acknowledged",
                    mailbox.delivered, mailbox.acked
                )));
            }
            if !names.insert(label.clone()) {
                return Err(damaged(format!("{label} appears twice")));
            }
        }
        if !self.tasks.is_sorted_by(|one, next| one.id() < next.id()) {
            return Err(damaged("the tasks are not sorted by id".into()));
        }
        if !self
            .failures
            .is_sorted_by(|one, next| one.task_id < next.task_id)
        {
            return Err(damaged("the failures are not sorted by task".into()));
        }
        if !self.events.is_sorted_by(|one, next| one.seq < next.seq) || self.events.is_empty() {
            return Err(damaged("the journal is not sorted by position".into()));
        }
        Ok(())
    }
}

/// Returns the error for a team that belongs to Claude Code, and so cannot be moved to another store.
pub(crate) fn not_ours(team: &TeamName) -> StoreError {
    StoreError::refused(format!(
        "team {team} belongs to Claude Code, which keeps it in its own files"
    ))
    .hint("only teams created by teamster can be moved; nothing was changed")
}

fn damaged(what: String) -> StoreError {
    StoreError::new(StoreErrorKind::Failed, what).hint("nothing was changed; export the team again")
}

/// The positions of the lines of every mailbox, as one store counts them.
#[derive(Debug, Default)]
pub struct MailPlaces(HashMap<String, Vec<u64>>);

impl MailPlaces {
    /// Adds a mailbox, with the position after each of its lines.
    pub fn add(&mut self, mailbox: &Mailbox, behind: Vec<u64>) {
        self.0.insert(mailbox.label(), behind);
    }

    /// Returns how many lines of a mailbox are before a position. Lines that no longer exist are not counted.
    pub fn count_before(&self, mailbox: &str, place: u64) -> u64 {
        let counted = |behind: &Vec<u64>| behind.partition_point(|end| *end <= place) as u64;
        self.0.get(mailbox).map_or(0, counted)
    }

    /// Returns the position after the first `count` lines of a mailbox.
    pub fn place_behind(&self, mailbox: &str, count: u64) -> u64 {
        let Some(behind) = self.0.get(mailbox) else {
            return 0;
        };
        let last = usize::try_from(count)
            .unwrap_or(usize::MAX)
            .min(behind.len());
        last.checked_sub(1).map_or(0, |last| behind[last])
    }
}

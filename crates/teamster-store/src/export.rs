//! A team as a whole, on its way from one store to another.
//!
//! What is counted differently in different stores is counted in one way here: a place in a mailbox is the number of lines
//! before it. Heartbeats stay behind: they tell of processes that write to the old store.

use std::collections::{BTreeSet, HashMap};

use teamster_journal::payload::TaskChange;
use teamster_journal::{Event, EventActor, EventKind, NewEvent};
use teamster_types::failure::Failure;
use teamster_types::message::{Mailbox, Message};
use teamster_types::task::{Status, Task};
use teamster_types::team::{SCHEMA, TeamConfig, TeamOrigin};
use teamster_types::transitions;
use teamster_types::{TaskId, TeamName, Time, WorkerName};

use crate::error::{Kind, Result, StoreError};
use crate::store::Signal;

/// Why a task that somebody works on is free in the export.
const MOVED: &str = "its team was exported while it was worked on";

/// Everything of a team that another store needs to go on with it.
#[derive(Clone, Debug, PartialEq)]
pub struct TeamExport {
    /// The name of the team.
    pub team: TeamName,
    /// The registry.
    pub config: TeamConfig,
    /// The highest id of a task that was ever given, so that none is given twice.
    pub highest_task: Option<TaskId>,
    /// The tasks, in the order of their ids. Nobody works on any of them.
    pub tasks: Vec<Task>,
    /// How tasks failed so far, in the order of their ids.
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
    /// Which one it is.
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
    /// Something else that another program wrote there, as text without a line end.
    Foreign(String),
}

impl MailLine {
    /// Reads a line. What is no message is kept as text that every store can hold.
    pub fn parse(bytes: &[u8]) -> Self {
        match Message::parse(bytes) {
            Ok(message) => Self::Message(message),
            Err(_) => Self::Foreign(
                String::from_utf8_lossy(bytes).replace(['\0', '\n', '\r'], "\u{fffd}"),
            ),
        }
    }

    /// Returns the line as it is kept, without its end.
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

    /// Returns how many lines lie in all mailboxes.
    pub fn messages(&self) -> usize {
        let mailboxes = self.mailboxes.iter();
        mailboxes.map(|mailbox| mailbox.lines.len()).sum()
    }

    /// Puts every task that somebody works on back to pending, with the event that tells so, and returns which those are.
    ///
    /// The proof of a claim is not among what is carried, and the fence is: so whoever held the task in the old store cannot
    /// write in the new one, and the next claim there has a higher fence. No attempt is counted. Two exports of the same state
    /// are the same, so the events get their ids and their time from the journal.
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

    /// Refuses what no store could go on with. The error names what is wrong.
    pub(crate) fn check(&self) -> Result<()> {
        let team = &self.team;
        if self.config.kind() != TeamOrigin::Teamster {
            return Err(not_ours(team));
        }
        let schema = TeamConfig::schema_of(&self.config.to_file());
        if let Some(newer) = schema.filter(|schema| *schema > SCHEMA) {
            return Err(StoreError::refused(format!(
                "team {team} is kept in a newer format ({newer}) than this teamster knows ({SCHEMA})"
            ))
            .hint("use the newer teamster that has written it; nothing was changed"));
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
                return Err(damaged(format!("{label} stands there twice")));
            }
        }
        if !self.tasks.is_sorted_by(|one, next| one.id() < next.id()) {
            return Err(damaged(
                "the tasks are not in the order of their ids".into(),
            ));
        }
        if !self
            .failures
            .is_sorted_by(|one, next| one.task_id < next.task_id)
        {
            return Err(damaged(
                "the failures are not in the order of their tasks".into(),
            ));
        }
        if !self.events.is_sorted_by(|one, next| one.seq < next.seq) || self.events.is_empty() {
            return Err(damaged(
                "the journal is not in the order of its positions".into(),
            ));
        }
        Ok(())
    }
}

/// Returns the error for a team that a store of ours does not keep alone.
pub(crate) fn not_ours(team: &TeamName) -> StoreError {
    StoreError::refused(format!(
        "team {team} belongs to Claude Code, which keeps it in files of its own"
    ))
    .hint("only teams that teamster has made can be moved; nothing was changed")
}

fn damaged(what: String) -> StoreError {
    StoreError::new(Kind::Failed, what).hint("nothing was changed; export the team again")
}

/// The places of the lines of every mailbox, as one store counts them.
#[derive(Debug, Default)]
pub struct MailPlaces(HashMap<String, Vec<u64>>);

impl MailPlaces {
    /// Adds a mailbox, with the place behind each of its lines.
    pub fn add(&mut self, mailbox: &Mailbox, behind: Vec<u64>) {
        self.0.insert(mailbox.label(), behind);
    }

    /// Returns how many lines of a mailbox lie before a place. Lines that are gone count as none.
    pub fn count_before(&self, mailbox: &str, place: u64) -> u64 {
        let counted = |behind: &Vec<u64>| behind.partition_point(|end| *end <= place) as u64;
        self.0.get(mailbox).map_or(0, counted)
    }

    /// Returns the place behind so many lines of a mailbox.
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

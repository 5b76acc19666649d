//! Tickets: pieces of a session's work that must be done before it continues.

use serde::{Deserialize, Serialize};
use serde_json::json;
use teamster_fs::{Durability, layout};
use teamster_types::Time;
use teamster_types::json::Object;
use teamster_types::redact::redact;

use crate::{Party, PartyError, Result};

/// The maximum length of a title, in characters.
const TITLE_LIMIT: usize = 500;
/// The maximum length of a description in characters, as for a task.
const DESCRIPTION_LIMIT: usize = 10_000;

/// The status of a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum TicketStatus {
    /// It waits for something else.
    Blocked,
    /// The work has not begun.
    Todo,
    /// The work is in progress.
    InProgress,
    /// The work is done.
    Done,
}

impl TicketStatus {
    /// Every status, in order of progress.
    pub const ALL: [Self; 4] = [Self::Blocked, Self::Todo, Self::InProgress, Self::Done];

    /// Returns its name in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Blocked => "BLOCKED",
            Self::Todo => "TODO",
            Self::InProgress => "IN_PROGRESS",
            Self::Done => "DONE",
        }
    }

    /// Returns the status with this name, ignoring case.
    pub fn of(word: &str) -> Result<Self> {
        let wanted = word.to_uppercase();
        Self::ALL
            .into_iter()
            .find(|status| status.as_str() == wanted)
            .ok_or_else(|| {
                let all = Self::ALL.map(Self::as_str).join(", ");
                PartyError::refused(
                    format!("`{word}` is not a status"),
                    format!("statuses are {all}"),
                )
            })
    }
}

/// A ticket, as stored in its file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ticket {
    /// The id, as in `TICKET-001`.
    pub id: String,
    /// What is to be done.
    pub title: String,
    /// Everything that the assignee needs to know. Older versions did not write it.
    #[serde(default)]
    pub description: String,
    /// The status.
    pub status: TicketStatus,
    /// The assignee.
    #[serde(default)]
    pub assignee: Option<String>,
    /// When it was created.
    pub created_at: Time,
    /// When it was last changed.
    pub updated_at: Time,
    /// Data of other programs.
    #[serde(flatten)]
    pub more: Object,
}

/// The content of a new ticket.
#[derive(Clone, Debug)]
pub struct NewTicket {
    /// What is to be done.
    pub title: String,
    /// Everything that the assignee needs to know.
    pub description: String,
    /// The assignee.
    pub assignee: Option<String>,
}

/// A task of a run, as its ticket shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskTicket {
    /// The number of the task.
    pub task: String,
    /// What is to be done.
    pub title: String,
    /// Everything that the assignee needs to know.
    pub description: String,
    /// The assignee or current worker.
    pub assignee: Option<String>,
    /// The status.
    pub status: TicketStatus,
}

/// The key under which a ticket names its task.
const TASK: &str = "task";

impl Ticket {
    /// Returns the number of its task, or `None` when a person created the ticket.
    pub fn task(&self) -> Option<&str> {
        self.more.get(TASK)?.as_str()
    }
}

impl Party {
    /// Updates the tickets of a run's tasks. A task without a ticket gets one if `may_create` is set, and the ticket of
    /// a removed task becomes DONE. Tickets that people created are not changed.
    pub fn follow_tasks(&self, tasks: &[TaskTicket], may_create: bool, now: Time) -> Result<()> {
        let _held = self.lock()?;
        let mut tickets = self.tickets()?;
        for ticket in &mut tickets {
            let Some(number) = ticket.task() else {
                continue;
            };
            let task = tasks.iter().find(|task| task.task == number);
            let (status, assignee) = match task {
                Some(task) => (task.status, task.assignee.clone()),
                None => (TicketStatus::Done, ticket.assignee.clone()),
            };
            let before = ticket.status;
            if before == status && ticket.assignee == assignee {
                continue;
            }
            (ticket.status, ticket.assignee, ticket.updated_at) = (status, assignee, now);
            self.save_ticket(ticket)?;
            if before != status {
                self.append_update(ticket, before, now)?;
            }
        }
        let is_known = |task: &TaskTicket| {
            let mut numbers = tickets.iter().filter_map(Ticket::task);
            numbers.any(|number| number == task.task)
        };
        for task in tasks.iter().filter(|task| may_create && !is_known(task)) {
            let mut more = Object::new();
            more.insert(TASK.to_owned(), json!(task.task));
            let new = NewTicket {
                title: task.title.chars().take(TITLE_LIMIT).collect(),
                description: task.description.chars().take(DESCRIPTION_LIMIT).collect(),
                assignee: task.assignee.clone(),
            };
            self.add_ticket(&new, task.status, more, now)?;
        }
        Ok(())
    }

    /// Creates a ticket.
    pub fn create_ticket(&self, new: &NewTicket, now: Time) -> Result<Ticket> {
        if new.title.trim().is_empty() || new.title.chars().count() > TITLE_LIMIT {
            return Err(PartyError::refused(
                format!("a title has 1 to {TITLE_LIMIT} characters"),
                "say in one line what is to be done",
            ));
        }
        if new.description.chars().count() > DESCRIPTION_LIMIT {
            return Err(PartyError::refused(
                format!("a description has at most {DESCRIPTION_LIMIT} characters"),
                "say it shorter, or put it into a finding",
            ));
        }
        let _held = self.lock()?;
        self.must_session()?;
        self.add_ticket(new, TicketStatus::Todo, Object::new(), now)
    }

    /// Writes a ticket with the next number. The caller holds the lock.
    fn add_ticket(
        &self,
        new: &NewTicket,
        status: TicketStatus,
        more: Object,
        now: Time,
    ) -> Result<Ticket> {
        let folder = self.folder(layout::TICKETS)?;
        let highest = folder
            .entries()?
            .iter()
            .filter_map(|entry| number(&entry.name))
            .max();
        let ticket = Ticket {
            id: format!("TICKET-{:03}", highest.unwrap_or(0) + 1),
            title: redact(&new.title).into_owned(),
            description: redact(&new.description).into_owned(),
            status,
            assignee: new.assignee.clone(),
            created_at: now,
            updated_at: now,
            more,
        };
        self.save_ticket(&ticket)?;
        self.append_event(
            now,
            &json!({ "type": "ticket.created", "ticket": ticket.id }),
        )?;
        Ok(ticket)
    }

    /// Returns every ticket, by number.
    pub fn tickets(&self) -> Result<Vec<Ticket>> {
        let mut found: Vec<(u64, Ticket)> = Vec::new();
        let Some(folder) = self.dir.child(layout::TICKETS)? else {
            return Ok(Vec::new());
        };
        for entry in folder.entries()? {
            if let Some(number) = number(&entry.name)
                && let Some((bytes, _)) = folder.read(&entry.name)?
            {
                let ticket = serde_json::from_slice(&bytes)
                    .map_err(|error| PartyError::damaged(&entry.name, &error))?;
                found.push((number, ticket));
            }
        }
        found.sort_by_key(|(number, _)| *number);
        Ok(found.into_iter().map(|(_, ticket)| ticket).collect())
    }

    /// Changes the status of a ticket.
    pub fn update_ticket(&self, id: &str, status: TicketStatus, now: Time) -> Result<Ticket> {
        let _held = self.lock()?;
        let mut tickets = self.tickets()?.into_iter();
        let Some(mut ticket) = tickets.find(|ticket| ticket.id.eq_ignore_ascii_case(id)) else {
            return Err(PartyError::not_found(
                format!("there is no ticket {id}"),
                "`teamster ticket list` shows all",
            ));
        };
        let before = ticket.status;
        ticket.status = status;
        ticket.updated_at = now;
        self.save_ticket(&ticket)?;
        self.append_update(&ticket, before, now)?;
        Ok(ticket)
    }

    fn append_update(&self, ticket: &Ticket, before: TicketStatus, now: Time) -> Result<()> {
        let (id, status) = (&ticket.id, ticket.status);
        self.append_event(
            now,
            &json!({ "type": "ticket.updated", "ticket": id, "from": before, "to": status }),
        )
    }

    /// Returns the ids of tickets that are not done. An unreadable ticket counts as not done.
    pub(crate) fn open_tickets(&self) -> Result<Vec<String>> {
        let open = self.tickets()?.into_iter();
        let open = open.filter(|ticket| ticket.status != TicketStatus::Done);
        Ok(open.map(|ticket| ticket.id).collect())
    }

    fn save_ticket(&self, ticket: &Ticket) -> Result<()> {
        let folder = self.folder(layout::TICKETS)?;
        let mut bytes = serde_json::to_vec_pretty(ticket)
            .map_err(|error| PartyError::damaged(&ticket.id, &error))?;
        bytes.push(b'\n');
        let name = format!("{}.json", ticket.id);
        Ok(folder.replace(&name, &bytes, Durability::Durable)?)
    }
}

fn number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("TICKET-")?.strip_suffix(".json")?;
    digits.parse().ok()
}

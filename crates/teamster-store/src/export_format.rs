//! The text form of a [`TeamExport`]: JSON lines, the same in every store.
//!
//! ```text
//! {"teamsterExport":1,"team":"crew","highestTask":"12","position":340}
//! {"config":{…}}
//! {"task":"3","content":{…}}                               each task, by its number
//! {"failure":{"taskId":"3",…}}                             each record of failures, by its number
//! {"mailbox":"inbox/ada","acked":2,"delivered":3}          each mailbox, before its lines
//! {"mail":{…}}  or  {"mail":"what is no message"}          each line of that mailbox, oldest first
//! {"signal":{…},"worker":"ada","drain":false}              each stop signal
//! {"event":{"seq":1,…}}                                    each event, by its position
//! {"end":{"tasks":12,"failures":1,"messages":9,"signals":0,"events":340,"sha256":"…"}}
//! ```
//!
//! The last line counts the others and has the checksum of all bytes before it, so that a truncated or modified file is
//! detected. A reader refuses a version above its own, and reports a line that it does not understand by its number.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use teamster_journal::Event;
use teamster_types::failure::Failure;
use teamster_types::json::{Object, to_line};
use teamster_types::message::{Mailbox, Message};
use teamster_types::task::Task;
use teamster_types::team::TeamConfig;
use teamster_types::{TaskId, TeamName, WorkerName};

use crate::error::{Result, StoreError, StoreErrorKind};
use crate::export::{ExportedMailbox, MailLine, TeamExport};
use crate::store::Signal;

/// The version of the format that this teamster writes. It increases with a change that an older reader would
/// misunderstand.
pub const EXPORT_VERSION: u64 = 1;

/// The key that identifies the first line.
const VERSION: &str = "teamsterExport";

/// The counts and the checksum in the last line.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExportTrailer {
    tasks: usize,
    failures: usize,
    messages: usize,
    signals: usize,
    events: usize,
    sha256: String,
}

impl ExportTrailer {
    fn of(export: &TeamExport, sum: String) -> Self {
        Self {
            tasks: export.tasks.len(),
            failures: export.failures.len(),
            messages: export.messages(),
            signals: export.signals.len(),
            events: export.events.len(),
            sha256: sum,
        }
    }
}

impl TeamExport {
    /// Returns the export as JSON lines.
    pub fn to_lines(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut line = |value: &Value| bytes.extend(to_line(value));
        line(&json!({
            VERSION: EXPORT_VERSION,
            "team": self.team,
            "highestTask": self.highest_task,
            "position": self.position(),
        }));
        line(&json!({ "config": self.config.as_object() }));
        for task in &self.tasks {
            line(&json!({ "task": task.id(), "content": task.as_object() }));
        }
        for failure in &self.failures {
            line(&json!({ "failure": failure }));
        }
        for mailbox in &self.mailboxes {
            let label = mailbox.mailbox.label();
            line(
                &json!({ "mailbox": label, "acked": mailbox.acked, "delivered": mailbox.delivered }),
            );
            for mail in &mailbox.lines {
                line(&match mail {
                    MailLine::Message(message) => json!({ "mail": message.as_object() }),
                    MailLine::Foreign(text) => json!({ "mail": text }),
                });
            }
        }
        for (worker, signal) in &self.signals {
            line(&json!({ "signal": signal, "worker": worker, "drain": signal.drain }));
        }
        for event in &self.events {
            line(&json!({ "event": event }));
        }
        let ending = ExportTrailer::of(self, sum_of(&bytes));
        bytes.extend(to_line(&json!({ "end": ending })));
        bytes
    }

    /// Parses JSON lines. An error names the number of the line.
    pub fn from_lines(bytes: &[u8]) -> Result<Self> {
        let mut reader = ExportReader::default();
        let mut rest = bytes;
        let mut number = 0;
        while !rest.is_empty() {
            number += 1;
            let length = rest.iter().position(|byte| *byte == b'\n');
            let Some(length) = length else {
                return Err(at_line(number, "it is truncated: it has no end"));
            };
            let (line, after) = (&rest[..length], &rest[length + 1..]);
            let before = &bytes[..bytes.len() - rest.len()];
            reader.read(line, number, before)?;
            rest = after;
        }
        reader.finish(number)
    }
}

fn sum_of(bytes: &[u8]) -> String {
    let mut sum = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        let _ = write!(sum, "{byte:02x}");
    }
    sum
}

fn at_line(number: usize, what: impl std::fmt::Display) -> StoreError {
    StoreError::new(
        StoreErrorKind::Failed,
        format!("line {number} of the export cannot be imported: {what}"),
    )
    .hint("nothing was changed; export the team again")
}

/// The kind of a line. The variants are in the order of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum LineKind {
    #[default]
    Nothing,
    Header,
    Config,
    Tasks,
    Failures,
    Mail,
    Signals,
    Events,
    End,
}

/// The state of the parser: what was read so far.
#[derive(Debug, Default)]
struct ExportReader {
    part: LineKind,
    header: Option<ExportHeader>,
    config: Option<TeamConfig>,
    tasks: Vec<Task>,
    failures: Vec<Failure>,
    mailboxes: Vec<ExportedMailbox>,
    signals: Vec<(WorkerName, Signal)>,
    events: Vec<Event>,
    ending: Option<(ExportTrailer, String)>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ExportHeader {
    #[serde(rename = "teamsterExport")]
    _version: u64,
    team: TeamName,
    highest_task: Option<TaskId>,
    position: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MailboxLine {
    mailbox: String,
    acked: u64,
    delivered: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SignalLine {
    signal: Signal,
    worker: WorkerName,
    drain: bool,
}

fn typed<T: serde::de::DeserializeOwned>(object: Object) -> Result<T, String> {
    serde_json::from_value(Value::Object(object)).map_err(|error| error.to_string())
}

fn bytes_of(value: &Value) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

impl ExportReader {
    /// Parses one line; `before` holds all bytes of the lines before it.
    fn read(&mut self, line: &[u8], number: usize, before: &[u8]) -> Result<()> {
        let object = teamster_types::json::parse_object(line);
        let object = object.map_err(|error| at_line(number, error))?;
        if number == 1 {
            refuse_other_versions(&object)?;
        }
        let known = object.keys().find_map(|key| line_kind(key));
        let Some(part) = known else {
            let key = object.keys().next().map_or("{}", String::as_str);
            return Err(at_line(
                number,
                format!(
                    "there is no record `{}`",
                    teamster_types::text::clean(key, 60)
                ),
            ));
        };
        let follows = part > self.part || part == self.part && part >= LineKind::Tasks;
        let is_first = matches!(part, LineKind::Header) == (number == 1);
        if !follows || !is_first || self.part == LineKind::End {
            return Err(at_line(number, "it does not belong here"));
        }
        self.part = part;
        self.take(part, object, before)
            .map_err(|error| at_line(number, error))
    }

    fn take(&mut self, part: LineKind, mut object: Object, before: &[u8]) -> Result<(), String> {
        match part {
            LineKind::Nothing => {}
            LineKind::Header => self.header = Some(typed(object)?),
            LineKind::Config => {
                let config = object.get("config").map(bytes_of).unwrap_or_default();
                self.config = Some(TeamConfig::parse(&config)?);
            }
            LineKind::Tasks => {
                let id = object
                    .get("task")
                    .and_then(Value::as_str)
                    .unwrap_or_default();
                let id: TaskId = id.parse().map_err(|error| format!("{error}"))?;
                let content = object.get("content").ok_or("it has no `content`")?;
                let task = Task::parse(&id, &bytes_of(content))?;
                if task.status() == teamster_types::task::Status::InProgress {
                    return Err(format!(
                        "task {id} is in progress, and an export holds no claims"
                    ));
                }
                if self.tasks.last().is_some_and(|last| last.id() >= &id) {
                    return Err(format!("task {id} is out of order"));
                }
                self.tasks.push(task);
            }
            LineKind::Failures => {
                let failure = object.remove("failure").unwrap_or_default();
                let failure: Failure =
                    serde_json::from_value(failure).map_err(|error| error.to_string())?;
                let id = &failure.task_id;
                if self.failures.last().is_some_and(|last| last.task_id >= *id) {
                    return Err(format!("the failures of task {id} are out of order"));
                }
                self.failures.push(failure);
            }
            LineKind::Mail => self.take_mail(object)?,
            LineKind::Signals => {
                let line: SignalLine = typed(object)?;
                let drain = line.drain;
                self.signals.push((
                    line.worker,
                    Signal {
                        drain,
                        ..line.signal
                    },
                ));
            }
            LineKind::Events => {
                let event = object.remove("event").unwrap_or_default();
                let event: Event =
                    serde_json::from_value(event).map_err(|error| error.to_string())?;
                if self.events.last().is_some_and(|last| last.seq >= event.seq) {
                    return Err(format!("event {} is out of order", event.seq));
                }
                self.events.push(event);
            }
            LineKind::End => {
                let ending = object.remove("end").unwrap_or_default();
                let ending = serde_json::from_value(ending).map_err(|error| error.to_string())?;
                self.ending = Some((ending, sum_of(before)));
            }
        }
        Ok(())
    }

    fn take_mail(&mut self, mut object: Object) -> Result<(), String> {
        if object.contains_key("mailbox") {
            let line: MailboxLine = typed(object)?;
            let mailbox = mailbox_of(&line.mailbox)
                .ok_or_else(|| format!("{:?} is not a mailbox", line.mailbox))?;
            self.mailboxes.push(ExportedMailbox {
                mailbox,
                acked: line.acked,
                delivered: line.delivered,
                lines: Vec::new(),
            });
            return Ok(());
        }
        let mailbox = self.mailboxes.last_mut();
        let mailbox = mailbox.ok_or("it comes before any mailbox")?;
        mailbox.lines.push(match object.remove("mail") {
            Some(Value::String(text)) if MailLine::parse(text.as_bytes()).text() == text => {
                MailLine::Foreign(text)
            }
            Some(value @ Value::Object(_)) => MailLine::Message(Message::parse(&bytes_of(&value))?),
            _ => return Err("it is not a line of a mailbox".to_owned()),
        });
        Ok(())
    }

    /// Compares what was read with the counts in the last line, and returns the export.
    fn finish(self, number: usize) -> Result<TeamExport> {
        let (Some(header), Some(config), Some((ending, sum))) =
            (self.header, self.config, self.ending)
        else {
            return Err(at_line(
                number + 1,
                "it is missing: the file ends before its last line",
            ));
        };
        let export = TeamExport {
            team: header.team,
            config,
            highest_task: header.highest_task,
            tasks: self.tasks,
            failures: self.failures,
            mailboxes: self.mailboxes,
            signals: self.signals,
            events: self.events,
        };
        let found = ExportTrailer::of(&export, sum);
        if found.sha256 == ending.sha256 && found != ending || export.position() != header.position
        {
            return Err(at_line(
                number,
                "its line counts do not match the lines before it",
            ));
        }
        if found != ending {
            return Err(at_line(
                number,
                "its checksum does not match the lines before it: the file was changed or damaged",
            ));
        }
        export.check()?;
        Ok(export)
    }
}

fn line_kind(key: &str) -> Option<LineKind> {
    Some(match key {
        VERSION => LineKind::Header,
        "config" => LineKind::Config,
        "task" => LineKind::Tasks,
        "failure" => LineKind::Failures,
        "mailbox" | "mail" => LineKind::Mail,
        "signal" => LineKind::Signals,
        "event" => LineKind::Events,
        "end" => LineKind::End,
        _ => return None,
    })
}

fn refuse_other_versions(header: &Object) -> Result<()> {
    match header.get(VERSION).and_then(Value::as_u64) {
        Some(EXPORT_VERSION) => Ok(()),
        Some(newer) if newer > EXPORT_VERSION => Err(StoreError::refused(format!(
            "the export has format version {newer}, written by a newer teamster; this one supports {EXPORT_VERSION}"
        ))
        .hint("use the newer teamster; nothing was changed")),
        _ => Err(at_line(1, "it is not the first line of a teamster export")),
    }
}

/// Returns the mailbox with a label such as `inbox/ada`.
pub fn mailbox_of(label: &str) -> Option<Mailbox> {
    match label.split_once('/')? {
        ("inbox", "lead") => Some(Mailbox::Lead),
        ("inbox", worker) => Some(Mailbox::Inbox(worker.parse().ok()?)),
        ("outbox", worker) => Some(Mailbox::Outbox(worker.parse().ok()?)),
        _ => None,
    }
}

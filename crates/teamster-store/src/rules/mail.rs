//! Messages: which mailbox they go to, who may read them, and what has been acknowledged.

use serde_json::{Value, json};
use teamster_journal::payload::{CursorMoved, MalformedMessage, MessageSent};
use teamster_journal::{EventActor, EventKind, NewEvent};
use teamster_types::message::{CONTENT_LIMIT, Mailbox, Message};
use teamster_types::team::{TeamConfig, TeamMember, TeamOrigin};
use teamster_types::{Time, WorkerName};

use crate::backend::{MailCursor, Position, Txn};
use crate::error::{Result, StoreError, StoreErrorKind};
use crate::store::{Delivery, OutgoingMessage, Reader, Recipient};

/// How many lines are read from a mailbox at once.
const PAGE: usize = 256;
/// The name of the lead as a sender.
const LEAD: &str = "lead";

pub(super) fn send(tx: &mut dyn Txn, outgoing: &OutgoingMessage) -> Result<Vec<Message>> {
    if outgoing.content.len() > CONTENT_LIMIT {
        return Err(StoreError::refused(format!(
            "the message has {} bytes; the limit is {CONTENT_LIMIT}",
            outgoing.content.len()
        ))
        .hint("put it into a file and send its path"));
    }
    let config = tx.config()?;
    let routes = routes(tx, &config, outgoing)?;
    let mut sent = Vec::with_capacity(routes.len());
    let mut missed = Vec::new();
    for route in &routes {
        let mut message = write(tx, outgoing, route.name());
        if let MailRoute::Native(_) = route {
            message = to_client_format(message, &config, tx.now());
        }
        match route {
            MailRoute::Box(mailbox, _) => tx.deliver(mailbox, message.clone())?,
            MailRoute::Native(name) => match tx.deliver_native(name, &message) {
                // One unwritable inbox must not stop the broadcast to the others.
                Err(error) if routes.len() > 1 && !error.busy => {
                    missed.push(format!("{name}: {error}"));
                    continue;
                }
                delivered => delivered?,
            },
        }
        sent.push(message);
    }
    if sent.is_empty() {
        return Err(StoreError::new(StoreErrorKind::Failed, missed.join("; ")));
    }
    let mut event = MessageSent {
        message_type: outgoing.kind.clone(),
        content: outgoing.content.clone(),
        extra: outgoing.extra.clone(),
        missed,
        ..MessageSent::default()
    };
    match (&outgoing.to, sent.first()) {
        (Recipient::All, _) => {
            let ids = sent.iter().map(|message| message.id().to_owned());
            event.to = Some("all".to_owned());
            event.sent = Some(sent.len());
            event.message_ids = Some(ids.take(64).collect());
        }
        (_, Some(message)) => {
            event.to = Some(message.to().to_owned());
            event.message_id = Some(message.id().to_owned());
        }
        (_, None) => {}
    }
    tx.event(NewEvent::new(&outgoing.from, EventKind::MessageSent(event)));
    Ok(sent)
}

fn write(tx: &mut dyn Txn, outgoing: &OutgoingMessage, to: &str) -> Message {
    let id = tx.random();
    let mut message = Message::new(
        &id,
        &outgoing.kind,
        &outgoing.from,
        to,
        &outgoing.content,
        tx.now(),
    );
    for (key, value) in &outgoing.extra {
        message = message.with(key, value.clone());
    }
    if outgoing.to == Recipient::All {
        message = message.with("broadcast", Value::Bool(true));
    }
    message
}

enum MailRoute {
    Box(Mailbox, String),
    Native(String),
}

impl MailRoute {
    fn name(&self) -> &str {
        match self {
            Self::Box(_, name) | Self::Native(name) => name,
        }
    }
}

fn routes(
    tx: &mut dyn Txn,
    config: &TeamConfig,
    outgoing: &OutgoingMessage,
) -> Result<Vec<MailRoute>> {
    let members = config.members();
    match &outgoing.to {
        Recipient::Lead if goes_to_client(config, &outgoing.kind) => {
            Ok(vec![MailRoute::Native(config.lead_name().to_owned())])
        }
        Recipient::Lead => {
            let mailbox = match outgoing.from.parse::<WorkerName>() {
                Ok(worker) => Mailbox::Outbox(worker),
                Err(_) => Mailbox::Lead,
            };
            Ok(vec![MailRoute::Box(mailbox, "lead".to_owned())])
        }
        Recipient::All => {
            let others = members.iter().filter(|member| member.name != outgoing.from);
            let routes: Vec<MailRoute> = others
                .filter_map(|member| route_to(config, member))
                .collect();
            if routes.is_empty() {
                return Err(StoreError::not_found(format!(
                    "team {} has no members to send to",
                    tx.team()
                ))
                .hint("`teamster team join` adds a member"));
            }
            Ok(routes)
        }
        Recipient::Worker(name) => {
            if let Some(member) = members.iter().find(|member| member.name == *name)
                && let Some(route) = route_to(config, member)
            {
                return Ok(vec![route]);
            }
            if let Ok(worker) = name.parse::<WorkerName>() {
                let mailbox = Mailbox::Inbox(worker);
                if tx.has_mailbox(&mailbox)? {
                    return Ok(vec![MailRoute::Box(mailbox, name.clone())]);
                }
            }
            let known: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
            Err(unknown(tx, name, &known))
        }
    }
}

fn route_to(config: &TeamConfig, member: &TeamMember) -> Option<MailRoute> {
    let name = &member.name;
    if member.is_clients(config.kind()) {
        return Some(MailRoute::Native(name.to_owned()));
    }
    let worker = name.parse().ok()?;
    Some(MailRoute::Box(Mailbox::Inbox(worker), name.to_owned()))
}

/// Returns whether a message to the lead goes to Claude Code. Reports that only teamster's commands need stay out: each
/// would cost the lead's model a turn.
fn goes_to_client(config: &TeamConfig, kind: &str) -> bool {
    let is_for_us = matches!(kind, "ready" | "heartbeat" | "all_tasks_complete");
    config.kind() == TeamOrigin::Claude && !is_for_us
}

/// Returns a message in the form that Claude Code and its models understand: a message from the lead carries the name
/// that teammates can reply to, and reports of a worker use Claude Code's own message types or plain text.
fn to_client_format(message: Message, config: &TeamConfig, now: Time) -> Message {
    let task = message.text("taskId");
    let content = message.content();
    let (from, said) = (message.from(), |value: Value| value.to_string());
    let text = match message.kind() {
        "idle" => said(
            json!({"type": "idle_notification", "from": from, "timestamp": now,
            "idleReason": "available", "result": content}),
        ),
        "shutdown_request" => said(
            json!({"type": "shutdown_request", "requestId": message.text("requestId"),
            "from": config.lead_name(), "reason": content, "timestamp": now}),
        ),
        "shutdown_ack" | "drain_ack" => said(json!({"type": "shutdown_approved",
            "requestId": message.text("requestId"), "from": from, "timestamp": now})),
        "task_complete" => format!("Task {task} is done. {content}"),
        "task_failed" => format!("Task {task} failed: {content}"),
        _ => content.to_owned(),
    };
    let from = match from {
        LEAD => config.lead_name().to_owned(),
        other => other.to_owned(),
    };
    message
        .with("from", json!(from))
        .with("content", json!(text))
}

/// Moves the first message that Claude Code wrote to a teamster worker into the worker's mailbox; all of them when the
/// worker leaves (`for_good`) and its Claude Code inbox is removed.
pub(super) fn collect(tx: &mut dyn Txn, worker: &WorkerName, for_good: bool) -> Result<usize> {
    let letters = tx.take_native(worker.as_str(), for_good)?;
    for letter in &letters {
        let message = from_client_format(tx, worker, letter);
        let extra = ["requestId"].into_iter().filter_map(|key| {
            let value = message.as_object().get(key)?;
            Some((key.to_owned(), value.clone()))
        });
        let sent = MessageSent {
            message_type: message.kind().to_owned(),
            content: message.content().to_owned(),
            to: Some(worker.to_string()),
            message_id: Some(message.id().to_owned()),
            extra: extra.collect(),
            ..MessageSent::default()
        };
        tx.event(NewEvent::new(message.from(), EventKind::MessageSent(sent)));
        tx.deliver(&Mailbox::Inbox(worker.clone()), message)?;
    }
    Ok(letters.len())
}

/// Converts an entry of a Claude Code inbox to a message: a shutdown request stays one, anything else becomes text.
fn from_client_format(tx: &mut dyn Txn, worker: &WorkerName, letter: &Value) -> Message {
    let field = |value: &Value, key: &str| -> String {
        let text = value.get(key).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let id = match field(letter, "msg_id") {
        id if id.is_empty() => tx.random(),
        id => id,
    };
    let sent_at = field(letter, "timestamp").parse().unwrap_or(tx.now());
    let text = field(letter, "text");
    let from = match field(letter, "from") {
        from if from.is_empty() => "unknown".to_owned(),
        from => from,
    };
    let program = serde_json::from_str::<Value>(&text).ok();
    let program = program.filter(Value::is_object).unwrap_or_default();
    let message = |kind: &str, content: &str| {
        Message::new(&id, kind, &from, worker.as_str(), content, sent_at)
    };
    match field(&program, "type").as_str() {
        "shutdown_request" => message("shutdown_request", &field(&program, "reason"))
            .with("requestId", json!(field(&program, "requestId"))),
        "task_assignment" => {
            let (task, subject) = (field(&program, "taskId"), field(&program, "subject"));
            message("message", &format!("Task {task} is yours: {subject}"))
        }
        _ => message("message", &text),
    }
}

fn unknown(tx: &dyn Txn, name: &str, known: &[&str]) -> StoreError {
    let error = StoreError::not_found(format!("team {} has no member {name:?}", tx.team()));
    let mut near: Vec<&str> = known.to_vec();
    near.sort_by_key(|member| distance(name, member));
    near.truncate(3);
    if near.is_empty() {
        error.hint("`teamster team join` adds a member")
    } else {
        error.hint(format!("did you mean {}?", near.join(", ")))
    }
}

/// Returns the edit distance between two names.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substituted = corner + usize::from(x != *y);
            corner = row[j + 1];
            row[j + 1] = substituted.min(corner + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// Returns the mailboxes of a reader. Refuses a worker that is not a member and has no mailbox.
fn boxes(tx: &mut dyn Txn, reader: &Reader) -> Result<Vec<Mailbox>> {
    let boxes = reader.boxes(tx.outboxes()?);
    if let Reader::Worker(worker) = reader
        && !tx.has_mailbox(&boxes[0])?
        && !tx.has_mailbox(&Mailbox::Outbox(worker.clone()))?
    {
        let config = tx.config()?;
        let members = config.members();
        if !members.iter().any(|member| member.name == worker.as_str()) {
            let known: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
            return Err(unknown(tx, worker.as_str(), &known));
        }
    }
    Ok(boxes)
}

pub(super) fn receive(
    tx: &mut dyn Txn,
    reader: &Reader,
    limit: usize,
    ack: bool,
) -> Result<Delivery> {
    let mut delivery = Delivery::default();
    for mailbox in boxes(tx, reader)? {
        let room = limit.saturating_sub(delivery.messages.len());
        if room == 0 {
            break;
        }
        receive_box(tx, reader, &mailbox, room, ack, &mut delivery)?;
    }
    Ok(delivery)
}

fn receive_box(
    tx: &mut dyn Txn,
    reader: &Reader,
    mailbox: &Mailbox,
    limit: usize,
    ack: bool,
    delivery: &mut Delivery,
) -> Result<()> {
    let before = tx.cursor(mailbox)?;
    let mut position = before.acked;
    let mut count = 0;
    'pages: loop {
        let lines = tx.lines(mailbox, position, PAGE)?;
        if lines.is_empty() {
            break;
        }
        for (behind, line) in lines {
            if count == limit {
                break 'pages;
            }
            match line {
                Ok(message) => {
                    delivery.messages.push(message);
                    count += 1;
                }
                Err(reason) => {
                    delivery.skipped += 1;
                    if behind > before.delivered {
                        tx.event(malformed(mailbox, position, &reason));
                    }
                }
            }
            position = behind;
        }
    }
    let after = MailCursor {
        acked: if ack { position } else { before.acked },
        delivered: before.delivered.max(position),
    };
    move_cursor(tx, reader, mailbox, before, after, count)
}

/// Returns a reader's unacknowledged messages without marking them as delivered. Lines that are not messages are
/// journalled as soon as every message before them is delivered.
pub(super) fn peek(tx: &mut dyn Txn, reader: &Reader, limit: usize) -> Result<Delivery> {
    let mut delivery = Delivery::default();
    for mailbox in boxes(tx, reader)? {
        let before = tx.cursor(&mailbox)?;
        let (mut position, mut delivered) = (before.acked, before.delivered);
        let mut is_undelivered = false;
        'pages: while delivery.messages.len() < limit {
            let lines = tx.lines(&mailbox, position, PAGE)?;
            if lines.is_empty() {
                break;
            }
            for (behind, line) in lines {
                match line {
                    Ok(_) if delivery.messages.len() == limit => break 'pages,
                    Ok(message) => {
                        is_undelivered |= behind > delivered;
                        delivery.messages.push(message);
                    }
                    Err(reason) => {
                        delivery.skipped += 1;
                        if behind > delivered && !is_undelivered {
                            tx.event(malformed(&mailbox, position, &reason));
                            delivered = behind;
                        }
                    }
                }
                position = behind;
            }
        }
        if delivered > before.delivered {
            tx.put_cursor(
                &mailbox,
                MailCursor {
                    delivered,
                    ..before
                },
            )?;
        }
    }
    Ok(delivery)
}

fn malformed(mailbox: &Mailbox, at: Position, reason: &str) -> NewEvent {
    let malformed = MalformedMessage {
        mailbox: mailbox.label(),
        at: at.0,
        error: reason.to_owned(),
    };
    NewEvent::new(EventActor::System, EventKind::MessageMalformed(malformed))
}

fn move_cursor(
    tx: &mut dyn Txn,
    reader: &Reader,
    mailbox: &Mailbox,
    before: MailCursor,
    after: MailCursor,
    count: usize,
) -> Result<()> {
    if after == before {
        return Ok(());
    }
    tx.put_cursor(mailbox, after)?;
    let moved = |from: Position, to: Position| CursorMoved {
        mailbox: mailbox.label(),
        from: from.0,
        up_to: to.0,
        count,
    };
    if after.delivered > before.delivered {
        let delivered = moved(before.delivered, after.delivered);
        tx.event(NewEvent::new(
            reader.name(),
            EventKind::MessageDelivered(delivered),
        ));
    }
    if after.acked > before.acked {
        let acked = moved(before.acked, after.acked);
        tx.event(NewEvent::new(reader.name(), EventKind::MessageAcked(acked)));
    }
    Ok(())
}

pub(super) fn acknowledge(tx: &mut dyn Txn, reader: &Reader, id: &str) -> Result<u64> {
    if id.is_empty() {
        return Err(StoreError::refused("a message id cannot be empty"));
    }
    for mailbox in boxes(tx, reader)? {
        let before = tx.cursor(&mailbox)?;
        let (mut position, mut count) = (before.acked, 0_usize);
        // Malformed lines that are not journalled yet, because no reader got this far.
        let mut passed = Vec::new();
        loop {
            let lines = tx.lines(&mailbox, position, PAGE)?;
            if lines.is_empty() {
                break;
            }
            for (behind, line) in lines {
                let begin = std::mem::replace(&mut position, behind);
                let message = match line {
                    Ok(message) => message,
                    Err(reason) => {
                        let is_new = behind > before.delivered;
                        passed.extend(is_new.then(|| malformed(&mailbox, begin, &reason)));
                        continue;
                    }
                };
                count += 1;
                if message.id() == id {
                    let after = MailCursor {
                        acked: position,
                        delivered: before.delivered.max(position),
                    };
                    for event in passed {
                        tx.event(event);
                    }
                    move_cursor(tx, reader, &mailbox, before, after, count)?;
                    return Ok(count as u64);
                }
            }
        }
        if was_acknowledged(tx, &mailbox, before.acked, id)? {
            return Ok(0);
        }
    }
    Err(
        StoreError::not_found(format!("{} has no message {}", reader.name(), json!(id)))
            .hint("`teamster message read` shows what is not acknowledged yet"),
    )
}

/// Returns whether a message was acknowledged before. Acknowledging twice is not an error.
fn was_acknowledged(
    tx: &mut dyn Txn,
    mailbox: &Mailbox,
    until: Position,
    id: &str,
) -> Result<bool> {
    let mut position = Position::default();
    while position < until {
        let lines = tx.lines(mailbox, position, PAGE)?;
        if lines.is_empty() {
            break;
        }
        for (behind, line) in lines {
            // Compare the beginning of the line: empty lines may follow it.
            let begin = std::mem::replace(&mut position, behind);
            if line.is_ok_and(|message| message.id() == id) {
                return Ok(begin < until);
            }
        }
    }
    Ok(false)
}

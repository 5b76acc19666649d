//! Messages: which box, who may read, what has been acknowledged.

use serde_json::{Value, json};
use teamster_journal::payload::{CursorMoved, MalformedMessage, MessageSent};
use teamster_journal::{EventActor, EventKind, NewEvent};
use teamster_types::WorkerName;
use teamster_types::message::{CONTENT_LIMIT, Mailbox, Message};
use teamster_types::team::{TeamConfig, TeamOrigin};

use crate::backend::{MailCursor, Position, Txn};
use crate::error::{Kind, Result, StoreError};
use crate::store::{Delivery, Outgoing, Reader, Recipient};

/// Lines are taken from a box in pages of this size.
const PAGE: usize = 256;

pub(super) fn send(tx: &mut dyn Txn, outgoing: &Outgoing) -> Result<Vec<Message>> {
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
        let message = write(tx, outgoing, route.name());
        match route {
            MailRoute::Box(mailbox, _) => tx.deliver(mailbox, message.clone())?,
            MailRoute::Native(name) => match tx.deliver_native(name, &message) {
                // One inbox that cannot be written must not keep a broadcast from the others.
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
        return Err(StoreError::new(Kind::Failed, missed.join("; ")));
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

fn write(tx: &mut dyn Txn, outgoing: &Outgoing, to: &str) -> Message {
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

fn routes(tx: &mut dyn Txn, config: &TeamConfig, outgoing: &Outgoing) -> Result<Vec<MailRoute>> {
    let members = config.members();
    match &outgoing.to {
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
                .filter_map(|member| route_to(config, &member.name, &member.backend))
                .collect();
            if routes.is_empty() {
                return Err(StoreError::not_found(format!(
                    "team {} has nobody to send to",
                    tx.team()
                ))
                .hint("`teamster team join` adds a member"));
            }
            Ok(routes)
        }
        Recipient::Worker(name) => {
            if let Some(member) = members.iter().find(|member| member.name == *name)
                && let Some(route) = route_to(config, name, &member.backend)
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

fn route_to(config: &TeamConfig, name: &str, backend: &str) -> Option<MailRoute> {
    if config.kind() == TeamOrigin::Claude || backend == "claude-native" {
        return Some(MailRoute::Native(name.to_owned()));
    }
    let worker = name.parse().ok()?;
    Some(MailRoute::Box(Mailbox::Inbox(worker), name.to_owned()))
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

/// Returns how many single-character edits lie between two names.
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

/// Returns the boxes of a reader. A worker that is no member and has no box is nobody.
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

/// Returns what a reader has not acknowledged yet. No message counts as delivered by that; lines that are none are named in
/// the journal as soon as no message lies before them that is not delivered yet.
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
        // Lines that nobody has named yet, because nobody read this far.
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

/// Acknowledging twice is no error.
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
            // What counts is where it begins: empty lines may lie behind it.
            let begin = std::mem::replace(&mut position, behind);
            if line.is_ok_and(|message| message.id() == id) {
                return Ok(begin < until);
            }
        }
    }
    Ok(false)
}

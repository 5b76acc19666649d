//! What was sent, and whether it was delivered.

use std::time::Duration;

use serde_json::{Value, json};
use teamster_journal::{EventType, family};
use teamster_store::{ReadStore, Result, StoredMessage};
use teamster_types::TeamName;

/// A message that is unread for this long is shown as undelivered.
pub const DELIVERY_DUE: Duration = Duration::from_secs(60);

/// Returns a message with its receipts, as `message list` shows it: all its fields, its position, `sentAt`,
/// `deliveredAt` and `ackedAt`.
pub fn to_json(filed: &StoredMessage) -> Value {
    let mut object = filed.message.as_object().clone();
    object.insert("box".into(), json!(filed.mailbox));
    object.insert("sentAt".into(), json!(filed.message.timestamp()));
    object.insert("deliveredAt".into(), json!(filed.delivered_at));
    object.insert("ackedAt".into(), json!(filed.acked_at));
    Value::Object(object)
}

/// The message types of workers' reports to the lead. The host of a run reads the journal instead, and leaves the
/// mailboxes to people.
const REPORTS: [&str; 9] = [
    "ready",
    "idle",
    "heartbeat",
    "task_complete",
    "task_failed",
    "all_tasks_complete",
    "shutdown_ack",
    "drain_ack",
    "error",
];

/// Returns the messages that are overdue for reading. Those of a finished run do not count.
pub fn overdue(read: &dyn ReadStore, team: &TeamName) -> Result<Vec<StoredMessage>> {
    let now = read.now();
    let due = i64::try_from(DELIVERY_DUE.as_millis()).unwrap_or(i64::MAX);
    let before = teamster_types::Time::from_millis(now.as_millis().saturating_sub(due));
    let mut waiting = read.undelivered(team, before)?;
    if !waiting.is_empty()
        && let Some(last) = read.last_of(team, &[family::RUN])?
    {
        let is_over = last.is(EventType::RunFinished);
        waiting.retain(|filed| {
            let is_report = REPORTS.contains(&filed.message.kind());
            let came_later = filed.message.timestamp().is_some_and(|sent| sent > last.ts);
            !(is_over && !came_later || is_report && filed.mailbox.starts_with("outbox/"))
        });
    }
    Ok(waiting)
}

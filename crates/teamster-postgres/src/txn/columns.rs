//! The writes of a transaction, column by column, as the functions of the schema expect them.

use teamster_types::graph::Blocker;
use teamster_types::task::{Status, Task};
use teamster_types::{TaskId, Time};
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use super::{LocksHeld, PgTxn};
use crate::session::Param;
use crate::store::{config_text, stored};

/// Inserts the tasks of a team that is imported.
pub(crate) const INSERT_TASKS: &str = "INSERT INTO teamster.tasks (team, id, number, fence, status, owner, leased_until, not_before, \
        offered, passing, capabilities, blockers, body) \
    SELECT $1, put.id, put.number, put.fence, put.status, put.owner, put.lease, put.pause, put.offered, put.passing, \
        string_to_array(put.capabilities, chr(31)), string_to_array(put.blockers, chr(31)), put.body \
    FROM unnest($2, $3::text[]::numeric[], $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) \
        AS put (id, number, fence, status, owner, lease, pause, offered, passing, capabilities, blockers, body)";

/// Separates the entries of a list in a single text.
const BETWEEN: &str = "\u{1f}";

/// The arguments of `teamster.apply`, column by column.
#[derive(Default)]
pub(crate) struct AppliedColumns {
    has_lock: bool,
    config_version: Option<i64>,
    highest: Option<String>,
    read_ids: Vec<String>,
    read_versions: Vec<i64>,
    config: Option<String>,
    ids: Vec<String>,
    numbers: Vec<String>,
    fences_before: Vec<Option<i64>>,
    fences: Vec<i64>,
    statuses: Vec<i16>,
    owners: Vec<Option<String>>,
    leases: Vec<Option<i64>>,
    pauses: Vec<Option<i64>>,
    offered: Vec<bool>,
    passing: Vec<bool>,
    capabilities: Vec<String>,
    blockers: Vec<String>,
    bodies: Vec<String>,
    removed: Vec<String>,
    failed: Vec<String>,
    failures: Vec<Option<String>>,
    boxes: Vec<String>,
    messages: Vec<String>,
    cursor_boxes: Vec<String>,
    acked_before: Vec<i64>,
    acked: Vec<i64>,
    delivered: Vec<i64>,
    signal_workers: Vec<String>,
    drains: Vec<bool>,
    signals: Vec<String>,
    obeyed: Vec<String>,
    event_ids: Vec<String>,
    kinds: Vec<String>,
    events: Vec<String>,
}

impl AppliedColumns {
    pub(super) fn of(txn: &mut PgTxn<'_>) -> Self {
        let mut written = Self {
            has_lock: txn.held == LocksHeld::Team,
            config_version: txn.relied_config,
            highest: txn.relied_highest.take(),
            config: txn.new_config.as_deref().map(config_text),
            obeyed: txn.obeyed.iter().map(ToString::to_string).collect(),
            ..Self::default()
        };
        for (id, read) in &txn.tasks {
            written.read_ids.push(id.to_string());
            written.read_versions.push(read.version);
        }
        for (id, task) in &txn.new_tasks {
            let before = txn.tasks.get(id).filter(|read| read.version > 0);
            match task {
                Some(task) => written.put(task, before.map(|read| read.fence)),
                None => written.removed.push(id.to_string()),
            }
        }
        for (id, failure) in &txn.new_failures {
            written.failed.push(id.to_string());
            let text = failure.as_ref().map(json_text);
            written.failures.push(text);
        }
        for (mailbox, message) in &txn.mail {
            written.boxes.push(mailbox.label());
            written.messages.push(json_text(message.as_object()));
        }
        for (mailbox, cursor) in &txn.cursors {
            written.cursor_boxes.push(mailbox.label());
            let before = txn.acked.get(mailbox).copied().unwrap_or(0);
            written.acked_before.push(before);
            written.acked.push(stored(cursor.acked.0));
            written.delivered.push(stored(cursor.delivered.0));
        }
        for (worker, signal) in &txn.signals {
            written.signal_workers.push(worker.to_string());
            written.drains.push(signal.drain);
            written.signals.push(json_text(signal));
        }
        let count = txn.events.len();
        for (place, event) in txn.events.drain(..).enumerate() {
            let id = match place {
                0 => txn.nonce.to_owned(),
                _ => teamster_fs::random_hex(),
            };
            let mut event = event.placed(0, id, txn.now, txn.name.to_string());
            event.more = place + 1 < count;
            written.events.push(json_text(&event));
            written.event_ids.push(event.id);
            written.kinds.push(event.kind);
        }
        written
    }

    pub(crate) fn put(&mut self, task: &Task, fence_before: Option<i64>) {
        let plain = |text: &str| text.replace('\0', "");
        self.ids.push(task.id().to_string());
        self.numbers.push(task.id().number().to_string());
        self.fences_before.push(fence_before);
        self.fences.push(stored(task.fence()));
        self.statuses.push(match task.status() {
            Status::Pending => 0,
            Status::InProgress => 1,
            Status::Completed => 2,
        });
        self.owners.push(task.owner().map(plain));
        let lease = task.claim().map(|claim| claim.leased_until.as_millis());
        self.leases.push(lease);
        self.pauses.push(task.not_before().map(Time::as_millis));
        self.offered
            .push(!task.is_internal() && task.block().is_none());
        self.passing.push(Blocker::of(Some(task)) == Blocker::Done);
        let capabilities = task.capabilities();
        let capabilities: Vec<String> = capabilities.iter().map(|name| plain(name)).collect();
        self.capabilities.push(capabilities.join(BETWEEN));
        let blockers: Vec<&str> = task.blocked_by().iter().map(TaskId::as_str).collect();
        self.blockers.push(blockers.join(BETWEEN));
        self.bodies.push(json_text(task.as_object()));
    }

    /// Returns the columns of tasks alone, for `INSERT_TASKS`.
    pub(crate) fn task_params<'p>(&'p self, team: &'p &str) -> Vec<Param<'p>> {
        let (texts, numbers, flags) = (Type::TEXT_ARRAY, Type::INT8_ARRAY, Type::BOOL_ARRAY);
        vec![
            (team, Type::TEXT),
            (&self.ids, texts.clone()),
            (&self.numbers, texts.clone()),
            (&self.fences, numbers.clone()),
            (&self.statuses, Type::INT2_ARRAY),
            (&self.owners, texts.clone()),
            (&self.leases, numbers.clone()),
            (&self.pauses, numbers),
            (&self.offered, flags.clone()),
            (&self.passing, flags),
            (&self.capabilities, texts.clone()),
            (&self.blockers, texts.clone()),
            (&self.bodies, texts),
        ]
    }

    /// Returns the arguments of `teamster.apply_one` if the transaction qualifies: it writes the one task that it read,
    /// adds one event, and relies on nothing else but the registry.
    pub(super) fn one_task_params<'p>(&'p self, txn: &'p PgTxn<'_>) -> Option<Vec<Param<'p>>> {
        let [id] = &self.ids[..] else {
            return None;
        };
        let ([read_id], [version]) = (&self.read_ids[..], &self.read_versions[..]) else {
            return None;
        };
        let ([Some(fence_before)], [event]) = (&self.fences_before[..], &self.events[..]) else {
            return None;
        };
        let writes_more = self.config.is_some()
            || self.highest.is_some()
            || txn.claims.is_some()
            || !self.boxes.is_empty()
            || !self.cursor_boxes.is_empty()
            || !self.signal_workers.is_empty();
        let removes = [&self.removed, &self.failed, &self.obeyed];
        let removes_nothing = removes.iter().all(|removed| removed.is_empty());
        if self.has_lock || id != read_id || writes_more || !removes_nothing {
            return None;
        }
        Some(vec![
            (&txn.team_text, Type::TEXT),
            (&self.config_version, Type::INT8),
            (id, Type::TEXT),
            (version, Type::INT8),
            (fence_before, Type::INT8),
            (&self.fences[0], Type::INT8),
            (&self.statuses[0], Type::INT2),
            (&self.owners[0], Type::TEXT),
            (&self.leases[0], Type::INT8),
            (&self.pauses[0], Type::INT8),
            (&self.offered[0], Type::BOOL),
            (&self.passing[0], Type::BOOL),
            (&self.capabilities[0], Type::TEXT),
            (&self.blockers[0], Type::TEXT),
            (&self.bodies[0], Type::TEXT),
            (&self.event_ids[0], Type::TEXT),
            (&self.kinds[0], Type::TEXT),
            (event, Type::TEXT),
        ])
    }

    pub(super) fn params<'p>(&'p self, txn: &'p PgTxn<'_>) -> Vec<Param<'p>> {
        vec![
            (&txn.team_text, Type::TEXT),
            (&self.has_lock, Type::BOOL),
            (&self.config_version, Type::INT8),
            (&txn.claims, Type::INT8),
            (&self.highest, Type::TEXT),
            texts(&self.read_ids),
            column(&self.read_versions, Type::INT8_ARRAY),
            (&self.config, Type::TEXT),
            texts(&self.ids),
            texts(&self.numbers),
            column(&self.fences_before, Type::INT8_ARRAY),
            column(&self.fences, Type::INT8_ARRAY),
            column(&self.statuses, Type::INT2_ARRAY),
            texts(&self.owners),
            column(&self.leases, Type::INT8_ARRAY),
            column(&self.pauses, Type::INT8_ARRAY),
            column(&self.offered, Type::BOOL_ARRAY),
            column(&self.passing, Type::BOOL_ARRAY),
            texts(&self.capabilities),
            texts(&self.blockers),
            texts(&self.bodies),
            texts(&self.removed),
            texts(&self.failed),
            texts(&self.failures),
            texts(&self.boxes),
            texts(&self.messages),
            texts(&self.cursor_boxes),
            column(&self.acked_before, Type::INT8_ARRAY),
            column(&self.acked, Type::INT8_ARRAY),
            column(&self.delivered, Type::INT8_ARRAY),
            texts(&self.signal_workers),
            column(&self.drains, Type::BOOL_ARRAY),
            texts(&self.signals),
            texts(&self.obeyed),
            texts(&self.event_ids),
            texts(&self.kinds),
            texts(&self.events),
        ]
    }
}

/// A NULL of any type.
#[derive(Debug)]
struct Null;

impl ToSql for Null {
    fn to_sql(
        &self,
        _kind: &Type,
        _out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Send + Sync>> {
        Ok(IsNull::Yes)
    }

    fn accepts(_kind: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// Returns a column as a parameter. An empty column is passed as NULL, which saves the server an array.
#[allow(
    clippy::ptr_arg,
    reason = "the library of the database takes vectors, not slices"
)]
fn column<T>(values: &Vec<T>, kind: Type) -> Param<'_>
where
    Vec<T>: ToSql + Sync,
{
    if values.is_empty() {
        (&Null, kind)
    } else {
        (values, kind)
    }
}

#[allow(
    clippy::ptr_arg,
    reason = "the library of the database takes vectors, not slices"
)]
fn texts<T>(values: &Vec<T>) -> Param<'_>
where
    Vec<T>: ToSql + Sync,
{
    column(values, Type::TEXT_ARRAY)
}

/// Returns a record in its stored form.
pub(crate) fn json_text(record: &impl serde::Serialize) -> String {
    serde_json::to_string(record).unwrap_or_default()
}

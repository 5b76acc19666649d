//! One change of one team: what it reads, with versions, and what it writes at the end.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use serde_json::Value;
use teamster_journal::{Event, NewEvent};
use teamster_store::{Candidates, MailCursor, Position, Result, Signal, StoreError, Txn};
use teamster_types::failure::{Failure, LONGEST_BACKOFF};
use teamster_types::graph::Blocker;
use teamster_types::heartbeat::Heartbeat;
use teamster_types::message::{Mailbox, Message};
use teamster_types::paths::Reservations;
use teamster_types::process::{Life, ProcessId};
use teamster_types::task::{Status, Task};
use teamster_types::team::TeamConfig;
use teamster_types::{TaskId, TeamName, Time, WorkerName};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::read;
use crate::session::{Param, Session, StatementError};
use crate::store::{ChangeError, Manner, PgStore, config_text, no_team, position, stored};

/// What was read of a task: version 0 stands for none.
#[derive(Clone)]
struct ReadTask {
    version: i64,
    fence: i64,
    task: Option<Task>,
}

/// What the change holds on the server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Held {
    /// Every statement is a transaction of its own.
    Nothing,
    /// A transaction is open, with the rows that were offered.
    Rows,
    /// A transaction is open, with the lock of the team.
    Team,
}

/// Who asked for a task, and what it can do.
struct AskedFor {
    worker: String,
    capabilities: Vec<String>,
    lost: Vec<String>,
}

/// A change that is being made.
pub(crate) struct PgTxn<'a> {
    store: &'a PgStore,
    session: &'a mut Session,
    name: &'a TeamName,
    team_text: &'a str,
    /// The id of the first event.
    nonce: &'a str,
    now: Time,
    held: Held,
    waits_for_claims: bool,
    /// The tasks that were offered so far, and who asked for what.
    offers: Vec<TaskId>,
    asked: Option<AskedFor>,
    config: TeamConfig,
    config_version: i64,
    /// The version of the registry that the change relies on.
    relied_config: Option<i64>,
    /// The highest number of a task, and the one that the change relies on.
    highest: String,
    relied_highest: Option<String>,
    has_assigned: bool,
    /// The count of claims when the tasks in progress were read.
    claims: Option<i64>,
    tasks: HashMap<TaskId, ReadTask>,
    acked: HashMap<Mailbox, i64>,
    /// What keeps the change from being made, found where a rule cannot be told.
    trouble: Option<ChangeError>,

    new_config: Option<TeamConfig>,
    new_tasks: BTreeMap<TaskId, Option<Task>>,
    new_failures: BTreeMap<TaskId, Option<Failure>>,
    mail: Vec<(Mailbox, Message)>,
    cursors: Vec<(Mailbox, MailCursor)>,
    signals: Vec<(WorkerName, Signal)>,
    obeyed: Vec<WorkerName>,
    events: Vec<NewEvent>,
    /// Whether anything is written though no event tells of it.
    writes_silently: bool,
}

const OPEN: &str = "SELECT teamster.now_millis(), t.config, t.config_version, p.highest::text, \
    EXISTS (SELECT FROM teamster.tasks a WHERE a.team = $1 AND a.status = 0 AND a.owner IS NOT NULL) \
    FROM teamster.teams t JOIN teamster.positions p ON p.team = t.name WHERE t.name = $1";
/// Takes the lock of the team first. The row of the team is read by a statement of its own, which sees what the last holder wrote.
const LOCK: &str = "SELECT seq FROM teamster.positions WHERE team = $1 FOR NO KEY UPDATE";

impl<'a> PgTxn<'a> {
    pub(crate) fn open(
        store: &'a PgStore,
        session: &'a mut Session,
        name: &'a TeamName,
        nonce: &'a str,
        manner: Manner,
    ) -> Result<Self, ChangeError> {
        let locks_first = manner.locks_first;
        let team = [(&name.as_str() as _, Type::TEXT)];
        if locks_first {
            session.begin_with(&store.url, LOCK, &team)?;
        }
        let asked = Instant::now();
        let rows = session.query(&store.url, OPEN, &team);
        let opened = rows.map_err(ChangeError::from).and_then(|rows| {
            let row = rows
                .first()
                .ok_or_else(|| ChangeError::Refused(no_team(name)))?;
            let config = TeamConfig::parse(row.get::<_, &str>(1).as_bytes())
                .map_err(|error| ChangeError::Refused(read::damaged("the registry", &error)))?;
            Ok((
                Time::from_millis(row.get(0)),
                config,
                row.get(2),
                row.get(3),
                row.get(4),
            ))
        });
        let (server, config, config_version, highest, has_assigned) = match opened {
            Ok(opened) => opened,
            Err(trouble) => {
                if locks_first {
                    let _ = session.execute(&store.url, "ROLLBACK");
                }
                return Err(trouble);
            }
        };
        store.note_time(server, asked);
        let now = match &store.settings.clock {
            Some(clock) => clock.now(),
            None => server,
        };
        Ok(Self {
            store,
            session,
            name,
            team_text: name.as_str(),
            nonce,
            now,
            held: if locks_first {
                Held::Team
            } else {
                Held::Nothing
            },
            waits_for_claims: manner.waits_for_claims,
            offers: Vec::new(),
            asked: None,
            config,
            config_version,
            relied_config: None,
            highest,
            relied_highest: None,
            has_assigned,
            claims: None,
            tasks: HashMap::new(),
            acked: HashMap::new(),
            trouble: None,
            new_config: None,
            new_tasks: BTreeMap::new(),
            new_failures: BTreeMap::new(),
            mail: Vec::new(),
            cursors: Vec::new(),
            signals: Vec::new(),
            obeyed: Vec::new(),
            events: Vec::new(),
            writes_silently: false,
        })
    }

    /// Ends the change without having made it, and says what the error means for the next try.
    pub(crate) fn abandon(mut self, error: StoreError) -> ChangeError {
        self.roll_back();
        self.trouble.take().unwrap_or(ChangeError::Refused(error))
    }

    fn roll_back(&mut self) {
        if std::mem::replace(&mut self.held, Held::Nothing) != Held::Nothing {
            // A connection that cannot even do that is found to be closed by the next one who takes it.
            let _ = self.session.execute(&self.store.url, "ROLLBACK");
        }
    }

    fn query(&mut self, statement: &str, params: &[Param<'_>]) -> Result<Vec<Row>> {
        let done = self.session.query(&self.store.url, statement, params);
        self.noting(done)
    }

    /// Keeps what went wrong on the way to the server, so that the change is tried again whatever the rule makes of it.
    fn noting<T>(&mut self, done: Result<T, StatementError>) -> Result<T> {
        done.map_err(|trouble| {
            let (shown, kept) = match trouble {
                StatementError::Lost(error) => {
                    let shown = StoreError::new(error.kind, error.message.clone());
                    (shown, ChangeError::Lost(error))
                }
                StatementError::Refused(state, error) => {
                    let shown = StoreError::new(error.kind, error.message.clone());
                    (
                        shown,
                        ChangeError::from(StatementError::Refused(state, error)),
                    )
                }
            };
            self.trouble.get_or_insert(kept);
            shown
        })
    }

    /// Takes the lock of the team now, for a rule that decides by what nobody may add to meanwhile.
    fn lock(&mut self) -> Result<()> {
        let team = [(&self.name.as_str() as _, Type::TEXT)];
        let locked = if self.held == Held::Nothing {
            self.held = Held::Rows;
            self.session.begin_with(&self.store.url, LOCK, &team)
        } else {
            self.session.query(&self.store.url, LOCK, &team)
        };
        self.noting(locked)?;
        self.held = Held::Team;
        Ok(())
    }

    /// Notes rows of `id, version, fence, body`, and returns their ids.
    fn note_tasks(&mut self, rows: &[Row]) -> Result<Vec<TaskId>> {
        let mut ids = Vec::with_capacity(rows.len());
        for row in rows {
            let task = read::task(row.get(0), row.get(3))?;
            let id = task.id().clone();
            let read = ReadTask {
                version: row.get(1),
                fence: row.get(2),
                task: Some(task),
            };
            // What was read first is what the rule has seen.
            self.tasks.entry(id.clone()).or_insert(read);
            ids.push(id);
        }
        Ok(ids)
    }

    fn read_task(&mut self, id: &TaskId) -> Result<Option<Task>> {
        if !self.tasks.contains_key(id) {
            let rows = self.query(
                "SELECT id, version, fence, body FROM teamster.tasks WHERE team = $1 AND id = $2",
                &[
                    (&self.name.as_str(), Type::TEXT),
                    (&id.as_str(), Type::TEXT),
                ],
            )?;
            if self.note_tasks(&rows)?.is_empty() {
                let none = ReadTask {
                    version: 0,
                    fence: 0,
                    task: None,
                };
                self.tasks.insert(id.clone(), none);
            }
        }
        Ok(self.tasks.get(id).and_then(|read| read.task.clone()))
    }

    /// Makes the change. Returns the position before its first event, or `None` when nothing was to be written.
    pub(crate) fn commit(mut self) -> Result<Option<u64>, ChangeError> {
        if let Some(trouble) = self.trouble.take() {
            self.roll_back();
            return Err(trouble);
        }
        if self.events.is_empty() && !self.writes_silently {
            self.roll_back();
            return Ok(None);
        }
        let written = AppliedColumns::of(&mut self);
        let mut params = written.params(&self);
        let url = &self.store.url;
        let host = self.store.host.as_str();
        let apply = if host.is_empty() {
            APPLY
        } else {
            params.push((&host, Type::TEXT));
            APPLY_AS_HOST
        };
        let done = if self.held == Held::Nothing {
            self.session.query(url, apply, &params)
        } else {
            self.session.commit_with(url, apply, &params)
        };
        drop(params);
        match done {
            Ok(rows) => Ok(rows.first().map(|row| position(row.get(0)))),
            Err(trouble) => {
                self.roll_back();
                Err(trouble.into())
            }
        }
    }
}

const APPLY: &str = "SELECT teamster.apply($1, $2, $3, $4, $5::text::numeric, $6, $7, $8, $9, $10::text[]::numeric[], $11, $12, $13, \
    $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37)";

/// The same by a host: the database looks whether it still has its right, in the same transaction.
const APPLY_AS_HOST: &str = "SELECT CASE WHEN set_config('teamster.host', $38, true) IS NOT NULL THEN \
    teamster.apply($1, $2, $3, $4, $5::text::numeric, $6, $7, $8, $9, $10::text[]::numeric[], $11, $12, $13, \
    $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37) END";

/// Adds the tasks of a team that is imported.
pub(crate) const INSERT_TASKS: &str = "INSERT INTO teamster.tasks (team, id, number, fence, status, owner, leased_until, not_before, \
        offered, passing, capabilities, blockers, body) \
    SELECT $1, put.id, put.number, put.fence, put.status, put.owner, put.lease, put.pause, put.offered, put.passing, \
        string_to_array(put.capabilities, chr(31)), string_to_array(put.blockers, chr(31)), put.body \
    FROM unnest($2, $3::text[]::numeric[], $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) \
        AS put (id, number, fence, status, owner, lease, pause, offered, passing, capabilities, blockers, body)";

/// Separates the entries of a list that is one text.
const BETWEEN: &str = "\u{1f}";

/// What `teamster.apply` is given, column by column.
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
    fn of(txn: &mut PgTxn<'_>) -> Self {
        let mut written = Self {
            has_lock: txn.held == Held::Team,
            config_version: txn.relied_config,
            highest: txn.relied_highest.take(),
            config: txn.new_config.as_ref().map(config_text),
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

    fn params<'p>(&'p self, txn: &'p PgTxn<'_>) -> Vec<Param<'p>> {
        let (texts, numbers, flags) = (Type::TEXT_ARRAY, Type::INT8_ARRAY, Type::BOOL_ARRAY);
        vec![
            (&txn.team_text, Type::TEXT),
            (&self.has_lock, Type::BOOL),
            (&self.config_version, Type::INT8),
            (&txn.claims, Type::INT8),
            (&self.highest, Type::TEXT),
            (&self.read_ids, texts.clone()),
            (&self.read_versions, numbers.clone()),
            (&self.config, Type::TEXT),
            (&self.ids, texts.clone()),
            (&self.numbers, texts.clone()),
            (&self.fences_before, numbers.clone()),
            (&self.fences, numbers.clone()),
            (&self.statuses, Type::INT2_ARRAY),
            (&self.owners, texts.clone()),
            (&self.leases, numbers.clone()),
            (&self.pauses, numbers.clone()),
            (&self.offered, flags.clone()),
            (&self.passing, flags.clone()),
            (&self.capabilities, texts.clone()),
            (&self.blockers, texts.clone()),
            (&self.bodies, texts.clone()),
            (&self.removed, texts.clone()),
            (&self.failed, texts.clone()),
            (&self.failures, texts.clone()),
            (&self.boxes, texts.clone()),
            (&self.messages, texts.clone()),
            (&self.cursor_boxes, texts.clone()),
            (&self.acked_before, numbers.clone()),
            (&self.acked, numbers.clone()),
            (&self.delivered, numbers),
            (&self.signal_workers, texts.clone()),
            (&self.drains, flags),
            (&self.signals, texts.clone()),
            (&self.obeyed, texts.clone()),
            (&self.event_ids, texts.clone()),
            (&self.kinds, texts.clone()),
            (&self.events, texts),
        ]
    }
}

/// Returns the longest pause of a task, in milliseconds.
fn longest_pause() -> i64 {
    i64::try_from(LONGEST_BACKOFF.as_millis()).unwrap_or(i64::MAX)
}

/// Returns a record as it is kept.
pub(crate) fn json_text(record: &impl serde::Serialize) -> String {
    serde_json::to_string(record).unwrap_or_default()
}

impl Txn for PgTxn<'_> {
    fn now(&self) -> Time {
        self.now
    }

    fn random(&mut self) -> String {
        teamster_fs::random_hex()
    }

    fn me(&self) -> ProcessId {
        self.store.me.clone()
    }

    fn lease(&self) -> Duration {
        self.store.settings.lease
    }

    fn reservations(&self) -> Reservations {
        self.store.settings.reservations
    }

    fn team(&self) -> &TeamName {
        self.name
    }

    fn events_from(&mut self, from: u64) -> Result<Vec<Event>> {
        self.lock()?;
        let rows = self.query(
            "SELECT seq, body FROM teamster.events WHERE team = $1 AND seq >= $2 ORDER BY seq",
            &[
                (&self.name.as_str(), Type::TEXT),
                (&stored(from), Type::INT8),
            ],
        )?;
        rows.iter()
            .map(|row| read::event(row.get(0), row.get(1)))
            .collect()
    }

    fn config(&mut self) -> Result<TeamConfig> {
        self.relied_config = Some(self.config_version);
        Ok(self.new_config.as_ref().unwrap_or(&self.config).clone())
    }

    fn open_config(&mut self) -> Result<TeamConfig> {
        self.config()
    }

    fn put_config(&mut self, config: TeamConfig) {
        self.new_config = Some(config);
    }

    fn look(&mut self, id: &TaskId) -> Result<Option<Task>> {
        match self.new_tasks.get(id) {
            Some(staged) => Ok(staged.clone()),
            None => self.read_task(id),
        }
    }

    fn open(&mut self, id: &TaskId) -> Result<Option<Task>> {
        self.look(id)
    }

    fn put(&mut self, task: Task) {
        self.new_tasks.insert(task.id().clone(), Some(task));
    }

    fn remove(&mut self, id: &TaskId) -> Result<()> {
        self.new_tasks.insert(id.clone(), None);
        self.new_failures.insert(id.clone(), None);
        Ok(())
    }

    fn new_id(&mut self) -> Result<TaskId> {
        self.relied_highest = Some(self.highest.clone());
        let next = match self.highest.as_str() {
            "0" => Some(TaskId::from_number(1)),
            highest => highest.parse().ok().and_then(|id: TaskId| id.next()),
        };
        next.ok_or_else(|| {
            StoreError::refused(format!("team {} has used up all task ids", self.name))
        })
    }

    fn failure(&mut self, id: &TaskId) -> Result<Option<Failure>> {
        if let Some(staged) = self.new_failures.get(id) {
            return Ok(staged.clone());
        }
        let rows = self.query(
            "SELECT body FROM teamster.failures WHERE team = $1 AND id = $2",
            &[
                (&self.name.as_str(), Type::TEXT),
                (&id.as_str(), Type::TEXT),
            ],
        )?;
        let body = rows.first().map(|row| row.get::<_, String>(0));
        body.map(|body| read::parsed("a record of failures", &body))
            .transpose()
    }

    fn put_failure(&mut self, id: &TaskId, failure: Option<Failure>) {
        self.new_failures.insert(id.clone(), failure);
    }

    fn next_candidate(
        &mut self,
        which: Candidates,
        worker: &WorkerName,
        capabilities: &[String],
        lost: &[WorkerName],
        after: Option<&TaskId>,
    ) -> Result<Option<TaskId>> {
        let is_own = which == Candidates::Own;
        if is_own && !self.has_assigned {
            return Ok(None);
        }
        if after.is_some() && self.held == Held::Rows {
            // What was offered before is not for this worker, but may be for another.
            self.roll_back();
        }
        let capabilities = capabilities.to_vec();
        let lost: Vec<String> = lost.iter().map(ToString::to_string).collect();
        let after = after.map_or_else(|| "-1".to_owned(), |id| id.number().to_string());
        let longest = longest_pause();
        let statement =
            "SELECT * FROM teamster.next_candidate($1, $2, $3, $4, $5, $6::text::numeric, $7, $8)";
        let (team, now) = (self.name.as_str(), self.now.as_millis());
        let worker = worker.as_str();
        let params: [Param<'_>; 8] = [
            (&team, Type::TEXT),
            (&is_own, Type::BOOL),
            (&worker, Type::TEXT),
            (&capabilities, Type::TEXT_ARRAY),
            (&lost, Type::TEXT_ARRAY),
            (&after, Type::TEXT),
            (&now, Type::INT8),
            (&longest, Type::INT8),
        ];
        // The row stays locked until the transaction ends, so that others are offered another task.
        let offered = if self.held == Held::Nothing {
            self.held = Held::Rows;
            self.session.begin_with(&self.store.url, statement, &params)
        } else {
            self.session.query(&self.store.url, statement, &params)
        };
        let rows = self.noting(offered)?;
        let found = self.note_tasks(&rows)?.into_iter().next();
        self.offers.extend(found.clone());
        self.asked = Some(AskedFor {
            worker: worker.to_owned(),
            capabilities,
            lost,
        });
        Ok(found)
    }

    fn has_assigned(&mut self) -> Result<bool> {
        Ok(self.has_assigned)
    }

    fn in_progress(&mut self) -> Result<Vec<TaskId>> {
        let rows = self.query(
            "SELECT t.id, t.version, t.fence, t.body, p.claims FROM teamster.positions p \
             LEFT JOIN teamster.tasks t ON t.team = p.team AND t.status = 1 WHERE p.team = $1 ORDER BY t.number",
            &[(&self.name.as_str(), Type::TEXT)],
        )?;
        if self.claims.is_none() {
            self.claims = rows.first().map(|row| row.get(4));
        }
        let at_work: Vec<Row> = rows
            .into_iter()
            .filter(|row| row.get::<_, Option<&str>>(0).is_some())
            .collect();
        self.note_tasks(&at_work)
    }

    fn refresh(&mut self) -> Result<bool> {
        let Some(asked) = self.asked.take().filter(|_| self.waits_for_claims) else {
            return Ok(false);
        };
        // A task that is passed over because somebody is claiming it may yet be free again: "nothing to do" would be wrong then.
        let offers: Vec<String> = self.offers.iter().map(ToString::to_string).collect();
        let (team, longest) = (self.team_text, longest_pause());
        let rows = self.query(
            "SELECT FROM teamster.tasks t WHERE t.team = $1 AND t.status < 2 AND t.offered AND t.id <> ALL ($2) AND ( \
                teamster.may_suit(t, true, $3, $4, $5, $6, $7) OR teamster.may_suit(t, false, $3, $4, $5, $6, $7)) LIMIT 1",
            &[
                (&team, Type::TEXT),
                (&offers, Type::TEXT_ARRAY),
                (&asked.worker, Type::TEXT),
                (&asked.capabilities, Type::TEXT_ARRAY),
                (&asked.lost, Type::TEXT_ARRAY),
                (&self.now.as_millis(), Type::INT8),
                (&longest, Type::INT8),
            ],
        )?;
        if rows.is_empty() {
            return Ok(false);
        }
        self.trouble.get_or_insert(ChangeError::BeingClaimed);
        Err(StoreError::busy("others are claiming at this moment"))
    }

    fn hold_claim(&mut self, _id: &TaskId, _worker: &WorkerName) -> Result<bool> {
        Ok(true)
    }

    fn drop_claim(&mut self, _id: &TaskId) -> Result<()> {
        Ok(())
    }

    fn life(&self, process: &ProcessId) -> Life {
        self.store.life_of(process)
    }

    fn heartbeat(&mut self, worker: &WorkerName) -> Result<Option<Heartbeat>> {
        let rows = self.query(
            "SELECT body FROM teamster.beats WHERE team = $1 AND worker = $2",
            &[
                (&self.name.as_str(), Type::TEXT),
                (&worker.as_str(), Type::TEXT),
            ],
        )?;
        Ok(rows
            .first()
            .and_then(|row| serde_json::from_str(row.get(0)).ok()))
    }

    fn heartbeats(&mut self) -> Result<Vec<Heartbeat>> {
        let rows = self.query(
            "SELECT body FROM teamster.beats WHERE team = $1 ORDER BY worker COLLATE \"C\"",
            &[(&self.name.as_str(), Type::TEXT)],
        )?;
        Ok(rows
            .iter()
            .filter_map(|row| serde_json::from_str(row.get(0)).ok())
            .collect())
    }

    fn event(&mut self, event: NewEvent) {
        self.events.push(event);
    }

    fn put_unjournalled(&mut self, task: Task) -> Result<()> {
        self.writes_silently = true;
        self.put(task);
        Ok(())
    }

    fn has_mailbox(&mut self, mailbox: &Mailbox) -> Result<bool> {
        let rows = self.query(
            "SELECT FROM teamster.boxes WHERE team = $1 AND box = $2 AND size > 0",
            &[
                (&self.name.as_str(), Type::TEXT),
                (&mailbox.label(), Type::TEXT),
            ],
        )?;
        Ok(!rows.is_empty())
    }

    fn outboxes(&mut self) -> Result<Vec<WorkerName>> {
        let rows = self.query(
            "SELECT box FROM teamster.boxes WHERE team = $1 AND box LIKE 'outbox/%' AND size > 0 ORDER BY box COLLATE \"C\"",
            &[(&self.name.as_str(), Type::TEXT)],
        )?;
        Ok(rows
            .iter()
            .filter_map(|row| row.get::<_, &str>(0).strip_prefix("outbox/")?.parse().ok())
            .collect())
    }

    fn deliver(&mut self, mailbox: &Mailbox, message: Message) -> Result<()> {
        self.mail.push((mailbox.clone(), message));
        Ok(())
    }

    fn deliver_native(&mut self, name: &str, _message: &Message) -> Result<()> {
        Err(StoreError::refused(format!(
            "{name} is a teammate of Claude Code, whose inbox is a file of its own machine"
        ))
        .hint("teams of Claude Code are kept in files: leave --store out"))
    }

    fn take_native(&mut self, _name: &str, _for_good: bool) -> Result<Vec<Value>> {
        Ok(Vec::new())
    }

    fn cursor(&mut self, mailbox: &Mailbox) -> Result<MailCursor> {
        if let Some((_, staged)) = self.cursors.iter().rfind(|(staged, _)| staged == mailbox) {
            return Ok(*staged);
        }
        let rows = self.query(
            "SELECT acked, delivered FROM teamster.boxes WHERE team = $1 AND box = $2",
            &[
                (&self.name.as_str(), Type::TEXT),
                (&mailbox.label(), Type::TEXT),
            ],
        )?;
        let (acked, delivered) = rows.first().map_or((0, 0), |row| (row.get(0), row.get(1)));
        self.acked.insert(mailbox.clone(), acked);
        Ok(MailCursor {
            acked: Position(position(acked)),
            delivered: Position(position(delivered)),
        })
    }

    fn put_cursor(&mut self, mailbox: &Mailbox, cursor: MailCursor) -> Result<()> {
        self.cursors.retain(|(staged, _)| staged != mailbox);
        self.cursors.push((mailbox.clone(), cursor));
        Ok(())
    }

    fn lines(
        &mut self,
        mailbox: &Mailbox,
        from: Position,
        limit: usize,
    ) -> Result<Vec<(Position, Result<Message, String>)>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = self.query(
            "SELECT place, body FROM teamster.mail WHERE team = $1 AND box = $2 AND place > $3 ORDER BY place LIMIT $4",
            &[
                (&self.name.as_str(), Type::TEXT),
                (&mailbox.label(), Type::TEXT),
                (&stored(from.0), Type::INT8),
                (&limit, Type::INT8),
            ],
        )?;
        Ok(rows
            .iter()
            .map(|row| {
                let message = Message::parse(row.get::<_, &str>(1).as_bytes());
                (Position(position(row.get(0))), message)
            })
            .collect())
    }

    fn put_signal(&mut self, worker: &WorkerName, signal: Option<&Signal>) -> Result<()> {
        if let Some(signal) = signal {
            self.signals.push((worker.clone(), signal.clone()));
        } else {
            self.obeyed.push(worker.clone());
            self.writes_silently = true;
        }
        Ok(())
    }
}

//! The transaction of the PostgreSQL store: what it reads, with versions, and what it writes at the end.

mod columns;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use teamster_journal::{Event, NewEvent};
use teamster_store::{
    Candidates, MailCursor, Position, Result, Signal, StoreError, Txn, TxnContext,
};
use teamster_types::failure::{Failure, LONGEST_BACKOFF};
use teamster_types::heartbeat::Heartbeat;
use teamster_types::message::{Mailbox, Message};
use teamster_types::process::{ProcessId, ProcessState};
use teamster_types::task::Task;
use teamster_types::team::TeamConfig;
use teamster_types::{TaskId, TeamName, Time, WorkerName};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::read;
use crate::session::{MAKE_DURABLE, Param, Session, StatementError};
use crate::store::{AttemptMode, ChangeError, PgStore, no_team, position, stored};
use crate::watch;

pub(crate) use columns::{AppliedColumns, INSERT_TASKS, json_text};

/// A task as it was read; version 0 means that it does not exist.
#[derive(Clone)]
struct ReadTask {
    version: i64,
    fence: i64,
    task: Option<Task>,
}

/// The locks that the transaction holds on the server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LocksHeld {
    /// No transaction is open: every statement is a transaction of its own.
    Nothing,
    /// A transaction is open and has locked the offered rows.
    Rows,
    /// A transaction is open and holds the lock of the team.
    Team,
}

/// A search for a task: the worker, its capabilities, and the owners that are lost.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct CandidateSearch {
    worker: String,
    capabilities: Vec<String>,
    lost: Vec<String>,
}

/// The task that was offered when the transaction was opened, with the tasks that it waits for.
struct PrefetchedCandidate {
    question: CandidateSearch,
    rows: Vec<Row>,
}

/// A transaction that is in progress.
pub(crate) struct PgTxn<'a> {
    store: &'a PgStore,
    session: &'a mut Session,
    name: &'a TeamName,
    team_text: &'a str,
    what: &'static str,
    /// The id of the first event, which identifies the transaction across retries.
    nonce: &'a str,
    now: Time,
    held: LocksHeld,
    waits_for_claims: bool,
    /// The tasks that were offered so far, and the search they were offered for.
    offers: Vec<TaskId>,
    asked: Option<CandidateSearch>,
    answered: Option<PrefetchedCandidate>,
    config: Arc<TeamConfig>,
    config_version: i64,
    /// The version of the registry that the change relies on, if it does.
    relied_config: Option<i64>,
    /// The highest task number, and the value that the change relies on, if it does.
    highest: String,
    relied_highest: Option<String>,
    has_assigned: bool,
    /// The number of claims made so far, when the tasks in progress were read.
    claims: Option<i64>,
    tasks: HashMap<TaskId, ReadTask>,
    acked: HashMap<Mailbox, i64>,
    /// The heartbeat of the worker that this process usually works for.
    beat: Option<(String, Option<String>)>,
    /// An error that the rule did not see, which keeps the change from being committed.
    trouble: Option<ChangeError>,

    new_config: Option<Arc<TeamConfig>>,
    new_tasks: BTreeMap<TaskId, Option<Task>>,
    new_failures: BTreeMap<TaskId, Option<Failure>>,
    mail: Vec<(Mailbox, Message)>,
    cursors: Vec<(Mailbox, MailCursor)>,
    signals: Vec<(WorkerName, Signal)>,
    obeyed: Vec<WorkerName>,
    events: Vec<NewEvent>,
    /// Whether anything is written without an event.
    writes_silently: bool,
}

const OPEN: &str = "SELECT * FROM teamster.open_change($1, $2, $3)";
/// Opens a transaction like `OPEN`, and returns the first suitable task, locked, in columns 7 to 10. Only for a team
/// without assigned pending tasks.
const OPEN_CLAIM: &str = "SELECT * FROM teamster.open_claim($1, $2, $3, $4, $5)";
/// The first column of the offered task in a row of `OPEN_CLAIM`.
const OFFERED: usize = 7;
/// Takes the lock of the team. The team's row is read by a separate statement, which sees what the last holder wrote.
const LOCK: &str = "SELECT seq FROM teamster.positions WHERE team = $1 FOR NO KEY UPDATE";

/// Reads a worker's own heartbeat.
const BEAT: &str = "SELECT body FROM teamster.beats WHERE team = $1 AND worker = $2";
/// Finds the next task that may suit a worker.
const NEXT: &str = "SELECT * FROM teamster.offer($1, $2, $3, $4, $5, $6::text::numeric, $7, $8, NOT $2 AND EXISTS ( \
        SELECT FROM teamster.tasks l WHERE l.team = $1 AND l.status = 1 AND l.leased_until <= $7))";

const NEXT_TYPES: [Type; 8] = [
    Type::TEXT,
    Type::BOOL,
    Type::TEXT,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT,
    Type::INT8,
    Type::INT8,
];

/// The statements of a claim, of most other changes and of an idle worker. A directly connected server prepares them
/// once.
pub(crate) const PREPARED: [(&str, &[Type]); 12] = [
    (OPEN, &[Type::TEXT, Type::TEXT, Type::TEXT]),
    (
        OPEN_CLAIM,
        &[
            Type::TEXT,
            Type::TEXT,
            Type::TEXT,
            Type::TEXT_ARRAY,
            Type::INT8,
        ],
    ),
    (BEAT, &[Type::TEXT, Type::TEXT]),
    (NEXT, &NEXT_TYPES),
    (APPLY_ONE, &[]),
    (APPLY_ONE_AS_HOST, &[]),
    (APPLY, &[]),
    (APPLY_AS_HOST, &[]),
    (MAKE_DURABLE, &[]),
    (read::WRITE_BEAT, &[Type::TEXT, Type::TEXT, Type::TEXT]),
    (watch::HEAR, &[Type::TEXT, Type::TEXT]),
    (read::WORK_LEFT, &[Type::TEXT]),
];

impl<'a> PgTxn<'a> {
    pub(crate) fn open(
        store: &'a PgStore,
        session: &'a mut Session,
        name: &'a TeamName,
        nonce: &'a str,
        mode: AttemptMode,
    ) -> Result<Self, ChangeError> {
        let locks_first = mode.locks_first;
        session.prepare(&store.url, &PREPARED)?;
        let team = [(&name.as_str() as _, Type::TEXT)];
        if locks_first {
            session.begin_with(&store.url, LOCK, &team)?;
        }
        let question = mode.question.filter(|_| !locks_first);
        let asked = Instant::now();
        let known = store.known_config(name);
        let edition = known.as_ref().map(|(edition, _)| edition.as_str());
        let usual = store.usual_worker();
        let rows = opening_rows(
            store,
            session,
            name,
            edition,
            usual.as_deref(),
            question.as_ref(),
        );
        let is_open = locks_first || question.is_some();
        let opened = rows.map_err(ChangeError::from).and_then(|rows| {
            let row = rows
                .first()
                .ok_or_else(|| ChangeError::Refused(no_team(name)))?;
            let config = match (row.get::<_, Option<&str>>(2), known) {
                (None, Some((_, config))) => config,
                (text, _) => {
                    let text = text.unwrap_or_default();
                    let config = TeamConfig::parse(text.as_bytes()).map_err(|error| {
                        ChangeError::Refused(read::damaged("the registry", &error))
                    })?;
                    let config = Arc::new(config);
                    store.note_config(name, row.get(1), &config);
                    config
                }
            };
            let server = Time::from_millis(row.get(0));
            let worker = question.as_ref().map(|question| question.worker.clone());
            let beat = worker.or(usual).map(|worker| (worker, row.get(6)));
            let has_assigned: bool = row.get(5);
            let opened = (server, config, row.get(3), row.get(4), has_assigned, beat);
            Ok((opened, rows))
        });
        let (opened, rows) = match opened {
            Ok(opened) => opened,
            Err(trouble) => {
                if is_open {
                    let _ = session.execute(&store.url, "ROLLBACK");
                }
                return Err(trouble);
            }
        };
        let (server, config, config_version, highest, has_assigned, beat) = opened;
        let answered = question.map(|question| PrefetchedCandidate { question, rows });
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
            what: mode.what,
            nonce,
            now,
            held: match (locks_first, is_open) {
                (true, _) => LocksHeld::Team,
                (false, true) => LocksHeld::Rows,
                (false, false) => LocksHeld::Nothing,
            },
            waits_for_claims: mode.waits_for_claims,
            offers: Vec::new(),
            asked: None,
            // With assigned pending tasks in the team, no task was searched for.
            answered: answered.filter(|_| !has_assigned),
            config,
            config_version,
            relied_config: None,
            highest,
            relied_highest: None,
            has_assigned,
            claims: None,
            tasks: HashMap::new(),
            acked: HashMap::new(),
            beat,
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

    /// Rolls the transaction back, and returns what the error means for a retry.
    pub(crate) fn abandon(mut self, error: StoreError) -> ChangeError {
        self.roll_back();
        self.trouble.take().unwrap_or(ChangeError::Refused(error))
    }

    fn roll_back(&mut self) {
        if std::mem::replace(&mut self.held, LocksHeld::Nothing) != LocksHeld::Nothing {
            // If this fails, the connection is closed, which its next user notices.
            let _ = self.session.execute(&self.store.url, "ROLLBACK");
        }
    }

    fn query(&mut self, statement: &str, params: &[Param<'_>]) -> Result<Vec<Row>> {
        let done = self.session.query(&self.store.url, statement, params);
        self.note_error(done)
    }

    /// Records a server error, so that the transaction is retried even if the rule ignores the error.
    fn note_error<T>(&mut self, done: Result<T, StatementError>) -> Result<T> {
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

    /// Takes the lock of the team now, for a rule that depends on rows to which nothing may be added meanwhile.
    fn lock(&mut self) -> Result<()> {
        let team = [(&self.name.as_str() as _, Type::TEXT)];
        let locked = if self.held == LocksHeld::Nothing {
            self.held = LocksHeld::Rows;
            self.session.begin_with(&self.store.url, LOCK, &team)
        } else {
            self.session.query(&self.store.url, LOCK, &team)
        };
        self.note_error(locked)?;
        self.held = LocksHeld::Team;
        Ok(())
    }

    /// Records rows of `id, version, fence, body` starting at a column, and returns their ids.
    fn note_tasks(&mut self, rows: &[Row], from: usize) -> Result<Vec<TaskId>> {
        let mut ids = Vec::with_capacity(rows.len());
        for row in rows {
            let Some(id) = row.get(from) else {
                continue;
            };
            let task = read::task(id, row.get(from + 3))?;
            let id = task.id().clone();
            let read = ReadTask {
                version: row.get(from + 1),
                fence: row.get(from + 2),
                task: Some(task),
            };
            // The first read counts: it is what the rule has seen.
            self.tasks.entry(id.clone()).or_insert(read);
            ids.push(id);
        }
        Ok(ids)
    }

    /// Finds the next task that may suit a worker. Returns it, followed by the tasks that it waits for.
    fn ask(
        &mut self,
        is_own: bool,
        question: &CandidateSearch,
        after: Option<&TaskId>,
    ) -> Result<Vec<TaskId>> {
        let after = after.map_or_else(|| "-1".to_owned(), |id| id.number().to_string());
        let longest = longest_pause();
        let (team, now) = (self.name.as_str(), self.now.as_millis());
        let params: [Param<'_>; 8] = [
            (&team, Type::TEXT),
            (&is_own, Type::BOOL),
            (&question.worker, Type::TEXT),
            (&question.capabilities, Type::TEXT_ARRAY),
            (&question.lost, Type::TEXT_ARRAY),
            (&after, Type::TEXT),
            (&now, Type::INT8),
            (&longest, Type::INT8),
        ];
        // The row stays locked until the transaction ends, so that others are offered another task.
        let offered = if self.held == LocksHeld::Nothing {
            self.held = LocksHeld::Rows;
            self.session.begin_with(&self.store.url, NEXT, &params)
        } else {
            self.session.query(&self.store.url, NEXT, &params)
        };
        let rows = self.note_error(offered)?;
        self.note_tasks(&rows, 0)
    }

    fn stored_task(&mut self, id: &TaskId) -> Result<Option<Task>> {
        if !self.tasks.contains_key(id) {
            let rows = self.query(
                "SELECT id, version, fence, body FROM teamster.tasks WHERE team = $1 AND id = $2",
                &[
                    (&self.name.as_str(), Type::TEXT),
                    (&id.as_str(), Type::TEXT),
                ],
            )?;
            if self.note_tasks(&rows, 0)?.is_empty() {
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

    /// Commits the change. Returns the position before its first event, or `None` when there was nothing to write.
    pub(crate) fn commit(mut self) -> Result<Option<u64>, ChangeError> {
        if let Some(trouble) = self.trouble.take() {
            self.roll_back();
            return Err(trouble);
        }
        if self.events.is_empty() && !self.writes_silently {
            self.roll_back();
            return Ok(None);
        }
        if self.answered.is_some() {
            // The offered task was not used: unlock it for other claimers.
            self.roll_back();
        }
        let written = AppliedColumns::of(&mut self);
        let one_task = written.one_task_params(&self);
        let is_one_task = one_task.is_some();
        let mut params = one_task.unwrap_or_else(|| written.params(&self));
        let url = &self.store.url;
        let host = self.store.host.as_str();
        if !host.is_empty() {
            params.push((&host, Type::TEXT));
        }
        let apply = match (is_one_task, host.is_empty()) {
            (true, true) => APPLY_ONE,
            (true, false) => APPLY_ONE_AS_HOST,
            (false, true) => APPLY,
            (false, false) => APPLY_AS_HOST,
        };
        let is_open = self.held != LocksHeld::Nothing;
        let done = self.session.commit_durably(url, apply, &params, is_open);
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

const APPLY_ONE: &str = "SELECT teamster.apply_one($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)";

/// Does the same for a host: the database checks in the same transaction that it still has the right.
const APPLY_ONE_AS_HOST: &str = "SELECT CASE WHEN set_config('teamster.host', $19, true) IS NOT NULL THEN \
    teamster.apply_one($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18) END";

const APPLY: &str = "SELECT teamster.apply($1, $2, $3, $4, $5::text::numeric, $6, $7, $8, $9, $10::text[]::numeric[], $11, $12, $13, \
    $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37)";

/// Does the same for a host: the database checks in the same transaction that it still has the right.
const APPLY_AS_HOST: &str = "SELECT CASE WHEN set_config('teamster.host', $38, true) IS NOT NULL THEN \
    teamster.apply($1, $2, $3, $4, $5::text::numeric, $6, $7, $8, $9, $10::text[]::numeric[], $11, $12, $13, \
    $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37) END";

/// Reads what every transaction starts with. With a search, also returns the offered task, and leaves a transaction
/// open.
fn opening_rows(
    store: &PgStore,
    session: &Session,
    team: &TeamName,
    edition: Option<&str>,
    usual: Option<&str>,
    question: Option<&CandidateSearch>,
) -> Result<Vec<Row>, StatementError> {
    let (team, longest) = (team.as_str(), longest_pause());
    let Some(question) = question else {
        let opening: [Param<'_>; 3] = [
            (&team, Type::TEXT),
            (&edition, Type::TEXT),
            (&usual, Type::TEXT),
        ];
        return session.query(&store.url, OPEN, &opening);
    };
    let opening: [Param<'_>; 5] = [
        (&team, Type::TEXT),
        (&edition, Type::TEXT),
        (&question.worker, Type::TEXT),
        (&question.capabilities, Type::TEXT_ARRAY),
        (&longest, Type::INT8),
    ];
    session.begin_with(&store.url, OPEN_CLAIM, &opening)
}

/// Returns the longest retry delay of a task, in milliseconds.
fn longest_pause() -> i64 {
    i64::try_from(LONGEST_BACKOFF.as_millis()).unwrap_or(i64::MAX)
}

impl Txn for PgTxn<'_> {
    fn context(&self) -> TxnContext<'_> {
        TxnContext {
            team: self.name,
            now: self.now,
            process: &self.store.me,
            lease: self.store.settings.lease,
            reservations: self.store.settings.reservations,
        }
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

    fn config(&mut self) -> Result<Arc<TeamConfig>> {
        self.relied_config = Some(self.config_version);
        let staged = self.new_config.as_ref();
        Ok(Arc::clone(staged.unwrap_or(&self.config)))
    }

    fn open_config(&mut self) -> Result<TeamConfig> {
        self.config().map(Arc::unwrap_or_clone)
    }

    fn put_config(&mut self, config: TeamConfig) {
        self.new_config = Some(Arc::new(config));
    }

    fn read_task(&mut self, id: &TaskId) -> Result<Option<Task>> {
        match self.new_tasks.get(id) {
            Some(staged) => Ok(staged.clone()),
            None => self.stored_task(id),
        }
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
        let question = CandidateSearch {
            worker: worker.to_string(),
            capabilities: capabilities.to_vec(),
            lost: lost.iter().map(ToString::to_string).collect(),
        };
        let found = match self.answered.take() {
            Some(answered) if after.is_none() && answered.question == question => {
                self.note_tasks(&answered.rows, OFFERED)?
            }
            other => {
                if self.held == LocksHeld::Rows && (after.is_some() || other.is_some()) {
                    // The task offered before does not suit this worker: unlock it for others.
                    self.roll_back();
                }
                self.ask(is_own, &question, after)?
            }
        };
        if !self.has_assigned {
            self.store.cache_search(self.what, &question);
        }
        let found = found.into_iter().next();
        self.offers.extend(found.clone());
        self.asked = Some(question);
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
        self.note_tasks(&rows, 0)
    }

    fn refresh(&mut self) -> Result<bool> {
        let Some(asked) = self.asked.take().filter(|_| self.waits_for_claims) else {
            return Ok(false);
        };
        // A task that was skipped because it is being claimed may become free again, so it would be wrong to report
        // that there is nothing to do.
        let offers: Vec<String> = self.offers.iter().map(ToString::to_string).collect();
        let (team, longest) = (self.team_text, longest_pause());
        let rows = self.query(
            "SELECT teamster.is_passed_over($1, $2, $3, $4, $5, $6, $7)",
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
        if !rows[0].get::<_, bool>(0) {
            return Ok(false);
        }
        self.trouble.get_or_insert(ChangeError::BeingClaimed);
        Err(StoreError::busy(
            "other workers are claiming tasks right now",
        ))
    }

    fn process_state(&self, process: &ProcessId) -> ProcessState {
        self.store.life_of(process)
    }

    fn heartbeat(&mut self, worker: &WorkerName) -> Result<Option<Heartbeat>> {
        if let Some((known, body)) = &self.beat
            && known == worker.as_str()
        {
            return Ok(body.as_deref().and_then(|it| serde_json::from_str(it).ok()));
        }
        self.store.note_usual_worker(worker);
        let rows = self.query(
            BEAT,
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
            "{name} is a teammate of Claude Code, whose inbox is a file on its own machine"
        ))
        .hint("teams of Claude Code are kept in files: omit --store"))
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

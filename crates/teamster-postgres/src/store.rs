//! The store itself: the connection pool, retries, and the server's clock.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use teamster_fs::proc::Machine;
use teamster_journal::EventActor;
use teamster_store::backend::{created, refuse_held};
use teamster_store::{Backend, Clock, DeletedTeam, Result, StoreError, TeamExport, Txn};
use teamster_types::heartbeat::Heartbeat;
use teamster_types::paths::Reservations;
use teamster_types::process::{ProcessId, ProcessState};
use teamster_types::team::{NewTeam, TeamConfig};
use teamster_types::{TeamName, Time, WorkerName};
use tokio_postgres::types::Type;

use crate::schema;
use crate::session::{MAKE_DURABLE, Param, STALE, Session, StatementError};
use crate::transfer;
use crate::txn::{CandidateSearch, PREPARED, PgTxn};
use crate::url::StoreUrl;

/// The maximum number of idle connections in the pool.
const KEPT: usize = 4;
/// How long a connection may be idle before it is closed, when another one is returned: the server's connections are
/// limited.
const IDLE: Duration = Duration::from_secs(10);
/// How often a transaction is tried before it takes the lock of the team first.
const FREE_TRIES: u32 = 3;
/// How long a process that is shutting down retries.
const HURRIED_PATIENCE: Duration = Duration::from_secs(5);
/// How long the server's time is extrapolated before it is read again.
const CLOCK_TRUST: Duration = Duration::from_secs(30);

/// How long a claim waits while every suitable task is being claimed by others, before it reports that there is nothing
/// to do.
const CLAIM_WAIT: Duration = Duration::from_secs(1);
/// The delay before such a claim is retried: it doubles from the first to the longest.
const CLAIM_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_CLAIM_PAUSE: Duration = Duration::from_millis(64);

/// How one attempt of a transaction proceeds.
pub(crate) struct AttemptMode {
    /// The operation, as the command line names it.
    pub(crate) what: &'static str,
    /// The search that the same operation made last time, which is sent along when the transaction is opened.
    pub(crate) question: Option<CandidateSearch>,
    /// Whether the lock of the team is taken before anything is read: slower, but without conflicts.
    pub(crate) locks_first: bool,
    /// Whether to wait for tasks that are being claimed, instead of reporting that there is nothing to do.
    pub(crate) waits_for_claims: bool,
}

/// How a store on PostgreSQL behaves.
#[derive(Clone)]
pub struct PgSettings {
    /// How long a claim lasts.
    pub lease: Duration,
    /// How long to retry when the server is unreachable or a conflict persists. A host retries at least as long as a
    /// lease lasts.
    pub patience: Duration,
    /// Whether the caller polls, as a worker does: a claim that finds nothing is soon tried again anyway. Such a claim
    /// does not wait for tasks that are being claimed by others, because a hundred workers that wait for one task would
    /// slow its claimer down.
    pub polls: bool,
    /// How tasks with overlapping paths are handled.
    pub reservations: Reservations,
    /// A clock in place of the server's, for tests. Transactions then take the lock of the team first: only under it is
    /// a clock that the test moves read in commit order.
    pub clock: Option<Arc<dyn Clock>>,
}

impl Default for PgSettings {
    fn default() -> Self {
        Self {
            lease: teamster_types::transitions::LEASE,
            patience: Duration::from_secs(15),
            polls: false,
            reservations: Reservations::default(),
            clock: None,
        }
    }
}

/// Decides whether a process is alive, in place of the machine.
type LivenessCheck = dyn Fn(&ProcessId) -> ProcessState + Send + Sync;

/// Teams in a database.
pub struct PgStore {
    pub(crate) url: StoreUrl,
    pub(crate) settings: PgSettings,
    /// The process in whose name tasks are claimed.
    pub(crate) me: ProcessId,
    /// The holder of the right to host a team, in whose name changes are made; empty when this process is not a host.
    pub(crate) host: String,
    lives: Arc<LivenessCheck>,
    /// The idle connections, each with the time it was returned. The one used last is reused first.
    idle: Arc<Mutex<Vec<(Instant, Session)>>>,
    clock: Arc<Mutex<Option<ServerClock>>>,
    /// A cache of registries, each with its edition: the registry of a large team is long and seldom changes.
    configs: Arc<Mutex<HashMap<TeamName, CachedConfig>>>,
    /// The worker whose heartbeat was read last: a worker's process reads no other.
    usual_worker: Arc<Mutex<Option<String>>>,
    /// The last search for a task, and its operation: a worker searches for the same every time.
    question: Arc<Mutex<Option<(&'static str, CandidateSearch)>>>,
    /// Whether this process is shutting down, and so retries only briefly.
    is_hurried: Arc<AtomicBool>,
}

/// A registry with its edition.
type CachedConfig = (String, Arc<TeamConfig>);

/// The server's time at a known instant of this process.
#[derive(Clone, Copy)]
struct ServerClock {
    server: Time,
    asked: Instant,
}

impl PgStore {
    /// Connects, and checks that this teamster supports the server and its schema.
    pub fn open(url: StoreUrl, settings: PgSettings) -> Result<Self> {
        let session = Self::first_session(&url, settings.patience)?;
        schema::check(&url, &session)?;
        let machine = Machine::read();
        Ok(Self {
            url,
            settings,
            me: machine.me().clone(),
            host: String::new(),
            lives: Arc::new(move |process: &ProcessId| machine.process_state(process)),
            idle: Arc::new(Mutex::new(vec![(Instant::now(), session)])),
            clock: Arc::default(),
            configs: Arc::default(),
            usual_worker: Arc::default(),
            question: Arc::default(),
            is_hurried: Arc::default(),
        })
    }

    /// Opens the first connection. Retries only if the server has no free connection or is starting up.
    fn first_session(url: &StoreUrl, patience: Duration) -> Result<Session> {
        let mut retry = Backoff::new();
        loop {
            match Session::connect(url) {
                Err(error) if error.busy => {
                    retry.pause(patience.saturating_sub(retry.begun.elapsed()), error)?;
                }
                connected => return connected,
            }
        }
    }

    /// Returns the same store, claiming in the name of another process.
    #[must_use]
    pub fn claiming_as(&self, me: ProcessId) -> Self {
        Self {
            url: self.url.clone(),
            settings: self.settings.clone(),
            me,
            host: self.host.clone(),
            lives: Arc::clone(&self.lives),
            idle: Arc::clone(&self.idle),
            clock: Arc::clone(&self.clock),
            configs: Arc::clone(&self.configs),
            usual_worker: Arc::clone(&self.usual_worker),
            question: Arc::clone(&self.question),
            is_hurried: Arc::clone(&self.is_hurried),
        }
    }

    /// Returns the same store, whose changes are accepted only while `holder` has the right to host the team.
    pub(crate) fn accepted_while_host(&self, holder: &str) -> Self {
        let mut store = self.second_handle();
        holder.clone_into(&mut store.host);
        store.settings.patience = store.settings.patience.max(store.settings.lease);
        store
    }

    /// Returns another handle to the same store, for a listener that outlives the borrow.
    pub(crate) fn second_handle(&self) -> Self {
        self.claiming_as(self.me.clone())
    }

    /// Returns the same store with another check of whether a process is alive, for tests.
    #[must_use]
    pub fn with_liveness(
        mut self,
        lives: impl Fn(&ProcessId) -> ProcessState + Send + Sync + 'static,
    ) -> Self {
        self.lives = Arc::new(lives);
        self
    }

    pub(crate) fn life_of(&self, process: &ProcessId) -> ProcessState {
        (self.lives)(process)
    }

    /// Returns the cached registry of a team, with its edition.
    pub(crate) fn known_config(&self, team: &TeamName) -> Option<CachedConfig> {
        let configs = self.configs.lock().unwrap_or_else(PoisonError::into_inner);
        configs.get(team).cloned()
    }

    pub(crate) fn note_config(&self, team: &TeamName, edition: String, config: &Arc<TeamConfig>) {
        let mut configs = self.configs.lock().unwrap_or_else(PoisonError::into_inner);
        configs.insert(team.clone(), (edition, Arc::clone(config)));
    }

    /// Returns the worker whose heartbeat a transaction will probably read.
    pub(crate) fn usual_worker(&self) -> Option<String> {
        let usual = self.usual_worker.lock();
        usual.unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn note_usual_worker(&self, worker: &WorkerName) {
        let usual = self.usual_worker.lock();
        *usual.unwrap_or_else(PoisonError::into_inner) = Some(worker.to_string());
    }

    /// Returns the search that the same operation made last time.
    fn cached_search(&self, what: &'static str) -> Option<CandidateSearch> {
        let known = self.question.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.as_ref().filter(|(kind, _)| *kind == what);
        known.map(|(_, question)| question.clone())
    }

    pub(crate) fn cache_search(&self, what: &'static str, question: &CandidateSearch) {
        let mut known = self.question.lock().unwrap_or_else(PoisonError::into_inner);
        if known.as_ref().is_none_or(|(_, known)| known != question) {
            *known = Some((what, question.clone()));
        }
    }

    pub(crate) fn note_shutdown(&self) {
        self.is_hurried.store(true, Ordering::Relaxed);
    }

    /// Takes an idle connection, or opens a new one.
    pub(crate) fn session(&self) -> Result<Session> {
        loop {
            let kept = self
                .idle
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .pop();
            match kept {
                Some((_, session)) if session.is_closed() => {}
                Some((_, session)) => return Ok(session),
                None => return self.new_session(),
            }
        }
    }

    /// Returns a connection to the pool.
    pub(crate) fn return_session(&self, session: Session) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|(since, _)| since.elapsed() < IDLE);
        if idle.len() < KEPT && !session.is_closed() {
            idle.push((Instant::now(), session));
        }
    }

    /// Opens a new connection.
    pub(crate) fn new_session(&self) -> Result<Session> {
        // After a crash the server may have lost the registry that we cached, and reuse its edition for another one.
        let mut configs = self.configs.lock().unwrap_or_else(PoisonError::into_inner);
        configs.clear();
        drop(configs);
        Session::connect(&self.url)
    }

    /// Reads with one statement. After a lost connection the statement is sent again, which is harmless for a read.
    pub(crate) fn query(
        &self,
        statement: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<tokio_postgres::Row>> {
        self.with_session(|session| session.query(&self.url, statement, params))
    }

    /// Does the same with a frequent statement, which is prepared on the server if possible.
    pub(crate) fn repeated_query(
        &self,
        statement: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<tokio_postgres::Row>> {
        self.with_session(|session| {
            session.prepare(&self.url, &PREPARED)?;
            session.query(&self.url, statement, params)
        })
    }

    /// Runs `work`, which must be idempotent, and retries it with a new connection if one is lost.
    fn with_session<T>(
        &self,
        mut work: impl FnMut(&mut Session) -> Result<T, StatementError>,
    ) -> Result<T> {
        let mut retry = Retry::new(self);
        loop {
            let trouble = match self.session() {
                Ok(mut session) => match work(&mut session) {
                    Ok(answer) => {
                        self.return_session(session);
                        return Ok(answer);
                    }
                    Err(StatementError::Refused(_, error)) => {
                        self.return_session(session);
                        return Err(error);
                    }
                    Err(StatementError::Lost(error)) => error,
                },
                Err(error) => error,
            };
            retry.pause(trouble)?;
        }
    }

    /// Waits until the server's log is flushed to disk, and with it every earlier commit.
    pub(crate) fn make_durable(&self, session: &Session) -> Result<(), StatementError> {
        session.query(&self.url, MAKE_DURABLE, &[]).map(drop)
    }

    /// Reads events, and returns none that a crash of the server could still undo.
    pub(crate) fn durable_query(
        &self,
        statement: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<tokio_postgres::Row>> {
        self.with_session(|session| {
            let rows = session.query(&self.url, statement, params)?;
            let ahead = "SELECT pg_current_wal_insert_lsn() > pg_current_wal_flush_lsn()";
            if !rows.is_empty() && session.query(&self.url, ahead, &[])?[0].get(0) {
                self.make_durable(session)?;
            }
            Ok(rows)
        })
    }

    /// Returns the server's time, which is read occasionally and extrapolated with a monotonic clock.
    pub(crate) fn server_now(&self) -> Time {
        if let Some(clock) = &self.settings.clock {
            return clock.now();
        }
        let known = *self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        let counted = |known: ServerClock| known.server.after(known.asked.elapsed());
        if let Some(known) = known.filter(|known| known.asked.elapsed() < CLOCK_TRUST) {
            return counted(known);
        }
        // Not retried: the extrapolated time is accurate enough, and no caller should wait for an unreachable server
        // just for the time.
        let asked = Instant::now();
        let told = self.session().and_then(|session| {
            let rows = session.query(&self.url, "SELECT teamster.now_millis()", &[])?;
            self.return_session(session);
            Ok(Time::from_millis(rows[0].get(0)))
        });
        match told {
            Ok(server) => {
                self.note_time(server, asked);
                server
            }
            Err(error) => {
                tracing::debug!("cannot read the server's time: {error}");
                let Some(known) = known else {
                    return teamster_store::SystemClock.now();
                };
                let now = counted(known);
                self.note_time(now, Instant::now());
                now
            }
        }
    }

    /// Records the server's time.
    pub(crate) fn note_time(&self, server: Time, asked: Instant) {
        let mut clock = self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        *clock = Some(ServerClock { server, asked });
    }

    fn attempt(
        &self,
        session: &mut Session,
        team: &TeamName,
        nonce: &str,
        mode: AttemptMode,
        change: &mut dyn FnMut(&mut dyn Txn) -> Result<()>,
    ) -> Result<u64, ChangeError> {
        let mut txn = PgTxn::open(self, session, team, nonce, mode)?;
        let committed = match change(&mut txn) {
            Ok(()) => txn.commit(),
            Err(error) => Err(txn.abandon(error)),
        };
        Ok(committed?.unwrap_or(0))
    }

    /// Returns the position before the transaction whose first event has this id, if it was committed.
    fn find_made(
        &self,
        session: &Session,
        team: &TeamName,
        nonce: &str,
    ) -> Result<Option<u64>, StatementError> {
        let rows = session.query(
            &self.url,
            "SELECT seq FROM teamster.events WHERE team = $1 AND id = $2",
            &[(&team.as_str(), Type::TEXT), (&nonce, Type::TEXT)],
        )?;
        if rows.is_empty() {
            return Ok(None);
        }
        self.make_durable(session)?;
        Ok(rows
            .first()
            .map(|row| position(row.get(0)).saturating_sub(1)))
    }
}

/// Why an attempt of a transaction was not committed.
pub(crate) enum ChangeError {
    /// Another change was faster: retry at once.
    Stale,
    /// All suitable tasks are being claimed by others: retry in a moment.
    BeingClaimed,
    /// The connection is lost, and it is unknown whether the commit happened.
    Lost(StoreError),
    /// The first event is already in the journal: an earlier attempt was committed after all.
    MadeBefore,
    /// The rules or the server refused the change.
    Refused(StoreError),
}

impl From<StatementError> for ChangeError {
    fn from(trouble: StatementError) -> Self {
        match trouble {
            StatementError::Lost(error) => Self::Lost(error),
            StatementError::Refused(state, error) => match state.code() {
                // A deadlock or a conflict is resolved once one of the transactions has given way.
                STALE | "40001" | "40P01" | "55P03" => Self::Stale,
                "23505" => Self::MadeBefore,
                _ => Self::Refused(error),
            },
        }
    }
}

/// Delays between retries, with exponential backoff and jitter, so that clients that lost a server do not return all at
/// once.
struct Backoff {
    begun: Instant,
    pause: Duration,
}

impl Backoff {
    fn new() -> Self {
        Self {
            begun: Instant::now(),
            pause: Duration::from_millis(20),
        }
    }

    /// Waits before the next retry, or returns the error when no time is left.
    fn pause(&mut self, left: Duration, trouble: StoreError) -> Result<()> {
        if left.is_zero() {
            return Err(trouble);
        }
        tracing::debug!("trying again after {trouble}");
        let jitter = u16::from_str_radix(&teamster_fs::random_hex()[..4], 16).unwrap_or(0);
        let spread = self
            .pause
            .mul_f64(0.5 + f64::from(jitter) / f64::from(u16::MAX));
        std::thread::sleep(spread.min(left));
        self.pause = (self.pause * 2).min(Duration::from_secs(2));
        Ok(())
    }
}

/// Retries of one operation, for as long as the store's patience lasts.
struct Retry<'a> {
    store: &'a PgStore,
    pauses: Backoff,
}

impl<'a> Retry<'a> {
    fn new(store: &'a PgStore) -> Self {
        let pauses = Backoff::new();
        Self { store, pauses }
    }

    /// Returns the remaining time for retries.
    fn left(&self) -> Duration {
        let mut patience = self.store.settings.patience;
        if self.store.is_hurried.load(Ordering::Relaxed) {
            patience = patience.min(HURRIED_PATIENCE);
        }
        patience.saturating_sub(self.pauses.begun.elapsed())
    }

    /// Waits before the next retry, or returns the error when no time is left or a retry is useless.
    fn pause(&mut self, trouble: StoreError) -> Result<()> {
        if !(trouble.busy || trouble.kind == teamster_store::StoreErrorKind::Unreachable) {
            return Err(trouble);
        }
        let left = self.left();
        self.pauses.pause(left, trouble)
    }
}

/// Converts a position from the database's signed type. None is negative.
pub(crate) fn position(stored: i64) -> u64 {
    u64::try_from(stored).unwrap_or(0)
}

/// Converts a position to the database's signed type.
pub(crate) fn stored(position: u64) -> i64 {
    i64::try_from(position).unwrap_or(i64::MAX)
}

pub(crate) fn no_team(team: &TeamName) -> StoreError {
    StoreError::not_found(format!("there is no team {team}"))
        .hint("`teamster team list` shows the teams of this store")
}

impl Backend for PgStore {
    fn change(
        &self,
        team: &TeamName,
        what: &'static str,
        change: &mut dyn FnMut(&mut dyn Txn) -> Result<()>,
    ) -> Result<u64> {
        let nonce = teamster_fs::random_hex();
        let mut retry = Retry::new(self);
        let start = Instant::now();
        let mut tries = 0;
        let mut claim_pause = CLAIM_PAUSE;
        let mut is_doubtful = false;
        loop {
            let mut session = match self.session() {
                Ok(session) => session,
                Err(error) => {
                    retry.pause(error)?;
                    continue;
                }
            };
            if is_doubtful {
                match self.find_made(&session, team, &nonce) {
                    Ok(Some(position)) => {
                        self.return_session(session);
                        return Ok(position);
                    }
                    Ok(None) => {}
                    Err(trouble) => {
                        retry.pause(trouble.into())?;
                        continue;
                    }
                }
            }
            let mode = AttemptMode {
                what,
                question: self.cached_search(what),
                locks_first: tries >= FREE_TRIES || self.settings.clock.is_some(),
                waits_for_claims: !self.settings.polls && start.elapsed() < CLAIM_WAIT,
            };
            match self.attempt(&mut session, team, &nonce, mode, change) {
                Ok(position) => {
                    self.return_session(session);
                    return Ok(position);
                }
                Err(ChangeError::Stale) => {
                    self.return_session(session);
                    tries += 1;
                    if retry.left().is_zero() {
                        return Err(StoreError::busy(format!(
                            "{what} of team {team} gave up, because other changes kept conflicting with it"
                        ))
                        .hint("try again"));
                    }
                }
                Err(ChangeError::BeingClaimed) => {
                    self.return_session(session);
                    std::thread::sleep(claim_pause);
                    claim_pause = (claim_pause * 2).min(LONGEST_CLAIM_PAUSE);
                }
                Err(ChangeError::MadeBefore) => {
                    self.return_session(session);
                    // The next round looks for the committed transaction. If there is none, two new tasks got the same
                    // number.
                    is_doubtful = true;
                    tries += 1;
                }
                Err(ChangeError::Lost(error)) => {
                    is_doubtful = true;
                    retry.pause(error)?;
                }
                Err(ChangeError::Refused(error)) => {
                    self.return_session(session);
                    if !error.busy {
                        return Err(error);
                    }
                    retry.pause(error)?;
                }
            }
        }
    }

    fn new_team(&self, new: &NewTeam, base: Option<&str>) -> Result<TeamConfig> {
        let now = self.server_now();
        let config = TeamConfig::new(new, base, &self.me, now);
        let id = teamster_fs::random_hex();
        let event = created(new);
        let kind = event.kind().to_owned();
        let event = event.placed(0, id.clone(), now, new.name.to_string());
        let event = serde_json::to_string(&event).unwrap_or_default();
        let text = config_text(&config);
        let rows = self.query(
            "SELECT teamster.create_team($1, $2, $3, $4, $5)",
            &[
                (&new.name.as_str(), Type::TEXT),
                (&text, Type::TEXT),
                (&id, Type::TEXT),
                (&kind, Type::TEXT),
                (&event, Type::TEXT),
            ],
        )?;
        if rows[0].get(0) {
            return Ok(config);
        }
        Err(StoreError::conflict(format!(
            "there is a team {} already",
            new.name
        )))
    }

    fn drop_team(&self, team: &TeamName, _actor: &EventActor, force: bool) -> Result<DeletedTeam> {
        let name = [(&team.as_str() as _, Type::TEXT)];
        let session = self.session()?;
        let run = |session: &Session, statement: &str| session.query(&self.url, statement, &name);
        let lock = "SELECT seq FROM teamster.positions WHERE team = $1 FOR UPDATE";
        let dropped = (|| {
            if session.begin_with(&self.url, lock, &name)?.is_empty() {
                return Err(no_team(team));
            }
            let tasks = "SELECT id, body FROM teamster.tasks WHERE team = $1 AND status = 1";
            let tasks = run(&session, tasks)?
                .iter()
                .map(|row| crate::read::task(row.get(0), row.get(1)))
                .collect::<Result<Vec<_>>>()?;
            let beats = run(&session, "SELECT body FROM teamster.beats WHERE team = $1")?;
            let beats: Vec<Heartbeat> = beats
                .iter()
                .filter_map(|row| serde_json::from_str(row.get(0)).ok())
                .collect();
            let now = self.server_now();
            refuse_held(team, &tasks, &beats, &*self.lives, now, force)?;
            session.commit_durably(&self.url, "SELECT teamster.drop_team($1)", &name, true)?;
            Ok(())
        })();
        if dropped.is_err() {
            let _ = session.execute(&self.url, "ROLLBACK");
        }
        self.return_session(session);
        dropped?;
        Ok(DeletedTeam {
            trash: None,
            journal: None,
        })
    }

    fn snapshot_team(&self, team: &TeamName) -> Result<TeamExport> {
        transfer::export(self, team)
    }

    fn restore_team(&self, export: &TeamExport) -> Result<()> {
        transfer::import(self, export)
    }
}

/// Returns a registry in its stored form.
pub(crate) fn config_text(config: &TeamConfig) -> String {
    serde_json::to_string(config.as_object()).unwrap_or_default()
}

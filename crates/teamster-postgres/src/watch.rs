//! Noticing changes: woken by the server's notifications, with a slow look behind them.
//!
//! A notification only says that there is something to look at. It may be missing: a pooler that hands out connections for one
//! transaction passes none on, and the server sends at most one in 20 milliseconds for a team. So whoever was woken looks again
//! for a moment, and everybody looks now and then.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use teamster_store::{Change, Heard, Listen, Pulse, Read as _, Result, Watch};
use teamster_types::{TeamName, WorkerName};
use tokio_postgres::types::Type;

use crate::read;
use crate::session::{Session, StatementError};
use crate::store::{PgStore, no_team, position};

/// How long a watcher that was woken goes on looking, and how often.
const ALERT: Duration = Duration::from_millis(120);
const ALERT_LOOK: Duration = Duration::from_millis(15);
/// How often a watcher looks that nobody wakes.
const SLOW_LOOK: Duration = Duration::from_secs(1);
/// How often heartbeats are compared: nobody is woken by them.
const BEATS: Duration = Duration::from_secs(1);
/// Events are taken in pages of this size.
const PAGE: usize = 1_000;

/// Listens for one worker.
pub(crate) struct PgListener {
    store: PgStore,
    team: TeamName,
    worker: WorkerName,
}

impl PgListener {
    pub(crate) fn new(store: PgStore, team: &TeamName, worker: &WorkerName) -> Self {
        Self {
            store,
            team: team.clone(),
            worker: worker.clone(),
        }
    }
}

impl Listen for PgListener {
    fn hear(&mut self) -> Result<Heard> {
        let rows = self.store.query(
            "SELECT p.seq, p.changes, s.drain, s.body FROM teamster.positions p \
             LEFT JOIN teamster.signals s ON s.team = p.team AND s.worker = $2 WHERE p.team = $1 ORDER BY s.drain",
            &[
                (&self.team.as_str(), Type::TEXT),
                (&self.worker.as_str(), Type::TEXT),
            ],
        )?;
        let first = rows.first().ok_or_else(|| no_team(&self.team))?;
        let pulse = Pulse {
            journal: position(first.get(0)),
            tasks: position(first.get(1)),
            client_inbox: 0,
            // Nobody but the store writes here, and everything it writes has an event.
            mail: 0,
        };
        let mut signals = Vec::new();
        for row in &rows {
            if let (Some(drain), Some(body)) = (row.get(2), row.get::<_, Option<&str>>(3)) {
                signals.push(read::signal(drain, body)?);
            }
        }
        Ok(Heard { pulse, signals })
    }
}

/// Watches one team: the journal after `seen`, and heartbeats that differ from `beats`.
pub(crate) struct PgWatch {
    store: PgStore,
    team: TeamName,
    /// The connection that is woken; `None` when it was lost and has to be made again.
    session: Option<Session>,
    seen: u64,
    beats: BTreeMap<WorkerName, i64>,
    beats_at: Instant,
    /// Until when it looks often, because it was woken.
    alert_until: Instant,
}

impl PgWatch {
    pub(crate) fn new(store: PgStore, team: &TeamName, after: u64) -> Result<Self> {
        let now = Instant::now();
        let mut watch = Self {
            store,
            team: team.clone(),
            session: None,
            seen: after,
            beats: BTreeMap::new(),
            beats_at: now,
            alert_until: now,
        };
        watch.beats = watch.read_beats()?;
        watch.listen();
        Ok(watch)
    }

    /// Asks to be woken. Without it the slow look must do.
    fn listen(&mut self) {
        let listening = self.store.own_session().and_then(|session| {
            // The name of a team has no character that a quoted name could not have.
            let listen = format!("LISTEN \"teamster_{}\"", self.team);
            let asked = session.execute(&self.store.url, &listen);
            asked.map(|()| session).map_err(StatementError::into)
        });
        match listening {
            Ok(session) => self.session = Some(session),
            Err(error) => tracing::debug!("changes of team {} wake nobody: {error}", self.team),
        }
    }

    fn read_beats(&self) -> Result<BTreeMap<WorkerName, i64>> {
        let rows = self.store.query(
            "SELECT worker, version FROM teamster.beats WHERE team = $1",
            &[(&self.team.as_str(), Type::TEXT)],
        )?;
        Ok(rows
            .iter()
            .filter_map(|row| Some((row.get::<_, &str>(0).parse().ok()?, row.get(1))))
            .collect())
    }

    fn look(&mut self) -> Result<Vec<Change>> {
        let page = self.store.events(&self.team, self.seen + 1, PAGE)?;
        self.seen = page.events.last().map_or(self.seen, |event| event.seq);
        let mut changes: Vec<Change> = page
            .events
            .into_iter()
            .map(|event| Change::Event(Box::new(event)))
            .collect();
        if self.beats_at.elapsed() >= BEATS {
            let beats = self.read_beats()?;
            self.beats_at = Instant::now();
            let beating = beats
                .iter()
                .filter(|(worker, version)| self.beats.get(*worker) != Some(*version));
            let gone = self
                .beats
                .iter()
                .filter(|(worker, _)| !beats.contains_key(*worker));
            changes.extend(
                beating
                    .chain(gone)
                    .map(|(worker, _)| Change::Beat(worker.clone())),
            );
            self.beats = beats;
        }
        Ok(changes)
    }
}

impl Watch for PgWatch {
    fn wait(&mut self, patience: Duration) -> Result<Vec<Change>> {
        let deadline = Instant::now() + patience;
        loop {
            let changes = self.look()?;
            let now = Instant::now();
            if changes
                .iter()
                .any(|change| matches!(change, Change::Event(_)))
            {
                self.alert_until = now + ALERT;
            }
            let left = deadline.saturating_duration_since(now);
            if !changes.is_empty() || left.is_zero() {
                return Ok(changes);
            }
            let until_beats = BEATS.saturating_sub(self.beats_at.elapsed());
            let pause = if now < self.alert_until {
                ALERT_LOOK
            } else {
                SLOW_LOOK
            };
            let pause = pause.min(until_beats.max(ALERT_LOOK)).min(left);
            if self.session.as_ref().is_none_or(Session::is_closed) {
                self.session = None;
                self.listen();
            }
            match &mut self.session {
                Some(session) => {
                    if session.wait_for_wake(pause) {
                        self.alert_until = Instant::now() + ALERT;
                    }
                }
                None => std::thread::sleep(pause),
            }
        }
    }
}

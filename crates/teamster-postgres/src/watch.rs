//! Watches a team by the server's notifications, with slow polling as a fallback.
//!
//! A notification only says that something may have changed. It may be missing: a pooler in transaction mode delivers
//! none, and the server sends at most one per team in 20 milliseconds. So a watcher polls for a moment after each
//! notification, and all watchers and listeners poll occasionally. A notification for one worker carries the worker's
//! name and is always sent.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use teamster_store::{
    Change, ChangeCounters, Listen, ListenerUpdate, ReadStore as _, Result, Watch,
};
use teamster_types::{TeamName, WorkerName};
use tokio_postgres::types::Type;

use crate::read;
use crate::schema;
use crate::session::Session;
use crate::store::{PgStore, no_team, position};

/// How long a watcher polls quickly after a notification, and the interval of these polls.
const ALERT: Duration = Duration::from_millis(120);
const ALERT_LOOK: Duration = Duration::from_millis(15);
/// The poll interval of a watcher without notifications.
const SLOW_LOOK: Duration = Duration::from_secs(1);
/// How often heartbeats are compared, because they send no notification.
const BEATS: Duration = Duration::from_secs(1);
/// How many events are read at once.
const PAGE: usize = 1_000;

/// The polling budget of a team: after a notification that is not addressed to it, a listener polls only when this
/// long, times the number of workers, has passed since its last poll. So all listeners together poll about 50 times a
/// second (with more than 250 workers, each of them every five seconds), and a task that becomes free is soon found by
/// one of them.
const TURN: Duration = Duration::from_millis(20);
/// How often the workers of the team are counted.
const COUNT: Duration = Duration::from_secs(30);
/// The poll interval of a listener without notifications, and the interval of its attempts to subscribe again.
const LISTENER_LOOK: Duration = Duration::from_secs(5);
/// The interval of attempts to subscribe behind a pooler, which delivers no notifications.
const POOLED: Duration = Duration::from_secs(600);
/// How long a listener waits for a notification that may be on its way.
const ARRIVAL: Duration = Duration::from_millis(1);

/// Reads what a listener reports: the journal position, the stop signals, and whether logs are requested.
pub(crate) const HEAR: &str = "SELECT p.seq, s.drain, s.body, EXISTS ( \
        SELECT FROM teamster.log_requests l WHERE l.team = $1 AND l.worker = $2 AND l.answer IS NULL \
            AND l.asked_at > clock_timestamp() - interval '10 seconds') \
    FROM teamster.positions p \
    LEFT JOIN teamster.signals s ON s.team = p.team AND s.worker = $2 WHERE p.team = $1 ORDER BY s.drain";

/// The listener of one worker. It queries the server only after a notification, and occasionally.
pub(crate) struct PgListener {
    store: PgStore,
    team: TeamName,
    worker: WorkerName,
    notifications: NotificationStream,
    /// The last result, and when it was read.
    heard: Option<(Instant, ListenerUpdate)>,
    /// The number of pending polls: one more than obvious, because changes in quick succession send one notification.
    due: u8,
    /// The number of workers with a heartbeat, and when they were counted.
    crowd: Option<(Instant, u32)>,
}

impl PgListener {
    pub(crate) fn new(store: PgStore, team: &TeamName, worker: &WorkerName) -> Self {
        Self {
            store,
            team: team.clone(),
            worker: worker.clone(),
            notifications: NotificationStream::new(),
            heard: None,
            due: 0,
            crowd: None,
        }
    }

    /// Returns the last result, if nothing is known to have changed since.
    fn unchanged(&mut self) -> Option<ListenerUpdate> {
        if !self.notifications.ensure_connected(&self.store, &self.team) {
            return None;
        }
        let woken = self.notifications.wait(ARRIVAL);
        if !woken.is_empty() {
            self.due = 2;
        }
        let is_meant = woken.iter().any(|name| *name == *self.worker.as_str());
        let turn = self.poll_delay();
        let (at, heard) = self.heard.as_ref()?;
        let looks = is_meant || (self.due > 0 && at.elapsed() >= turn);
        (!looks && at.elapsed() < LISTENER_LOOK).then(|| heard.clone())
    }

    /// Returns how long this listener waits after its last poll, so that listeners woken together take turns.
    fn poll_delay(&mut self) -> Duration {
        if self.due == 0 {
            return Duration::ZERO;
        }
        let known = self.crowd.filter(|(at, _)| at.elapsed() < COUNT);
        let crowd = if let Some((_, crowd)) = known {
            crowd
        } else {
            let crowd = self.count().unwrap_or(0);
            self.crowd = Some((Instant::now(), crowd));
            crowd
        };
        TURN.saturating_mul(crowd).min(LISTENER_LOOK)
    }

    fn count(&self) -> Result<u32> {
        let rows = self.store.query(
            "SELECT count(*) FROM teamster.beats WHERE team = $1",
            &[(&self.team.as_str(), Type::TEXT)],
        )?;
        Ok(rows
            .first()
            .map_or(0, |row| row.get::<_, i64>(0))
            .try_into()
            .unwrap_or(u32::MAX))
    }

    fn ask(&self) -> Result<ListenerUpdate> {
        let rows = self.store.repeated_query(
            HEAR,
            &[
                (&self.team.as_str(), Type::TEXT),
                (&self.worker.as_str(), Type::TEXT),
            ],
        )?;
        let first = rows.first().ok_or_else(|| no_team(&self.team))?;
        let journal = position(first.get(0));
        let pulse = ChangeCounters {
            journal,
            // Every change of a task has an event, but for the renewal of a lease, which frees no task.
            tasks: journal,
            client_inbox: 0,
            // Only the store writes here, and all of its writes have an event.
            mail: 0,
        };
        let mut signals = Vec::new();
        for row in &rows {
            if let (Some(drain), Some(body)) = (row.get(1), row.get::<_, Option<&str>>(2)) {
                signals.push(read::signal(drain, body)?);
            }
        }
        Ok(ListenerUpdate {
            pulse,
            signals,
            wants_logs: first.get(3),
        })
    }
}

impl Listen for PgListener {
    fn poll(&mut self) -> Result<ListenerUpdate> {
        if let Some(heard) = self.unchanged() {
            return Ok(heard);
        }
        let asked = Instant::now();
        // If the server does not answer, the poll stays due.
        let due = std::mem::replace(&mut self.due, 1).saturating_sub(1);
        let heard = self.ask()?;
        // A request is not notified again once it is answered, so poll again while one is pending.
        let waits = heard.wants_logs || !heard.signals.is_empty();
        self.due = due.max(u8::from(waits));
        self.heard = Some((asked, heard.clone()));
        Ok(heard)
    }
}

/// The connection that receives a team's notifications, if there is one. Without it only polling is left.
struct NotificationStream {
    session: Option<Session>,
    /// When to try to subscribe again.
    try_at: Instant,
}

impl NotificationStream {
    fn new() -> Self {
        Self {
            session: None,
            try_at: Instant::now(),
        }
    }

    /// Restores the connection if it was lost. Returns whether it existed all along, so that no notification was
    /// missed.
    fn ensure_connected(&mut self, store: &PgStore, team: &TeamName) -> bool {
        if self.session.as_ref().is_some_and(|it| !it.is_closed()) {
            return true;
        }
        self.session = None;
        if Instant::now() < self.try_at {
            return false;
        }
        let (session, pause) = match open_notifications(store, team) {
            Ok(Some(session)) => (Some(session), LISTENER_LOOK),
            Ok(None) => {
                tracing::debug!(
                    "changes of team {team} are not notified: a connection pooler is in between"
                );
                (None, POOLED)
            }
            Err(error) => {
                tracing::debug!("changes of team {team} are not notified for now: {error}");
                (None, LISTENER_LOOK)
            }
        };
        self.session = session;
        self.try_at = Instant::now() + pause;
        false
    }

    /// Waits for a notification, or just for `patience` without a connection. Returns the addressees of all that
    /// arrived.
    fn wait(&mut self, patience: Duration) -> Vec<String> {
        if let Some(session) = &mut self.session {
            return session.wait_for_notifications(patience);
        }
        std::thread::sleep(patience);
        Vec::new()
    }
}

/// Returns a connection that receives a team's notifications; `None` behind a pooler that delivers none.
fn open_notifications(store: &PgStore, team: &TeamName) -> Result<Option<Session>> {
    let mut session = store.new_session()?;
    // Only an indirect connection is tested, so that a slow server is not mistaken for a pooler.
    if !session.is_direct {
        let other = store.session()?;
        let is_woken = schema::receives_notifications(&store.url, &mut session, &other);
        store.return_session(other);
        if !is_woken? {
            return Ok(None);
        }
    }
    // The name of a team needs no escaping in a quoted identifier.
    session.execute(&store.url, &format!("LISTEN \"teamster_{team}\""))?;
    Ok(Some(session))
}

/// The watcher of one team: reports events after `seen`, and heartbeats that differ from `beats`.
pub(crate) struct PgWatch {
    store: PgStore,
    team: TeamName,
    notifications: NotificationStream,
    seen: u64,
    beats: BTreeMap<WorkerName, i64>,
    beats_at: Instant,
    /// Until when it polls quickly after a notification.
    alert_until: Instant,
}

impl PgWatch {
    pub(crate) fn new(store: PgStore, team: &TeamName, after: u64) -> Result<Self> {
        let now = Instant::now();
        let mut watch = Self {
            store,
            team: team.clone(),
            notifications: NotificationStream::new(),
            seen: after,
            beats: BTreeMap::new(),
            beats_at: now,
            alert_until: now,
        };
        watch.beats = watch.read_beats()?;
        watch.notifications.ensure_connected(&watch.store, team);
        Ok(watch)
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
            self.notifications.ensure_connected(&self.store, &self.team);
            if !self.notifications.wait(pause).is_empty() {
                self.alert_until = Instant::now() + ALERT;
            }
        }
    }
}

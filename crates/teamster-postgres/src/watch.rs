//! Noticing changes: woken by the server's notifications, with a slow look behind them.
//!
//! A notification only says that there is something to look at. It may be missing: a pooler that hands out connections for one
//! transaction passes none on, and the server sends at most one in 20 milliseconds for a team. So whoever was woken looks again
//! for a moment, and everybody looks now and then. A notification that is for one worker has its name; it is sent always.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use teamster_store::{Change, Heard, Listen, Pulse, Read as _, Result, Watch};
use teamster_types::{TeamName, WorkerName};
use tokio_postgres::types::Type;

use crate::read;
use crate::schema;
use crate::session::Session;
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

/// A listener that is woken together with so many others looks that much later after its last look: of a thousand idle workers two
/// hundred look in a second, whatever happens in the team, and the first of them at once.
const TURN: Duration = Duration::from_millis(5);
/// How often it is counted how many there are.
const COUNT: Duration = Duration::from_secs(30);
/// How often a listener looks that nobody wakes, and how often it tries to be woken again.
const LISTENER_LOOK: Duration = Duration::from_secs(5);
/// How often it is tried to be woken behind a pooler, which passes no notifications on.
const POOLED: Duration = Duration::from_secs(600);
/// How long a listener waits for a notification that may be on its way.
const ARRIVAL: Duration = Duration::from_millis(1);

/// What a worker may have to do something about: what was changed, whether it is to stop, and whether somebody wants its logs.
pub(crate) const HEAR: &str = "SELECT p.seq, p.changes, s.drain, s.body, EXISTS ( \
        SELECT FROM teamster.log_requests l WHERE l.team = $1 AND l.worker = $2 AND l.answer IS NULL \
            AND l.asked_at > clock_timestamp() - interval '10 seconds') \
    FROM teamster.positions p \
    LEFT JOIN teamster.signals s ON s.team = p.team AND s.worker = $2 WHERE p.team = $1 ORDER BY s.drain";

/// Listens for one worker. It asks the server only when it was woken, and now and then.
pub(crate) struct PgListener {
    store: PgStore,
    team: TeamName,
    worker: WorkerName,
    wakes: Wakes,
    /// What was heard last, and when.
    heard: Option<(Instant, Heard)>,
    /// How many looks are due: one more than is obvious, because changes that come close together wake only once.
    due: u8,
    /// How many workers beat, and when they were counted.
    crowd: Option<(Instant, u32)>,
}

impl PgListener {
    pub(crate) fn new(store: PgStore, team: &TeamName, worker: &WorkerName) -> Self {
        Self {
            store,
            team: team.clone(),
            worker: worker.clone(),
            wakes: Wakes::new(),
            heard: None,
            due: 0,
            crowd: None,
        }
    }

    /// Returns what was heard last, if nothing has happened since as far as anybody can tell.
    fn unchanged(&mut self) -> Option<Heard> {
        if !self.wakes.keep(&self.store, &self.team) {
            return None;
        }
        let woken = self.wakes.wait(ARRIVAL);
        if !woken.is_empty() {
            self.due = 2;
        }
        let is_meant = woken.iter().any(|name| *name == *self.worker.as_str());
        let turn = self.turn();
        let (at, heard) = self.heard.as_ref()?;
        let looks = is_meant || (self.due > 0 && at.elapsed() >= turn);
        (!looks && at.elapsed() < LISTENER_LOOK).then(|| heard.clone())
    }

    /// Returns how long this one waits after its last look, so that all who are woken together take turns.
    fn turn(&mut self) -> Duration {
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

    fn ask(&self) -> Result<Heard> {
        let rows = self.store.repeated_query(
            HEAR,
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
        Ok(Heard {
            pulse,
            signals,
            wants_logs: first.get(4),
        })
    }
}

impl Listen for PgListener {
    fn hear(&mut self) -> Result<Heard> {
        if let Some(heard) = self.unchanged() {
            return Ok(heard);
        }
        let asked = Instant::now();
        // What was missed because the server did not answer is looked for again.
        let due = std::mem::replace(&mut self.due, 1).saturating_sub(1);
        let heard = self.ask()?;
        // Requests that wait are not told again once they are answered.
        let waits = heard.wants_logs || !heard.signals.is_empty();
        self.due = due.max(u8::from(waits));
        self.heard = Some((asked, heard.clone()));
        Ok(heard)
    }
}

/// The connection that changes of a team wake, where one can be had. Without it the slow look must do.
struct Wakes {
    session: Option<Session>,
    /// When it is worth trying to have one.
    try_at: Instant,
}

impl Wakes {
    fn new() -> Self {
        Self {
            session: None,
            try_at: Instant::now(),
        }
    }

    /// Makes the connection again if it was lost. Returns whether it was there all the time, so that nothing was missed.
    fn keep(&mut self, store: &PgStore, team: &TeamName) -> bool {
        if self.session.as_ref().is_some_and(|it| !it.is_closed()) {
            return true;
        }
        self.session = None;
        if Instant::now() < self.try_at {
            return false;
        }
        let (session, pause) = match listening(store, team) {
            Ok(Some(session)) => (Some(session), LISTENER_LOOK),
            Ok(None) => {
                tracing::debug!("changes of team {team} wake nobody: a pooler is between");
                (None, POOLED)
            }
            Err(error) => {
                tracing::debug!("changes of team {team} wake nobody now: {error}");
                (None, LISTENER_LOOK)
            }
        };
        self.session = session;
        self.try_at = Instant::now() + pause;
        false
    }

    /// Waits for a notification, or just so long where none comes. Returns whom all that came are for.
    fn wait(&mut self, patience: Duration) -> Vec<String> {
        if let Some(session) = &mut self.session {
            return session.wait_for_wakes(patience);
        }
        std::thread::sleep(patience);
        Vec::new()
    }
}

/// Returns a connection that changes of a team wake; `None` where a pooler passes no notifications on.
fn listening(store: &PgStore, team: &TeamName) -> Result<Option<Session>> {
    let mut session = store.own_session()?;
    // A server that is only slow to pass a notification on must not be taken for a pooler.
    if !session.is_direct {
        let other = store.session()?;
        let is_woken = schema::is_woken(&store.url, &mut session, &other);
        store.keep(other);
        if !is_woken? {
            return Ok(None);
        }
    }
    // The name of a team has no character that a quoted name could not have.
    session.execute(&store.url, &format!("LISTEN \"teamster_{team}\""))?;
    Ok(Some(session))
}

/// Watches one team: the journal after `seen`, and heartbeats that differ from `beats`.
pub(crate) struct PgWatch {
    store: PgStore,
    team: TeamName,
    wakes: Wakes,
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
            wakes: Wakes::new(),
            seen: after,
            beats: BTreeMap::new(),
            beats_at: now,
            alert_until: now,
        };
        watch.beats = watch.read_beats()?;
        watch.wakes.keep(&watch.store, team);
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
            self.wakes.keep(&self.store, &self.team);
            if !self.wakes.wait(pause).is_empty() {
                self.alert_until = Instant::now() + ALERT;
            }
        }
    }
}

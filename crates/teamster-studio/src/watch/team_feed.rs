//! The feed of one viewed team, kept current by two threads: one publishes events immediately, and the other builds the
//! view, which takes longer.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use teamster_fs::layout::Layout;
use teamster_store::{Change, ReadStore, Result, StoreErrorKind, Watch};
use teamster_types::TeamName;
use teamster_types::health::Limits;
use teamster_types::team::TeamConfig;
use teamster_view::model::{LiveTeam, PAGE, TeamProjection, TeamView, Timeline};
use tracing::debug;

use super::subscriber::{Subscriber, message};
use crate::api::{Gone, Hello};

/// The poll interval, because ages change without an event.
const TICK: Duration = Duration::from_secs(2);
/// The minimum interval between two views. Building them takes at most a third of the time: those of a large team take
/// longer. Journal events do not wait for them.
const BETWEEN_VIEWS: Duration = Duration::from_millis(15);
const TIMES_ITS_COST: u32 = 2;
/// The keep-alive interval: some proxies and browsers consider a silent connection dead.
const QUIET: Duration = Duration::from_secs(15);
/// How long the first view waits for the journal to be read.
const FIRST_READ: Duration = Duration::from_millis(100);
/// The maximum number of projections of earlier moments that are kept, for going back in time quickly.
const MOST_MARKERS: usize = 24;

/// The feed of one viewed team.
pub struct TeamFeed {
    team: TeamName,
    read: Arc<dyn ReadStore>,
    /// Lock order: taken before `clients` when both are needed.
    seen: Mutex<FeedState>,
    /// Never held while reading or building something, so that an event does not wait.
    clients: Mutex<FeedClients>,
    ended: AtomicBool,
    /// When the feed was last used, in milliseconds since it was opened.
    asked: AtomicU64,
    opened: Instant,
}

/// The view of the team and its history.
struct FeedState {
    live: LiveTeam,
    markers: Vec<TeamProjection>,
    every: u64,
}

/// The subscribed clients.
struct FeedClients {
    /// The position of the last event that was sent to subscribers.
    sent: u64,
    subscribers: Vec<Subscriber>,
    spoke: Instant,
}

impl TeamFeed {
    /// Opens a team and starts the threads that follow it.
    pub fn open(
        read: Arc<dyn ReadStore>,
        layout: &Layout,
        team: &TeamName,
        limits: &Limits,
    ) -> Result<Arc<Self>> {
        let live = LiveTeam::open(&*read, team, limits)?.beside_sessions(layout, &*read);
        let sent = live.last();
        let watch = read.watch(team, sent)?;
        let feed = Arc::new(Self {
            team: team.clone(),
            read,
            seen: Mutex::new(FeedState {
                live,
                markers: Vec::new(),
                every: PAGE as u64,
            }),
            clients: Mutex::new(FeedClients {
                sent,
                subscribers: Vec::new(),
                spoke: Instant::now(),
            }),
            ended: AtomicBool::new(false),
            asked: AtomicU64::new(0),
            opened: Instant::now(),
        });
        let until = Instant::now() + FIRST_READ;
        while Instant::now() < until && feed.read_on() {}
        let (happened, changes) = channel();
        let (telling, viewing) = (feed.clone(), feed.clone());
        start(format!("feed {team}"), move || {
            telling.follow_journal(watch, &happened);
        })?;
        start(format!("view {team}"), move || viewing.keep_view(&changes))?;
        Ok(feed)
    }

    /// Returns whether it was closed, because the team is gone or the feed was unused for long.
    pub fn is_closed(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Closes the feed.
    pub fn close(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// Returns for how long the feed has been unused; zero while a client is subscribed.
    pub fn idle(&self) -> Duration {
        if self.listeners() > 0 {
            return Duration::ZERO;
        }
        let asked = Duration::from_millis(self.asked.load(Ordering::Relaxed));
        self.opened.elapsed().saturating_sub(asked)
    }

    /// Returns the number of subscribed clients.
    pub fn listeners(&self) -> usize {
        let clients = self.clients();
        let here = clients.subscribers.iter().filter(|one| !one.is_gone());
        here.count()
    }

    /// Returns the current view of the team.
    pub fn view(&self) -> TeamView {
        self.seen_for_answer().live.view().clone()
    }

    /// Returns the view of the team at a past moment, from the journal alone.
    pub fn view_at(&self, seq: u64) -> Result<TeamView> {
        Ok(self.projection_at(seq)?.view())
    }

    /// Returns the timeline up to now.
    pub fn timeline(&self) -> Timeline {
        self.seen_for_answer().live.projection().timeline()
    }

    /// Returns the projection of the journal up to a position.
    pub fn projection_at(&self, seq: u64) -> Result<TeamProjection> {
        let nearest = {
            let seen = self.seen_for_answer();
            let now = seen.live.projection();
            let markers = seen.markers.iter().chain([now]);
            markers
                .filter(|projection| projection.seq() <= seq)
                .max_by_key(|projection| projection.seq())
                .cloned()
        };
        let mut projection = nearest.unwrap_or_else(|| TeamProjection::of(self.team.as_str()));
        projection.advance_to(&*self.read, &self.team, seq)?;
        Ok(projection)
    }

    /// Returns the current projection of the journal.
    pub fn projection(&self) -> TeamProjection {
        self.seen_for_answer().live.projection().clone()
    }

    /// Subscribes a client: it gets the events after `after`, each once, then the view, then new events. Returns when
    /// the client is up to date or gone, so it is called on its own thread.
    pub fn subscribe(&self, subscriber: Subscriber, after: Option<u64>) -> Result<()> {
        let hello = Hello {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            team: Some(self.team.as_str().to_owned()),
        };
        if !subscriber.give(&message("hello", None, &hello)) {
            return Ok(());
        }
        let mut next = after.map(|after| after.saturating_add(1));
        // Live events do not wait for a client, so they could disconnect one that is still catching up.
        while subscriber.has_read_all() {
            {
                // No patch may be made until the client has the view that it applies to.
                let seen = self.seen_for_answer();
                let view = message("view", None, seen.live.view());
                let mut clients = self.clients();
                // The feed is marked closed before its clients are notified.
                if self.is_closed() {
                    subscriber.end_with(&self.gone());
                    return Ok(());
                }
                let wanted = next.unwrap_or(clients.sent + 1);
                // Nothing is missing, so the client can join without a gap or a duplicate.
                if wanted > clients.sent {
                    subscriber.offer(&view);
                    clients.subscribers.push(subscriber);
                    return Ok(());
                }
            }
            let Some(from) = next else { continue };
            let up_to = self.clients().sent;
            let page = self.read.events(&self.team, from, PAGE)?;
            let events = page.events.iter().filter(|event| event.seq <= up_to);
            let mut reached = from;
            for event in events {
                if !subscriber.give(&message("journal", Some(event.seq), event)) {
                    return Ok(());
                }
                reached = event.seq + 1;
            }
            // Unreadable positions are skipped, because waiting for them would never end.
            next = Some(if reached == from { up_to + 1 } else { reached });
        }
        Ok(())
    }

    fn seen(&self) -> MutexGuard<'_, FeedState> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seen_for_answer(&self) -> MutexGuard<'_, FeedState> {
        let now = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.asked.store(now, Ordering::Relaxed);
        self.seen()
    }

    fn clients(&self) -> MutexGuard<'_, FeedClients> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads a part of a long journal and returns whether there is more. Other requests wait only while it is applied.
    fn read_on(&self) -> bool {
        let (from, count, is_last_part) = {
            let seen = self.seen();
            let Some((from, count)) = seen.live.wanted() else {
                return false;
            };
            (from, count, from + count as u64 > seen.live.last())
        };
        let page = match self.read.events(&self.team, from, count) {
            Ok(page) => page,
            Err(error) => {
                debug!(
                    "cannot read the journal of {} from {from}: {error}",
                    self.team
                );
                return false;
            }
        };
        if is_last_part {
            // The view needs to know every damaged line. They are found here, so that no request waits for it.
            if let Err(error) = self.read.damaged_lines(&self.team) {
                debug!("cannot look for damaged lines of {}: {error}", self.team);
            }
        }
        let mut seen = self.seen();
        if let Some(patch) = seen.live.count_in(&*self.read, &page) {
            self.clients().broadcast(&message("patch", None, &patch));
        }
        seen.mark();
        !seen.live.is_read()
    }

    /// Publishes events as they arrive, before the view is updated.
    fn follow_journal(&self, mut watch: Box<dyn Watch>, happened: &Sender<Vec<Change>>) {
        while !self.is_closed() {
            let changes = match watch.wait(TICK) {
                Ok(changes) => changes,
                Err(error) if error.kind == StoreErrorKind::NotFound => return self.is_gone(),
                Err(error) => {
                    debug!("cannot watch team {}: {error}", self.team);
                    std::thread::sleep(TICK);
                    continue;
                }
            };
            if changes.is_empty() {
                continue;
            }
            self.send_events(&changes);
            if happened.send(changes).is_err() {
                return;
            }
        }
    }

    fn send_events(&self, changes: &[Change]) {
        let mut clients = self.clients();
        for change in changes {
            if let Change::Event(event) = change
                && event.seq > clients.sent
            {
                if !clients.subscribers.is_empty() {
                    clients.broadcast(&message("journal", Some(event.seq), event));
                }
                clients.sent = event.seq;
            }
        }
    }

    /// Keeps the view current until the feed is closed.
    fn keep_view(&self, changes: &Receiver<Vec<Change>>) {
        let mut gathered: Vec<Change> = Vec::new();
        let mut viewed = Instant::now();
        let mut between = BETWEEN_VIEWS;
        while !self.is_closed() {
            let more = self.read_on();
            let pause = if gathered.is_empty() { TICK } else { between };
            let patience = if more {
                Duration::ZERO
            } else {
                pause.saturating_sub(viewed.elapsed())
            };
            match changes.recv_timeout(patience) {
                Ok(first) => gathered.extend(first.into_iter().chain(changes.try_iter().flatten())),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let is_due = viewed.elapsed() >= between;
            if (!gathered.is_empty() && is_due) || viewed.elapsed() >= TICK {
                let begun = Instant::now();
                if !self.update(&std::mem::take(&mut gathered)) {
                    return self.is_gone();
                }
                viewed = Instant::now();
                between = BETWEEN_VIEWS.max((viewed - begun) * TIMES_ITS_COST);
            }
        }
    }

    /// Applies changes to the view; returns `false` when the team is gone.
    fn update(&self, changes: &[Change]) -> bool {
        let mut seen = self.seen();
        match seen.live.apply(&*self.read, changes) {
            Ok(Some(patch)) => {
                let patch = message("patch", None, &patch);
                self.clients().broadcast(&patch);
            }
            Ok(None) => self.clients().send_keepalive(),
            Err(error) => {
                debug!("cannot update the view of {}: {error}", self.team);
                return error.kind != StoreErrorKind::NotFound;
            }
        }
        seen.mark();
        true
    }

    fn gone(&self) -> Bytes {
        let gone = Gone {
            message: format!("team {} is not there any more", self.team),
        };
        message("gone", None, &gone)
    }

    /// Returns whether it follows the team of this registry.
    pub fn is_of(&self, config: &TeamConfig) -> bool {
        self.seen().live.is_of(config)
    }

    /// Notifies clients that the team is gone, and closes the feed.
    pub(super) fn is_gone(&self) {
        // Closed first, so that a client that is notified and asks again does not get this feed.
        self.close();
        let mut clients = self.clients();
        let gone = self.gone();
        for subscriber in clients.subscribers.drain(..) {
            subscriber.end_with(&gone);
        }
    }
}

pub(super) fn start(name: String, work: impl FnOnce() + Send + 'static) -> Result<()> {
    let thread = std::thread::Builder::new().name(name).spawn(work);
    thread.map(drop).map_err(|error| {
        teamster_store::StoreError::new(StoreErrorKind::Failed, format!("no thread: {error}"))
    })
}

impl FeedClients {
    fn broadcast(&mut self, event: &Bytes) {
        self.spoke = Instant::now();
        self.subscribers
            .retain(|subscriber| subscriber.offer(event));
    }

    fn send_keepalive(&mut self) {
        if self.spoke.elapsed() >= QUIET {
            self.broadcast(&Bytes::from_static(b": still here\n\n"));
        }
    }
}

impl FeedState {
    /// Keeps the projection of this moment, if the last kept one is far enough back. When there are too many, every
    /// other one is dropped.
    fn mark(&mut self) {
        let now = self.live.projection();
        let last = self.markers.last().map_or(0, TeamProjection::seq);
        if now.seq() < last + self.every {
            return;
        }
        self.markers.push(now.clone());
        if self.markers.len() > MOST_MARKERS {
            let mut place = 0;
            self.markers.retain(|_| {
                place += 1;
                place % 2 == 0
            });
            self.every *= 2;
        }
    }
}

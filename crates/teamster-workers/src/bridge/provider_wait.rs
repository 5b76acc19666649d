//! The wait of a worker for its provider: which limit it waits for, until when, and which task it keeps meanwhile.
//!
//! ```text
//! agent ended by a limit ──▶ LimitHit ──▶ recorded as `worker.paused` ──▶ read by the other workers of the provider
//!                               │                                                  │
//!                               ▼                                                  ▼
//!                    waits with its task, then continues                 waits before its next claim
//! ```
//!
//! Only a rate limit concerns the other workers; each finds out by itself about an outage or a lost sign-in.
//!
//! The end of a limit is kept by two clocks: the wall clock of the team, and the monotonic clock, which other programs
//! cannot set. The wait is over as soon as either of them has reached the end.

use std::time::{Duration, Instant};

use teamster_agents::{AgentVerdict, ErrorClass};
use teamster_fs::OrTrace as _;
use teamster_journal::{Event, EventKind, EventType};
use teamster_store::Claimed;
use teamster_types::heartbeat::{LimitCause, ProviderLimit};
use teamster_types::{TaskId, Time};

use super::completion::{TaskResolution, WorkOutcome};
use super::reporter::Reporter;
use crate::attempt::StopCause;
use crate::limits::WorkerLimits;

/// The number of events before the bridge's start that are searched for limits of its provider.
const SEARCHED_EVENTS: usize = 20_000;
/// How often a wait re-reads the clock, because the monotonic clock may stop while the machine sleeps.
const CLOCK_POLL: Duration = Duration::from_secs(30);
/// The longest random delay after a moment that several workers wait for.
const LONGEST_JITTER: Duration = Duration::from_secs(30);

/// A limit of the provider that the agent hit.
pub(super) struct LimitHit {
    /// The limit, as other workers learn of it.
    pub(super) limit: ProviderLimit,
    /// How long the worker waits, in seconds.
    pub(super) seconds: u64,
    /// What the client said, in words.
    pub(super) reason: String,
}

/// The task that a worker keeps while it waits.
struct KeptTask {
    claimed: Claimed,
    /// Why the claim on it is lost.
    lost: Option<String>,
}

/// The wait of one worker for its provider.
pub(super) struct ProviderWait {
    provider: String,
    limits: WorkerLimits,
    /// Failures of the provider in a row.
    outages: u32,
    /// The limit that the worker waits for, and its end by the monotonic clock.
    limit: Option<(ProviderLimit, Instant)>,
    kept: Option<KeptTask>,
}

impl ProviderWait {
    /// Creates the state of a worker that does not wait for its provider.
    pub(super) fn new(provider: String, limits: WorkerLimits) -> Self {
        Self {
            provider,
            limits,
            outages: 0,
            limit: None,
            kept: None,
        }
    }

    /// Returns whether the worker waits for its provider.
    pub(super) fn is_waiting(&self) -> bool {
        self.limit.is_some()
    }

    /// Returns the limit that ended the agent, or `None` when it ended in another way. Counts the failure of the provider.
    pub(super) fn hit_by(&mut self, outcome: &WorkOutcome, now: Time) -> Option<LimitHit> {
        let WorkOutcome::Ran(end) = outcome else {
            return None;
        };
        let AgentVerdict::Paused { class, reason } = &end.outcome.verdict else {
            return None;
        };
        if !matches!(end.cause, None | Some(StopCause::Silent | StopCause::Late)) {
            return None;
        }
        let known = end.outcome.limit.as_ref();
        let resets_at = known.and_then(|known| known.resets_at);
        let until = self.count_outage(now, resets_at);
        Some(LimitHit {
            seconds: until.since(now).as_secs(),
            limit: ProviderLimit {
                provider: self.provider.clone(),
                cause: match class {
                    ErrorClass::Outage => LimitCause::Outage,
                    ErrorClass::SignIn => LimitCause::SignIn,
                    ErrorClass::RateLimit | ErrorClass::Task => LimitCause::RateLimit,
                },
                window: known.and_then(|known| known.window.clone()),
                until,
            },
            reason: format!("{}: {reason}", class.words()),
        })
    }

    /// Counts a failure of the provider, and returns when the worker tries again. `resets_at` is when the client says that the
    /// limit ends; a random delay is added to it, so that workers that wait for the same moment do not all start at once.
    fn count_outage(&mut self, now: Time, resets_at: Option<Time>) -> Time {
        self.outages += 1;
        let pause = self.limits.pause_after(self.outages);
        match resets_at.filter(|resets_at| *resets_at > now) {
            Some(resets_at) => resets_at.after(jitter(resets_at.since(now))),
            None => now.after(pause),
        }
    }

    /// Notes the end of a task: a completed one shows that the provider works again.
    pub(super) fn note_resolution(&mut self, resolution: &TaskResolution) {
        if matches!(resolution, TaskResolution::Completed(_)) {
            self.outages = 0;
        }
    }

    /// Returns whether a limit that another worker hit keeps this worker from working as well.
    pub(super) fn concerns_us(&self, limit: &ProviderLimit, now: Time) -> bool {
        limit.provider == self.provider && limit.cause == LimitCause::RateLimit && limit.until > now
    }

    /// Waits for a limit, unless a known limit ends later. Returns whether it did.
    pub(super) fn wait_for(&mut self, limit: &ProviderLimit, now: Time) -> bool {
        let known = self.limit.as_ref();
        let is_longer = known.is_none_or(|(known, _)| known.until < limit.until);
        if is_longer {
            let end = Instant::now() + limit.until.since(now);
            self.limit = Some((limit.clone(), end));
        }
        is_longer
    }

    /// Returns how long the worker still waits, at most until the clock must be read again, or `None` when it does not wait.
    pub(super) fn time_left(&self, now: Time) -> Option<Duration> {
        let (limit, end) = self.limit.as_ref()?;
        let left = end.saturating_duration_since(Instant::now());
        Some(limit.until.since(now).min(left).min(CLOCK_POLL))
    }

    /// Ends the wait for a limit that has passed; returns whether there was one.
    pub(super) fn end_if_over(&mut self, now: Time) -> bool {
        let is_due = |(limit, end): &mut (ProviderLimit, Instant)| {
            limit.until <= now || *end <= Instant::now()
        };
        self.limit.take_if(is_due).is_some()
    }

    /// Keeps a task during the wait.
    pub(super) fn keep_task(&mut self, claimed: &Claimed) {
        self.kept = Some(KeptTask {
            claimed: claimed.clone(),
            lost: None,
        });
    }

    /// Returns the task that is kept during the wait.
    pub(super) fn kept_task(&self) -> Option<&Claimed> {
        self.kept.as_ref().map(|kept| &kept.claimed)
    }

    /// Returns whether this task is kept during the wait.
    pub(super) fn keeps(&self, task: &TaskId) -> bool {
        self.kept_task().is_some_and(|kept| kept.task.id() == task)
    }

    /// Notes why the claim on the kept task is lost, or that it is held.
    pub(super) fn set_lost(&mut self, lost: Option<String>) {
        if let Some(kept) = &mut self.kept {
            kept.lost = lost;
        }
    }

    /// Returns whether the claim on the kept task is lost.
    pub(super) fn is_task_lost(&self) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.lost.is_some())
    }

    /// Ends the keeping of a task; returns why the claim on it is lost, or `None` while it is held.
    pub(super) fn release_task(&mut self) -> Option<String> {
        self.kept.take()?.lost
    }
}

/// Returns the last limit of the worker's provider that a member of the team hit before this bridge started.
pub(super) fn known_limit(reporter: &Reporter) -> Option<ProviderLimit> {
    let (store, team) = (reporter.store(), reporter.team());
    let any = store.last_of(team, &[EventType::WorkerPaused.name()]);
    any.ok_or_trace("look for known limits")??;
    let last = store.last_events(team, SEARCHED_EVENTS);
    let last = last.ok_or_trace("look for known limits")?.events;
    let provider = &reporter.identity().provider;
    last.iter()
        .rev()
        .find_map(|event| reported_limit(event, provider))
}

/// Returns the limit that an event reports, if it is a limit of this provider.
pub(super) fn reported_limit(event: &Event, provider: &str) -> Option<ProviderLimit> {
    if !event.is(EventType::WorkerPaused) {
        return None;
    }
    match event.payload() {
        EventKind::WorkerPaused(paused) => paused.limit.filter(|it| it.provider == provider),
        _ => None,
    }
}

/// Returns a random delay for a worker that has waited this long: at most a tenth of the wait, and at most 30 seconds.
fn jitter(wait: Duration) -> Duration {
    let longest = (wait / 10).min(LONGEST_JITTER);
    let random = u32::from_str_radix(teamster_fs::random_hex().get(..4).unwrap_or_default(), 16);
    longest.saturating_mul(random.unwrap_or(0)) / 0x1_0000
}

#[cfg(test)]
mod tests {
    use super::super::completion::ReleaseCause;
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const NOW: Time = Time::from_millis(1_000_000);

    fn wait() -> ProviderWait {
        ProviderWait::new("claude".to_owned(), WorkerLimits::default())
    }

    fn limit(provider: &str, cause: LimitCause, seconds: u32) -> ProviderLimit {
        ProviderLimit {
            provider: provider.to_owned(),
            cause,
            window: None,
            until: NOW.after(seconds * SECOND),
        }
    }

    #[test]
    fn outage_of_the_provider_is_waited_for_twice_as_long_each_time_until_a_task_is_completed() {
        let mut wait = wait();
        for resolution in [
            TaskResolution::Released {
                why: "rate limit".to_owned(),
                cause: ReleaseCause::Stopping,
            },
            TaskResolution::Lost(String::new()),
        ] {
            wait.note_resolution(&resolution);
        }
        assert_eq!(wait.outages, 0);
        for seconds in [5, 10, 20] {
            assert_eq!(wait.count_outage(NOW, None), NOW.after(seconds * SECOND));
        }
        let done = TaskResolution::Completed(crate::task_report::TaskReport::parse(""));
        wait.note_resolution(&done);
        assert_eq!(wait.count_outage(NOW, None), NOW.after(5 * SECOND));
    }

    #[test]
    fn worker_goes_on_within_half_a_minute_and_a_tenth_of_its_wait_after_the_moment() {
        for _ in 0..100 {
            assert!(jitter(10 * SECOND) <= SECOND);
            assert!(jitter(5 * 3600 * SECOND) <= LONGEST_JITTER);
        }
    }

    #[test]
    fn limit_of_another_provider_or_cause_or_of_the_past_does_not_concern_the_worker() {
        let wait = wait();
        assert!(wait.concerns_us(&limit("claude", LimitCause::RateLimit, 9), NOW));
        assert!(!wait.concerns_us(&limit("codex", LimitCause::RateLimit, 9), NOW));
        assert!(!wait.concerns_us(&limit("claude", LimitCause::Outage, 9), NOW));
        assert!(!wait.concerns_us(&limit("claude", LimitCause::RateLimit, 0), NOW));
    }

    #[test]
    fn wait_lasts_until_the_end_of_the_longest_limit() {
        let mut wait = wait();
        assert!(wait.wait_for(&limit("claude", LimitCause::RateLimit, 90), NOW));
        assert!(!wait.wait_for(&limit("claude", LimitCause::RateLimit, 60), NOW));
        assert_eq!(wait.time_left(NOW), Some(CLOCK_POLL));
        let later = NOW.after(60 * SECOND);
        assert!(!wait.end_if_over(later) && wait.is_waiting());
        assert!(wait.end_if_over(later.after(30 * SECOND)));
        assert!(!wait.is_waiting() && wait.time_left(NOW).is_none());
    }
}

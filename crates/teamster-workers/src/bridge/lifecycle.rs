//! Whether a worker continues: stop requests, quarantine, the wait for work, and the heartbeat that shows it.
//!
//! ```text
//! polling ──claim──▶ executing ──completed──▶ polling
//!    ▲                   ├─ its provider cannot be used ──▶ limited, with its task, until it can be ──▶ executing
//!    │                   └─ failure ──▶ polling; too many in a row ──▶ quarantined until a person resumes it
//!    └── stop requested or team gone, in any state ──▶ the bridge leaves
//! ```

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use serde_json::json;
use signal_hook::iterator::Signals;
use teamster_fs::OrTrace as _;
use teamster_fs::proc::Machine;
use teamster_journal::EventKind;
use teamster_journal::payload::WorkerQuarantined;
use teamster_store::{Signal, Store, StoreError, StoreErrorKind};
use teamster_types::health::Verdict;
use teamster_types::heartbeat::{ProviderLimit, StoreRefusal, WorkerStatus};
use teamster_types::json::Object;
use teamster_types::phrase::{Phrase, PhraseCode};
use teamster_types::task::Token;
use teamster_types::text::shown;
use teamster_types::{TaskId, Time};

use super::BridgeEvent;
use super::completion::{LONGEST_REASON, ReleaseCause, TaskResolution};
use super::heartbeat::HeartbeatThread;
use super::reporter::Reporter;
use crate::limits::WorkerLimits;
use crate::reclaim;

/// The system signal by which the supervisor asks a bridge to leave and keep the record of its launch.
pub(crate) const REPLACE: teamster_isolate::Signal = teamster_isolate::Signal::USR1;
/// The shortest time between a claim that found nothing and the next one, however many events arrive.
const CLAIM_PAUSE: Duration = Duration::from_millis(300);
/// The poll interval for tasks that wait for a time instead of an event, such as a back-off or a better worker's turn.
const TASK_POLL: Duration = Duration::from_secs(5);
/// One worker of each group of this size looks for tasks that appear without an event.
const WORKERS_PER_CHECK: usize = 4;
/// The most turns among which the workers of a large team are spread.
const MOST_TURNS: usize = 24;

/// The quarantine of a worker, which claims nothing until a person resumes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Quarantine {
    /// The number of errors in a row.
    errors: u32,
    /// Why the last attempt failed.
    why: String,
}

impl Quarantine {
    /// Reports the quarantine.
    pub(super) fn report(self, reporter: &mut Reporter) {
        let Self { errors, why } = self;
        let name = reporter.name().to_string();
        let text = format!(
            "takes no more tasks after {errors} errors in a row; `teamster worker resume {name}` lets it go on"
        );
        reporter.say(&text);
        let mut extra = Object::new();
        extra.insert("error".into(), json!(shown(&why, LONGEST_REASON)));
        reporter.send_to_lead("error", &text, extra);
        let evidence = [Phrase::new(PhraseCode::ErrorsInARow, [("count", &errors)])];
        let event = reporter.event(EventKind::WorkerQuarantined(WorkerQuarantined {
            worker: Some(name),
            verdict: Verdict::Quarantined.as_str().to_owned(),
            evidence: Phrase::texts(&evidence),
            evidence_codes: Phrase::keys(&evidence).into(),
            errors,
            reason: shown(&why, LONGEST_REASON),
        }));
        reporter.record(event);
    }
}

/// Counts consecutive failures, and decides when a worker stops taking tasks.
#[derive(Debug)]
struct FailureCounter {
    limits: WorkerLimits,
    /// Failures in a row.
    errors: u32,
}

impl FailureCounter {
    fn new(limits: WorkerLimits) -> Self {
        Self { limits, errors: 0 }
    }

    fn is_quarantined(&self) -> bool {
        self.errors >= self.limits.quarantine_errors
    }

    /// Counts the end of a task, and returns a quarantine when the worker must stop taking tasks.
    fn count(&mut self, resolution: &TaskResolution) -> Option<Quarantine> {
        match resolution {
            TaskResolution::Completed(_) => {
                self.errors = 0;
                None
            }
            TaskResolution::Failed(why)
            | TaskResolution::Released {
                cause: ReleaseCause::Worker,
                why,
            } => {
                self.errors += 1;
                self.is_quarantined().then(|| Quarantine {
                    errors: self.errors,
                    why: why.clone(),
                })
            }
            TaskResolution::Released {
                cause: ReleaseCause::Stopping,
                ..
            }
            | TaskResolution::Blocked(_)
            | TaskResolution::Lost(_) => None,
        }
    }
}

/// The request by which a worker leaves, if there is one.
#[derive(Debug, Default)]
struct StopState {
    request: Option<Signal>,
    /// Whether the request is the supervisor's, which starts the worker again.
    is_replaced: bool,
}

impl StopState {
    /// Handles a stop request. A request to stop now overrides one to finish the current task first. Returns the line
    /// that reports it, or `None` when it changes nothing.
    ///
    /// A request to this worker by name also overrides the supervisor's: the worker is not to be started again. A signal
    /// of the system does not, because the supervisor sends one to a worker that takes too long to leave.
    fn stop(&mut self, signal: Signal) -> Option<String> {
        let is_by_name = !signal.request_id.is_empty();
        let is_new = match &self.request {
            None => true,
            Some(_) if self.is_replaced => is_by_name,
            Some(known) => known.drain && !signal.drain,
        };
        self.is_replaced &= !is_by_name;
        is_new.then(|| {
            let how = if signal.drain {
                "stops after the current task"
            } else {
                "stops now"
            };
            let line = format!("{how}: {}", signal.reason);
            self.request = Some(signal);
            line
        })
    }

    /// Handles the supervisor's request to leave and be started again. Returns the line that reports it, or `None` when
    /// it changes nothing. A worker that was asked to stop before stops for good, and now; it answers that request.
    fn replace(&mut self, signal: Signal) -> Option<String> {
        match &mut self.request {
            None => {
                self.is_replaced = true;
                self.stop(signal)
            }
            Some(known) if known.drain => {
                known.drain = false;
                Some(format!("stops now: {}", signal.reason))
            }
            Some(_) => None,
        }
    }
}

/// The state of a worker between its start and its end.
pub(super) struct Lifecycle {
    heartbeat: HeartbeatThread,
    stop: StopState,
    team_is_gone: bool,
    failures: FailureCounter,
    /// Whether the lead was told that the worker is idle.
    reported_idle: bool,
}

impl Lifecycle {
    /// Creates the state of a worker whose first heartbeat is already written.
    pub(super) fn new(heartbeat: HeartbeatThread, limits: WorkerLimits) -> Self {
        Self {
            heartbeat,
            stop: StopState::default(),
            team_is_gone: false,
            failures: FailureCounter::new(limits),
            reported_idle: false,
        }
    }

    /// Shows the worker's status in its heartbeat.
    pub(super) fn set_status(&self, status: WorkerStatus) {
        self.heartbeat.set_status(status);
    }

    /// Handles a stop request. Returns the line that reports it, or `None` when it changes nothing.
    pub(super) fn request_stop(&mut self, signal: Signal) -> Option<String> {
        self.stop.stop(signal)
    }

    /// Handles the supervisor's request to leave and be started again. Returns the line that reports it, or `None` when
    /// it changes nothing.
    pub(super) fn request_replacement(&mut self, signal: Signal) -> Option<String> {
        self.stop.replace(signal)
    }

    /// Returns whether the worker leaves because its supervisor starts it again.
    pub(super) fn is_replaced(&self) -> bool {
        self.stop.is_replaced
    }

    /// Notes that the team was deleted.
    pub(super) fn note_team_gone(&mut self) {
        self.team_is_gone = true;
    }

    /// Returns whether the worker was asked to stop, now or after its task.
    pub(super) fn is_stopping(&self) -> bool {
        self.stop.request.is_some()
    }

    /// Returns whether the worker was asked to stop without finishing its task.
    pub(super) fn is_stopping_now(&self) -> bool {
        self.stop.request.as_ref().is_some_and(|stop| !stop.drain)
    }

    /// Returns whether the team was deleted.
    pub(super) fn is_team_gone(&self) -> bool {
        self.team_is_gone
    }

    /// Returns whether the worker takes no more tasks.
    pub(super) fn is_over(&self) -> bool {
        self.is_stopping() || self.team_is_gone
    }

    /// Returns whether the worker may claim tasks: it is not quarantined.
    pub(super) fn may_work(&self) -> bool {
        !self.failures.is_quarantined()
    }

    /// Shows the provider limit that the worker waits for in its heartbeat, or that it waits for none.
    pub(super) fn show_limit(&self, limit: Option<ProviderLimit>) {
        self.heartbeat.set_limit(limit);
    }

    /// Shows in the heartbeat what the store does not let the worker do, and why. An error that passes by itself, or
    /// concerns this change only, is not shown.
    pub(super) fn show_refusal(&self, action: &str, error: &StoreError, now: Time) {
        let is_lasting = error.kind == StoreErrorKind::Unreachable && !error.busy;
        self.heartbeat.set_refusal(is_lasting.then(|| StoreRefusal {
            at: now,
            message: format!("cannot {action}: {}", error.message),
            hint: error.hint.clone(),
        }));
    }

    /// Notes that the store accepts the changes of the worker.
    pub(super) fn end_refusal(&self) {
        self.heartbeat.set_refusal(None);
    }

    /// Notes that the worker holds a task, whose lease is renewed from now on.
    pub(super) fn begin_task(&mut self, task: &TaskId, token: &Token) {
        self.reported_idle = false;
        self.heartbeat.begin_task(task, token);
    }

    /// Notes that the worker no longer holds a task.
    pub(super) fn end_task(&self) {
        self.heartbeat.end_task(self.failures.errors);
        self.set_status(if self.failures.is_quarantined() {
            WorkerStatus::Quarantined
        } else {
            WorkerStatus::Polling
        });
    }

    /// Notes that the agent gave a sign of life.
    pub(super) fn note_activity(&self, session: Option<&str>) {
        self.heartbeat.note_activity(session);
    }

    /// Counts failures in a row, and returns a quarantine when the worker must stop taking tasks.
    pub(super) fn count_resolution(&mut self, resolution: &TaskResolution) -> Option<Quarantine> {
        self.failures.count(resolution)
    }

    /// Ends a quarantine; returns whether there was one.
    pub(super) fn resume(&mut self) -> bool {
        let was_quarantined = self.failures.is_quarantined();
        if was_quarantined {
            self.failures.errors = 0;
            self.heartbeat.end_task(0);
            self.set_status(WorkerStatus::Polling);
        }
        was_quarantined
    }

    /// Returns whether to tell the lead that the worker is idle: once until the next task.
    pub(super) fn take_idle_report(&mut self) -> bool {
        !std::mem::replace(&mut self.reported_idle, true)
    }

    /// Takes the stop request that the worker answers when it leaves.
    pub(super) fn take_stop(&mut self) -> Option<Signal> {
        self.stop.request.take()
    }

    /// Ends the heartbeat in order, so that other processes see that the worker has left.
    pub(super) fn end_heartbeat(self) -> teamster_store::Result<()> {
        self.heartbeat.stop()
    }
}

/// The outlook of an idle worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WorkOutlook {
    /// There may be a task now.
    Now,
    /// There may be a task later: other workers are still busy.
    Later,
    /// Every task is done. New work without an event can come only from another program that edits a file in place, so the
    /// workers of a large team take turns in polling for it: this worker has turn `turn` of `turns`.
    AllDone { turn: u32, turns: u32 },
}

impl WorkOutlook {
    /// Checks for tasks that become available without an event. Tasks of dead workers are requeued.
    pub(super) fn check(reporter: &mut Reporter, machine: &Machine) -> Self {
        let (store, team) = (reporter.store(), reporter.team());
        let left = store.work_left(team);
        let Some(left) = left.ok_or_trace("count the tasks of the team") else {
            return Self::Later;
        };
        if left.in_progress > 0 {
            match reclaim::reclaim_all(
                store,
                machine,
                team,
                &reporter.name().into(),
                reporter.alerts(),
            ) {
                Ok(reclaimed) if !reclaimed.is_empty() => return Self::Now,
                Ok(_) => {}
                Err(error) => reporter.say(&format!(
                    "cannot reclaim the tasks of dead workers: {error}"
                )),
            }
        }
        match (left.pending, left.in_progress) {
            (0, 0) => {
                let turns = poll_turns(reporter);
                Self::AllDone {
                    turn: machine.me().pid % turns + 1,
                    turns,
                }
            }
            (0, _) => Self::Later,
            _ => Self::Now,
        }
    }
}

/// Returns the number of turns among which the workers of a team are spread when they poll for work without an event.
fn poll_turns(reporter: &Reporter) -> u32 {
    let team = reporter.store().team(reporter.team());
    let members = team.map_or(0, |team| team.members().len());
    u32::try_from((members / WORKERS_PER_CHECK).clamp(1, MOST_TURNS)).unwrap_or(1)
}

/// The wait of an idle worker.
#[derive(Debug)]
pub(super) struct IdleWait {
    /// When a claim may be retried after one that found nothing.
    claim_at: Option<Instant>,
    look_at: Instant,
    had_its_turn: bool,
}

impl IdleWait {
    /// Starts the wait after a claim that was made at `claimed`.
    pub(super) fn new(claimed: Option<Instant>, now: Instant) -> Self {
        Self {
            claim_at: claimed.map(|claimed| claimed + CLAIM_PAUSE),
            look_at: now + TASK_POLL,
            had_its_turn: false,
        }
    }

    /// Returns when to look for work again; `limited` is how long the worker waits for its provider, if it does.
    pub(super) fn wake_at(&self, limited: Option<Duration>) -> Instant {
        let limited = limited.map(|limited| Instant::now() + limited);
        limited.map_or(self.look_at, |limited| limited.min(self.look_at))
    }

    /// Returns how long to wait before a claim when an event announces work.
    pub(super) fn before_claim(&self, now: Instant) -> Duration {
        self.claim_at.map_or(Duration::ZERO, |claim_at| {
            claim_at.saturating_duration_since(now)
        })
    }

    /// Continues the wait after a check that found no work.
    pub(super) fn extend(&mut self, outlook: WorkOutlook, now: Instant) {
        let times = match outlook {
            WorkOutlook::AllDone { turn, turns } => {
                let is_first = !std::mem::replace(&mut self.had_its_turn, true);
                if is_first { turn } else { turns }
            }
            WorkOutlook::Now | WorkOutlook::Later => 1,
        };
        self.look_at = now + TASK_POLL * times;
    }
}

/// Forwards system signals to the bridge as stop requests. Ctrl-C and SIGTERM stop the worker now; when its terminal
/// closes, the worker finishes its current task first. The supervisor of a worker that hangs sends [`REPLACE`].
pub(super) fn forward_system_signals(store: Arc<dyn Store>, events: Sender<BridgeEvent>) {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let replace = REPLACE.as_raw();
    let Ok(mut signals) = Signals::new([SIGHUP, SIGINT, SIGTERM, replace]) else {
        return;
    };
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if signal != SIGHUP {
                store.limit_retries();
            }
            let reason = match signal {
                SIGHUP => "its terminal was closed",
                SIGINT => "Ctrl-C",
                _ if signal == replace => "it hung",
                _ => "the system asked it to end",
            };
            let request = Signal {
                request_id: String::new(),
                reason: reason.to_owned(),
                timestamp: store.now(),
                drain: signal == SIGHUP,
            };
            let _ = events.send(if signal == replace {
                BridgeEvent::ReplacementRequested(request)
            } else {
                BridgeEvent::StopRequested(request)
            });
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn idle_worker_of_a_large_team_waits_for_its_turn_first_and_then_for_all_turns() {
        let start = Instant::now();
        let mut wait = IdleWait::new(None, start);
        assert_eq!(wait.look_at, start + 5 * SECOND);
        wait.extend(WorkOutlook::Later, start);
        assert_eq!(wait.look_at, start + 5 * SECOND);
        let done = WorkOutlook::AllDone { turn: 2, turns: 6 };
        wait.extend(done, start);
        assert_eq!(wait.look_at, start + 10 * SECOND);
        wait.extend(done, start);
        assert_eq!(wait.look_at, start + 30 * SECOND);
    }

    #[test]
    fn claim_that_found_nothing_is_not_tried_again_at_once() {
        let start = Instant::now();
        let wait = IdleWait::new(Some(start), start);
        assert_eq!(wait.before_claim(start), CLAIM_PAUSE);
        assert_eq!(wait.before_claim(start + SECOND), Duration::ZERO);
        assert_eq!(
            IdleWait::new(None, start).before_claim(start),
            Duration::ZERO
        );
    }

    fn signal(request_id: &str, drain: bool) -> Signal {
        Signal {
            request_id: request_id.to_owned(),
            reason: "a test".to_owned(),
            timestamp: Time::from_millis(0),
            drain,
        }
    }

    #[test]
    fn worker_that_is_replaced_is_started_again_unless_it_is_stopped_by_name() {
        let mut stop = StopState::default();
        assert!(stop.replace(signal("", false)).is_some());
        // The supervisor asks again, then asks the rest of the tree to end.
        assert_eq!(stop.replace(signal("", false)), None);
        assert_eq!(stop.stop(signal("", false)), None);
        assert!(stop.is_replaced);
        assert!(stop.stop(signal("r1", false)).is_some());
        assert!(!stop.is_replaced);
        assert_eq!(stop.replace(signal("", false)), None);
        assert!(!stop.is_replaced);
        assert_eq!(stop.request.unwrap().request_id, "r1");
    }

    #[test]
    fn worker_that_finishes_its_task_before_it_stops_is_not_started_again_when_it_hangs() {
        let mut stop = StopState::default();
        assert!(stop.stop(signal("r1", true)).is_some());
        let line = stop.replace(signal("", false)).unwrap();
        assert!(line.starts_with("stops now"), "{line}");
        assert!(!stop.is_replaced);
        let request = stop.request.unwrap();
        assert_eq!((request.request_id.as_str(), request.drain), ("r1", false));
    }

    fn failed() -> TaskResolution {
        TaskResolution::Failed("exit code 1".to_owned())
    }

    fn released(cause: ReleaseCause) -> TaskResolution {
        TaskResolution::Released {
            why: "rate limit".to_owned(),
            cause,
        }
    }

    #[test]
    fn failures_in_a_row_quarantine_a_worker_and_a_completed_task_ends_the_row() {
        let mut failures = FailureCounter::new(WorkerLimits::default());
        let done = TaskResolution::Completed(crate::task_report::TaskReport::parse(""));
        for resolution in [failed(), failed(), done, failed()] {
            assert_eq!(failures.count(&resolution), None);
        }
        assert_eq!(failures.count(&released(ReleaseCause::Worker)), None);
        assert!(!failures.is_quarantined());
        let Some(Quarantine { errors: 3, .. }) = failures.count(&failed()) else {
            panic!("{failures:?}");
        };
        assert!(failures.is_quarantined());
    }

    #[test]
    fn task_that_goes_back_because_the_worker_stops_counts_for_nothing() {
        let mut failures = FailureCounter::new(WorkerLimits::default());
        for resolution in [
            released(ReleaseCause::Stopping),
            TaskResolution::Lost(String::new()),
        ] {
            assert_eq!(failures.count(&resolution), None);
        }
        assert_eq!(failures.errors, 0);
    }
}

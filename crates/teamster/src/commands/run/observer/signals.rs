//! Ctrl-C and its kin: each one more says it more strongly.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use teamster_run::observer::{RunSnapshot, StopLevel};
use teamster_types::heartbeat::Heartbeat;

/// How often and how the user wanted an end.
#[derive(Clone, Debug, Default)]
pub struct Signals {
    level: Arc<AtomicU8>,
    /// Whether Ctrl-C is meant for another program at the terminal.
    is_elsewhere: Arc<AtomicBool>,
}

impl Signals {
    /// Listens from now on.
    pub fn listen() -> Self {
        let level = Arc::new(AtomicU8::new(0));
        let is_elsewhere = Arc::new(AtomicBool::new(false));
        if let Ok(mut signals) = signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGTERM]) {
            let level = Arc::clone(&level);
            let is_elsewhere = Arc::clone(&is_elsewhere);
            std::thread::spawn(move || {
                for signal in signals.forever() {
                    let _ = level.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |now| {
                        Some(match signal {
                            // A closed terminal: current tasks are finished.
                            SIGHUP => now.max(1),
                            // The system wants it: not that gently.
                            SIGTERM => now.max(2),
                            _ if is_elsewhere.load(Ordering::SeqCst) => now,
                            _ => (now + 1).min(3),
                        })
                    });
                }
            });
        }
        Self {
            level,
            is_elsewhere,
        }
    }

    /// Says whether another program has the terminal: Ctrl-C is meant for that program then.
    pub fn lend_terminal(&self, is_lent: bool) {
        self.is_elsewhere.store(is_lent, Ordering::SeqCst);
    }

    /// Whether an end was wanted at all.
    pub fn is_told(&self) -> bool {
        self.level.load(Ordering::SeqCst) > 0
    }

    /// How urgently the run is to stop.
    pub fn stop_level(&self) -> StopLevel {
        match self.level.load(Ordering::SeqCst) {
            0 => StopLevel::GoOn,
            1 => StopLevel::Drain,
            2 => StopLevel::Stop,
            _ => StopLevel::Kill,
        }
    }
}

/// Returns what a person is told at once when a run begins to stop, or to stop more urgently: what happens now, what is waited
/// for, and what the next Ctrl-C does.
pub fn stop_message(level: StopLevel, snapshot: &RunSnapshot<'_>) -> Option<String> {
    if level == StopLevel::GoOn {
        return None;
    }
    if snapshot.state.is_at_gate() {
        return Some("leaving: nobody works any more, and the gate stays open".to_owned());
    }
    let busy: Vec<String> = snapshot.beats.iter().filter_map(at_work).collect();
    let busy = match busy.as_slice() {
        [] => None,
        busy => Some(busy.join(", ")),
    };
    Some(match (level, busy) {
        (StopLevel::GoOn, _) => return None,
        (StopLevel::Drain, Some(busy)) => format!(
            "stopping: no new task is begun; waiting for {busy} to finish; Ctrl-C again interrupts them and keeps what they have"
        ),
        (StopLevel::Drain, None) => "stopping: nobody is at a task; waiting for the workers to end; Ctrl-C again interrupts \
                                     them"
            .to_owned(),
        (StopLevel::Stop, Some(busy)) => format!(
            "stopping now: interrupting {busy}; what there is of that is kept; waiting for the workers to end; Ctrl-C again kills them"
        ),
        (StopLevel::Stop, None) => {
            "stopping now: waiting for the workers to end; Ctrl-C again kills them".to_owned()
        }
        (StopLevel::Kill, _) => "killing every process of the team; what it had in its worktrees stays there".to_owned(),
    })
}

/// Returns a worker that is at a task, and at which one.
fn at_work(beat: &Heartbeat) -> Option<String> {
    let task = beat.current_task_id.as_ref()?;
    Some(format!("{} (task {task})", beat.worker_name))
}

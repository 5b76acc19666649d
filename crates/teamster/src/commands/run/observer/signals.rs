//! Ctrl-C and its kin: each one more says it more strongly.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use teamster_run::observer::StopLevel;

/// How often and how the user wanted an end.
#[derive(Clone, Debug, Default)]
pub struct Signals {
    level: Arc<AtomicU8>,
}

impl Signals {
    /// Listens from now on.
    pub fn listen() -> Self {
        let level = Arc::new(AtomicU8::new(0));
        if let Ok(mut signals) = signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGTERM]) {
            let level = Arc::clone(&level);
            std::thread::spawn(move || {
                for signal in signals.forever() {
                    let _ = level.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |now| {
                        Some(match signal {
                            // A closed terminal: current tasks are finished.
                            SIGHUP => now.max(1),
                            // The system wants it: not that gently.
                            SIGTERM => now.max(2),
                            _ => (now + 1).min(3),
                        })
                    });
                }
            });
        }
        Self { level }
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

/// Returns what happens at this level, as a message to a person.
pub fn stop_message(level: StopLevel) -> Option<&'static str> {
    match level {
        StopLevel::GoOn => None,
        StopLevel::Drain => {
            Some("stopping: current tasks are finished first; Ctrl-C again interrupts them")
        }
        StopLevel::Stop => {
            Some("stopping now: what there is of current tasks is kept; Ctrl-C again kills")
        }
        StopLevel::Kill => Some("killing everybody"),
    }
}

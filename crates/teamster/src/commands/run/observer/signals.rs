//! Ctrl-C and its kin: each one more says it more strongly.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use teamster_run::observer::StopLevel;

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

    /// Does something while another program has the terminal: Ctrl-C is meant for that program then.
    pub fn with_terminal_lent<T>(&self, work: impl FnOnce() -> T) -> T {
        self.is_elsewhere.store(true, Ordering::SeqCst);
        let done = work();
        self.is_elsewhere.store(false, Ordering::SeqCst);
        done
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

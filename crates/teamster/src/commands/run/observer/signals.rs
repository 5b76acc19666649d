//! Ctrl-C and other signals: each further one stops the run more urgently.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use teamster_run::observer::{RunSnapshot, StopLevel};
use teamster_types::heartbeat::Heartbeat;

/// How urgently the user has asked to stop, by the signals received so far.
#[derive(Clone, Debug, Default)]
pub struct Signals {
    level: Arc<AtomicU8>,
    /// Whether Ctrl-C is meant for another program at the terminal.
    is_elsewhere: Arc<AtomicBool>,
}

impl Signals {
    /// Starts to listen for signals.
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
                            // The terminal was closed: finish the current tasks.
                            SIGHUP => now.max(1),
                            // The system asks to terminate: stop without finishing them.
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

    /// Sets whether another program owns the terminal: then Ctrl-C is meant for that program.
    pub fn lend_terminal(&self, is_lent: bool) {
        self.is_elsewhere.store(is_lent, Ordering::SeqCst);
    }

    /// Whether any signal to stop was received.
    pub fn is_stop_requested(&self) -> bool {
        self.level.load(Ordering::SeqCst) > 0
    }

    /// Returns how urgently the run is to stop.
    pub fn stop_level(&self) -> StopLevel {
        match self.level.load(Ordering::SeqCst) {
            0 => StopLevel::GoOn,
            1 => StopLevel::Drain,
            2 => StopLevel::Stop,
            _ => StopLevel::Kill,
        }
    }
}

/// Returns the message when a run begins to stop, or to stop more urgently: what happens now, what is still awaited,
/// and what the next Ctrl-C does.
pub fn stop_message(level: StopLevel, snapshot: &RunSnapshot<'_>) -> Option<String> {
    if level == StopLevel::GoOn {
        return None;
    }
    if snapshot.state.is_at_gate() {
        return Some("leaving: no worker is running, and the gate stays open".to_owned());
    }
    let busy: Vec<String> = snapshot.beats.iter().filter_map(at_work).collect();
    let busy = match busy.as_slice() {
        [] => None,
        busy => Some(busy.join(", ")),
    };
    Some(match (level, busy) {
        (StopLevel::GoOn, _) => return None,
        (StopLevel::Drain, Some(busy)) => {
            format!("finishing {busy}, then stopping; Ctrl-C again: stop now")
        }
        (StopLevel::Drain, None) => {
            "stopping: waiting for the workers to exit; Ctrl-C again: stop now".to_owned()
        }
        (StopLevel::Stop, Some(busy)) => {
            format!("stopping {busy}; their work is kept; Ctrl-C again: kill")
        }
        (StopLevel::Stop, None) => {
            "stopping now: waiting for the workers to exit; Ctrl-C again: kill".to_owned()
        }
        (StopLevel::Kill, _) => "killing the team's processes; their worktrees are kept".to_owned(),
    })
}

/// Returns the name and task of a worker that is working.
fn at_work(beat: &Heartbeat) -> Option<String> {
    let task = beat.current_task_id.as_ref()?;
    Some(format!("{} (task {task})", beat.worker_name))
}

//! Ending processes and closing panes, which this crate cannot do by itself: whoever was asked to by a person lends the
//! hands for it.

use std::collections::VecDeque;
use std::thread;

use teamster_types::process::ProcessId;

use super::look::Scene;
use super::panes::Pane;
use super::reap::Done;
use super::{Zombie, our_panes};

/// What ends processes and closes panes.
pub trait Hands: Sync {
    /// Ends a recorded process and says how, when it is seen to be gone; `None` when it was gone before. Whoever has
    /// its pid by now is not touched.
    fn end(&self, process: &ProcessId) -> Result<Option<String>, String>;

    /// Closes a pane if it is still dead, and says whether it is gone now.
    fn close(&self, pane: &Pane) -> Result<bool, String>;
}

/// How ending a process went.
pub(super) type Ending = Result<Option<String>, String>;

/// Ends all at once: each may need all its grace, and fifty of them one after the other would take minutes.
pub(super) fn end_all(hands: &dyn Hands, processes: &[ProcessId]) -> VecDeque<Ending> {
    thread::scope(|scope| {
        let ending: Vec<_> = processes
            .iter()
            .map(|process| scope.spawn(|| hands.end(process)))
            .collect();
        let crashed = |_| Err("ending it failed".to_owned());
        ending
            .into_iter()
            .map(|ending| ending.join().unwrap_or_else(crashed))
            .collect()
    })
}

/// What became of a process; `None` when it was gone before.
pub(super) fn ended(ending: Ending, process: &ProcessId, mut zombie: Zombie) -> Option<Done> {
    match ending {
        Ok(how) => {
            zombie.evidence.push(how?);
            Some(Done {
                reaped: true,
                process: Some(process.pid),
                ..Done::untouched(zombie)
            })
        }
        Err(problem) => Some(Done {
            problem: Some(problem),
            ..Done::untouched(zombie)
        }),
    }
}

pub(super) fn close(scene: &Scene<'_>, hands: &dyn Hands, pane: &Pane, zombie: Zombie) -> Done {
    // What was our socket a moment ago may be a link to another server now.
    if !our_panes::is_our_socket(scene) {
        return Done::untouched(zombie);
    }
    match hands.close(pane) {
        Ok(reaped) => Done {
            reaped,
            ..Done::untouched(zombie)
        },
        Err(problem) => Done {
            problem: Some(problem),
            ..Done::untouched(zombie)
        },
    }
}

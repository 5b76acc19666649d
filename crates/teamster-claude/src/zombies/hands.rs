//! Ending processes and closing panes, which this crate cannot do by itself: whoever was asked to by a person lends the
//! hands for it.

use teamster_types::process::ProcessId;

use super::look::Scene;
use super::panes::Pane;
use super::reap::Done;
use super::{Zombie, our_panes};

/// What ends processes and closes panes.
pub trait Hands {
    /// Ends a recorded process and says how, when it is seen to be gone; `None` when it was gone before. Whoever has
    /// its pid by now is not touched.
    fn end(&self, process: &ProcessId) -> Result<Option<String>, String>;

    /// Closes a pane if it is still dead, and says whether it is gone now.
    fn close(&self, pane: &Pane) -> Result<bool, String>;
}

/// `None` when it was gone before.
pub(super) fn end(hands: &dyn Hands, process: &ProcessId, mut zombie: Zombie) -> Option<Done> {
    match hands.end(process) {
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

//! Hooks of Claude Code, together with the sweep at the start and the end of a session.
//!
//! The client waits for a hook, so a sweep has little time, starts no program and sends no signal. What it does not get
//! to is left for the next one.

use std::time::Duration;

use teamster_claude::hook::{self, FollowUp, HookContext, HookResponse};
use teamster_fs::proc::Machine;

use crate::zombies;

/// How long stale teams are looked for when a session starts.
const SWEEP_AT_START: Duration = Duration::from_millis(300);
/// How long they are looked for when a session ends, where all hooks of the client share one and a half seconds.
const SWEEP_AT_END: Duration = Duration::from_millis(50);

/// Runs the hook for `event` and returns its response. It never fails: what cannot be done is in the response's log.
pub fn run(event: &str, input: &[u8], context: &HookContext) -> HookResponse {
    let mut response = hook::run(event, input, context);
    match response.follow_up.take() {
        None => {}
        Some(FollowUp::SessionStarted { may_sweep }) => {
            if may_sweep {
                let swept = zombies::sweep_at_session_start(
                    &context.layout,
                    &Machine::read(),
                    context.now,
                    SWEEP_AT_START,
                );
                log(&mut response, "SessionStart", swept);
            }
            hook::add_unfinished_run(&mut response, context);
        }
        Some(FollowUp::SessionEnded { session }) => {
            let swept = zombies::clean_up_at_session_end(
                &context.layout,
                &Machine::read(),
                context.now,
                SWEEP_AT_END,
                &session,
            );
            log(&mut response, "SessionEnd", swept);
        }
    }
    response
}

fn log(response: &mut HookResponse, event: &str, swept: teamster_store::Result<zombies::Swept>) {
    response.log.push(match swept {
        Ok(swept) => format!("{event}: {swept:?}"),
        Err(error) => format!("{event}: nothing was swept: {error}"),
    });
}

//! Claude Code's hooks, together with the sweep at the start and the end of a session.
//!
//! The client waits for a hook, so a sweep has little time, starts no program and sends no signal. The rest is left for
//! the next sweep.

use std::time::Duration;

use teamster_claude::hook::{self, FollowUp, HookContext, HookResponse};
use teamster_fs::layout::{self, Layout};
use teamster_fs::proc::Machine;
use teamster_store::Result;
use teamster_types::Time;

use super::folder::{self, ScanInterrupted, TeamFolderEntry};
use super::members::text;
use super::panes::Panes;
use super::reap::put;
use super::scanner::{ScanOptions, TimeBudget, ZombieScanner};
use super::trash::{MoveOutcome, Trash};
use super::verdict::{self, TeamVerdict};
use super::{TTL, ZombieAction};

/// The time limit of the sweep for stale teams when a session starts.
const SWEEP_AT_START: Duration = Duration::from_millis(300);
/// The time limit when a session ends, where all hooks of the client share one and a half seconds.
const SWEEP_AT_END: Duration = Duration::from_millis(50);

/// The result of a sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SweepReport {
    /// Teams that were moved to the trash.
    pub moved: Vec<String>,
    /// How many trash entries were deleted for good.
    pub purged: usize,
    /// Whether the sweep finished within its time limit.
    pub complete: bool,
}

/// Runs the hook for `event` and returns its response. It never fails: problems are in the response's log.
pub fn run(event: &str, input: &[u8], context: &HookContext) -> HookResponse {
    let mut response = hook::run(event, input, context);
    match response.follow_up.take() {
        None => {}
        Some(FollowUp::SessionStarted { may_sweep }) => {
            let mut moved = Vec::new();
            if may_sweep {
                let swept = sweep_at_session_start(
                    &context.layout,
                    &Machine::read(),
                    context.now,
                    SWEEP_AT_START,
                );
                if let Ok(swept) = &swept {
                    moved.clone_from(&swept.moved);
                }
                log(&mut response, "SessionStart", swept);
            }
            hook::add_unfinished_run(&mut response, context, &moved);
        }
        Some(FollowUp::SessionEnded { session }) => {
            let swept = clean_up_at_session_end(
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

fn log(response: &mut HookResponse, event: &str, swept: Result<SweepReport>) {
    response.log.push(match swept {
        Ok(swept) => format!("{event}: {swept:?}"),
        Err(error) => format!("{event}: nothing was swept: {error}"),
    });
}

/// Moves stale teams to the trash, within `time`. It starts no program and sends no signal, so a team with a pane is
/// left for `zombies reap`. While another process removes or restores teams it changes nothing and returns an error.
pub fn sweep_at_session_start(
    layout: &Layout,
    machine: &Machine,
    now: Time,
    time: Duration,
) -> Result<SweepReport> {
    sweep(layout, machine, now, time, None)
}

/// Moves the team that the session leads to the trash, if every other member is proven stopped. It is only for sessions
/// that are over: one that ends by `clear` or `resume` continues under another id, together with its team.
pub fn clean_up_at_session_end(
    layout: &Layout,
    machine: &Machine,
    now: Time,
    time: Duration,
    session: &str,
) -> Result<SweepReport> {
    sweep(layout, machine, now, time, Some(session))
}

fn sweep(
    layout: &Layout,
    machine: &Machine,
    now: Time,
    time: Duration,
    ended: Option<&str>,
) -> Result<SweepReport> {
    let scan_options = ScanOptions {
        layout,
        machine,
        now,
        ttl: TTL,
        panes: Panes::NotAsked,
        budget: TimeBudget::of(time),
    };
    let mut swept = SweepReport {
        moved: Vec::new(),
        purged: 0,
        complete: true,
    };
    let Some(scanner) = ZombieScanner::open(&scan_options, ended)? else {
        return Ok(swept);
    };
    let mut trash = Trash::open(&scanner, false)?;
    if let Some(trash) = &trash {
        trash.finish(&scanner)?;
    }
    for name in scanner.team_names()? {
        if scan_options.budget.is_spent() {
            swept.complete = false;
            break;
        }
        if name.starts_with('.')
            || ended.is_some_and(|session| !is_led_by(&scanner, &name, session))
        {
            continue;
        }
        let judged = match verdict::judge(&scanner, &name) {
            Ok(Some(judged)) if judged.zombie.action == ZombieAction::Reap && is_quick(&judged) => {
                judged
            }
            Err(ScanInterrupted::OutOfTime) => {
                swept.complete = false;
                break;
            }
            // An unreadable team must not hide the others.
            _ => continue,
        };
        if trash.is_none() {
            trash = Trash::open(&scanner, true)?;
        }
        let Some(trash) = &trash else { continue };
        if let Ok(Some(MoveOutcome::Trashed(_))) = put(&scanner, trash, &judged) {
            swept.moved.push(name);
        }
    }
    if let Some(trash) = trash.filter(|_| swept.complete) {
        swept.purged = trash.purge(&scanner)?.0;
    }
    Ok(swept)
}

/// Returns whether moving the team takes no time: a long journal is copied by `zombies reap`, not by a hook.
fn is_quick(judged: &TeamVerdict) -> bool {
    const LARGEST_JOURNAL: u64 = 1024 * 1024;
    let Some((team, _)) = &judged.folder else {
        return false;
    };
    let size = |name: &str| matches!(team.dir.stamp(name), Ok(Some(stamp)) if stamp.size > LARGEST_JOURNAL);
    !team.is_ours() || !(size(layout::JOURNAL) || size(&layout::journal_segment(1)))
}

fn is_led_by(scanner: &ZombieScanner<'_>, name: &str, session: &str) -> bool {
    let TeamFolderEntry::Team(team) = folder::open(scanner, name) else {
        return false;
    };
    let lead = team
        .config()
        .map_or("", |config| text(config, "leadSessionId"));
    !session.is_empty() && lead == session
}

//! Hosts a run at a terminal, and reports its result.

use serde_json::json;
use teamster_app::runs::{self, ReadyMerge};
use teamster_app::trace_log;
use teamster_journal::payload::RunSpec;
use teamster_run::host::{ExclusiveLock, HostExit};
use teamster_run::observer::GateReply;
use teamster_types::TeamName;

use super::observer::{self, RunTerminal};
use crate::context::Context;
use crate::error::{AppError, Result};
use crate::exit_codes;
use crate::notify::{Notification, notify};

/// Hosts a run whose lock this process holds, and reports the result. `reply` is an answer that was given before the
/// gate is shown here.
pub fn host(
    context: &Context,
    team: &TeamName,
    spec: RunSpec,
    lock: ExclusiveLock,
    reply: Option<GateReply>,
) -> Result {
    let way_on = if spec.collects {
        ContinueCommand::Merge
    } else {
        ContinueCommand::Resume {
            max_fix: spec.max_fix,
        }
    };
    let mut observer = observer::make(context, RunTerminal::of(context, team, reply));
    let exit = runs::host(context, team, spec, lock, observer.as_mut())?;
    drop(observer);
    report_exit(context, team, way_on, &exit)
}

/// Merges the finished work, and reports the result.
pub fn merge(context: &Context, team: &TeamName, ready: ReadyMerge) -> Result {
    let mut observer = observer::make(context, RunTerminal::of(context, team, None));
    let exit = ready.host(context, observer.as_mut())?;
    drop(observer);
    report_exit(context, team, ContinueCommand::Merge, &exit)
}

/// The command that continues an unfinished run or merge.
#[derive(Clone, Copy)]
enum ContinueCommand {
    /// Resume the run, with more fix rounds than this if it used them up.
    Resume { max_fix: u32 },
    /// Merge the finished work again.
    Merge,
}

/// Reports the result, and exits with its code.
fn report_exit(
    context: &Context,
    team: &TeamName,
    way_on: ContinueCommand,
    exit: &HostExit,
) -> Result {
    let (word, code, why, hint) = match exit {
        HostExit::Over(finished) => {
            let report = teamster_fs::layout::report_folders(team).join("/");
            let hint = if finished.is_resumable() {
                let (next, command) = match way_on {
                    ContinueCommand::Merge => ("merge again", format!("teamster merge {team}")),
                    // With the same number of rounds it would only end the same way again.
                    ContinueCommand::Resume { max_fix } if finished.needs_more_rounds() => (
                        "resume",
                        format!("teamster run --resume {team} --max-fix {}", max_fix + 2),
                    ),
                    ContinueCommand::Resume { .. } => {
                        ("resume", format!("teamster run --resume {team}"))
                    }
                };
                let project = teamster_app::workers::project_of(context, team)?;
                let trace = trace_log::of_host(&project, team)
                    .map_or_else(String::new, |trace| format!("; log: {trace}"));
                format!("report: {report}/report.md{trace}; {next}: `{command}`")
            } else {
                format!("report: {report}/report.md")
            };
            (
                finished.end.word(),
                finished.exit_code,
                finished.reason.as_str(),
                hint,
            )
        }
        HostExit::AtGate { commit, exit, why } => (
            "awaiting_approval",
            exit_codes::of_gate(*exit),
            why.as_str(),
            gate_hint(team, commit),
        ),
    };
    if let HostExit::Over(_) = exit {
        let kind = if code == 0 {
            Notification::Done
        } else {
            Notification::Failed
        };
        notify(context, kind, &format!("team {team}: {why}"));
    }
    if context.out.is_json() {
        context.out.object(&json!({
            "type": "result",
            "team": team,
            "outcome": word,
            "exitCode": code,
            "reason": why,
            "hint": hint,
        }))?;
    }
    if code == 0 {
        if !context.out.is_json() {
            context.out.text(&format!(
                "{}: {}\n{hint}\n",
                word.replace('_', " "),
                crate::shown::display_line(why)
            ))?;
        }
        return Ok(());
    }
    Err(AppError::ended(
        code,
        format!("team {team}: {}: {why}", word.replace('_', " ")),
    )
    .hint(hint))
}

fn gate_hint(team: &TeamName, commit: &str) -> String {
    if commit.is_empty() {
        return format!(
            "`teamster approve --team {team}` approves it; or `teamster reject`, `teamster revise TEXT`"
        );
    }
    format!(
        "`teamster approve --team {team} --commit {commit}` lands it; or `teamster reject`, `teamster revise TEXT`"
    )
}

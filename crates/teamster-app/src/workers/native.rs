//! Stops members of a team of Claude Code: teamster's workers as usual, the client's own teammates through the client.
//!
//! | client | recipient of the request | reason |
//! |---|---|---|
//! | records its lead's process | the lead, as a text message | its teammates refuse a request that their lead has not signed |
//! | older | the teammate, by a `shutdown_request` from its lead | it accepts one from its inbox |
//!
//! A teammate has ended when its client has removed it from the registry. Processes of the client are never killed.

use std::time::{Duration, Instant};

use teamster_store::{OutgoingMessage, Recipient};
use teamster_types::WorkerName;
use teamster_types::health::Verdict;
use teamster_types::json::Object;
use teamster_types::team::{TeamConfig, TeamMember, TeamOrigin};
use teamster_view::workers;
use teamster_workers::shutdown::{EndKind, StoppedWorker};

use super::{StopRequest, stop_ours};
use crate::app::App;
use crate::error::{AppError, Result};

/// The poll interval of the registry.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// The note for a teammate that only its client can end.
const NOT_OURS: &str = "it is a teammate of Claude Code, and teamster ends only what it started";

/// Stops members of a team of Claude Code, and returns how each ended.
pub(super) fn stop(
    app: &App,
    config: &TeamConfig,
    request: &StopRequest,
    tell: &mut dyn FnMut(&str),
) -> Result<Vec<StoppedWorker>> {
    let start = Instant::now();
    let wanted = |member: &TeamMember| {
        let only = request.only.as_ref();
        only.is_none_or(|only| only.as_str() == member.name)
            && member.is_clients(TeamOrigin::Claude)
    };
    let teammates: Vec<WorkerName> = config
        .members()
        .iter()
        .filter(|member| wanted(member))
        .filter_map(|member| member.name.parse().ok())
        .collect();
    if request.force && request.only.is_some() && !teammates.is_empty() {
        return Err(
            AppError::refused(format!("{} cannot be ended: {NOT_OURS}", teammates[0]))
                .hint("without --force its client is asked to end it"),
        );
    }
    let rows = workers::list(app.read()?, &request.team, config, &app.config.limits())?.rows;
    let mut ends = Vec::new();
    let mut asked = Vec::new();
    for worker in teammates {
        let row = rows.iter().find(|row| row.name == worker.as_str());
        let is_dead = row.is_some_and(|row| row.verdict == Verdict::Dead);
        let (how, note) = match (is_dead, request.force) {
            (true, _) => (EndKind::Gone, ""),
            (false, true) => (EndKind::Alive, NOT_OURS),
            (false, false) => {
                ask(app, config, request, &worker, tell)?;
                asked.push(worker);
                continue;
            }
        };
        let note = note.to_owned();
        ends.push(StoppedWorker { worker, how, note });
    }
    ends.extend(stop_ours(app, request.clone(), tell)?);
    ends.extend(wait(app, request, asked, start)?);
    ends.sort_by(|a, b| a.worker.cmp(&b.worker));
    Ok(ends)
}

/// Requests the end of a teammate through its client.
fn ask(
    app: &App,
    config: &TeamConfig,
    request: &StopRequest,
    worker: &WorkerName,
    tell: &mut dyn FnMut(&str),
) -> Result {
    let reason = "a person asked for it";
    let outgoing = if config.lead_process().is_some() {
        tell(&format!("the lead is asked to shut {worker} down"));
        OutgoingMessage {
            from: app.actor.name().to_owned(),
            to: Recipient::Lead,
            kind: "message".to_owned(),
            content: format!(
                "Please shut down your teammate {worker}: send it a shutdown_request with SendMessage. The reason is that \
                 {reason}."
            ),
            extra: Object::new(),
        }
    } else {
        tell(&format!("{worker} is asked to shut down"));
        let now = app.read()?.now();
        let mut extra = Object::new();
        let id = format!("shutdown-{}@{worker}", now.as_millis());
        extra.insert("requestId".into(), id.into());
        OutgoingMessage {
            from: "lead".to_owned(),
            to: Recipient::Worker(worker.to_string()),
            kind: "shutdown_request".to_owned(),
            content: reason.to_owned(),
            extra,
        }
    };
    app.store()?.send(&request.team, &outgoing)?;
    Ok(())
}

/// Waits until the client has removed the teammates from its registry, or until the deadline.
fn wait(
    app: &App,
    request: &StopRequest,
    asked: Vec<WorkerName>,
    start: Instant,
) -> Result<Vec<StoppedWorker>> {
    let mut ends = Vec::new();
    let mut left = asked;
    while !left.is_empty() {
        let members = match app.read()?.team(&request.team) {
            Ok(config) => config.members(),
            Err(error) if error.kind == teamster_store::StoreErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        let is_over = start.elapsed() >= request.deadline;
        left.retain(|worker| {
            let is_there = members.iter().any(|member| member.name == worker.as_str());
            let (how, note) = match (is_there, is_over) {
                (false, _) => (EndKind::Confirmed, ""),
                (true, false) => return true,
                (true, true) => (EndKind::Alive, "its client was asked and has not ended it"),
            };
            ends.push(StoppedWorker {
                worker: worker.clone(),
                how,
                note: note.to_owned(),
            });
            false
        });
        if !left.is_empty() {
            std::thread::sleep(LOOK_AGAIN);
        }
    }
    Ok(ends)
}

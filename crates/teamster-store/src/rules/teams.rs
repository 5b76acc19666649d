//! Members and signals.

use serde_json::Value;
use teamster_journal::payload::{MemberJoined, MemberLeft, SignalSent, TeamCreated};
use teamster_journal::{EventActor, EventKind, NewEvent};
use teamster_types::heartbeat::Heartbeat;
use teamster_types::process::{ProcessId, ProcessState};
use teamster_types::task::{Status, Task};
use teamster_types::team::{NewMember, NewTeam, TeamConfig, TeamMember, TeamOrigin};
use teamster_types::transitions::HEARTBEAT_FRESH;
use teamster_types::{TeamName, Time, WorkerName};

use super::mail;
use crate::backend::Txn;
use crate::error::{Result, StoreError};
use crate::store::Signal;

/// Returns the first event of a team.
pub fn created(new: &NewTeam) -> NewEvent {
    let members = new.members.iter().map(|member| member.name.to_string());
    NewEvent::new(
        EventActor::Person,
        EventKind::TeamCreated(TeamCreated {
            members: members.collect(),
            project: Some(new.project.clone()),
        }),
    )
}

/// Refuses a team of Claude Code.
pub(super) fn may_be_joined(team: &TeamName, config: &TeamConfig) -> Result<()> {
    match config.kind() {
        TeamOrigin::Teamster => Ok(()),
        TeamOrigin::Claude => Err(StoreError::refused(format!(
            "team {team} belongs to Claude Code, which alone manages its members"
        ))
        .hint("create your own team with `teamster team create`")),
    }
}

/// Makes the calling process the host of the team's run, and records the event.
pub(super) fn host(tx: &mut dyn Txn, order: Option<&Value>, event: NewEvent) -> Result<TeamConfig> {
    let team = tx.team().clone();
    let mut config = tx.open_config()?;
    may_be_joined(&team, &config)?;
    let me = tx.me();
    config.set_host(&me);
    if let Some(order) = order {
        config.set_run(order.clone());
    }
    tx.put_config(config.clone());
    tx.event(event.hosted_by(&me));
    Ok(config)
}

pub(super) fn join(tx: &mut dyn Txn, member: &NewMember) -> Result<TeamConfig> {
    let team = tx.team().clone();
    let config = tx.config()?;
    may_be_joined(&team, &config)?;
    add(tx, member)
}

fn add(tx: &mut dyn Txn, member: &NewMember) -> Result<TeamConfig> {
    let team = tx.team().clone();
    let mut config = tx.open_config()?;
    let cwd = config.project().unwrap_or_default().to_owned();
    if config.join(&team, member, &cwd, tx.now()) {
        tx.put_config(config.clone());
        let joined = MemberJoined {
            name: member.name.to_string(),
            provider: Some(member.provider.clone()),
            capabilities: member.capabilities.clone(),
        };
        tx.event(NewEvent::new(
            member.name.as_str(),
            EventKind::MemberJoined(joined),
        ));
    }
    Ok(config)
}

/// Adds a worker that is about to run, also to a team of Claude Code.
pub(super) fn enlist(tx: &mut dyn Txn, member: &NewMember) -> Result<TeamConfig> {
    let config = tx.config()?;
    if is_clients(&config, member.name.as_str()) {
        return Err(StoreError::conflict(format!(
            "{} is a teammate of Claude Code in team {}",
            member.name,
            tx.team()
        ))
        .hint("give the worker another name"));
    }
    add(tx, member)
}

/// Returns whether a name belongs to a teammate or the lead of a Claude Code team.
fn is_clients(config: &TeamConfig, name: &str) -> bool {
    let is_its = |member: &TeamMember| member.name == name && member.is_clients(config.kind());
    config.kind() == TeamOrigin::Claude
        && (config.lead_name() == name || config.members().iter().any(is_its))
}

/// Returns whether a teamster worker is in the registry of a Claude Code team.
pub(super) fn is_guest(config: &TeamConfig, worker: &WorkerName) -> bool {
    let is_it = |member: &TeamMember| {
        member.name == worker.as_str() && !member.is_clients(TeamOrigin::Claude)
    };
    config.kind() == TeamOrigin::Claude && config.members().iter().any(is_it)
}

/// Removes a teamster worker from a Claude Code team. Messages left in its inbox there are moved to its mailbox.
pub(super) fn dismiss(tx: &mut dyn Txn, actor: &EventActor, worker: &WorkerName) -> Result<bool> {
    let mut config = tx.open_config()?;
    if !is_guest(&config, worker) {
        return Ok(false);
    }
    mail::collect(tx, worker, true)?;
    config.leave(worker.as_str());
    tx.put_config(config);
    let left = MemberLeft {
        name: worker.to_string(),
    };
    tx.event(NewEvent::new(actor, EventKind::MemberLeft(left)));
    Ok(true)
}

/// Refuses to remove a team that is in use: always while a worker is alive, and unless forced while a lease is valid.
pub fn refuse_held(
    team: &TeamName,
    tasks: &[Task],
    beats: &[Heartbeat],
    process_state: &dyn Fn(&ProcessId) -> ProcessState,
    now: Time,
    force: bool,
) -> Result<()> {
    let runs = |process: Option<ProcessId>| {
        process.is_some_and(|process| process_state(&process) == ProcessState::Alive)
    };
    let beating = beats
        .iter()
        .filter(|beat| beat.is_fresh(now, HEARTBEAT_FRESH) || runs(beat.process()));
    let mut alive: Vec<String> = beating
        .map(|beat| format!("{} (pid {})", beat.worker_name, beat.pid))
        .collect();
    let mut leases = Vec::new();
    for task in tasks
        .iter()
        .filter(|task| task.status() == Status::InProgress)
    {
        let Some(claim) = task.claim() else { continue };
        if runs(Some(claim.process())) {
            alive.push(format!(
                "{} (pid {}, task {})",
                claim.worker,
                claim.pid,
                task.id()
            ));
        } else if claim.leased_until > now {
            leases.push(format!(
                "task {} by {} until {}",
                task.id(),
                claim.worker,
                claim.leased_until
            ));
        }
    }
    if !alive.is_empty() {
        return Err(StoreError::conflict(format!(
            "team {team} is still alive: {}",
            alive.join(", ")
        ))
        .hint("stop them first, and try again"));
    }
    if !leases.is_empty() && !force {
        return Err(StoreError::conflict(format!(
            "team {team} has active claims: {}",
            leases.join(", ")
        ))
        .hint(
            "wait, or release them (`teamster task release ID --force`), or delete it with --force",
        ));
    }
    Ok(())
}

pub(super) fn signal(
    tx: &mut dyn Txn,
    actor: &EventActor,
    worker: &WorkerName,
    signal: &Signal,
) -> Result<()> {
    tx.put_signal(worker, Some(signal))?;
    let sent = SignalSent {
        worker: worker.to_string(),
        request_id: signal.request_id.clone(),
        reason: signal.reason.clone(),
    };
    let what = if signal.drain {
        EventKind::SignalDrain(sent)
    } else {
        EventKind::SignalShutdown(sent)
    };
    tx.event(NewEvent::new(actor, what));
    Ok(())
}

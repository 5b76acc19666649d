//! Members and signals.

use teamster_types::WorkerName;
use teamster_types::event::NewEvent;
use teamster_types::team::{NewMember, NewTeam, TeamConfig};

use crate::error::Result;
use crate::store::Signal;
use crate::txn::Txn;

/// The first event of a team.
pub(crate) fn created(new: &NewTeam) -> NewEvent {
    let members: Vec<&WorkerName> = new.members.iter().map(|member| &member.name).collect();
    NewEvent::new("team.created", "user")
        .with("members", members)
        .with("project", &new.project)
}

pub(super) fn join(tx: &mut dyn Txn, member: &NewMember) -> Result<TeamConfig> {
    let mut config = tx.config()?;
    let team = tx.team().clone();
    let cwd = config.project().unwrap_or_default().to_owned();
    if config.join(&team, member, &cwd, tx.now()) {
        tx.put_config(config.clone());
        tx.event(
            NewEvent::new("member.joined", member.name.as_str())
                .with("name", &member.name)
                .with("provider", &member.provider),
        );
    }
    Ok(config)
}

pub(super) fn signal(
    tx: &mut dyn Txn,
    actor: &str,
    worker: &WorkerName,
    signal: &Signal,
) -> Result<()> {
    tx.put_signal(worker, Some(signal))?;
    let kind = if signal.drain {
        "signal.drain"
    } else {
        "signal.shutdown"
    };
    tx.event(
        NewEvent::new(kind, actor)
            .with("worker", worker)
            .with("requestId", &signal.request_id)
            .with("reason", &signal.reason),
    );
    Ok(())
}

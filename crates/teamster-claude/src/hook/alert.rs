//! Determines which teammate has ended, from a hook's payload.

use super::payload::{ActorKind, HookActor, HookPayload, name_in_id};
use crate::native::{NativeRegistry, NativeTeam};
use teamster_types::end::EndRecord;

/// Returns the teammate whose end a payload reports; `None` when it reports none of a team's members.
pub(super) fn ended_teammate(
    payload: &HookPayload,
    actor: &HookActor,
    registry: &NativeRegistry,
) -> Option<EndRecord> {
    let exit_code = payload.exit_code().unwrap_or(0);
    let of = |team: &NativeTeam, name: &str| EndRecord::new(&team.name, name, exit_code);
    // By the time a teammate ends, its client may have removed it from the registry; then its pane, or an id that only
    // teammates have, still identifies it.
    if let Some(team) = &actor.team {
        let is_it = match actor.kind {
            ActorKind::Pane => true,
            ActorKind::Teammate => {
                team.teammate(&actor.name).is_some() || name_in_id(payload).is_some()
            }
            ActorKind::Lead | ActorKind::Subagent => false,
        };
        if is_it {
            return Some(of(team, &actor.name));
        }
    }
    if let Some(id) = payload.text("agent_id")
        && let Some((team, member)) = registry.with_agent(id)
    {
        return Some(of(&team, &member.name));
    }
    // An agent that has a name or type and is not a teammate is a plain subagent.
    let led = actor.team.as_ref()?;
    let is_led = payload.text("session_id") == Some(led.lead_session.as_str());
    let says_who = ["agent_name", "teammate_name", "agent_type"]
        .iter()
        .any(|key| payload.text(key).is_some());
    if !is_led || says_who {
        return None;
    }
    let mut teammates = led.teammates();
    match (teammates.next(), teammates.next()) {
        (None, _) => None,
        (Some(only), None) => Some(of(led, &only.name)),
        (Some(_), Some(_)) => Some(of(led, "unknown")),
    }
}

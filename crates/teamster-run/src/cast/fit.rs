//! Whether a plan suits a team.

use teamster_types::routing::fitness;

use crate::document::Fault;
use crate::plan::Plan;
use teamster_journal::payload::Member;

/// Tasks that would wait for ever: their owner is not in the team, or nobody in it can do any of what they need.
pub fn misfits(plan: &Plan, members: &[Member]) -> Vec<Fault> {
    let names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
    let mut faults = Vec::new();
    for ((planned, label), line) in plan.tasks.iter().zip(&plan.labels).zip(&plan.lines) {
        let wanted = &planned.task.capabilities;
        match &planned.task.owner {
            Some(owner) if !names.contains(&owner.as_str()) => {
                let message = format!(
                    "task {label:?} has the owner {owner}, who is not in the team; there are {}",
                    names.join(", ")
                );
                faults.push(Fault::new(*line, message));
            }
            None if members
                .iter()
                .all(|member| fitness(wanted, &member.can) <= 0.0) =>
            {
                let message = format!(
                    "task {label:?} needs {}, and nobody in the team can do any of it",
                    wanted.join(", ")
                );
                faults.push(Fault::new(*line, message));
            }
            _ => {}
        }
    }
    faults
}

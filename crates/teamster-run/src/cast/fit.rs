//! Tells whether a plan suits a team.

use teamster_journal::payload::{Member, RunSpec};
use teamster_types::routing::fitness;

use crate::plan::Plan;
use teamster_document::Fault;

/// Returns a fault for each task that would wait for ever: its owner is not in the team, or nobody in it can do any of what it
/// needs.
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

/// Returns why nobody of the team could do one of the tasks: it would never be done, and the run would wait for it.
pub fn nobody_can(spec: &RunSpec, plan: &Plan) -> Option<String> {
    let members = spec.members.iter();
    let names: Vec<&str> = members.map(|member| member.name.as_str()).collect();
    for (label, planned) in plan.labels.iter().zip(&plan.tasks) {
        if let Some(owner) = &planned.task.owner
            && !names.contains(&owner.as_str())
        {
            return Some(format!(
                "task {label} of the plan is for {owner}, who is not in the team ({})",
                names.join(", ")
            ));
        }
        let needs = &planned.task.capabilities;
        let can = |member: &Member| {
            let name = planned.task.owner.as_ref();
            name.is_none_or(|name| *name == member.name) && fitness(needs, &member.can) > 0.0
        };
        if !spec.members.iter().any(can) {
            return Some(format!(
                "task {label} of the plan needs {}, and nobody of the team can do that",
                needs.join(", ")
            ));
        }
    }
    None
}

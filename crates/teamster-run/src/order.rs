//! Whether the team of a run can do what is planned.

use teamster_journal::payload::{Member, RunSpec};
use teamster_types::routing::fitness;

use crate::plan::Plan;

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

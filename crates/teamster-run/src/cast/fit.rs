//! Checks whether a plan suits a team.

use teamster_journal::payload::{Member, RunSpec};
use teamster_types::routing::fitness;

use crate::plan::Plan;
use teamster_document::Fault;

/// Returns a fault for each task that would wait for ever: its owner or its role is not in the team, its owner has
/// another role, or no member has any of the capabilities that it needs.
pub fn misfits(plan: &Plan, members: &[Member]) -> Vec<Fault> {
    let names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
    let mut faults = Vec::new();
    for (place, (planned, label)) in plan.tasks.iter().zip(&plan.labels).enumerate() {
        let line = plan.lines.get(place).copied().unwrap_or_default();
        let role = plan.roles.get(place).and_then(Option::as_deref);
        let mut wrong = |why: String| faults.push(Fault::new(line, why));
        let of_role: Vec<&Member> = members
            .iter()
            .filter(|member| role.is_none_or(|role| member.has_role(role)))
            .collect();
        let wanted = &planned.task.capabilities;
        match (&planned.task.owner, role) {
            (_, Some(role)) if of_role.is_empty() => wrong(format!(
                "task {label:?} is for the role {role}, which no member of the team has; there are {}",
                roles_of(members)
            )),
            (Some(owner), _) if !names.contains(&owner.as_str()) => wrong(format!(
                "task {label:?} has the owner {owner}, who is not in the team; there are {}",
                names.join(", ")
            )),
            (Some(owner), Some(role)) if !of_role.iter().any(|member| member.name == *owner) => {
                wrong(format!(
                    "task {label:?} has the owner {owner}, who does not have the role {role}"
                ));
            }
            (None, _)
                if of_role
                    .iter()
                    .all(|member| fitness(wanted, &member.abilities()) <= 0.0) =>
            {
                let who = role.map_or_else(String::new, |role| format!(" as {role}"));
                wrong(format!(
                    "task {label:?} needs {}, and no member of the team{who} can do any of it",
                    wanted.join(", ")
                ));
            }
            _ => {}
        }
    }
    faults
}

/// Returns the roles of a team, for people.
fn roles_of(members: &[Member]) -> String {
    let mut roles: Vec<&str> = members
        .iter()
        .filter_map(|member| member.role.as_deref())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    if roles.is_empty() {
        return "no roles".to_owned();
    }
    roles.join(", ")
}

/// Returns why no member of the team can do one of the tasks: it would never be done, and the run would wait for it.
pub fn nobody_can(spec: &RunSpec, plan: &Plan) -> Option<String> {
    if let Some(fault) = misfits(plan, &spec.members).into_iter().next() {
        return Some(format!(
            "{} (line {} of the plan)",
            fault.message, fault.line
        ));
    }
    let able = |needs: &[String], member: &Member| fitness(needs, &member.abilities()) > 0.0;
    for (label, planned) in plan.labels.iter().zip(&plan.tasks) {
        let needs = &planned.task.capabilities;
        let owner = planned.task.owner.as_ref();
        let mut members = spec.members.iter();
        if let Some(owner) = members.find(|member| Some(&member.name) == owner)
            && !able(needs, owner)
        {
            return Some(format!(
                "task {label} of the plan needs {}, and its owner {} can do none of that",
                needs.join(", "),
                owner.name
            ));
        }
    }
    None
}

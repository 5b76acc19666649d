//! The plan of a preset: tasks for the roles of its members.

use teamster_document::{Fault, Lined};
use teamster_journal::payload::PlanDraft;
use teamster_types::task::{DESCRIPTION_LIMIT, SUBJECT_LIMIT};
use teamster_types::text::{clip, one_line};

use super::{PlaceholderValues, PresetMember};
use crate::plan::{Plan, TaskEntry};

/// Roles that check the work of others.
const AFTER_OTHERS: [&str; 3] = ["tester", "reviewer", "judge"];

/// Reads the tasks of a preset; `None` when it has none. They must form a plan for the preset's members.
pub(super) fn own_plan(
    entries: Lined<Vec<Lined<TaskEntry>>>,
    members: &[PresetMember],
    faults: &mut Vec<Fault>,
) -> Option<PlanDraft> {
    let line = entries.line;
    let entries = entries.value?;
    if entries.is_empty() {
        let why = "`tasks` is empty: name what is to be done, or leave it out";
        faults.push(Fault::new(line, why));
        return None;
    }
    let before = faults.len();
    let plan = Plan::of_entries(entries, faults);
    // Only tasks without faults can be compared with the members.
    if faults.len() > before {
        return None;
    }
    for (place, (planned, label)) in plan.tasks.iter().zip(&plan.labels).enumerate() {
        let line = plan.lines.get(place).copied().unwrap_or(line);
        let mut wrong = |why: String| faults.push(Fault::new(line, why));
        if !planned.task.verify.is_empty() {
            // The commands of a project are accepted as a whole, so they stand in one place.
            wrong(format!(
                "task {label:?} has a `verify` of its own; commands belong in the `verify` of the preset"
            ));
        }
        let role = plan.roles.get(place).and_then(Option::as_deref);
        let owner = planned.task.owner.as_ref();
        let is_of_role =
            |member: &&PresetMember| role.is_none_or(|role| member.role.eq_ignore_ascii_case(role));
        let of_role: Vec<&PresetMember> = members.iter().filter(is_of_role).collect();
        if let Some(role) = role.filter(|_| of_role.is_empty()) {
            wrong(format!(
                "task {label:?} is for the role {role}, and no member has it; there are {}",
                listed(members.iter().map(|member| member.role.as_str()))
            ));
        } else if let Some(owner) = owner
            && !of_role.iter().any(|member| member.name == *owner)
        {
            let as_role = role.map_or_else(String::new, |role| format!(" with the role {role}"));
            wrong(format!(
                "task {label:?} has the owner {owner}, and there is no such member{as_role}; there are {}",
                listed(members.iter().map(|member| member.name.as_str()))
            ));
        }
        let mut doers = of_role
            .iter()
            .filter(|member| owner.is_none_or(|owner| member.name == *owner));
        let looks = |member: &&&PresetMember| {
            AFTER_OTHERS
                .iter()
                .any(|role| member.role.eq_ignore_ascii_case(role))
        };
        let is_of_lookers = (role.is_some() || owner.is_some())
            && doers.clone().next().is_some()
            && doers.all(|member| looks(&member));
        if is_of_lookers && planned.after.is_empty() && plan.tasks.len() > 1 {
            wrong(format!(
                "task {label:?} checks the work of other tasks but waits for none: name the \
                 tasks it checks in `blockedBy`"
            ));
        }
    }
    Some(plan.draft())
}

/// Returns each word once, for people.
fn listed<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let mut words: Vec<&str> = words.collect();
    words.sort_unstable();
    words.dedup();
    words.join(", ")
}

/// Returns the plan of a preset filled in for a run. A subject stays one line, however long the request is.
pub fn fill_plan(plan: &PlanDraft, task: &str, team: &str) -> PlanDraft {
    let mut filled = plan.clone();
    for entry in &mut filled.tasks {
        let who = entry.owner.clone().or_else(|| entry.role.clone());
        let who = who.unwrap_or_default();
        let filling = PlaceholderValues {
            task,
            team,
            member: &who,
        };
        let subject = one_line(&filling.fill(&entry.subject));
        entry.subject = clip(&subject, SUBJECT_LIMIT - 1);
        entry.description = clip(&filling.fill(&entry.description), DESCRIPTION_LIMIT - 1);
        for criterion in &mut entry.accept {
            *criterion = filling.fill(criterion);
        }
    }
    filled
}

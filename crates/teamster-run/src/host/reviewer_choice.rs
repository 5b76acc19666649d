//! Which agent reviews the merged work: the best of those that can, judged by role, vendor and authorship.
//!
//! A member that is reserved for the review comes first. Otherwise an agent of another vendor than the authors' is preferred,
//! because models of one vendor tend to overlook the same mistakes. The judge of several results is described in the same way.

use teamster_journal::EventActor;
use teamster_journal::payload::Member;
use teamster_types::task::Task;

use super::Result;
use super::context::RunContext;
use crate::leader::LEADER;

/// The role of a member that is reserved for the review.
const REVIEWER: &str = "reviewer";

/// An agent that could review or judge, and its qualification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reviewer {
    /// Its name in the team.
    pub(super) name: String,
    /// The word that stands for its agent.
    pub(super) word: String,
    /// What the user calls its agent.
    pub(super) provider: String,
    /// Its model, where it is not the provider's.
    pub(super) model: Option<String>,
    /// The actor whose cost it is.
    pub(super) actor: EventActor,
    /// Its role in the team.
    role: Option<String>,
    /// Whether it is reserved for the review or the choice.
    is_reserved: bool,
    /// The vendor of its client, or `None` when it is a command or a script.
    vendor: Option<&'static str>,
    /// Whether it wrote some of the work.
    is_author: bool,
}

impl Reviewer {
    /// Returns a member of the team that could review or judge the work of these tasks.
    pub(super) fn of_member(run: &RunContext<'_>, member: &Member, tasks: &[Task]) -> Self {
        let name = member.name.as_str();
        let is_author = tasks
            .iter()
            .any(|task| task.owner() == Some(name) && task.commit().is_some());
        let (provider, vendor) = agent(run, &member.provider);
        Self {
            name: name.to_owned(),
            word: member.provider.clone(),
            provider,
            model: member.model.clone(),
            actor: EventActor::from(&member.name),
            role: member.role.clone(),
            is_reserved: member.is_reserved(),
            vendor,
            is_author,
        }
    }

    /// Returns whether it has this role.
    pub(super) fn is_for(&self, role: &str) -> bool {
        let own = self.role.as_deref().unwrap_or_default();
        own.eq_ignore_ascii_case(role)
    }

    /// Returns whether it is reserved for the review or the choice.
    pub(super) fn is_reserved(&self) -> bool {
        self.is_reserved
    }
}

/// Returns the name of an agent's provider, and the vendor of its client. An agent that cannot be used has no vendor.
fn agent(run: &RunContext<'_>, word: &str) -> (String, Option<&'static str>) {
    match run.env().trust.agent(word) {
        Ok((provider, _)) => {
            let vendor = provider.kind.is_client().then(|| provider.kind.word());
            (provider.name, vendor)
        }
        Err(_) => (word.to_owned(), None),
    }
}

/// Returns the agent that reviews the work of the run.
pub(super) fn choose_reviewer(run: &RunContext<'_>) -> Result<Option<Reviewer>> {
    let tasks = run.tasks()?;
    let spec = run.spec();
    let members = spec.members.iter();
    let mut able: Vec<Reviewer> = members
        .map(|member| Reviewer::of_member(run, member, &tasks))
        .collect();
    if let Some(word) = spec.leading_agent() {
        let (provider, vendor) = agent(run, word);
        able.push(Reviewer {
            name: LEADER.to_owned(),
            word: word.to_owned(),
            provider,
            model: spec.leader_model.clone(),
            actor: EventActor::Leader,
            role: None,
            is_reserved: false,
            vendor,
            is_author: false,
        });
    }
    Ok(best(&able).cloned())
}

/// Returns the best reviewer: a member with that role, then an agent of another vendor than the authors', then one that
/// has written none of the work. In any case it works in a session of its own.
fn best(able: &[Reviewer]) -> Option<&Reviewer> {
    let authors: Vec<&str> = able
        .iter()
        .filter(|one| one.is_author)
        .filter_map(|one| one.vendor)
        .collect();
    able.iter()
        .filter(|one| one.is_reserved || one.vendor.is_some())
        .min_by_key(|one| {
            let is_of_author = one.vendor.is_some_and(|vendor| authors.contains(&vendor));
            let is_for_it = one.is_for(REVIEWER);
            (!is_for_it, !one.is_reserved, is_of_author, one.is_author)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn able(
        name: &str,
        vendor: Option<&'static str>,
        is_reserved: bool,
        is_author: bool,
    ) -> Reviewer {
        Reviewer {
            name: name.to_owned(),
            word: name.to_owned(),
            provider: name.to_owned(),
            model: None,
            actor: EventActor::Leader,
            role: is_reserved.then(|| REVIEWER.to_owned()),
            is_reserved,
            vendor,
            is_author,
        }
    }

    #[test]
    fn member_with_the_role_of_a_reviewer_comes_before_one_that_judges() {
        let judge = Reviewer {
            role: Some("judge".to_owned()),
            ..able("judge", None, true, false)
        };
        let all = [judge.clone(), able("kept", None, true, false)];
        assert_eq!(best(&all).unwrap().name, "kept");
        assert_eq!(best(&[judge]).unwrap().name, "judge");
    }

    #[test]
    fn reviewer_is_whoever_is_there_for_it_then_another_vendor_then_another_worker() {
        let (claude, codex) = (Some("claude"), Some("codex"));
        let name = |able: &[Reviewer]| best(able).map(|one| one.name.clone());
        let author = able("author", claude, false, true);
        let other = able("other", claude, false, false);
        let vendor = able("vendor", codex, false, false);
        let script = able("script", None, false, false);
        let kept = able("kept", None, true, false);
        for (all, expected) in [
            (vec![&author, &other, &vendor, &kept], Some("kept")),
            (vec![&author, &other, &vendor, &script], Some("vendor")),
            (vec![&author, &other, &script], Some("other")),
            (vec![&author, &script], Some("author")),
            (vec![&script], None),
        ] {
            let all: Vec<Reviewer> = all.into_iter().cloned().collect();
            assert_eq!(name(&all).as_deref(), expected, "{all:?}");
        }
    }
}

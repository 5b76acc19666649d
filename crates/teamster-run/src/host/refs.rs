//! Whether somebody has changed the user's branches while the run was at work. Agents can do so with plain git; nobody but
//! the user should, and nobody should learn of it later.

use teamster_isolate::git::Refs;
use teamster_journal::EventKind;
use teamster_journal::payload::RefsRecorded;

use super::{Host, Result};

/// References that are named at most.
const NAMED: usize = 20;

impl Host<'_> {
    /// Notes the references of the user's as they are when the run begins.
    pub(super) fn note_refs(&mut self) -> Result<()> {
        let (Some(repo), None) = (self.run.repo(), &self.run.state().refs) else {
            return Ok(());
        };
        let refs = repo.refs()?;
        self.run.journal(EventKind::RunRefs(RefsRecorded { refs }))
    }

    /// What has become of the references of the user's since the run began, one sentence each. `landed` is what the run
    /// itself has put on the user's branch.
    pub(super) fn changed_refs(&self, landed: Option<&str>) -> Vec<String> {
        let (Some(repo), Some(before)) = (self.run.repo(), &self.run.state().refs) else {
            return Vec::new();
        };
        let now = match repo.refs() {
            Ok(now) => now,
            Err(error) => return vec![format!("The branches could not be compared: {error}.")],
        };
        let ours = self
            .run
            .branch()
            .map(|branch| format!("refs/heads/{branch}"));
        let is_ours = |name: &str, id: Option<&String>| {
            landed.is_some() && ours.as_deref() == Some(name) && id.map(String::as_str) == landed
        };
        let mut changed = differences(before, &now, is_ours);
        // What the branch was moved to before the work landed on it is under the work now.
        if let (Some(name), Some(tip), true) = (&ours, &self.run.state().tip, landed.is_some())
            && let Some(first) = before.get(name).filter(|first| *first != tip)
        {
            let (name, first, tip) = (shown(name), short(first), short(tip));
            changed.push(format!(
                "{name} was moved from {first} to {tip} before the work landed on it."
            ));
        }
        let more = changed.len().saturating_sub(NAMED);
        changed.truncate(NAMED);
        if more > 0 {
            changed.push(format!("{more} more references changed."));
        }
        changed
    }
}

fn differences(
    before: &Refs,
    now: &Refs,
    is_ours: impl Fn(&str, Option<&String>) -> bool,
) -> Vec<String> {
    let mut changed = Vec::new();
    for (name, id) in before {
        let sentence = match now.get(name) {
            Some(now) if now == id => continue,
            found if is_ours(name, found) => continue,
            Some(now) => format!(
                "{} moved from {} to {}.",
                shown(name),
                short(id),
                short(now)
            ),
            None => format!("{} was deleted; it was at {}.", shown(name), short(id)),
        };
        changed.push(sentence);
    }
    let new = now.iter().filter(|(name, _)| !before.contains_key(*name));
    changed.extend(new.map(|(name, id)| format!("{} is new, at {}.", shown(name), short(id))));
    changed
}

fn shown(name: &str) -> String {
    for (prefix, what) in [("refs/heads/", "Branch"), ("refs/tags/", "Tag")] {
        if let Some(rest) = name.strip_prefix(prefix) {
            return format!("{what} {rest}");
        }
    }
    match name {
        "HEAD" => "What is checked out".to_owned(),
        other => other.to_owned(),
    }
}

/// Ids are cut, names are not.
fn short(id: &str) -> &str {
    if id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        id.get(..12).unwrap_or(id)
    } else {
        id.strip_prefix("refs/heads/").unwrap_or(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refs(list: &[(&str, &str)]) -> Refs {
        let list = list.iter();
        list.map(|(name, id)| ((*name).to_owned(), (*id).to_owned()))
            .collect()
    }

    #[test]
    fn references_that_moved_came_or_went_are_named() {
        let (one, two) = ("1".repeat(40), "2".repeat(40));
        let before = refs(&[
            ("HEAD", "refs/heads/main"),
            ("refs/heads/main", &one),
            ("refs/heads/gone", &one),
            ("refs/tags/v1", &one),
        ]);
        let now = refs(&[
            ("HEAD", "refs/heads/other"),
            ("refs/heads/main", &two),
            ("refs/heads/other", &one),
            ("refs/tags/v1", &one),
        ]);
        assert_eq!(
            differences(&before, &now, |_, _| false),
            [
                "What is checked out moved from main to other.",
                "Branch gone was deleted; it was at 111111111111.",
                "Branch main moved from 111111111111 to 222222222222.",
                "Branch other is new, at 111111111111.",
            ]
        );
        let landed =
            |name: &str, id: Option<&String>| name == "refs/heads/main" && id == Some(&two);
        assert_eq!(differences(&before, &now, landed).len(), 3);
    }
}

//! Finds changes in the user's repository during a run that the run did not make: branches and tags that moved,
//! replaced objects, and settings that convert or merge contents. Agents can make such changes with plain git; only the
//! user should, and must learn of them in time.

use teamster_fs::team_store;
use teamster_isolate::git::{Refs, Repo};
use teamster_journal::EventKind;
use teamster_journal::payload::{FilesRecorded, RefsRecorded};
use teamster_types::phrase::{Phrase, PhraseCode, PhraseKey};

use super::context::RunContext;
use super::{Result, RunError};

/// The name of the finding about new replacements.
const REPLACEMENTS: &str = "replaced objects";
/// The name of the finding about changed settings.
const SETTINGS: &str = "changed settings of git";
/// The number of references that are listed.
const MOST_NAMED: usize = 20;

/// Records the user's references when the run begins.
pub(super) fn record_refs(run: &mut RunContext<'_>) -> Result<()> {
    let (Some(repo), None) = (run.repo(), &run.state().refs) else {
        return Ok(());
    };
    let refs = repo.refs()?;
    run.journal(EventKind::RunRefs(RefsRecorded { refs }))
}

/// Returns the changes of the user's references since the run began, one sentence each. `landed` is the commit that the
/// run itself has put on the user's branch.
pub(super) fn changed_refs(run: &RunContext<'_>, landed: Option<&str>) -> Vec<Phrase> {
    let (Some(repo), Some(before)) = (run.repo(), &run.state().refs) else {
        return Vec::new();
    };
    let now = match repo.refs() {
        Ok(now) => now,
        Err(error) => {
            return vec![Phrase::new(
                PhraseCode::RefsNotCompared,
                [("error", &error)],
            )];
        }
    };
    let ours = run.branch().map(|branch| format!("{HEADS}{branch}"));
    let is_ours = |name: &str, id: Option<&String>| {
        landed.is_some() && ours.as_deref() == Some(name) && id.map(String::as_str) == landed
    };
    let mut changed = differences(before, &now, is_ours);
    // The landed work hides that the branch was moved before.
    if let (Some(name), Some(tip), true) = (&ours, &run.state().tip, landed.is_some())
        && let Some(first) = before.get(name).filter(|first| *first != tip)
    {
        let name = name.strip_prefix(HEADS).unwrap_or(name);
        changed.push(Phrase::new(
            PhraseCode::BranchMovedBeforeLanding,
            [
                ("name", &name),
                ("from", &short(first)),
                ("to", &short(tip)),
            ],
        ));
    }
    let more = changed.len().saturating_sub(MOST_NAMED);
    changed.truncate(MOST_NAMED);
    if more > 0 {
        changed.push(Phrase::new(PhraseCode::MoreRefsChanged, [("count", &more)]));
    }
    changed
}

/// Returns the replacements, grafts and shallow boundaries that did not exist when the run began. If they cannot be
/// read, the error is returned in their place.
pub(super) fn new_replacements(run: &RunContext<'_>) -> Vec<String> {
    let Some(repo) = run.repo() else {
        return Vec::new();
    };
    match repo.replacements() {
        Ok(now) => now
            .into_iter()
            .filter(|rule| !run.state().replacements.contains(rule))
            .collect(),
        Err(error) => vec![error.to_string()],
    }
}

/// Returns the finding about new replacements for the gate and the report: a name and a text.
pub(super) fn replacement_finding(run: &RunContext<'_>) -> Option<(String, String)> {
    let new = new_replacements(run);
    if new.is_empty() {
        return None;
    }
    let text = format!(
        "These were added to the repository during the run:\n\n    {}\n\nWith them, your git shows other content or \
         another history than what is stored. The checks, the diff and the commit that lands use what is stored. \
         `git replace -d ID` removes a replacement; grafts and shallow boundaries are lines of `info/grafts` and \
         `shallow` in the folder `.git`.",
        new.join("\n    ")
    );
    Some((REPLACEMENTS.to_owned(), text))
}

/// Records the files of the project when a run begins whose workers share them: otherwise their changes could not be
/// determined.
pub(super) fn record_files(run: &mut RunContext<'_>) -> Result<()> {
    let is_first = run.state().stage.is_none() && run.state().files.is_none();
    let Some(repo) = run.env().project_repo.filter(|_| is_first) else {
        return Ok(());
    };
    let team = run.team().clone();
    match run.in_background(|_| repo.files_now(&team))? {
        Ok(tree) => {
            let tree = tree.to_string();
            run.journal(EventKind::RunFiles(FilesRecorded { tree }))
        }
        Err(error) => {
            run.say(&format!("what changes will not be shown: {error}"));
            Ok(())
        }
    }
}

/// Records the rules by which git converts and merges contents when the run begins, before any worker starts, and uses
/// those from then on.
pub(super) fn record_rules(run: &RunContext<'_>) -> Result<()> {
    let (Some(repo), false) = (run.repo(), run.spec().in_place) else {
        return Ok(());
    };
    let team = team_store::team_folder(run.env().layout, run.team())?.ok_or_else(|| {
        RunError::refused(
            format!(
                "the folder of team {} is gone from {}",
                run.team(),
                run.env().layout.claude.display()
            ),
            "`teamster team list` shows the teams there are",
        )
    })?;
    // A run of an older version has recorded none.
    if run.state().begun.is_none() || !repo.use_recorded_rules(&team)? {
        repo.exclude_ours()?;
        repo.record_rules(&team)?;
    }
    Ok(())
}

/// Returns the settings that convert or merge contents and have changed since the run began. If they cannot be read,
/// the error is returned in their place.
pub(super) fn changed_rules(run: &RunContext<'_>) -> Vec<String> {
    let changed = run.repo().map(Repo::changed_rules);
    match changed {
        None => Vec::new(),
        Some(Ok(changed)) => changed,
        Some(Err(error)) => vec![error.to_string()],
    }
}

/// Returns the finding about such settings for the gate and the report: a name and a text.
pub(super) fn changed_rules_finding(run: &RunContext<'_>) -> Option<(String, String)> {
    let changed = changed_rules(run);
    if changed.is_empty() {
        return None;
    }
    let text = format!(
        "These settings of git were added or changed during the run:\n\n    {}\n\nCommits, merges and checks went by \
         the settings from before the run. Your own git uses these, also when the work lands in your files. \
         `git config --show-origin --get-all NAME` tells where a setting is, and `git config --unset NAME` removes it.",
        changed.join("\n    ")
    );
    Some((SETTINGS.to_owned(), text))
}

fn differences(
    before: &Refs,
    now: &Refs,
    is_ours: impl Fn(&str, Option<&String>) -> bool,
) -> Vec<Phrase> {
    let mut changed = Vec::new();
    for (name, id) in before {
        let sentence = match now.get(name) {
            Some(now) if now == id => continue,
            found if is_ours(name, found) => continue,
            Some(now) => MOVED.of(name, &[("from", short(id)), ("to", short(now))]),
            None => DELETED.of(name, &[("from", short(id))]),
        };
        changed.push(sentence);
    }
    let new = now.iter().filter(|(name, _)| !before.contains_key(*name));
    changed.extend(new.map(|(name, id)| NEW.of(name, &[("to", short(id))])));
    changed
}

/// The prefix of the names of branches.
const HEADS: &str = "refs/heads/";
/// The prefix of the names of tags.
const TAGS: &str = "refs/tags/";

/// The phrases for a change of a reference, by its kind.
struct RefChange {
    branch: PhraseCode,
    tag: PhraseCode,
    checkout: PhraseCode,
    other: PhraseCode,
}

const MOVED: RefChange = RefChange {
    branch: PhraseCode::BranchMoved,
    tag: PhraseCode::TagMoved,
    checkout: PhraseCode::CheckoutMoved,
    other: PhraseCode::RefMoved,
};
const DELETED: RefChange = RefChange {
    branch: PhraseCode::BranchDeleted,
    tag: PhraseCode::TagDeleted,
    checkout: PhraseCode::CheckoutDeleted,
    other: PhraseCode::RefDeleted,
};
const NEW: RefChange = RefChange {
    branch: PhraseCode::BranchNew,
    tag: PhraseCode::TagNew,
    checkout: PhraseCode::CheckoutNew,
    other: PhraseCode::RefNew,
};

impl RefChange {
    /// Returns the sentence about the change of a reference.
    fn of(&self, name: &str, ids: &[(&str, &str)]) -> Phrase {
        let (code, name) = match (name.strip_prefix(HEADS), name.strip_prefix(TAGS)) {
            (Some(branch), _) => (self.branch, Some(branch)),
            (_, Some(tag)) => (self.tag, Some(tag)),
            _ if name == "HEAD" => (self.checkout, None),
            _ => (self.other, Some(name)),
        };
        let name = name.map(|name| ("name", name));
        let params = ids.iter().copied().chain(name);
        Phrase::of(PhraseKey {
            code,
            params: params
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
        })
    }
}

/// Abbreviates an object id; a branch name is only stripped of its prefix.
fn short(id: &str) -> &str {
    if id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        id.get(..12).unwrap_or(id)
    } else {
        id.strip_prefix(HEADS).unwrap_or(id)
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
            Phrase::texts(&differences(&before, &now, |_, _| false)),
            [
                "HEAD moved from main to other.",
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

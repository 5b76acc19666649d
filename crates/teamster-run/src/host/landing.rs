//! Lands an approved commit on the user's branch.

use std::fmt::Display;

use teamster_isolate::git::{CommitId, Integration, Landed, MergeOutcome};
use teamster_journal::EventKind;
use teamster_journal::payload::CaughtUp;
use teamster_types::flow::Stage;
use teamster_types::phrase::{Phrase, PhraseCode, Wording};
use teamster_types::task::{NewTask, SUBJECT_LIMIT, Status, Task, TaskNotes};
use teamster_types::text::clip;

use super::context::RunContext;
use super::integration_guard::IntegrationGuard;
use super::{HostCommand, Result, RunError};

/// The result of landing approved work.
#[derive(Debug)]
pub(super) enum LandingOutcome {
    /// The work is where it belongs, as the words describe.
    Done(Wording),
    /// The branch moved meanwhile, so landing is tried again.
    Retry,
    /// The approved commit must not land, so the run returns to an earlier stage.
    Back(HostCommand),
    /// The user's branch has new commits that were not verified together with the work. They are merged into the work.
    Behind(Vec<HostCommand>),
    /// The work did not land, for this reason. Nothing has changed, so the decision remains open.
    Refused(Wording),
}

/// Lands an approved commit on the user's branch.
pub(super) fn land(
    run: &mut RunContext<'_>,
    guard: &IntegrationGuard,
    commit: &str,
) -> Result<LandingOutcome> {
    let (Some(integration), Some(branch)) = (guard.integration(), run.branch()) else {
        let why = if guard.is_active() {
            PhraseCode::WorkStaysOnItsBranch
        } else {
            PhraseCode::WorkIsInFolder
        };
        return Ok(LandingOutcome::Done(why.into()));
    };
    let Ok(id) = commit.parse::<CommitId>() else {
        return Err(RunError::refused(
            format!("{commit:?} was approved, which is not a commit"),
            "check the team's journal",
        ));
    };
    if let Some(words) = landed_on(run, &branch, &id)? {
        return Ok(LandingOutcome::Done(words));
    }
    if let Some(back) = guard.merge_missing(run, commit)? {
        return Ok(LandingOutcome::Back(back));
    }
    if !run.spec().verify.is_empty() && run.state().checked.as_deref() != Some(commit) {
        let reason = PhraseCode::ApprovedWorkNotVerified;
        return Ok(LandingOutcome::Back(HostCommand::enter(
            Stage::Verify,
            reason,
        )));
    }
    if let Some(why) = removed_by_user(run, &branch, &id)? {
        return Ok(LandingOutcome::Refused(why));
    }
    let landed = run.in_background(|_| integration.land(&branch, &id))??;
    Ok(match landed {
        Landed::Done { .. } | Landed::Already => match landed_on(run, &branch, &id)? {
            Some(words) => LandingOutcome::Done(words),
            None => refused(PhraseCode::NotOnBranch, [("branch", &branch)]),
        },
        Landed::Moved { now } => catch_up(run, guard, integration, &branch, &now)?,
        Landed::Refused {
            why,
            command,
            changed: None,
        } => refused(
            PhraseCode::BranchNotChanged,
            [("branch", &branch), ("why", &why), ("command", &command)],
        ),
        Landed::Refused {
            why,
            command,
            changed: Some(changed),
        } => {
            let files: Vec<String> = changed
                .files
                .iter()
                .map(|file| file.display().to_string())
                .collect();
            refused(
                PhraseCode::BranchNotMoved,
                [
                    ("branch", &branch),
                    ("why", &why),
                    ("files", &files.join(", ")),
                    ("undo", &changed.command),
                    ("command", &command),
                ],
            )
        }
        Landed::Gone => refused(PhraseCode::BranchGone, [("branch", &branch)]),
    })
}

fn refused<const N: usize>(code: PhraseCode, params: [(&str, &dyn Display); N]) -> LandingOutcome {
    LandingOutcome::Refused(Phrase::new(code, params).into())
}

/// Returns a sentence that a branch of the user's has a commit; `None` when it does not.
fn landed_on(run: &RunContext<'_>, branch: &str, commit: &CommitId) -> Result<Option<Wording>> {
    let Some(repo) = run.repo() else {
        return Ok(None);
    };
    let Some(tip) = repo.resolve(&format!("refs/heads/{branch}"))? else {
        return Ok(None);
    };
    if tip == *commit {
        let landed = Phrase::new(PhraseCode::LandedOn, [("branch", &branch)]);
        return Ok(Some(landed.into()));
    }
    if !repo.is_ancestor(commit, &tip)? {
        return Ok(None);
    }
    let below: [(&str, &dyn Display); 3] = [
        ("branch", &branch),
        ("commit", &commit.short()),
        ("tip", &tip.short()),
    ];
    let landed = Phrase::new(PhraseCode::LandedBelowOthers, below);
    Ok(Some(landed.into()))
}

/// Returns why landing would restore commits that the user has removed from the branch.
fn removed_by_user(
    run: &RunContext<'_>,
    branch: &str,
    commit: &CommitId,
) -> Result<Option<Wording>> {
    let expected = run.state().tip.as_ref().and_then(|tip| tip.parse().ok());
    let (Some(repo), Some(expected)) = (run.repo(), expected) else {
        return Ok(None);
    };
    let Some(tip) = repo.resolve(&format!("refs/heads/{branch}"))? else {
        return Ok(None);
    };
    if tip == expected || !repo.is_ancestor(&tip, &expected)? {
        return Ok(None);
    }
    let back: [(&str, &dyn Display); 4] = [
        ("branch", &branch),
        ("tip", &tip.short()),
        ("base", &expected.short()),
        ("commit", commit),
    ];
    Ok(Some(Phrase::new(PhraseCode::BranchMovedBack, back).into()))
}

/// Merges the new commits of the user's branch into the work: the combination was not verified yet.
fn catch_up(
    run: &mut RunContext<'_>,
    guard: &IntegrationGuard,
    integration: &Integration,
    branch: &str,
    tip: &CommitId,
) -> Result<LandingOutcome> {
    let Some(head) = guard.head(run)? else {
        return Ok(LandingOutcome::Retry);
    };
    let joined = run.in_background(|_| integration.bring_up_to_date(&head, branch))??;
    let made = match joined {
        MergeOutcome::Moved => return Ok(LandingOutcome::Retry),
        MergeOutcome::Conflict { files } => {
            let files: Vec<String> = files
                .iter()
                .map(|file| file.to_string_lossy().into_owned())
                .collect();
            return Ok(after_conflict(&run.tasks()?, branch, tip, &files));
        }
        MergeOutcome::Made(made) => made.to_string(),
        // A host that was killed had made the merge, but could not journal it.
        MergeOutcome::Already => integration.head()?.to_string(),
    };
    run.journal(EventKind::MergeCaughtUp(CaughtUp {
        commit: tip.to_string(),
        merge: Some(made),
    }))?;
    let reason = Phrase::new(PhraseCode::BranchHasMoved, [("branch", &branch)]);
    let verify = HostCommand::enter(Stage::Verify, reason);
    Ok(LandingOutcome::Behind(vec![verify]))
}

/// Returns the result when the user's branch conflicts with the work: one task resolves the conflict.
fn after_conflict(
    tasks: &[Task],
    branch: &str,
    tip: &CommitId,
    files: &[String],
) -> LandingOutcome {
    let is_made = |task: &&Task| task.update() == Some(tip.as_str());
    let mut commands = Vec::new();
    match tasks.iter().find(is_made) {
        None => commands.push(HostCommand::add_task(update_task(branch, tip, files))),
        Some(task) if task.status() == Status::Completed => {
            return refused(
                PhraseCode::BranchStillConflicts,
                [
                    ("branch", &branch),
                    ("files", &files.join(", ")),
                    ("task", task.id()),
                    ("tip", &tip.short()),
                ],
            );
        }
        Some(_) => {}
    }
    let reason = Phrase::new(PhraseCode::BranchConflicts, [("branch", &branch)]);
    commands.push(HostCommand::enter(Stage::Execute, reason));
    LandingOutcome::Behind(commands)
}

/// Returns the task to merge the new commits of the user's branch into the work.
fn update_task(branch: &str, tip: &CommitId, files: &[String]) -> NewTask {
    let list = files
        .iter()
        .take(100)
        .fold(String::new(), |list, file| list + "- " + file + "\n");
    NewTask {
        subject: clip(
            &format!("Bring in what is new on {branch}"),
            SUBJECT_LIMIT - 1,
        ),
        description: format!(
            "The branch {branch} has got commits that conflict with the team's work. Your worktree has the team's work. \
             Run `git merge {tip}`, resolve the conflicts so that what both sides wanted holds, and commit the merge. \
             Both sides changed:\n\n{list}"
        ),
        notes: TaskNotes {
            update: Some(tip.to_string()),
            ..TaskNotes::default()
        },
        ..NewTask::default()
    }
}

//! Landing what was approved on the user's branch, as that is by now.

use serde_json::json;
use teamster_isolate::git::{CommitId, Integration, Landed, MergeOutcome};
use teamster_journal::EventKind;
use teamster_journal::payload::CaughtUp;
use teamster_types::flow::Stage;
use teamster_types::json::Object;
use teamster_types::task::{NewTask, SUBJECT_LIMIT, Status, Task};

use super::merging::short;
use super::{Host, HostExit, Next, Result, RunError};
use crate::exit;

impl Host<'_> {
    pub(super) fn land(&mut self, commit: &str) -> Result<Next> {
        let branch = self
            .run
            .spec()
            .base
            .as_ref()
            .and_then(|base| base.branch.clone());
        let (Some(integration), Some(branch)) = (self.integration.clone(), branch) else {
            let why = if self.merges() {
                "approved; no branch was checked out when it began, so the work stays on its own"
            } else {
                "approved; the work is in the project's folder"
            };
            return self.complete(why);
        };
        let Ok(id) = commit.parse::<CommitId>() else {
            return Err(RunError::refused(
                format!("{commit:?} was approved, which is no commit"),
                "look at the journal of the team",
            ));
        };
        if let Some(words) = self.landed_on(&branch, &id)? {
            return self.complete(&words);
        }
        if self.merges_missing(commit)? {
            return Ok(Next::GoOn);
        }
        if !self.run.spec().verify.is_empty() && self.run.state().checked.as_deref() != Some(commit)
        {
            self.gate_shown = None;
            self.enter(Stage::Verify, "what was approved is not what was verified")?;
            return Ok(Next::GoOn);
        }
        if let Some(why) = self.was_moved_back(&branch, &id)? {
            return self.not_landed(commit, why);
        }
        let landed = self
            .run
            .in_background(|_| integration.land(&branch, &id))??;
        match landed {
            Landed::Done { .. } | Landed::Already => match self.landed_on(&branch, &id)? {
                Some(words) => self.complete(&words),
                None => self.not_landed(commit, format!("{branch} does not have it")),
            },
            Landed::Moved { now } => self.catch_up(&integration, &branch, &now, commit),
            Landed::Refused {
                why,
                command,
                changed: None,
            } => self.not_landed(
                commit,
                format!("{branch} was not changed: {why}\nwhen that is out of the way: {command}"),
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
                let why = format!(
                    "{branch} was not moved: {why}\ngit has changed these files before it failed, and they could not be \
                     put back: {}\nthis puts them back: {}\nwhen that is out of the way: {command}",
                    files.join(", "),
                    changed.command
                );
                self.not_landed(commit, why)
            }
            Landed::Gone => {
                self.not_landed(commit, format!("there is no branch {branch} any more"))
            }
        }
    }

    /// That a branch of the user's has a commit, in words that are true at this moment; `None` when it has not.
    fn landed_on(&self, branch: &str, commit: &CommitId) -> Result<Option<String>> {
        let Some(repo) = self.run.repo() else {
            return Ok(None);
        };
        let Some(tip) = repo.resolve(&format!("refs/heads/{branch}"))? else {
            return Ok(None);
        };
        if tip == *commit {
            return Ok(Some(format!("approved and landed on {branch}")));
        }
        if !repo.is_ancestor(commit, &tip)? {
            return Ok(None);
        }
        Ok(Some(format!(
            "approved and landed on {branch}, which has more commits on top that are not the team's: {} to {}",
            commit.short(),
            tip.short()
        )))
    }

    /// Why landing would bring back what the user has taken out of the branch since.
    fn was_moved_back(&self, branch: &str, commit: &CommitId) -> Result<Option<String>> {
        let expected = self
            .run
            .state()
            .tip
            .as_ref()
            .and_then(|tip| tip.parse().ok());
        let (Some(repo), Some(expected)) = (self.run.repo(), expected) else {
            return Ok(None);
        };
        let Some(tip) = repo.resolve(&format!("refs/heads/{branch}"))? else {
            return Ok(None);
        };
        if tip == expected || !repo.is_ancestor(&tip, &expected)? {
            return Ok(None);
        }
        Ok(Some(format!(
            "{branch} was moved back to {} since the work began at {}, and landing would bring back what was taken out; \
             if that is what you want: git merge {commit}",
            tip.short(),
            expected.short()
        )))
    }

    /// Nothing has changed, so nothing is decided: the gate is opened again, for any answer.
    fn not_landed(&mut self, commit: &str, why: String) -> Result<Next> {
        self.open_gate(commit, Some(&why))?;
        Ok(Next::Leave(HostExit::AtGate {
            commit: commit.to_owned(),
            exit_code: exit::CONFLICT,
            why,
        }))
    }

    /// The user's branch has got commits that nobody has verified together with ours.
    fn catch_up(
        &mut self,
        integration: &Integration,
        branch: &str,
        tip: &CommitId,
        commit: &str,
    ) -> Result<Next> {
        let Some(head) = self.own_head()? else {
            return Ok(Next::GoOn);
        };
        let joined = self
            .run
            .in_background(|_| integration.bring_up_to_date(&head, branch))??;
        match joined {
            MergeOutcome::Moved => return Ok(Next::GoOn),
            joined @ (MergeOutcome::Already | MergeOutcome::Made(_)) => {
                let made = match joined {
                    MergeOutcome::Made(made) => Some(made.to_string()),
                    // A host that was killed had brought it up to date and could not say so any more.
                    _ => Some(integration.head()?.to_string()),
                };
                self.run.journal(EventKind::MergeCaughtUp(CaughtUp {
                    commit: tip.to_string(),
                    merge: made,
                }))?;
                let reason = format!("{branch} has moved; it is verified and asked about again");
                self.enter(Stage::Verify, &reason)?;
            }
            MergeOutcome::Conflict { files } => {
                let files: Vec<String> = files
                    .iter()
                    .map(|file| file.to_string_lossy().into_owned())
                    .collect();
                let is_made = |task: &Task| task.ours("update") == Some(&json!(tip.as_str()));
                let tasks = self.run.tasks()?;
                match tasks.iter().find(|task| is_made(task)) {
                    None => self.add_task(updating(branch, tip, &files))?,
                    Some(task) if task.status() == Status::Completed => {
                        let why = format!(
                            "what is new on {branch} conflicts with the work in {}, and task {}, which was to bring \
                             them together, has not; merge {} by hand on top of the work, or revise it",
                            files.join(", "),
                            task.id(),
                            tip.short()
                        );
                        return self.not_landed(commit, why);
                    }
                    Some(_) => {}
                }
                let reason = format!("{branch} has moved and conflicts with the team's work");
                self.enter(Stage::Execute, &reason)?;
            }
        }
        self.gate_shown = None;
        self.not_landed = true;
        Ok(Next::GoOn)
    }
}

fn updating(branch: &str, tip: &CommitId, files: &[String]) -> NewTask {
    let list = files
        .iter()
        .take(100)
        .fold(String::new(), |list, file| list + "- " + file + "\n");
    let mut notes = Object::new();
    notes.insert("update".into(), json!(tip.as_str()));
    NewTask {
        subject: short(
            &format!("Bring in what is new on {branch}"),
            SUBJECT_LIMIT - 1,
        ),
        description: format!(
            "The branch {branch} has got commits that conflict with the team's work. Your worktree has the team's work. \
             Run `git merge {tip}`, resolve the conflicts so that what both sides wanted holds, and commit the merge. \
             Both sides changed:\n\n{list}"
        ),
        notes,
        ..NewTask::default()
    }
}

//! A worktree for one worker, on a branch of its own.

use std::path::{Path, PathBuf};

use teamster_isolate::git::{
    Author, BranchUpdate, CommitId, GitError, GitProblem, MergeOutcome, Repo, SecretFile, Worktree,
    integration_branch, pin_ref,
};
use teamster_types::task::Task;
use teamster_types::{TaskId, TeamName, WorkerName};

use super::setup::{SetupSource, make_usable};
use super::{
    AttemptWork, FinishedWork, Foundation, KeepAs, KeptWork, OmittedWork, Workplace, WorkplaceError,
};

/// A workplace in a git worktree that belongs to one worker.
pub struct InWorktree {
    repo: Repo,
    team: TeamName,
    worker: WorkerName,
    /// Where the team's work began.
    start: CommitId,
    tree: Worktree,
    folder: PathBuf,
    /// Where the current task began.
    base: CommitId,
    /// The last result that was pinned, and the commit that its task was pinned to before.
    pinned: Option<(CommitId, Option<CommitId>)>,
    /// Files that must not be committed and that are not reported yet.
    secrets: Vec<SecretFile>,
    setup: Box<SetupSource>,
}

impl InWorktree {
    /// Creates the worktree of a worker, from `start` or from the team's merged work, with the work that the worker has
    /// finished. `setup` is queried each time a worktree is created.
    pub fn open(
        repo: Repo,
        team: &TeamName,
        worker: &WorkerName,
        start: CommitId,
        on: &Foundation,
        setup: Box<SetupSource>,
        say: &mut dyn FnMut(&str),
    ) -> Result<Self, GitError> {
        repo.exclude_ours()?;
        let base = merged_work(&repo, team, &start, on)?;
        let prepared = Worktree::prepare(&repo, team, worker, &base)?;
        let folder = prepared.worktree.work_folder();
        for kept in &prepared.kept {
            say(&say_kept(kept));
        }
        for secret in &prepared.secrets {
            say(&format!("not to be committed: {secret}"));
        }
        make_usable(&prepared.worktree, &*setup, &|| false, say)?;
        let mut opened = Self {
            repo,
            team: team.clone(),
            worker: worker.clone(),
            start,
            tree: prepared.worktree,
            folder,
            base,
            pinned: None,
            secrets: prepared.secrets,
            setup,
        };
        // Even while idle, the branch holds the worker's finished work.
        opened.bring_up_to_date(on)?;
        Ok(opened)
    }

    /// Moves the worktree to the commit where a task begins; returns the work that is left out because it conflicts.
    fn bring_up_to_date(&mut self, on: &Foundation) -> Result<OmittedWork, GitError> {
        let merged = merged_work(&self.repo, &self.team, &self.start, on)?;
        // The folder is missing when an earlier attempt to recreate the worktree failed, for example on a full disk.
        if !self.folder.is_dir() {
            self.set_aside(merged.clone())?;
        }
        let mut left_out = OmittedWork::default();
        let target = self.add_all(merged, &on.waited_for, &mut left_out.waited_for)?;
        let target = self.add_all(target, &on.own, &mut left_out.own)?;
        match self.tree.move_from(&self.base, &target)? {
            BranchUpdate::Already | BranchUpdate::To(_) => self.base = target,
            // Uncommitted or unmerged work is in the way. The worktree is moved aside as a whole and replaced by a new one.
            BranchUpdate::Kept { .. } | BranchUpdate::Merged(_) => drop(self.set_aside(target)?),
        }
        Ok(left_out)
    }

    /// Returns a commit that contains `onto` and the finished work of these tasks. Conflicting work is listed in `left_out`.
    fn add_all(
        &self,
        mut onto: CommitId,
        work: &[FinishedWork],
        left_out: &mut Vec<String>,
    ) -> Result<CommitId, GitError> {
        let mut to_add: Vec<(&TaskId, CommitId)> = Vec::new();
        for finished in work {
            match self.repo.resolve(&finished.commit)? {
                Some(commit) => to_add.push((&finished.task, commit)),
                None => left_out.push(format!("the commit of task {} is gone", finished.task)),
            }
        }
        // The task that finished last already contains most of the others' work.
        loop {
            let commits: Vec<CommitId> = to_add.iter().map(|(_, it)| it.clone()).collect();
            let missing = self.repo.may_not_be_in(&commits, &onto)?;
            to_add.retain(|(_, commit)| missing.contains(commit));
            let Some((task, commit)) = to_add.pop() else {
                return Ok(onto);
            };
            let message = format!("Begin with the work of task {task}");
            match self.tree.combine(&onto, &commit, &message)? {
                MergeOutcome::Made(made) => onto = made,
                MergeOutcome::Already | MergeOutcome::Moved => {}
                MergeOutcome::Conflict { files } => {
                    let files: Vec<_> = files.iter().map(|file| file.to_string_lossy()).collect();
                    let kept = pin_ref(&self.team, task);
                    let files = files.join(", ");
                    left_out.push(format!("task {task} ({kept}) conflicts in {files}"));
                }
            }
        }
    }

    /// Replaces the worktree with a new one; returns where the old one was moved if it held work.
    fn set_aside(&mut self, target: CommitId) -> Result<Vec<String>, GitError> {
        let prepared = Worktree::prepare(&self.repo, &self.team, &self.worker, &target)?;
        make_usable(&prepared.worktree, &*self.setup, &|| false, &mut |_| {})?;
        prepared.worktree.keep_rules_of(&self.tree)?;
        self.secrets.extend(prepared.secrets);
        self.tree = prepared.worktree;
        self.folder = self.tree.work_folder();
        self.base = target;
        Ok(prepared.kept.iter().map(location_of).collect())
    }

    /// Moves away files that must not be committed, and remembers them until they are reported.
    fn move_secrets(&mut self) -> Result<(), WorkplaceError> {
        let moved = self.tree.set_secrets_aside(&self.base, &mut self.secrets);
        moved.map_err(|error| workplace_error(&error))
    }

    /// Pins the commit as an attempt before unpinning it as the task's result, so that a ref always points to the work.
    fn unpin(&mut self, task: &Task, attempt: u64) -> Result<Option<String>, GitError> {
        let Some((commit, before)) = self.pinned.take() else {
            return Ok(None);
        };
        let (team, id) = (&self.team, task.id());
        let name = self.repo.pin_attempt(team, id, attempt, &commit)?;
        self.repo.unpin(team, id, &commit, before.as_ref())?;
        Ok(Some(name))
    }

    fn commit_as(
        &mut self,
        task: &Task,
        keep: KeepAs,
        message: &str,
    ) -> Result<KeptWork, GitError> {
        self.pinned = None;
        let files: Vec<String> = self
            .tree
            .changes(&self.base)?
            .iter()
            .map(|change| change.path.to_string_lossy().into_owned())
            .collect();
        let committed = match (self.commit_whole(message), keep) {
            (Ok(committed), _) => committed,
            (Err(error), _) if error.problem == GitProblem::NotTaken => {
                return self.keep_aside(error, keep, files);
            }
            // A half-finished merge of the agent cannot be committed, but the files can be salvaged.
            (Err(_), KeepAs::Attempt(_)) => {
                let branch = self.tree.salvage()?;
                return Ok(KeptWork {
                    commit: None,
                    base: Some(self.base.as_str().to_owned()),
                    name: Some(branch),
                    files,
                });
            }
            (Err(error), KeepAs::Result) => return Err(error),
        };
        let mut head = match committed {
            Some(commit) => commit,
            // The agent may have committed its changes itself.
            None => self.tree.head()?,
        };
        // The agent may also have switched to another branch afterwards; the tip of its own branch is its work.
        let own = format!("refs/heads/{}", self.tree.branch());
        if head == self.base
            && let Some(tip) = self.repo.resolve(&own)?
            && self.repo.is_ancestor(&self.base, &tip)?
        {
            head = tip;
        }
        if head == self.base {
            return Ok(KeptWork::default());
        }
        let name = match keep {
            KeepAs::Result => {
                let before = self.repo.pinned(&self.team, task.id())?;
                self.repo.pin(&self.team, task.id(), &head)?;
                self.pinned = Some((head.clone(), before));
                pin_ref(&self.team, task.id())
            }
            KeepAs::Attempt(number) => {
                self.repo
                    .pin_attempt(&self.team, task.id(), number, &head)?
            }
        };
        Ok(KeptWork {
            commit: Some(head.as_str().to_owned()),
            base: Some(self.base.as_str().to_owned()),
            name: Some(name),
            files,
        })
    }
}

impl InWorktree {
    /// Commits everything, and fails when others could not fetch everything in the commit.
    fn commit_whole(&self, message: &str) -> Result<Option<CommitId>, GitError> {
        let committed = self.tree.commit_all(message, &Author::default())?;
        self.repo
            .refuse_unfetchable(&self.base, &self.tree.head()?)?;
        Ok(committed)
    }

    /// Moves the whole worktree aside, because a commit would not contain everything in it.
    fn keep_aside(
        &mut self,
        error: GitError,
        keep: KeepAs,
        files: Vec<String>,
    ) -> Result<KeptWork, GitError> {
        let base = self.base.clone();
        let places = self.set_aside(base.clone())?.join(", ");
        match keep {
            KeepAs::Result => Err(GitError {
                message: format!("{error}; the whole worktree is kept as {places}"),
                ..error
            }),
            KeepAs::Attempt(_) => Ok(KeptWork {
                commit: None,
                base: Some(base.as_str().to_owned()),
                name: Some(places),
                files,
            }),
        }
    }
}

impl InWorktree {
    /// Returns a commit and its fork point from the work in the worktree, or `None` when there is no such commit.
    fn fork_of(&self, commit: &str) -> Result<Option<(CommitId, CommitId)>, GitError> {
        let Some(commit) = self.repo.resolve(commit)? else {
            return Ok(None);
        };
        let fork = self.repo.fork_point(&self.base, &commit)?;
        Ok(fork.map(|fork| (fork, commit)))
    }

    fn kept_attempt(&self, task: &TaskId) -> Result<Option<AttemptWork>, GitError> {
        let Some((_, commit)) = self.repo.attempts(&self.team, task)?.pop() else {
            return Ok(None);
        };
        let files = match self.repo.fork_point(&self.base, &commit)? {
            Some(fork) => self.repo.changed_files(&fork, &commit)?,
            None => Vec::new(),
        };
        Ok(Some(AttemptWork {
            name: commit.short().to_owned(),
            commit: commit.as_str().to_owned(),
            files,
        }))
    }
}

impl Workplace for InWorktree {
    fn folder(&self) -> &Path {
        &self.folder
    }

    fn last_attempt(&self, task: &TaskId) -> Result<Option<AttemptWork>, WorkplaceError> {
        self.kept_attempt(task)
            .map_err(|error| workplace_error(&error))
    }

    fn patch_of(&self, commit: &str, files: &[String]) -> Result<Vec<u8>, WorkplaceError> {
        let patch = match self.fork_of(commit) {
            Ok(Some((fork, commit))) => self.repo.patch(&fork, &commit, files),
            Ok(None) => Ok(Vec::new()),
            Err(error) => Err(error),
        };
        patch.map_err(|error| workplace_error(&error))
    }

    fn patch_since_fork(&self, commit: &str, files: &[String]) -> Result<Vec<u8>, WorkplaceError> {
        let patch = match self.fork_of(commit) {
            Ok(Some((fork, _))) => self.repo.patch(&fork, &self.base, files),
            Ok(None) => Ok(Vec::new()),
            Err(error) => Err(error),
        };
        patch.map_err(|error| workplace_error(&error))
    }

    fn prepare(&mut self, on: &Foundation) -> Result<OmittedWork, WorkplaceError> {
        self.bring_up_to_date(on)
            .map_err(|error| workplace_error(&error))
    }

    fn changes(&self) -> Result<Vec<PathBuf>, WorkplaceError> {
        let changes = self.tree.changes(&self.base);
        let changes = changes.map_err(|error| workplace_error(&error))?;
        Ok(changes.into_iter().map(|change| change.path).collect())
    }

    fn take_secrets(&mut self) -> Vec<SecretFile> {
        std::mem::take(&mut self.secrets)
    }

    fn set_secrets_aside(&mut self) -> Result<Vec<SecretFile>, WorkplaceError> {
        self.move_secrets()?;
        Ok(self.take_secrets())
    }

    fn commit(&mut self, message: &str) -> Result<(), WorkplaceError> {
        self.move_secrets()?;
        let committed = self.tree.commit_all(message, &Author::default());
        committed.map(drop).map_err(|error| workplace_error(&error))
    }

    fn keep(
        &mut self,
        task: &Task,
        keep: KeepAs,
        message: &str,
    ) -> Result<KeptWork, WorkplaceError> {
        self.commit_as(task, keep, message)
            .map_err(|error| workplace_error(&error))
    }

    fn revert_result(
        &mut self,
        task: &Task,
        attempt: u64,
    ) -> Result<Option<String>, WorkplaceError> {
        self.unpin(task, attempt)
            .map_err(|error| workplace_error(&error))
    }
}

/// Returns the commit with the team's merged work: the tip of the branch into which finished tasks are merged, else the
/// commit where it landed, else the team's start.
fn merged_work(
    repo: &Repo,
    team: &TeamName,
    start: &CommitId,
    on: &Foundation,
) -> Result<CommitId, GitError> {
    if let Some(head) = repo.resolve(&format!("refs/heads/{}", integration_branch(team)))? {
        return Ok(head);
    }
    let mut merges = Vec::new();
    for merge in &on.merges {
        merges.extend(repo.resolve(merge)?);
    }
    if merges.is_empty() || repo.contains_all(&merges, start)? {
        return Ok(start.clone());
    }
    let landed = repo.resolve("HEAD")?;
    match landed {
        Some(head) if repo.is_ancestor(start, &head)? && repo.contains_all(&merges, &head)? => {
            Ok(head)
        }
        _ => Ok(start.clone()),
    }
}

fn say_kept(kept: &teamster_isolate::git::DisplacedWork) -> String {
    format!("{}: kept as {}", kept.why, location_of(kept))
}

fn location_of(kept: &teamster_isolate::git::DisplacedWork) -> String {
    kept.path
        .as_ref()
        .map(|path| path.display().to_string())
        .or_else(|| kept.branch.clone())
        .unwrap_or_default()
}

fn workplace_error(error: &GitError) -> WorkplaceError {
    WorkplaceError(format!("{error}; {}", error.hint))
}

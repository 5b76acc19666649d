//! The changes of a team's branches and tasks.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use teamster_isolate::git::{BranchTip, CommitId, Git, Repo, tips};
use teamster_journal::{EventKind, EventType};
use teamster_types::redact::redact;
use teamster_types::{TaskId, TeamName};

use crate::app::App;
use crate::env_vars;
use crate::error::{AppError, ErrorKind, Result};
use crate::workers::project_of;

const INTEGRATION: &str = "integration";
/// The name for the commit at the gate. It is not a valid worker name.
const AT_GATE: &str = "@gate";
/// The maximum length of a diff in a response, in bytes.
const LONGEST: usize = 1024 * 1024;
/// How many more bytes are searched for secrets; no secret is longer.
const MARGIN: usize = 64 * 1024;

/// The changes of one branch of a team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Branch {
    /// A worker's name, `integration`, or `@gate` for the commit that was last presented at the gate.
    pub name: String,
    /// The branch.
    pub branch: String,
    /// Its commit.
    pub commit: String,
    /// The commit that it is compared with.
    pub base: String,
    /// The changed files, with the numbers of added and removed lines, at most 2,000.
    pub files: Vec<ChangedFile>,
}

/// A file that a branch changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChangedFile {
    /// Its path.
    pub path: String,
    /// The number of added lines; `null` for a binary file.
    pub added: Option<u64>,
    /// The number of removed lines; `null` for a binary file.
    pub removed: Option<u64>,
}

/// The changes of a team's branches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Changes {
    /// The integration branch first, then the workers by name. Empty when the project is not a git repository.
    pub branches: Vec<Branch>,
    /// Why there is nothing to show.
    pub problem: Option<String>,
}

/// The changes of a branch or a task, as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Diff {
    /// A worker's name, `integration`, `task-3` for the result of a task, or `task-3.attempt-7` for a failed attempt.
    pub name: String,
    /// The commit that is shown.
    pub commit: String,
    /// The commit that it is compared with.
    pub base: String,
    /// The changed files, with the numbers of added and removed lines, at most 2,000.
    pub files: Vec<ChangedFile>,
    /// The unified diff, redacted, at most 1 MiB.
    pub text: String,
    /// Whether it was truncated.
    pub cut: bool,
}

/// The recorded work on one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskCommits {
    /// The task.
    pub task: TaskId,
    /// The commit with its result.
    pub commit: Option<String>,
    /// The commit where the work began.
    pub base: Option<String>,
    /// The merge commit that brought it into the team's branch.
    pub merge: Option<String>,
    /// The worker that currently works on it.
    pub at_work: Option<String>,
}

fn repo(app: &App, team: &TeamName) -> Result<Repo> {
    let project = project_of(app, team)?;
    let git = Git::find(&env_vars::get(env_vars::PATH).unwrap_or_default())?;
    Ok(Repo::find(&git, &project)?.repo)
}

/// Returns every branch of a team with its changed files.
pub fn changes(app: &App, team: &TeamName) -> Result<Changes> {
    let repo = match repo(app, team) {
        Ok(repo) => repo,
        // A project without a repository is not an error: it has no branches.
        Err(error) if error.kind() == ErrorKind::NotFound && app.read()?.team(team).is_ok() => {
            return Ok(Changes {
                branches: Vec::new(),
                problem: Some(error.message().to_owned()),
            });
        }
        Err(error) => return Err(error),
    };
    let mut branches = Vec::new();
    for (tip, base) in all_tips(app, team, &repo)? {
        let files = changed_files(&repo, &base, &tip.commit)?;
        branches.push(Branch {
            name: tip.name,
            branch: tip.branch,
            commit: tip.commit.as_str().to_owned(),
            base: base.as_str().to_owned(),
            files,
        });
    }
    branches.sort_by_key(|branch| {
        let rank = [AT_GATE, INTEGRATION]
            .iter()
            .position(|name| branch.name == *name);
        (rank.unwrap_or(usize::MAX), branch.name.clone())
    });
    Ok(Changes {
        branches,
        problem: None,
    })
}

/// Returns the diff of one branch.
pub fn of_branch(app: &App, team: &TeamName, name: &str, path: Option<&str>) -> Result<Diff> {
    let repo = repo(app, team)?;
    let (tip, base) = tip_of(app, team, &repo, name)?
        .ok_or_else(|| AppError::not_found(format!("team {team} has no branch of that name")))?;
    between(&repo, tip.name, &base, &tip.commit, path)
}

/// Returns the diff of one task.
pub fn of_task(app: &App, team: &TeamName, work: &TaskCommits, path: Option<&str>) -> Result<Diff> {
    let repo = repo(app, team)?;
    let id = &work.task;
    let commit = match &work.commit {
        Some(commit) => known_commit(&repo, commit)?,
        None => repo.pinned(team, id)?,
    };
    if let Some(commit) = commit {
        let base = task_base(app, team, &repo, work, &commit)?;
        return between(&repo, format!("task-{id}"), &base, &commit, path);
    }
    if let Some(commit) = &work.commit {
        let message = format!("the commit {commit} of task {id} is not in the repository any more");
        return Err(AppError::not_found(message));
    }
    if let Some(worker) = &work.at_work
        && let Some((tip, base)) = tip_of(app, team, &repo, worker)?
    {
        let base = fork_from_merged(team, &repo, &tip.commit)?.unwrap_or(base);
        return between(&repo, tip.name, &base, &tip.commit, path);
    }
    let attempts = repo.attempts(team, id)?;
    let Some((name, commit)) = attempts.into_iter().next_back() else {
        let message = format!("task {id} has no commit yet");
        return Err(AppError::not_found(message));
    };
    let base = task_base(app, team, &repo, work, &commit)?;
    between(&repo, name, &base, &commit, path)
}

fn tip_of(
    app: &App,
    team: &TeamName,
    repo: &Repo,
    name: &str,
) -> Result<Option<(BranchTip, CommitId)>> {
    let tips = all_tips(app, team, repo)?;
    Ok(tips.into_iter().find(|(tip, _)| tip.name == name))
}

/// Returns the tips of a team's branches, each with the commit that it is compared with.
fn all_tips(app: &App, team: &TeamName, repo: &Repo) -> Result<Vec<(BranchTip, CommitId)>> {
    let mut all = Vec::new();
    all.extend(at_gate(app, team, repo)?);
    for tip in tips(repo, team)? {
        let base = base_of(app, team, repo, &tip)?;
        all.push((tip, base));
    }
    Ok(all)
}

/// Returns the commit that a person was last asked about, even if the branches have moved on. A finished run has
/// removed them, but the commit remains.
fn at_gate(app: &App, team: &TeamName, repo: &Repo) -> Result<Option<(BranchTip, CommitId)>> {
    let kind = EventType::ApprovalRequested.name();
    let asked = app.read()?.last_of(team, &[kind])?;
    let Some(EventKind::ApprovalRequested(asked)) = asked.map(|event| event.payload()) else {
        return Ok(None);
    };
    let Some(base) = asked.base else {
        return Ok(None);
    };
    let (Some(commit), Some(from)) = (
        known_commit(repo, &asked.commit)?,
        known_commit(repo, &base.commit)?,
    ) else {
        return Ok(None);
    };
    let tip = BranchTip {
        name: AT_GATE.to_owned(),
        branch: base.branch.unwrap_or_default(),
        commit,
    };
    Ok(Some((tip, from)))
}

/// Returns the commit with this id, if the repository has it. Any other kind of name in a record is ignored.
fn known_commit(repo: &Repo, id: &str) -> Result<Option<CommitId>> {
    match id.parse::<CommitId>() {
        Ok(id) => repo.resolve(id.as_str()).map_err(AppError::from),
        Err(error) => {
            tracing::debug!("a record has an invalid commit id: {error}");
            Ok(None)
        }
    }
}

/// Returns the diff between two commits.
fn between(
    repo: &Repo,
    name: String,
    base: &CommitId,
    commit: &CommitId,
    path: Option<&str>,
) -> Result<Diff> {
    let bytes = repo.diff(base, commit, path)?;
    let (text, cut) = shortened(&bytes);
    Ok(Diff {
        name,
        commit: commit.as_str().to_owned(),
        base: base.as_str().to_owned(),
        files: changed_files(repo, base, commit)?,
        text,
        cut,
    })
}

/// Returns the beginning of a long text. It is redacted before it is truncated, because half a secret would not be
/// recognised.
fn shortened(bytes: &[u8]) -> (String, bool) {
    let looked_at = &bytes[..bytes.len().min(LONGEST + MARGIN)];
    let text = String::from_utf8_lossy(looked_at);
    let mut text = redact(&text).into_owned();
    if text.len() <= LONGEST && looked_at.len() == bytes.len() {
        return (text, false);
    }
    // A truncated last line is dropped, unless it is longer than the margin.
    let mut end = text.len().min(LONGEST);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let line = text[..end].rfind('\n').map(|place| place + 1);
    text.truncate(line.filter(|line| end - line <= MARGIN).unwrap_or(end));
    (text, true)
}

fn changed_files(repo: &Repo, base: &CommitId, commit: &CommitId) -> Result<Vec<ChangedFile>> {
    let files = repo.line_counts(base, commit)?;
    Ok(files
        .into_iter()
        .map(|file| ChangedFile {
            path: file.path,
            added: file.added,
            removed: file.removed,
        })
        .collect())
}

/// Returns the commit where the work of a task began. Earlier work of others is not part of it, even if the agent
/// merged that work itself.
fn task_base(
    app: &App,
    team: &TeamName,
    repo: &Repo,
    work: &TaskCommits,
    commit: &CommitId,
) -> Result<CommitId> {
    if let Some(merge) = &work.merge
        && let Some(merge) = known_commit(repo, merge)?
        && let Some(before) = repo.resolve(&format!("{merge}^1"))?
        && let Some(fork) = repo.fork_point(&before, commit)?
        && fork != *commit
    {
        return Ok(fork);
    }
    if let Some(fork) = fork_from_merged(team, repo, commit)? {
        return Ok(fork);
    }
    if let Some(base) = &work.base
        && let Some(base) = known_commit(repo, base)?
    {
        return Ok(base);
    }
    let tip = BranchTip {
        name: String::new(),
        branch: String::new(),
        commit: commit.clone(),
    };
    let base = base_of(app, team, repo, &tip)?;
    if base != *commit {
        return Ok(base);
    }
    // It has already landed, so only the commit itself is known.
    let parent = repo.resolve(&format!("{commit}^1"))?;
    Ok(parent.unwrap_or(base))
}

/// Returns where a commit branched off the team's merged work; `None` when there is none, or when the commit is part of
/// it.
fn fork_from_merged(team: &TeamName, repo: &Repo, commit: &CommitId) -> Result<Option<CommitId>> {
    let merged = tips(repo, team)?;
    let Some(merged) = merged.into_iter().find(|tip| tip.name == INTEGRATION) else {
        return Ok(None);
    };
    let fork = repo.fork_point(&merged.commit, commit)?;
    Ok(fork.filter(|fork| fork != commit))
}

/// Returns what a branch is compared with: the point where it left the base of the team.
fn base_of(app: &App, team: &TeamName, repo: &Repo, tip: &BranchTip) -> Result<CommitId> {
    let config = app.read()?.team(team)?;
    let ours = config.as_object().get("teamster");
    let of_run = |ours: &Value| ours.get("run")?.get("base")?.get("commit").cloned();
    let recorded = ours.and_then(|ours| ours.get("base").cloned().or_else(|| of_run(ours)));
    let recorded = recorded.as_ref().and_then(|base| base.as_str());
    let named = match recorded {
        Some(id) => known_commit(repo, id)?,
        None => None,
    };
    let base = match named {
        Some(base) => base,
        None => repo
            .resolve("HEAD")?
            .ok_or_else(|| AppError::not_found("the repository has no commit yet"))?,
    };
    let fork = repo.fork_point(&base, &tip.commit)?;
    Ok(fork.unwrap_or(base))
}

//! What the branches and the tasks of a team changed.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use teamster_isolate::git::{CommitId, Git, Repo, Tip, tips};
use teamster_journal::{EventKind, EventType};
use teamster_types::redact::redact;
use teamster_types::{TaskId, TeamName};

use crate::app::App;
use crate::env_vars;
use crate::error::{AppError, ErrorKind, Result};
use crate::workers::project_of;

const INTEGRATION: &str = "integration";
/// What is decided about at the gate. No worker can be called so.
const AT_GATE: &str = "@gate";
/// The longest diff that is passed on, in bytes.
const LONGEST: usize = 1024 * 1024;
/// So much more is looked at for secrets: none is longer.
const MARGIN: usize = 64 * 1024;

/// What one branch of a team changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Branch {
    /// A worker's name, `integration`, or `@gate` for what was last asked about at the gate.
    pub name: String,
    /// The branch.
    pub branch: String,
    /// Its commit.
    pub commit: String,
    /// What it is compared with.
    pub base: String,
    /// The files it changed, with how many lines came and went, at most 2,000.
    pub files: Vec<ChangedFile>,
}

/// A file that a branch changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChangedFile {
    /// Its path.
    pub path: String,
    /// Lines that came; `null` when it is no text.
    pub added: Option<u64>,
    /// Lines that went; `null` when it is no text.
    pub removed: Option<u64>,
}

/// What the branches of a team changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Changes {
    /// Integration first, then the workers by name. Empty when the project is no git repository.
    pub branches: Vec<Branch>,
    /// Why there is nothing to show.
    pub problem: Option<String>,
}

/// What a branch or a task changed, as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Diff {
    /// A worker's name, `integration`, or of a task `task-3` for what came of it and `task-3.attempt-7` for an attempt
    /// that did not end well.
    pub name: String,
    /// The commit that is shown.
    pub commit: String,
    /// What it is compared with.
    pub base: String,
    /// The files that were changed, with how many lines came and went, at most 2,000.
    pub files: Vec<ChangedFile>,
    /// The unified diff, redacted, at most 1 MiB.
    pub text: String,
    /// Whether it is longer than that.
    pub cut: bool,
}

/// What one task has brought, as the model knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskWork {
    /// The task.
    pub task: TaskId,
    /// The commit that it ended with.
    pub commit: Option<String>,
    /// Where the work began.
    pub base: Option<String>,
    /// The merge that brought it into the team's work.
    pub merge: Option<String>,
    /// Who is at it now.
    pub at_work: Option<String>,
}

fn repo(app: &App, team: &TeamName) -> Result<Repo> {
    let project = project_of(app, team)?;
    let git = Git::find(&env_vars::get(env_vars::PATH).unwrap_or_default())?;
    Ok(Repo::find(&git, &project)?.repo)
}

/// Returns every branch of a team with the files it changed.
pub fn changes(app: &App, team: &TeamName) -> Result<Changes> {
    let repo = match repo(app, team) {
        Ok(repo) => repo,
        // No repository is nothing wrong: then there are no branches.
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
        let files = counted(&repo, &base, &tip.commit)?;
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

/// Returns what one branch changed, as text.
pub fn of_branch(app: &App, team: &TeamName, name: &str, path: Option<&str>) -> Result<Diff> {
    let repo = repo(app, team)?;
    let (tip, base) = tip_of(app, team, &repo, name)?
        .ok_or_else(|| AppError::not_found(format!("team {team} has no branch of that name")))?;
    between(&repo, tip.name, &base, &tip.commit, path)
}

/// Returns what one task changed, as text.
pub fn of_task(app: &App, team: &TeamName, work: &TaskWork, path: Option<&str>) -> Result<Diff> {
    let repo = repo(app, team)?;
    let id = &work.task;
    let commit = match &work.commit {
        Some(commit) => known(&repo, commit)?,
        None => repo.pinned(team, id)?,
    };
    if let Some(commit) = commit {
        let base = began_at(app, team, &repo, work, &commit)?;
        return between(&repo, format!("task-{id}"), &base, &commit, path);
    }
    if let Some(commit) = &work.commit {
        let message = format!("the commit {commit} of task {id} is not in the repository any more");
        return Err(AppError::not_found(message));
    }
    if let Some(worker) = &work.at_work
        && let Some((tip, base)) = tip_of(app, team, &repo, worker)?
    {
        let base = began_with_others(team, &repo, &tip.commit)?.unwrap_or(base);
        return between(&repo, tip.name, &base, &tip.commit, path);
    }
    let attempts = repo.attempts(team, id)?;
    let Some((name, commit)) = attempts.into_iter().next_back() else {
        let message = format!("task {id} has brought no commit yet");
        return Err(AppError::not_found(message));
    };
    let base = began_at(app, team, &repo, work, &commit)?;
    between(&repo, name, &base, &commit, path)
}

fn tip_of(app: &App, team: &TeamName, repo: &Repo, name: &str) -> Result<Option<(Tip, CommitId)>> {
    let tips = all_tips(app, team, repo)?;
    Ok(tips.into_iter().find(|(tip, _)| tip.name == name))
}

/// The tips of a team's branches, each with what it is compared with.
fn all_tips(app: &App, team: &TeamName, repo: &Repo) -> Result<Vec<(Tip, CommitId)>> {
    let mut all = Vec::new();
    all.extend(at_gate(app, team, repo)?);
    for tip in tips(repo, team)? {
        let base = base_of(app, team, repo, &tip)?;
        all.push((tip, base));
    }
    Ok(all)
}

/// What a person was last asked about: exactly this commit, wherever branches are by now. A run that is over has removed
/// them; the commit stays.
fn at_gate(app: &App, team: &TeamName, repo: &Repo) -> Result<Option<(Tip, CommitId)>> {
    let kind = EventType::ApprovalRequested.name();
    let asked = app.read()?.last_of(team, &[kind])?;
    let Some(EventKind::ApprovalRequested(asked)) = asked.map(|event| event.payload()) else {
        return Ok(None);
    };
    let Some(base) = asked.base else {
        return Ok(None);
    };
    let (Some(commit), Some(from)) = (known(repo, &asked.commit)?, known(repo, &base.commit)?)
    else {
        return Ok(None);
    };
    let tip = Tip {
        name: AT_GATE.to_owned(),
        branch: base.branch.unwrap_or_default(),
        commit,
    };
    Ok(Some((tip, from)))
}

/// Returns the commit with this id, if the repository has it. Any other name in a record means nothing.
fn known(repo: &Repo, id: &str) -> Result<Option<CommitId>> {
    match id.parse::<CommitId>() {
        Ok(id) => repo.resolve(id.as_str()).map_err(AppError::from),
        Err(error) => {
            tracing::debug!("a record names no commit: {error}");
            Ok(None)
        }
    }
}

/// The difference between two commits, for people.
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
        files: counted(repo, base, commit)?,
        text,
        cut,
    })
}

/// The beginning of a long text. What is cut is cut after it was redacted: half a secret is no longer seen as one.
fn shortened(bytes: &[u8]) -> (String, bool) {
    let looked_at = &bytes[..bytes.len().min(LONGEST + MARGIN)];
    let text = String::from_utf8_lossy(looked_at);
    let mut text = redact(&text).into_owned();
    if text.len() <= LONGEST && looked_at.len() == bytes.len() {
        return (text, false);
    }
    // A line that is not there to its end tells little, unless it is most of what there is.
    let mut end = text.len().min(LONGEST);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let line = text[..end].rfind('\n').map(|place| place + 1);
    text.truncate(line.filter(|line| end - line <= MARGIN).unwrap_or(end));
    (text, true)
}

fn counted(repo: &Repo, base: &CommitId, commit: &CommitId) -> Result<Vec<ChangedFile>> {
    let files = repo.counted(base, commit)?;
    Ok(files
        .into_iter()
        .map(|file| ChangedFile {
            path: file.path,
            added: file.added,
            removed: file.removed,
        })
        .collect())
}

/// Where the work of a task began: what the others had brought by then is no part of it, even if its agent has brought
/// that in itself.
fn began_at(
    app: &App,
    team: &TeamName,
    repo: &Repo,
    work: &TaskWork,
    commit: &CommitId,
) -> Result<CommitId> {
    if let Some(merge) = &work.merge
        && let Some(merge) = known(repo, merge)?
        && let Some(before) = repo.resolve(&format!("{merge}^1"))?
        && let Some(fork) = repo.fork_point(&before, commit)?
        && fork != *commit
    {
        return Ok(fork);
    }
    if let Some(fork) = began_with_others(team, repo, commit)? {
        return Ok(fork);
    }
    if let Some(base) = &work.base
        && let Some(base) = known(repo, base)?
    {
        return Ok(base);
    }
    let tip = Tip {
        name: String::new(),
        branch: String::new(),
        commit: commit.clone(),
    };
    let base = base_of(app, team, repo, &tip)?;
    if base != *commit {
        return Ok(base);
    }
    // The user has it already, so all that is known is the commit itself.
    let parent = repo.resolve(&format!("{commit}^1"))?;
    Ok(parent.unwrap_or(base))
}

/// Where a commit left the team's merged work; `None` when there is none, or when it is part of it.
fn began_with_others(team: &TeamName, repo: &Repo, commit: &CommitId) -> Result<Option<CommitId>> {
    let merged = tips(repo, team)?;
    let Some(merged) = merged.into_iter().find(|tip| tip.name == INTEGRATION) else {
        return Ok(None);
    };
    let fork = repo.fork_point(&merged.commit, commit)?;
    Ok(fork.filter(|fork| fork != commit))
}

/// What a branch is compared with: where it left what the team began from.
fn base_of(app: &App, team: &TeamName, repo: &Repo, tip: &Tip) -> Result<CommitId> {
    let config = app.read()?.team(team)?;
    let ours = config.as_object().get("teamster");
    let of_run = |ours: &Value| ours.get("run")?.get("base")?.get("commit").cloned();
    let recorded = ours.and_then(|ours| ours.get("base").cloned().or_else(|| of_run(ours)));
    let recorded = recorded.as_ref().and_then(|base| base.as_str());
    let named = match recorded {
        Some(id) => known(repo, id)?,
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

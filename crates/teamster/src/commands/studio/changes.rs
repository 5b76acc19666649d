//! What the branches of a team changed.

use teamster_isolate::git::{CommitId, Git, GitError, Repo, Tip, tips};
use teamster_studio::Refused;
use teamster_studio::api::{Branch, ChangedFile, Changes, Diff};
use teamster_types::TeamName;

use crate::commands::worker::project;
use crate::context::Context;
use crate::env_vars;
use crate::error::CommandError;

const INTEGRATION: &str = "integration";
/// The longest diff that is passed on, in bytes.
const LONGEST: usize = 1024 * 1024;

fn refused(error: GitError) -> Refused {
    CommandError::from(error).into()
}

fn repo(context: &Context, team: &TeamName) -> Result<Repo, Refused> {
    let project = project(context, team)?;
    let git = Git::find(&env_vars::get(env_vars::PATH).unwrap_or_default()).map_err(refused)?;
    Ok(Repo::find(&git, &project).map_err(refused)?.repo)
}

/// Every branch of a team with the files it changed.
pub(super) fn list(context: &Context, team: &TeamName) -> Result<Changes, Refused> {
    let repo = match repo(context, team) {
        Ok(repo) => repo,
        // No repository is nothing wrong: then there are no branches.
        Err(error) if error.kind == "not_found" && context.read()?.team(team).is_ok() => {
            return Ok(Changes {
                branches: Vec::new(),
                problem: Some(error.message),
            });
        }
        Err(error) => return Err(error),
    };
    let mut branches = Vec::new();
    for tip in tips(&repo, team).map_err(refused)? {
        let base = base_of(context, team, &repo, &tip)?;
        let files = repo.counted(&base, &tip.commit).map_err(refused)?;
        branches.push(Branch {
            name: tip.name,
            branch: tip.branch,
            commit: tip.commit.as_str().to_owned(),
            base: base.as_str().to_owned(),
            files: files
                .into_iter()
                .map(|file| ChangedFile {
                    path: file.path,
                    added: file.added,
                    removed: file.removed,
                })
                .collect(),
        });
    }
    branches.sort_by_key(|branch| (branch.name != INTEGRATION, branch.name.clone()));
    Ok(Changes {
        branches,
        problem: None,
    })
}

/// What one branch changed, as text.
pub(super) fn diff(
    context: &Context,
    team: &TeamName,
    name: &str,
    path: Option<&str>,
) -> Result<Diff, Refused> {
    let repo = repo(context, team)?;
    let tips = tips(&repo, team).map_err(refused)?;
    let tip = tips.into_iter().find(|tip| tip.name == name);
    let tip =
        tip.ok_or_else(|| Refused::not_found(format!("team {team} has no branch of that name")))?;
    let base = base_of(context, team, &repo, &tip)?;
    let bytes = repo.diff(&base, &tip.commit, path).map_err(refused)?;
    let shown = &bytes[..bytes.len().min(LONGEST)];
    Ok(Diff {
        name: tip.name,
        commit: tip.commit.as_str().to_owned(),
        base: base.as_str().to_owned(),
        text: String::from_utf8_lossy(shown).into_owned(),
        cut: bytes.len() > LONGEST,
    })
}

/// What a branch is compared with: where it left what the team began from.
fn base_of(
    context: &Context,
    team: &TeamName,
    repo: &Repo,
    tip: &Tip,
) -> Result<CommitId, Refused> {
    let config = context.read()?.team(team).map_err(CommandError::from)?;
    let ours = config.as_object().get("teamster");
    let recorded = ours.and_then(|ours| ours.get("base")?.as_str());
    let named = match recorded {
        Some(name) => repo.resolve(name).map_err(refused)?,
        None => None,
    };
    let base = match named {
        Some(base) => base,
        None => repo
            .resolve("HEAD")
            .map_err(refused)?
            .ok_or_else(|| Refused::not_found("the repository has no commit yet"))?,
    };
    let fork = repo.fork_point(&base, &tip.commit).map_err(refused)?;
    Ok(fork.unwrap_or(base))
}

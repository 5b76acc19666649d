//! Decides where a worker works. The place is decided before its process holds the lock, and created only afterwards.

use std::path::Path;

use teamster_isolate::git::{CommitId, Git, GitError, GitProblem, Repo, SharedRepo};
use teamster_workers::bridge::OpenWorkplace;
use teamster_workers::record::WorkerSpec;
use teamster_workers::workplace::{
    self, Foundation, InPlace, InWorktree, SharedRepoWorkplace, Workplace, WorkplaceError,
};

use super::team_folder;
use crate::app::App;
use crate::env_vars;
use crate::error::{AppError, Result};
use crate::trust;

/// Returns how to create the place where the worker works.
pub(super) fn plan(app: &App, wanted: &WorkerSpec, project: &Path) -> Result<OpenWorkplace> {
    if wanted.in_place {
        let place = InPlace::new(project.to_owned());
        return Ok(Box::new(move |_| Ok(Box::new(place) as Box<dyn Workplace>)));
    }
    let path = env_vars::get(env_vars::PATH).unwrap_or_default();
    let git = Git::find(&path).map_err(no_worktree)?;
    let found = Repo::find(&git, project).map_err(no_worktree)?;
    let folder = team_folder(app, &wanted.team)?;
    found
        .repo
        .use_recorded_rules(&folder)
        .map_err(no_worktree)?;
    let shared = wanted.repo.as_deref().map(SharedRepo::new).transpose();
    let shared = shared.map_err(no_worktree)?;
    if let Some(shared) = &shared {
        workplace::fetch(&found.repo, shared, &wanted.team).map_err(no_worktree)?;
    }
    let team = app.read()?.team(&wanted.team)?;
    let base = team.as_object().get("teamster").and_then(|ours| {
        let base = ours.get("base")?.as_str()?.parse::<CommitId>();
        base.inspect_err(|error| tracing::debug!("the team's base is not a commit id: {error}"))
            .ok()
    });
    let start = match base {
        // A base that the repository no longer has cannot be used.
        Some(base) => found
            .repo
            .resolve(base.as_str())
            .map_err(no_worktree)?
            .unwrap_or(found.head),
        None => found.head,
    };
    let layout = app.layout.of_project(project);
    let setup = Box::new(move || trust::worktree_setup(&layout));
    let (team, worker) = (wanted.team.clone(), wanted.worker.clone());
    let on = Foundation::of(app.read()?, &team, &worker, None)?;
    Ok(Box::new(move |say| {
        let repo = found.repo.clone();
        let opened = InWorktree::open(found.repo, &team, &worker, start, &on, setup, say);
        opened
            .map(|place| match shared {
                None => Box::new(place) as Box<dyn Workplace>,
                Some(shared) => {
                    Box::new(SharedRepoWorkplace::new(place, repo, shared, team, worker))
                }
            })
            .map_err(|error| {
                let error = no_worktree(error);
                let hint = error.advice().unwrap_or_default();
                WorkplaceError(format!("{}; {hint}", error.message()))
            })
    }))
}

fn no_worktree(error: GitError) -> AppError {
    let hint = match error.problem {
        GitProblem::NoProgram
        | GitProblem::NotRepository
        | GitProblem::Bare
        | GitProblem::NoCommits => format!(
            "{}; or let the worker work in the project's own folder with --in-place",
            error.hint
        ),
        _ => error.hint,
    };
    AppError::refused(error.message).hint(hint)
}

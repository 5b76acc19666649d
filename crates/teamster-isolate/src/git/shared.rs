//! Shares work between machines through one repository that all of them can reach.
//!
//! Every machine of a team has its own clone. A worker pushes its branch and the commit of each finished task; the host
//! fetches them, merges, and pushes the integration branch, from which the next tasks start. Fetched references are
//! under `refs/teamster-shared/`, so that they cannot move a branch that is checked out here.

use std::fmt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use teamster_types::{TaskId, TeamName, WorkerName};

use super::command::Git;
use super::error::{GitError, GitProblem};
use super::integration::Integration;
use super::names::{
    BRANCHES, CommitId, HEADS, PINS, branch_of, head_ref, integration_branch, pin_ref, result_ref,
};
use super::repo::Repo;

/// The prefix of all references that were fetched from a shared repository.
const FETCHED: &str = "refs/teamster-shared/";
/// The pauses between retries when a repository does not answer.
const PAUSES: [Duration; 5] = [
    Duration::from_millis(500),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(20),
];

/// A repository that every machine of a team can reach, by any address that git understands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedRepo {
    url: String,
}

impl SharedRepo {
    /// Validates an address.
    pub fn new(url: &str) -> Result<Self, GitError> {
        let refused = |why: &str, hint: &str| {
            Err(GitError::new(
                GitProblem::Refused,
                format!("{why}: {:?}", without_password(url)),
                hint,
            ))
        };
        let hint = "give an address as for `git clone`: ssh://host/path, https://host/path, file:///path or host:path";
        if url.is_empty() || url.starts_with('-') || url.chars().any(char::is_control) {
            return refused("this is not the address of a repository", hint);
        }
        // `ext::` and similar addresses make git run a program.
        if url.contains("::") {
            return refused("an address must not name a program that git runs", hint);
        }
        if without_password(url) != url {
            return refused(
                "the address of a repository must not have a password in it, which others could read",
                "let git find it itself, with a credential helper or with ssh",
            );
        }
        Ok(Self {
            url: url.to_owned(),
        })
    }

    /// Returns the address.
    pub fn as_str(&self) -> &str {
        &self.url
    }
}

impl fmt::Display for SharedRepo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

/// Returns an address without the password in it.
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let end = rest.find('/').unwrap_or(rest.len());
    let (place, path) = rest.split_at(end);
    match place.rsplit_once('@') {
        Some((user, host)) if user.contains(':') => {
            let name = user.split(':').next().unwrap_or_default();
            format!("{scheme}://{name}@{host}{path}")
        }
        _ => url.to_owned(),
    }
}

/// Clones a shared repository into a new folder.
pub fn clone_shared(git: &Git, shared: &SharedRepo, folder: &Path) -> Result<(), GitError> {
    let parent = folder.parent().unwrap_or(Path::new("."));
    git.at(parent)
        .args(["clone", "--quiet", "--no-tags", "--"])
        .arg(&shared.url)
        .arg(folder)
        .done()
}

impl Repo {
    /// Fetches everything of a team from a shared repository: its branches, and the commits of its finished tasks.
    pub fn fetch_team(&self, shared: &SharedRepo, team: &TeamName) -> Result<(), GitError> {
        let fetched = format!("{FETCHED}{team}/");
        self.fetch(
            shared,
            &[
                format!("+{HEADS}{BRANCHES}{team}/*:{fetched}heads/*"),
                format!("+{PINS}{team}/*:{fetched}pins/*"),
            ],
        )
    }

    fn fetch(&self, shared: &SharedRepo, what: &[String]) -> Result<(), GitError> {
        patiently(|| {
            self.call()
                .args(["fetch", "--quiet", "--no-tags", "--no-write-fetch-head"])
                .args(["--no-recurse-submodules", "--no-auto-maintenance", "--"])
                .arg(&shared.url)
                .args(what)
                .done()
        })
    }

    /// Fails if this repository has no commit in common with what the team shares: its work could never be merged
    /// there.
    pub fn must_be_of_team(&self, shared: &SharedRepo, team: &TeamName) -> Result<(), GitError> {
        self.fetch_team(shared, team)?;
        let merged = fetched_integration(team);
        let theirs = if self.resolve(&merged)?.is_some() {
            merged
        } else {
            // Nothing is merged yet, so the team starts from the shared repository's HEAD.
            let head = format!("{FETCHED}{team}/head");
            self.fetch(shared, &[format!("+HEAD:{head}")])?;
            head
        };
        let (ours, theirs) = (self.resolve("HEAD")?, self.resolve(&theirs)?);
        let common = match (&ours, &theirs) {
            (Some(ours), Some(theirs)) => self.fork_point(ours, theirs)?,
            _ => None,
        };
        if common.is_some() {
            return Ok(());
        }
        Err(GitError::new(
            GitProblem::Refused,
            format!(
                "{} is another repository: it has no commit in common with {shared}",
                self.root().display()
            ),
            "name another folder with --dir; a folder that does not exist yet becomes a clone",
        ))
    }

    /// Sets the team's integration branch to the fetched one, unless this is the repository in which it is merged.
    pub fn follow_integration(&self, team: &TeamName) -> Result<(), GitError> {
        if Integration::open(self, team)?.is_some() {
            return Ok(());
        }
        if let Some(commit) = self.resolve(&fetched_integration(team))? {
            self.call()
                .args(["update-ref", "--", &head_ref(&integration_branch(team))])
                .arg(commit.as_str())
                .done()?;
        }
        Ok(())
    }

    /// Pushes finished work to a shared repository: under the name of its task, and as the branch of its worker. It is
    /// also pushed under a unique name: a worker that was disconnected and lost its task may overwrite the other two
    /// before it learns of that.
    pub fn push_work(
        &self,
        shared: &SharedRepo,
        team: &TeamName,
        worker: &WorkerName,
        task: &TaskId,
        commit: &CommitId,
    ) -> Result<(), GitError> {
        let branch = head_ref(&branch_of(team, worker));
        self.push(
            shared,
            &[
                format!("+{commit}:{}", result_ref(team, task, commit)),
                format!("+{commit}:{}", pin_ref(team, task)),
                format!("+{commit}:{branch}"),
            ],
        )
    }

    /// Pushes a reference of a team to a shared repository under its own name.
    pub fn push_ref(&self, shared: &SharedRepo, name: &str) -> Result<(), GitError> {
        self.push(shared, &[format!("+{name}:{name}")])
    }

    /// Pushes the integration branch of a team to a shared repository.
    pub fn push_integration(&self, shared: &SharedRepo, team: &TeamName) -> Result<(), GitError> {
        self.push_ref(shared, &head_ref(&integration_branch(team)))
    }

    fn push(&self, shared: &SharedRepo, what: &[String]) -> Result<(), GitError> {
        patiently(|| {
            self.call()
                .args(["push", "--quiet", "--no-verify", "--no-follow-tags"])
                .args(["--no-recurse-submodules", "--"])
                .arg(&shared.url)
                .args(what)
                .done()
        })
    }
}

/// Returns the reference of a team's fetched integration branch.
fn fetched_integration(team: &TeamName) -> String {
    let branch = integration_branch(team);
    let name = branch.rsplit('/').next().unwrap_or_default();
    format!("{FETCHED}{team}/heads/{name}")
}

/// Retries an operation that may fail because a machine or network is temporarily down. A full local disk is not
/// retried.
fn patiently(mut work: impl FnMut() -> Result<(), GitError>) -> Result<(), GitError> {
    for pause in PAUSES {
        match work() {
            Err(error) if error.problem == GitProblem::NoRoom => return Err(error),
            Err(error) => {
                tracing::warn!("tried again in {pause:?}: {}", error.message);
                thread::sleep(pause);
            }
            Ok(()) => return Ok(()),
        }
    }
    work()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_that_runs_a_program_or_has_a_password_is_refused() {
        for url in [
            "",
            "-oProxyCommand=x",
            "ext::sh -c id",
            "https://me:secret@host/repo",
            "file:///a\nb",
        ] {
            let error = SharedRepo::new(url).unwrap_err();
            assert!(!error.message.contains("secret"), "{}", error.message);
        }
        for url in [
            "ssh://git@host:22/repo.git",
            "git@host:repo.git",
            "file:///srv/repo",
            "/srv/repo",
            "https://me@host/repo",
        ] {
            assert_eq!(SharedRepo::new(url).unwrap().to_string(), url);
        }
    }
}

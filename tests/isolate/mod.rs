//! Worktrees and panes, with the real git and the real tmux.

mod changes;
mod command;
mod find;
mod integration;
mod keeping;
mod killed;
mod landing;
mod listing;
mod merging;
mod moving;
mod panes;
mod planted;
mod recovery;
mod salvage;
mod setup;

use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use teamster_isolate::git::{Author, CommitId, FoundRepo, Git, PreparedWorktree, Repo, Worktree};
use teamster_testkit::wait::wait_until;
use teamster_types::{TeamName, WorkerName};

use crate::kit::TestProject;

pub const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A project with a repository of one commit.
pub struct GitProject {
    pub project: TestProject,
}

impl GitProject {
    pub fn new() -> Self {
        let project = Self::empty();
        project.project.write("README.md", "one\n");
        project.project.write("src/main.rs", "fn main() {}\n");
        project.commit("Begin");
        project
    }

    /// Makes a repository without a commit.
    pub fn empty() -> Self {
        let project = Self {
            project: TestProject::new(),
        };
        project.git(&["init", "--quiet", "--initial-branch=main"]);
        project.git(&["config", "user.name", "Somebody"]);
        project.git(&["config", "user.email", "somebody@example.org"]);
        project
    }

    pub fn folder(&self) -> PathBuf {
        self.project.folder()
    }

    pub fn git(&self, args: &[&str]) -> String {
        self.git_in(&self.folder(), args)
    }

    /// Calls git like a user. It must succeed.
    pub fn git_in(&self, folder: &Path, args: &[&str]) -> String {
        let output = self.try_git(folder, args);
        assert!(
            output.status.success(),
            "git {args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout)
            .trim_end()
            .to_owned()
    }

    pub fn try_git(&self, folder: &Path, args: &[&str]) -> std::process::Output {
        self.git_command(folder, args).output().unwrap()
    }

    pub fn git_command(&self, folder: &Path, args: &[&str]) -> Command {
        let mut command = Command::new("git");
        command
            .args(args)
            .current_dir(folder)
            .env_clear()
            .env("PATH", PATH)
            .env("HOME", self.project.home());
        command
    }

    pub fn commit(&self, message: &str) -> CommitId {
        self.commit_in(&self.folder(), message)
    }

    pub fn commit_in(&self, folder: &Path, message: &str) -> CommitId {
        self.git_in(folder, &["add", "--all"]);
        self.git_in(folder, &["commit", "--quiet", "-m", message]);
        self.head_of(folder)
    }

    pub fn head_of(&self, folder: &Path) -> CommitId {
        self.git_in(folder, &["rev-parse", "HEAD"]).parse().unwrap()
    }

    /// Returns git as the product calls it, with the test's own home.
    pub fn our_git(&self) -> Git {
        Git::find(PATH.as_ref())
            .unwrap()
            .with_env("HOME", self.project.home())
    }

    pub fn found(&self) -> FoundRepo {
        Repo::find(&self.our_git(), &self.folder()).unwrap()
    }

    pub fn repo(&self) -> Repo {
        self.found().repo
    }

    /// Prepares the worktree of worker-1, from the user's commit.
    pub fn prepare(&self) -> PreparedWorktree {
        let found = self.found();
        Worktree::prepare(&found.repo, &team(), &worker(), &found.head).unwrap()
    }

    pub fn has_branch(&self, name: &str) -> bool {
        self.try_git(
            &self.folder(),
            &[
                "show-ref",
                "--verify",
                "--quiet",
                &format!("refs/heads/{name}"),
            ],
        )
        .status
        .success()
    }
}

/// Kills a process as soon as it has reached this point, unless it has ended before.
///
/// The point is recognised by visible results of the work instead of by time, so that each kill hits a different
/// place on any machine.
#[track_caller]
pub fn kill_when(mut child: Child, mut has_got_so_far: impl FnMut() -> bool) {
    wait_until("the moment of the kill", || {
        has_got_so_far() || child.try_wait().unwrap().is_some()
    });
    let _ = child.kill();
    child.wait().unwrap();
}

/// Counts the files below these folders. A missing folder has none.
pub fn count_files(folders: &[&Path]) -> usize {
    let mut open: Vec<PathBuf> = folders.iter().map(|folder| folder.to_path_buf()).collect();
    let mut count = 0;
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => open.push(entry.path()),
                _ => count += 1,
            }
        }
    }
    count
}

pub fn team() -> TeamName {
    "fix-auth".parse().unwrap()
}

pub fn worker() -> WorkerName {
    "worker-1".parse().unwrap()
}

pub fn author() -> Author {
    Author::default()
}

/// Writes a file below a folder.
pub fn put(folder: &Path, path: &str, content: &str) {
    let path = folder.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

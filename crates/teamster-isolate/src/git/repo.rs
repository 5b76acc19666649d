//! The repository that contains a project.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use teamster_fs::{Dir, UserFile};

use super::command::{Git, GitCommand};
use super::error::{GitError, GitProblem};
use super::names::{CommitId, HEADS, head_ref};
use super::tracking::TrackingRules;

/// Folders that contain the state of a run and not the work.
const OURS: [&str; 3] = [".omc/", ".bkit/", ".party/"];
/// The comment line above the added patterns.
const HEADING: &str = "# teamster: what its runs write";
const EXCLUDE: &str = "exclude";
/// How often the update is retried when another program changes the file meanwhile.
const TRIES: u32 = 10;
const PATIENCE: Duration = Duration::from_secs(5);

/// A repository with a work tree and at least one commit.
#[derive(Clone, Debug)]
pub struct Repo {
    git: Git,
    project: PathBuf,
    root: PathBuf,
    common: PathBuf,
    /// The rules that applied when a team's run began, used for all operations for that team.
    pub(super) rules: Arc<OnceLock<Arc<TrackingRules>>>,
}

/// The result of finding a repository.
#[derive(Clone, Debug)]
pub struct FoundRepo {
    /// The repository.
    pub repo: Repo,
    /// The commit that is checked out.
    pub head: CommitId,
    /// The branch that is checked out; `None` when HEAD is detached.
    pub branch: Option<String>,
    /// The path of the project relative to the root of the work tree; empty when it is the root. A worktree always
    /// contains the whole repository, and a worker starts in the corresponding folder of its own.
    pub inside: PathBuf,
}

impl Git {
    /// Returns the commit that is checked out in a folder; `None` when there is no commit yet.
    pub fn head(&self, folder: &Path) -> Result<Option<CommitId>, GitError> {
        self.at(folder)
            .args(["rev-parse", "--verify", "--quiet", "HEAD^{commit}"])
            .commit_if_any()
    }
}

impl Repo {
    /// Finds the repository of `project`, or returns why it cannot be used.
    pub fn find(git: &Git, project: &Path) -> Result<FoundRepo, GitError> {
        let project = project.canonicalize().map_err(|error| {
            GitError::new(
                GitProblem::NotRepository,
                format!("{} cannot be entered: {error}", project.display()),
                "name the folder of your project with TEAMSTER_PROJECT",
            )
        })?;
        let bare = git.at(&project).args(["rev-parse", "--is-bare-repository"]);
        let ended = bare.run()?;
        if !ended.status.success() {
            return Err(no_repository(&bare, &ended, &project));
        }
        let no_work_tree = || {
            GitError::new(
                GitProblem::Bare,
                format!("{} is a repository without a work tree", project.display()),
                "start in a clone of it: `git clone REPOSITORY FOLDER`",
            )
        };
        let says = |word: &str| -> Result<bool, GitError> {
            Ok(git.at(&project).args(["rev-parse", word]).text()? == "true")
        };
        if ended.stdout.starts_with(b"true") || !says("--is-inside-work-tree")? {
            return Err(no_work_tree());
        }
        let absolute = |word: &str| {
            git.at(&project)
                .args(["rev-parse", "--path-format=absolute", word])
                .path()
        };
        let root = absolute("--show-toplevel")?;
        let Ok(inside) = project.strip_prefix(&root) else {
            return Err(GitError::refused(
                format!(
                    "the work tree of {} is {}, which does not contain it",
                    project.display(),
                    root.display()
                ),
                "check `git config core.worktree`",
            ));
        };
        let repo = Self {
            git: git.clone(),
            common: absolute("--git-common-dir")?,
            project: project.clone(),
            root: root.clone(),
            rules: Arc::default(),
        };
        let head = repo.resolve("HEAD")?.ok_or_else(|| {
            GitError::new(
                GitProblem::NoCommits,
                format!("the repository {} has no commit yet", root.display()),
                "workers start from a commit: `git commit --allow-empty -m \"Begin\"` makes the first",
            )
        })?;
        Ok(FoundRepo {
            head,
            branch: repo.branch()?,
            inside: inside.to_owned(),
            repo,
        })
    }

    /// Returns the folder of the project.
    pub fn project(&self) -> &Path {
        &self.project
    }

    /// Returns the root of the user's work tree.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the git folder that all work trees of the repository share.
    pub fn common(&self) -> &Path {
        &self.common
    }

    /// Returns the commit that a name refers to; `None` when there is none.
    pub fn resolve(&self, name: &str) -> Result<Option<CommitId>, GitError> {
        let name = format!("{name}^{{commit}}");
        self.call()
            .args(["rev-parse", "--verify", "--quiet", "--end-of-options"])
            .arg(name)
            .commit_if_any()
    }

    /// Returns the tip of a branch; `None` when there is no branch of exactly this name.
    pub fn branch_tip(&self, branch: &str) -> Result<Option<CommitId>, GitError> {
        let name = head_ref(branch);
        let call = self.call().args(["show-ref", "--verify", "--quiet", "--"]);
        if call.arg(&name).yes()? {
            self.resolve(&name)
        } else {
            Ok(None)
        }
    }

    /// Returns the branch that the user has checked out.
    pub fn branch(&self) -> Result<Option<String>, GitError> {
        // The full name: git shortens it differently if a tag has the same name.
        let call = self.call().args(["symbolic-ref", "--quiet", "HEAD"]);
        let ended = call.run()?;
        match ended.status.code() {
            Some(0) => {
                let name = String::from_utf8_lossy(&ended.stdout);
                let branch = name.trim_end_matches('\n').strip_prefix(HEADS);
                Ok(branch.map(str::to_owned))
            }
            Some(1) => Ok(None),
            _ => Err(call.failed(&ended)),
        }
    }

    /// Returns whether `commit` is `other` or an ancestor of it.
    pub fn is_ancestor(&self, commit: &CommitId, other: &CommitId) -> Result<bool, GitError> {
        if commit == other {
            return Ok(true);
        }
        self.call()
            .args(["merge-base", "--is-ancestor"])
            .args([commit.as_str(), other.as_str()])
            .yes()
    }

    /// Makes git ignore teamster's folders, and returns the patterns that had to be added.
    pub fn exclude_ours(&self) -> Result<Vec<&'static str>, GitError> {
        let inside = |name: &str| format!("{name}x");
        let call = self
            .call_in(&self.project)
            .args(["check-ignore", "--no-index", "--"])
            .args(OURS.map(inside));
        let ended = call.run()?;
        // Code 1: it ignores none of them.
        if !matches!(ended.status.code(), Some(0 | 1)) {
            return Err(call.failed(&ended));
        }
        let ignored = String::from_utf8_lossy(&ended.stdout);
        let mut missing = OURS.to_vec();
        missing.retain(|name| !ignored.lines().any(|line| line == inside(name)));
        self.exclude(&missing)?;
        Ok(missing)
    }

    /// Returns whether git ignores a path in a folder of a work tree.
    pub(crate) fn ignores(&self, folder: &Path, path: &str) -> Result<bool, GitError> {
        self.git
            .at(folder)
            .args(["check-ignore", "--quiet", "--no-index", "--"])
            .arg(path)
            .yes()
    }

    /// Returns whether git tracks a file at or below a path in a folder of a work tree.
    pub(crate) fn tracks(&self, folder: &Path, path: &str) -> Result<bool, GitError> {
        self.git
            .at(folder)
            .args(["ls-files", "--error-unmatch", "--"])
            .arg(path)
            .yes()
    }

    /// Adds lines to git's local, unshared ignore file (`info/exclude`).
    pub(crate) fn exclude(&self, lines: &[&str]) -> Result<(), GitError> {
        if lines.is_empty() {
            return Ok(());
        }
        if let Some(common) = Dir::open_root(&self.common)?
            && common.stamp("info")?.is_none()
        {
            common.shared_child_or_create("info")?;
        }
        let path = self.common.join("info").join(EXCLUDE);
        let busy = || {
            GitError::new(
                GitProblem::Busy,
                format!("other processes keep writing {}", path.display()),
                "try again in a moment",
            )
        };
        let file = UserFile::find(&path)?.ok_or_else(busy)?;
        let _held = file.lock(PATIENCE)?.ok_or_else(busy)?;
        file.sweep()?;
        for _ in 0..TRIES {
            let was = file.read()?;
            let old = was.as_ref().map(|was| was.bytes.as_slice());
            let new = teamster_fs::with_lines(old.unwrap_or_default(), HEADING, lines);
            if file.replace(was.as_ref(), &new, 0o666)? {
                return Ok(());
            }
        }
        Err(busy())
    }

    /// Returns a git command in the user's work tree.
    pub(crate) fn call(&self) -> GitCommand {
        self.git.at(&self.root)
    }

    /// Returns a git command in another folder.
    pub(crate) fn call_in(&self, folder: &Path) -> GitCommand {
        self.git.at(folder)
    }
}

fn no_repository(
    call: &GitCommand,
    ended: &crate::bounded::BoundedOutput,
    project: &Path,
) -> GitError {
    let said = String::from_utf8_lossy(&ended.stderr);
    if said.contains("not a git repository") {
        GitError::new(
            GitProblem::NotRepository,
            format!("{} is not in a git repository", project.display()),
            "`git init` creates one; workers need it to stay out of each other's way",
        )
    } else if said.contains("dubious ownership") {
        GitError::refused(
            format!(
                "git refuses {}: it belongs to another user",
                project.display()
            ),
            format!(
                "if you trust it: `git config --global --add safe.directory {}`",
                project.display()
            ),
        )
    } else {
        call.failed(ended)
    }
}

//! Sets up a worktree for use: folders of the main work tree, and commands such as `npm ci`.
//!
//! The caller decides whether any of it is allowed: the settings may come from the project. A folder is copied, so that
//! work in the worktree cannot change the main work tree; it is a link only if the user wants that.

use std::path::{Component, Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use teamster_fs::{CopyLimits, Dir, FileKind, FsError, FsProblem, copy_folder, remove_tree};
use teamster_types::denied;

use super::error::GitError;
use super::replacements::stored_objects;
use super::worktree::{Worktree, vanished};
use crate::OrTrace as _;
use crate::bounded;

/// The limit for the output of a command, in bytes.
const OUTPUT_LIMIT: u64 = 256 * 1024;
/// The maximum number of entries of a folder that is copied for every worktree.
const MOST_ENTRIES: u64 = 300_000;
const MOST_BYTES: u64 = 4 * 1024 * 1024 * 1024;
/// The name of a copy until it is complete.
const UNFINISHED: &str = ".teamster-copy";

/// The result of one command.
#[derive(Clone, Debug)]
pub struct SetupStep {
    /// The command, as the configuration has it.
    pub command: String,
    /// Its exit status.
    pub status: ExitStatus,
    /// Whether it was killed because the time limit was exceeded.
    pub timed_out: bool,
    /// Its standard output and standard error, truncated at 256 KiB each.
    pub output: String,
}

/// The result of setting up a worktree.
#[derive(Clone, Debug, Default)]
pub struct SetupReport {
    /// Folders that were copied or linked.
    pub linked: Vec<PathBuf>,
    /// The commands in order, up to the first that failed.
    pub steps: Vec<SetupStep>,
}

impl SetupReport {
    /// Returns the command that failed, if any: the worktree is then not usable.
    pub fn failed(&self) -> Option<&SetupStep> {
        self.steps
            .iter()
            .find(|step| step.timed_out || !step.status.success())
    }
}

impl Worktree {
    /// Copies the folders `links` of the project, or links to them if `writable`, then runs `commands` with `sh -c`,
    /// all within `patience` and without the environment variables `withheld`.
    pub fn set_up(
        &self,
        links: &[String],
        writable: bool,
        commands: &[String],
        patience: Duration,
        withheld: &[&str],
        stopped: &dyn Fn() -> bool,
    ) -> Result<SetupReport, GitError> {
        let deadline = Instant::now() + patience;
        let mut setup = SetupReport::default();
        for link in links {
            if self.link(link, writable, deadline)? {
                setup.linked.push(link.into());
            }
        }
        for command in commands {
            let step = self.run_step(command, deadline, withheld, stopped)?;
            setup.steps.push(step);
            if setup.failed().is_some() {
                break;
            }
        }
        let made = setup
            .linked
            .iter()
            .filter_map(|link| plain_names(link.to_str()?));
        let patterns: Vec<String> = made.map(|names| excluded(self, &names)).collect();
        self.record_rules_again(&patterns)?;
        Ok(setup)
    }

    fn run_step(
        &self,
        text: &str,
        deadline: Instant,
        withheld: &[&str],
        stopped: &dyn Fn() -> bool,
    ) -> Result<SetupStep, GitError> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", text]).current_dir(self.work_folder());
        for name in withheld {
            command.env_remove(name);
        }
        command.envs(stored_objects());
        let patience = deadline.saturating_duration_since(Instant::now());
        let ended = bounded::run_unless(command, patience, OUTPUT_LIMIT, stopped);
        let ended = ended.map_err(|error| {
            GitError::failed(
                format!(
                    "`{text}` could not be started in {}: {error}",
                    self.path.display()
                ),
                "look at `setup` in the project's configuration",
            )
        })?;
        let mut output = String::from_utf8_lossy(&ended.stdout).into_owned();
        output.push_str(&String::from_utf8_lossy(&ended.stderr));
        Ok(SetupStep {
            command: text.to_owned(),
            status: ended.status,
            timed_out: ended.timed_out,
            output,
        })
    }

    /// Puts a copy of a folder of the project, or a link to it, into the worktree; returns false when it already
    /// exists.
    fn link(&self, link: &str, writable: bool, deadline: Instant) -> Result<bool, GitError> {
        let refused = |why: &str| {
            GitError::refused(
                format!("`{link}` cannot be linked into a worktree: {why}"),
                "look at `worktree.link` in the configuration",
            )
        };
        let names = plain_names(link).ok_or_else(|| refused("name a folder inside the project"))?;
        let project = self.repo.project();
        let target = project.join(names.iter().collect::<PathBuf>());
        let real = target
            .canonicalize()
            .map_err(|_| refused("there is nothing of that name in the project"))?;
        if !real.starts_with(self.repo.root()) || real.starts_with(self.repo.common()) {
            return Err(refused("it leads out of the project"));
        }
        let inside_root = real.strip_prefix(self.repo.root()).unwrap_or(&real);
        let denied = denied::folder_pattern(Path::new(link));
        if denied.or(denied::folder_pattern(inside_root)).is_some() {
            return Err(refused("no agent may touch it"));
        }
        let folder = self.work_folder();
        if folder
            .canonicalize()
            .is_ok_and(|own| own.starts_with(&real))
        {
            return Err(refused("the worktree itself is in it"));
        }
        let mut dir = Dir::open_root(&folder)?.ok_or_else(|| vanished(&folder))?;
        let Some((last, above)) = names.split_last() else {
            return Err(refused("name a folder inside the project"));
        };
        for name in above {
            dir = dir.shared_child_or_create(name)?;
        }
        if let Some(stamp) = dir.stamp(last)? {
            let same = stamp.kind == FileKind::Link
                && dir
                    .join(last)
                    .canonicalize()
                    .is_ok_and(|there| there == real);
            let is_there = match stamp.kind {
                FileKind::Link => same && writable,
                // A copy made for an earlier worker of this worktree.
                FileKind::Folder => !self.repo.tracks(&folder, link)?,
                _ => false,
            };
            if is_there {
                return Ok(false);
            }
            if !same {
                return Err(refused("the worktree already has something of that name"));
            }
            dir.remove(last)?;
        }
        if writable {
            dir.make_link(last, &target)?;
        } else if !real.is_dir() {
            return Err(refused("it is not a folder"));
        } else {
            self.copy(&real, &dir, last, deadline)
                .map_err(|error| match error.problem {
                    FsProblem::TooMuch => GitError::refused(
                        format!("`{link}` is too large to be copied into every worktree"),
                        "make it with `worktree.setup`; or `worktree.link_writable = true` links it, and agents can then change it",
                    ),
                    _ => error.into(),
                })?;
        }
        // The pattern `node_modules/` does not match a link of that name, and the link must never be committed.
        if !self.repo.ignores(&folder, link)? {
            self.repo.exclude(&[&excluded(self, &names)])?;
        }
        Ok(true)
    }
}

/// Folders that an agent can use and change without changing the user's.
impl Worktree {
    /// Copies a folder to `name` in `dir`. An incomplete copy is started again, and is never visible under `name`.
    fn copy(&self, from: &Path, dir: &Dir, name: &str, deadline: Instant) -> Result<(), FsError> {
        dir.remove(UNFINISHED)
            .or_trace("remove the mark of an unfinished setup");
        remove_tree(dir, UNFINISHED)?;
        let relink = |folder: &Path, target: PathBuf| self.relink(folder, target);
        let limits = CopyLimits {
            entries: MOST_ENTRIES,
            bytes: MOST_BYTES,
            deadline,
        };
        let copied = copy_folder(from, &dir.join(UNFINISHED), &relink, limits);
        if let Err(error) = copied {
            remove_tree(dir, UNFINISHED)?;
            return Err(error);
        }
        dir.rename(UNFINISHED, dir, name)
    }

    /// Returns the target of a link in the copy. A link into the main work tree would lead back to the user's files, so
    /// it is redirected to the same place in the worktree; a link out of the main work tree stays as it is.
    fn relink(&self, folder: &Path, target: PathBuf) -> PathBuf {
        let root = self.repo.root();
        if stays_below(root, folder, &target) {
            return target;
        }
        let there = folder.join(&target);
        let real = there
            .canonicalize()
            .unwrap_or_else(|_| without_steps_up(&there));
        match real.strip_prefix(root) {
            Ok(inside) => self.path.join(inside),
            Err(_) if target.is_absolute() => target,
            Err(_) => real,
        }
    }
}

/// Returns the path with each `..` resolved by name only, for a path that does not exist.
fn without_steps_up(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut plain, part| {
        match part {
            Component::ParentDir => drop(plain.pop()),
            other => plain.push(other),
        }
        plain
    })
}

/// Returns whether a link in `folder` to `target` stays below `root` at every step.
fn stays_below(root: &Path, folder: &Path, target: &Path) -> bool {
    let Ok(inside) = folder.strip_prefix(root) else {
        return false;
    };
    let mut depth = inside.components().count();
    target.components().all(|part| match part {
        Component::Normal(_) => {
            depth += 1;
            true
        }
        Component::CurDir => true,
        Component::ParentDir if depth > 0 => {
            depth -= 1;
            true
        }
        _ => false,
    })
}

/// Returns the git ignore pattern for a linked folder.
fn excluded(worktree: &Worktree, names: &[&str]) -> String {
    format!("/{}", inside(worktree, names))
}

fn inside(worktree: &Worktree, names: &[&str]) -> String {
    let project = worktree.repo.project();
    let mut parts: Vec<String> = project
        .strip_prefix(worktree.repo.root())
        .unwrap_or(Path::new(""))
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    parts.extend(names.iter().map(|&name| name.to_owned()));
    parts.join("/")
}

/// Splits a path into its components, if all of them are plain names.
fn plain_names(link: &str) -> Option<Vec<&str>> {
    let names: Option<Vec<&str>> = Path::new(link)
        .components()
        .map(|part| match part {
            Component::Normal(name) => name.to_str().filter(|name| *name != ".git"),
            _ => None,
        })
        .collect();
    names.filter(|names| !names.is_empty())
}

//! Making a worktree usable: links to folders of the main tree, and commands such as `npm ci`.
//!
//! Whether the commands may run is for the caller to know: they come with the project.

use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use teamster_fs::{Dir, FileKind};

use super::error::GitError;
use super::replacements::stored_objects;
use super::worktree::{Worktree, vanished};
use crate::bounded;

/// How much of what a command prints is kept.
const OUTPUT_LIMIT: u64 = 256 * 1024;

/// What one command did.
#[derive(Clone, Debug)]
pub struct Step {
    /// The command, as the configuration has it.
    pub command: String,
    /// How it ended.
    pub status: ExitStatus,
    /// Whether it was ended because the time was up.
    pub timed_out: bool,
    /// What it printed and complained about, cut at 256 KiB each.
    pub output: String,
}

/// What was done to make a worktree usable.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// Links that were made.
    pub linked: Vec<PathBuf>,
    /// Commands, in their order, up to the first that failed.
    pub steps: Vec<Step>,
}

impl Setup {
    /// The command that failed, if one did: the worktree is then not usable.
    pub fn failed(&self) -> Option<&Step> {
        self.steps
            .iter()
            .find(|step| step.timed_out || !step.status.success())
    }
}

impl Worktree {
    /// Links `links` to the folders of that name in the project, then runs `commands` by `sh -c`, all within `patience`
    /// and without the variables `withheld`.
    pub fn set_up(
        &self,
        links: &[String],
        commands: &[String],
        patience: Duration,
        withheld: &[&str],
    ) -> Result<Setup, GitError> {
        let deadline = Instant::now() + patience;
        let mut setup = Setup::default();
        for link in links {
            if self.link(link)? {
                setup.linked.push(link.into());
            }
        }
        for command in commands {
            let step = self.run_step(command, deadline, withheld)?;
            setup.steps.push(step);
            if setup.failed().is_some() {
                break;
            }
        }
        Ok(setup)
    }

    fn run_step(&self, text: &str, deadline: Instant, withheld: &[&str]) -> Result<Step, GitError> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", text]).current_dir(self.work_folder());
        for (name, _) in std::env::vars_os() {
            let is_withheld = withheld.iter().any(|other| name == **other);
            if is_withheld || name.as_bytes().starts_with(b"GIT_") {
                command.env_remove(name);
            }
        }
        command.envs(stored_objects());
        let patience = deadline.saturating_duration_since(Instant::now());
        let ended = bounded::run(command, patience, OUTPUT_LIMIT).map_err(|error| {
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
        Ok(Step {
            command: text.to_owned(),
            status: ended.status,
            timed_out: ended.timed_out,
            output,
        })
    }

    /// Puts a link where the project has a folder; false when it is there already.
    fn link(&self, link: &str) -> Result<bool, GitError> {
        let refused = |why: &str| {
            GitError::refused(
                format!("`{link}` cannot be linked into a worktree: {why}"),
                "look at `link` in the project's configuration",
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
        let folder = self.work_folder();
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
            return if same {
                Ok(false)
            } else {
                Err(refused("the worktree has something of that name already"))
            };
        }
        dir.make_link(last, &target)?;
        // `node_modules/` does not match a link of that name, and the link must never be committed.
        if !self.repo.ignores(&folder, link)? {
            let pattern = format!("/{}", inside(self, &names));
            self.repo.exclude(&[&pattern])?;
        }
        Ok(true)
    }
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

/// The names on the way, if all of them are plain.
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

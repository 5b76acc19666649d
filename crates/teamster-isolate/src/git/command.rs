//! The only way in which teamster calls git.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::error::{GitError, GitProblem};
use super::names::CommitId;
use super::registered::UNREADABLE;
use super::replacements::{stored_objects, stored_settings};
use crate::bounded::{self, BoundedOutput};
use crate::find_program;

/// Settings that override those of the user and the repository. The first ones keep git from running other programs,
/// signing, maintenance in the background and recursion into submodules. The others keep it from changing the output of
/// a diff or a list, and from refusing a valid commit or merge. Settings that determine the content of files, such as
/// `core.autocrlf` or filters, stay the user's.
const SETTINGS: [&str; 25] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "commit.gpgSign=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    "advice.addEmbeddedRepo=false",
    "core.abbrev=auto",
    "core.quotePath=true",
    "core.safecrlf=false",
    "diff.context=3",
    "diff.dstPrefix=b/",
    "diff.ignoreSubmodules=none",
    "diff.interHunkContext=0",
    "diff.mnemonicPrefix=false",
    "diff.noprefix=false",
    "diff.orderFile=/dev/null",
    "diff.relative=false",
    "diff.srcPrefix=a/",
    "diff.submodule=short",
    "diff.suppressBlankEmpty=false",
    "i18n.commitEncoding=UTF-8",
    "log.showRoot=true",
    "merge.ff=true",
    "merge.verifySignatures=false",
];
/// The timeout of a git command. A checkout of a large repository takes minutes.
const PATIENCE: Duration = Duration::from_secs(600);
/// The limit for git's output, in bytes; lists of changed files can be long.
const OUTPUT_LIMIT: u64 = 64 * 1024 * 1024;
/// How long to wait for another git process that holds a lock of the repository.
const CONTENTION: Duration = Duration::from_secs(15);
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);
/// How many lines of git's message are repeated in an error.
const SAID_LINES: usize = 5;
/// The oldest supported version of git, which introduced `merge-tree --write-tree`.
const OLDEST: (u32, u32) = (2, 38);

/// The git program.
#[derive(Clone, Debug)]
pub struct Git {
    program: PathBuf,
    env: Vec<(&'static str, OsString)>,
}

impl Git {
    /// Finds git in the folders of `path`, a list like `PATH`.
    pub fn find(path: &OsStr) -> Result<Self, GitError> {
        let hint = "install git 2.38 or newer; without it workers cannot have worktrees";
        let program = find_program("git", path)
            .ok_or_else(|| GitError::new(GitProblem::NoProgram, "there is no git on PATH", hint))?;
        let git = Self {
            program,
            env: Vec::new(),
        };
        let said = git.at(Path::new("/")).arg("version").text()?;
        match version(&said) {
            Some(found) if found >= OLDEST => Ok(git),
            _ => Err(GitError::new(
                GitProblem::NoProgram,
                format!("{} is too old: it says {said:?}", git.program.display()),
                hint,
            )),
        }
    }

    /// Overrides an environment variable, such as `HOME`, where the user's git settings are.
    #[must_use]
    pub fn with_env(mut self, name: &'static str, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name, value.as_ref().to_owned()));
        self
    }

    /// Returns a new command to be run in a folder.
    pub(crate) fn at(&self, folder: &Path) -> GitCommand {
        GitCommand {
            program: self.program.clone(),
            folder: folder.to_owned(),
            args: Vec::new(),
            env: self.env.clone(),
            settings: Vec::new(),
        }
    }
}

fn version(said: &str) -> Option<(u32, u32)> {
    let number = said.strip_prefix("git version ")?;
    let mut parts = number.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// A git command that has not been run yet.
#[derive(Clone, Debug)]
pub(crate) struct GitCommand {
    program: PathBuf,
    folder: PathBuf,
    args: Vec<OsString>,
    env: Vec<(&'static str, OsString)>,
    settings: Vec<GitSetting>,
}

/// A git setting: its name and its value.
pub(super) type GitSetting = (OsString, OsString);

impl GitCommand {
    /// Adds an argument.
    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    pub(crate) fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args
            .extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets an environment variable.
    pub(crate) fn env(mut self, name: &'static str, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name, value.as_ref().to_owned()));
        self
    }

    /// Adds settings, which override those of any file. Unlike with `-c`, a name may contain `=`.
    pub(super) fn settings(mut self, settings: impl IntoIterator<Item = GitSetting>) -> Self {
        self.settings.extend(settings);
        self
    }

    /// Returns its output; any exit code but 0 is an error.
    pub(crate) fn bytes(self) -> Result<Vec<u8>, GitError> {
        let ended = self.run()?;
        if ended.status.success() {
            Ok(ended.stdout)
        } else {
            Err(self.failed(&ended))
        }
    }

    /// Runs it; any exit code but 0 is an error.
    pub(crate) fn done(self) -> Result<(), GitError> {
        self.bytes().map(drop)
    }

    /// Returns its output without the final newline.
    pub(crate) fn text(self) -> Result<String, GitError> {
        Ok(String::from_utf8_lossy(&self.line()?).into_owned())
    }

    /// Returns its output as a path, with its bytes unchanged.
    pub(crate) fn path(self) -> Result<PathBuf, GitError> {
        Ok(OsString::from_vec(self.line()?).into())
    }

    fn line(self) -> Result<Vec<u8>, GitError> {
        let mut bytes = self.bytes()?;
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
        }
        Ok(bytes)
    }

    /// Returns its output as a commit id.
    pub(crate) fn commit(self) -> Result<CommitId, GitError> {
        let folder = self.folder.clone();
        let text = self.text()?;
        text.parse()
            .map_err(|_| GitError::unexpected_output("a commit", &folder))
    }

    /// Returns its output as a commit id; `None` when it exits with code 1.
    pub(crate) fn commit_if_any(self) -> Result<Option<CommitId>, GitError> {
        let ended = self.run()?;
        match ended.status.code() {
            Some(0) => String::from_utf8_lossy(&ended.stdout)
                .trim_end()
                .parse()
                .map(Some)
                .map_err(|_| GitError::unexpected_output("a commit", &self.folder)),
            Some(1) => Ok(None),
            _ => Err(self.failed(&ended)),
        }
    }

    /// Runs a command that answers yes with exit code 0 and no with 1.
    pub(crate) fn yes(self) -> Result<bool, GitError> {
        let ended = self.run()?;
        match ended.status.code() {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            _ => Err(self.failed(&ended)),
        }
    }

    /// Runs it and returns the result, whatever its exit code. If another git process holds a lock, it is retried.
    pub(crate) fn run(&self) -> Result<BoundedOutput, GitError> {
        let start = Instant::now();
        let mut pause = FIRST_PAUSE;
        loop {
            let ended = self.run_once()?;
            if ended.status.success() || !is_contention(&ended.stderr) {
                return Ok(ended);
            }
            if start.elapsed() >= CONTENTION {
                return Err(GitError::new(
                    GitProblem::Busy,
                    self.words(&ended),
                    "another git is running in this repository, or one was killed and left the \
                     lock file named above: if no git is running, remove that file and try again",
                ));
            }
            thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Runs it like [`Self::run`], without a retry.
    pub(crate) fn run_once(&self) -> Result<BoundedOutput, GitError> {
        let start = Instant::now();
        let ended = bounded::run(self.command(), PATIENCE, OUTPUT_LIMIT);
        tracing::debug!(
            folder = %self.folder.display(),
            code = ended.as_ref().ok().and_then(|ended| ended.status.code()),
            ms = start.elapsed().as_millis(),
            "{}",
            self.shown()
        );
        let ended = ended.map_err(|error| {
            GitError::failed(
                format!("{} could not be started: {error}", self.shown()),
                format!(
                    "check that {} is a folder you can enter",
                    self.folder.display()
                ),
            )
        })?;
        if ended.timed_out {
            return Err(GitError::new(
                GitProblem::TimedOut,
                format!(
                    "{} did not finish within {} s and was stopped",
                    self.shown(),
                    PATIENCE.as_secs()
                ),
                format!("try it yourself in {}", self.folder.display()),
            ));
        }
        if ended.cut {
            return Err(GitError::failed(
                format!(
                    "{} printed more than {} MiB",
                    self.shown(),
                    OUTPUT_LIMIT >> 20
                ),
                "are there files in the worktree that git should ignore?",
            ));
        }
        Ok(ended)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(&self.folder).arg("--no-pager");
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        command
            .args(&self.args)
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_EDITOR", ":")
            // Read-only commands must not write: `status` would refresh an index that another process uses.
            .env("GIT_OPTIONAL_LOCKS", "0")
            .envs(stored_objects())
            .env("LC_ALL", "C")
            .env_remove("LANGUAGE");
        for (name, value) in &self.env {
            command.env(name, value);
        }
        if !self.settings.is_empty() {
            let settings = stored_settings().chain(self.settings.iter().cloned());
            for (number, (name, value)) in settings.enumerate() {
                command
                    .env(format!("GIT_CONFIG_KEY_{number}"), name)
                    .env(format!("GIT_CONFIG_VALUE_{number}"), value)
                    .env("GIT_CONFIG_COUNT", (number + 1).to_string());
            }
        }
        command
    }

    /// Returns the error for a failed command.
    pub(crate) fn failed(&self, ended: &BoundedOutput) -> GitError {
        let said = String::from_utf8_lossy(&ended.stderr);
        let free = teamster_fs::free_bytes(&self.folder);
        let has_less = |room: u64| free.is_some_and(|free| free < room);
        // git does not always mention the full disk: a checkout only reports that it could not write a file. By now git
        // has removed the incomplete worktree, so some space may be free again.
        let is_full = FULL_DISK.iter().any(|words| said.contains(words))
            || has_less(teamster_fs::LEAST_ROOM)
            || (said.contains(UNWRITTEN) && has_less(ROOM_FOR_FILES));
        if is_full {
            return GitError::new(
                GitProblem::NoRoom,
                format!(
                    "the disk of {} is full: {}",
                    self.folder.display(),
                    self.words(ended)
                ),
                "make room there",
            );
        }
        GitError::failed(
            self.words(ended),
            format!("run it yourself in {} to see more", self.folder.display()),
        )
    }

    fn words(&self, ended: &BoundedOutput) -> String {
        let how = match ended.status.code() {
            Some(code) => format!("ended with exit code {code}"),
            None => "was killed".to_owned(),
        };
        let mut text = format!("{} {how}", self.shown());
        let said = String::from_utf8_lossy(&ended.stderr);
        let lines: Vec<&str> = said
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        for (number, line) in lines.iter().take(SAID_LINES).enumerate() {
            let before = if number == 0 { ": " } else { "; " };
            let _ = write!(text, "{before}{line}");
        }
        text
    }

    fn shown(&self) -> String {
        let mut text = "`git".to_owned();
        let mut args = self.args.iter();
        while let Some(arg) = args.next() {
            // Settings for one call are long, and say nothing about its purpose.
            if arg == "-c" {
                args.next();
            } else {
                let _ = write!(text, " {}", arg.to_string_lossy());
            }
        }
        text.push('`');
        text
    }
}

/// The part of git's message about a file that it could not write, for any reason.
const UNWRITTEN: &str = "unable to write file";
/// The free space below which a failed write is attributed to a full disk.
const ROOM_FOR_FILES: u64 = 1024 * 1024;

/// The parts of messages about a full disk or an exceeded quota.
const FULL_DISK: [&str; 3] = [
    "No space left on device",
    "Out of diskspace",
    "Disk quota exceeded",
];

/// Returns whether git failed because another git process currently holds a lock.
fn is_contention(stderr: &[u8]) -> bool {
    let said = String::from_utf8_lossy(stderr);
    let locked = said.contains(".lock': File exists")
        || (said.contains("cannot lock ref") && said.contains("File exists"))
        || (said.contains("could not lock config file") && said.contains("File exists"));
    // Two processes created the same folder at once, and one of them failed.
    let racing = said.contains("could not create directory of")
        || said.contains("could not create leading directories");
    // Another git process is still creating a worktree.
    let begun = said.contains("failed to read") && said.contains(UNREADABLE);
    locked || begun || (racing && said.contains("File exists"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_however_it_is_decorated() {
        assert_eq!(version("git version 2.47.3"), Some((2, 47)));
        assert_eq!(version("git version 2.39.5 (Apple Git-154)"), Some((2, 39)));
        assert_eq!(version("git version 2.45.rc1"), Some((2, 45)));
        assert_eq!(version("hub version 2"), None);
    }

    #[test]
    fn without_git_on_the_path_that_is_said() {
        let error = Git::find(OsStr::new("/nowhere")).unwrap_err();
        assert_eq!(error.problem, GitProblem::NoProgram);
        assert!(error.hint.contains("install git"), "{error:?}");
    }
}

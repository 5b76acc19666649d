//! The product as the checks see it: the release binary, a fresh home, and the same store through the library.

use std::ffi::OsStr;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use teamster_fs::Sync;
use teamster_fs::layout::Layout;
use teamster_store::{FileStore, Settings, SystemClock};

/// The team that every check works with.
pub(crate) const TEAM: &str = "evidence";

/// The folder of the workspace.
pub(crate) fn workspace() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_owned()
}

/// Where cargo puts what it builds.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| workspace().join("target"), |dir| workspace().join(dir))
}

/// `cargo` with these words, in the workspace.
pub(crate) fn cargo<S: AsRef<OsStr>>(words: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(words).current_dir(workspace());
    command
}

/// Runs a command to its end; an error unless it succeeds.
pub(crate) fn must(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("cannot start {command:?}"))?;
    if !status.success() {
        bail!("{command:?} ended with {status}");
    }
    Ok(())
}

/// The release binary, in a copy of its own: a run judges one binary, whatever is built meanwhile.
#[derive(Debug)]
pub(crate) struct Product {
    pub(crate) binary: PathBuf,
}

impl Product {
    /// Builds it.
    pub(crate) fn build() -> Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        must(&mut cargo([
            "build",
            "--quiet",
            "--release",
            "--package",
            "teamster",
        ]))?;
        let built = target().join("release").join("teamster");
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = target().join("xtask");
        std::fs::create_dir_all(&folder)?;
        let binary = folder.join(format!("teamster-{}-{number}", std::process::id()));
        std::fs::copy(&built, &binary)
            .with_context(|| format!("there is no {} after the build", built.display()))?;
        Ok(Self { binary })
    }

    /// A call of the binary in a place, not started yet.
    pub(crate) fn command<S: AsRef<OsStr>>(
        &self,
        place: &Place,
        words: impl IntoIterator<Item = S>,
    ) -> Command {
        let mut command = Command::new(&self.binary);
        command.args(words);
        place.dress(&mut command);
        command
    }

    /// A call of the binary, with its end.
    pub(crate) fn call<S: AsRef<OsStr>>(
        &self,
        place: &Place,
        words: impl IntoIterator<Item = S>,
    ) -> Result<Answer> {
        Answer::of(&mut self.command(place, words))
    }
}

impl Drop for Product {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.binary);
    }
}

/// Builds xtask as the product is built, for work that goes through the library.
pub(crate) fn build_workloads() -> Result<PathBuf> {
    must(&mut cargo([
        "build",
        "--quiet",
        "--release",
        "--package",
        "xtask",
    ]))?;
    Ok(target().join("release").join("xtask"))
}

/// How a call ended.
#[derive(Debug)]
pub(crate) struct Answer {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
    pub took: Duration,
}

impl Answer {
    /// Runs a command and takes what it says.
    pub(crate) fn of(command: &mut Command) -> Result<Self> {
        Self::reading(command, Stdio::null())
    }

    /// The same of a command that reads something.
    pub(crate) fn reading(command: &mut Command, input: Stdio) -> Result<Self> {
        let start = Instant::now();
        let Output {
            status,
            stdout,
            stderr,
        } = command
            .stdin(input)
            .output()
            .with_context(|| format!("cannot start {command:?}"))?;
        Ok(Self {
            status,
            stdout: String::from_utf8_lossy(&stdout).into_owned(),
            stderr: String::from_utf8_lossy(&stderr).into_owned(),
            took: start.elapsed(),
        })
    }

    /// Its exit code; `None` when a signal ended it.
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// The signal that ended it.
    pub(crate) fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// Its answer as JSON; `None` when there is none, or only a part of one.
    pub(crate) fn json(&self) -> Option<Value> {
        serde_json::from_str(self.stdout.trim()).ok()
    }

    /// Code, signal and errors in one line, for reports.
    pub(crate) fn said(&self) -> String {
        let end = match (self.code(), self.signal()) {
            (Some(code), _) => format!("exit {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "unknown end".to_owned(),
        };
        let error = self.stderr.trim();
        if error.is_empty() {
            end
        } else {
            format!("{end}, {error:?}")
        }
    }
}

/// A home and a project of their own, removed at the end.
#[derive(Debug)]
pub(crate) struct Place {
    root: PathBuf,
}

impl Place {
    /// A place in the system's folder for temporary files.
    pub(crate) fn temporary() -> Result<Self> {
        Self::below(&std::env::temp_dir())
    }

    /// A place in memory where the machine has one, for what is not about the disk.
    pub(crate) fn in_memory() -> Result<Self> {
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() {
            memory.to_owned()
        } else {
            std::env::temp_dir()
        };
        Self::below(&parent)
    }

    /// A place on the disk that holds the build, for measuring writes.
    pub(crate) fn on_disk() -> Result<Self> {
        Self::below(&target().join("bench"))
    }

    fn below(parent: &Path) -> Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let root = parent.join(format!("teamster-xtask-{}-{number}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        for folder in ["home/.claude", "project/.git"] {
            std::fs::create_dir_all(root.join(folder))
                .with_context(|| format!("cannot make {}", root.display()))?;
        }
        Ok(Self { root })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    pub(crate) fn claude(&self) -> PathBuf {
        self.home().join(".claude")
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.root.join("project")
    }

    /// The folder of the team's tasks.
    pub(crate) fn tasks(&self) -> PathBuf {
        self.claude().join("tasks").join(TEAM)
    }

    /// The team's own folder.
    pub(crate) fn team(&self) -> PathBuf {
        self.claude().join("teams").join(TEAM)
    }

    /// Gives a command this place and nothing else of ours.
    pub(crate) fn dress(&self, command: &mut Command) {
        command
            .env_clear()
            .env("HOME", self.home())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("TEAMSTER_TEAM", TEAM)
            .current_dir(self.project());
    }

    /// The store of this place through the library.
    pub(crate) fn store(&self, sync: Sync) -> Result<FileStore> {
        open_store(&self.claude(), &self.project(), sync)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

/// A store at these folders.
pub(crate) fn open_store(claude: &Path, project: &Path, sync: Sync) -> Result<FileStore> {
    let layout = Layout {
        claude: claude.to_owned(),
        project: project.to_owned(),
        user_config: claude.join("none.toml"),
        project_config: project.join("none.toml"),
    };
    let settings = Settings {
        sync,
        patience: Duration::from_secs(60),
        ..Settings::default()
    };
    Ok(FileStore::open(&layout, Arc::new(SystemClock), settings)?)
}

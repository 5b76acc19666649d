//! The release binary, the commands that run it, and a temporary home and project for it to work in.

use std::ffi::OsStr;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use teamster_fs::Durability;
use teamster_store::FileStore;
use teamster_testkit::wait::poll;
pub(crate) use workload::TEAM;

/// Adds a difference to a list unless a condition holds.
macro_rules! check {
    ($found:expr, $holds:expr => $($otherwise:tt)+) => {
        if !$holds {
            $found.push(format!($($otherwise)+));
        }
    };
}
pub(crate) use check;

/// Returns the folder of the workspace.
pub(crate) fn workspace() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_owned()
}

/// Returns the folder that cargo builds into.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| workspace().join("target"), |dir| workspace().join(dir))
}

/// Returns a `cargo` command with these words, separated by spaces, in the workspace.
pub(crate) fn cargo(line: &str) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(words(line)).current_dir(workspace());
    command
}

/// Splits a command line at its spaces.
pub(crate) fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// Runs a command whose output the user sees; an error unless it succeeds.
pub(crate) fn must(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("cannot start {command:?}"))?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}

/// Returns the elements of a JSON array; none for any other value.
pub(crate) fn list(value: &Value) -> impl Iterator<Item = &Value> + Clone {
    value.as_array().into_iter().flatten()
}

/// Returns a JSON string; empty for any other value.
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns the head of a Markdown table with these columns, separated by `|`.
pub(crate) fn table_head(columns: &str) -> String {
    let rule = "---|".repeat(columns.split('|').count());
    format!("| {columns} |\n|{rule}")
}

/// Returns a row of such a table in one line for a terminal, each cell after the name of its column.
pub(crate) fn table_line(columns: &str, cells: &[String]) -> String {
    let cells = columns.split(" | ").zip(cells);
    let cells: Vec<String> = cells
        .map(|(column, cell)| format!("{column} {cell}"))
        .collect();
    cells.join(", ")
}

/// Returns the sorted names in a folder, none if it does not exist. An entry that cannot be read is named by its error,
/// so that it counts as found.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => return vec![format!("unreadable: {error}")],
    };
    let mut names: Vec<String> = entries
        .map(|entry| match entry {
            Ok(entry) => entry.file_name().to_string_lossy().into_owned(),
            Err(error) => format!("unreadable: {error}"),
        })
        .collect();
    names.sort_unstable();
    names
}

/// Returns the sorted files at and below these names.
pub(crate) fn files(root: &Path, names: &[&str]) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut left: Vec<PathBuf> = names.iter().map(|name| root.join(name)).collect();
    while let Some(path) = left.pop() {
        if path.is_dir() {
            for entry in std::fs::read_dir(&path)? {
                left.push(entry?.path());
            }
        } else {
            let name = path.strip_prefix(root)?;
            found.push(name.to_string_lossy().into_owned());
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the first file of this name on the PATH.
pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// Returns the PATH with another folder in front.
pub(crate) fn path_with(folder: &Path) -> Result<std::ffi::OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(folder.to_owned()).chain(std::env::split_paths(&path));
    Ok(std::env::join_paths(folders)?)
}

/// Returns the time since 1970.
pub(crate) fn unix_time() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default()
}

/// Waits until `find` returns something; an error after `limit`.
pub(crate) fn wait_for<T>(
    what: &str,
    limit: Duration,
    mut find: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let found = poll(limit, || find().transpose());
    found.unwrap_or_else(|| bail!("waited {} s in vain: {what}", limit.as_secs()))
}

/// Waits until a condition holds; an error after `limit`.
pub(crate) fn wait_until(
    what: &str,
    limit: Duration,
    mut holds: impl FnMut() -> Result<bool>,
) -> Result<()> {
    wait_for(what, limit, || Ok(holds()?.then_some(())))
}

/// Returns whether a name was selected, or everything was.
pub(crate) fn is_wanted(name: &str, only: &[String]) -> bool {
    only.is_empty() || only.iter().any(|wanted| wanted == name)
}

/// Fails unless every name is known.
pub(crate) fn check_names(kind: &str, only: &[String], known: &[&str]) -> Result<()> {
    match only.iter().find(|name| !known.contains(&name.as_str())) {
        Some(unknown) => bail!(
            "there is no {kind} {unknown}; there are {}",
            known.join(", ")
        ),
        None => Ok(()),
    }
}

/// Returns a number that is unique in this process.
fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Copies a program that was built, so that a build during the run does not replace it. Programs that are compared must
/// all be made in the same way: how a file lies in the page cache changes how long a program takes to start.
pub(crate) fn copy_program(built: &Path) -> Result<PathBuf> {
    let folder = target().join("xtask");
    std::fs::create_dir_all(&folder)?;
    let name = built.file_name().unwrap_or_default().display();
    let copy = folder.join(format!("{name}-{}-{}", std::process::id(), next_number()));
    std::fs::copy(built, &copy)
        .with_context(|| format!("there is no {} after the build", built.display()))?;
    Ok(copy)
}

/// A copy of the release binary.
#[derive(Debug)]
pub(crate) struct Product {
    pub(crate) binary: PathBuf,
}

impl Product {
    /// Builds the release binary and copies it. `TEAMSTER_BINARY` names another one, for testing a change without the
    /// build.
    pub(crate) fn build() -> Result<Self> {
        let built = if let Some(built) = std::env::var_os("TEAMSTER_BINARY") {
            PathBuf::from(built)
        } else {
            must(&mut cargo("build --quiet --release --package teamster"))?;
            target().join("release/teamster")
        };
        let binary = copy_program(&built)?;
        Ok(Self { binary })
    }

    /// Returns a call of the binary in a project, not started yet.
    pub(crate) fn command<S: AsRef<OsStr>>(
        &self,
        project: &TempProject,
        words: impl IntoIterator<Item = S>,
    ) -> Command {
        let mut command = Command::new(&self.binary);
        command.args(words);
        project.enter(&mut command);
        command
    }

    /// Calls the binary with a command line and waits until it ends.
    pub(crate) fn call(&self, project: &TempProject, line: &str) -> Result<Finished> {
        Finished::of(&mut self.command(project, words(line)))
    }
}

impl Drop for Product {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.binary);
    }
}

/// Builds the workloads, which use the library, like the product.
pub(crate) fn build_workloads() -> Result<PathBuf> {
    must(&mut cargo("build --quiet --release --package workload"))?;
    Ok(target().join("release/workload"))
}

/// A process that has ended, with its output.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) took: Duration,
}

impl Finished {
    /// Runs a command without input.
    pub(crate) fn of(command: &mut Command) -> Result<Self> {
        Self::reading(command, Stdio::null())
    }

    /// Runs a command without input; an error unless it succeeds.
    pub(crate) fn checked(command: &mut Command) -> Result<Self> {
        let finished = Self::of(command)?;
        let is_good = finished.success();
        ensure!(is_good, "{command:?} failed: {}", finished.describe());
        Ok(finished)
    }

    /// Runs a command with this input.
    pub(crate) fn reading(command: &mut Command, input: Stdio) -> Result<Self> {
        let start = Instant::now();
        let output = command
            .stdin(input)
            .output()
            .with_context(|| format!("cannot start {command:?}"))?;
        Ok(Self {
            status: output.status,
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            took: start.elapsed(),
        })
    }

    pub(crate) fn success(&self) -> bool {
        self.status.success()
    }

    /// Returns the exit code, or `None` when a signal ended the process.
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Returns the signal that ended the process.
    pub(crate) fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// Returns the output as JSON, or `None` when it is not a complete value.
    pub(crate) fn json(&self) -> Option<Value> {
        serde_json::from_str(self.stdout.trim()).ok()
    }

    /// Returns exit code or signal and the error output in one line.
    pub(crate) fn describe(&self) -> String {
        let end = match self.code() {
            Some(code) => format!("exit {code}"),
            None => format!("signal {}", self.signal().unwrap_or_default()),
        };
        match self.stderr.trim() {
            "" => end,
            error => format!("{end}, {error:?}"),
        }
    }
}

/// A temporary folder with a home and a project, removed on drop.
#[derive(Debug)]
pub(crate) struct TempProject {
    root: PathBuf,
    /// The URL of the database with its teams, if they are in one.
    database: Option<String>,
}

impl TempProject {
    /// Makes one in the system's temporary folder.
    pub(crate) fn new() -> Result<Self> {
        Self::below(&std::env::temp_dir())
    }

    /// Makes one in memory where the machine has such a file system, for checks that do not depend on the disk.
    pub(crate) fn in_memory() -> Result<Self> {
        match Path::new("/dev/shm") {
            memory if memory.is_dir() => Self::below(memory),
            _ => Self::new(),
        }
    }

    /// Makes one on the disk that holds the build, for measuring writes.
    pub(crate) fn on_disk() -> Result<Self> {
        Self::below(&target().join("bench"))
    }

    fn below(parent: &Path) -> Result<Self> {
        let name = format!("teamster-xtask-{}-{}", std::process::id(), next_number());
        let root = parent.join(name);
        let _ = std::fs::remove_dir_all(&root);
        for folder in ["home/.claude", "project/.git"] {
            std::fs::create_dir_all(root.join(folder))
                .with_context(|| format!("cannot make {}", root.display()))?;
        }
        Ok(Self {
            root,
            database: None,
        })
    }

    /// Keeps the teams of this project in a database.
    pub(crate) fn with_database(mut self, url: &str) -> Self {
        self.database = Some(url.to_owned());
        self
    }

    /// Returns the name of the database with its teams.
    pub(crate) fn database_name(&self) -> Option<&str> {
        self.database.as_ref()?.rsplit('/').next()
    }

    /// Keeps the folder on drop, so that it can be inspected.
    pub(crate) fn keep(self) -> PathBuf {
        let root = self.root.clone();
        std::mem::forget(self);
        root
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

    pub(crate) fn folder(&self) -> PathBuf {
        self.root.join("project")
    }

    /// Returns the folder of the team's tasks.
    pub(crate) fn tasks(&self) -> PathBuf {
        self.claude().join("tasks").join(TEAM)
    }

    /// Returns the folder of the team itself.
    pub(crate) fn team(&self) -> PathBuf {
        self.claude().join("teams").join(TEAM)
    }

    /// Makes a command run in this project with its home, and with no other variable of the caller than PATH.
    pub(crate) fn enter(&self, command: &mut Command) {
        command
            .env_clear()
            .env("HOME", self.home())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("TEAMSTER_TEAM", TEAM)
            .current_dir(self.folder());
        if let Some(url) = &self.database {
            command.env(workload::STORE, url);
        }
    }

    /// Opens the store of this project through the library.
    pub(crate) fn store(&self, sync: Durability) -> Result<FileStore> {
        workload::open_store(&self.claude(), &self.folder(), sync)
    }
}

impl Drop for TempProject {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

//! A separate project and home for each test, and the real binary in them.

mod follower;
mod ran;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;

use serde_json::{Value, json};
use teamster_fs::layout::Layout;
use teamster_fs::proc::Machine;
use teamster_store::{Clock, FileStore, FileStoreSettings, SystemClock};
use teamster_testkit::ManualClock;
use teamster_types::Time;
use teamster_types::process::ProcessId;

pub use follower::Follower;
pub use ran::Ran;

static COUNT: AtomicU32 = AtomicU32::new(0);

/// Lets SIGINT end whatever the tests start, even if their parent ignores it, as under `nohup … &`.
///
/// A child process inherits an ignored signal, but not a handler.
fn restore_interrupt() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let always = Arc::new(AtomicBool::new(true));
        signal_hook::flag::register_conditional_default(signal_hook::consts::SIGINT, always)
            .unwrap();
    });
}

/// Skips a test that cannot run on this machine, and fails it where skipping is not allowed.
#[track_caller]
pub fn skip(why: &str) {
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    teamster_testkit::skip(&format!("{test}: {why}")).unwrap();
}

/// A home and a project for one test. Both are removed on drop.
pub struct TestProject {
    root: PathBuf,
}

impl TestProject {
    /// Makes an empty home and an empty project.
    pub fn new() -> Self {
        restore_interrupt();
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("teamster-test-{}-{number}", std::process::id());
        let root = std::env::temp_dir().canonicalize().unwrap().join(name);
        let project = Self { root };
        std::fs::create_dir_all(project.home()).unwrap();
        // This makes the folder a project; git itself is not needed for that.
        std::fs::create_dir_all(project.folder().join(".git")).unwrap();
        project
    }

    /// Makes the same with the team `fix-auth` of worker-1 and worker-2.
    pub fn with_team() -> Self {
        let project = Self::new();
        project
            .run([
                "team",
                "create",
                "fix-auth",
                "--members",
                "worker-1,worker-2",
            ])
            .succeeds();
        project
    }

    pub fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    pub fn folder(&self) -> PathBuf {
        self.root.join("project")
    }

    /// Returns the id of a session that no other test uses. Any process on this machine that was started for a session
    /// is a sign that it is alive.
    pub fn session(&self) -> String {
        format!("lead-of-{}", self.root.file_name().unwrap().display())
    }

    /// Returns the path of a file below the Claude folder.
    pub fn claude(&self, path: &str) -> PathBuf {
        self.home().join(".claude").join(path)
    }

    /// Reads a file below the Claude folder.
    pub fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.claude(path)).unwrap()
    }

    /// Writes a file into the project.
    pub fn write(&self, path: &str, content: &str) {
        let path = self.folder().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// Calls `teamster` in the project and waits until it ends.
    pub fn run<I: IntoIterator<Item: AsRef<OsStr>>>(&self, args: I) -> Ran {
        self.call(args).run()
    }

    /// Prepares a call of `teamster` that can still be changed.
    pub fn call<I: IntoIterator<Item: AsRef<OsStr>>>(&self, args: I) -> Call {
        let mut command = self.command(env!("CARGO_BIN_EXE_teamster"));
        command.args(args);
        Call {
            command,
            root: self.root.clone(),
        }
    }

    /// Prepares a shell command in which `teamster` is the real binary.
    pub fn shell(&self, line: &str) -> Call {
        let mut command = self.command("/bin/sh");
        command.args(["-c", line]);
        Call {
            command,
            root: self.root.clone(),
        }
    }

    /// Prepares a command with a clean environment: a developer's variables must not affect a test.
    fn command(&self, program: &str) -> Command {
        let binary = Path::new(env!("CARGO_BIN_EXE_teamster"));
        let path = format!(
            "{}:/usr/local/bin:/usr/bin:/bin",
            binary.parent().unwrap().display()
        );
        let mut command = Command::new(program);
        command
            .current_dir(self.folder())
            .env_clear()
            .env("HOME", self.home())
            .env("PATH", path)
            .env("TMPDIR", &self.root)
            .stdin(Stdio::null());
        command
    }

    /// Creates a task and returns its id.
    pub fn task(&self, subject: &str, more: &[&str]) -> String {
        let args = ["task", "create", "--subject", subject];
        let ran = self.run(args.iter().chain(more)).succeeds();
        ran.stdout.trim().to_owned()
    }

    /// Claims a given task for a worker and returns the token.
    pub fn claim(&self, worker: &str, id: &str) -> String {
        let ran = self
            .run(["task", "claim", "--worker", worker, id, "--json"])
            .succeeds();
        ran.json()["token"].as_str().unwrap().to_owned()
    }

    /// Writes a worker's heartbeat like its bridge, `age` ago.
    pub fn beat(&self, worker: &str, age: Duration, process: &ProcessId, more: &Value) {
        let at = Time::from_millis(now().as_millis() - i64::try_from(age.as_millis()).unwrap());
        let mut beat = json!({
            "workerName": worker, "teamName": "fix-auth", "provider": "codex",
            "pid": process.pid, "lastPollAt": at, "currentTaskId": null, "consecutiveErrors": 0,
            "status": "polling", "processStartTime": process.process_start_time,
            "bootId": process.boot_id, "host": process.host, "lastEventAt": at,
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            beat[key.as_str()] = value.clone();
        }
        self.write(
            &format!(".omc/state/team-bridge/fix-auth/{worker}.heartbeat.json"),
            &beat.to_string(),
        );
    }

    /// Opens the store that the binary uses, with a clock that is `ago` behind.
    pub fn store(&self, ago: Duration) -> FileStore {
        let layout = Layout {
            claude: self.home().join(".claude"),
            project: self.folder(),
            user_config: self.home().join(".config/teamster/config.toml"),
            project_config: self.folder().join(".teamster/config.toml"),
            database: None,
        };
        let past = now().as_millis() - i64::try_from(ago.as_millis()).unwrap();
        let clock = Arc::new(ManualClock::new(Time::from_millis(past)));
        FileStore::open(&layout, clock, FileStoreSettings::default()).unwrap()
    }

    /// Returns every file and folder below the Claude folder, to check that nothing was created.
    pub fn files(&self) -> Vec<String> {
        let mut found = Vec::new();
        walk(&self.home().join(".claude"), &mut found);
        found.sort();
        found
    }
}

impl Drop for TestProject {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

fn walk(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        found.push(path.display().to_string());
        if path.is_dir() && !path.is_symlink() {
            walk(&path, found);
        }
    }
}

/// A call that has not started.
pub struct Call {
    command: Command,
    root: PathBuf,
}

impl Call {
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub fn without_env(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    pub fn folder(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// Sets its standard input.
    pub fn input(mut self, bytes: impl AsRef<[u8]>) -> Self {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = self.root.join(format!("input-{number}"));
        std::fs::write(&path, bytes).unwrap();
        self.command.stdin(std::fs::File::open(path).unwrap());
        self
    }

    pub fn stdin(mut self, stdin: Stdio) -> Self {
        self.command.stdin(stdin);
        self
    }

    pub fn stdout(mut self, stdout: Stdio) -> Self {
        self.command.stdout(stdout);
        self
    }

    pub fn run(mut self) -> Ran {
        let line = format!("{:?}", self.command.get_args().collect::<Vec<_>>());
        let output = self.command.output().unwrap();
        Ran::new(line, &output, &self.root)
    }

    /// Starts it without waiting; its output is discarded.
    pub fn spawn(mut self) -> std::process::Child {
        let quiet = self.command.stdout(Stdio::null()).stderr(Stdio::null());
        quiet.spawn().unwrap()
    }

    /// Starts it without waiting; its output goes to a file.
    pub fn spawn_into(mut self, file: std::fs::File) -> std::process::Child {
        let errors = file.try_clone().unwrap();
        self.command.stdout(file).stderr(errors).spawn().unwrap()
    }

    /// Returns the command itself, for a caller that gives it a terminal.
    pub fn command(self) -> Command {
        self.command
    }

    /// Starts it, and returns a handle to its output.
    pub fn follow(mut self) -> Follower {
        let child = self.command.stdout(Stdio::piped()).spawn();
        Follower::new(child.unwrap())
    }
}

/// Copies the real binary. Another process does it: a program cannot be started while it is open for writing, also not in
/// a child that another test is about to start.
pub fn copy_binary(to: &Path) {
    let binary = env!("CARGO_BIN_EXE_teamster");
    let copied = Command::new("cp").arg(binary).arg(to).status();
    assert!(copied.unwrap().success());
}

/// Returns this process, which is alive as long as the test runs.
pub fn living() -> ProcessId {
    Machine::read().me().clone()
}

/// Returns a dead process that had this process's pid.
pub fn gone() -> ProcessId {
    let mut process = living();
    process.process_start_time += 1;
    process
}

pub fn now() -> Time {
    SystemClock.now()
}

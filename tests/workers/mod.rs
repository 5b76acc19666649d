//! Workers as real processes, with real git, recordings of real agents and real exits.

pub mod asking;
mod briefings;
mod crash;
mod delivery;
mod guests;
mod launch;
mod life;
mod limited;
mod limits;
mod merge;
mod others;
mod place;
mod providers;
mod secrets;
mod setup;
mod socket;
mod stop;
mod trouble;
mod trust;
mod work;

use std::process::{Command, Stdio};

use serde_json::Value;
use teamster_testkit::wait::{LONG, poll};
use teamster_types::process::ProcessState;

use crate::kit::{Ran, TestProject};

/// A team with a real repository. All its processes are ended on drop.
pub struct Crew {
    pub project: TestProject,
}

impl Crew {
    pub fn new() -> Self {
        Self::with_file("a.txt", "one\n")
    }

    /// Makes a crew whose work begins at a commit with this file.
    pub fn with_file(name: &str, content: &str) -> Self {
        let project = TestProject::new();
        let crew = Self { project };
        crew.git(&["init", "--quiet", "--initial-branch", "main"]);
        crew.git(&["config", "user.name", "Test"]);
        crew.git(&["config", "user.email", "test@localhost"]);
        crew.project.write(name, content);
        crew.git(&["add", name]);
        crew.git(&["commit", "--quiet", "--message", "Begin"]);
        crew.project.run(["team", "create", "crew"]).succeeds();
        crew
    }

    /// Runs git in the user's own work tree and returns what it prints.
    pub fn git(&self, args: &[&str]) -> String {
        let output = Command::new("git")
            .args(args)
            .current_dir(self.project.folder())
            .env("HOME", self.project.home())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(output.status.success(), "git {args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Starts a worker with a shell command as its agent.
    pub fn start(&self, name: &str, command: &str) -> Value {
        self.start_with(name, command, &[], &[])
    }

    pub fn start_with(
        &self,
        name: &str,
        command: &str,
        more: &[&str],
        variables: &[(&str, &str)],
    ) -> Value {
        let provider = format!("command:{command}");
        self.start_provider(name, &provider, more, variables)
            .succeeds()
            .json()
    }

    pub fn start_provider(
        &self,
        name: &str,
        provider: &str,
        more: &[&str],
        variables: &[(&str, &str)],
    ) -> Ran {
        let args = [
            "worker",
            "start",
            "--name",
            name,
            "--provider",
            provider,
            "--json",
        ];
        let mut call = self.project.call(args.iter().chain(more));
        for (variable, value) in variables {
            call = call.env(variable, value);
        }
        call.run()
    }

    pub fn task(&self, subject: &str) -> String {
        self.project.task(subject, &[])
    }

    /// Waits for a condition, and shows the journal if it never holds.
    #[track_caller]
    pub fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        if poll(LONG, || is_so().then_some(())).is_none() {
            let journal = self.project.run(["journal"]).stdout;
            panic!("{what} did not come true:\n{journal}");
        }
    }

    pub fn shown(&self, id: &str) -> Value {
        let ran = self.project.run(["task", "show", id, "--json"]).succeeds();
        ran.json()["task"].clone()
    }

    #[track_caller]
    pub fn until_status(&self, id: &str, status: &str) -> Value {
        self.until(&format!("task {id} {status}"), || {
            self.shown(id)["status"] == status
        });
        self.shown(id)
    }

    /// Returns the worker's heartbeat, if there is one.
    pub fn heartbeat(&self, worker: &str) -> Option<Value> {
        let text = std::fs::read_to_string(self.heartbeat_file(worker)).ok()?;
        serde_json::from_str(&text).ok()
    }

    fn heartbeat_file(&self, worker: &str) -> std::path::PathBuf {
        let file = format!(".omc/state/team-bridge/crew/{worker}.heartbeat.json");
        self.project.folder().join(file)
    }

    /// Makes the last heartbeat of a dead worker a minute older, instead of waiting for that.
    pub fn age_heartbeat(&self, worker: &str) {
        let mut beat = self.heartbeat(worker).unwrap();
        let then = crate::kit::now().as_millis() - 60_000;
        beat["lastPollAt"] = serde_json::json!(teamster_types::Time::from_millis(then));
        std::fs::write(self.heartbeat_file(worker), beat.to_string()).unwrap();
    }

    pub fn worker(&self, name: &str) -> Value {
        let ran = self.project.run(["worker", "list", "--json"]).succeeds();
        let rows = ran.json()["workers"].as_array().unwrap().clone();
        rows.into_iter().find(|row| row["name"] == name).unwrap()
    }

    /// Returns all events of a type so far.
    pub fn events(&self, kind: &str) -> Vec<Value> {
        let ran = self
            .project
            .run(["journal", "--type", kind, "--json"])
            .succeeds();
        ran.json()["events"].as_array().unwrap().clone()
    }

    /// Starts a worker that takes the lock of the team and is stopped while it holds it, so that every change waits.
    /// Returns its heartbeat.
    pub fn start_lock_holder(&self, name: &str) -> Value {
        let lock = self.project.claude("tasks/crew/.teamster.lock");
        let command = format!(
            "exec 9>>'{}'; flock 9; echo held > held.txt; kill -STOP $$",
            lock.display()
        );
        self.start(name, &command);
        self.until("the lock is held", || {
            self.worktree(name).join("held.txt").exists()
        });
        let beat = self.heartbeat(name).unwrap();
        signal("-STOP", &beat["pid"]);
        beat
    }

    /// Kills a worker and everything it started, like a power failure.
    pub fn kill_all_of(&self, name: &str) {
        let beat = self.heartbeat(name).unwrap();
        let launch = beat["launch"].as_str().unwrap().to_owned();
        let machine = teamster_fs::proc::Machine::read();
        // A process that is being killed has no environment any more, but still exists for a moment.
        let mut killed = Vec::new();
        self.until("nobody of it is left", || {
            let mut left = carriers("TEAMSTER_LAUNCH", &launch);
            left.extend(carriers("TEAMSTER_GUARD", &launch));
            for pid in &left {
                killed.extend(machine.process(*pid));
                kill_9(&serde_json::json!(pid));
            }
            let is_gone = |process| machine.process_state(process) == ProcessState::Gone;
            left.is_empty() && killed.iter().all(is_gone)
        });
    }

    pub fn worktree(&self, worker: &str) -> std::path::PathBuf {
        let folder = format!(".omc/worktrees/crew/{worker}");
        self.project.folder().join(folder)
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        let _ = self
            .project
            .run(["shutdown", "--team", "crew", "--force", "--json"]);
    }
}

/// Returns every process with this value of a variable.
pub fn carriers(name: &str, value: &str) -> Vec<u32> {
    let machine = teamster_fs::proc::Machine::read();
    teamster_fs::processes::all(&machine)
        .into_iter()
        .filter(|seen| !seen.over && teamster_fs::processes::carries(seen.id.pid, name, value))
        .map(|seen| seen.id.pid)
        .collect()
}

/// Kills a bridge and its guard, as the system does when memory runs out: the agent lives on.
pub fn kill_with_guard(bridge: &Value) {
    let pid = u32::try_from(bridge.as_u64().unwrap()).unwrap();
    let guard = teamster_fs::processes::parent_of(pid).unwrap();
    let words = std::fs::read(format!("/proc/{guard}/cmdline")).unwrap();
    let words = String::from_utf8(words).unwrap();
    assert!(words.contains("worker\0bridge\0"), "no guard: {words}");
    kill_9(&serde_json::json!(guard));
    kill_9(bridge);
}

/// Kills a process with SIGKILL.
pub fn kill_9(pid: &Value) {
    signal("-9", pid);
}

/// Sends a signal to one process.
pub fn signal(signal: &str, pid: &Value) {
    let pid = pid.as_u64().unwrap().to_string();
    let status = Command::new("kill").args([signal, &pid]).status().unwrap();
    let is_gone = || !std::path::Path::new(&format!("/proc/{pid}")).exists();
    assert!(status.success() || is_gone());
}

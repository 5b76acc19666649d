//! The drivers, tested with all recordings of the real clients and with arbitrary input.

mod delivery;
mod doctor;
mod launch;
mod permissions;
mod play;
mod properties;
mod streams;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use serde_json::Value;
use teamster_agents::{
    AgentEnd, AgentEvent, AgentOutcome, AgentSpending, CodexDriver, CodexProtocol, Driver, Exit,
    Job, JobTask, OutputReader, Permissions, ResumeSession,
};

/// One recorded run of a client.
pub struct Recorded {
    pub client: &'static str,
    pub name: String,
    /// Its output, with line endings.
    pub stdout: Vec<u8>,
    pub stderr: String,
    pub exit: Exit,
    /// The signal that was sent to it.
    pub sent: Option<String>,
    /// Input lines that were sent to it, in two-way recordings.
    pub sent_lines: Vec<Value>,
}

pub const CLIENTS: [&str; 3] = ["claude", "codex", "gemini"];

/// Codex over the protocol of its newer versions.
pub const APP_SERVER: &str = "codex-app-server";

/// The ways in which a driver runs a client; each has a folder of recordings.
pub const STREAMS: [&str; 4] = ["claude", "codex", APP_SERVER, "gemini"];

/// Recordings of other protocols in the folder of a client, which its driver must not accept.
const FOREIGN: [&str; 2] = ["acp", "app_server"];

pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/workers")
}

/// Returns all recordings of a client, by name.
pub fn all(client: &'static str) -> Vec<Recorded> {
    let entries = std::fs::read_dir(folder().join(client)).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|file| file.strip_suffix(".jsonl").map(str::to_owned))
        .filter(|name| !FOREIGN.contains(&name.as_str()))
        .collect();
    names.sort();
    names.into_iter().map(|name| one(client, &name)).collect()
}

/// Returns the recordings of other protocols, as raw lines.
pub fn foreign() -> Vec<Vec<u8>> {
    CLIENTS
        .iter()
        .flat_map(|client| FOREIGN.map(|name| folder().join(client).join(format!("{name}.jsonl"))))
        .filter_map(|file| std::fs::read(file).ok())
        .collect()
}

pub fn one(client: &'static str, name: &str) -> Recorded {
    let file = |ending: &str| folder().join(client).join(format!("{name}.{ending}"));
    let meta: Value = serde_json::from_slice(&std::fs::read(file("meta.json")).unwrap()).unwrap();
    let exit = match (meta["exit_code"].as_i64(), meta["signal"].as_str()) {
        (Some(code), None) => Exit::Code(code.try_into().unwrap()),
        (None, Some("SIGINT")) => Exit::Signal(2),
        (None, Some("SIGKILL")) => Exit::Signal(9),
        (None, Some("SIGTERM")) => Exit::Signal(15),
        other => panic!("{client} {name}: {other:?}"),
    };
    let mut stdout = std::fs::read(file("jsonl")).unwrap();
    let mut sent_lines = Vec::new();
    if stdout.starts_with(b"{\"->\"") {
        let lines = String::from_utf8(stdout).unwrap();
        stdout = Vec::new();
        for line in lines.lines() {
            let mut both: Value = serde_json::from_str(line).unwrap();
            match both.get_mut("<-") {
                Some(received) => stdout.extend_from_slice(format!("{received}\n").as_bytes()),
                None => sent_lines.push(both["->"].take()),
            }
        }
    }
    Recorded {
        client,
        name: name.to_owned(),
        stdout,
        stderr: std::fs::read_to_string(file("stderr")).unwrap_or_default(),
        exit,
        sent: meta["sent"].as_str().map(str::to_owned),
        sent_lines,
    }
}

impl Recorded {
    /// Returns how the process ended, as if teamster had not ended it.
    pub fn ending(&self) -> AgentEnd {
        AgentEnd {
            exit: self.exit,
            stopped: None,
        }
    }

    pub fn reader(&self) -> Box<dyn OutputReader> {
        let resume = self.name.starts_with("resume").then(|| self.earlier());
        reader_for(self.client, resume.as_ref(), &Permissions::default())
    }

    /// Returns what the first turn of the recorded session spent.
    fn earlier(&self) -> AgentSpending {
        let first = one(self.client, "text");
        let reader = reader_for(self.client, None, &Permissions::default());
        read(reader, &first.stdout, first.ending(), "").1.spent
    }

    /// Feeds the whole recording through its driver.
    pub fn played(&self) -> (Vec<AgentEvent>, AgentOutcome) {
        read(self.reader(), &self.stdout, self.ending(), &self.stderr)
    }
}

pub fn driver(client: &str) -> Box<dyn Driver> {
    if client == APP_SERVER {
        return Box::new(CodexDriver::with_protocol(CodexProtocol::AppServer));
    }
    let providers = teamster_agents::Providers::new(Path::new("/"));
    providers.find(client).unwrap().driver()
}

pub fn reader_for(
    client: &str,
    resume: Option<&AgentSpending>,
    permissions: &Permissions,
) -> Box<dyn OutputReader> {
    let resume = resume.map(|spent| ResumeSession {
        session: "earlier",
        spent: Some(*spent),
    });
    driver(client).reader(&Job {
        resume,
        permissions,
        ..job(Path::new("/home/dev/project"), permissions)
    })
}

/// Returns a job with default values.
pub fn job<'a>(worktree: &'a Path, permissions: &'a Permissions) -> Job<'a> {
    Job {
        prompt: "do it",
        worktree,
        git_dir: None,
        model: None,
        resume: None,
        permissions,
        team: "fix-auth",
        worker: "worker-1",
        task: Some(JobTask {
            id: "3",
            subject: "Fix the login form",
            file: Path::new("/run/task.json"),
            attempt: 1,
        }),
        temp: None,
        inbox: None,
        path: OsStr::new("/usr/bin:/bin"),
        teamster: Path::new(env!("CARGO_BIN_EXE_teamster")),
        tools: None,
    }
}

/// Returns everything that a reader makes of a stream.
pub fn read(
    mut reader: Box<dyn OutputReader>,
    stdout: &[u8],
    ending: AgentEnd,
    stderr: &str,
) -> (Vec<AgentEvent>, AgentOutcome) {
    let mut events = Vec::new();
    for line in stdout.split_inclusive(|byte| *byte == b'\n') {
        events.extend(reader.line(line).events);
    }
    (events, reader.end(ending, stderr))
}

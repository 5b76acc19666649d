//! The truth at one moment, by `/proc` and by the files of the client.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::product::{list, text};

/// A process, identified by more than a pid that may be reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: u32,
    start: u64,
}

impl Process {
    fn of(pid: u32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let rest: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
        // A zombie does not run any more.
        let runs = !matches!(rest.first(), Some(&("Z" | "X")));
        let began = rest.get(19)?.parse().ok()?;
        runs.then_some(Self { pid, start: began })
    }

    pub(super) fn is_alive(self) -> bool {
        Self::of(self.pid) == Some(self)
    }
}

/// One teammate in the registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RegisteredMember {
    pub(super) prompt: String,
    pub(super) is_pane: bool,
    /// The pane of tmux, in the client's notation.
    pub(super) pane: String,
}

/// The registry of the client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Registry {
    pub(super) team: String,
    pub(super) lead_session: String,
    pub(super) members: BTreeMap<String, RegisteredMember>,
}

/// A message: sender, receiver, content.
pub(super) type Letter = (String, String, String);

/// One task of the client's: its status, owner and subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Task {
    pub(super) status: String,
    pub(super) owner: String,
    pub(super) subject: String,
}

/// The client's side at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Truth {
    /// `None` if it does not exist or is incomplete.
    pub(super) registry: Option<Registry>,
    pub(super) tasks: BTreeMap<String, Task>,
    /// The running processes of the lead and of each teammate in a pane.
    pub(super) lead: Option<Process>,
    pub(super) panes: BTreeMap<String, Process>,
    /// The messages in the inboxes.
    pub(super) letters: BTreeSet<Letter>,
}

impl Truth {
    /// Reads everything below the folder of a session of the lab.
    pub(super) fn read(session: &Path) -> Self {
        let claude = session.join("home/.claude");
        let mut truth = Self::default();
        for folder in folders(&claude.join("teams")) {
            let config = json(&folder.join("config.json"));
            let Some(config) = config.filter(|config| config["leadSessionId"].is_string()) else {
                continue;
            };
            truth.registry = Some(registry(&config));
            let inboxes = std::fs::read_dir(folder.join("inboxes"))
                .into_iter()
                .flatten();
            for path in inboxes.flatten().map(|entry| entry.path()) {
                let is_inbox = path.extension().is_some_and(|end| end == "json");
                let owner = path
                    .file_stem()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned();
                if is_inbox {
                    truth
                        .letters
                        .extend(letters(&owner, &json(&path).unwrap_or_default()));
                }
            }
            let name = folder.file_name().unwrap_or_default();
            truth.tasks = tasks(&claude.join("tasks").join(name));
        }
        let home = format!("HOME={}", session.join("home").display());
        for (process, words) in clients(&home) {
            let after = |option: &str| {
                let mut rest = words.iter().skip_while(|word| *word != option);
                rest.nth(1).cloned()
            };
            match after("--agent-name") {
                Some(name) => drop(truth.panes.insert(name, process)),
                None if after("--teammate-mode").is_some() => truth.lead = Some(process),
                None => {}
            }
        }
        truth
    }

    /// Returns the expected counts of the progress.
    pub(super) fn progress(&self) -> Value {
        let with = |status: &str| {
            self.tasks
                .values()
                .filter(|task| task.status == status)
                .count()
        };
        serde_json::json!({
            "totalTasks": self.tasks.len(), "completedTasks": with("completed"),
            "inProgressTasks": with("in_progress"), "failedTasks": 0, "pendingTasks": with("pending"),
        })
    }
}

fn json(path: &Path) -> Option<Value> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

fn folders(parent: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths.filter(|path| path.is_dir()).collect()
}

fn registry(config: &Value) -> Registry {
    let others = list(&config["members"]).filter(|member| {
        member["agentId"] != config["leadAgentId"] && member["agentType"] != "team-lead"
    });
    let members = others.map(|member| {
        let pane = text(&member["tmuxPaneId"]);
        let known = RegisteredMember {
            prompt: text(&member["prompt"]).to_owned(),
            is_pane: pane.starts_with('%') || member["backendType"] == "tmux",
            pane: pane.to_owned(),
        };
        (text(&member["name"]).to_owned(), known)
    });
    Registry {
        team: text(&config["name"]).to_owned(),
        lead_session: text(&config["leadSessionId"]).to_owned(),
        members: members.collect(),
    }
}

/// Returns the messages of people in an inbox; protocol messages are judged by the other sessions.
pub(super) fn letters(owner: &str, inbox: &Value) -> Vec<Letter> {
    let is_said = |letter: &&Value| !text(&letter["text"]).trim_start().starts_with('{');
    let said = list(inbox).filter(is_said);
    said.map(|letter| {
        let of = |key: &str| text(&letter[key]).to_owned();
        (of("from"), owner.to_owned(), of("text"))
    })
    .collect()
}

fn tasks(folder: &Path) -> BTreeMap<String, Task> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths
        .filter_map(|path| {
            let id = path
                .file_name()?
                .to_str()?
                .strip_suffix(".json")?
                .to_owned();
            let task = json(&path)?;
            let is_internal = task["metadata"]["_internal"] == true;
            let of = |key: &str| text(&task[key]).to_owned();
            let known = Task {
                status: of("status"),
                owner: of("owner"),
                subject: of("subject"),
            };
            (!is_internal && !id.starts_with('.')).then_some((id, known))
        })
        .collect()
}

/// Returns the processes of the client with this home, each with its arguments.
fn clients(home: &str) -> Vec<(Process, Vec<String>)> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid: u32| {
        let parts = |file: &str| -> Option<Vec<String>> {
            let bytes = std::fs::read(format!("/proc/{pid}/{file}")).ok()?;
            let text = String::from_utf8_lossy(&bytes).into_owned();
            Some(text.split('\0').map(str::to_owned).collect())
        };
        let words = parts("cmdline")?;
        let program = Path::new(words.first()?).file_name()?.to_str()?.to_owned();
        let is_client =
            program.starts_with("claude") && parts("environ")?.iter().any(|one| one == home);
        is_client.then_some((Process::of(pid)?, words))
    })
    .collect()
}

/// Returns the time since 1970.
pub(in crate::real_clients) fn now() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

/// A hook call that the lab recorded.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) at: Duration,
    pub(super) event: String,
    pub(super) fields: Value,
    /// The pid of the client that called it.
    pub(super) client: Option<u32>,
    /// The pane of tmux that the client runs in.
    pub(super) pane: String,
}

/// The hook calls so far; each is read once.
#[derive(Debug, Default)]
pub(super) struct Calls {
    known: BTreeSet<String>,
    pub(super) all: Vec<Call>,
}

impl Calls {
    pub(super) fn read(&mut self, folder: &Path) {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| !name.starts_with('.') && !self.known.contains(name))
            .collect();
        names.sort();
        for name in names {
            if let Some(mut recorded) = json(&folder.join(&name)) {
                let millis = name.split('.').next().and_then(|time| time.parse().ok());
                let client = &recorded["env"]["CLAUDE_PID"];
                let client = text(client).parse().ok();
                self.all.push(Call {
                    at: Duration::from_millis(millis.unwrap_or(0)),
                    event: text(&recorded["event"]).to_owned(),
                    fields: recorded["stdin"].take(),
                    client,
                    pane: text(&recorded["env"]["TMUX_PANE"]).to_owned(),
                });
            }
            self.known.insert(name);
        }
    }
}

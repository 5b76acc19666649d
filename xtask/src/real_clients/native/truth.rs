//! The truth at one moment, by `/proc` and by the files of the client.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use super::super::session_files::{
    ClientTask, HookCall, Members, members, names, read_json, tasks,
};
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

/// The registry of the client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Registry {
    pub(super) team: String,
    pub(super) lead_session: String,
    pub(super) members: Members,
}

/// The lead's name in messages.
pub(super) const LEAD: &str = "team-lead";

/// A message: sender, receiver, content.
pub(super) type Letter = (String, String, String);

/// The client's side at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Truth {
    /// `None` if it does not exist or is incomplete.
    pub(super) registry: Option<Registry>,
    pub(super) tasks: BTreeMap<String, ClientTask>,
    /// The running processes of the lead ([`LEAD`]) and of each teammate in a pane, by name.
    pub(super) processes: BTreeMap<String, Process>,
    /// The messages in the inboxes.
    pub(super) letters: BTreeSet<Letter>,
}

impl Truth {
    /// Reads everything below the folder of a session of the lab.
    pub(super) fn read(session: &Path) -> Self {
        let claude = session.join("home/.claude");
        let mut truth = Self::default();
        for team in names(&claude.join("teams")) {
            let folder = claude.join("teams").join(&team);
            let config = read_json(&folder.join("config.json"));
            let Some(config) = config.filter(|config| config["leadSessionId"].is_string()) else {
                continue;
            };
            truth.registry = Some(Registry {
                team: text(&config["name"]).to_owned(),
                lead_session: text(&config["leadSessionId"]).to_owned(),
                members: members(&config),
            });
            let inboxes = folder.join("inboxes");
            for name in names(&inboxes) {
                if let Some(owner) = name.strip_suffix(".json") {
                    let inbox = read_json(&inboxes.join(&name)).unwrap_or_default();
                    truth.letters.extend(letters(owner, &inbox));
                }
            }
            truth.tasks = tasks(&claude.join("tasks").join(&team));
        }
        let home = format!("HOME={}", session.join("home").display());
        for (process, words) in clients(&home) {
            let after = |option: &str| {
                let mut rest = words.iter().skip_while(|word| *word != option);
                rest.nth(1).cloned()
            };
            let is_lead = after("--teammate-mode").is_some();
            let lead = || is_lead.then(|| LEAD.to_owned());
            let name = after("--agent-name").or_else(lead);
            truth.processes.extend(name.map(|name| (name, process)));
        }
        truth
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

/// The hook calls so far; each is read once.
#[derive(Debug, Default)]
pub(super) struct Calls {
    known: BTreeSet<String>,
    pub(super) all: Vec<HookCall>,
}

impl Calls {
    pub(super) fn read(&mut self, folder: &Path) {
        for name in names(folder) {
            if !self.known.contains(&name) {
                self.all.extend(HookCall::read(folder, &name));
                self.known.insert(name);
            }
        }
    }
}

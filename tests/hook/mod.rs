//! Events of Claude Code and what users see of them: `teamster hook`, `teamster state-file`, `.bkit`.

mod acceptance;
mod bad_input;
mod concurrent;
mod contention;
mod corrections;
mod crash;
mod ends;
mod looks;
mod payloads;
mod sessions;
mod shapes;
mod unfinished;
mod visible;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::kit::{Ran, TestProject};

/// Returns the folder with recorded data of real clients.
fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/claude-code")
}

impl TestProject {
    /// Calls a hook like the client. It must exit with 0.
    pub fn hook(&self, event: &str, payload: &Value) -> Ran {
        self.call(["hook", event])
            .input(payload.to_string())
            .run()
            .exits(0)
    }

    /// Returns the path of a file in `.bkit`.
    fn bkit(&self, name: &str) -> PathBuf {
        self.folder().join(".bkit").join(name)
    }

    /// Returns the state that viewers poll.
    pub fn state(&self) -> Value {
        let text = std::fs::read_to_string(self.bkit("agent-state.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// Returns files in `.bkit` that could confuse a viewer.
    fn leftovers(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut folders = vec![self.folder().join(".bkit")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                if entry.path().is_dir() {
                    folders.push(entry.path());
                } else if name != ".agent-state.lock" && name.strip_suffix(".json").is_none() {
                    found.push(name);
                }
            }
        }
        found
    }

    /// Adds a team of Claude Code to its registry.
    fn native_team(&self, folder: &str, session: &str, members: &[(&str, &str)]) {
        let lead = json!({"agentId": format!("team-lead@{folder}"), "name": "team-lead",
            "agentType": "team-lead", "tmuxPaneId": "leader", "cwd": self.folder()});
        let mut list = vec![lead];
        list.extend(members.iter().map(|(name, pane)| {
            json!({"agentId": format!("{name}@{folder}"), "name": name,
                "agentType": "general-purpose", "model": "claude-opus-5-5", "tmuxPaneId": pane})
        }));
        let config = json!({"name": folder, "createdAt": 1_794_728_281_220_u64,
            "leadAgentId": format!("team-lead@{folder}"), "leadSessionId": session, "members": list});
        self.native_file(&format!("teams/{folder}/config.json"), &config.to_string());
    }

    /// Writes a file below the Claude folder.
    fn native_file(&self, path: &str, content: &str) {
        let path = self.claude(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// Returns the recorded alerts about ends.
    pub(crate) fn alerts(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.claude("zombie-alerts.jsonl")).unwrap_or_default();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

/// Asserts that a hook has kept its time limit.
#[track_caller]
fn is_in_time(began: Instant, seconds: u64) {
    let took = began.elapsed();
    assert!(took < Duration::from_secs(seconds), "{took:?}");
}

fn start(name: &str) -> Value {
    json!({"session_id": "s1", "agent_name": name, "agent_type": "developer"})
}

/// Returns the names of the teammates, sorted.
fn names(state: &Value) -> Vec<String> {
    let rows = state["teammates"].as_array().unwrap();
    let mut names: Vec<String> = rows
        .iter()
        .map(|row| row["name"].as_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

fn row<'a>(state: &'a Value, name: &str) -> &'a Value {
    let rows = state["teammates"].as_array().unwrap();
    rows.iter().find(|row| row["name"] == name).unwrap()
}

//! `teamster install claude`, `teamster uninstall claude` and `teamster plugin export`.

mod hostile;
mod plugin;
mod project;
mod races;
mod settings;
mod tools;

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::kit::{Ran, TestProject};

/// All events, in the order in which they are written.
const EVENTS: [&str; 12] = [
    "SubagentStart",
    "SubagentStop",
    "TeammateIdle",
    "TaskCreated",
    "TaskCompleted",
    "Stop",
    "StopFailure",
    "SessionStart",
    "SessionEnd",
    "Notification",
    "PreToolUse",
    "PostToolUse",
];

/// Returns the program that the client is configured to call.
fn program() -> &'static str {
    env!("CARGO_BIN_EXE_teamster")
}

/// Makes a project whose user has these settings.
fn with_settings(text: &str) -> TestProject {
    let project = TestProject::new();
    std::fs::create_dir_all(project.claude("")).unwrap();
    std::fs::write(project.claude("settings.json"), text).unwrap();
    project
}

/// Returns all backups in a folder.
fn backups(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.display().to_string().contains(".teamster-backup-"))
        .collect();
    found.sort();
    found
}

/// Returns all names in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Returns the commands of an event, in order.
fn commands(settings: &Value, event: &str) -> Vec<String> {
    let groups = settings["hooks"][event].as_array().into_iter().flatten();
    groups
        .flat_map(|group| group["hooks"].as_array().into_iter().flatten())
        .map(|hook| hook["command"].as_str().unwrap().to_owned())
        .collect()
}

/// Returns the output with the binary's path and the times of backups replaced.
fn shown(ran: &Ran) -> String {
    let text = ran.shown().replace(program(), "[teamster]");
    let mut parts = text.split("teamster-backup-");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !(c.is_ascii_alphanumeric() || c == '.'));
        shown.push_str("teamster-backup-[time]");
        shown.push_str(&part[end.unwrap_or(part.len())..]);
    }
    shown
}

/// Returns the last lines of a text.
fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

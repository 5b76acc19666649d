//! Whole sessions of Claude Code: a team in one process, a team in panes, a plain subagent, a model that only fails.

mod client;
mod compare;
mod ours;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use super::polls::Poller;
use super::session_files::STATE;
use super::{Lab, RealRun, Report};
use crate::product::{Finished, check, files, text};
use client::ClaudeSession;
use ours::{Ours, Seen};

/// The text of a teamster hook in the client's log.
const HOOK: &str = "/teamster hook ";
/// The file that the hooks log to.
const LOG: &str = "hooks.log";
/// The poll interval, which is shorter than the time between two hooks of one agent.
const LOOK: Duration = Duration::from_millis(3);

/// Returns all sessions: the client's version, where teammates run, and the scenario.
pub(super) fn sessions() -> Vec<RealRun> {
    const NEW: &[&str] = &["claude-2.1.325"];
    let session = |clients: &'static [&'static str], mode: &'static str, scenario: &'static str| {
        let what = if scenario == "team" { mode } else { scenario };
        let version = clients[0].trim_start_matches("claude-");
        let name = format!("{}-{what}", clients[0]);
        RealRun::new(name, clients, move |lab| {
            run_session(lab, [version, mode, scenario])
        })
    };
    vec![
        session(NEW, "in-process", "team"),
        session(NEW, "tmux", "team"),
        session(&["claude-2.1.197"], "tmux", "team"),
        session(NEW, "in-process", "subagent"),
        session(NEW, "in-process", "error"),
    ]
}

/// Installs the hooks like a person, into a separate home, and returns the settings with them.
pub(super) fn install_hooks(lab: &Lab) -> Result<PathBuf> {
    let home = lab.files.home();
    let mut install = Command::new(lab.path("bin/teamster"));
    install
        .args(["install", "claude", "--scope", "user"])
        .env_clear()
        .env("HOME", &home)
        .env("PATH", lab.path("bin"))
        .current_dir(&home);
    Finished::checked(&mut install)?;
    Ok(home.join(".claude/settings.json"))
}

/// Returns the values of the script's variables `SETTINGS` and `XENV` for a session whose hooks write a log.
pub(super) fn session_variables(lab: &Lab, settings: &Path) -> (String, String) {
    let log = lab.path(LOG);
    let variables = format!("TEAMSTER_DEBUG=1 TEAMSTER_LOG={}", log.display());
    (settings.display().to_string(), variables)
}

fn run_session(lab: &Lab, words: [&str; 3]) -> Result<Report> {
    let (settings, variables) = session_variables(lab, &install_hooks(lab)?);
    let session = lab.path("out");
    let state = session.join("project").join(STATE);
    let watch = Poller::begin(LOOK, move |seen: &mut Seen| seen.look(&state));
    let variables = [("SETTINGS", &*settings), ("XENV", &variables)];
    let ended = lab.run("claude-team", &words, &variables);
    let (seen, ended) = (watch.end()?, ended?);
    let mut report = Report::default();
    let last = ended.stdout.trim().lines().last().unwrap_or_default();
    let (is_good, end) = (ended.success(), ended.describe());
    check!(report.differences, is_good => "the session failed: {last} {end}");
    let client = ClaudeSession::read(&session).context("what the client left")?;
    let ours = Ours::read(&session, &lab.path(LOG), seen).context("what teamster left")?;
    compare::all(&client, &ours, &mut report);
    check_client_log(&session, &mut report)?;
    Ok(report)
}

/// Finds all complaints of the client about a hook: in its debug log, and in its transcripts, which panes have too.
pub(super) fn check_client_log(session: &Path, report: &mut Report) -> Result<()> {
    let log = std::fs::read_to_string(session.join("debug.log")).context("no debug log")?;
    let found = &mut report.differences;
    for line in log.lines() {
        check!(found, !is_complaint(line) => "the client's debug log: {line}");
    }
    let lines = log.lines().filter(|line| line.contains(HOOK)).count();
    let mut entries = 0;
    let folder = session.join("home/.claude/projects");
    let mut transcripts = files(&folder, &[""]).unwrap_or_default();
    transcripts.retain(|name| name.strip_suffix(".jsonl").is_some());
    for name in transcripts {
        for line in std::fs::read_to_string(folder.join(&name))?.lines() {
            let entry: Value = serde_json::from_str(line).unwrap_or_default();
            let attachment = &entry["attachment"];
            let (command, kind) = (text(&attachment["command"]), text(&attachment["type"]));
            if command.contains(HOOK) && kind.starts_with("hook_") {
                entries += 1;
                let is_good = matches!(kind, "hook_success" | "hook_system_message");
                check!(found, is_good => "the client's transcript: {attachment}");
            }
        }
    }
    check!(found, lines + entries > 0 => "the client never mentions a hook of teamster");
    let seen = format!("{lines} lines and {entries} transcript entries about the hooks");
    report.saw("client log", seen);
    Ok(())
}

/// Returns whether a line of the debug log reports a failed hook. The recording hooks print nothing, so output that
/// the client rejects is teamster's.
fn is_complaint(line: &str) -> bool {
    let status = line
        .split_once("finished with status ")
        .or_else(|| line.split_once("completed with status "))
        .and_then(|(_, rest)| rest.split_whitespace().next());
    let is_bad_end = status.is_some_and(|status| status != "0")
        || line.contains("failed")
        || line.contains("timed out");
    line.contains("Hook JSON output validation failed")
        || line.contains(") error:") && line.contains("Hook ")
        || line.contains(HOOK) && is_bad_end
}

#[cfg(test)]
mod tests {
    use super::is_complaint;

    #[test]
    fn client_that_complains_about_a_hook_is_noticed() {
        let bad = [
            "[DEBUG] Hook JSON output validation failed — (root): Invalid input",
            "[ERROR] \"Hook Stop (Stop) error: status code 127\\nstderr:\\n/bin/sh: not found\"",
            "[DEBUG] Hook SubagentStop (SubagentStop) error:",
            "[DEBUG] Hooks: Stop [/x/teamster hook Stop] finished with status 127 (18ms)",
            "[DEBUG] Hooks: SubagentStart:w [/x/teamster hook SubagentStart] timed out after 1000ms (1008ms)",
            "[ERROR] \"SessionEnd:other [/x/teamster hook SessionEnd] failed to run: …\"",
        ];
        let good = [
            "[DEBUG] Hooks: Stop [/x/teamster hook Stop] finished with status 0 (18ms)",
            "[DEBUG] SessionEnd:other [/x/teamster hook SessionEnd] completed with status 0",
            "[DEBUG] Bash tool error (67ms): code=tool_shell_error",
            "[ERROR] API error (attempt 1/11): 400",
        ];
        for line in bad {
            assert!(is_complaint(line), "{line}");
        }
        for line in good {
            assert!(!is_complaint(line), "{line}");
        }
    }
}

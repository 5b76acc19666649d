//! What the client itself says about our hooks: its debug log, and its transcripts, which panes have too.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use super::super::Report;

/// How our command looks in the client's words.
const OURS: &str = "/teamster hook ";

/// Looks for everything that a client does not like about a hook.
pub(super) fn check(session: &Path, report: &mut Report) -> Result<()> {
    let log = std::fs::read_to_string(session.join("debug.log")).context("no debug log")?;
    let mut told = 0;
    for line in log.lines() {
        told += usize::from(line.contains(OURS));
        if let Some(complaint) = complaint(line) {
            report
                .differences
                .push(format!("the client's debug log: {complaint}"));
        }
    }
    let (mut entries, mut bad) = (0, Vec::new());
    transcripts(&session.join("home/.claude/projects"), &mut |entry| {
        let attachment = &entry["attachment"];
        let kind = attachment["type"].as_str().unwrap_or_default();
        let is_ours = attachment["command"]
            .as_str()
            .is_some_and(|command| command.contains(OURS));
        if is_ours && kind.starts_with("hook_") {
            entries += 1;
            if kind != "hook_success" && kind != "hook_system_message" {
                bad.push(format!("the client's transcript: {attachment}"));
            }
        }
    })?;
    report.differences.append(&mut bad);
    if told + entries == 0 {
        report
            .differences
            .push("the client never speaks of a hook of ours".to_owned());
    }
    report.seen.push((
        "client log",
        format!("{told} lines and {entries} transcript entries about our hooks"),
    ));
    Ok(())
}

/// What is wrong with a hook by a line of the debug log. Recording hooks answer nothing, so a bad answer is ours.
fn complaint(line: &str) -> Option<&str> {
    let is_failed_answer = line.contains("Hook JSON output validation failed");
    let is_error = line.contains(") error:") && line.contains("Hook ")
        || line.contains("hook") && {
            let is_ours = line.contains(OURS);
            is_ours && (line.contains("failed") || line.contains("timed out"))
        };
    let status = line
        .split_once("finished with status ")
        .or_else(|| line.split_once("completed with status "))
        .and_then(|(_, rest)| rest.split_whitespace().next());
    let is_bad_end = line.contains(OURS) && status.is_some_and(|status| status != "0");
    (is_failed_answer || is_error || is_bad_end).then_some(line)
}

/// Every entry of every transcript below a folder.
fn transcripts(folder: &Path, look: &mut impl FnMut(&Value)) -> Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            transcripts(&path, look)?;
        } else if path.extension().is_some_and(|end| end == "jsonl") {
            for line in std::fs::read_to_string(&path)?.lines() {
                if let Ok(entry) = serde_json::from_str(line) {
                    look(&entry);
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_complains_is_heard() {
        let bad = [
            "[DEBUG] Hook JSON output validation failed — (root): Invalid input",
            "[ERROR] \"Hook Stop (Stop) error: status code 127\\nstderr:\\n/bin/sh: not found\"",
            "[DEBUG] Hook SubagentStop (SubagentStop) error:",
            "[DEBUG] Hooks: Stop [/x/teamster hook Stop] finished with status 127 (18ms)",
            "[DEBUG] Hooks: SubagentStart:w [/x/teamster hook SubagentStart] timed out after 1000ms (1008ms)",
            "[ERROR] \"SessionEnd:other [/x/teamster hook SessionEnd] failed to run: …\"",
        ];
        for line in bad {
            assert!(complaint(line).is_some(), "{line}");
        }
        let good = [
            "[DEBUG] Hooks: Stop [/x/teamster hook Stop] finished with status 0 (18ms)",
            "[DEBUG] SessionEnd:other [/x/teamster hook SessionEnd] completed with status 0",
            "[DEBUG] Bash tool error (67ms): code=tool_shell_error",
            "[ERROR] API error (attempt 1/11): 400",
        ];
        for line in good {
            assert!(complaint(line).is_none(), "{line}");
        }
    }
}

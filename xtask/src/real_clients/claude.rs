//! Whole sessions of Claude Code: a team in one process, a team in panes, a plain subagent, a model that only fails.

mod client;
mod compare;
mod ours;

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::{Lab, RealRun, Report};
use crate::product::Finished;
use client::Client;
use ours::{Ours, Watch};

/// How a hook of teamster looks in the client's words.
const HOOK: &str = "/teamster hook ";

/// Returns all sessions: the client's version, where teammates live, and the scenario.
pub(super) fn sessions() -> Vec<RealRun> {
    const NEW: &[&str] = &["claude-2.1.325"];
    let sessions: [(&'static [&'static str], &'static str, &'static str); 5] = [
        (NEW, "in-process", "team"),
        (NEW, "tmux", "team"),
        (&["claude-2.1.197"], "tmux", "team"),
        (NEW, "in-process", "subagent"),
        (NEW, "in-process", "error"),
    ];
    let run = |(clients, mode, scenario): (&'static [&'static str], _, _)| RealRun {
        name: format!(
            "{}-{}",
            clients[0],
            if scenario == "team" { mode } else { scenario }
        ),
        clients,
        run: Box::new(move |lab| {
            let version = clients[0].trim_start_matches("claude-");
            run_session(lab, [version, mode, scenario])
        }),
    };
    sessions.into_iter().map(run).collect()
}

fn run_session(lab: &Lab, words: [&str; 3]) -> Result<Report> {
    let home = lab.files.home();
    // As a person installs it, into a home of its own.
    let mut install = Command::new(lab.path("bin/teamster"));
    install
        .args(["install", "claude", "--scope", "user"])
        .env_clear()
        .env("HOME", &home)
        .env("PATH", lab.path("bin"))
        .current_dir(&home);
    Finished::checked(&mut install)?;
    let (session, log) = (lab.path("out"), lab.path("hooks.log"));
    let settings = home.join(".claude/settings.json").display().to_string();
    let variables = format!("TEAMSTER_DEBUG=1 TEAMSTER_LOG={}", log.display());
    let watch = Watch::begin(session.join("project/.bkit/agent-state.json"));
    let ended = lab.run(
        "claude-team",
        &words,
        &[("SETTINGS", &settings), ("XENV", &variables)],
    );
    let seen = watch.end();
    let ended = ended?;
    let mut report = Report::default();
    report.check(ended.success(), || {
        let last = ended.stdout.trim().lines().last().unwrap_or_default();
        format!("the session failed: {last} {}", ended.describe())
    });
    let client = Client::read(&session).context("what the client left")?;
    let ours = Ours::read(&session, &log, seen).context("what teamster left")?;
    compare::all(&client, &ours, &mut report);
    check_client_log(&session, &mut report)?;
    Ok(report)
}

/// Looks for everything that the client does not like about a hook: in its debug log, and in its transcripts, which panes
/// have too.
fn check_client_log(session: &Path, report: &mut Report) -> Result<()> {
    let log = std::fs::read_to_string(session.join("debug.log")).context("no debug log")?;
    for complaint in log.lines().filter(|line| is_complaint(line)) {
        let complaint = format!("the client's debug log: {complaint}");
        report.differences.push(complaint);
    }
    let lines = log.lines().filter(|line| line.contains(HOOK)).count();
    let mut entries = 0;
    let folder = session.join("home/.claude/projects");
    for name in crate::web::files(&folder, &[""]).unwrap_or_default() {
        let is_transcript = Path::new(&name)
            .extension()
            .is_some_and(|end| end == "jsonl");
        let text = std::fs::read_to_string(folder.join(&name));
        for line in text.unwrap_or_default().lines().filter(|_| is_transcript) {
            let entry: Value = serde_json::from_str(line).unwrap_or_default();
            let attachment = &entry["attachment"];
            let text = |key: &str| attachment[key].as_str().unwrap_or_default();
            if text("command").contains(HOOK) && text("type").starts_with("hook_") {
                entries += 1;
                let is_good = matches!(text("type"), "hook_success" | "hook_system_message");
                report.check(is_good, || format!("the client's transcript: {attachment}"));
            }
        }
    }
    report.check(lines + entries > 0, || {
        "the client never mentions a hook of teamster".to_owned()
    });
    report.saw(
        "client log",
        format!("{lines} lines and {entries} transcript entries about the hooks"),
    );
    Ok(())
}

/// Tells whether a line of the debug log says that a hook failed. The recording hooks print nothing, so output that the
/// client refuses is teamster's.
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

//! Whole sessions of Claude Code: a team in one process, a team in panes, a plain subagent, a model that only fails.

mod client;
mod compare;
mod debug_log;
mod ours;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::lab::Lab;
use super::{RealRun, Report};
use crate::product::{Answer, Product};
use client::Client;
use ours::{Ours, Watch};

/// One session of a client.
struct Session {
    version: &'static str,
    /// Where teammates live.
    mode: &'static str,
    scenario: &'static str,
}

/// All sessions.
pub(super) fn sessions() -> Vec<Box<dyn RealRun>> {
    [
        ("2.1.325", "in-process", "team"),
        ("2.1.325", "tmux", "team"),
        ("2.1.197", "tmux", "team"),
        ("2.1.325", "in-process", "subagent"),
        ("2.1.325", "in-process", "error"),
    ]
    .into_iter()
    .map(|(version, mode, scenario)| -> Box<dyn RealRun> {
        Box::new(Session {
            version,
            mode,
            scenario,
        })
    })
    .collect()
}

impl RealRun for Session {
    fn name(&self) -> String {
        let Self {
            version,
            mode,
            scenario,
        } = self;
        match *scenario {
            "team" => format!("claude-{version}-{mode}"),
            _ => format!("claude-{version}-{scenario}"),
        }
    }

    fn clients(&self) -> Vec<String> {
        vec![format!("claude-{}", self.version)]
    }

    fn run(&self, lab: &Lab, product: &Product, out: &Path) -> Result<Report> {
        let ours = Installed::new(product, &out.join("ours"))?;
        let session = out.join("lab");
        let watch = Watch::begin(session.join("project/.bkit/agent-state.json"));
        let ended = lab.run(
            "claude-team",
            &[self.version, self.mode, self.scenario],
            &[
                ("OUT", session.display().to_string()),
                ("SETTINGS", ours.settings.display().to_string()),
                ("XPATH", ours.programs.display().to_string()),
                ("XENV", ours.variables()),
            ],
        );
        let seen = watch.end();
        let ended = ended?;
        let mut report = Report::default();
        if !ended.status.success() {
            let last = ended.stdout.trim().lines().last().unwrap_or_default();
            report
                .differences
                .push(format!("the session went wrong: {last} {}", ended.said()));
        }
        let client = Client::read(&session).context("what the client left")?;
        let ours = Ours::read(&session, &ours.log, seen).context("what we left")?;
        compare::all(&client, &ours, &mut report);
        debug_log::check(&session, &mut report)?;
        Ok(report)
    }
}

/// Our binary, and settings that call it.
struct Installed {
    /// The folder with `teamster` in it.
    programs: PathBuf,
    settings: PathBuf,
    /// Where every hook says that it was there.
    log: PathBuf,
}

impl Installed {
    /// As a person installs it, into a home of its own.
    fn new(product: &Product, folder: &Path) -> Result<Self> {
        let programs = folder.join("bin");
        let home = folder.join("home");
        for folder in [&programs, &home.join(".claude")] {
            std::fs::create_dir_all(folder)?;
        }
        let binary = programs.join("teamster");
        std::fs::copy(&product.binary, &binary)?;
        let mut command = Command::new(&binary);
        command
            .args(["install", "claude", "--scope", "user"])
            .env_clear()
            .env("HOME", &home)
            .env("PATH", &programs)
            .current_dir(&home);
        let answer = Answer::of(&mut command)?;
        if !answer.status.success() {
            bail!("`teamster install claude` failed: {}", answer.said());
        }
        Ok(Self {
            settings: home.join(".claude/settings.json"),
            log: folder.join("hooks.log"),
            programs,
        })
    }

    fn variables(&self) -> String {
        format!("TEAMSTER_DEBUG=1 TEAMSTER_LOG={}", self.log.display())
    }
}

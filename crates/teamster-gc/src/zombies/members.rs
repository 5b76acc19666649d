//! The other members of a team of Claude Code: who is proven stopped, and who goes on without a lead.

use serde_json::Value;
use teamster_types::process::Life;
use teamster_types::team::TeamConfig;

use super::panes::{ListedPane, Panes};
use super::scanner::ZombieScanner;
use super::{Zombie, ZombieAction, ZombieKind};
use crate::shell;

/// A member as the registry lists it.
struct RegisteredMember<'a> {
    name: &'a str,
    pane: &'a str,
    backend: &'a str,
}

/// What is known about all of them.
#[derive(Debug, Default)]
pub(super) struct TeamMembers {
    /// Who goes on, in words.
    pub(super) alive: Vec<String>,
    /// Who cannot be judged, in words.
    pub(super) unsure: Vec<String>,
    /// Whether somebody is neither alive nor proven stopped.
    pub(super) unproven: bool,
    /// Each of those who go on, and each dead pane.
    pub(super) found: Vec<Zombie>,
}

/// Looks at everyone but the lead.
pub(super) fn look_at(scanner: &ZombieScanner<'_>, team: &str, config: &TeamConfig) -> TeamMembers {
    let mut all = TeamMembers::default();
    let lead_session = text(config, "leadSessionId");
    for (pid, process) in scanner.processes() {
        let by_session = !lead_session.is_empty() && process.lead_session == lead_session;
        if process.team == team || by_session {
            let name = &process.name;
            all.alive.push(format!("pid {pid} runs as {name} of it"));
            let why = format!("pid {pid} runs");
            all.add(ZombieKind::Worker, name, team, why, format!("kill {pid}"));
        }
    }
    for member in members(config) {
        match member.pane {
            pane if pane.starts_with('%') => in_pane(scanner, team, &member, &mut all),
            // It lives and dies with its lead.
            "in-process" => {}
            "" if member.backend == "in-process" => {}
            "" => all.unproven = true,
            pane => all.unsure.push(format!(
                "pane {pane} of {} cannot be looked at from here",
                member.name
            )),
        }
    }
    all
}

fn in_pane(
    scanner: &ZombieScanner<'_>,
    team: &str,
    member: &RegisteredMember<'_>,
    all: &mut TeamMembers,
) {
    let (name, pane) = (member.name, member.pane);
    let in_session = scanner.sessions().iter().find(|session| {
        session.pane.as_deref() == Some(pane)
            && scanner.options.machine.life(&session.process) == Life::Alive
    });
    if let Some(session) = in_session {
        let pid = session.process.pid;
        all.alive.push(format!(
            "a session of Claude Code (pid {pid}) runs in pane {pane} of {name}"
        ));
    }
    let panes = match &scanner.options.panes {
        Panes::Listed(panes) => panes,
        Panes::NotAsked => {
            all.unsure
                .push(format!("pane {pane} of {name} was not looked for"));
            return;
        }
        Panes::Silent(why) => {
            all.unsure
                .push(format!("pane {pane} of {name} cannot be looked for: {why}"));
            return;
        }
    };
    let close = |pane: &ListedPane| {
        format!(
            "tmux -S {} kill-pane -t {}",
            shell::word(&pane.server.socket.to_string_lossy()),
            pane.id
        )
    };
    for listed in panes.iter().filter(|listed| listed.id == pane) {
        if listed.dead {
            let why = format!("pane {pane} is open, its program has ended");
            all.add(ZombieKind::Pane, name, team, why, close(listed));
        } else {
            all.alive.push(format!("pane {pane} of {name} is open"));
            all.add(
                ZombieKind::Worker,
                name,
                team,
                format!("pane {pane} is open"),
                close(listed),
            );
        }
    }
}

impl TeamMembers {
    /// One entry for each kind and name, whatever the number of signs.
    fn add(&mut self, kind: ZombieKind, name: &str, team: &str, why: String, command: String) {
        let known = self
            .found
            .iter_mut()
            .find(|found| found.kind == kind && found.name == name);
        if let Some(found) = known {
            found.evidence.push(why);
            return;
        }
        self.found.push(Zombie {
            kind,
            name: name.to_owned(),
            team: team.to_owned(),
            age: std::time::Duration::ZERO,
            evidence: vec![why],
            action: ZombieAction::Keep,
            command,
        });
    }
}

fn members(config: &TeamConfig) -> Vec<RegisteredMember<'_>> {
    let of = |member, key| {
        Value::get(member, key)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    config
        .other_entries()
        .map(|member| RegisteredMember {
            name: of(member, "name"),
            pane: of(member, "tmuxPaneId"),
            backend: of(member, "backendType"),
        })
        .collect()
}

/// Returns a text of the registry.
pub(super) fn text<'a>(config: &'a TeamConfig, key: &str) -> &'a str {
    let value = config.as_object().get(key).and_then(Value::as_str);
    value.unwrap_or_default()
}

//! The other members of a team of Claude Code: which are proven stopped, and which still run without a lead.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use teamster_claude::state::StateFiles;
use teamster_fs::OrTrace as _;
use teamster_store::{FileStore, FileStoreSettings, SystemClock};
use teamster_types::TeamName;
use teamster_types::phrase::{Phrase, PhraseCode};
use teamster_types::process::ProcessState;
use teamster_types::session::process_state_in_pane;
use teamster_types::team::TeamConfig;
use teamster_view::workers::{WorkerRow, dead_teammates};

use super::folder::TeamFolder;
use super::life_signs;
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

/// The facts known about all members but the lead.
#[derive(Debug, Default)]
pub(super) struct TeamMembers {
    /// Evidence of the members that still run.
    pub(super) alive: Vec<Phrase>,
    /// Evidence of the members that cannot be judged.
    pub(super) unsure: Vec<Phrase>,
    /// Whether a member is neither alive nor proven stopped.
    pub(super) unproven: bool,
    /// The members that still run, and the dead panes.
    pub(super) found: Vec<Zombie>,
}

/// Judges every member but the lead.
pub(super) fn assess(scanner: &ZombieScanner<'_>, team: &str, config: &TeamConfig) -> TeamMembers {
    let mut all = TeamMembers::default();
    let lead_session = text(config, "leadSessionId");
    for (pid, process) in scanner.processes() {
        let by_session = !lead_session.is_empty() && process.lead_session == lead_session;
        if process.team == team || by_session {
            let name = &process.name;
            let code = PhraseCode::RunsAsMember;
            all.alive
                .push(Phrase::new(code, [("pid", pid), ("name", name)]));
            let why = Phrase::new(PhraseCode::PidRuns, [("pid", pid)]);
            all.add(ZombieKind::Worker, name, team, why, format!("kill {pid}"));
        }
    }
    let gone = gone_clients(scanner, config, lead_session);
    for member in members(config) {
        match member.pane {
            pane if pane.starts_with('%') => in_pane(scanner, team, &member, &gone, &mut all),
            // An in-process member lives and dies with its lead.
            "in-process" => {}
            "" if member.backend == "in-process" => {}
            "" => all.unproven = true,
            pane => all.unsure.push(Phrase::new(
                PhraseCode::PaneOutOfReach,
                [("pane", &pane), ("name", &member.name)],
            )),
        }
    }
    all
}

/// Returns the teammates whose clients called hooks and are proven gone, each with its pid.
fn gone_clients(
    scanner: &ZombieScanner<'_>,
    config: &TeamConfig,
    session: &str,
) -> BTreeMap<String, u32> {
    let Some(project) = config.project() else {
        return BTreeMap::new();
    };
    let states = StateFiles::of(&scanner.options.layout.of_project(Path::new(project)));
    let state = states.of_session(session);
    let state = state.ok_or_trace("read the state of a lead's session");
    state
        .flatten()
        .map_or_else(BTreeMap::new, |state| states.gone_teammates(&state))
}

fn in_pane(
    scanner: &ZombieScanner<'_>,
    team: &str,
    member: &RegisteredMember<'_>,
    gone: &BTreeMap<String, u32>,
    all: &mut TeamMembers,
) {
    let (name, pane) = (member.name, member.pane);
    let life = |process: &_| scanner.options.machine.process_state(process);
    if let Some((ProcessState::Alive, pid)) = process_state_in_pane(scanner.sessions(), pane, life)
    {
        all.alive.push(Phrase::new(
            PhraseCode::ClientRunsInPane,
            [("pid", &pid), ("pane", &pane), ("name", &name)],
        ));
    }
    let panes = match &scanner.options.panes {
        Panes::Listed(panes) => panes,
        Panes::NotAsked => {
            let code = PhraseCode::PaneNotLookedFor;
            all.unsure
                .push(Phrase::new(code, [("pane", &pane), ("name", &name)]));
            return;
        }
        Panes::Silent(why) => {
            let told = [
                ("pane", &pane as &dyn Display),
                ("name", &name),
                ("error", why),
            ];
            all.unsure
                .push(Phrase::new(PhraseCode::PaneNotFindable, told));
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
            let why = Phrase::new(PhraseCode::PaneProgramEnded, [("pane", &pane)]);
            all.add(ZombieKind::Pane, name, team, why, close(listed));
        } else if let Some(pid) = gone.get(name) {
            // Only the shell that the client was started in is left.
            let why = Phrase::new(PhraseCode::PidGone, [("pid", pid)]);
            all.add(ZombieKind::Pane, name, team, why, close(listed));
        } else {
            let code = PhraseCode::PaneOfMemberOpen;
            all.alive
                .push(Phrase::new(code, [("pane", &pane), ("name", &name)]));
            all.add(
                ZombieKind::Worker,
                name,
                team,
                Phrase::new(PhraseCode::PaneOpen, [("pane", &pane)]),
                close(listed),
            );
        }
    }
}

/// Returns the teammates that have ended while their lead still runs. Each comes with a command that notifies the lead,
/// because the client itself removes them from its registry.
pub(super) fn ended(scanner: &ZombieScanner<'_>, team: &TeamFolder) -> Vec<Zombie> {
    let Some((config, name)) = team.config().zip(team.name.parse::<TeamName>().ok()) else {
        return Vec::new();
    };
    if team.is_ours() || life_signs::lead_gone(scanner, team).is_some() {
        return Vec::new();
    }
    let options = scanner.options;
    let store = FileStore::open(
        options.layout,
        Arc::new(SystemClock),
        FileStoreSettings::default(),
    );
    let dead = store.and_then(|store| dead_teammates(&store, options.layout, &name, config));
    let zombie = |row: WorkerRow| {
        let told = format!("{} has ended: {}", row.name, row.evidence.join(", "));
        let team_word = shell::word(&team.name);
        Zombie {
            kind: ZombieKind::Worker,
            name: row.name,
            team: team.name.clone(),
            age: row
                .last_event_at
                .map_or(Duration::ZERO, |at| options.now.since(at)),
            evidence: row.evidence,
            action: ZombieAction::Keep,
            command: format!(
                "teamster message send --team {team_word} --to team-lead {}",
                shell::word(&told)
            ),
        }
    };
    let dead = dead.ok_or_trace("look for teammates that have ended");
    dead.into_iter().flatten().map(zombie).collect()
}

impl TeamMembers {
    /// Adds evidence to the entry of this kind and name, creating the entry if there is none yet.
    fn add(&mut self, kind: ZombieKind, name: &str, team: &str, why: Phrase, command: String) {
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

/// Returns a text field of the registry.
pub(super) fn text<'a>(config: &'a TeamConfig, key: &str) -> &'a str {
    let value = config.as_object().get(key).and_then(Value::as_str);
    value.unwrap_or_default()
}

//! The verdict on one team.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use teamster_fs::layout;
use teamster_journal::EventType;
use teamster_store::{FileStore, Read, Settings, SystemClock};
use teamster_types::process::Life;
use teamster_types::team::TeamConfig;
use teamster_types::time::say_span;
use teamster_types::{TeamName, Time};

use super::age::created_at;
use super::folder::{self, Cut, Found, Registry, Seen, TeamFolder};
use super::look::Scene;
use super::signs::{self, Signs};
use super::{Action, Kind, REAP_COMMAND, Zombie};
use crate::shell;

/// The end of a run is followed by the reports of those who stop, so it is among the last events, not the last.
const LAST_EVENTS: usize = 200;

/// A team that is worth a line.
#[derive(Debug)]
pub(super) struct Judged {
    pub(super) zombie: Zombie,
    /// Its members that go on without it, and dead panes.
    pub(super) members: Vec<Zombie>,
    /// Its folders and their state, if they can be moved.
    pub(super) folder: Option<(Box<TeamFolder>, Seen)>,
}

/// How far a run of ours is, by its journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Run {
    None,
    Started,
    Finished,
    /// The team's end is journalled, and its files are still there.
    Deleted,
}

/// Judges the team under `name`; `None` when there is nothing to say about it.
pub(super) fn judge(scene: &Scene<'_>, name: &str) -> Result<Option<Judged>, Cut> {
    match folder::open(scene, name) {
        Found::Nothing => Ok(None),
        Found::Odd(why) => Ok(Some(odd(scene, name, why))),
        Found::Team(team) => judge_folder(scene, team),
    }
}

fn judge_folder(scene: &Scene<'_>, team: Box<TeamFolder>) -> Result<Option<Judged>, Cut> {
    let now = scene.look.now;
    let created = match &team.registry {
        Registry::Read(config) => Some(created_at(config.as_object().get("createdAt"), now)),
        Registry::Missing => None,
        Registry::Unreadable(problem) => {
            let why = format!("config.json cannot be read: {problem}");
            return Ok(Some(odd(scene, &team.name, why)));
        }
    };
    let is_young = |time: Time| now.since(time) < scene.look.ttl;
    let created_young = matches!(created, Some(Ok(time)) if is_young(time));
    let lead_gone = !team.is_ours() && signs::lead_gone(scene, &team).is_some();
    let stalled = team.is_ours() && scene.is_thorough() && is_stalled(scene, &team);
    if created_young && !lead_gone && !stalled {
        return Ok(None);
    }
    let ttl = i64::try_from(scene.look.ttl.as_millis()).unwrap_or(i64::MAX);
    let threshold = now
        .as_millis()
        .saturating_sub(ttl)
        .saturating_mul(1_000_000);
    let enough = (!lead_gone && !stalled).then_some(threshold);
    let seen = team.seen(&scene.look.budget, enough)?;
    let newest = Time::from_millis(seen.newest / 1_000_000);
    // The later of both: an odd value never removes a team that somebody is making right now.
    let since = match created {
        Some(Ok(time)) => time.max(newest),
        _ => newest,
    };
    let is_old = !is_young(since);
    if !is_old && !lead_gone && !stalled {
        return Ok(None);
    }
    let mut evidence = Vec::new();
    if let Some(Err(odd)) = created {
        evidence.push(format!("{odd}: the newest change of its files counts"));
    }
    let signs = signs::gather(scene, &team)?;
    let age = now.since(since);
    let action = if team.is_ours() {
        match ours(scene, &team, &signs, age, is_old, &mut evidence) {
            Some(action) => action,
            None => return Ok(None),
        }
    } else {
        native(&team, &signs, age, is_old, &mut evidence)
    };
    // Whoever has a lead is no orphan; dead panes are listed in any case.
    let keeps = |found: &Zombie| found.kind == Kind::Pane || signs.lead_gone.is_some();
    let mut members: Vec<Zombie> = signs.members.iter().filter(|f| keeps(f)).cloned().collect();
    for member in &mut members {
        member.age = age;
        member.evidence.extend(signs.lead_gone.clone());
    }
    Ok(Some(Judged {
        zombie: Zombie {
            kind: Kind::Team,
            name: team.name.clone(),
            team: team.name.clone(),
            age,
            evidence,
            action,
            command: match action {
                Action::Reap => REAP_COMMAND.to_owned(),
                Action::Keep => by_hand(scene, &team),
            },
        },
        members,
        folder: Some((team, seen)),
    }))
}

/// A team of Claude Code: gone on proof at any age, or old without any sign of life.
fn native(
    team: &TeamFolder,
    signs: &Signs,
    age: Duration,
    is_old: bool,
    evidence: &mut Vec<String>,
) -> Action {
    evidence.extend(signs.lead_gone.clone());
    let restored = !matches!(team.dir.stamp(layout::RESTORED), Ok(None));
    let over = signs.lead_gone.is_some()
        && signs.are_none()
        && !signs.unproven
        && signs.open_tasks == 0
        && !restored;
    if over {
        evidence.push("every other member is proven stopped".to_owned());
        return Action::Reap;
    }
    if is_old && signs.are_none() {
        evidence.push(format!("no change for {}, no sign of life", say_span(age)));
        return Action::Reap;
    }
    if is_old {
        evidence.push(verdict_of_old(signs).to_owned());
    }
    evidence.extend(signs.alive.iter().chain(&signs.unsure).cloned());
    if !is_old && signs.are_none() {
        evidence.push(match (signs.open_tasks, restored) {
            (0, true) => "it was restored from the trash".to_owned(),
            (0, false) => "not every member is proven stopped".to_owned(),
            (open, _) => format!(
                "{open} open task{}, which a resumed session would go on with",
                plural(open)
            ),
        });
    }
    Action::Keep
}

/// A team of ours: only when its run has finished and nothing is left to do. `None` when it simply lives.
fn ours(
    scene: &Scene<'_>,
    team: &TeamFolder,
    signs: &Signs,
    age: Duration,
    is_old: bool,
    evidence: &mut Vec<String>,
) -> Option<Action> {
    if !signs.are_none() {
        if !is_old {
            return None;
        }
        evidence.push(verdict_of_old(signs).to_owned());
        evidence.extend(signs.alive.iter().chain(&signs.unsure).cloned());
        return Some(Action::Keep);
    }
    let run = run_of(scene, team);
    let open = signs.open_tasks;
    evidence.push(format!("no change for {}, no sign of life", say_span(age)));
    match run {
        Run::Deleted => evidence.push("its removal was begun and not finished".to_owned()),
        Run::Started => evidence.push("its run has not finished; it can be resumed".to_owned()),
        Run::None => evidence.push("it has no run that finished".to_owned()),
        Run::Finished => evidence.push("its run has finished".to_owned()),
    }
    if open > 0 {
        evidence.push(format!("{open} open task{}", plural(open)));
    }
    let over = is_old && run == Run::Finished && open == 0;
    Some(if over { Action::Reap } else { Action::Keep })
}

fn verdict_of_old(signs: &Signs) -> &'static str {
    if signs.alive.is_empty() {
        "old, perhaps alive"
    } else {
        "old, alive"
    }
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// Whether a run of ours goes on by its journal, while the process that hosted it is gone and nobody resumed it.
fn is_stalled(scene: &Scene<'_>, team: &TeamFolder) -> bool {
    let host = team.config().and_then(TeamConfig::host);
    host.is_some_and(|host| scene.look.machine.life(&host) == Life::Gone)
        && matches!(run_of(scene, team), Run::Started | Run::Deleted)
}

pub(super) fn run_of(scene: &Scene<'_>, team: &TeamFolder) -> Run {
    let Ok(name) = team.name.parse::<TeamName>() else {
        return Run::None;
    };
    let store = FileStore::open(
        scene.look.layout,
        Arc::new(SystemClock),
        Settings::default(),
    );
    let Ok(page) = store.and_then(|store| store.last_events(&name, LAST_EVENTS)) else {
        return Run::None;
    };
    if page
        .events
        .last()
        .is_some_and(|event| event.is(EventType::TeamDeleted))
    {
        return Run::Deleted;
    }
    let last = page
        .events
        .iter()
        .rev()
        .find_map(|event| match event.known_kind()? {
            EventType::RunStarted | EventType::RunResumed => Some(Run::Started),
            EventType::RunFinished => Some(Run::Finished),
            _ => None,
        });
    last.unwrap_or(Run::None)
}

/// Something that is never touched.
pub(super) fn odd(scene: &Scene<'_>, name: &str, why: String) -> Judged {
    let stamp = scene
        .teams
        .as_ref()
        .and_then(|teams| teams.stamp(name).ok()?);
    let path = scene.look.layout.claude.join(layout::TEAMS).join(name);
    Judged {
        zombie: Zombie {
            kind: Kind::Team,
            name: name.to_owned(),
            team: name.to_owned(),
            age: stamp.map_or(Duration::ZERO, |stamp| scene.age(stamp.modified)),
            evidence: vec![why],
            action: Action::Keep,
            command: shell::remove(&[&path]),
        },
        members: Vec::new(),
        folder: None,
    }
}

/// The command for a team that a person decides about.
fn by_hand(scene: &Scene<'_>, team: &TeamFolder) -> String {
    if team.is_ours() {
        return format!("teamster team delete {}", shell::word(&team.name));
    }
    let claude: &Path = &scene.look.layout.claude;
    let folder = claude.join(layout::TEAMS).join(&team.name);
    let tasks = claude.join(layout::TASKS).join(&team.name);
    match team.tasks {
        Some(_) => shell::remove(&[&folder, &tasks]),
        None => shell::remove(&[&folder]),
    }
}

//! What runs that are over leave in a project: references, reports, logs and records.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};
use teamster_fs::{Dir, FileKind, layout, remove_tree, team_store};
use teamster_isolate::git::{self, KeptRef, Repo};
use teamster_journal::payload::RunEnd;
use teamster_journal::{EventKind, EventType};
use teamster_store::{Clock, SystemClock};
use teamster_types::time::say_span;
use teamster_types::{TeamName, Time};

use super::live::RUN_GOES_ON;
use crate::context::Context;
use crate::error::Result;

/// Ends of a run after which it is never taken up again.
const FINAL: [RunEnd; 3] = [RunEnd::Complete, RunEnd::Rejected, RunEnd::RolledBack];
/// The kinds of which the last tells whether a run is over.
const LAST_OF_RUN: [EventType; 3] = [
    EventType::RunStarted,
    EventType::RunResumed,
    EventType::RunFinished,
];

/// Whether a run may still need what it left.
enum Need {
    /// It goes on, or can be taken up again.
    All,
    /// It is over, and people may still look at the team.
    Logs,
    /// Its team is gone.
    Nothing,
}

/// What is left of a run that ended longer ago than such things are kept.
pub(super) struct OldRun {
    team: TeamName,
    age: Duration,
    /// References whose commits a branch of the user's has.
    landed: Vec<KeptRef>,
    /// References whose commits are nowhere else. They stay, and so does what tells about them.
    unlanded: Vec<KeptRef>,
    /// Folders, by their names from the project on.
    folders: Vec<Vec<String>>,
}

impl OldRun {
    /// Finds everything of runs that is older than the setting `gc.keep`.
    pub(super) fn find(context: &Context, repo: &Repo, only: Option<&str>) -> Result<Vec<Self>> {
        let only: Option<TeamName> = only.map(str::parse).transpose()?;
        let Some(project) = Dir::open_root(repo.project())? else {
            return Ok(Vec::new());
        };
        let mut refs: BTreeMap<TeamName, Vec<KeptRef>> = BTreeMap::new();
        for kept in repo.kept_refs()? {
            refs.entry(kept.team.clone()).or_default().push(kept);
        }
        let mut teams: BTreeSet<TeamName> = refs.keys().cloned().collect();
        for above in places("") {
            if let Some(dir) = opened(&project, &above[..above.len() - 1])? {
                teams.extend(dir.entries()?.iter().filter_map(|e| e.name.parse().ok()));
            }
        }
        teams.retain(|team| only.as_ref().is_none_or(|only| only == team));
        let there = context.read()?.teams()?;
        let there: BTreeSet<String> = there.into_iter().map(|entry| entry.name).collect();
        let now = SystemClock.now();
        let mut found = Vec::new();
        for team in teams {
            let refs = refs.remove(&team).unwrap_or_default();
            let Some(mut run) = Self::of_team(&project, team, refs, now)? else {
                continue;
            };
            if run.age < context.config.gc_keep.value {
                continue;
            }
            match need(context, repo, &project, &run.team, &there)? {
                Need::All => continue,
                Need::Logs => run.folders.retain(|place| is_report(place)),
                Need::Nothing => {}
            }
            if !run.unlanded.is_empty() {
                run.folders.clear();
            }
            if run.goes() || !run.unlanded.is_empty() {
                found.push(run);
            }
        }
        Ok(found)
    }

    /// What is left of one team's run; `None` when nothing tells how old it is.
    fn of_team(
        project: &Dir,
        team: TeamName,
        refs: Vec<KeptRef>,
        now: Time,
    ) -> Result<Option<Self>> {
        let mut newest = refs
            .iter()
            .filter_map(|kept| Some(Time::from_millis(kept.made?.saturating_mul(1_000))))
            .max();
        let mut folders = Vec::new();
        let archived = archived(project, &team)?;
        for place in places(team.as_str()).into_iter().chain(archived) {
            if let Some(dir) = opened(project, &place)? {
                newest = newest.max(changed(&dir)?);
                folders.push(place);
            }
        }
        let Some(newest) = newest else {
            return Ok(None);
        };
        let (landed, unlanded): (Vec<_>, Vec<_>) =
            refs.into_iter().partition(|kept| kept.is_landed);
        Ok(Some(Self {
            // A moment that is still to come, because the clock was set back, is no age.
            age: now.since(newest),
            team,
            landed,
            unlanded,
            folders,
        }))
    }

    /// Whether anything of it can go.
    pub(super) fn goes(&self) -> bool {
        !self.landed.is_empty() || !self.folders.is_empty()
    }

    /// Why some of it stays, and the command that removes that all the same.
    pub(super) fn kept(&self) -> Option<(String, String)> {
        let first = self.unlanded.first()?;
        let more = match self.unlanded.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let why = format!("{}{more}: in no branch of yours", first.name);
        Some((why, format!("git update-ref -d {}", first.name)))
    }

    /// Removes what can go, the references first; why it stays otherwise. No run begins meanwhile. With `dry_run` nothing
    /// is removed.
    pub(super) fn remove(&self, repo: &Repo, dry_run: bool) -> Result<Option<String>> {
        let Some(_held) = team_store::hold_off_runs(repo.project())? else {
            return Ok(Some(RUN_GOES_ON.to_owned()));
        };
        if dry_run {
            return Ok(None);
        }
        for kept in &self.landed {
            repo.forget(kept)?;
        }
        let Some(project) = Dir::open_root(repo.project())? else {
            return Ok(None);
        };
        for folder in &self.folders {
            if let Some((name, above)) = folder.split_last()
                && let Some(dir) = opened(&project, above)?
            {
                remove_tree(&dir, name)?;
            }
        }
        Ok(None)
    }

    /// What goes, in words.
    pub(super) fn words(&self) -> String {
        let mut parts = Vec::new();
        match self.landed.len() {
            0 => {}
            1 => parts.push("1 reference".to_owned()),
            count => parts.push(format!("{count} references")),
        }
        parts.extend(self.folders.iter().map(|folder| folder.join("/")));
        let (team, age) = (&self.team, say_span(self.age));
        format!(
            "what the run of {team} left {age} ago: {}",
            parts.join(", ")
        )
    }

    /// The name of its team.
    pub(super) fn team(&self) -> &TeamName {
        &self.team
    }

    pub(super) fn to_json(&self) -> Value {
        let names = |refs: &[KeptRef]| -> Vec<String> {
            refs.iter().map(|kept| kept.name.clone()).collect()
        };
        let folders = self.folders.iter().map(|folder| folder.join("/"));
        let kept = self.kept();
        json!({
            "team": self.team,
            "ageSeconds": self.age.as_secs(),
            "references": names(&self.landed),
            "folders": folders.collect::<Vec<_>>(),
            "keptReferences": names(&self.unlanded),
            "kept": kept.as_ref().map(|(why, _)| why),
            "command": kept.as_ref().map(|(_, command)| command),
        })
    }
}

/// Every place of a team's in a project, by names from the project on.
fn places(team: &str) -> Vec<Vec<String>> {
    let [state, agents] = ["state", "agents"];
    let bridges = layout::BRIDGES;
    let worktrees = layout::WORKTREES;
    [
        vec![layout::OMC, "reports", team],
        vec![layout::OMC, layout::LOGS, team],
        vec![layout::OMC, state, agents, team],
        [&bridges[..], &[team]].concat(),
        [&worktrees[..], &[team]].concat(),
    ]
    .iter()
    .map(|place| place.iter().map(ToString::to_string).collect())
    .collect()
}

/// Whether a place tells what a run came to, instead of how.
fn is_report(place: &[String]) -> bool {
    place.first().is_some_and(|name| name == layout::PARTY)
        || place.get(1).is_some_and(|name| name == "reports")
}

/// Sessions of a team's runs that made room for later ones.
fn archived(project: &Dir, team: &TeamName) -> Result<Vec<Vec<String>>> {
    let above = [layout::PARTY.to_owned(), layout::PARTY_ARCHIVE.to_owned()];
    let Some(dir) = opened(project, &above)? else {
        return Ok(Vec::new());
    };
    let is_its = |name: &str| layout::team_of_session(name) == Some(team.as_str());
    let names = dir.entries()?.into_iter().map(|entry| entry.name);
    Ok(names
        .filter(|name| is_its(name))
        .map(|name| [&above[..], &[name]].concat())
        .collect())
}

/// Whether a team or its run may still need what is there.
fn need(
    context: &Context,
    repo: &Repo,
    project: &Dir,
    team: &TeamName,
    there: &BTreeSet<String>,
) -> Result<Need> {
    let claude = &context.layout.claude;
    let bridges = places(team.as_str()).swap_remove(3);
    if let Some(dir) = opened(project, &bridges)?
        && dir.entries()?.iter().any(|entry| {
            layout::worker_of_heartbeat(&entry.name).is_some()
                || layout::worker_of_launch(&entry.name).is_some()
        })
    {
        // A worker lives, or somebody has to see to what a dead one left.
        return Ok(Need::All);
    }
    let is_left = !git::list(repo, team)?.is_empty();
    let is_elsewhere = team_store::other_store(repo.project(), team, claude).is_some();
    if is_left || is_elsewhere {
        return Ok(Need::All);
    }
    if !there.contains(team.as_str()) {
        return Ok(Need::Nothing);
    }
    let last = context
        .read()?
        .last_of(team, &LAST_OF_RUN.map(EventType::name))?;
    let is_over = last.is_some_and(|event| match event.payload() {
        EventKind::RunFinished(finished) => finished.end().is_some_and(|end| FINAL.contains(&end)),
        _ => false,
    });
    Ok(if is_over { Need::Logs } else { Need::All })
}

/// A folder below the project; `None` when it is missing, or when a link or a file stands in its place.
fn opened(project: &Dir, place: &[String]) -> Result<Option<Dir>> {
    let child = |dir: &Dir, name: &str| match dir.child(name) {
        Err(error) if error.is_unsafe() => Ok(None),
        found => found,
    };
    let Some((first, rest)) = place.split_first() else {
        return Ok(None);
    };
    let mut dir = child(project, first)?;
    for name in rest {
        dir = match dir {
            Some(dir) => child(&dir, name)?,
            None => return Ok(None),
        };
    }
    Ok(dir)
}

/// When anything in a folder was last changed.
fn changed(dir: &Dir) -> Result<Option<Time>> {
    let mut newest = None;
    for entry in dir.entries()? {
        let Some(stamp) = dir.stamp(&entry.name)? else {
            continue;
        };
        if stamp.kind == FileKind::Folder
            && let Some(inner) = dir.child(&entry.name)?
        {
            newest = newest.max(changed(&inner)?);
        } else {
            newest = newest.max(Some(Time::from_millis(stamp.modified / 1_000_000)));
        }
    }
    Ok(newest)
}

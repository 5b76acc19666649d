//! What runs that are over leave in a project: references, reports, logs and records.
//!
//! A run is over for good when it landed, was rejected or rolled back, or when its team is gone. References go whose
//! commits a branch of the user's has, and then the folders; a commit that is nowhere else keeps everything about it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use teamster_fs::{Dir, FileKind, layout, remove_tree, team_store};
use teamster_isolate::git::{self, KeptRef, Repo};
use teamster_journal::{EventType, RunState};
use teamster_store::Read as _;
use teamster_types::{TeamName, Time};

use crate::Result;
use crate::worktrees::{ProjectGc, RUN_GOES_ON};

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
#[derive(Debug)]
pub struct OldRun {
    /// The team whose run it was.
    pub team: TeamName,
    /// How long ago anything of it was last changed.
    pub age: Duration,
    /// References whose commits a branch of the user's has. They go.
    pub landed: Vec<KeptRef>,
    /// References whose commits are nowhere else. They stay, and so does what tells about them.
    pub unlanded: Vec<KeptRef>,
    /// Folders that go, by their names from the project on.
    pub folders: Vec<Vec<String>>,
}

impl OldRun {
    /// Finds everything of runs that is older than `keep`.
    pub fn find(
        gc: &ProjectGc<'_>,
        repo: &Repo,
        only: Option<&str>,
        keep: Duration,
        now: Time,
    ) -> Result<Vec<Self>> {
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
        let there = gc.store(gc.layout)?.teams()?;
        let there: BTreeSet<String> = there.into_iter().map(|entry| entry.name).collect();
        let mut found = Vec::new();
        for team in teams {
            let refs = refs.remove(&team).unwrap_or_default();
            let Some(mut run) = Self::of_team(&project, team, refs, now)? else {
                continue;
            };
            if run.age < keep {
                continue;
            }
            match need(gc, repo, &project, &run.team, &there)? {
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

    /// Returns what is left of one team's run; `None` when nothing tells how old it is.
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
        let earlier = earlier_reports(project, &team)?;
        for place in [places(team.as_str()), archived, earlier].concat() {
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

    /// Returns whether anything of it can go.
    pub fn goes(&self) -> bool {
        !self.landed.is_empty() || !self.folders.is_empty()
    }

    /// Returns why some of it stays, and the command that removes that all the same.
    pub fn kept(&self) -> Option<(String, String)> {
        let first = self.unlanded.first()?;
        let more = match self.unlanded.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let why = format!("{}{more}: in no branch of yours", first.name);
        Some((why, format!("git update-ref -d {}", first.name)))
    }

    /// Removes what can go, the references first, and returns why it stays otherwise. No run begins meanwhile. With
    /// `dry_run` nothing is removed.
    pub fn remove(&self, repo: &Repo, dry_run: bool) -> Result<Option<String>> {
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
}

/// Returns every place of a team's in a project, by names from the project on.
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
        vec![layout::PARTY, layout::PARTY_SESSIONS, team],
    ]
    .iter()
    .map(|place| place.iter().map(ToString::to_string).collect())
    .collect()
}

/// Returns whether a place tells what a run came to, instead of how.
fn is_report(place: &[String]) -> bool {
    place.first().is_some_and(|name| name == layout::PARTY)
        || place.get(1).is_some_and(|name| name == "reports")
}

/// Returns what earlier teams of the same name left with the reports.
fn earlier_reports(project: &Dir, team: &TeamName) -> Result<Vec<Vec<String>>> {
    let [ours, reports, _] = layout::report_folders(team);
    let above = [ours.to_owned(), reports.to_owned()];
    let Some(dir) = opened(project, &above)? else {
        return Ok(Vec::new());
    };
    let names = dir.entries()?.into_iter().map(|entry| entry.name);
    let is_its = |name: &String| {
        let number = name
            .strip_prefix(team.as_str())
            .and_then(|rest| rest.strip_prefix('.'));
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    };
    Ok(names
        .filter(is_its)
        .map(|name| [&above[..], &[name]].concat())
        .collect())
}

/// Returns the sessions of a team's runs that made room for later ones.
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

/// Returns whether a team or its run may still need what is there.
fn need(
    gc: &ProjectGc<'_>,
    repo: &Repo,
    project: &Dir,
    team: &TeamName,
    there: &BTreeSet<String>,
) -> Result<Need> {
    let claude = &gc.layout.claude;
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
    let mut run = RunState::default();
    let kinds = RunState::TURNING_POINTS.map(EventType::name);
    if let Some(last) = gc.store(gc.layout)?.last_of(team, &kinds)? {
        run.apply(&last);
    }
    Ok(if run.is_over_for_good() {
        Need::Logs
    } else {
        Need::All
    })
}

/// Returns a folder below the project; `None` when it is missing, or when a link or a file stands in its place.
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

/// Returns when anything in a folder was last changed.
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

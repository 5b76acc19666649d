//! Leftovers of finished runs in a project: references, reports, logs and records.
//!
//! A run is over for good when it landed, was rejected or rolled back, or when its team is gone. First the references
//! are removed whose commits are on a branch of the user's, and then the folders; a commit that exists nowhere else
//! keeps everything about its run.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use teamster_fs::{Dir, FileKind, layout, remove_tree, team_store};
use teamster_isolate::git::{self, KeptRef, Repo};
use teamster_journal::{EventType, RunState};
use teamster_store::ReadStore as _;
use teamster_types::{TeamName, Time};

use crate::Result;
use crate::worktrees::{ProjectGc, RUN_GOES_ON};

/// How much of a run's leftovers may still be needed.
enum LeftoverNeed {
    /// Everything: the run is active or can be resumed.
    All,
    /// The logs: the run is over, but users may still look at the team.
    Logs,
    /// Nothing: the team is gone.
    Nothing,
}

/// The leftovers of a run that ended longer ago than the retention time.
#[derive(Debug)]
pub struct OldRun {
    /// The team of the run.
    pub team: TeamName,
    /// The time since any of the leftovers last changed.
    pub age: Duration,
    /// References whose commits are on a branch of the user's. They are removed.
    pub landed: Vec<KeptRef>,
    /// References whose commits exist nowhere else. They are kept, and so is everything that documents them.
    pub unlanded: Vec<KeptRef>,
    /// Folders to remove, as path components below the project.
    pub folders: Vec<Vec<String>>,
}

impl OldRun {
    /// Finds all leftovers of runs that are older than `keep`.
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
                LeftoverNeed::All => continue,
                LeftoverNeed::Logs => run.folders.retain(|place| is_report(place)),
                LeftoverNeed::Nothing => {}
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

    /// Returns the leftovers of one team's run; `None` when nothing shows how old they are.
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
            // A time in the future, after the clock was set back, counts as no age.
            age: now.since(newest),
            team,
            landed,
            unlanded,
            folders,
        }))
    }

    /// Returns whether any of the leftovers can be removed.
    pub fn goes(&self) -> bool {
        !self.landed.is_empty() || !self.folders.is_empty()
    }

    /// Returns why some of the leftovers are kept, and the command that removes them anyway.
    pub fn kept(&self) -> Option<(String, String)> {
        let first = self.unlanded.first()?;
        let more = match self.unlanded.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let why = format!("{}{more}: in no branch of yours", first.name);
        Some((why, format!("git update-ref -d {}", first.name)))
    }

    /// Removes the leftovers, references first, or returns why they are kept. No run can start meanwhile. With
    /// `dry_run` nothing is removed.
    pub fn remove(&self, repo: &Repo, dry_run: bool) -> Result<Option<String>> {
        let Some(_held) = team_store::block_new_runs(repo.project())? else {
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

/// Returns every folder of a team in a project, as path components below the project.
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

/// Returns whether a folder documents the result of a run, as opposed to its course.
fn is_report(place: &[String]) -> bool {
    place.first().is_some_and(|name| name == layout::PARTY)
        || place.get(1).is_some_and(|name| name == "reports")
}

/// Returns the report folders of earlier teams of the same name.
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

/// Returns the archived sessions of a team's runs, which were replaced by later ones.
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

/// Returns how much of the leftovers the team or its run may still need.
fn need(
    gc: &ProjectGc<'_>,
    repo: &Repo,
    project: &Dir,
    team: &TeamName,
    there: &BTreeSet<String>,
) -> Result<LeftoverNeed> {
    let claude = &gc.layout.claude;
    let bridges = places(team.as_str()).swap_remove(3);
    if let Some(dir) = opened(project, &bridges)?
        && dir.entries()?.iter().any(|entry| {
            layout::worker_of_heartbeat(&entry.name).is_some()
                || layout::worker_of_launch(&entry.name).is_some()
        })
    {
        // A worker is alive, or the leftovers of a dead one have to be cleaned up first.
        return Ok(LeftoverNeed::All);
    }
    let is_left = !git::list(repo, team)?.is_empty();
    let is_elsewhere = team_store::other_store(repo.project(), team, claude).is_some();
    if is_left || is_elsewhere {
        return Ok(LeftoverNeed::All);
    }
    if !there.contains(team.as_str()) {
        return Ok(LeftoverNeed::Nothing);
    }
    let mut run = RunState::default();
    let kinds = RunState::TURNING_POINTS.map(EventType::name);
    if let Some(last) = gc.store(gc.layout)?.last_of(team, &kinds)? {
        run.apply(&last);
    }
    Ok(if run.is_over_for_good() {
        LeftoverNeed::Logs
    } else {
        LeftoverNeed::All
    })
}

/// Opens a folder below the project; `None` when it is missing, or when a symbolic link or a file is in its place.
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

/// Returns the latest modification time of any file in a folder.
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

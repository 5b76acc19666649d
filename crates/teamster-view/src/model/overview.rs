//! A summary of every team on the machine.

use schemars::JsonSchema;
use serde::Serialize;
use teamster_store::{ReadStore, Result, TeamEntry};
use teamster_types::health::Limits;
use teamster_types::progress::Progress;
use teamster_types::{TeamName, Time};

use super::live::kind;
use super::stage::JournalReach;
use super::team::{TeamKind, Viewed};
use crate::{status, teams};

/// One team, as the list of teams shows it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TeamRow {
    /// Its identifier in the API.
    pub id: String,
    /// Its own name. Another program may have chosen any name.
    pub name: String,
    /// The program that created the team.
    pub kind: Option<TeamKind>,
    /// The project it works on.
    pub project: Option<String>,
    /// Whether it is active.
    pub state: Viewed,
    /// The stage of its run.
    pub stage: Option<String>,
    /// The outcome of its run; `None` until the run has finished.
    pub outcome: Option<String>,
    /// How many workers it has.
    pub members: usize,
    /// Its progress.
    pub progress: Progress,
    /// How many things need a person.
    pub problems: usize,
    /// Whether the run waits for a person's decision.
    pub awaits_approval: bool,
    /// The number of answers that agents expect from a person.
    pub questions: usize,
    /// The last position of its journal; 0 when it has none.
    pub seq: u64,
    /// The time of the last event.
    pub updated_at: Option<Time>,
    /// The team in the store that a state file describes as well.
    pub same_as: Option<String>,
    /// What is wrong with its registry, or why nothing newer is known.
    pub problem: Option<String>,
}

/// A project that is watched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Project")]
pub struct ProjectView {
    /// Its folder.
    pub path: String,
    /// The last component of the path, for people.
    pub name: String,
    /// `inactive` when there is neither a team nor a state file; otherwise the most active state among them.
    pub state: Viewed,
    /// The number of teams and sessions.
    pub teams: usize,
    /// Whether the folder exists.
    pub exists: bool,
}

/// All teams and projects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Overview")]
pub struct TeamsOverview {
    /// The teams: those that need a person first, then live ones, then by name.
    pub teams: Vec<TeamRow>,
    /// The projects that are watched, by path.
    pub projects: Vec<ProjectView>,
}

/// The prefix of a team's API identifier when the name of its folder is not a valid team name.
const ODD: &str = "odd~";

/// The number of events from which searching a journal takes noticeable time.
const LONG: u64 = 20_000;

impl TeamRow {
    /// Returns the summary of one team in the store.
    pub fn of_entry(read: &dyn ReadStore, entry: &TeamEntry, limits: &Limits) -> Result<Self> {
        Self::by(read, entry, limits, JournalReach::Whole)
    }

    /// Returns the summary of one team without delay, and whether it is complete: of a long journal only the end is
    /// read, so the stage of a run may be missing, and open questions, permission requests, undelivered messages and
    /// damaged lines are.
    pub fn at_first(
        read: &dyn ReadStore,
        entry: &TeamEntry,
        limits: &Limits,
    ) -> Result<(Self, bool)> {
        let team = entry.name.parse::<TeamName>();
        let is_long = team.is_ok_and(|team| read.position(&team).is_ok_and(|last| last > LONG));
        if is_long {
            let row = Self::by(read, entry, limits, JournalReach::Recent)?;
            return Ok((row, false));
        }
        Ok((Self::of_entry(read, entry, limits)?, true))
    }

    fn by(
        read: &dyn ReadStore,
        entry: &TeamEntry,
        limits: &Limits,
        reach: JournalReach,
    ) -> Result<Self> {
        let short = teams::row_by(read, entry, &|team| reach.run(read, team));
        let status = status::of_entry_by(read, entry, limits, reach)?;
        let questions = status.answers_wanted();
        let team = entry.name.parse::<TeamName>().ok();
        let mut last = None;
        if let (Some(team), None) = (&team, &short.problem) {
            last = read.last_events(team, 1)?.events.pop();
        }
        Ok(Self {
            id: match team {
                Some(team) => team.as_str().to_owned(),
                None => format!("{ODD}{}", entry.name),
            },
            name: short.name,
            kind: short.kind.map(kind),
            project: short.project,
            state: short.state,
            stage: status.stage,
            outcome: status.outcome,
            members: short.members,
            progress: status.progress,
            problems: status.problems.len(),
            awaits_approval: status.run.awaits_approval,
            questions,
            seq: last.as_ref().map_or(0, |event| event.seq),
            updated_at: last.map(|event| event.ts),
            same_as: None,
            problem: short.problem,
        })
    }
}

impl TeamsOverview {
    /// Sorts the rows, marks the sessions that describe a team in the store, and summarises the projects.
    pub fn of(mut teams: Vec<TeamRow>, projects: &[(String, bool)]) -> Self {
        let known: Vec<(String, String, Option<String>)> = teams
            .iter()
            .filter(|row| row.kind != Some(TeamKind::StateFile))
            .map(|row| (row.name.clone(), row.id.clone(), row.project.clone()))
            .collect();
        for row in &mut teams {
            if row.kind == Some(TeamKind::StateFile) {
                let same = known
                    .iter()
                    .find(|(name, _, project)| *name == row.name && *project == row.project);
                row.same_as = same.map(|(_, id, _)| id.clone());
            }
        }
        one_row_for_each_native(&mut teams);
        teams.sort_by_cached_key(|row| {
            (
                !(row.awaits_approval || row.questions > 0),
                row.state,
                natural(&row.name),
                row.id.clone(),
            )
        });
        let projects = projects
            .iter()
            .map(|(path, exists)| {
                let here = teams
                    .iter()
                    .filter(|row| row.project.as_deref() == Some(path));
                ProjectView {
                    name: path.rsplit('/').next().unwrap_or(path).to_owned(),
                    state: here
                        .clone()
                        .map(|row| row.state)
                        .min()
                        .unwrap_or(Viewed::Inactive),
                    teams: here.count(),
                    path: path.clone(),
                    exists: *exists,
                }
            })
            .collect();
        Self { teams, projects }
    }
}

/// Merges the row of a state file that describes a team of Claude Code into the row of that team.
fn one_row_for_each_native(teams: &mut Vec<TeamRow>) {
    let is_native = |row: &&TeamRow| row.kind == Some(TeamKind::Claude);
    let natives: Vec<String> = teams
        .iter()
        .filter(is_native)
        .map(|row| row.id.clone())
        .collect();
    let (told, mut rest): (Vec<TeamRow>, Vec<TeamRow>) =
        std::mem::take(teams).into_iter().partition(|row| {
            row.same_as
                .as_ref()
                .is_some_and(|same| natives.contains(same))
        });
    for row in &mut rest {
        let of_row = told
            .iter()
            .find(|told| told.same_as.as_ref() == Some(&row.id));
        if let Some(session) = of_row {
            row.stage = row.stage.take().or_else(|| session.stage.clone());
            row.updated_at = row.updated_at.max(session.updated_at);
            if row.progress.total_tasks == 0 {
                row.progress = session.progress;
            }
        }
    }
    *teams = rest;
}

/// Splits a name for natural sorting, so that `t2` comes before `t10`.
fn natural(name: &str) -> Vec<(String, u128)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let letters = rest
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(rest.len());
        let (word, behind) = rest.split_at(letters);
        let digits = behind.find(|c: char| !c.is_ascii_digit());
        let (number, behind) = behind.split_at(digits.unwrap_or(behind.len()));
        // A number that overflows counts as the largest.
        let number = if number.is_empty() {
            0
        } else {
            number.parse().unwrap_or(u128::MAX)
        };
        parts.push((word.to_lowercase(), number));
        rest = behind;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::natural;

    #[test]
    fn numbers_in_names_are_in_order() {
        let mut names = ["t10", "t2", "t1", "a", "t2-b", "t2-a10", "t2-a9"];
        names.sort_by_cached_key(|name| natural(name));
        assert_eq!(names, ["a", "t1", "t2", "t2-a9", "t2-a10", "t2-b", "t10"]);
    }
}

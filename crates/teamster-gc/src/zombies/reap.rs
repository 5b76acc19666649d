//! Removing what is over: into the trash, and out of it for good after seven days.

use std::collections::VecDeque;
use std::time::Duration;

use serde::Serialize;
use teamster_fs::FsError;
use teamster_fs::layout::{self, Layout};
use teamster_fs::proc::Machine;
use teamster_isolate::OrTrace as _;
use teamster_store::{Result, keep_journal};
use teamster_types::process::ProcessId;
use teamster_types::team::TeamConfig;
use teamster_types::{TeamName, Time};

use super::folder::{self, Cut, Found, TeamFolder};
use super::judge::{self, Judged};
use super::leftovers::Place;
use super::look::{Budget, Look, Scene};
use super::members::text;
use super::panes::{self, Panes};
use super::processes;
use super::scan::{self, Item, Target};
use super::told;
use super::trash::{self, Moved, Trash};
use super::{Action, Kind, TTL, Zombie};
use crate::GcError;
use crate::worktrees::ProjectGc;

/// Something that was found, and what was done with it.
#[derive(Clone, Debug, Serialize)]
pub struct Done {
    /// What it was.
    #[serde(flatten)]
    pub zombie: Zombie,
    /// Whether it is gone now.
    pub reaped: bool,
    /// The process that it was, if that is what was ended.
    #[serde(skip)]
    pub(super) process: Option<u32>,
    /// Where its files are kept for seven days.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trash: Option<String>,
    /// Why it could not be removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl Done {
    pub(super) fn untouched(zombie: Zombie) -> Self {
        Self {
            zombie,
            reaped: false,
            process: None,
            trash: None,
            problem: None,
        }
    }
}

/// What `zombies reap` did.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Outcome {
    /// Everything that was found.
    pub zombies: Vec<Done>,
    /// How many processes were ended.
    pub killed: usize,
    /// How many entries of the trash were older than seven days and are gone.
    pub purged: usize,
    /// What else went wrong.
    pub problems: Vec<String>,
}

impl Outcome {
    /// Removes the worktrees of teams that are gone, too, if git says that they hold nothing.
    pub fn reap_worktrees(&mut self, gc: &ProjectGc<'_>, dry_run: bool) {
        let trees = self.zombies.iter_mut();
        for done in trees.filter(|done| done.zombie.kind == Kind::Worktree && !done.reaped) {
            let (team, name) = (&done.zombie.team, &done.zombie.name);
            let removed = gc.repo().map_err(GcError::from);
            match removed.and_then(|repo| gc.remove_worktree(&repo, team, name, dry_run)) {
                Ok(None) => done.reaped = true,
                Ok(Some(why)) => done.zombie.evidence.push(why),
                // Without git nobody can say what it holds; then it stays.
                Err(error) => done.zombie.evidence.push(error.to_string()),
            }
        }
    }
}

/// What a hook did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Swept {
    /// Teams that are in the trash now.
    pub moved: Vec<String>,
    /// How many entries of the trash are gone for good.
    pub purged: usize,
    /// Whether everything was looked at in time.
    pub complete: bool,
}

/// How far `zombies reap` goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReapOptions {
    /// Whether nothing is removed and it is only said what would be.
    pub dry_run: bool,
    /// Whether processes and panes of ours that nobody waits for are ended, too. Only a person may ask for that.
    pub kill: bool,
}

/// Removes everything that `scan` would list with `reap`.
pub fn reap(look: &Look<'_>, options: ReapOptions) -> Result<Outcome> {
    let Some(scene) = Scene::open(look, None)? else {
        return Ok(Outcome::default());
    };
    let mut items = scan::items(&scene)?;
    for item in &mut items {
        let is_to_end = matches!(item.target, Target::Process(_) | Target::Pane(_));
        if is_to_end && options.kill {
            item.zombie.action = Action::Reap;
        }
    }
    if options.dry_run {
        let zombies = items.into_iter().map(|item| Done::untouched(item.zombie));
        return Ok(Outcome {
            zombies: zombies.collect(),
            ..Outcome::default()
        });
    }
    let needs_trash = items.iter().any(|item| matches!(item.target, Target::Team));
    let trash = Trash::open(&scene, needs_trash)?;
    if let Some(trash) = &trash {
        // A removal that was seen half done without the lock may have been another reaper's, in passing. What is half
        // done now was left by a dead one.
        let left: Vec<String> = trash::half_moved(&scene)?
            .into_iter()
            .map(|zombie| zombie.name)
            .collect();
        items.retain(|item| {
            !matches!(item.target, Target::HalfMoved) || left.contains(&item.zombie.name)
        });
        trash.finish(&scene)?;
    }
    let mut outcome = Outcome::default();
    let mut endings = VecDeque::new();
    if options.kill {
        let all: Vec<ProcessId> = items.iter().filter_map(Item::process).collect();
        endings = processes::end_all(look.machine, &all);
    }
    for item in items {
        let ending = item
            .process()
            .and_then(|process| Some((process, endings.pop_front()?)));
        let done = match ending {
            Some((process, ending)) => processes::ended(ending, &process, item.zombie),
            None => one(&scene, trash.as_ref(), options, item),
        };
        if let Some(done) = &done {
            tell(&scene, done);
        }
        outcome.zombies.extend(done);
    }
    let ended = |done: &&Done| done.reaped && done.process.is_some();
    outcome.killed = outcome.zombies.iter().filter(ended).count();
    if let Some(trash) = &trash {
        match trash.purge(&scene) {
            Ok((purged, problems)) => (outcome.purged, outcome.problems) = (purged, problems),
            // What was done before must still be reported.
            Err(error) => outcome.problems.push(error.to_string()),
        }
    }
    Ok(outcome)
}

/// `None` when it is not there any more: somebody else was faster.
fn one(scene: &Scene<'_>, trash: Option<&Trash>, options: ReapOptions, item: Item) -> Option<Done> {
    let Item { zombie, target } = item;
    match (target, trash) {
        (Target::Pane(pane), _) if options.kill => Some(panes::close(scene, &pane, zombie)),
        (Target::Team, Some(trash)) => team(scene, trash, zombie),
        (Target::HalfMoved, Some(_)) => {
            let left = trash::half_moved(scene).unwrap_or_default();
            let reaped = !left.iter().any(|other| other.name == zombie.name);
            Some(Done {
                reaped,
                ..Done::untouched(zombie)
            })
        }
        (Target::File(place), _) => Some(file(scene, &place, zombie)),
        _ => Some(Done::untouched(zombie)),
    }
}

/// Says in the team's journal what became of something in it. A whole team tells itself, on its way to the trash.
fn tell(scene: &Scene<'_>, done: &Done) {
    match done {
        Done { zombie, .. } if zombie.kind == Kind::Team => {}
        Done {
            zombie,
            reaped: true,
            ..
        } => told::reaped(scene, zombie),
        Done { zombie, .. } => told::found(scene, zombie),
    }
}

/// Judges once more, now that nobody else removes teams, and moves.
fn team(scene: &Scene<'_>, trash: &Trash, zombie: Zombie) -> Option<Done> {
    let problem = |zombie: Zombie, problem: String| {
        Some(Done {
            problem: Some(problem),
            ..Done::untouched(Zombie {
                action: Action::Keep,
                ..zombie
            })
        })
    };
    let judged = match judge::judge(scene, &zombie.name) {
        Ok(Some(judged)) => judged,
        Ok(None) => return None,
        Err(Cut::OutOfTime) => return Some(Done::untouched(zombie)),
        Err(Cut::Failed(error)) => return problem(zombie, error.to_string()),
    };
    match put(scene, trash, &judged) {
        Ok(Some(Moved::Trashed(path))) => Some(Done {
            reaped: true,
            trash: Some(path.display().to_string()),
            ..Done::untouched(judged.zombie)
        }),
        Ok(Some(Moved::Changed)) => problem(zombie, "somebody is changing it right now".to_owned()),
        Ok(None) => Some(Done::untouched(judged.zombie)),
        Err(error) => problem(zombie, error.to_string()),
    }
}

/// `None` when the verdict is not to remove it.
fn put(scene: &Scene<'_>, trash: &Trash, judged: &Judged) -> Result<Option<Moved>, FsError> {
    match (&judged.folder, judged.zombie.action) {
        (Some((folder, seen)), Action::Reap) => {
            let evidence = &judged.zombie.evidence;
            let moved = trash.put(scene, folder, *seen, evidence)?;
            if matches!(moved, Moved::Trashed(_)) && folder.is_ours() {
                told::reaped_team(scene, &folder.dir, &judged.zombie);
                keep_journal_of(folder);
            }
            Ok(Some(moved))
        }
        _ => Ok(None),
    }
}

/// A finished run can be replayed from its journal, also when the trash is empty again. If the project is gone, nobody
/// wants to.
fn keep_journal_of(team: &TeamFolder) {
    let project = team.config().and_then(TeamConfig::project);
    if let (true, Some(project), Ok(name)) =
        (team.is_ours(), project, team.name.parse::<TeamName>())
    {
        keep_journal(project, &name, &team.dir).or_trace("keep the journal of a team");
    }
}

fn file(scene: &Scene<'_>, place: &Place, zombie: Zombie) -> Done {
    match place.remove(scene) {
        Ok(reaped) => Done {
            reaped,
            ..Done::untouched(zombie)
        },
        Err(error) => Done {
            problem: Some(error.to_string()),
            ..Done::untouched(Zombie {
                command: place.command(),
                ..zombie
            })
        },
    }
}

/// Moves stale teams to the trash, within `time`. Starts no program and sends no signal, so a team with a pane is left
/// for `zombies reap`. Does nothing while somebody else removes teams.
pub fn sweep_at_session_start(
    layout: &Layout,
    machine: &Machine,
    now: Time,
    time: Duration,
) -> Result<Swept> {
    sweep(layout, machine, now, time, None)
}

/// Moves the team that the session leads to the trash, if every other member is proven stopped. For the end of a
/// session that does not go on under another id (`clear`, `resume`).
pub fn clean_up_at_session_end(
    layout: &Layout,
    machine: &Machine,
    now: Time,
    time: Duration,
    session: &str,
) -> Result<Swept> {
    sweep(layout, machine, now, time, Some(session))
}

fn sweep(
    layout: &Layout,
    machine: &Machine,
    now: Time,
    time: Duration,
    ended: Option<&str>,
) -> Result<Swept> {
    let look = Look {
        layout,
        machine,
        now,
        ttl: TTL,
        panes: Panes::NotAsked,
        budget: Budget::of(time),
    };
    let mut swept = Swept {
        moved: Vec::new(),
        purged: 0,
        complete: true,
    };
    let Some(scene) = Scene::open(&look, ended)? else {
        return Ok(swept);
    };
    let mut trash = Trash::open(&scene, false)?;
    if let Some(trash) = &trash {
        trash.finish(&scene)?;
    }
    for name in scene.team_names()? {
        if look.budget.is_spent() {
            swept.complete = false;
            break;
        }
        if name.starts_with('.') || ended.is_some_and(|session| !is_led_by(&scene, &name, session))
        {
            continue;
        }
        let judged = match judge::judge(&scene, &name) {
            Ok(Some(judged)) if judged.zombie.action == Action::Reap && is_quick(&judged) => judged,
            Err(Cut::OutOfTime) => {
                swept.complete = false;
                break;
            }
            // One that cannot be read hides no other.
            _ => continue,
        };
        if trash.is_none() {
            trash = Trash::open(&scene, true)?;
        }
        let Some(trash) = &trash else { continue };
        if let Ok(Some(Moved::Trashed(_))) = put(&scene, trash, &judged) {
            swept.moved.push(name);
        }
    }
    if let Some(trash) = trash.filter(|_| swept.complete) {
        swept.purged = trash.purge(&scene)?.0;
    }
    Ok(swept)
}

/// Whether moving it takes no time: a long journal is copied by `zombies reap`, not by a hook.
fn is_quick(judged: &Judged) -> bool {
    const LARGEST_JOURNAL: u64 = 1024 * 1024;
    let Some((team, _)) = &judged.folder else {
        return false;
    };
    let size = |name: &str| matches!(team.dir.stamp(name), Ok(Some(stamp)) if stamp.size > LARGEST_JOURNAL);
    !team.is_ours() || !(size(layout::JOURNAL) || size(&layout::journal_segment(1)))
}

fn is_led_by(scene: &Scene<'_>, name: &str, session: &str) -> bool {
    let Found::Team(team) = folder::open(scene, name) else {
        return false;
    };
    let lead = team
        .config()
        .map_or("", |config| text(config, "leadSessionId"));
    !session.is_empty() && lead == session
}

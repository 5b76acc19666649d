//! Everything that is over but still there. Nothing is changed.

use teamster_store::Result;
use teamster_types::process::ProcessId;

use super::folder::{self, Cut, Found};
use super::judge::{self, Judged};
use super::leftovers::{self, Left, Place};
use super::look::{Look, Scene};
use super::panes::{self, Pane};
use super::{Action, Zombie, odd_names, trash, worktrees};

/// What `zombies reap` would have to do with an item.
#[derive(Debug)]
pub(super) enum Target {
    /// Nothing.
    None,
    /// Move this team to the trash.
    Team,
    /// Finish a removal that was begun.
    HalfMoved,
    /// Remove a file.
    File(Place),
    /// End this process of ours, if that is wanted.
    Process(ProcessId),
    /// Close this pane of ours, if that is wanted.
    Pane(Pane),
}

/// Something that was found, and how it is removed.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) zombie: Zombie,
    pub(super) target: Target,
}

impl Item {
    /// The process that it is, where one may be ended.
    pub(super) fn process(&self) -> Option<ProcessId> {
        match &self.target {
            Target::Process(process) => Some(process.clone()),
            _ => None,
        }
    }
}

/// Finds everything that is over but still there.
pub fn scan(look: &Look<'_>) -> Result<Vec<Zombie>> {
    let Some(scene) = Scene::open(look, None)? else {
        return Ok(Vec::new());
    };
    Ok(items(&scene)?.into_iter().map(|item| item.zombie).collect())
}

pub(super) fn items(scene: &Scene<'_>) -> Result<Vec<Item>> {
    let mut found = Vec::new();
    let names = scene.team_names()?;
    for name in names.iter().filter(|name| !name.starts_with('.')) {
        of_team(scene, name, &mut found);
    }
    found.extend(odd_names::in_teams(scene)?.into_iter().map(|zombie| Item {
        zombie,
        target: Target::None,
    }));
    found.extend(
        leftovers::unfinished_teams(scene, &names)
            .into_iter()
            .map(Item::from),
    );
    found.extend(trash::half_moved(scene)?.into_iter().map(|zombie| Item {
        zombie,
        target: Target::HalfMoved,
    }));
    // The project may be any folder; what cannot be read there hides no team.
    for left in leftovers::workers_without_team(scene).unwrap_or_default() {
        found.push(left.into());
    }
    for (zombie, pane) in panes::dead_of_ours(scene) {
        found.push(Item {
            zombie,
            target: Target::Pane(pane),
        });
    }
    for zombie in worktrees::without_team(scene).unwrap_or_default() {
        found.push(Item {
            zombie,
            target: Target::None,
        });
    }
    Ok(found)
}

fn of_team(scene: &Scene<'_>, name: &str, found: &mut Vec<Item>) {
    let judged = match judge::judge(scene, name) {
        Ok(judged) => judged,
        Err(Cut::OutOfTime) => return,
        Err(Cut::Failed(error)) => {
            found.push(Item {
                zombie: judge::odd(scene, name, error.to_string()).zombie,
                target: Target::None,
            });
            return;
        }
    };
    let mut goes = false;
    if let Some(Judged {
        zombie, members, ..
    }) = judged
    {
        goes = zombie.action == Action::Reap;
        let target = if goes { Target::Team } else { Target::None };
        found.push(Item { zombie, target });
        found.extend(members.into_iter().map(|zombie| Item {
            zombie,
            target: Target::None,
        }));
    }
    if goes {
        return;
    }
    if let Found::Team(team) = folder::open(scene, name) {
        let left = [
            leftovers::locks(scene, &team),
            leftovers::workers(scene, &team),
        ];
        // What cannot be read here was said above, or vanished a moment ago.
        found.extend(left.into_iter().flatten().flatten().map(Item::from));
    }
}

impl From<Left> for Item {
    fn from(left: Left) -> Self {
        let target = match (left.place, left.process) {
            (Some(place), _) => Target::File(place),
            (None, Some(process)) => Target::Process(process),
            (None, None) => Target::None,
        };
        Self {
            zombie: left.zombie,
            target,
        }
    }
}

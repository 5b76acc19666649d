//! Work trees of workers whose team is gone. They are listed; whether one is clean and merged only git can say.

use teamster_fs::{Dir, FileKind, FsError, layout};

use super::look::Scene;
use super::{Action, Kind, Zombie};
use crate::shell;

/// Work trees in this project without a team.
pub(super) fn without_team(scene: &Scene<'_>) -> Result<Vec<Zombie>, FsError> {
    let project = &scene.look.layout.project;
    let Some(mut dir) = Dir::open_root(project)? else {
        return Ok(Vec::new());
    };
    for name in layout::WORKTREES {
        match dir.child(name)? {
            Some(child) => dir = child,
            None => return Ok(Vec::new()),
        }
    }
    let mut found = Vec::new();
    for team in dir.entries()? {
        let team = team.name;
        let is_folder = dir
            .stamp(&team)?
            .is_some_and(|stamp| stamp.kind == FileKind::Folder);
        let is_elsewhere = || {
            let name = team.parse();
            name.is_ok_and(|name| scene.may_be_elsewhere(&name))
        };
        if !is_folder || scene.has_team(&team) || is_elsewhere() {
            continue;
        }
        let Some(workers) = dir.child(&team)? else {
            continue;
        };
        for worker in workers.entries()? {
            let Some(stamp) = workers.stamp(&worker.name)? else {
                continue;
            };
            if stamp.kind != FileKind::Folder {
                continue;
            }
            found.push(Zombie {
                kind: Kind::Worktree,
                age: scene.age(stamp.modified),
                evidence: vec!["its team is gone".to_owned()],
                action: Action::Keep,
                command: format!(
                    "git -C {} worktree remove {}",
                    shell::word(&project.to_string_lossy()),
                    shell::word(&workers.join(&worker.name).to_string_lossy())
                ),
                name: worker.name,
                team: team.clone(),
            });
        }
    }
    found.sort_by(|a, b| (&a.team, &a.name).cmp(&(&b.team, &b.name)));
    Ok(found)
}

//! Panes of our own tmux server in which nothing runs any more.

use std::time::Duration;

use teamster_fs::{Dir, FileKind, layout};

use super::look::Scene;
use super::panes::{Pane, Panes};
use super::{Action, Kind, REAP_AND_KILL, Zombie};

/// Every dead pane of the project's own server.
pub(super) fn dead(scene: &Scene<'_>) -> Vec<(Zombie, Pane)> {
    let Panes::Listed(panes) = &scene.look.panes else {
        return Vec::new();
    };
    let project = scene.look.layout.project.clone();
    let state = layout::OUR_STATE.iter();
    let socket = state
        .fold(project, |path, name| path.join(name))
        .join(layout::TMUX_SOCKET);
    let of_ours = panes
        .iter()
        .filter(|pane| pane.dead && pane.server == socket);
    if of_ours.clone().next().is_none() || !is_our_socket(scene) {
        return Vec::new();
    }
    of_ours
        .map(|pane| {
            let zombie = Zombie {
                kind: Kind::Pane,
                name: pane.id.clone(),
                team: String::new(),
                age: Duration::ZERO,
                evidence: vec!["its program has ended, in our own tmux server".to_owned()],
                action: Action::Keep,
                command: REAP_AND_KILL.to_owned(),
            };
            (zombie, pane.clone())
        })
        .collect()
}

/// A project may come with a link in this place, and then the panes behind it are somebody else's.
pub(super) fn is_our_socket(scene: &Scene<'_>) -> bool {
    let Ok(Some(mut dir)) = Dir::open_root(&scene.look.layout.project) else {
        return false;
    };
    for folder in layout::OUR_STATE {
        match dir.child(folder) {
            Ok(Some(child)) => dir = child,
            _ => return false,
        }
    }
    let stamp = dir.stamp(layout::TMUX_SOCKET);
    let is_socket = matches!(stamp, Ok(Some(stamp)) if stamp.kind == FileKind::Other);
    is_socket && dir.owner().is_ok_and(|owner| owner == scene.user)
}

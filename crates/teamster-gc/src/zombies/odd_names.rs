//! What stands in `teams` under a name that is not UTF-8: no program of ours or of Claude Code's made it, and none can
//! use it. It is listed, and never touched.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use teamster_fs::layout;
use teamster_store::Result;

use super::look::Scene;
use super::{Action, Kind, Zombie};
use crate::shell;

/// Everything in `teams` whose name is not UTF-8.
pub(super) fn in_teams(scene: &Scene<'_>) -> Result<Vec<Zombie>> {
    let Some(teams) = &scene.teams else {
        return Ok(Vec::new());
    };
    let found = teams.odd_names()?.into_iter().map(|name| {
        let name = name.as_os_str();
        let path = scene.look.layout.claude.join(layout::TEAMS).join(name);
        Zombie {
            kind: Kind::Team,
            name: readable(name),
            team: readable(name),
            age: Duration::ZERO,
            evidence: vec!["its name is not UTF-8, so no team can have it".to_owned()],
            action: Action::Keep,
            command: shell::remove(&[&path]),
        }
    });
    Ok(found.collect())
}

/// A name with its odd bytes as `\xff`.
pub fn readable(name: &OsStr) -> String {
    let mut text = String::new();
    for chunk in name.as_bytes().utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

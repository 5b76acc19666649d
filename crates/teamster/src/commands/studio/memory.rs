//! What Studio remembers between starts: the key behind the cookies of browsers, and recent projects.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use teamster_app::recordable;
use teamster_fs::layout::{self, Layout};
use teamster_fs::{Dir, Durability};
use teamster_store::{Clock, SystemClock};
use teamster_studio::keys::Keys;
use teamster_types::Time;

use crate::error::Result;

/// How many projects are remembered.
const MOST_PROJECTS: usize = 20;
/// How long the key is valid; after that, browsers need a new link.
const KEY_LASTS: Duration = Duration::from_secs(30 * 24 * 60 * 60);

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct StudioMemory {
    key: String,
    key_made_at: Option<Time>,
    projects: Vec<String>,
}

/// Moves these projects to the front. Returns the key, and all remembered projects that still exist.
pub(super) fn remember(layout: &Layout, named: &[PathBuf]) -> Result<(String, Vec<PathBuf>)> {
    let folder = make(layout.user_folder())?;
    let found = folder.read(layout::STUDIO)?;
    // An unreadable file is discarded: everything in it can be created again.
    let mut memory: StudioMemory = found
        .and_then(|(bytes, _)| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default();
    let now = SystemClock.now();
    let is_good = memory
        .key_made_at
        .is_some_and(|made| made <= now && now.since(made) < KEY_LASTS);
    if !is_good || memory.key.len() != 64 {
        memory.key = Keys::random();
        memory.key_made_at = Some(now);
    }
    let named = named
        .iter()
        .map(|path| recordable(path, "the project").map(str::to_owned));
    let named: Vec<String> = named.collect::<Result<_>>()?;
    memory.projects.retain(|path| !named.contains(path));
    memory.projects.splice(0..0, named);
    memory.projects.truncate(MOST_PROJECTS);
    let bytes = serde_json::to_vec_pretty(&memory).unwrap_or_default();
    folder.replace(layout::STUDIO, &bytes, Durability::Durable)?;
    let projects = memory.projects.iter().map(PathBuf::from);
    Ok((memory.key, projects.filter(|path| path.is_dir()).collect()))
}

/// Creates the folder of the user's settings, and its parent if needed.
fn make(folder: &Path) -> Result<Dir> {
    if let Some(above) = folder.parent() {
        Dir::open_or_create_root(above)?;
    }
    Ok(Dir::open_or_create_root(folder)?)
}

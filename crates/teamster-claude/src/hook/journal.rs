//! The journal of a team of ours. A hook writes to the journal of a team that is there, and never makes one.

use std::sync::Arc;
use std::time::Duration;

use teamster_fs::Sync;
use teamster_journal::NewEvent;
use teamster_store::{FileStore, Read as _, Settings, Store as _, StoreError, SystemClock};
use teamster_types::TeamName;
use teamster_types::team::Kind;

use super::World;

/// Writes `hook.received`. `Ok(false)`: the team is none of ours, and nothing was written.
pub(super) fn record(
    world: &World,
    team: &TeamName,
    patience: Duration,
    event: NewEvent,
) -> Result<bool, StoreError> {
    let settings = Settings {
        sync: Sync::Fast,
        patience,
        ..Settings::default()
    };
    let store = FileStore::open(&world.layout, Arc::new(SystemClock), settings)?;
    if store.team(team)?.kind() != Kind::Teamster {
        return Ok(false);
    }
    store.record(team, event)?;
    Ok(true)
}

//! One team and the work on it, through the store's library: what a workload and its callers have in common.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use teamster_fs::Durability;
use teamster_fs::layout::Layout;
use teamster_postgres::{PgSettings, PgStore, StoreUrl};
use teamster_store::{
    ClaimRequest, Claimed, FileStore, FileStoreSettings, OutgoingMessage, Reader, Recipient, Store,
    SystemClock,
};
use teamster_types::{TeamName, WorkerName};

/// The team that every check works with.
pub const TEAM: &str = "evidence";
/// The variable that names a database instead of files.
pub const STORE: &str = "TEAMSTER_STORE";
/// How many messages one read acknowledges.
pub const BATCH: usize = 50;
/// A message of typical length.
pub const CONTENT: &str = "The login form is done. Its tests are in tests/login and pass; \
    the style sheet still needs somebody who knows the design. I go on with task 4.";

/// Opens the store in these folders.
pub fn open_store(claude: &Path, project: &Path, sync: Durability) -> Result<FileStore> {
    let layout = Layout {
        claude: claude.to_owned(),
        project: project.to_owned(),
        user_config: claude.join("none.toml"),
        project_config: project.join("none.toml"),
        database: None,
    };
    let settings = FileStoreSettings {
        sync,
        patience: Duration::from_secs(60),
        ..FileStoreSettings::default()
    };
    Ok(FileStore::open(&layout, Arc::new(SystemClock), settings)?)
}

/// Opens the store in a database.
pub fn open_database(url: &str) -> Result<PgStore> {
    let settings = PgSettings {
        patience: Duration::from_secs(60),
        ..PgSettings::default()
    };
    Ok(PgStore::open(StoreUrl::parse(url)?, settings)?)
}

/// Returns the team's name in the store's type.
pub fn team() -> Result<TeamName> {
    Ok(TEAM.parse()?)
}

/// Returns the name of the worker with this number.
pub fn worker(number: usize) -> Result<WorkerName> {
    Ok(format!("w{number}").parse()?)
}

/// Returns a worker's request for the next task.
pub fn claim_request(number: usize) -> Result<ClaimRequest> {
    Ok(ClaimRequest {
        worker: worker(number)?,
        id: None,
        lease: None,
    })
}

/// Claims the next task for a worker.
pub fn claim(store: &dyn Store, number: usize) -> Result<Claimed> {
    let claimed = store.claim(&team()?, &claim_request(number)?)?;
    claimed.context("nothing is claimable")
}

/// Sends a plain message from one worker to another.
pub fn send(store: &dyn Store, from: usize, to: usize, content: &str) -> Result<()> {
    let outgoing = OutgoingMessage {
        from: worker(from)?.to_string(),
        to: Recipient::Worker(worker(to)?.to_string()),
        kind: "message".to_owned(),
        content: content.to_owned(),
        extra: teamster_types::json::Object::new(),
    };
    store.send(&team()?, &outgoing)?;
    Ok(())
}

/// Reads messages of a worker, acknowledges them if `ack` is set, and returns their number.
pub fn receive(store: &dyn Store, number: usize, limit: usize, ack: bool) -> Result<usize> {
    let reader = Reader::Worker(worker(number)?);
    let delivery = store.receive(&team()?, &reader, limit, ack)?;
    Ok(delivery.messages.len())
}

/// How data is flushed to the disk.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Flush {
    /// Flushes contents and metadata (`fsync`).
    All,
    /// Flushes contents only (`fdatasync`).
    Data,
}

/// One kind of write of the product, without the product.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Write {
    /// Creates a file of this many bytes and flushes it.
    Create(usize, Flush),
    /// Appends this many bytes to a file and flushes it.
    Append(usize, Flush),
    /// Flushes the entries of a folder.
    Names(Flush),
    /// Renames the oldest temporary file that is left to this name.
    Rename(String),
    /// Moves a folder to another place or back.
    MoveFolder,
}

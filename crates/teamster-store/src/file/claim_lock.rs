//! The claim lock `{id}.lock`: it exists only while a claim is being made, and other programs respect it.

use serde::{Deserialize, Serialize};
use teamster_fs::{Durability, layout};
use teamster_types::claim_lock::{FoundClaimLock, LockUse};
use teamster_types::{TaskId, Time, WorkerName};

use super::FileStore;
use super::held_team::HeldTeam;
use super::note::OwnClaimLock;
use crate::error::{Result, StoreError};

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LockContent {
    pid: u32,
    worker_name: String,
    timestamp: i64,
    #[serde(default)]
    process_start_time: u64,
    #[serde(default)]
    boot_id: String,
    #[serde(default)]
    pid_ns: String,
    #[serde(default)]
    host: String,
    #[serde(default)]
    nonce: String,
}

/// Claim locks that a change holds.
#[derive(Debug, Default)]
pub(super) struct ClaimLocks {
    made: Vec<OwnClaimLock>,
}

impl ClaimLocks {
    /// Takes the lock of `id`; false when a claimer that may be alive has it.
    ///
    /// Taking over a stale lock (read, judge, remove, create) is safe here because the team's lock is held: two
    /// teamster processes never judge the same lock at once.
    pub(super) fn take(
        &mut self,
        store: &FileStore,
        held: &mut HeldTeam,
        id: &TaskId,
        worker: &WorkerName,
        now: Time,
        nonce: String,
    ) -> Result<bool> {
        if self.made.iter().any(|claim| claim.id == id.as_str()) {
            return Ok(true);
        }
        let me = &store.me;
        let content = LockContent {
            pid: me.pid,
            worker_name: worker.to_string(),
            timestamp: now.as_millis(),
            process_start_time: me.process_start_time,
            boot_id: me.boot_id.clone(),
            pid_ns: me.pid_ns.clone(),
            host: me.host.clone(),
            nonce: nonce.clone(),
        };
        let bytes = serde_json::to_vec(&content).unwrap_or_default();
        let made = OwnClaimLock {
            id: id.to_string(),
            nonce,
        };
        held.note.claims.push(made.clone());
        held.announce()?;
        let name = layout::claim_lock(id);
        if !held
            .folders
            .tasks
            .create_new(&name, &bytes, Durability::Fast)?
        {
            let stale = is_stale(store, held, &name, now)?;
            let taken = stale
                && held.folders.tasks.remove(&name)?
                && held
                    .folders
                    .tasks
                    .create_new(&name, &bytes, Durability::Fast)?;
            if !taken {
                held.note.claims.pop();
                return Ok(false);
            }
        }
        self.made.push(made);
        Ok(true)
    }

    /// Fails if another program has taken one of our claim locks.
    pub(super) fn verify(&self, held: &HeldTeam) -> Result<()> {
        for claim in &self.made {
            if !is_ours(held, claim)? {
                return Err(StoreError::conflict(format!(
                    "the claim lock of task {} was taken away by another program; nothing was changed",
                    claim.id
                )));
            }
        }
        Ok(())
    }

    /// Releases the lock of one task.
    pub(super) fn release(&mut self, held: &HeldTeam, id: &TaskId) -> Result<()> {
        if let Some(place) = self.made.iter().position(|claim| claim.id == id.as_str()) {
            let claim = self.made.remove(place);
            remove_ours(held, &claim)?;
        }
        Ok(())
    }

    /// Releases all locks.
    pub(super) fn release_all(&mut self, held: &HeldTeam) -> Result<()> {
        for claim in self.made.drain(..) {
            remove_ours(held, &claim)?;
        }
        Ok(())
    }
}

/// Removes a claim lock if this process created it.
pub(super) fn remove_ours(held: &HeldTeam, claim: &OwnClaimLock) -> Result<()> {
    if is_ours(held, claim)? {
        held.folders.tasks.remove(&format!("{}.lock", claim.id))?;
    }
    Ok(())
}

fn is_ours(held: &HeldTeam, claim: &OwnClaimLock) -> Result<bool> {
    let there = match held.folders.tasks.read(&format!("{}.lock", claim.id)) {
        Ok(there) => there,
        // Whatever is there now, teamster did not create it.
        Err(error) if error.is_unsafe() => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    let content = there.and_then(|(bytes, _)| serde_json::from_slice::<LockContent>(&bytes).ok());
    Ok(content.is_some_and(|content| content.nonce == claim.nonce))
}

/// Returns whether nobody holds a lock any more.
fn is_stale(store: &FileStore, held: &HeldTeam, name: &str, now: Time) -> Result<bool> {
    let Some((bytes, stamp)) = held.folders.tasks.read(name)? else {
        return Ok(true);
    };
    let written = Time::from_millis(stamp.modified / 1_000_000);
    let state = FoundClaimLock::parse(&bytes, written)
        .state(now, |process| store.machine.process_state(process));
    Ok(state == LockUse::Abandoned)
}

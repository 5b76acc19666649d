//! The expected behaviour of a store in the simplest form: one map, one thread, no files.

use std::collections::{BTreeMap, BTreeSet};

use teamster_store::StoreErrorKind;
use teamster_types::failure::{ATTEMPTS, backoff};
use teamster_types::task::Status;
use teamster_types::transitions::LEASE;

/// A token that was given to a process that died before it returned it.
pub const UNKNOWN: &str = "?";

/// Who holds a task.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    pub token: String,
    pub worker: String,
    /// Whether the claiming process is gone.
    pub ghost: bool,
    pub until: i64,
}

/// A task, without the exact bytes of its file.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    pub subject: String,
    pub status: Status,
    pub owner: Option<String>,
    /// The worker it was assigned to before the claim; releasing it restores this.
    pub assigned: Option<String>,
    pub blocked_by: Vec<u64>,
    pub blocks: Vec<u64>,
    pub failed: bool,
    /// `metadata.failedAttempts`, which other programs may never have written.
    pub attempts: u64,
    /// The sidecar's count; 0 without a sidecar.
    pub failures: u32,
    pub not_before: Option<i64>,
    pub fence: u64,
    pub claim: Option<Claim>,
    /// Foreign keys with their values, as text.
    pub extra: BTreeMap<String, String>,
}

impl Task {
    pub fn new(subject: String) -> Self {
        Self {
            subject,
            status: Status::Pending,
            owner: None,
            assigned: None,
            blocked_by: Vec::new(),
            blocks: Vec::new(),
            failed: false,
            attempts: 0,
            failures: 0,
            not_before: None,
            fence: 0,
            claim: None,
            extra: BTreeMap::new(),
        }
    }

    fn is_done(&self) -> bool {
        self.status == Status::Completed && !self.failed
    }

    /// Returns whether `token` holds the task: it is the claim's, and no other program has changed the owner.
    fn proves(&self, token: &str) -> bool {
        self.claim.as_ref().is_some_and(|claim| {
            claim.token == token && self.owner.as_deref() == Some(&claim.worker)
        }) && self.status != Status::Pending
    }

    fn attempt_ended(&mut self, pause: Option<i64>) {
        self.failures += 1;
        self.attempts = u64::from(self.failures);
        self.claim = None;
        if self.failures >= ATTEMPTS {
            self.status = Status::Completed;
            self.failed = true;
            self.not_before = None;
        } else {
            self.status = Status::Pending;
            self.owner = self.assigned.clone();
            self.not_before = pause;
        }
    }

    fn put_back(&mut self) {
        self.status = Status::Pending;
        self.owner = self.assigned.clone();
        self.claim = None;
    }

    fn give(&mut self, who: &ModelClaimant<'_>) {
        let is_own = |name: &Option<String>| name.as_deref() == Some(who.worker);
        let is_assigned =
            is_own(&self.assigned) || self.status == Status::Pending && is_own(&self.owner);
        self.assigned = is_assigned.then(|| who.worker.to_owned());
        self.status = Status::InProgress;
        self.owner = Some(who.worker.to_owned());
        self.fence += 1;
        self.not_before = None;
        self.claim = Some(Claim {
            token: UNKNOWN.to_owned(),
            worker: who.worker.to_owned(),
            ghost: who.ghost,
            until: who.now + i64::try_from(LEASE.as_millis()).unwrap(),
        });
    }
}

/// The worker that asks for a task, and when.
#[derive(Clone, Copy, Debug)]
pub struct ModelClaimant<'a> {
    pub worker: &'a str,
    pub ghost: bool,
    pub now: i64,
}

/// Why a claimed task may be taken over.
enum Takeover {
    No,
    Restarted,
    Dead,
}

/// All tasks of a team.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tasks {
    pub tasks: BTreeMap<u64, Task>,
}

type ModelResult<T> = Result<T, StoreErrorKind>;

impl Tasks {
    fn get(&mut self, id: u64) -> ModelResult<&mut Task> {
        self.tasks.get_mut(&id).ok_or(StoreErrorKind::NotFound)
    }

    pub fn create(&mut self, id: u64, new: Task) -> ModelResult<()> {
        let blockers = new.blocked_by.clone();
        self.mirror(id, &[], &blockers)?;
        self.tasks.insert(id, new);
        Ok(())
    }

    fn mirror(&mut self, id: u64, before: &[u64], after: &[u64]) -> ModelResult<()> {
        if after
            .iter()
            .any(|blocker| !before.contains(blocker) && !self.tasks.contains_key(blocker))
        {
            return Err(StoreErrorKind::Refused);
        }
        for blocker in after.iter().filter(|blocker| !before.contains(blocker)) {
            let blocks = &mut self.get(*blocker)?.blocks;
            if !blocks.contains(&id) {
                blocks.push(id);
            }
        }
        for blocker in before.iter().filter(|blocker| !after.contains(blocker)) {
            if let Ok(blocker) = self.get(*blocker) {
                blocker.blocks.retain(|other| *other != id);
            }
        }
        Ok(())
    }

    /// Returns whether a pending task could be given to this worker now.
    pub fn is_claimable(&self, id: u64, who: &ModelClaimant<'_>) -> bool {
        let Some(task) = self.tasks.get(&id) else {
            return false;
        };
        let done = |blocker: &u64| self.tasks.get(blocker).is_some_and(Task::is_done);
        task.status == Status::Pending
            && task.blocked_by.iter().all(done)
            && task.not_before.is_none_or(|moment| moment <= who.now)
            && task
                .owner
                .as_deref()
                .is_none_or(|owner| owner == who.worker)
    }

    fn takeover(task: &Task, who: &ModelClaimant<'_>, by_id: bool) -> Takeover {
        match &task.claim {
            Some(claim) if claim.ghost && task.status == Status::InProgress => {
                if by_id && claim.worker == who.worker && task.owner.as_deref() == Some(who.worker)
                {
                    Takeover::Restarted
                } else if claim.until <= who.now {
                    Takeover::Dead
                } else {
                    Takeover::No
                }
            }
            _ => Takeover::No,
        }
    }

    /// Returns whether the task is held by a dead process with an expired lease.
    pub fn is_abandoned(&self, id: u64, now: i64) -> bool {
        let asker = ModelClaimant {
            worker: "",
            ghost: false,
            now,
        };
        self.tasks
            .get(&id)
            .is_some_and(|task| matches!(Self::takeover(task, &asker, false), Takeover::Dead))
    }

    /// Claims the worker's own tasks first, then free ones, by number. Locked ones are skipped.
    pub fn claim_next(&mut self, who: &ModelClaimant<'_>, locked: &BTreeSet<u64>) -> Option<u64> {
        let ids: Vec<u64> = self.tasks.keys().copied().collect();
        let free = ids.iter().filter(|id| !locked.contains(id));
        for id in free.clone() {
            let own = self.tasks[id].owner.as_deref() == Some(who.worker);
            if own && self.is_claimable(*id, who) {
                self.tasks.get_mut(id)?.give(who);
                return Some(*id);
            }
        }
        for id in free {
            if matches!(Self::takeover(&self.tasks[id], who, false), Takeover::Dead) {
                self.tasks.get_mut(id)?.attempt_ended(None);
            }
            if self.is_claimable(*id, who) {
                self.tasks.get_mut(id)?.give(who);
                return Some(*id);
            }
        }
        None
    }

    pub fn claim_id(&mut self, id: u64, who: &ModelClaimant<'_>) -> ModelResult<u64> {
        let task = self.get(id)?;
        match Self::takeover(task, who, true) {
            Takeover::No => {}
            Takeover::Restarted => task.put_back(),
            Takeover::Dead => task.attempt_ended(None),
        }
        if !self.is_claimable(id, who) {
            return Err(StoreErrorKind::Conflict);
        }
        self.get(id)?.give(who);
        Ok(id)
    }

    fn held(&mut self, id: u64, token: &str) -> ModelResult<&mut Task> {
        let task = self.get(id)?;
        if task.proves(token) && task.status == Status::InProgress {
            Ok(task)
        } else {
            Err(StoreErrorKind::Conflict)
        }
    }

    pub fn renew(&mut self, id: u64, token: &str, now: i64) -> ModelResult<()> {
        if let Some(claim) = &mut self.held(id, token)?.claim {
            claim.until = now + i64::try_from(LEASE.as_millis()).unwrap();
        }
        Ok(())
    }

    pub fn complete(&mut self, id: u64, token: &str) -> ModelResult<()> {
        let task = self.get(id)?;
        if !task.proves(token) {
            return Err(StoreErrorKind::Conflict);
        }
        task.status = Status::Completed;
        Ok(())
    }

    pub fn fail(&mut self, id: u64, token: &str, now: i64) -> ModelResult<()> {
        let task = self.held(id, token)?;
        let pause = backoff(task.failures + 1).as_millis();
        task.attempt_ended(Some(now + i64::try_from(pause).unwrap()));
        Ok(())
    }

    pub fn release(&mut self, id: u64, token: &str) -> ModelResult<()> {
        self.held(id, token)?.put_back();
        Ok(())
    }

    pub fn force(&mut self, id: u64) -> ModelResult<()> {
        let task = self.get(id)?;
        if task.status != Status::InProgress {
            return Err(StoreErrorKind::Conflict);
        }
        task.put_back();
        Ok(())
    }

    pub fn retry(&mut self, id: u64) -> ModelResult<()> {
        let task = self.get(id)?;
        let waits =
            task.status == Status::Pending && (task.failures > 0 || task.not_before.is_some());
        if !(task.failed || waits) {
            return Err(StoreErrorKind::Conflict);
        }
        task.put_back();
        task.failed = false;
        task.attempts = 0;
        task.failures = 0;
        task.not_before = None;
        Ok(())
    }

    pub fn delete(&mut self, id: u64) -> ModelResult<()> {
        let task = self.get(id)?.clone();
        if task.status == Status::InProgress {
            return Err(StoreErrorKind::Conflict);
        }
        self.mirror(id, &task.blocked_by, &[])?;
        for dependent in &task.blocks {
            if let Ok(dependent) = self.get(*dependent) {
                dependent.blocked_by.retain(|other| *other != id);
            }
        }
        self.tasks.remove(&id);
        Ok(())
    }

    pub fn retitle(&mut self, id: u64, subject: &str) -> ModelResult<()> {
        subject.clone_into(&mut self.get(id)?.subject);
        Ok(())
    }

    pub fn assign(&mut self, id: u64, owner: Option<&str>) -> ModelResult<()> {
        let task = self.get(id)?;
        if task.status != Status::Pending {
            return Err(StoreErrorKind::Conflict);
        }
        task.owner = owner.map(str::to_owned);
        task.assigned = None;
        Ok(())
    }

    pub fn block(&mut self, id: u64, blockers: &[u64]) -> ModelResult<()> {
        let before = self.get(id)?.blocked_by.clone();
        if self.reaches(blockers, id) {
            return Err(StoreErrorKind::Refused);
        }
        self.mirror(id, &before, blockers)?;
        self.get(id)?.blocked_by = blockers.to_vec();
        Ok(())
    }

    fn reaches(&self, from: &[u64], wanted: u64) -> bool {
        let mut seen = BTreeSet::new();
        let mut open = from.to_vec();
        while let Some(id) = open.pop() {
            if id == wanted {
                return true;
            }
            if seen.insert(id)
                && let Some(task) = self.tasks.get(&id)
            {
                open.extend(&task.blocked_by);
            }
        }
        false
    }

    /// Takes over from `there` the tokens of claims whose process died before it returned them.
    pub fn adopt_tokens(&mut self, there: &Self) {
        for (id, task) in &mut self.tasks {
            let found = there.tasks.get(id).and_then(|task| task.claim.as_ref());
            if let (Some(mine), Some(found)) = (&mut task.claim, found)
                && mine.token == UNKNOWN
            {
                mine.token.clone_from(&found.token);
            }
        }
    }

    /// Describes the differences between the two.
    pub fn differences(&self, there: &Self) -> Vec<String> {
        let ids: BTreeSet<u64> = self
            .tasks
            .keys()
            .chain(there.tasks.keys())
            .copied()
            .collect();
        ids.into_iter()
            .filter(|id| self.tasks.get(id) != there.tasks.get(id))
            .map(|id| {
                format!(
                    "task {id}:\n  expected {:?}\n  found    {:?}",
                    self.tasks.get(&id),
                    there.tasks.get(&id)
                )
            })
            .collect()
    }
}

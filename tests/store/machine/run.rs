//! Applies one sequence of operations to the store and to the model, and compares them after each.

use std::collections::BTreeSet;

use teamster_fs::fail;
use teamster_store::{StoreError, StoreErrorKind};
use teamster_types::task::Status;

use super::Mail;
use super::act::{Act, ActResult};
use super::model::{self, ModelClaimant, Tasks};
use super::ops::{Op, Step};
use super::world::{Told, WORKERS, World};

/// How often each thing happened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub steps: u64,
    /// Operations that were killed.
    pub deaths: u64,
    /// Operations that were killed and had happened.
    pub committed: u64,
    /// Operations that were killed and had not happened.
    pub undone: u64,
    /// Operations that were killed while they repaired the state after another.
    pub menders: u64,
    pub rotations: u64,
    pub foreign: u64,
    pub rebuilt: u64,
}

impl Counts {
    pub fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        self.deaths += other.deaths;
        self.committed += other.committed;
        self.undone += other.undone;
        self.menders += other.menders;
        self.rotations += other.rotations;
        self.foreign += other.foreign;
        self.rebuilt += other.rebuilt;
    }
}

/// A description of what went wrong.
pub type Wrong = String;

pub struct Run {
    pub(super) world: World,
    pub(super) tasks: Tasks,
    pub(super) mail: Mail,
    pub(super) told: Told,
    /// Tasks and tokens that were ever given out.
    pub(super) tickets: Vec<(u64, String)>,
    /// The highest id that the store has certainly seen, and the highest that ever existed.
    pub(super) seen_id: u64,
    pub(super) highest_id: u64,
    /// Tasks that other programs ever changed, and whether the store may not know that yet.
    pub(super) foreign: BTreeSet<u64>,
    pub(super) unnoticed: bool,
    pub(super) messages: usize,
    pub counts: Counts,
    pub log: Vec<String>,
}

impl Run {
    pub fn new() -> Self {
        // The previous sequence may have ended while it was dead.
        fail::revive();
        Self {
            world: World::new(),
            tasks: Tasks::default(),
            mail: Mail::default(),
            told: Told::default(),
            tickets: Vec::new(),
            seen_id: 0,
            highest_id: 0,
            foreign: BTreeSet::new(),
            unnoticed: false,
            messages: 0,
            counts: Counts::default(),
            log: Vec::new(),
        }
    }

    pub fn step(&mut self, step: &Step) -> Result<(), Wrong> {
        self.counts.steps += 1;
        self.log.push(format!("{step:?}"));
        match &step.op {
            Op::Wait(seconds) => self.world.clock.advance(i64::from(*seconds) * 1000),
            Op::Foreign {
                task,
                what,
                in_place,
            } => self.foreign_write(*task, *what, *in_place),
            Op::ForeignCreate { skip } => self.foreign_create(*skip),
            Op::ForeignDelete(task) => self.foreign_delete(*task),
            Op::LoseIndex(damage) => self.lose_index(*damage),
            Op::Fill { to } => {
                self.world.fill_inbox(WORKERS[usize::from(*to)]);
                let act = self.message("lead", Some(*to), 10);
                return self.attempt(&act, step.dies, step.mender_dies);
            }
            op => {
                let act = self.chosen(op);
                return self.attempt(&act, step.dies, step.mender_dies);
            }
        }
        Ok(())
    }

    /// Ends the sequence: after a long wait every task is given out, and the journal contains everything.
    pub fn end(&mut self) -> Result<(), Wrong> {
        self.log.push("the end".to_owned());
        self.world.clock.advance(600_000);
        self.attempt(&Act::Notice, None, None)?;
        loop {
            let act = Act::Claim {
                worker: "dee",
                ghost: false,
                id: None,
            };
            let given = self.tickets.len();
            self.attempt(&act, None, None)?;
            if self.tickets.len() == given {
                break;
            }
        }
        self.compare_mail(true)?;
        self.attempt(&Act::Notice, None, None)
    }

    /// Performs one operation, which may die, and checks what it left.
    fn attempt(
        &mut self,
        act: &Act,
        dies: Option<u8>,
        mender_dies: Option<u8>,
    ) -> Result<(), Wrong> {
        let locked = self.world.locked();
        let segments = self.world.segments();
        if let Some(dies) = dies {
            fail::die_after(u64::from(dies));
        }
        let got = act.perform(&self.world, &mut self.tickets);
        let killed = fail::revive();
        if killed {
            self.counts.deaths += 1;
            self.mend(mender_dies)?;
        }
        self.counts.rotations += u64::from(self.world.segments() > segments);
        let there = self.world.observe();
        let (mut tasks, mut mail) = (self.tasks.clone(), self.mail.clone());
        let made = there
            .tasks
            .keys()
            .find(|id| !self.tasks.tasks.contains_key(id))
            .copied();
        let made = made.unwrap_or(u64::MAX);
        let now = self.world.now();
        let expected = act.expect(&mut tasks, &mut mail, now, made, &locked);
        tasks.adopt_tokens(&there);
        if expected.is_err() {
            tasks = self.tasks.clone();
        }
        if killed {
            self.judge_dead(act, got.is_ok(), tasks, mail, &there)?;
        } else {
            self.judge(act, got, &expected, tasks, mail, &there)?;
        }
        self.check_ids(act)?;
        if matches!(act, Act::Notice) && !killed {
            self.unnoticed = false;
            self.seen_id = self.highest_id;
        }
        self.check_journal()
    }

    /// Checks that the next change after a death succeeds and leaves no leftovers.
    fn mend(&mut self, dies: Option<u8>) -> Result<(), Wrong> {
        if let Some(dies) = dies {
            fail::die_after(u64::from(dies));
            let mended = self.world.touch();
            let killed = fail::revive();
            self.counts.menders += u64::from(killed);
            if let (Err(error), false) = (mended, killed) {
                return Err(format!("the first change after a death: {error}"));
            }
        }
        self.world
            .touch()
            .map_err(|error| format!("the next change after a death: {error}"))?;
        let left = self.world.leftovers();
        if left.is_empty() {
            Ok(())
        } else {
            Err(format!("left lying about: {left:?}"))
        }
    }

    /// Checks that an operation that did not die returns and does what the model says.
    fn judge(
        &mut self,
        act: &Act,
        got: Result<ActResult, StoreError>,
        expected: &Result<ActResult, StoreErrorKind>,
        tasks: Tasks,
        mail: Mail,
        there: &Tasks,
    ) -> Result<(), Wrong> {
        let said = match &got {
            Ok(answer) => Ok(answer.clone()),
            Err(error) => Err(error.kind),
        };
        if said == *expected && tasks == *there {
            self.tasks = tasks;
            self.mail = mail;
        } else if self.unnoticed
            && let (Act::Claim { worker, ghost, .. }, Ok(ActResult::Task(Some(id)))) = (act, &said)
        {
            self.judge_hasty_claim(worker, *ghost, *id, there)?;
        } else {
            let detail = got.err().map(|error| error.message).unwrap_or_default();
            return Err(format!(
                "{act:?} should have answered {expected:?}, but answered {said:?} {detail}\n{}",
                tasks.differences(there).join("\n")
            ));
        }
        if act.is_mail() {
            self.compare_mail(false)?;
        }
        Ok(())
    }

    /// Checks a claim before the store has noticed foreign changes: it may choose another task, but only a claimable
    /// one.
    fn judge_hasty_claim(
        &mut self,
        worker: &str,
        ghost: bool,
        id: u64,
        there: &Tasks,
    ) -> Result<(), Wrong> {
        let who = ModelClaimant {
            worker,
            ghost,
            now: self.world.now(),
        };
        let mut tasks = self.tasks.clone();
        let claimed = if tasks.is_abandoned(id, who.now) {
            let others: BTreeSet<u64> = tasks.tasks.keys().copied().filter(|o| *o != id).collect();
            tasks.claim_next(&who, &others)
        } else {
            tasks.claim_id(id, &who).ok()
        };
        if claimed != Some(id) {
            return Err(format!("task {id} was given to {worker}, but is not free"));
        }
        tasks.adopt_tokens(there);
        for (other, task) in &there.tasks {
            // Other tasks of dead processes may have been released on the way.
            if tasks.is_abandoned(*other, who.now) {
                tasks.tasks.insert(*other, task.clone());
            }
        }
        let wrong = tasks.differences(there);
        if !wrong.is_empty() {
            return Err(wrong.join("\n"));
        }
        self.tasks = tasks;
        Ok(())
    }

    /// Checks that an operation that died has happened completely or not at all.
    fn judge_dead(
        &mut self,
        act: &Act,
        answered: bool,
        tasks: Tasks,
        mail: Mail,
        there: &Tasks,
    ) -> Result<(), Wrong> {
        let unread = if act.is_mail() {
            self.world.unread()?
        } else {
            mail.all_unread(&WORKERS)
        };
        let fits = |tasks: &Tasks, mail: &Mail| {
            let mail_fits = || self.world.fits(mail) && unread == mail.all_unread(&WORKERS);
            tasks == there && (!act.is_mail() || mail_fits())
        };
        let nothing = tasks == self.tasks && mail == self.mail;
        if !nothing && fits(&tasks, &mail) {
            self.counts.committed += 1;
            self.tasks = tasks;
            self.mail = mail;
            return Ok(());
        }
        if (!answered || nothing) && fits(&self.tasks, &self.mail) {
            self.counts.undone += 1;
            return Ok(());
        }
        if self.unnoticed
            && let Act::Claim { worker, ghost, .. } = act
            && let Some(id) = self.newly_claimed(there)
        {
            self.counts.committed += 1;
            return self.judge_hasty_claim(worker, *ghost, id, there);
        }
        Err(format!(
            "{act:?} died (answered: {answered}) and is neither done:\n{}\nnor undone:\n{}\nunread {unread:?}, expected {:?} or {:?}",
            tasks.differences(there).join("\n"),
            self.tasks.differences(there).join("\n"),
            mail.all_unread(&WORKERS),
            self.mail.all_unread(&WORKERS),
        ))
    }

    fn newly_claimed(&self, there: &Tasks) -> Option<u64> {
        let fence = |task: Option<&model::Task>| task.map_or(0, |task| task.fence);
        let claimed = |id: &&u64| {
            fence(there.tasks.get(id)) > fence(self.tasks.tasks.get(id))
                && there.tasks[id].status == Status::InProgress
        };
        there.tasks.keys().find(claimed).copied()
    }

    fn compare_mail(&self, unread: bool) -> Result<(), Wrong> {
        if !self.world.fits(&self.mail) {
            return Err(format!(
                "the boxes hold something else than {:?}",
                self.mail
            ));
        }
        if unread {
            let (got, expected) = (self.world.unread()?, self.mail.all_unread(&WORKERS));
            if got != expected {
                return Err(format!("unread are {got:?}, not {expected:?}"));
            }
        }
        Ok(())
    }

    /// Checks that new ids are higher than any the store has seen, and that no token holds two tasks.
    fn check_ids(&mut self, act: &Act) -> Result<(), Wrong> {
        let highest = self.tasks.tasks.keys().max().copied().unwrap_or(0);
        if let Act::Create { .. } = act
            && highest > self.highest_id
            && highest > self.highest_id + 1
        {
            return Err(format!(
                "the new task got id {highest}, though {} was the highest",
                self.highest_id
            ));
        }
        self.highest_id = self.highest_id.max(highest);
        if !self.unnoticed {
            self.seen_id = self.highest_id;
        }
        let mut tokens: Vec<&str> = self
            .tasks
            .tasks
            .values()
            .filter_map(|task| task.claim.as_ref())
            .map(|claim| claim.token.as_str())
            .collect();
        let count = tokens.len();
        tokens.sort_unstable();
        tokens.dedup();
        if tokens.len() == count {
            Ok(())
        } else {
            Err("one token holds two tasks".to_owned())
        }
    }

    /// Checks that the journal rebuilds the files, and attributes to other programs only what they did.
    fn check_journal(&mut self) -> Result<(), Wrong> {
        self.world.follow(&mut self.told);
        if let Some(blamed) = self.told.foreign.difference(&self.foreign).next() {
            return Err(format!(
                "the journal blames others for task {blamed}, which they never touched"
            ));
        }
        if self.unnoticed {
            return Ok(());
        }
        self.counts.rebuilt += 1;
        self.world.rebuilt_wrong(&self.told).map_or(Ok(()), Err)
    }
}

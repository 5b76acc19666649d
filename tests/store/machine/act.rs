//! An operation with all its parameters chosen, applied to the store and to the model.

use std::collections::BTreeSet;

use teamster_journal::EventActor;
use teamster_store::{Recipient, Result, Store, StoreErrorKind};
use teamster_types::TaskId;
use teamster_types::task::{NewTask, Token};
use teamster_types::transitions::TaskEdit;

use super::Mail;
use super::model::{self, ModelClaimant, Tasks};
use super::world::{World, number, reader};

#[derive(Clone, Debug)]
pub enum Act {
    Create {
        subject: String,
        blockers: Vec<u64>,
        owner: Option<&'static str>,
    },
    Claim {
        worker: &'static str,
        ghost: bool,
        id: Option<u64>,
    },
    Renew(u64, String),
    Complete(u64, String),
    Fail(u64, String),
    Release(u64, String),
    Force(u64),
    Retry(u64),
    Delete(u64),
    Retitle(u64, String),
    Assign(u64, Option<&'static str>),
    Block(u64, Vec<u64>),
    Send {
        from: &'static str,
        to: Recipient,
        /// The boxes that contain it afterwards.
        boxes: Vec<String>,
        tag: String,
        size: usize,
    },
    Receive {
        who: &'static str,
        limit: usize,
        ack: bool,
    },
    Acknowledge {
        who: &'static str,
        label: String,
        place: usize,
        id: String,
    },
    Notice,
}

/// The result of an operation, as far as the model can know it.
#[derive(Clone, Debug, PartialEq)]
pub enum ActResult {
    Done,
    /// A task, or nothing to do.
    Task(Option<u64>),
    Count(usize),
    Texts(Vec<String>),
}

impl Act {
    /// Performs it. A new token is added to `tickets`.
    pub fn perform(&self, world: &World, tickets: &mut Vec<(u64, String)>) -> Result<ActResult> {
        let (store, team) = (&world.store, &world.team);
        let task = TaskId::from_number;
        let edited = |id: &u64, edit: TaskEdit| {
            let done = store.update_task(team, &EventActor::Lead, &task(*id), &edit);
            done.map(|_| ActResult::Done)
        };
        match self {
            Self::Create {
                subject,
                blockers,
                owner,
            } => {
                let new = NewTask {
                    subject: subject.clone(),
                    blocked_by: blockers.iter().copied().map(task).collect(),
                    owner: owner.map(|owner| owner.parse().unwrap()),
                    ..NewTask::default()
                };
                let made = store.create_task(team, &EventActor::Lead, &new)?;
                Ok(ActResult::Task(Some(number(made.id()))))
            }
            Self::Claim { worker, ghost, id } => {
                let claimed = world.claim(worker, *ghost, *id)?;
                let id = claimed.as_ref().map(|claimed| claimed.id);
                tickets.extend(claimed.map(|claimed| (claimed.id, claimed.token)));
                Ok(ActResult::Task(id))
            }
            Self::Renew(id, token) => {
                let renewed = store.renew(team, &task(*id), &Token::new(token), None);
                renewed.map(|_| ActResult::Done)
            }
            Self::Complete(id, token) => {
                let done = store.complete(team, &task(*id), &Token::new(token), None);
                done.map(|_| ActResult::Done)
            }
            Self::Fail(id, token) => {
                let failed = store.fail(team, &task(*id), &Token::new(token), "boom");
                failed.map(|_| ActResult::Done)
            }
            Self::Release(id, token) => {
                let token = Token::new(token);
                let free = store.release(team, &"-".into(), &task(*id), Some(&token));
                free.map(|_| ActResult::Done)
            }
            Self::Force(id) => {
                let free = store.release(team, &EventActor::Lead, &task(*id), None);
                free.map(|_| ActResult::Done)
            }
            Self::Retry(id) => store
                .retry(team, &EventActor::Lead, &task(*id))
                .map(|_| ActResult::Done),
            Self::Delete(id) => {
                let gone = store.delete_task(team, &EventActor::Lead, &task(*id));
                gone.map(|_| ActResult::Done)
            }
            Self::Retitle(id, subject) => edited(
                id,
                TaskEdit {
                    subject: Some(subject.clone()),
                    ..TaskEdit::default()
                },
            ),
            Self::Assign(id, owner) => edited(
                id,
                TaskEdit {
                    owner: Some(owner.map(|owner| owner.parse().unwrap())),
                    ..TaskEdit::default()
                },
            ),
            Self::Block(id, blockers) => edited(
                id,
                TaskEdit {
                    blocked_by: Some(blockers.iter().copied().map(task).collect()),
                    ..TaskEdit::default()
                },
            ),
            Self::Send {
                from,
                to,
                tag,
                size,
                ..
            } => {
                let content = format!("{tag} {}", "x".repeat(*size));
                world.send(from, to.clone(), content).map(ActResult::Count)
            }
            Self::Receive { who, limit, ack } => {
                world.receive(who, *limit, *ack).map(ActResult::Texts)
            }
            Self::Acknowledge { who, id, .. } => {
                let acked = store.acknowledge(team, &reader(who), id)?;
                Ok(ActResult::Count(usize::try_from(acked).unwrap()))
            }
            Self::Notice => world.notice().map(|()| ActResult::Done),
        }
    }

    /// Applies it to the model. `made` is the id of a new task, `locked` the tasks with a leftover lock.
    pub fn expect(
        &self,
        tasks: &mut Tasks,
        mail: &mut Mail,
        now: i64,
        made: u64,
        locked: &BTreeSet<u64>,
    ) -> Result<ActResult, StoreErrorKind> {
        match self {
            Self::Create {
                subject,
                blockers,
                owner,
            } => {
                let new = model::Task {
                    blocked_by: blockers.clone(),
                    owner: owner.map(str::to_owned),
                    ..model::Task::new(subject.clone())
                };
                tasks.create(made, new)?;
                return Ok(ActResult::Task(Some(made)));
            }
            Self::Claim { worker, ghost, id } => {
                let who = ModelClaimant {
                    worker,
                    ghost: *ghost,
                    now,
                };
                let got = match id {
                    None => tasks.claim_next(&who, locked),
                    Some(id) if locked.contains(id) && tasks.tasks.contains_key(id) => {
                        return Err(StoreErrorKind::Conflict);
                    }
                    Some(id) => {
                        let mut after = tasks.clone();
                        let got = after.claim_id(*id, &who)?;
                        *tasks = after;
                        Some(got)
                    }
                };
                return Ok(ActResult::Task(got));
            }
            Self::Renew(id, token) => tasks.renew(*id, token, now)?,
            Self::Complete(id, token) => tasks.complete(*id, token)?,
            Self::Fail(id, token) => tasks.fail(*id, token, now)?,
            Self::Release(id, token) => tasks.release(*id, token)?,
            Self::Force(id) => tasks.force(*id)?,
            Self::Retry(id) => tasks.retry(*id)?,
            Self::Delete(id) => tasks.delete(*id)?,
            Self::Retitle(id, subject) => tasks.retitle(*id, subject)?,
            Self::Assign(id, owner) => tasks.assign(*id, *owner)?,
            Self::Block(id, blockers) => tasks.block(*id, blockers)?,
            Self::Send { boxes, tag, .. } => {
                for label in boxes {
                    mail.put(label, tag);
                }
                return Ok(ActResult::Count(boxes.len()));
            }
            Self::Receive { who, limit, ack } => {
                let got = mail.unread(who, *limit);
                if *ack {
                    mail.ack(who, got.len());
                }
                return Ok(ActResult::Texts(got));
            }
            Self::Acknowledge { label, place, .. } => {
                let before = mail.boxes.get(label).map_or(0, |mailbox| mailbox.acked);
                mail.ack_up_to(label, *place);
                return Ok(ActResult::Count((place + 1).saturating_sub(before)));
            }
            Self::Notice => {}
        }
        Ok(ActResult::Done)
    }

    /// Returns whether it is about messages.
    pub fn is_mail(&self) -> bool {
        matches!(
            self,
            Self::Send { .. } | Self::Receive { .. } | Self::Acknowledge { .. }
        )
    }
}

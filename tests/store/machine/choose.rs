//! Choosing among the current tasks, workers and tokens.

use teamster_store::Recipient;

use super::act::Act;
use super::ops::Op;
use super::run::Run;
use super::world::WORKERS;

impl Run {
    pub(super) fn pick(&self, which: u8) -> u64 {
        let ids: Vec<u64> = self.tasks.tasks.keys().copied().collect();
        // Occasionally one that does not exist.
        let place = usize::from(which) % (ids.len() + 1);
        ids.get(place).copied().unwrap_or(999_999)
    }

    fn picks(&self, which: &[u8]) -> Vec<u64> {
        let mut picked = Vec::new();
        for one in which {
            let id = self.pick(*one);
            if !picked.contains(&id) {
                picked.push(id);
            }
        }
        picked
    }

    fn ticket(&self, which: u8) -> (u64, String) {
        // The last ones are more often still valid.
        let back = 1 + usize::from(which) % 4;
        let place = self.tickets.len().checked_sub(back);
        let ticket = place.and_then(|place| self.tickets.get(place)).cloned();
        ticket.unwrap_or((1, "made up".to_owned()))
    }

    pub(super) fn message(&mut self, from: &'static str, to: Option<u8>, size: u16) -> Act {
        self.messages += 1;
        let (to, names) = match to {
            Some(to) => {
                let name = WORKERS[usize::from(to)];
                (Recipient::Worker(name.to_owned()), vec![name])
            }
            None => (Recipient::All, WORKERS.to_vec()),
        };
        let boxes = names.iter().map(|name| format!("inbox/{name}")).collect();
        Act::Send {
            from,
            to,
            boxes,
            tag: format!("m{}", self.messages),
            size: usize::from(size),
        }
    }

    pub(super) fn chosen(&mut self, op: &Op) -> Act {
        let worker = |which: &u8| WORKERS[usize::from(*which)];
        match op {
            Op::Create { blockers, owner } => Act::Create {
                subject: format!("task of step {}", self.counts.steps),
                blockers: self.picks(blockers),
                owner: owner.as_ref().map(worker),
            },
            Op::Claim { worker: who, ghost } => Act::Claim {
                worker: worker(who),
                ghost: *ghost,
                id: None,
            },
            Op::ClaimId {
                worker: who,
                ghost,
                task,
            } => Act::Claim {
                worker: worker(who),
                ghost: *ghost,
                id: Some(self.pick(*task)),
            },
            Op::Renew(which) => {
                let (id, token) = self.ticket(*which);
                Act::Renew(id, token)
            }
            Op::Complete(which) => {
                let (id, token) = self.ticket(*which);
                Act::Complete(id, token)
            }
            Op::Fail(which) => {
                let (id, token) = self.ticket(*which);
                Act::Fail(id, token)
            }
            Op::Release(which) => {
                let (id, token) = self.ticket(*which);
                Act::Release(id, token)
            }
            Op::Force(task) => Act::Force(self.pick(*task)),
            Op::Retry(task) => Act::Retry(self.pick(*task)),
            Op::Delete(task) => Act::Delete(self.pick(*task)),
            Op::Retitle(task) => {
                Act::Retitle(self.pick(*task), format!("title {}", self.counts.steps))
            }
            Op::Assign(task, owner) => Act::Assign(self.pick(*task), owner.as_ref().map(worker)),
            Op::Block(task, blockers) => Act::Block(self.pick(*task), self.picks(blockers)),
            Op::Send { to, size } => self.message("lead", Some(*to), *size),
            Op::Broadcast { size } => self.message("lead", None, *size),
            Op::ToLead { from, size } => {
                self.messages += 1;
                let from = worker(from);
                Act::Send {
                    from,
                    to: Recipient::Lead,
                    boxes: vec![format!("outbox/{from}")],
                    tag: format!("m{}", self.messages),
                    size: usize::from(*size),
                }
            }
            Op::Receive { who, limit, ack } => Act::Receive {
                who: reader_name(*who),
                limit: usize::from(*limit),
                ack: *ack,
            },
            Op::Acknowledge { who, which } => self.acknowledgement(*who, *which),
            _ => Act::Notice,
        }
    }

    fn acknowledgement(&self, who: u8, which: u8) -> Act {
        let who = reader_name(who);
        let labels = self.mail.labels(who);
        let label = &labels[usize::from(which) % labels.len()];
        let messages = self.world.mailbox(label);
        if messages.is_empty() {
            return Act::Notice;
        }
        let place = usize::from(which) % messages.len();
        Act::Acknowledge {
            who,
            label: label.clone(),
            place,
            id: messages[place].0.clone(),
        }
    }
}

fn reader_name(who: u8) -> &'static str {
    WORKERS.get(usize::from(who)).copied().unwrap_or("lead")
}

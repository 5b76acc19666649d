//! What happens in the team while the bridge is at it: mail, wishes that it stop, work that became free.

use std::time::{Duration, Instant};

use teamster_journal::Event as Recorded;
use teamster_journal::payload::WorkerResumed;
use teamster_journal::{EventKind, EventType, family};
use teamster_store::{Reader, Signal};
use teamster_types::heartbeat::WorkerStatus;
use teamster_types::message::Message;

use super::{Bridge, asked};

/// More than this is not read at once.
const PAGE: usize = 500;
/// Small things that an agent does are recorded at most this often; the log has all of them.
const SMALL_NEWS: Duration = Duration::from_secs(2);

impl Bridge {
    /// Reads what was recorded since the last time; whether there may be work now.
    pub(super) fn read_the_news(&mut self) -> bool {
        let (mut is_mail, mut is_work) = (false, false);
        let mut any = false;
        while let Ok(page) = self.store.events(&self.who.team, self.seen + 1, PAGE) {
            let Some(last) = page.events.last() else {
                break;
            };
            self.seen = last.seq;
            any = true;
            is_mail |= page.events.iter().any(|event| self.is_mail(event));
            is_work |= page.events.iter().any(makes_work);
            self.touched |= page.events.iter().any(|event| self.is_of_held(event));
        }
        if is_mail {
            self.read_mail();
        }
        // Without an event it was another program, or a lease that was renewed.
        is_work || !any
    }

    fn is_mail(&self, event: &Recorded) -> bool {
        event.is(EventType::MessageSent) && event.actor != self.who.name.as_str()
    }

    /// Whether somebody else did something to the task that is held.
    fn is_of_held(&self, event: &Recorded) -> bool {
        event.kind.starts_with(family::TASK)
            && event.task_id.is_some()
            && event.task_id == self.holding
            && event.actor != self.who.name.as_str()
    }

    /// Reads the mail. It is acknowledged once the agent has been told.
    pub(super) fn read_mail(&mut self) {
        let reader = Reader::Worker(self.who.name.clone());
        let receive = |limit| self.store.receive(&self.who.team, &reader, limit, false);
        let delivery = match receive(PAGE) {
            // What is for the bridge itself, such as a person's answer, may lie behind all the mail for the agent.
            Ok(delivery) if delivery.messages.len() == PAGE => receive(usize::MAX),
            other => other,
        };
        let delivery = match delivery {
            Ok(delivery) => delivery,
            Err(error) => {
                self.tell(&format!("cannot read the mail: {error}"));
                return;
            }
        };
        let mut is_only_for_us = self.mail.is_empty();
        for (place, message) in delivery.messages.iter().enumerate() {
            let is_for_us = matches!(message.kind(), "shutdown_request" | "resume");
            if is_for_us && !self.obeyed.insert(message.id().to_owned()) {
                continue;
            }
            match message.kind() {
                // It was for an earlier process of this name.
                "shutdown_request" if self.is_from_before(message) => {}
                "shutdown_request" => self.asked_to_stop(Signal {
                    request_id: message.text("requestId").to_owned(),
                    reason: message.content().to_owned(),
                    timestamp: message.timestamp().unwrap_or_else(|| self.store.now()),
                    drain: message.as_object().get("drain") == Some(&true.into()),
                }),
                "resume" => self.resume(message.from()),
                asked::ANSWER => self.take_answer(message),
                _ => {
                    is_only_for_us = false;
                    let is_known = || self.mail.iter().any(|known| known.id() == message.id());
                    if place < PAGE && !is_known() {
                        self.mail.push(message.clone());
                    }
                }
            }
        }
        if is_only_for_us && let Some(last) = delivery.messages.last() {
            let _ = self.store.acknowledge(&self.who.team, &reader, last.id());
        }
    }

    /// Whether a message was there before this process began. The journal orders our own; only a message of another
    /// program, which has no place in it, is judged by its time.
    pub(super) fn is_from_before(&self, message: &Message) -> bool {
        match message.seq() {
            Some(seq) => seq <= self.began_after,
            None => message.timestamp().is_some_and(|sent| sent < self.began),
        }
    }

    /// The agent was told what was in the mail.
    pub(super) fn mail_is_passed_on(&mut self) {
        // What came after the prompt was written is for the next one.
        let Some(last) = self.mail[..self.told].last() else {
            return;
        };
        let reader = Reader::Worker(self.who.name.clone());
        match self.store.acknowledge(&self.who.team, &reader, last.id()) {
            Ok(_) => {
                self.mail.drain(..self.told);
                self.told = 0;
                // There may be more than one page.
                self.read_mail();
            }
            Err(error) => self.tell(&format!("cannot acknowledge the mail: {error}")),
        }
    }

    /// Somebody wants the worker to stop. A wish to stop now overrides one to finish first.
    pub(super) fn asked_to_stop(&mut self, signal: Signal) {
        let is_new = match &self.stop {
            None => true,
            Some(known) => known.drain && !signal.drain,
        };
        if is_new {
            let how = if signal.drain {
                "stops after the current task"
            } else {
                "stops now"
            };
            self.tell(&format!("{how}: {}", signal.reason));
            self.stop = Some(signal);
        }
    }

    /// A person lets a quarantined worker go on.
    fn resume(&mut self, by: &str) {
        if !self.is_quarantined() {
            return;
        }
        self.errors = 0;
        self.heartbeat.lets_go(0);
        self.heartbeat.is(WorkerStatus::Polling);
        self.tell(&format!("goes on: {by} said so"));
        let event = self.event(EventKind::WorkerResumed(WorkerResumed {
            by: by.to_owned(),
        }));
        self.record(event);
    }

    /// Whether a small thing may be recorded now.
    pub(super) fn is_time_for_small_news(&mut self) -> bool {
        let is_time = self
            .last_told
            .is_none_or(|last| last.elapsed() >= SMALL_NEWS);
        if is_time {
            self.last_told = Some(Instant::now());
        }
        is_time
    }
}

/// Whether there may be something to claim after this event.
fn makes_work(event: &Recorded) -> bool {
    match event.known_kind() {
        Some(
            EventType::WorkerDead
            | EventType::WorkerQuarantined
            | EventType::WorkerResumed
            | EventType::WorkerStopped
            // What waited for it can begin.
            | EventType::MergeMerged,
        ) => true,
        Some(EventType::TaskClaimed) => false,
        _ => event.kind.starts_with(family::TASK),
    }
}

//! The fixture of every test of the suite: a store, two processes, a clock, and a check of the store after every step.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use teamster_journal::payload::TaskChange;
use teamster_journal::{Event, EventActor, EventKind, NewEvent};
use teamster_store::{
    Backend, ClaimRequest, Claimed, Delivery, OutgoingMessage, Reader, Recipient, Result, Store,
    StoreError, StoreErrorKind,
};
use teamster_types::heartbeat::{Heartbeat, WorkerStatus};
use teamster_types::json::Object;
use teamster_types::message::Message;
use teamster_types::task::{NewTask, Task, Token};
use teamster_types::team::{NewMember, NewTeam};
use teamster_types::transitions::TaskEdit;
use teamster_types::{TaskId, TeamName, WorkerName};

use super::order::JournalChecker;
use super::snapshot::TeamSnapshot;
use crate::ManualClock;

/// The members that every fixture begins with. None of them needs a capability.
pub(super) const MEMBERS: [&str; 3] = ["worker-1", "worker-2", "worker-3"];

/// A back end with one fresh team.
pub struct StoreFixture {
    /// The store, used by a process that lives.
    pub store: Arc<dyn Store>,
    /// The same store, used by a process that is gone: claims made here belong to a dead process.
    pub ghost: Arc<dyn Store>,
    /// The store's clock.
    pub clock: Arc<ManualClock>,
    /// The team.
    pub team: TeamName,
    /// The folder the team works in.
    pub project: String,
    raw: Arc<dyn Backend>,
    seen: Mutex<JournalChecker>,
}

impl StoreFixture {
    /// Creates the team `fix-ts` in an empty store that a living process and a dead one share.
    pub fn new<B: Backend + 'static>(
        living: B,
        gone: B,
        clock: Arc<ManualClock>,
        project: &str,
    ) -> Self {
        let living = Arc::new(living);
        let fixture = Self {
            store: living.clone(),
            ghost: Arc::new(gone),
            clock,
            team: name("fix-ts"),
            project: project.to_owned(),
            raw: living,
            seen: Mutex::default(),
        };
        let new = fixture.new_team("fix-ts", &MEMBERS);
        fixture.step("make the team", fixture.store.create_team(&new, None));
        fixture
    }

    /// Checks the store a last time, from the beginning of the journal.
    pub(super) fn end(&self) {
        if self.store.team(&self.team).is_ok() {
            self.seen
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .forget();
            self.look_around("the end of the test");
        }
    }

    /// Advances the clock.
    pub(super) fn wait(&self, span: Duration) {
        self.clock
            .advance(i64::try_from(span.as_millis()).unwrap_or(i64::MAX));
    }

    /// Advances the clock by this many seconds.
    pub(super) fn wait_secs(&self, seconds: u64) {
        self.wait(Duration::from_secs(seconds));
    }

    /// Returns the specification of a team with these members.
    pub(super) fn new_team(&self, team: &str, members: &[&str]) -> NewTeam {
        NewTeam {
            name: name(team),
            description: "fix type errors".to_owned(),
            project: self.project.clone(),
            members: members
                .iter()
                .map(|member| NewMember {
                    name: worker(member),
                    provider: String::new(),
                    capabilities: None,
                })
                .collect(),
            run: None,
        }
    }

    /// Checks that a step succeeded, and returns its result.
    pub(super) fn step<T>(&self, what: &str, done: Result<T>) -> T {
        match done {
            Ok(value) => {
                self.look_around(what);
                value
            }
            Err(error) => panic!("{what}: {error} ({:?})", error.kind),
        }
    }

    /// Performs a step that must be refused and change nothing at all, and returns the error.
    pub(super) fn refuse<T: Debug>(
        &self,
        what: &str,
        kind: StoreErrorKind,
        attempt: impl FnOnce(&dyn Store) -> Result<T>,
    ) -> StoreError {
        let before = self.snapshot();
        let error = match attempt(&*self.store) {
            Err(error) => error,
            Ok(done) => panic!("{what}: should have been refused, but gave {done:?}"),
        };
        assert_eq!(error.kind, kind, "{what}: {error}");
        let changed = before.differences(&self.snapshot());
        assert!(
            changed.is_empty(),
            "{what}: was refused and still changed {changed:?}"
        );
        self.look_around(what);
        error
    }

    pub(super) fn snapshot(&self) -> TeamSnapshot {
        TeamSnapshot::of(&*self.store, &self.team)
            .unwrap_or_else(|error| panic!("the store cannot be read: {error}"))
    }

    pub(super) fn create(&self, subject: &str) -> TaskId {
        self.create_with(subject, |_| {})
    }

    pub(super) fn create_with(&self, subject: &str, set: impl FnOnce(&mut NewTask)) -> TaskId {
        let mut new = NewTask {
            subject: subject.to_owned(),
            ..NewTask::default()
        };
        set(&mut new);
        let created = self.store.create_task(&self.team, &EventActor::Lead, &new);
        self.step("create", created).id().clone()
    }

    pub(super) fn update(&self, id: &TaskId, set: impl FnOnce(&mut TaskEdit)) -> Task {
        let mut edit = TaskEdit::default();
        set(&mut edit);
        let updated = self
            .store
            .update_task(&self.team, &EventActor::Lead, id, &edit);
        self.step("update", updated)
    }

    pub(super) fn delete(&self, id: &TaskId) -> Task {
        self.step(
            "delete",
            self.store.delete_task(&self.team, &EventActor::Lead, id),
        )
    }

    pub(super) fn task(&self, id: &TaskId) -> Task {
        self.step("read the task", self.store.task(&self.team, id))
    }

    pub(super) fn tasks(&self) -> Vec<Task> {
        self.step("read the tasks", self.store.tasks(&self.team))
            .tasks
    }

    /// Claims the next task for a worker; there must be one.
    pub(super) fn claim(&self, who: &str) -> Claimed {
        self.claimed(who, self.store.claim(&self.team, &claim_request(who, None)))
            .unwrap_or_else(|| panic!("there is nothing for {who}"))
    }

    /// Claims a specific task; it must be claimable.
    pub(super) fn claim_id(&self, who: &str, id: &TaskId) -> Claimed {
        self.claimed(
            who,
            self.store.claim(&self.team, &claim_request(who, Some(id))),
        )
        .unwrap_or_else(|| panic!("{who} did not get task {id}"))
    }

    /// Claims the next task for a worker whose process is gone.
    pub(super) fn claim_as_ghost(&self, who: &str) -> Claimed {
        self.claimed(who, self.ghost.claim(&self.team, &claim_request(who, None)))
            .unwrap_or_else(|| panic!("there is nothing for {who}"))
    }

    /// Checks that there is no task for this worker, and that asking changes nothing.
    pub(super) fn nothing_for(&self, who: &str) {
        let before = self.snapshot();
        let got = self.claimed(who, self.store.claim(&self.team, &claim_request(who, None)));
        assert!(got.is_none(), "{who} got {got:?}");
        let changed = before.differences(&self.snapshot());
        assert!(
            changed.is_empty(),
            "asking for work in vain changed {changed:?}"
        );
    }

    fn claimed(&self, who: &str, got: Result<Option<Claimed>>) -> Option<Claimed> {
        if let Ok(Some(claimed)) = &got {
            let token = claimed.token.reveal().to_owned();
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.token(token);
        }
        self.step(&format!("claim by {who}"), got)
    }

    pub(super) fn renew(&self, claimed: &Claimed) -> Claimed {
        let (id, token) = (claimed.task.id(), &claimed.token);
        self.step("renew", self.store.renew(&self.team, id, token, None))
    }

    pub(super) fn complete(&self, claimed: &Claimed) -> Task {
        let (id, token) = (claimed.task.id(), &claimed.token);
        self.step("complete", self.store.complete(&self.team, id, token, None))
    }

    pub(super) fn fail(&self, claimed: &Claimed, error: &str) -> Task {
        let (id, token) = (claimed.task.id(), &claimed.token);
        self.step("fail", self.store.fail(&self.team, id, token, error))
    }

    pub(super) fn release(&self, claimed: &Claimed) -> Task {
        let (id, token) = (claimed.task.id(), Some(&claimed.token));
        self.step(
            "release",
            self.store.release(&self.team, &"-".into(), id, token),
        )
    }

    /// Checks that every operation with this token is refused and changes nothing.
    pub(super) fn refuse_token(&self, id: &TaskId, token: &Token) {
        let team = &self.team;
        self.refuse("renew", StoreErrorKind::Conflict, |store| {
            store.renew(team, id, token, None)
        });
        self.refuse("complete", StoreErrorKind::Conflict, |store| {
            store.complete(team, id, token, None)
        });
        self.refuse("fail", StoreErrorKind::Conflict, |store| {
            store.fail(team, id, token, "late")
        });
        self.refuse("release", StoreErrorKind::Conflict, |store| {
            store.release(team, &"-".into(), id, Some(token))
        });
    }

    /// Rewrites a task as another program would leave it.
    pub(super) fn rewrite_as_foreign(&self, id: &TaskId, change: impl Fn(&mut Object)) {
        let rewritten = self.raw.change(&self.team, "foreign", &mut |tx| {
            let Some(before) = tx.open(id)? else {
                return Err(StoreError::not_found("no such task"));
            };
            let mut object = before.as_object().clone();
            change(&mut object);
            let after = Task::from_object(id, object).map_err(StoreError::refused)?;
            tx.put(after.clone());
            let change = TaskChange::between(Some(&before), Some(&after));
            tx.event(NewEvent::new("foreign", EventKind::TaskUpdated(change)).task(id));
            Ok(())
        });
        self.step("rewrite", rewritten.map(drop));
    }

    pub(super) fn send(&self, from: &str, to: Recipient, content: &str) -> Vec<Message> {
        let outgoing = message(from, to, content);
        self.step("send", self.store.send(&self.team, &outgoing))
    }

    /// Sends a message to a worker.
    pub(super) fn tell(&self, from: &str, to: &str, content: &str) -> Message {
        let mut sent = self.send(from, Recipient::Worker(to.to_owned()), content);
        assert_eq!(sent.len(), 1, "one recipient gets one message");
        sent.remove(0)
    }

    pub(super) fn receive(&self, reader: &Reader, limit: usize, ack: bool) -> Delivery {
        let delivery = self.store.receive(&self.team, reader, limit, ack);
        self.step("receive", delivery)
    }

    /// Reads a worker's messages without acknowledging them.
    pub(super) fn read(&self, who: &str) -> Vec<String> {
        contents(&self.receive(&Reader::Worker(worker(who)), 1_000, false))
    }

    /// Reads and acknowledges a worker's messages.
    pub(super) fn read_and_ack(&self, who: &str) -> Vec<String> {
        contents(&self.receive(&Reader::Worker(worker(who)), 1_000, true))
    }

    pub(super) fn events(&self) -> Vec<Event> {
        self.store
            .events(&self.team, 1, usize::MAX)
            .unwrap_or_else(|error| panic!("the journal cannot be read: {error}"))
            .events
    }

    /// Returns the types of events after a position.
    pub(super) fn kinds_after(&self, position: u64) -> Vec<String> {
        self.events()
            .into_iter()
            .filter(|event| event.seq > position)
            .map(|event| event.kind)
            .collect()
    }

    pub(super) fn position(&self) -> u64 {
        self.store
            .position(&self.team)
            .unwrap_or_else(|error| panic!("the journal has no position: {error}"))
    }

    /// Writes a current heartbeat of a worker, and returns it.
    pub(super) fn beat(&self, who: &str, set: impl FnOnce(&mut Heartbeat)) -> Heartbeat {
        let mut beat = Heartbeat {
            worker_name: worker(who),
            team_name: self.team.clone(),
            provider: String::new(),
            pid: 4711,
            last_poll_at: self.store.now(),
            current_task_id: None,
            consecutive_errors: 0,
            status: WorkerStatus::Polling,
            process_start_time: None,
            boot_id: None,
            pid_ns: None,
            host: None,
            agent_session_id: None,
            last_event_at: None,
            limit: None,
            store_refusal: None,
            launch: None,
        };
        set(&mut beat);
        self.step("beat", self.store.beat(&beat));
        beat
    }

    fn look_around(&self, step: &str) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = seen.look_around(step, &*self.store, &self.team) {
            panic!("after {step}: {error}");
        }
    }
}

/// Parses the name of a team.
pub(super) fn name(text: &str) -> TeamName {
    text.parse()
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Parses the name of a worker.
pub(super) fn worker(text: &str) -> WorkerName {
    text.parse()
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Returns the id of a task.
pub(super) fn id(number: u64) -> TaskId {
    TaskId::from_number(number)
}

/// Returns a worker's claim request.
pub(super) fn claim_request(who: &str, id: Option<&TaskId>) -> ClaimRequest {
    ClaimRequest {
        worker: worker(who),
        id: id.cloned(),
        lease: None,
    }
}

/// Returns a plain message.
pub(super) fn message(from: &str, to: Recipient, content: &str) -> OutgoingMessage {
    OutgoingMessage {
        from: from.to_owned(),
        to,
        kind: "message".to_owned(),
        content: content.to_owned(),
        extra: Object::new(),
    }
}

/// Returns the texts of the messages of a delivery.
pub(super) fn contents(delivery: &Delivery) -> Vec<String> {
    let messages = delivery.messages.iter();
    messages
        .map(|message| message.content().to_owned())
        .collect()
}

//! Runs the same sequence of operations on the in-memory store and on PostgreSQL: results, tasks, journal and mail must
//! be the same after every step. The file store is compared with the in-memory store by its own suite.

use std::cell::Cell;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use teamster_journal::EventActor;
use teamster_postgres::{PgSettings, PgStore};
use teamster_store::{ClaimRequest, OutgoingMessage, Reader, Recipient, Store, StoreError};
use teamster_testkit::scratch::{gone, stopped_clock};
use teamster_testkit::{ManualClock, MemStore};
use teamster_types::process::{ProcessId, ProcessState};
use teamster_types::task::{NewTask, Token};
use teamster_types::transitions::TaskEdit;
use teamster_types::{TaskId, TeamName};

use crate::{Database, PATIENCE, make_team};

/// The number of sequences; nightly runs set more.
const CASES: u32 = 40;
const WORKERS: [&str; 3] = ["ada", "bob", "cy"];

#[derive(Clone, Debug)]
enum StoreOperation {
    Create {
        waits_for: Option<u64>,
        owner: Option<usize>,
    },
    Claim {
        worker: usize,
        task: Option<u64>,
        is_ghost: bool,
    },
    Renew(usize),
    Complete(usize),
    Fail(usize),
    Block(usize),
    Release(usize),
    TakeBack(u64),
    Retry(u64),
    Unblock(u64),
    Rename(u64),
    Delete(u64),
    Send {
        from: usize,
        to: usize,
    },
    Receive {
        worker: usize,
        limit: usize,
        acks: bool,
    },
    Pass(i64),
}

fn step() -> impl Strategy<Value = StoreOperation> {
    let (task, ticket, worker) = (1..8_u64, 0..6_usize, 0..WORKERS.len());
    prop_oneof![
        4 => (proptest::option::of(task.clone()), proptest::option::of(worker.clone()))
            .prop_map(|(waits_for, owner)| StoreOperation::Create { waits_for, owner }),
        6 => (worker.clone(), proptest::option::weighted(0.3, task.clone()), proptest::bool::weighted(0.2))
            .prop_map(|(worker, task, is_ghost)| StoreOperation::Claim { worker, task, is_ghost }),
        1 => ticket.clone().prop_map(StoreOperation::Renew),
        3 => ticket.clone().prop_map(StoreOperation::Complete),
        2 => ticket.clone().prop_map(StoreOperation::Fail),
        1 => ticket.clone().prop_map(StoreOperation::Block),
        2 => ticket.prop_map(StoreOperation::Release),
        1 => task.clone().prop_map(StoreOperation::TakeBack),
        1 => task.clone().prop_map(StoreOperation::Retry),
        1 => task.clone().prop_map(StoreOperation::Unblock),
        1 => task.clone().prop_map(StoreOperation::Rename),
        1 => task.prop_map(StoreOperation::Delete),
        2 => (worker.clone(), worker.clone()).prop_map(|(from, to)| StoreOperation::Send { from, to }),
        2 => (worker, 1..4_usize, any::<bool>())
            .prop_map(|(worker, limit, acks)| StoreOperation::Receive { worker, limit, acks }),
        1 => (1..200_000_i64).prop_map(StoreOperation::Pass),
    ]
}

/// One of the two stores, with the tokens it issued.
struct StoreSide {
    store: Box<dyn Store>,
    ghost: Box<dyn Store>,
    team: TeamName,
    tickets: Vec<(TaskId, Token)>,
}

impl StoreSide {
    fn new(store: Box<dyn Store>, ghost: Box<dyn Store>, name: &str) -> Self {
        let team = make_team(store.as_ref(), name);
        Self {
            store,
            ghost,
            team,
            tickets: Vec::new(),
        }
    }

    /// Executes a step and returns the result without what differs between stores: tokens and message ids.
    fn step(&mut self, step: &StoreOperation) -> String {
        match self.try_step(step) {
            Ok(answer) => answer,
            Err(error) => format!("{:?}, busy {}", error.kind, error.busy),
        }
    }

    fn try_step(&mut self, step: &StoreOperation) -> Result<String, StoreError> {
        let (team, person) = (self.team.clone(), EventActor::Person);
        let id = |number: &u64| TaskId::from_number(*number);
        let store = &self.store;
        let ticket = |place: &usize| self.tickets.iter().rev().nth(*place).cloned();
        let named = |task: teamster_types::task::Task| format!("{} {:?}", task.id(), task.status());
        Ok(match step {
            StoreOperation::Create { waits_for, owner } => {
                let new = NewTask {
                    subject: "work".to_owned(),
                    blocked_by: waits_for.iter().map(id).collect(),
                    owner: owner.map(|owner| WORKERS[owner].parse()).transpose()?,
                    ..NewTask::default()
                };
                named(store.create_task(&team, &person, &new)?)
            }
            StoreOperation::Claim {
                worker,
                task,
                is_ghost,
            } => {
                let request = ClaimRequest {
                    worker: WORKERS[*worker].parse()?,
                    id: task.as_ref().map(id),
                    lease: None,
                };
                let asked = if *is_ghost { &self.ghost } else { &self.store };
                let Some(claimed) = asked.claim(&team, &request)? else {
                    return Ok("nothing".to_owned());
                };
                let told = format!("{} fence {}", claimed.task.id(), claimed.fence);
                self.tickets
                    .push((claimed.task.id().clone(), claimed.token));
                told
            }
            StoreOperation::Renew(place) => match ticket(place) {
                Some((id, token)) => named(store.renew(&team, &id, &token, None)?.task),
                None => String::new(),
            },
            StoreOperation::Complete(place) => match ticket(place) {
                Some((id, token)) => named(store.complete(&team, &id, &token, None)?),
                None => String::new(),
            },
            StoreOperation::Fail(place) => match ticket(place) {
                Some((id, token)) => named(store.fail(&team, &id, &token, "boom")?),
                None => String::new(),
            },
            StoreOperation::Block(place) => match ticket(place) {
                Some((id, token)) => named(store.block(&team, &id, &token, "why?")?),
                None => String::new(),
            },
            StoreOperation::Release(place) => match ticket(place) {
                Some((id, token)) => named(store.release(&team, &person, &id, Some(&token))?),
                None => String::new(),
            },
            StoreOperation::TakeBack(task) => {
                named(store.release(&team, &person, &id(task), None)?)
            }
            StoreOperation::Retry(task) => named(store.retry(&team, &person, &id(task))?),
            StoreOperation::Unblock(task) => {
                named(store.unblock(&team, &person, &id(task), "so")?)
            }
            StoreOperation::Rename(task) => {
                let edit = TaskEdit {
                    subject: Some("other work".to_owned()),
                    ..TaskEdit::default()
                };
                named(store.update_task(&team, &person, &id(task), &edit)?)
            }
            StoreOperation::Delete(task) => named(store.delete_task(&team, &person, &id(task))?),
            StoreOperation::Send { from, to } => {
                let outgoing = OutgoingMessage {
                    from: WORKERS[*from].to_owned(),
                    to: Recipient::Worker(WORKERS[*to].to_owned()),
                    kind: "message".to_owned(),
                    content: "hello".to_owned(),
                    extra: teamster_types::json::Object::new(),
                };
                store.send(&team, &outgoing)?.len().to_string()
            }
            StoreOperation::Receive {
                worker,
                limit,
                acks,
            } => {
                let reader = Reader::Worker(WORKERS[*worker].parse()?);
                let delivery = store.receive(&team, &reader, *limit, *acks)?;
                delivery.messages.len().to_string()
            }
            StoreOperation::Pass(_) => String::new(),
        })
    }

    /// Returns everything that a reader sees, without tokens and random ids.
    fn seen(&self) -> Vec<String> {
        let tasks = self.store.tasks(&self.team).unwrap().tasks;
        let tasks = tasks.iter().map(|task| {
            format!(
                "task {} {:?} {:?} {} fence {} version {} {:?} {:?} {:?}",
                task.id(),
                task.status(),
                task.owner(),
                task.subject(),
                task.fence(),
                task.version(),
                task.blocked_by(),
                task.not_before(),
                task.is_failed(),
            )
        });
        let events = self.store.events(&self.team, 1, usize::MAX).unwrap().events;
        let events = events.iter().map(|event| {
            let task = event.task_id.as_ref().map(ToString::to_string);
            format!(
                "event {} {} {:?} {:?}",
                event.seq, event.kind, task, event.ts
            )
        });
        let mail = WORKERS.iter().map(|worker| {
            let reader = Reader::Worker(worker.parse().unwrap());
            let waiting = self.store.peek(&self.team, &reader, usize::MAX);
            format!(
                "{worker} has {:?}",
                waiting.map(|it| it.messages.len()).ok()
            )
        });
        tasks.chain(events).chain(mail).collect()
    }
}

fn in_memory(clock: &Arc<ManualClock>, name: &str) -> StoreSide {
    let dead = gone();
    let alive = ProcessId {
        process_start_time: dead.process_start_time + 1,
        ..dead.clone()
    };
    let judged = dead.clone();
    let store = MemStore::new(clock.clone(), alive, move |process| {
        if *process == judged {
            ProcessState::Gone
        } else {
            ProcessState::Alive
        }
    });
    let ghost = store.claiming_as(dead);
    StoreSide::new(Box::new(store), Box::new(ghost), name)
}

fn in_database(database: &Database, clock: &Arc<ManualClock>, name: &str) -> StoreSide {
    let settings = PgSettings {
        clock: Some(clock.clone()),
        patience: PATIENCE,
        ..PgSettings::default()
    };
    let store = PgStore::open(database.url(), settings).unwrap();
    let ghost = store.claiming_as(gone());
    StoreSide::new(Box::new(store), Box::new(ghost), name)
}

#[test]
fn sequences_on_postgres_are_those_in_memory() {
    let Some(database) = Database::new() else {
        return;
    };
    let cases = std::env::var("TEAMSTER_CASES");
    let cases = cases.ok().and_then(|count| count.parse().ok());
    let config = Config {
        cases: cases.map_or(CASES, |count: u32| count / 10),
        failure_persistence: None,
        max_shrink_iters: 300,
        ..Config::default()
    };
    let (number, answered) = (Cell::new(0_u32), Cell::new(0_u32));
    let steps = proptest::collection::vec(step(), 1..40);
    let ran = TestRunner::new(config).run(&steps, |steps| {
        number.set(number.get() + 1);
        let clock = stopped_clock();
        let name = format!("crew-{}", number.get());
        let mut memory = in_memory(&clock, &name);
        let mut postgres = in_database(&database, &clock, &name);
        for step in &steps {
            if let StoreOperation::Pass(span) = step {
                clock.advance(*span);
            }
            let (wanted, got) = (memory.step(step), postgres.step(step));
            prop_assert_eq!(&wanted, &got, "{:?} of {:?}", step, steps);
            prop_assert_eq!(
                memory.seen(),
                postgres.seen(),
                "after {:?} of {:?}",
                step,
                steps
            );
            answered.set(answered.get() + u32::from(!wanted.contains("busy")));
        }
        Ok(())
    });
    if let Err(error) = ran {
        panic!("{error}");
    }
    println!(
        "{} sequences, {} steps that succeeded",
        number.get(),
        answered.get()
    );
    assert!(answered.get() > number.get());
}

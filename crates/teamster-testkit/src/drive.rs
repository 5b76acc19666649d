//! Clients that call a real store concurrently, with random operations in random order.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use teamster_fs::fail;
use teamster_journal::EventActor;
use teamster_store::{ClaimRequest, PlannedTask, Result, Store, StoreErrorKind};
use teamster_types::task::{NewTask, Token};
use teamster_types::team::NewTeam;
use teamster_types::transitions::LEASE;
use teamster_types::{TaskId, TeamName};

use crate::ManualClock;
use crate::claims::Claimant;
use crate::history::{ClaimHistory, HistoryEntry, StoreCall, StoreReply};

/// The number of concurrent clients.
pub const CLIENTS: usize = 8;
/// The number of tasks that they compete for.
pub const TASKS: usize = 6;
/// The number of operations per client.
pub const OPERATIONS: usize = 25;

/// A store as its clients see it: each client has its own handle, and one for a process that is gone.
pub struct ClientHandles {
    /// For each client, the handle of a living process and that of a dead one.
    pub faces: Vec<(Box<dyn Store>, Box<dyn Store>)>,
    /// The clock that all share.
    pub clock: Arc<ManualClock>,
    /// One operation in this many dies midway; 0 means never.
    pub deaths: u64,
}

/// A small, fast random number generator; the same seed yields the same numbers.
struct DriveRandom(u64);

impl DriveRandom {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// The result of one run of the clients.
#[derive(Clone, Debug, Default)]
pub struct DriveResult {
    /// The recorded history.
    pub history: ClaimHistory,
    /// How many operations died.
    pub deaths: u64,
}

/// Creates a new team and runs all clients on it.
pub fn drive(faces: &ClientHandles, number: u64, project: &str) -> DriveResult {
    let team: TeamName = format!("history-{number}")
        .parse()
        .unwrap_or_else(|error| panic!("{error}"));
    make_team(&*faces.faces[0].0, &team, project);
    let moment = AtomicU64::new(0);
    let parts: Vec<(Vec<HistoryEntry>, u64)> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (team, moment) = (&team, &moment);
                scope.spawn(move || Client::new(faces, team, client, number).run(moment))
            })
            .collect();
        clients
            .into_iter()
            .map(|client| {
                client
                    .join()
                    .unwrap_or_else(|_| panic!("a client panicked in history {number}"))
            })
            .collect()
    });
    let deaths = parts.iter().map(|(_, deaths)| deaths).sum();
    let history = ClaimHistory {
        tasks: TASKS,
        entries: parts.into_iter().flat_map(|(entries, _)| entries).collect(),
        nothing_hidden: faces.deaths == 0,
    };
    DriveResult { history, deaths }
}

fn make_team(store: &dyn Store, team: &TeamName, project: &str) {
    let new = NewTeam {
        name: team.clone(),
        description: String::new(),
        project: project.to_owned(),
        members: Vec::new(),
        run: None,
    };
    let planned = |number: usize| PlannedTask {
        task: NewTask {
            subject: format!("task {number}"),
            ..NewTask::default()
        },
        after: Vec::new(),
    };
    let plan: Vec<PlannedTask> = (0..TASKS).map(planned).collect();
    let made = store
        .create_team(&new, None)
        .and_then(|_| store.import_tasks(team, &EventActor::Lead, &plan));
    if let Err(error) = made {
        panic!("cannot make {team}: {error}");
    }
}

struct Client<'a> {
    faces: &'a ClientHandles,
    team: &'a TeamName,
    number: usize,
    dice: DriveRandom,
    /// The tokens that it was given, the latest last.
    tickets: Vec<(usize, String)>,
}

impl<'a> Client<'a> {
    fn new(faces: &'a ClientHandles, team: &'a TeamName, number: usize, history: u64) -> Self {
        let seed = (history + 1)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .wrapping_add(number as u64 * 0x1234_5677)
            | 1;
        let mut dice = DriveRandom(seed);
        // Similar seeds yield similar first numbers.
        for _ in 0..20 {
            dice.roll(2);
        }
        Self {
            faces,
            team,
            number,
            dice,
            tickets: Vec::new(),
        }
    }

    fn run(mut self, moment: &AtomicU64) -> (Vec<HistoryEntry>, u64) {
        let mut entries = Vec::with_capacity(OPERATIONS);
        let mut deaths = 0;
        for _ in 0..OPERATIONS {
            let asked = self.choose();
            if self.faces.deaths > 0 && self.dice.roll(self.faces.deaths) == 0 {
                fail::die_after(self.dice.roll(140));
            }
            let called = moment.fetch_add(1, Ordering::SeqCst);
            let got = self.ask(&asked);
            let returned = moment.fetch_add(1, Ordering::SeqCst);
            let died = fail::revive();
            deaths += u64::from(died);
            let said = match got {
                Ok(said) => Some(said),
                Err(_) if died => None,
                // It timed out waiting for a lock: nothing happened, and there is nothing to record.
                Err(error) if error.busy => continue,
                Err(error) if error.kind == StoreErrorKind::Conflict => Some(StoreReply::No),
                Err(error) => panic!("{asked:?}: {error}"),
            };
            if let Some(StoreReply::Given(task, token)) = &said {
                self.tickets.push((*task, token.clone()));
            }
            entries.push(HistoryEntry {
                client: self.number,
                called,
                returned: said.is_some().then_some(returned),
                asked,
                said,
            });
        }
        (entries, deaths)
    }

    fn asker(&mut self) -> Claimant {
        Claimant {
            worker: u8::try_from(self.number).unwrap_or(0) % 5,
            ghost: self.dice.roll(3) == 0,
        }
    }

    fn any_task(&mut self) -> usize {
        usize::try_from(self.dice.roll(TASKS as u64)).unwrap_or(0)
    }

    fn ticket(&mut self) -> Option<(usize, String)> {
        // Mostly the latest token; now and then one that is long outdated.
        let back = 1 + usize::try_from(self.dice.roll(8) / 6).unwrap_or(0);
        let place = self.tickets.len().checked_sub(back)?;
        self.tickets.get(place).cloned()
    }

    fn choose(&mut self) -> StoreCall {
        let roll = self.dice.roll(100);
        match roll {
            0..30 => StoreCall::Next(self.asker()),
            30..42 => StoreCall::ById(self.asker(), self.any_task()),
            42..46 => StoreCall::Force(self.any_task()),
            46..50 => StoreCall::Retry(self.any_task()),
            50..53 => StoreCall::Pass,
            _ => match self.ticket() {
                None => StoreCall::Next(self.asker()),
                Some((task, token)) => match roll {
                    53..68 => StoreCall::Renew(task, token),
                    68..76 => StoreCall::Complete(task, token),
                    76..88 => StoreCall::Fail(task, token),
                    _ => StoreCall::Release(task, token),
                },
            },
        }
    }

    fn ask(&self, asked: &StoreCall) -> Result<StoreReply> {
        let (living, gone) = &self.faces.faces[self.number];
        let (store, team) = (living, self.team);
        let id = |task: &usize| TaskId::from_number(*task as u64 + 1);
        let claim = |asker: &Claimant, task: Option<&usize>| {
            let store = if asker.ghost { gone } else { living };
            let worker = format!("worker-{}", asker.worker);
            let request = ClaimRequest {
                worker: worker.parse()?,
                id: task.map(id),
                lease: None,
            };
            let claimed = store.claim(team, &request)?;
            Ok(claimed.map_or(StoreReply::Nothing, |claimed| {
                let number = usize::try_from(claimed.task.id().number()).unwrap_or(0);
                StoreReply::Given(number - 1, claimed.token.reveal().to_owned())
            }))
        };
        let yes = |_| StoreReply::Yes;
        match asked {
            StoreCall::Next(who) => claim(who, None),
            StoreCall::ById(who, task) => claim(who, Some(task)),
            StoreCall::Renew(task, token) => {
                let renewed = store.renew(team, &id(task), &Token::new(token), None);
                renewed.map(|_| StoreReply::Yes)
            }
            StoreCall::Complete(task, token) => {
                let done = store.complete(team, &id(task), &Token::new(token), None);
                done.map(yes)
            }
            StoreCall::Fail(task, token) => {
                let failed = store.fail(team, &id(task), &Token::new(token), "boom");
                failed.map(yes)
            }
            StoreCall::Release(task, token) => {
                let token = Token::new(token);
                store
                    .release(team, &"-".into(), &id(task), Some(&token))
                    .map(yes)
            }
            StoreCall::Force(task) => store
                .release(team, &EventActor::Person, &id(task), None)
                .map(yes),
            StoreCall::Retry(task) => store.retry(team, &EventActor::Person, &id(task)).map(yes),
            StoreCall::Pass => {
                let span = i64::try_from(LEASE.as_millis()).unwrap_or(0) + 60_000;
                self.faces.clock.advance(span);
                Ok(StoreReply::Yes)
            }
        }
    }
}

//! Tests of the store on a real PostgreSQL server: the suite of all stores, concurrent histories, and faults from
//! outside.

#![allow(
    missing_docs,
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that cannot go on has failed"
)]

mod attacks;
mod journal;
mod mutants;
mod refusals;
mod sequences;

use std::sync::Arc;
use std::time::{Duration, Instant};

use teamster_journal::EventActor;
use teamster_postgres::{PgSettings, PgStore, StoreUrl, init};
use teamster_store::{ClaimRequest, Claimed, Result, Store};
use teamster_testkit::conformance::{StoreFixture, run_all};
use teamster_testkit::drive::{CLIENTS, ClientHandles, drive};
use teamster_testkit::postgres::{PostgresServer, shared_server};
use teamster_testkit::scratch::{gone, stopped_clock};
use teamster_types::task::{NewTask, Task};
use teamster_types::team::{NewMember, NewTeam};
use teamster_types::{TaskId, TeamName};

/// The number of histories that are checked; nightly runs set more.
const HISTORIES: u64 = 40;

/// A separate database on the shared server, with the store's schema.
pub struct Database {
    pub server: &'static PostgresServer,
    pub name: String,
}

impl Database {
    /// Creates a database, or skips the test where no server is installed.
    pub fn new() -> Option<Self> {
        let server = shared_server()?;
        let database = Self::empty(server);
        init(&database.url()).unwrap();
        Some(database)
    }

    /// Creates a database without the schema.
    pub fn empty(server: &'static PostgresServer) -> Self {
        let url = server.database();
        let name = url.rsplit('/').next().unwrap_or_default().to_owned();
        Self { server, name }
    }

    pub fn url(&self) -> StoreUrl {
        StoreUrl::parse(&self.server.url(&self.name)).unwrap()
    }

    pub fn store(&self, patience: Duration) -> PgStore {
        let settings = PgSettings {
            patience,
            ..PgSettings::default()
        };
        PgStore::open(self.url(), settings).unwrap()
    }

    pub fn sql(&self, statements: &str) -> String {
        self.server.sql(&self.name, statements)
    }

    /// Opens a store with a team of `ada` and `bob` in it.
    pub fn team(&self) -> (PgStore, TeamName) {
        let store = self.store(PATIENCE);
        let team = make_team(&store, "crew");
        (store, team)
    }
}

/// A timeout that is long enough for anything that terminates at all.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub fn make_team(store: &dyn Store, name: &str) -> TeamName {
    let team: TeamName = name.parse().unwrap();
    let members = ["ada", "bob"].map(|name| NewMember {
        name: name.parse().unwrap(),
        provider: String::new(),
        capabilities: None,
    });
    let new = NewTeam {
        name: team.clone(),
        description: String::new(),
        project: "/project".to_owned(),
        members: members.to_vec(),
        run: None,
    };
    store.create_team(&new, None).unwrap();
    team
}

pub fn create(store: &dyn Store, team: &TeamName, subject: &str) -> TaskId {
    let new = NewTask {
        subject: subject.to_owned(),
        ..NewTask::default()
    };
    let made = store.create_task(team, &EventActor::Lead, &new).unwrap();
    made.id().clone()
}

pub fn claim(store: &dyn Store, team: &TeamName, worker: &str) -> Result<Option<Claimed>> {
    let request = ClaimRequest {
        worker: worker.parse().unwrap(),
        id: None,
        lease: None,
    };
    store.claim(team, &request)
}

pub fn complete(store: &dyn Store, team: &TeamName, claimed: &Claimed) -> Result<Task> {
    store.complete(team, claimed.task.id(), &claimed.token, None)
}

#[test]
fn postgres_store_conforms() {
    let Some(database) = Database::new() else {
        return;
    };
    let tables = "teams, positions, tasks, failures, boxes, mail, signals, events, beats, trash";
    let tables = tables.replace(", ", ", teamster.");
    run_all("PostgreSQL", |_| {
        database.sql(&format!("TRUNCATE teamster.{tables}"));
        let clock = stopped_clock();
        let settings = PgSettings {
            clock: Some(clock.clone()),
            ..PgSettings::default()
        };
        let store = PgStore::open(database.url(), settings).unwrap();
        let ghost = store.claiming_as(gone());
        StoreFixture::new(store, ghost, clock, "/project")
    });
}

#[test]
fn histories_on_postgres_are_linearizable() {
    let Some(database) = Database::new() else {
        return;
    };
    let set = std::env::var("TEAMSTER_HISTORIES").ok();
    let count = set
        .and_then(|count| count.parse::<u64>().ok())
        .map_or(HISTORIES, |count| count / 10);
    let clock = stopped_clock();
    let face = |_| -> (Box<dyn Store>, Box<dyn Store>) {
        let settings = PgSettings {
            clock: Some(clock.clone()),
            patience: PATIENCE,
            ..PgSettings::default()
        };
        let store = PgStore::open(database.url(), settings).unwrap();
        let ghost = store.claiming_as(gone());
        (Box::new(store), Box::new(ghost))
    };
    let faces = ClientHandles {
        faces: (0..CLIENTS).map(face).collect(),
        clock: Arc::clone(&clock),
        deaths: 0,
    };
    let start = Instant::now();
    let mut operations = 0;
    for number in 0..count {
        let driven = drive(&faces, number, "/project");
        operations += driven.history.entries.len();
        if let Err(wrong) = driven.history.judge() {
            panic!("history {number}: {wrong}");
        }
    }
    let took = start.elapsed().as_secs_f32();
    println!("{count} histories of {CLIENTS} clients, {operations} operations, {took:.1} s");
    assert!(operations as u64 >= count * 190);
}

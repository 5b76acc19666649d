//! The PostgreSQL store against the file store: claims by many processes, the latency of an event to a client of the
//! page, and the cost of idle workers for the server.
//!
//! The server is a separate one like that of the tests, on the disk and with full durability.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use teamster_postgres::PgStore;
use teamster_store::Store;
use teamster_testkit::postgres::PostgresServer;

use super::commands::beat_all;
use super::processes::{cpu_of, cpu_share, rest};
use super::store::claim_each_once;
use super::studio::{Server, events_of, latency};
use super::{Bench, Row, TASKS, WORKERS, by_turns, float};
use crate::product::TempProject;
use crate::{ci, fixture};

/// The rows with the numbers of processes that claim at once.
const CLAIMERS: [(&str, usize); 4] = [
    ("database-claims-1", 1),
    ("database-claims-4", 4),
    ("database-claims-16", 16),
    ("database-claims-64", 64),
];
/// The minimum number of claims per second with 16 claimants.
const CLAIMS_A_SECOND: f64 = 2_000.0;
/// The limit for the 99th percentile of the latency of an event, in milliseconds.
const EVENT: f64 = 150.0;
/// The share of one core of the server that a thousand idle workers may use.
const IDLE_THOUSAND: f64 = 0.2;
/// A folder on a disk that the server's user can access, wherever the build is.
const ON_DISK: &str = "/var/tmp";
/// How long nothing must have happened in a team before its workers count as idle.
const AT_REST: Duration = Duration::from_secs(10);

/// Starts a server; `None` where none is installed and skipping is allowed.
fn server(settings: &str) -> Result<Option<PostgresServer>> {
    let server = PostgresServer::start_in(Path::new(ON_DISK), settings);
    if server.is_none() {
        ci::skip(
            "database rows of the benchmark",
            "no PostgreSQL server is installed",
        )?;
    }
    Ok(server)
}

/// Measures claims, a cycle and events in the database.
pub(super) fn measure(bench: &Bench) -> Result<Vec<Row>> {
    let Some(server) = server("-c max_connections=300")? else {
        return Ok(Vec::new());
    };
    let mut rows = Vec::new();
    for row in CLAIMERS {
        rows.extend(claims(bench, &server, row)?);
    }
    rows.push(cycle(bench, &server)?);
    rows.push(events(bench, &server)?);
    Ok(rows)
}

/// Creates a project whose team is in a separate database.
fn project(server: &PostgresServer, workers: usize) -> Result<(TempProject, PgStore)> {
    let url = server.database();
    teamster_postgres::init(&teamster_postgres::StoreUrl::parse(&url)?)?;
    let project = TempProject::on_disk()?.with_database(&url);
    let store = workload::open_database(&url)?;
    fixture::create_team_in(&store, &project, workers)?;
    Ok((project, store))
}

/// Measures how fast this many processes claim tasks, each once, in the database and in files.
fn claims(
    bench: &Bench,
    server: &PostgresServer,
    (key, claimers): (&'static str, usize),
) -> Result<Vec<Row>> {
    let (tasks, samples) = bench.size((6_000, 3), (1_000, 1));
    let drain = |project: &TempProject, store: &dyn Store| -> Result<f64> {
        fixture::create_tasks(store, tasks)?;
        Ok(float(tasks) / claim_each_once(bench, project, claimers, tasks)?)
    };
    let (database, files) = by_turns(
        samples,
        || {
            let (project, store) = project(server, claimers)?;
            drain(&project, &store)
        },
        || {
            let project = TempProject::on_disk()?;
            let store = fixture::create_team(&project, claimers)?;
            drain(&project, &store)
        },
    )?;
    let what = format!("claims of {claimers} processes in PostgreSQL, durable, none twice");
    let times = format!("{database:.0} : {files:.0} in a second");
    let ratio = database / files;
    let mut rows = vec![Row::new(key, &what, "in files", ratio, times.clone())];
    if claimers == 16 {
        let against = format!("{CLAIMS_A_SECOND:.0} in a second");
        let ratio = database / CLAIMS_A_SECOND;
        rows.push(Row::new("database-claims", &what, &against, ratio, times).at_least(1.0));
    }
    Ok(rows)
}

fn cycle(bench: &Bench, server: &PostgresServer) -> Result<Row> {
    let (count, samples) = bench.size((200, 7), (40, 3));
    let count = count.to_string();
    let words = ["cycle", "--count", &count];
    let (in_database, _store) = project(server, 1)?;
    let in_files = TempProject::on_disk()?;
    fixture::create_team(&in_files, 1)?;
    let (one, other) = by_turns(
        samples,
        || bench.seconds(&in_database, &words),
        || bench.seconds(&in_files, &words),
    )?;
    let what = "create + claim + complete in PostgreSQL, durable, 1 process";
    let row = Row::of_times("database-cycle", what, "in files", one, other);
    Ok(row)
}

/// Measures the latency of an event from a team in a database to a client of the page.
fn events(bench: &Bench, server: &PostgresServer) -> Result<Row> {
    let (project, store) = project(server, WORKERS)?;
    fixture::create_tasks(&store, TASKS)?;
    beat_all(&store)?;
    let studio = Server::start(bench, &project)?;
    studio.first_view()?;
    let (took, _) = events_of(&studio, &store, bench.size(2_000, 300))?;
    let what = "an event of a team in PostgreSQL → a client of the stream";
    Ok(latency("database-event", what, &took, EVENT))
}

/// Measures the cost for the server of real workers that wait for a task.
pub(super) fn idle(bench: &Bench) -> Result<Vec<Row>> {
    let (workers, watched) = bench.size((1_000, 60), (20, 10));
    // A thousand workers need more connections than the default.
    let Some(server) = server("-c max_connections=5000")? else {
        return Ok(Vec::new());
    };
    let (project, store) = project(&server, 1)?;
    fixture::create_repository(&project)?;
    let mut team = IdleTeam(Vec::new());
    for number in 1..=workers {
        let (product, options) = (&bench.product, &["--in-place"]);
        let pid = fixture::start_worker(product, &project, number, "command:true", options)?;
        team.0.push(pid);
    }
    fixture::until_quiet(&store, AT_REST)?;
    let queries = || -> Result<f64> {
        let count = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()";
        let name = project.database_name();
        let name = name.context("the project has no database")?;
        Ok(server.sql(name, count).parse()?)
    };
    let (counted, pid) = (queries()?, server.pid());
    let share = cpu_share(|| server_cpu(pid), || rest(Duration::from_secs(watched)))?;
    let rate = (queries()? - counted) / float(usize::try_from(watched)?);
    let allowed = IDLE_THOUSAND * float(workers) / 1_000.0;
    let times = format!(
        "{:.1} % of a core, {rate:.0} transactions in a second, {} connections",
        share * 100.0,
        children(pid)?.len()
    );
    drop(team);
    let what = format!("CPU of the PostgreSQL server of {workers} idle workers over {watched} s");
    let row = Row::of_share("database-idle", &what, share, allowed, times);
    Ok(vec![row])
}

/// Real workers in a database, stopped on drop.
struct IdleTeam(Vec<u32>);

impl Drop for IdleTeam {
    fn drop(&mut self) {
        let kill = |pid: &u32| {
            Command::new("kill")
                .args(["-KILL", &pid.to_string()])
                .status()
        };
        self.0.iter().for_each(|pid| drop(kill(pid)));
    }
}

/// Returns the CPU seconds of a server with all its sessions, including those that have ended.
fn server_cpu(pid: u32) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name of the program may contain spaces. After it come the fields from the third on; 16 and 17 are those of
    // ended children.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks: u32 = [13, 14]
        .iter()
        .filter_map(|place| fields.get(*place)?.parse::<u32>().ok())
        .sum();
    let mut seconds = cpu_of(pid)? + f64::from(ticks) / 100.0;
    for child in children(pid)? {
        seconds += cpu_of(child).unwrap_or(0.0);
    }
    Ok(seconds)
}

fn children(pid: u32) -> Result<Vec<u32>> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
    Ok(text
        .split_whitespace()
        .filter_map(|it| it.parse().ok())
        .collect())
}

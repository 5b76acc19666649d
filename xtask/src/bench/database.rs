//! The PostgreSQL store against the file store: claims by many processes, the latency of an event to a client of the
//! page, and the cost of idle workers for the server.
//!
//! The server is a separate one like that of the tests, on the disk and with full durability.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use teamster_postgres::PgStore;
use teamster_testkit::postgres::PostgresServer;

use super::processes::cpu_of;
use super::store::claim_each_once;
use super::studio::events_in_database;
use super::{Programs, Row, Size, TASKS, WORKERS, by_turns, float, percentile};
use crate::product::{Finished, TempProject};
use crate::{ci, fixture};

/// The numbers of processes that claim at once.
const CLAIMERS: [usize; 4] = [1, 4, 16, 64];
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
pub(super) fn measure(programs: &Programs, size: Size) -> Result<Vec<Row>> {
    let Some(server) = server("-c max_connections=300")? else {
        return Ok(Vec::new());
    };
    let mut rows = Vec::new();
    for (key, claimers) in [
        "database-claims-1",
        "database-claims-4",
        "database-claims-16",
        "database-claims-64",
    ]
    .into_iter()
    .zip(CLAIMERS)
    {
        rows.extend(claims(programs, &server, (key, claimers), size)?);
    }
    rows.push(cycle(programs, &server, size)?);
    rows.push(events(programs, &server, size)?);
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
    programs: &Programs,
    server: &PostgresServer,
    (key, claimers): (&'static str, usize),
    size: Size,
) -> Result<Vec<Row>> {
    let (tasks, samples) = size.of((6_000, 3), (1_000, 1));
    let drain = |project: &TempProject| -> Result<f64> {
        Ok(float(tasks) / claim_each_once(programs, project, claimers, tasks)?)
    };
    let (database, files) = by_turns(
        samples,
        || {
            let (project, store) = project(server, claimers)?;
            fixture::create_tasks(&store, tasks)?;
            drain(&project)
        },
        || {
            let project = TempProject::on_disk()?;
            let store = fixture::create_team(&project, claimers)?;
            fixture::create_tasks(&store, tasks)?;
            drain(&project)
        },
    )?;
    let what = format!("claims of {claimers} processes in PostgreSQL, durable, none twice");
    let times = format!("{database:.0} : {files:.0} in a second");
    let mut rows = vec![Row::new(
        key,
        &what,
        "in files",
        database / files,
        times.clone(),
    )];
    if claimers == 16 {
        let against = format!("{CLAIMS_A_SECOND:.0} in a second");
        let ratio = database / CLAIMS_A_SECOND;
        rows.push(Row::new("database-claims", what, against, ratio, times).at_least(1.0));
    }
    Ok(rows)
}

fn cycle(programs: &Programs, server: &PostgresServer, size: Size) -> Result<Row> {
    let (count, samples) = size.of((200, 7), (40, 3));
    let count = count.to_string();
    let words = ["cycle", "--count", &count];
    let (in_database, _store) = project(server, 1)?;
    let in_files = TempProject::on_disk()?;
    fixture::create_team(&in_files, 1)?;
    let (one, other) = by_turns(
        samples,
        || programs.seconds(&in_database, &words),
        || programs.seconds(&in_files, &words),
    )?;
    let what = "create + claim + complete in PostgreSQL, durable, 1 process";
    Ok(Row::of_times(
        "database-cycle",
        what,
        "in files",
        one,
        other,
    ))
}

/// Measures the latency of an event from a team in a database to a client of the page.
fn events(programs: &Programs, server: &PostgresServer, size: Size) -> Result<Row> {
    let (project, store) = project(server, WORKERS)?;
    fixture::create_tasks(&store, TASKS)?;
    let took = events_in_database(programs, &project, &store, size.of(2_000, 300))?;
    let [p50, p99, slowest] = [50, 99, 100].map(|percent| percentile(&took, percent) * 1e3);
    let times = format!("p50 {p50:.1} ms, p99 {p99:.1} ms, the slowest {slowest:.1} ms");
    let what = "an event of a team in PostgreSQL → a client of the stream, p99 at 100 in a second";
    Ok(Row::of_limit(
        "database-event",
        what,
        (p99, EVENT),
        "ms",
        times,
    ))
}

/// Measures the cost for the server of real workers that wait for a task.
pub(super) fn idle(programs: &Programs, size: Size) -> Result<Vec<Row>> {
    let (workers, watched) = size.of((1_000, 60), (20, 10));
    // A thousand workers need more connections than the default.
    let Some(server) = server("-c max_connections=5000")? else {
        return Ok(Vec::new());
    };
    let (project, store) = project(&server, 1)?;
    fixture::create_repository(&project)?;
    let mut team = IdleTeam {
        programs,
        project: &project,
        pids: Vec::new(),
    };
    team.grow(workers)?;
    fixture::until_quiet(&store, AT_REST)?;
    let queries = || -> Result<f64> {
        let count = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()";
        let name = project
            .database_name()
            .context("the project has no database")?;
        Ok(server.sql(name, count).parse()?)
    };
    let (before, counted, start) = (server_cpu(server.pid())?, queries()?, Instant::now());
    std::thread::sleep(Duration::from_secs(watched));
    let took = start.elapsed().as_secs_f64();
    let share = (server_cpu(server.pid())? - before) / took;
    let rate = (queries()? - counted) / took;
    let allowed = IDLE_THOUSAND * float(workers) / 1_000.0;
    let times = format!(
        "{:.1} % of a core, {rate:.0} transactions in a second, {} connections",
        share * 100.0,
        children(server.pid())?.len()
    );
    drop(team);
    let what = format!("CPU of the PostgreSQL server of {workers} idle workers over {watched} s");
    let against = format!("{:.1} % of a core", allowed * 100.0);
    let row = Row::new("database-idle", what, against, share / allowed, times);
    Ok(vec![row.at_most(1.0)])
}

/// Real workers in a database, stopped on drop.
struct IdleTeam<'a> {
    programs: &'a Programs,
    project: &'a TempProject,
    pids: Vec<u64>,
}

impl IdleTeam<'_> {
    fn grow(&mut self, workers: usize) -> Result<()> {
        for number in 1..=workers {
            let name = fixture::worker(number)?.to_string();
            let words = ["worker", "start", "--json", "--in-place", "--name", &name];
            let product = &self.programs.product;
            let mut start = product.command(self.project, words);
            let started = Finished::checked(start.args(["--provider", "command:true"]))?.json();
            let pid = started.and_then(|started| started["pid"].as_u64());
            self.pids.push(pid.context("a worker printed no pid")?);
        }
        Ok(())
    }
}

impl Drop for IdleTeam<'_> {
    fn drop(&mut self) {
        for pid in &self.pids {
            let _ = std::process::Command::new("kill")
                .args(["-KILL", &pid.to_string()])
                .status();
        }
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

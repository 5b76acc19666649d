//! All faults of machines and their network at once during one run, and single ones where they need a separate
//! server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use teamster_testkit::postgres::{Pooler, PostgresServer, shared_server};
use teamster_testkit::wait::wait_until;
use teamster_testkit::wire::TcpForwarder;

use super::{Host, Machine, TEAM, database, writer};
use crate::kit::{Ran, skip};

/// The variable with the number of tasks; the evidence uses a thousand.
const TASKS: &str = "TEAMSTER_CHAOS_TASKS";
/// The variable that offsets the clock of a process.
const CLOCK_OFFSET: &str = "TEAMSTER_TEST_CLOCK_OFFSET";
/// How far one machine's clock is ahead, in milliseconds.
const AN_HOUR: &str = "3600000";

/// The size of the run and its faults.
struct Size {
    /// The numbers of workers of the host, and of each of the other two machines.
    own: usize,
    joined: usize,
    tasks: usize,
    /// The number of workers that are killed.
    kills: usize,
    /// How long one machine is disconnected.
    cut: Duration,
    /// How long an agent works on a task, in seconds: a hundred without pauses are too much for a small machine.
    work: &'static str,
    /// The same on the disconnected machine, which has to be in the middle of a task then.
    far_work: &'static str,
}

impl Size {
    fn wanted() -> Self {
        let tasks: usize = std::env::var(TASKS).map_or(40, |tasks| tasks.parse().unwrap());
        // A hundred workers for a thousand tasks.
        let joined = (tasks / 30).max(2);
        Self {
            own: (tasks / 10).saturating_sub(2 * joined).clamp(2, 34),
            joined,
            tasks,
            kills: tasks / 25 + 3,
            cut: Duration::from_secs(if tasks >= 500 { 30 } else { 10 }),
            work: if tasks >= 500 { "60" } else { "0.7" },
            far_work: if tasks >= 500 { "60" } else { "1" },
        }
    }
}

/// A machine other than the host's, with the names of its workers.
struct FarMachine {
    machine: Machine,
    letter: char,
    clone: PathBuf,
    address: String,
    agent: String,
}

impl FarMachine {
    /// Returns how many tasks its workers have completed.
    fn completed(&self, host: &Machine, workers: usize) -> usize {
        let names = (1..=workers).map(|number| format!("{}{number}", self.letter));
        names.map(|name| host.completed_by(&name)).sum()
    }

    fn new(machine: Machine, letter: char, address: &str, agent: String) -> Self {
        Self {
            clone: machine.project.home().join("clone"),
            machine,
            letter,
            address: address.to_owned(),
            agent,
        }
    }

    fn join(&self, number: usize) -> Ran {
        let name = format!("{}{number}", self.letter);
        let clone = self.clone.to_str().unwrap();
        self.machine.run(&[
            "worker",
            "join",
            "--team",
            TEAM,
            "--name",
            &name,
            "--provider",
            &self.agent,
            "--repo",
            &self.address,
            "--dir",
            clone,
        ])
    }
}

/// The worker of the disconnected machine whose first task lasts until every fault has happened.
const HELD: &str = "c1";

/// Returns an agent that writes a file once the gate exists, and after this delay. That of one worker also waits until
/// `hold` is gone.
fn gated_writer(gate: &Path, hold: &Path, seconds: &str) -> String {
    let (gate, hold) = (gate.display(), hold.display());
    let waits = format!(
        "command:until [ -e '{gate}' ]; do sleep 0.1; done; \
         while [ \"$TEAMSTER_WORKER\" = {HELD} ] && [ -e '{hold}' ]; do sleep 0.1; done; "
    );
    writer(seconds).replacen("command:", &waits, 1)
}

/// Makes a machine with a wrong clock.
fn machine_an_hour_ahead(url: &str) -> Machine {
    let mut machine = Machine::new(url);
    let clock = machine.project.home().join("clock-offset");
    std::fs::write(&clock, AN_HOUR).unwrap();
    let clock = clock.to_str().unwrap().to_owned();
    machine.env.push((CLOCK_OFFSET, clock));
    machine
}

/// Returns how many tasks are merged.
fn merged(run: &Host<'_>) -> usize {
    let said = run.said();
    said.lines()
        .filter(|line| line.contains("is merged"))
        .count()
}

/// Returns the processes of all workers with a heartbeat.
fn workers(server: &PostgresServer, database: &str) -> Vec<(String, String)> {
    let sql = "SELECT worker || ' ' || (body::json ->> 'pid') FROM teamster.beats ORDER BY worker";
    let listed = server.sql(database, sql);
    let pairs = listed.lines().filter_map(|line| line.split_once(' '));
    pairs
        .map(|(name, pid)| (name.to_owned(), pid.to_owned()))
        .collect()
}

/// Returns whether the held worker of the machine to be disconnected has a task.
fn held_has_a_task(server: &PostgresServer, database: &str) -> bool {
    let sql = format!("SELECT count(*) FROM teamster.tasks WHERE status = 1 AND owner = '{HELD}'");
    server.sql(database, &sql) == "1"
}

fn kill(pid: &str) {
    // If it has just ended by itself, that is equivalent.
    let _ = Command::new("kill").args(["-KILL", pid]).status();
}

/// Asserts that every task was completed once and merged once, and that the journal has no gap.
fn judge(host: &Machine, tasks: usize) {
    let journal = host.run(&["journal", "--team", TEAM, "--json"]).succeeds();
    let journal = journal.json();
    let events = journal["events"].as_array().unwrap();
    let positions: Vec<u64> = events.iter().filter_map(|it| it["seq"].as_u64()).collect();
    assert_eq!(positions, (1..=events.len() as u64).collect::<Vec<_>>());
    for kind in ["task.completed", "merge.merged"] {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for event in events.iter().filter(|event| event["type"] == kind) {
            *counts.entry(event["taskId"].to_string()).or_default() += 1;
        }
        assert_eq!(counts.len(), tasks, "{kind}: {counts:?}");
        let doubled: Vec<_> = counts.iter().filter(|(_, count)| **count != 1).collect();
        assert!(doubled.is_empty(), "{kind}: {doubled:?}");
    }
}

/// Three machines: the host's, a second one, and a third whose network is cut and whose clock is an hour ahead. The
/// server crashes twice, and workers of all machines are killed. Killed workers of the other machines join again, as
/// by a person or a service manager.
#[test]
fn every_task_lands_once_though_server_workers_network_and_a_clock_fail() {
    let size = Size::wanted();
    let Some(mut server) = PostgresServer::start("") else {
        return skip("there is no PostgreSQL server");
    };
    let url = database(&server);
    let name = url.rsplit('/').next().unwrap().to_owned();
    let wire = TcpForwarder::to(server.port());
    let far_url = url.replace(&server.port().to_string(), &wire.port().to_string());
    let host = Machine::with_repository(&url);
    // No task is finished before all workers have joined, and the run does not end before every fault has happened.
    let [gate, hold] = ["gate", "hold"].map(|name| host.project.home().join(name));
    std::fs::write(&hold, "").unwrap();
    let agent = |seconds: &str| gated_writer(&gate, &hold, seconds);
    let run = host.begin_large_run(size.own, size.tasks, &agent(size.work), &[]);
    let address = format!("file://{}", host.folder().display());
    let sites = [
        (Machine::new(&url), 'b', size.work),
        (machine_an_hour_ahead(&far_url), 'c', size.far_work),
    ];
    let sites = sites
        .map(|(machine, letter, work)| FarMachine::new(machine, letter, &address, agent(work)));
    for (site, number) in sites
        .iter()
        .flat_map(|site| (1..=size.joined).map(move |number| (site, number)))
    {
        site.join(number).succeeds();
    }
    wait_until("the worker that is held has a task", || {
        held_has_a_task(&server, &name)
    });
    std::fs::write(&gate, "").unwrap();
    // The schedule of the run: a crash, the disconnection, another crash, and kills throughout.
    let part = |share: usize| size.tasks * share / 100;
    let mut crashes = vec![part(20), part(65)];
    let mut cut_at = Some(part(30));
    let mut cut_since: Option<Instant> = None;
    let mut kills: Vec<usize> = (1..=size.kills)
        .map(|nth| part(60 * nth / size.kills.max(1)))
        .collect();
    let (mut killed, mut was_cut) = (Vec::new(), None);
    let mut run = run;
    while run.child.try_wait().unwrap().is_none() {
        let done = merged(&run);
        if crashes.first().is_some_and(|at| done >= *at) {
            crashes.remove(0);
            server.crash_and_restart();
        }
        // Disconnected in the middle of a task, which is finished after the reconnection: the lease lasts longer.
        if cut_at.is_some_and(|at| done >= at) {
            assert!(held_has_a_task(&server, &name));
            cut_at = None;
            wire.cut();
            cut_since = Some(Instant::now());
        }
        if let Some(since) = cut_since
            && since.elapsed() >= size.cut
        {
            wire.mend();
            cut_since = None;
            was_cut = Some(since.elapsed());
        }
        if kills.first().is_some_and(|at| done >= *at) {
            let all = workers(&server, &name);
            // No worker can rejoin from a disconnected machine, and with few workers there, one has to finish a task.
            let may_be_c = cut_since.is_none() && size.joined > 10;
            let reachable = |worker: &str| worker != HELD && (may_be_c || !worker.starts_with('c'));
            let nth = killed.len() * 7;
            let chosen = all.iter().filter(|(worker, _)| reachable(worker));
            let chosen: Vec<_> = chosen.collect();
            if let Some((worker, pid)) = chosen.get(nth % chosen.len().max(1)) {
                // Right after a crash of the server, nobody has written a heartbeat yet.
                kills.remove(0);
                kill(pid);
                killed.push(worker.clone());
                let place = sites.iter().find(|site| worker.starts_with(site.letter));
                if let Some(place) = place {
                    // A run that has just ended accepts no new worker.
                    let number = worker[1..].parse().unwrap();
                    let _ = place.join(number);
                }
            }
        }
        if crashes.is_empty() && cut_at.is_none() && kills.is_empty() && hold.exists() {
            std::fs::remove_file(&hold).unwrap();
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    wire.mend();
    let far_done = sites[1].completed(&host, size.joined);
    println!(
        "{} tasks, {} workers on 3 machines, {} of them killed, the server crashed {} times, one machine cut off for {} s; it completed {far_done}",
        size.tasks,
        size.own + 2 * size.joined,
        killed.len(),
        2 - crashes.len(),
        was_cut.unwrap_or_default().as_secs(),
    );
    run.lands(size.tasks);
    judge(&host, size.tasks);
    assert!(crashes.is_empty(), "the server did not crash twice");
    assert!(was_cut.is_some(), "the machine was not cut off");
    assert_eq!(killed.len(), size.kills, "{killed:?} were killed");
    assert!(far_done > 0, "the machine with the wrong clock did nothing");
    wait_until("every worker has ended", || {
        workers(&server, &name).is_empty()
    });
}

#[test]
fn run_goes_on_though_its_sessions_are_ended_all_the_time() {
    let Some(server) = PostgresServer::start("") else {
        return skip("there is no PostgreSQL server");
    };
    let url = database(&server);
    let name = url.rsplit('/').next().unwrap().to_owned();
    let host = Machine::with_repository(&url);
    let mut run = host.begin_large_run(3, 12, &writer("0.2"), &[]);
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'teamster' AND random() < 0.5";
    let mut ended = 0;
    while run.child.try_wait().unwrap().is_none() {
        ended += server.sql(&name, end).parse::<usize>().unwrap();
        std::thread::sleep(Duration::from_millis(200));
    }
    assert!(ended > 20, "{ended} sessions were ended");
    run.lands(12);
    judge(&host, 12);
}

#[test]
fn run_goes_on_with_fewer_connections_than_it_would_like() {
    // One of the eight is reserved for the owner of the server, who creates the databases and as whom the test works.
    let Some(server) =
        PostgresServer::start("-c max_connections=8 -c superuser_reserved_connections=1")
    else {
        return skip("there is no PostgreSQL server");
    };
    let url = database(&server);
    let host = Machine::with_repository(&url);
    let run = host.begin_large_run(4, 12, &writer("0.2"), &[]);
    run.lands(12);
    judge(&host, 12);
}

#[test]
fn run_and_joined_worker_go_through_a_pooler_in_transaction_mode() {
    let Some(server) = shared_server() else {
        return skip("there is no PostgreSQL server");
    };
    let Some(pooler) = Pooler::start(server, 3) else {
        return skip("there is no PgBouncer");
    };
    let url = pooler.url(server, &database(server));
    let host = Machine::with_repository(&url);
    // `doctor` explains the problem.
    let doctor = host.run(&["doctor"]);
    assert!(
        doctor.stdout.contains("LISTEN does not work"),
        "{}",
        doctor.stdout
    );
    let agent = writer("0.3");
    let run = host.begin_large_run(2, 12, &agent, &[]);
    let other = Machine::new(&url);
    let clone = other.project.home().join("clone");
    let address = format!("file://{}", host.folder().display());
    let dir = ["--repo", &address, "--dir", clone.to_str().unwrap()];
    other.join("b", &agent, &dir);
    run.lands(12);
    judge(&host, 12);
    assert!(host.completed_by("b") > 0, "b did nothing");
}

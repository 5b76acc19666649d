//! Long-lived processes: what many workers cost at work and while they wait, and what the host of a large run costs.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use teamster_fs::Sync;
use teamster_store::{FileStore, Read};

use super::{Programs, Row, Size, TASKS, float};
use crate::fixture::{self, WorkerTeam, until_quiet};
use crate::product::{Finished, TEAM, TempProject, wait_for};

/// The most memory of a worker process and of a host.
const WORKER_MEGABYTES: f64 = 25.0;
const HOST_MEGABYTES: f64 = 60.0;
/// The share of one core that a hundred waiting workers may use together, and the one that a waiting host may use.
const IDLE_HUNDRED: f64 = 0.02;
const IDLE_HOST: f64 = 0.01;
/// One worker for each core is what many are compared with.
const FEW: usize = 2;
/// Nothing here takes so long unless it hangs.
const LONG: Duration = Duration::from_secs(300);
/// What every worker does with every task: it says something, changes a file and tells what it used.
const WORK: &str = r#"
[[step]]
fill = true
do = "say"
text = "working on {subject}"

[[step]]
fill = true
do = "edit"
path = "notes/{id}.md"
content = "{subject}\n"

[[step]]
do = "usage"
tokens_in = 1200
tokens_out = 80
usd = 0.01

[[step]]
fill = true
do = "done"
text = "task {id} is done"
"#;
/// Keeps every worker of a run busy with its first task until it is stopped.
const BUSY: &str = r#"
[[step]]
do = "say"
text = "I begin"

[[step]]
do = "sleep"
seconds = 3600
"#;

/// Measures workers that do many tasks, each once, and then wait.
pub(super) fn workers(programs: &Programs, size: Size) -> Result<Vec<Row>> {
    let (busy, tasks, idle, watched) = size.of((50, 500, 100, 60), (6, 60, 10, 15));
    let watched = Duration::from_secs(watched);
    let few = {
        let mut team = WorkerTeam::create(&programs.product)?;
        team.grow(FEW, &team.script(WORK)?, &[])?;
        let tasks = (tasks / 5).max(FEW);
        let took = do_tasks(&team, tasks)?;
        team.shut_down()?;
        took.as_secs_f64() / float(tasks)
    };
    let mut team = WorkerTeam::create(&programs.product)?;
    team.grow(busy, &team.script(WORK)?, &[])?;
    let took = do_tasks(&team, tasks)?.as_secs_f64();
    let many = took / float(tasks);
    let most_memory = |team: &WorkerTeam<'_>| -> Result<f64> {
        let each = team.pids.iter().map(|pid| most_megabytes(*pid));
        Ok(each
            .collect::<Result<Vec<_>>>()?
            .into_iter()
            .fold(0.0, f64::max))
    };
    let cpu = |team: &WorkerTeam<'_>| -> Result<Duration> {
        team.pids.iter().map(|pid| cpu_of(*pid)).sum()
    };
    let worked = most_memory(&team)?;
    team.grow(idle, &team.script(WORK)?, &[])?;
    team.until_idle()?;
    // Every worker is told of each new one; what has just been told is not idle yet. What that costs is shown.
    let (before, start) = (cpu(&team)?, Instant::now());
    until_quiet(&team.store, watched / 3)?;
    let settled = cpu(&team)?;
    let settling = settled.saturating_sub(before).as_secs_f64() / start.elapsed().as_secs_f64();
    std::thread::sleep(watched);
    let used = cpu(&team)?.saturating_sub(settled);
    let share = used.as_secs_f64() / watched.as_secs_f64();
    let allowed = IDLE_HUNDRED * float(idle) / 100.0;
    let waited = most_memory(&team)?;
    team.shut_down()?;
    Ok(vec![
        Row::new(
            "workers-500",
            format!("a task of {busy} scripted workers that do {tasks} tasks, each once"),
            format!("of {FEW} workers"),
            many / few,
            format!(
                "{:.1} ms : {:.1} ms, all in {took:.1} s",
                many * 1e3,
                few * 1e3
            ),
        ),
        Row::new(
            "workers-memory",
            format!("the largest bridge of {idle} that ever was"),
            format!("{WORKER_MEGABYTES} MB"),
            worked.max(waited) / WORKER_MEGABYTES,
            format!("{worked:.1} MB after work, {waited:.1} MB after waiting"),
        )
        .at_most(1.0),
        Row::new(
            "workers-idle",
            format!(
                "CPU of {} idle workers over {} s, after {} s without news",
                idle,
                watched.as_secs(),
                (watched / 3).as_secs()
            ),
            format!("{:.1} % of a core", allowed * 100.0),
            share / allowed,
            format!(
                "{:.2} % of a core together, {:.2} % while the last news was told",
                share * 100.0,
                settling * 100.0
            ),
        )
        .at_most(1.0),
    ])
}

/// Has a team do so many new tasks; an error unless each was done, and once.
fn do_tasks(team: &WorkerTeam<'_>, tasks: usize) -> Result<Duration> {
    let start = Instant::now();
    fixture::create_tasks(&team.store, tasks)?;
    team.until_done(tasks)?;
    let took = start.elapsed();
    // How often each task was completed, and claims that came to nothing.
    let mut completed: HashMap<String, usize> = HashMap::new();
    let (mut claims, mut others) = (0_usize, Vec::new());
    for event in team.journal()? {
        let task = event.task_id.map(|id| id.to_string()).unwrap_or_default();
        match event.kind.as_str() {
            "task.claimed" => claims += 1,
            "task.completed" => *completed.entry(task).or_default() += 1,
            "task.failed" | "task.released" | "task.requeued" => {
                others.push(format!("{} {task}", event.kind));
            }
            _ => {}
        }
    }
    let twice = completed.values().filter(|times| **times > 1).count();
    if completed.len() != tasks || twice > 0 || claims != tasks || !others.is_empty() {
        bail!(
            "{tasks} tasks: {claims} claims, {} completed, {twice} of them more than once; {}",
            completed.len(),
            others.join(", ")
        );
    }
    Ok(took)
}

/// Measures the host of a large run while its workers are busy and nothing happens.
pub(super) fn host(programs: &Programs, size: Size) -> Result<Vec<Row>> {
    let (workers, watched) = size.of((100, 30), (5, 5));
    let watched = Duration::from_secs(watched);
    let run = HostedRun::start(programs, workers)?;
    let team = fixture::team()?;
    wait_for("every worker has a task", LONG, || {
        let progress = run.store.progress(&team);
        let is_busy = progress.is_ok_and(|(all, _)| all.in_progress_tasks == workers);
        Ok(is_busy.then_some(()))
    })?;
    // Who has just been told that everybody is at work is not idle yet.
    until_quiet(&run.store, watched / 3)?;
    let (before, start) = (cpu_of(run.host.id())?, Instant::now());
    std::thread::sleep(watched);
    let used = cpu_of(run.host.id())?.saturating_sub(before);
    let share = used.as_secs_f64() / start.elapsed().as_secs_f64();
    let memory = most_megabytes(run.host.id())?;
    run.end()?;
    let what = format!("{TASKS} tasks and {workers} scripted workers");
    let seconds = watched.as_secs();
    Ok(vec![
        Row::new(
            "host-memory",
            format!("the most memory that the host of {what} ever had"),
            format!("{HOST_MEGABYTES} MB"),
            memory / HOST_MEGABYTES,
            format!("{memory:.1} MB"),
        )
        .at_most(1.0),
        Row::new(
            "host-idle",
            format!("CPU of that host over {seconds} s in which nothing happens"),
            format!("{:.0} % of a core", IDLE_HOST * 100.0),
            share / IDLE_HOST,
            format!("{:.2} % of a core", share * 100.0),
        )
        .at_most(1.0),
    ])
}

/// A run whose workers are all busy, in a repository of its own. Everything is stopped when it is dropped.
struct HostedRun<'a> {
    programs: &'a Programs,
    project: TempProject,
    store: FileStore,
    host: Child,
    ended: bool,
}

impl<'a> HostedRun<'a> {
    fn start(programs: &'a Programs, workers: usize) -> Result<Self> {
        let project = TempProject::on_disk()?;
        fixture::create_repository(&project)?;
        let script = project.root().join("script.toml");
        let plan = project.root().join("plan.toml");
        std::fs::write(&script, BUSY)?;
        let mut tasks = String::new();
        for n in 1..=TASKS {
            writeln!(tasks, "[[tasks]]\nid = \"t{n}\"\nsubject = \"task {n}\"\n")?;
        }
        std::fs::write(&plan, tasks)?;
        let provider = format!("actor=scripted:{}", script.display());
        let members = format!("{workers}:actor");
        let plan = plan.display().to_string();
        let mut words = vec!["run", &members, "the plan", "--team", TEAM, "--plan", &plan];
        words.extend(["--provider", &provider, "--approve", "never", "--yes"]);
        let mut command = programs.product.command(&project, words);
        command.env_remove("TEAMSTER_TEAM").stdin(Stdio::null());
        let host = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self {
            programs,
            store: project.store(Sync::Fast)?,
            project,
            host,
            ended: false,
        })
    }

    /// Ends the host, and then its workers; an error if one of them is left.
    fn end(mut self) -> Result<()> {
        self.ended = true;
        self.stop()
    }

    fn stop(&mut self) -> Result<()> {
        // No worker is to be started again by a host that sees its workers end.
        self.host.kill()?;
        self.host.wait()?;
        let words = ["shutdown", "--team", TEAM, "--force", "--json"];
        let printed =
            Finished::of(&mut self.programs.product.command(&self.project, words))?.json();
        let printed = printed.context("the shutdown printed nothing")?;
        if printed["verified"] != true {
            bail!("the shutdown is not verified: {printed}");
        }
        Ok(())
    }
}

impl Drop for HostedRun<'_> {
    fn drop(&mut self) {
        if !self.ended {
            let _ = self.stop();
        }
    }
}

/// Returns the user and system time of a process so far, without that of its children.
fn cpu_of(pid: u32) -> Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .with_context(|| format!("the process {pid} has ended"))?;
    // The name in brackets may have spaces; user and system time are the 14th and 15th field of all.
    let (_, fields) = stat.rsplit_once(')').context("a strange stat file")?;
    let times = fields.split_whitespace().skip(11).take(2);
    let ticks: u64 = times.map(str::parse::<u64>).sum::<Result<_, _>>()?;
    let per_second = rustix::param::clock_ticks_per_second();
    Ok(Duration::from_millis(ticks * 1000 / per_second))
}

/// Returns the most memory that a process ever had, in MB.
pub(super) fn most_megabytes(pid: u32) -> Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status"))
        .with_context(|| format!("the process {pid} has ended"))?;
    let kilobytes = text
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next());
    let kilobytes: f64 = kilobytes.context("no VmHWM")?.parse()?;
    Ok(kilobytes / 1024.0)
}

//! Long-lived processes: the cost of many workers at work and waiting, and the cost of the host of a large run.

use std::fmt::Write as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use teamster_store::ReadStore;
use teamster_testkit::RunCmd;

use super::{Bench, Row, TASKS, float};
use crate::fixture::{self, WorkerTeam, until_quiet};
use crate::product::TEAM;
use crate::race::journalled;

/// The memory limits of a worker process and of a host.
const WORKER_MEGABYTES: f64 = 25.0;
const HOST_MEGABYTES: f64 = 60.0;
/// The share of one core that a hundred waiting workers may use together, and the share of a waiting host.
const IDLE_HUNDRED: f64 = 0.02;
const IDLE_HOST: f64 = 0.01;
/// How long nothing must have happened in a team before its workers count as idle; then they poll less often.
const AT_REST: Duration = Duration::from_secs(16);
/// The baseline has one worker for each core.
const FEW: usize = 2;
/// The script of every worker for every task: it prints something, changes a file and reports its usage.
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
pub(super) fn workers(bench: &Bench) -> Result<Vec<Row>> {
    let (busy, tasks, idle, watched) = bench.size((50, 500, 100, 60), (6, 60, 10, 15));
    let watched = Duration::from_secs(watched);
    let grown = |workers: usize, tasks: usize| -> Result<(WorkerTeam<'_>, f64)> {
        let mut team = WorkerTeam::create(&bench.product)?;
        team.grow(workers, &team.script(WORK)?)?;
        let took = do_tasks(&team, tasks)?;
        Ok((team, took.as_secs_f64()))
    };
    let few_tasks = (tasks / 5).max(FEW);
    let (team, took) = grown(FEW, few_tasks)?;
    team.shut_down()?;
    let few = took / float(few_tasks);
    let (mut team, took) = grown(busy, tasks)?;
    let many = took / float(tasks);
    let most_memory = |team: &WorkerTeam<'_>| -> Result<f64> {
        let mut each = team.pids.iter().map(|pid| most_megabytes(*pid));
        each.try_fold(0.0, |most: f64, one| Ok(most.max(one?)))
    };
    let cpu =
        |team: &WorkerTeam<'_>| -> Result<f64> { team.pids.iter().map(|pid| cpu_of(*pid)).sum() };
    let worked = most_memory(&team)?;
    team.grow(idle, &team.script(WORK)?)?;
    team.until_idle()?;
    // Every worker is notified of each new one, and a worker that was just notified is not idle yet. That cost is
    // also shown.
    let quiet = (watched / 3).max(AT_REST);
    let settling = cpu_share(|| cpu(&team), || until_quiet(&team.store, quiet))?;
    let share = cpu_share(|| cpu(&team), || rest(watched))?;
    let waited = most_memory(&team)?;
    team.shut_down()?;
    let (seconds, quiet) = (watched.as_secs(), quiet.as_secs());
    let [many_ms, few_ms] = [many, few].map(|time| time * 1e3);
    Ok(vec![
        Row::new(
            "workers-500",
            &format!("a task of {busy} scripted workers that do {tasks} tasks, each once"),
            &format!("of {FEW} workers"),
            many / few,
            format!("{many_ms:.1} ms : {few_ms:.1} ms, all in {took:.1} s"),
        ),
        Row::of_limit(
            "workers-memory",
            &format!("the largest bridge of {idle} that ever was"),
            (worked.max(waited), WORKER_MEGABYTES),
            "MB",
            format!("{worked:.1} MB after work, {waited:.1} MB after waiting"),
        ),
        Row::of_share(
            "workers-idle",
            &format!("CPU of {idle} idle workers over {seconds} s, after {quiet} s without news"),
            share,
            IDLE_HUNDRED * float(idle) / 100.0,
            format!(
                "{:.2} % of a core together, {:.2} % while the last news was told",
                share * 100.0,
                settling * 100.0
            ),
        ),
    ])
}

/// Has a team do this many new tasks; an error unless each was claimed and completed exactly once.
fn do_tasks(team: &WorkerTeam<'_>, tasks: usize) -> Result<Duration> {
    let start = Instant::now();
    fixture::create_tasks(&team.store, tasks)?;
    team.until_done(tasks)?;
    let took = start.elapsed();
    for (kind, expected) in [
        ("task.claimed", tasks),
        ("task.completed", tasks),
        ("task.failed", 0),
        ("task.released", 0),
        ("task.requeued", 0),
    ] {
        let counts = journalled(&team.store, kind)?;
        let is_once = counts.len() == expected && counts.values().all(|times| *times == 1);
        ensure!(is_once, "{tasks} tasks, and {kind}: {counts:?}");
    }
    Ok(took)
}

/// Measures the host of a large run while its workers are busy and nothing happens.
pub(super) fn host(bench: &Bench) -> Result<Vec<Row>> {
    let (workers, watched) = bench.size((100, 30), (5, 5));
    let watched = Duration::from_secs(watched);
    let mut team = WorkerTeam::new(&bench.product)?;
    let host = start_run(bench, &mut team, workers)?;
    let name = fixture::team()?;
    team.until("every worker has a task", |team| {
        let progress = team.store.progress(&name);
        Ok(progress.is_ok_and(|(all, _)| all.in_progress_tasks == workers))
    })?;
    // A host that was just notified of its workers' start is not idle yet.
    until_quiet(&team.store, watched / 3)?;
    let share = cpu_share(|| cpu_of(host), || rest(watched))?;
    let memory = most_megabytes(host)?;
    team.shut_down()?;
    let what = format!("{TASKS} tasks and {workers} scripted workers");
    let seconds = watched.as_secs();
    Ok(vec![
        Row::of_memory(
            "host-memory",
            &format!("the most memory that the host of {what} ever had"),
            memory,
            HOST_MEGABYTES,
        ),
        Row::of_share(
            "host-idle",
            &format!("CPU of that host over {seconds} s in which nothing happens"),
            share,
            IDLE_HOST,
            format!("{:.2} % of a core", share * 100.0),
        ),
    ])
}

/// Starts a run whose workers are all busy, and returns the process id of its host.
fn start_run(bench: &Bench, team: &mut WorkerTeam<'_>, workers: usize) -> Result<u32> {
    let plan = team.project.root().join("plan.toml");
    let mut tasks = String::new();
    for n in 1..=TASKS {
        writeln!(tasks, "[[tasks]]\nid = \"t{n}\"\nsubject = \"task {n}\"\n")?;
    }
    std::fs::write(&plan, tasks)?;
    let run = RunCmd::new(TEAM, &format!("{workers}:actor"), "the plan")
        .plan(&plan.display().to_string())
        .provider(&format!("actor={}", team.script(BUSY)?))
        .approve("never")
        .more(&["--yes"]);
    let mut command = bench.product.command(&team.project, &run);
    command.env_remove("TEAMSTER_TEAM").stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    Ok(team.host.insert(command.spawn()?).id())
}

/// Returns the share of one core that is used during some work, by the CPU seconds before and after it.
pub(super) fn cpu_share(
    cpu: impl Fn() -> Result<f64>,
    work: impl FnOnce() -> Result<()>,
) -> Result<f64> {
    let (before, start) = (cpu()?, Instant::now());
    work()?;
    Ok((cpu()? - before) / start.elapsed().as_secs_f64())
}

/// Waits while others are observed.
#[expect(
    clippy::unnecessary_wraps,
    reason = "it is one of the works of `cpu_share`"
)]
pub(super) fn rest(span: Duration) -> Result<()> {
    std::thread::sleep(span);
    Ok(())
}

/// Returns the CPU seconds of a process's threads so far, as the scheduler counts them. Ticks of 10 ms would be too
/// coarse for a process that works for less than that.
pub(super) fn cpu_of(pid: u32) -> Result<f64> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"))
        .with_context(|| format!("the process {pid} has ended"))?;
    let mut nanoseconds = 0;
    for thread in threads {
        // A thread that has just ended is not counted.
        let Ok(text) = std::fs::read_to_string(thread?.path().join("schedstat")) else {
            continue;
        };
        let on_core = text.split_whitespace().next().unwrap_or_default();
        nanoseconds += on_core.parse::<u64>().context("a strange schedstat file")?;
    }
    Ok(Duration::from_nanos(nanoseconds).as_secs_f64())
}

/// Returns the peak memory of a process, in MB.
pub(super) fn most_megabytes(pid: u32) -> Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status"))
        .with_context(|| format!("the process {pid} has ended"))?;
    let kilobytes = text
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next());
    let kilobytes: f64 = kilobytes.context("no VmHWM")?.parse()?;
    Ok(kilobytes / 1024.0)
}

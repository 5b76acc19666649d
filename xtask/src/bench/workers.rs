//! Many workers as real processes: tasks that are all done once, what a bridge costs in memory, and what it costs while
//! it has nothing to do.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::table::{Limit, Row};
use super::{Programs, Size};
use crate::crew::Crew;
use crate::kit;

/// A bridge may have this much memory,
const MEGABYTES: f64 = 25.0;
/// and a hundred that wait may use this share of one core together.
const IDLE_HUNDRED: f64 = 0.02;
/// One worker for each core is what many are compared with.
const FEW: usize = 2;
/// What every worker does with every task: it says something, changes a file and tells what it used.
const SCRIPT: &str = r#"
steps = [
  { say = "working on {subject}" },
  { write = "notes/{id}.md", text = "{subject}\n" },
  { usage = { input = 1200, output = 80, cost_usd = 0.01 } },
  { done = "task {id} is done" },
]
"#;

pub(super) fn measure(programs: &Programs, size: Size) -> Result<Vec<Row>> {
    let few = {
        let mut crew = Crew::assemble(&programs.product)?;
        crew.grow(FEW, &crew.script(SCRIPT)?, &[])?;
        let tasks = (size.crew_tasks / 5).max(FEW);
        let took = work(&crew, tasks)?;
        crew.dismiss()?;
        took.as_secs_f64() / per(tasks)
    };
    let mut crew = Crew::assemble(&programs.product)?;
    crew.grow(size.crew, &crew.script(SCRIPT)?, &[])?;
    let took = work(&crew, size.crew_tasks)?;
    let many = took.as_secs_f64() / per(size.crew_tasks);
    let worked = most_memory(&crew)?;

    crew.grow(size.idle, &crew.script(SCRIPT)?, &[])?;
    crew.until_idle()?;
    // That everybody has come is news for everybody; who has just got news is not idle yet. What the news cost is told.
    let (before, start) = (cpu(&crew)?, Instant::now());
    until_quiet(&crew, size.idle_time / 3)?;
    let settled = cpu(&crew)?;
    let settling = settled.saturating_sub(before).as_secs_f64() / start.elapsed().as_secs_f64();
    std::thread::sleep(size.idle_time);
    let used = cpu(&crew)?.saturating_sub(settled);
    let share = used.as_secs_f64() / size.idle_time.as_secs_f64();
    let allowed = IDLE_HUNDRED * per(size.idle) / 100.0;
    let waited = most_memory(&crew)?;
    crew.dismiss()?;

    Ok(vec![
        Row {
            key: "workers-500",
            what: format!(
                "a task of {} scripted workers that do {} tasks, each once",
                size.crew, size.crew_tasks
            ),
            against: format!("of {FEW} workers"),
            ratio: many / few,
            limit: None,
            times: format!(
                "{:.1} ms : {:.1} ms, all in {:.1} s",
                many * 1e3,
                few * 1e3,
                took.as_secs_f64()
            ),
        },
        Row {
            key: "workers-memory",
            what: format!("the largest bridge of {} that ever was", size.idle),
            against: format!("{MEGABYTES} MB"),
            ratio: worked.max(waited) / MEGABYTES,
            limit: Some(Limit::AtMost(1.0)),
            times: format!("{worked:.1} MB after work, {waited:.1} MB after waiting"),
        },
        Row {
            key: "workers-idle",
            what: format!(
                "CPU of {} idle workers over {} s, after {} s without news",
                size.idle,
                size.idle_time.as_secs(),
                (size.idle_time / 3).as_secs()
            ),
            against: format!("{:.1} % of a core", allowed * 100.0),
            ratio: share / allowed,
            limit: Some(Limit::AtMost(1.0)),
            times: format!(
                "{:.2} % of a core together, {:.2} % while the last news was told",
                share * 100.0,
                settling * 100.0
            ),
        },
    ])
}

/// Waits until nothing new was journalled for so long.
fn until_quiet(crew: &Crew<'_>, span: Duration) -> Result<()> {
    let mut last = (crew.position()?, Instant::now());
    while last.1.elapsed() < span {
        std::thread::sleep(Duration::from_millis(200));
        let position = crew.position()?;
        if position != last.0 {
            last = (position, Instant::now());
        }
    }
    Ok(())
}

/// Has the crew do so many new tasks; an error unless each was done, and once.
fn work(crew: &Crew<'_>, tasks: usize) -> Result<Duration> {
    let start = Instant::now();
    kit::free_tasks(&crew.store, tasks)?;
    crew.until_done(tasks)?;
    let took = start.elapsed();
    // How often each task was completed, and claims that came to nothing.
    let mut completed: HashMap<String, usize> = HashMap::new();
    let (mut claims, mut others) = (0_usize, Vec::new());
    for event in crew.journal()? {
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

fn per(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::NAN, f64::from)
}

/// The most memory that any bridge ever had, in MB.
fn most_memory(crew: &Crew<'_>) -> Result<f64> {
    let mut most: f64 = 0.0;
    for pid in &crew.pids {
        most = most.max(status_kilobytes(*pid, "VmHWM:")? / 1024.0);
    }
    Ok(most)
}

/// User and system time of all bridges so far, without that of their agents.
fn cpu(crew: &Crew<'_>) -> Result<Duration> {
    crew.pids.iter().map(|pid| cpu_of(*pid)).sum()
}

/// User and system time of a process so far, without that of its children.
pub(super) fn cpu_of(pid: u32) -> Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .with_context(|| format!("the process {pid} is not there any more"))?;
    // The name in brackets may have spaces; user and system time are the 14th and 15th field of all.
    let (_, fields) = stat.rsplit_once(')').context("a strange stat file")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let mut ticks = 0;
    for place in [11, 12] {
        let field = fields.get(place).context("a short stat file")?;
        ticks += field.parse::<u64>()?;
    }
    let in_a_second = rustix::param::clock_ticks_per_second();
    Ok(Duration::from_millis(ticks * 1000 / in_a_second))
}

/// The line of a process's status file that begins so, in kB.
pub(super) fn status_kilobytes(pid: u32, field: &str) -> Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status"))
        .with_context(|| format!("the bridge {pid} is not there any more"))?;
    text.lines()
        .find_map(|line| line.strip_prefix(field)?.split_whitespace().next())
        .and_then(|number| number.parse().ok())
        .with_context(|| format!("the kernel does not tell {field} of {pid}"))
}

//! The store through the library: writes against a raw loop, one process against several, small teams against large.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use teamster_fs::Durability;

use super::{Bench, Row, by_turns, float, median};
use crate::fixture;
use crate::product::{Finished, TempProject, list};
use workload::{BATCH, CONTENT, Flush, Write};

/// The number of processes that claim all tasks of a team together.
const PROCESSES: usize = 4;

/// Measures all rows of the store.
pub(super) fn measure(bench: &Bench) -> Result<Vec<Row>> {
    Ok(vec![
        changes(
            bench,
            ("cycle", "create + claim + complete, durable, 1 process"),
            ("cycle", 1),
            bench.size((60, 11), (10, 3)),
        )?,
        several(bench)?,
        growth(bench, false)?,
        growth(bench, true)?,
        changes(
            bench,
            ("append", "message send, durable"),
            ("send", 2),
            bench.size((240, 11), (40, 3)),
        )?,
        receive(bench)?,
        journal(bench)?,
    ])
}

fn per_operation(one: f64, other: f64, count: usize) -> String {
    let each = 1e3 / float(count);
    format!("{:.2} ms : {:.2} ms each", one * each, other * each)
}

/// Measures a workload, alternating with a raw loop of the same writes.
fn against_raw(
    bench: &Bench,
    (key, what): (&'static str, &str),
    project: &TempProject,
    (work, count): (&str, usize),
    samples: usize,
    prepare: impl Fn() -> Result<()>,
    lines: &str,
) -> Result<Row> {
    let text = count.to_string();
    let words = [work, "--count", &text];
    prepare()?;
    let recipe = Recipe::of(bench, project, &words)?;
    let file = recipe.file.to_string_lossy();
    let (product, raw) = by_turns(
        samples,
        || {
            prepare()?;
            bench.seconds(project, &words)
        },
        || {
            let project = TempProject::on_disk()?;
            std::fs::write(project.claude().join("lines"), lines)?;
            let with_lines = !lines.is_empty();
            let work = if with_lines { "raw-receive" } else { "raw" };
            bench.seconds(&project, &[work, "--count", &text, "--recipe", &file])
        },
    )?;
    let against = format!("a raw loop: {}", recipe.each(count));
    let times = per_operation(product, raw, count);
    Ok(Row::new(key, what, &against, raw / product, times).at_least(0.5))
}

/// Measures durable changes of a team of this many workers in one process, `count` of them in each sample.
fn changes(
    bench: &Bench,
    row: (&'static str, &str),
    (work, workers): (&str, usize),
    (count, samples): (usize, usize),
) -> Result<Row> {
    let project = TempProject::on_disk()?;
    fixture::create_team(&project, workers)?;
    let warm_up = || bench.seconds(&project, &[work, "--count", "1"]).map(drop);
    against_raw(bench, row, &project, (work, count), samples, warm_up, "")
}

fn receive(bench: &Bench) -> Result<Row> {
    let project = TempProject::on_disk()?;
    let store = fixture::create_team(&project, 2)?;
    let (count, samples) = bench.size((60, 5), (10, 3));
    let messages = count * BATCH;
    let fill = || (0..messages).try_for_each(|_| fixture::send(&store, 1, 2, CONTENT));
    let line = json!({
        "id": "0123456789abcdef0123456789abcdef", "type": "message", "from": "w1", "to": "w2",
        "content": CONTENT, "timestamp": "2026-01-01T00:00:00.000Z", "seq": 1234,
    });
    let lines = format!("{line}\n").repeat(messages);
    let what = format!("message read with acknowledgement, durable, {BATCH} at a time");
    let (row, work) = (("receive", what.as_str()), ("receive", count));
    let mut row = against_raw(bench, row, &project, work, samples, fill, &lines)?;
    row.against += ", reading and parsing the same lines";
    Ok(row)
}

/// Lets this many processes claim all tasks of a team and returns the seconds it took; an error unless each was
/// claimed once.
pub(super) fn claim_each_once(
    bench: &Bench,
    project: &TempProject,
    processes: usize,
    tasks: usize,
) -> Result<f64> {
    let (mut ids, took) = fixture::drain(&bench.workloads, project, processes, &[])?;
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    let different = ids.len();
    ensure!(
        all == tasks && different == tasks,
        "{processes} processes claimed {all} tasks, {different} different, of {tasks}"
    );
    Ok(took.as_secs_f64())
}

/// Measures several processes that claim all tasks of a team, against one.
fn several(bench: &Bench) -> Result<Row> {
    let (tasks, samples) = bench.size((500, 7), (100, 3));
    let drain = |processes: usize| -> Result<f64> {
        let project = TempProject::on_disk()?;
        let store = fixture::create_team(&project, processes)?;
        fixture::create_tasks(&store, tasks)?;
        claim_each_once(bench, &project, processes, tasks)
    };
    let (together, alone) = by_turns(samples, || drain(PROCESSES), || drain(1))?;
    let what = format!("{PROCESSES} processes claim {tasks} tasks, none twice");
    let times = per_operation(together, alone, tasks);
    Ok(Row::new("drain", &what, "1 process", together / alone, times).at_most(1.25))
}

/// Measures the CPU time of a claim in a large team against one in a small team. With `behind`, nine of ten tasks are
/// blocked by the first one, which is in progress, and those behind them are claimable.
fn growth(bench: &Bench, behind: bool) -> Result<Row> {
    let (largest, count, samples) = bench.size((10_000, 60, 11), (2_000, 10, 3));
    let make = |tasks: usize| -> Result<TempProject> {
        let project = TempProject::on_disk()?;
        let store = fixture::create_team(&project, 2)?;
        if behind {
            fixture::create_tasks(&store, 1)?;
            fixture::claim(&store, 2)?;
            let mut blocked = fixture::planned("waits", &[]);
            blocked.task.blocked_by = vec!["1".parse()?];
            fixture::import(&store, &vec![blocked; tasks / 10 * 9])?;
            fixture::create_tasks(&store, tasks / 10)?;
        } else {
            fixture::create_tasks(&store, tasks)?;
        }
        Ok(project)
    };
    let (small, middle, large) = (make(100)?, make(1_000)?, make(largest)?);
    let count = count.to_string();
    let cpu = |project: &TempProject| -> Result<f64> {
        let figures = bench.figures(project, &["claims", "--count", &count])?;
        let each = list(&figures["cpu"]).filter_map(Value::as_f64);
        Ok(median(&each.collect::<Vec<_>>()))
    };
    for project in [&small, &middle, &large] {
        cpu(project)?;
    }
    let mut middles = Vec::new();
    let (of_large, of_small) = by_turns(
        samples,
        || {
            middles.push(cpu(&middle)?);
            cpu(&large)
        },
        || cpu(&small),
    )?;
    let what = format!("CPU of a claim in a team of {largest} tasks");
    let against = "in a team of 100";
    let ratio = of_large / of_small;
    let [large, small, middle] = [of_large, of_small, median(&middles)].map(|time| time * 1e6);
    let times = format!("{large:.0} µs : {small:.0} µs; {middle:.0} µs with 1,000");
    Ok(if behind {
        let what = format!("{what}, nine of ten tasks waiting");
        Row::new("claims-behind", &what, against, ratio, times)
    } else {
        Row::new("claims", &what, against, ratio, times).at_most(2.0)
    })
}

/// Measures reading the last events of a long journal against those of a short one.
fn journal(bench: &Bench) -> Result<Row> {
    let (events, samples) = bench.size((200_000, 11), (20_000, 3));
    let (long, short) = (with_events(events)?, with_events(1_000)?);
    let words = ["journal", "--count", "200"];
    let (of_long, of_short) = by_turns(
        samples,
        || bench.seconds(&long, &words),
        || bench.seconds(&short, &words),
    )?;
    let what = format!("the last 20 of {events} events");
    let times = per_operation(of_long, of_short, 200);
    Ok(Row::new("journal", &what, "of 1,000", of_long / of_short, times).at_most(4.0))
}

/// Makes a team whose journal has this many events.
fn with_events(count: usize) -> Result<TempProject> {
    let project = TempProject::on_disk()?;
    fixture::create_team(&project, 1)?;
    let event = |_| ("w1".to_owned(), "agent.event", json!({"text": CONTENT}));
    fixture::fill_journal(&project, count, event)?;
    project.store(Durability::Fast)?;
    Ok(project)
}

/// The writes of a workload, taken from a trace of it, and a file with them.
struct Recipe {
    writes: Vec<Write>,
    file: PathBuf,
}

impl Recipe {
    /// Traces one run of a workload.
    fn of(bench: &Bench, project: &TempProject, words: &[&str]) -> Result<Self> {
        let trace = project.root().join("trace");
        let workload = fixture::workload(&bench.workloads, project, words);
        let mut command = Command::new("strace");
        let calls = "trace=write,pwrite64,fsync,fdatasync,rename,renameat,renameat2";
        command.args(["-qq", "-y", "-s", "0", "-e", calls, "-o"]);
        command.arg(&trace).arg(workload.get_program());
        command.args(workload.get_args());
        project.enter(&mut command);
        Finished::checked(&mut command)?;
        let trace = std::fs::read_to_string(&trace).context("strace left no trace")?;
        let writes = writes(&trace);
        let has_written = !writes.is_empty();
        ensure!(has_written, "{words:?} brought nothing to the disk");
        let file = project.root().join(format!("recipe-{}.json", words[0]));
        std::fs::write(&file, serde_json::to_vec(&writes)?)?;
        Ok(Self { writes, file })
    }

    /// Returns how many syncs and renames each of `count` operations takes.
    fn each(&self, count: usize) -> String {
        let is_rename = |write: &&Write| matches!(write, Write::Rename(_) | Write::MoveFolder);
        let renames = self.writes.iter().filter(is_rename).count();
        let syncs = self.writes.len() - renames;
        let (syncs, renames) = (syncs.div_ceil(count), renames.div_ceil(count));
        format!("{syncs} syncs and {renames} renames each")
    }
}

fn writes(trace: &str) -> Vec<Write> {
    let mut written: HashMap<&str, usize> = HashMap::new();
    let mut writes = Vec::new();
    let has_end = |path: &str, end: &str| Path::new(path).extension().is_some_and(|e| e == end);
    for line in trace.lines() {
        let Some((call, rest)) = line.split_once('(') else {
            continue;
        };
        let path = rest.split(['<', '>']).nth(1).unwrap_or_default();
        let how = match call {
            "write" | "pwrite64" => {
                let size = rest.rsplit("= ").next().and_then(|size| size.parse().ok());
                *written.entry(path).or_insert(0) += size.unwrap_or(0);
                continue;
            }
            "fsync" => Flush::All,
            "fdatasync" => Flush::Data,
            _ => {
                let new = rest.rsplit('"').nth(1).unwrap_or_default();
                let is_folder = has_end(new, "lock") || new.chars().all(|c| c.is_ascii_digit());
                writes.push(if is_folder {
                    Write::MoveFolder
                } else {
                    Write::Rename(new.to_owned())
                });
                continue;
            }
        };
        writes.push(match written.remove(path) {
            Some(size) if has_end(path, "jsonl") => Write::Append(size, how),
            Some(size) => Write::Create(size, how),
            None => Write::Names(how),
        });
    }
    writes
}

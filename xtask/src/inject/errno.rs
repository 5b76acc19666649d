//! An error instead of every system call: it worked in spite of it, or nothing happened and the caller is told why.

use anyhow::Result;

use super::disk::Disk;
use super::scenario::Scenario;
use super::strace::{self, Blow, Disturbed};
use super::tally::{Run, Tally};
use super::{Point, Size, in_parallel, kill, sampled};
use crate::product::Product;

/// The errors that are tried at each call.
const ERRORS: [&str; 4] = ["ENOSPC", "EIO", "EACCES", "EINTR"];

/// Calls that set the process up or give it memory. The kernel does not answer them with these errors; where it is
/// made to, the process may die, as it may when memory runs out. What it leaves must then be as whole as after a kill.
const RUNTIME: [&str; 19] = [
    "arch_prctl",
    "brk",
    "exit_group",
    "futex",
    "getrandom",
    "madvise",
    "mmap",
    "mprotect",
    "mremap",
    "munmap",
    "poll",
    "prlimit64",
    "rseq",
    "rt_sigaction",
    "rt_sigprocmask",
    "sched_getaffinity",
    "set_robust_list",
    "set_tid_address",
    "sigaltstack",
];

/// Fails each system call of one operation.
pub(super) fn at_every_call(
    product: &Product,
    scenario: &dyn Scenario,
    size: Size,
) -> Result<Tally> {
    let all = Point::all(product, &scenario.prepare()?)?;
    let is_whole = size == Size::Every || scenario.is_central();
    Ok(at_points(
        scenario.name(),
        all,
        is_whole,
        size,
        |point, error| run(product, scenario, point, error),
    ))
}

/// Strikes at every point, or at every third, with every error or with one of them by turns.
pub(super) fn at_points(
    operation: &str,
    all: Vec<Point>,
    is_whole: bool,
    size: Size,
    run: impl Fn(&Point, &'static str) -> Run + Sync,
) -> Tally {
    let mut names: Vec<&str> = all.iter().map(|point| point.call.as_str()).collect();
    names.dedup();
    let mut tally = Tally {
        operation: operation.to_owned(),
        calls: all.len(),
        names: names.len(),
        ..Tally::default()
    };
    let points = sampled(all, if is_whole { 1 } else { 3 });
    let blows: Vec<(Point, &'static str)> = match size {
        Size::Every => points
            .into_iter()
            .flat_map(|point| ERRORS.map(|error| (point.clone(), error)))
            .collect(),
        Size::Sample => points.into_iter().zip(ERRORS.into_iter().cycle()).collect(),
    };
    for run in in_parallel(&blows, |(point, error)| run(point, error)) {
        tally.add(run);
    }
    tally
}

/// Whether a call belongs to the process itself.
pub(super) fn is_runtime(point: &Point) -> bool {
    RUNTIME.contains(&point.call.as_str())
}

fn run(product: &Product, scenario: &dyn Scenario, point: &Point, error: &'static str) -> Run {
    let mut run = Run::default();
    let mut hit = String::new();
    if let Err(failed) = strike(product, scenario, point, error, &mut run, &mut hit) {
        run.violations.push(format!("{failed:#}"));
    }
    let name = scenario.name();
    for violation in &mut run.violations {
        *violation = format!(
            "{name}, {error} at {} {}: {violation} [{hit}]",
            point.call, point.n
        );
    }
    run
}

fn strike(
    product: &Product,
    scenario: &dyn Scenario,
    point: &Point,
    error: &'static str,
    run: &mut Run,
    hit: &mut String,
) -> Result<()> {
    let case = scenario.prepare()?;
    let struck = strace::disturb(product, &case, point, Blow::Error(error))?;
    run.hit = struck.hit.is_some();
    *hit = struck.hit.clone().unwrap_or_default();
    let before = Disk::read(&case.place)?;
    run.violations.extend(before.problems.iter().cloned());
    scenario.state(&case, &before)?;
    let is_seen = scenario.seen(product, &case)?;
    let happened = kill::go_on(product, scenario, &case, run)?;
    run.happened = Some(happened);
    judge(scenario, &struck, point, happened, is_seen, run);
    Ok(())
}

fn judge(
    scenario: &dyn Scenario,
    struck: &Disturbed,
    point: &Point,
    happened: bool,
    is_seen: bool,
    run: &mut Run,
) {
    let answer = &struck.answer;
    let is_runtime = is_runtime(point);
    run.late = happened && !is_seen && answer.status.success();
    let complaint = match answer.code() {
        Some(0) if happened => None,
        Some(0) => Some("exit 0, but it did not happen".to_owned()),
        _ if is_runtime => None,
        None => Some(format!("it died: {}", answer.said())),
        Some(_) if answer.stderr.contains("panicked") => Some(answer.said()),
        // What was asked for has been done, and the error says that only the answer is lost.
        Some(_) if happened && is_answering(struck) => scenario
            .hands_out()
            .then(|| "messages were acknowledged that the reader never got".to_owned()),
        Some(_) if happened => Some(format!("it happened, but {}", answer.said())),
        Some(_) => unclear(&answer.stderr),
    };
    run.violations.extend(complaint);
}

/// Whether the call that failed was the one that writes the answer.
fn is_answering(struck: &Disturbed) -> bool {
    struck
        .hit
        .as_ref()
        .is_some_and(|line| line.starts_with("write(1,"))
}

/// What is wrong with an error, which must be one object with a message.
fn unclear(stderr: &str) -> Option<String> {
    let is_clear = serde_json::from_str::<serde_json::Value>(stderr.trim())
        .is_ok_and(|error| error["error"]["message"].is_string());
    (!is_clear).then(|| format!("the error is not one clear object: {:?}", stderr.trim()))
}

//! SIGKILL before every system call: the operation happened or it did not, and the others go on at once.

use std::time::Duration;

use anyhow::Result;

use super::disk::Disk;
use super::scenario::{Case, Scenario};
use super::strace::{self, Blow, Disturbed};
use super::tally::{Run, Tally};
use super::{Point, Size, in_parallel, sampled};
use crate::product::Product;

/// What somebody else does next succeeds within this time.
const NEXT_WITHIN: Duration = Duration::from_secs(1);

/// Kills one operation before each of its system calls.
pub(super) fn at_every_call(
    product: &Product,
    scenario: &dyn Scenario,
    size: Size,
) -> Result<Tally> {
    let all = Point::all(product, &scenario.prepare()?)?;
    let is_whole = size == Size::Every || scenario.is_central();
    Ok(at_points(scenario.name(), all, is_whole, |point| {
        run(product, scenario, point)
    }))
}

/// Strikes at every point, or at every third.
pub(super) fn at_points(
    operation: &str,
    all: Vec<Point>,
    is_whole: bool,
    run: impl Fn(&Point) -> Run + Sync,
) -> Tally {
    let mut tally = Tally {
        operation: operation.to_owned(),
        calls: all.len(),
        ..Tally::default()
    };
    let mut beyond: Vec<Point> = Vec::new();
    for point in &all {
        match beyond.last_mut() {
            Some(last) if last.call == point.call => last.n = point.n + 1,
            _ => beyond.push(Point {
                n: point.n + 1,
                ..point.clone()
            }),
        }
    }
    tally.names = beyond.len();
    let points = sampled(all, if is_whole { 1 } else { 3 });
    for run in in_parallel(&points, &run) {
        tally.add(run);
    }
    // A run may make a call more than the first one did. Those are struck at too, until there are none left.
    for mut point in beyond {
        loop {
            let run = run(&point);
            let (is_over, is_failed) = (!run.hit, !run.violations.is_empty());
            if is_over && !is_failed {
                break;
            }
            tally.add(run);
            point.n += 1;
            if is_over {
                break;
            }
        }
    }
    tally
}

fn run(product: &Product, scenario: &dyn Scenario, point: &Point) -> Run {
    let mut run = Run::default();
    if let Err(error) = strike(product, scenario, point, &mut run) {
        run.violations.push(format!("{error:#}"));
    }
    let name = scenario.name();
    for violation in &mut run.violations {
        *violation = format!(
            "{name}, killed before {} {}: {violation}",
            point.call, point.n
        );
    }
    run
}

fn strike(product: &Product, scenario: &dyn Scenario, point: &Point, run: &mut Run) -> Result<()> {
    let case = scenario.prepare()?;
    let struck = strace::disturb(product, &case, point, Blow::Kill)?;
    run.hit = struck.hit.is_some();
    if !run.hit {
        if !struck.answer.status.success() {
            run.violations
                .push(format!("not reached, but {}", struck.answer.said()));
        }
        return Ok(());
    }
    let before = Disk::read(&case.place)?;
    run.violations.extend(before.problems.iter().cloned());
    scenario.state(&case, &before)?;
    let happened = go_on(product, scenario, &case, run)?;
    run.happened = Some(happened);
    check_answer(scenario, &struck, happened, run);
    Ok(())
}

/// Somebody else goes on; after that the team is whole. Whether the operation happened.
pub(super) fn go_on(
    product: &Product,
    scenario: &dyn Scenario,
    case: &Case,
    run: &mut Run,
) -> Result<bool> {
    let next = product.call(&case.place, scenario.next())?;
    run.next = next.took;
    if !next.status.success() {
        run.violations
            .push(format!("the next operation failed: {}", next.said()));
    }
    if next.took > NEXT_WITHIN {
        run.violations
            .push(format!("the next operation took {:?}", next.took));
    }
    let mut after = Disk::read(&case.place)?;
    after.check_whole();
    run.violations.append(&mut after.problems);
    let happened = scenario.state(case, &after)?;
    let told = scenario.told(&after);
    if told != usize::from(happened) {
        run.violations.push(format!(
            "the files say {}, and the journal tells of it {told} times",
            if happened {
                "it happened"
            } else {
                "it did not happen"
            }
        ));
    }
    run.violations
        .extend(scenario.end(product, case, happened, &next)?);
    Ok(happened)
}

/// What the caller was told must be true.
fn check_answer(scenario: &dyn Scenario, struck: &Disturbed, happened: bool, run: &mut Run) {
    let is_answered = struck.answer.json().is_some();
    // A message that was handed out but not acknowledged comes again.
    if is_answered && !happened && !scenario.hands_out() {
        run.violations
            .push("it was answered, but did not happen".to_owned());
    }
    if scenario.hands_out() && happened && !is_answered {
        run.violations
            .push("messages were acknowledged that the reader never got".to_owned());
    }
}

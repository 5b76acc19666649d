//! The hooks of a client, killed and failed at every system call.
//!
//! A hook has rules of its own: its answer lets the agent go on whatever happens, and what it changes is the state that
//! viewers poll. So afterwards that file is absent or whole, with the change in it or without; a hook of another session
//! gets through at once; and nothing temporary is left after that.

mod case;
mod states;

use std::time::Duration;

use anyhow::Result;

use super::scenario::Case;
use super::strace::{self, Blow};
use super::tally::{Run, Tally};
use super::{Point, Size, errno, kill};
use crate::product::Product;
use case::{NEXT_NAME, NEXT_SESSION, Situation};
use states::States;

/// No hook takes longer, whatever happens to it or to others.
const WITHIN: Duration = Duration::from_secs(2);

/// SIGKILL before each system call of each hook.
pub(super) fn kills(product: &Product, size: Size) -> Result<Vec<Tally>> {
    Situation::ALL
        .into_iter()
        .map(|situation| {
            let all = Point::all(product, &situation.prepare(product)?)?;
            let is_whole = size == Size::Every || situation.is_central();
            let name = situation.name();
            Ok(kill::at_points(name, all, is_whole, |point| {
                let what = format!("{name}, killed before {} {}", point.call, point.n);
                judged(&what, |run| killed(product, situation, point, run))
            }))
        })
        .collect()
}

/// An error instead of each system call of each hook.
pub(super) fn errors(product: &Product, size: Size) -> Result<Vec<Tally>> {
    Situation::ALL
        .into_iter()
        .map(|situation| {
            let all = Point::all(product, &situation.prepare(product)?)?;
            let is_whole = size == Size::Every || situation.is_central();
            let name = situation.name();
            Ok(errno::at_points(
                name,
                all,
                is_whole,
                size,
                |point, error| {
                    let what = format!("{name}, {error} at {} {}", point.call, point.n);
                    judged(&what, |run| failed(product, situation, point, error, run))
                },
            ))
        })
        .collect()
}

/// One strike, with its place before everything that was wrong.
fn judged(what: &str, strike: impl FnOnce(&mut Run) -> Result<()>) -> Run {
    let mut run = Run::default();
    if let Err(error) = strike(&mut run) {
        run.violations.push(format!("{error:#}"));
    }
    for violation in &mut run.violations {
        *violation = format!("{what}: {violation}");
    }
    run
}

fn killed(product: &Product, situation: Situation, point: &Point, run: &mut Run) -> Result<()> {
    let case = situation.prepare(product)?;
    let struck = strace::disturb(product, &case, point, Blow::Kill)?;
    run.hit = struck.hit.is_some();
    if !run.hit {
        if !struck.answer.status.success() {
            run.violations
                .push(format!("not reached, but {}", struck.answer.said()));
        }
        return Ok(());
    }
    let happened = look_and_go_on(product, situation, &case, run)?;
    // The answer comes last.
    if struck.answer.json().is_some() && !happened {
        run.violations
            .push("it was answered, but did not happen".to_owned());
    }
    Ok(())
}

fn failed(
    product: &Product,
    situation: Situation,
    point: &Point,
    error: &'static str,
    run: &mut Run,
) -> Result<()> {
    let case = situation.prepare(product)?;
    let struck = strace::disturb(product, &case, point, Blow::Error(error))?;
    run.hit = struck.hit.is_some();
    let answer = &struck.answer;
    let is_runtime = errno::is_runtime(point);
    let lets_go_on = answer.stdout.trim().is_empty() || answer.json().is_some();
    let wrong = [
        (
            answer.code() != Some(0) && !is_runtime,
            format!("it must end with 0: {}", answer.said()),
        ),
        (
            !lets_go_on,
            format!("the answer is no JSON: {:?}", answer.stdout),
        ),
        (answer.took > WITHIN, format!("it took {:?}", answer.took)),
    ];
    let wrong = wrong.into_iter().filter(|(is_wrong, _)| *is_wrong);
    run.violations.extend(wrong.map(|(_, text)| text));
    let happened = look_and_go_on(product, situation, &case, run)?;
    // A call that was only interrupted is made again.
    if error == "EINTR" && !happened && !is_runtime {
        let hit = struck.hit.unwrap_or_default();
        run.violations
            .push(format!("it was interrupted, and did not happen: {hit}"));
    }
    Ok(())
}

/// Looks at the files, lets another session's hook follow, and looks again. Whether the hook's change is there.
fn look_and_go_on(
    product: &Product,
    situation: Situation,
    case: &Case,
    run: &mut Run,
) -> Result<bool> {
    let before = States::read(&case.place)?;
    run.violations.extend(before.problems.iter().cloned());
    let at_once = situation.happened(&before)?;
    let next = case::next(product, &case.place)?;
    run.next = next.took;
    if next.code() != Some(0) || next.json().is_none() {
        let (said, stdout) = (next.said(), &next.stdout);
        run.violations
            .push(format!("the next hook failed: {said}, {stdout:?}"));
    }
    if next.took > WITHIN {
        run.violations
            .push(format!("the next hook took {:?}", next.took));
    }
    let after = States::read(&case.place)?;
    run.violations.extend(after.problems.iter().cloned());
    if !after.has_row(NEXT_SESSION, NEXT_NAME) {
        run.violations
            .push("the next hook's row is not there".to_owned());
    }
    for name in &after.leftovers {
        run.violations
            .push(format!("{name} is left after the next hook"));
    }
    run.violations.extend(situation.lost(&after));
    let happened = situation.happened(&after)?;
    if at_once && !happened {
        run.violations
            .push("it had happened, and is gone".to_owned());
    }
    run.late = happened && !at_once;
    run.happened = Some(happened);
    Ok(happened)
}

//! Killing the release binary, and failing its system calls, at every place where that can happen.
//!
//! [`strace`] runs a call of the binary and interferes with one system call of it: the `N`-th one of a name, because
//! that is how strace counts. One undisturbed run tells which names there are and how often each occurs; the harness
//! then goes through all of them. [`scenario`] knows the operations: how to prepare a team for one, what the team
//! looks like when it happened and when it did not, and what somebody else does next. [`disk`] reads the files
//! without any help of the product's own code and names everything about them that must not be. [`kill`] and
//! [`errno`] put these together, each with its own rule about what a caller may be told. [`hook`] does the same to what
//! a client calls, which has other files and must never fail.

mod disk;
mod errno;
mod hook;
mod kill;
mod scenario;
mod strace;
mod tally;

use anyhow::Result;

use crate::product::Product;
pub(crate) use tally::Tally;

/// How much is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// Every call of every operation; each of the four errors at each of them.
    Every,
    /// Every call of claim, complete and send, every third of the others; one of the four errors at each of them,
    /// by turns.
    Sample,
}

/// SIGKILL before each system call of each operation.
pub(crate) fn kills(product: &Product, size: Size) -> Result<Vec<Tally>> {
    let mut tallies: Vec<Tally> = scenario::all()
        .iter()
        .map(|scenario| kill::at_every_call(product, scenario.as_ref(), size))
        .collect::<Result<_>>()?;
    tallies.extend(hook::kills(product, size)?);
    Ok(tallies)
}

/// An error instead of each system call of each operation.
pub(crate) fn errors(product: &Product, size: Size) -> Result<Vec<Tally>> {
    let mut tallies: Vec<Tally> = scenario::all()
        .iter()
        .map(|scenario| errno::at_every_call(product, scenario.as_ref(), size))
        .collect::<Result<_>>()?;
    tallies.extend(hook::errors(product, size)?);
    Ok(tallies)
}

/// One place to interfere: the `n`-th call of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Point {
    call: String,
    n: usize,
}

impl Point {
    /// All places of an operation, from a run that nobody disturbed.
    fn all(product: &Product, case: &scenario::Case) -> Result<Vec<Self>> {
        let counts = strace::counts(product, case)?;
        Ok(counts
            .into_iter()
            // It starts the program; before it there is nothing to strike at.
            .filter(|(call, _)| call != "execve")
            .flat_map(|(call, count)| {
                (1..=count).map(move |n| Self {
                    call: call.clone(),
                    n,
                })
            })
            .collect())
    }
}

/// Every point, or every `step`-th.
fn sampled(points: Vec<Point>, step: usize) -> Vec<Point> {
    points.into_iter().step_by(step).collect()
}

/// Works on all items with as many threads as there are cores; the results in the order of the items.
fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<(usize, R)>> = Mutex::new(Vec::with_capacity(items.len()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((place, item)) = {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    items.get(place).map(|item| (place, item))
                } {
                    let result = work(item);
                    if let Ok(mut results) = results.lock() {
                        results.push((place, result));
                    }
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_default();
    results.sort_by_key(|(place, _)| *place);
    results.into_iter().map(|(_, result)| result).collect()
}

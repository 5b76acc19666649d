//! One call of the binary under strace.

use std::collections::BTreeMap;
use std::fs::File;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::Point;
use super::scenario::Case;
use crate::product::{Answer, Product};

/// What happens instead of, or before, a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blow {
    /// The process is killed before the call is made.
    Kill,
    /// The call is not made and returns this error.
    Error(&'static str),
}

/// How a disturbed call ended.
#[derive(Debug)]
pub(super) struct Disturbed {
    /// What the binary said and how it ended.
    pub(super) answer: Answer,
    /// The line of the call that was hit; `None` when it was never reached.
    pub(super) hit: Option<String>,
}

/// How often each system call occurs in an undisturbed run.
pub(super) fn counts(product: &Product, case: &Case) -> Result<BTreeMap<String, usize>> {
    let (answer, trace) = run(product, case, &[])?;
    if !answer.status.success() {
        bail!("the undisturbed run failed: {}", answer.said());
    }
    let mut counts = BTreeMap::new();
    for line in trace.lines() {
        if let Some((call, _)) = line.split_once('(')
            && !call.is_empty()
            && call.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        {
            *counts.entry(call.to_owned()).or_insert(0) += 1;
        }
    }
    // Counters are kept for each thread, so a second one would need a loop of its own.
    if counts
        .keys()
        .any(|call| matches!(call.as_str(), "clone" | "clone3" | "fork" | "vfork"))
    {
        bail!("the operation starts a thread or a process, which this harness does not follow");
    }
    Ok(counts)
}

/// Runs the case and strikes at one point.
pub(super) fn disturb(
    product: &Product,
    case: &Case,
    point: &Point,
    blow: Blow,
) -> Result<Disturbed> {
    let (call, n) = (&point.call, point.n);
    let what = match blow {
        Blow::Kill => "signal=SIGKILL".to_owned(),
        Blow::Error(name) => format!("error={name}"),
    };
    let (answer, trace) = run(
        product,
        case,
        &[
            &format!("trace={call}"),
            &format!("inject={call}:{what}:when={n}"),
        ],
    )?;
    let mut calls = trace
        .lines()
        .filter(|line| line.starts_with(&format!("{call}(")));
    let hit = match blow {
        Blow::Kill if answer.signal() == Some(9) => calls.next_back(),
        Blow::Kill => None,
        Blow::Error(_) => calls.find(|line| line.ends_with("(INJECTED)")),
    };
    Ok(Disturbed {
        hit: hit.map(str::to_owned),
        answer,
    })
}

fn run(product: &Product, case: &Case, expressions: &[&str]) -> Result<(Answer, String)> {
    let trace = case.place.root().join("trace");
    let mut command = Command::new("strace");
    command.arg("-qq").arg("-o").arg(&trace);
    for expression in expressions {
        command.arg("-e").arg(expression);
    }
    command.arg(&product.binary).args(&case.words);
    case.place.dress(&mut command);
    let input = match &case.input {
        Some(file) => File::open(file)?.into(),
        None => Stdio::null(),
    };
    let answer = Answer::reading(&mut command, input)?;
    let trace = std::fs::read_to_string(&trace).context("strace left no trace")?;
    Ok((answer, trace))
}

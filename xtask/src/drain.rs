//! Several processes that claim through the library until nothing is left, all beginning at once.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::product::Place;

/// What came out.
#[derive(Debug)]
pub(crate) struct Drained {
    /// Every id that a process was given, as often as it was.
    pub(crate) ids: Vec<String>,
    /// From the common start to the end of the last one.
    pub(crate) took: Duration,
}

/// Lets so many processes claim. `workloads` is the release build of xtask.
pub(crate) fn run(
    workloads: &Path,
    place: &Place,
    processes: usize,
    words: &[&str],
) -> Result<Drained> {
    let mut children = Vec::new();
    for number in 1..=processes {
        let mut child = command(
            workloads,
            place,
            &["drain", "--worker", &number.to_string()],
        )
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
        let stdout = child.stdout.take().context("a workload has no output")?;
        let mut lines = BufReader::new(stdout).lines();
        if lines.next().transpose()?.as_deref() != Some("ready") {
            bail!("a workload did not get ready");
        }
        children.push((child, lines));
    }
    let start = Instant::now();
    for (child, _) in &mut children {
        go(child)?;
    }
    let mut ids: Vec<String> = Vec::new();
    for (child, lines) in &mut children {
        let line = lines.next().transpose()?;
        let figures: Value = serde_json::from_str(&line.context("a workload said nothing")?)?;
        let claimed = figures["ids"].as_array().cloned().unwrap_or_default();
        ids.extend(
            claimed
                .iter()
                .filter_map(|id| Some(id.as_str()?.to_owned())),
        );
        child.wait()?;
    }
    Ok(Drained {
        ids,
        took: start.elapsed(),
    })
}

/// A workload in a place, not started yet.
pub(crate) fn command(workloads: &Path, place: &Place, words: &[&str]) -> Command {
    let mut command = Command::new(workloads);
    command.arg("workload").args(words);
    place.dress(&mut command);
    command
        .arg("--claude")
        .arg(place.claude())
        .arg("--project")
        .arg(place.project());
    command
}

fn go(child: &mut Child) -> Result<()> {
    let mut stdin = child.stdin.take().context("a workload has no input")?;
    Ok(stdin.write_all(b"go\n")?)
}

//! What the product brings to the disk, taken from a trace of it, so that the raw loop does the same.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::Programs;
use crate::product::{Answer, Place};
use crate::workload::raw::{Flush, Step};

/// The writes of a workload, in order, and a file with them.
pub(super) struct Recipe {
    pub(super) steps: Vec<Step>,
    pub(super) file: PathBuf,
}

impl Recipe {
    /// Traces one run of a workload.
    pub(super) fn of(programs: &Programs, place: &Place, words: &[&str]) -> Result<Self> {
        let trace = place.root().join("trace");
        let workload = programs.workload(place, words);
        let mut command = Command::new("strace");
        command
            .args(["-qq", "-y", "-s", "0", "-e"])
            .arg("trace=write,pwrite64,fsync,fdatasync,rename,renameat,renameat2")
            .arg("-o")
            .arg(&trace)
            .arg(workload.get_program())
            .args(workload.get_args());
        place.dress(&mut command);
        let answer = Answer::of(&mut command)?;
        if !answer.status.success() {
            bail!(
                "the workload {words:?} failed under strace: {}",
                answer.said()
            );
        }
        let text = std::fs::read_to_string(&trace).context("strace left no trace")?;
        let steps = steps(&text);
        if steps.is_empty() {
            bail!("the workload {words:?} brought nothing to the disk");
        }
        let file = place.root().join(format!("recipe-{}.json", words[0]));
        std::fs::write(&file, serde_json::to_vec(&steps)?)?;
        Ok(Self { steps, file })
    }

    /// How many syncs and renames each of `count` operations takes.
    pub(super) fn each(&self, count: usize) -> String {
        let per = |is_counted: fn(&Step) -> bool| {
            let found = self.steps.iter().filter(|step| is_counted(step)).count();
            found.div_ceil(count)
        };
        let syncs = per(|step| !matches!(step, Step::Rename(_) | Step::MoveFolder));
        let renames = per(|step| matches!(step, Step::Rename(_) | Step::MoveFolder));
        format!("{syncs} syncs and {renames} renames each")
    }
}

fn steps(trace: &str) -> Vec<Step> {
    let mut written: HashMap<String, usize> = HashMap::new();
    let mut steps = Vec::new();
    for line in trace.lines() {
        let Some((call, rest)) = line.split_once('(') else {
            continue;
        };
        let path = between(rest, '<', '>').unwrap_or_default();
        match call {
            "write" | "pwrite64" => {
                let size = rest
                    .rsplit_once("= ")
                    .and_then(|(_, size)| size.parse().ok());
                *written.entry(path).or_insert(0) += size.unwrap_or(0);
            }
            "fsync" | "fdatasync" => {
                let how = if call == "fsync" {
                    Flush::All
                } else {
                    Flush::Data
                };
                let size = written.remove(&path);
                steps.push(match size {
                    Some(size) if has_end(&path, "jsonl") => Step::Append(size, how),
                    Some(size) => Step::Create(size, how),
                    None => Step::Names(how),
                });
            }
            _ => {
                let new = rest.rsplit('"').nth(1).unwrap_or_default();
                let is_folder = has_end(new, "lock") || new.chars().all(|c| c.is_ascii_digit());
                steps.push(if is_folder {
                    Step::MoveFolder
                } else {
                    Step::Rename(new.to_owned())
                });
            }
        }
    }
    steps
}

fn has_end(path: &str, end: &str) -> bool {
    Path::new(path)
        .extension()
        .is_some_and(|found| found == end)
}

fn between(text: &str, open: char, close: char) -> Option<String> {
    let (_, rest) = text.split_once(open)?;
    Some(rest.split_once(close)?.0.to_owned())
}

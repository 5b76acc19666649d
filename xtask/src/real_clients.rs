//! Sessions of real clients with our part installed, judged by the clients' own files.
//!
//! A lab folder beside the project starts the unmodified clients against scripted model servers on the loopback.
//! This command installs the clients through it, gives them what `teamster install` writes, lets them run, and compares
//! what we showed with what they left: payloads, file history, debug log, transcripts. It is no part of `ci`, because
//! the clients have to be fetched once.
//!
//! [`lab`] knows the folder's scripts. A [`RealRun`] is one run of one client; [`claude`] has the sessions of Claude
//! Code with our hooks, [`workers`] the clients as our workers. Another client joins by one more list in [`all`].

mod claude;
mod lab;
mod whole_run;
mod workers;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Result, bail};

use crate::product::Product;
use lab::Lab;
pub(crate) use whole_run::RunScene;
pub(crate) use workers::WorkerScenes;

/// One run of a real client.
trait RealRun {
    /// Its name on the command line.
    fn name(&self) -> String;

    /// The clients it needs, as the lab's installer calls them.
    fn clients(&self) -> Vec<String>;

    /// Lets it run, with its results in a folder, and judges what came out.
    fn run(&self, lab: &Lab, product: &Product, out: &Path) -> Result<Report>;
}

/// What a run has shown.
#[derive(Debug, Default)]
struct Report {
    /// What was seen, by topic.
    seen: Vec<(&'static str, String)>,
    /// Where we and the client disagree.
    differences: Vec<String>,
}

fn all() -> Vec<Box<dyn RealRun>> {
    let mut runs = claude::sessions();
    runs.extend(workers::runs());
    runs.extend(whole_run::runs());
    runs
}

/// Runs all, or those that are named; an error when we and a client disagree.
pub(crate) fn run(only: &[String], lab: Option<&Path>) -> Result<()> {
    let runs = chosen(only)?;
    let lab = Lab::find(lab)?;
    let mut clients: Vec<String> = runs.iter().flat_map(|run| run.clients()).collect();
    clients.sort_unstable();
    clients.dedup();
    lab.install(&clients)?;
    let product = Product::build()?;
    let mut failed = Vec::new();
    for run in runs {
        let out = Folder::new()?;
        let start = Instant::now();
        let report = run
            .run(&lab, &product, &out.0)
            .unwrap_or_else(|error| Report {
                differences: vec![format!("{error:#}")],
                ..Report::default()
            });
        println!(
            "\n== {}: {} ({:.0} s)",
            run.name(),
            if report.differences.is_empty() {
                "as the client says"
            } else {
                "DIFFERS"
            },
            start.elapsed().as_secs_f64()
        );
        for (topic, seen) in &report.seen {
            println!("  {topic:<10} {seen}");
        }
        if !report.differences.is_empty() {
            for difference in &report.differences {
                println!("  ! {difference}");
            }
            println!("  everything is in {}", out.keep().display());
            failed.push(run.name());
        }
    }
    if !failed.is_empty() {
        bail!("not as the client says: {}", failed.join(", "));
    }
    Ok(())
}

fn chosen(only: &[String]) -> Result<Vec<Box<dyn RealRun>>> {
    let runs = all();
    let names: Vec<String> = runs.iter().map(|run| run.name()).collect();
    if let Some(unknown) = only.iter().find(|name| !names.contains(name)) {
        bail!("there is no run {unknown}; there are {}", names.join(", "));
    }
    Ok(runs
        .into_iter()
        .filter(|run| only.is_empty() || only.contains(&run.name()))
        .collect())
}

/// A folder for the results of one run, removed unless somebody has to look into it. Sockets lie below it, so its path
/// is short.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self> {
        use std::sync::atomic::{AtomicU64, Ordering};
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("teamster-real-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }

    fn keep(self) -> PathBuf {
        let path = self.0.clone();
        std::mem::forget(self);
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

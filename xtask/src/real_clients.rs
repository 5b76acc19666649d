//! Sessions of real clients with teamster installed, judged by the clients' own files.
//!
//! A lab folder beside the project starts the unmodified clients against scripted model servers on the loopback.
//! This command installs the clients through it, gives them what `teamster install` writes, lets them run, and compares
//! what teamster showed with what they left: payloads, file history, debug log, transcripts. It is no part of `ci`,
//! because the clients have to be fetched once.
//!
//! [`claude`] has sessions of Claude Code with the hooks, [`workers`] the clients as workers, [`whole_run`] a run with
//! two clients. Another client joins by one more entry in [`all`].

mod claude;
mod whole_run;
mod workers;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::product::{Finished, Product, TempProject, check_names, must, workspace};
pub(crate) use whole_run::RunScene;
pub(crate) use workers::WorkerScenes;

/// Where the lab is looked for, from the project, and the script that shows that it is one.
const LABS: [&str; 2] = ["../lab", "../shared/lab"];
const INSTALL: &str = "install-clients";

/// One run of real clients.
struct RealRun {
    /// The name on the command line.
    name: String,
    /// The clients it needs, as the lab's installer calls them.
    clients: &'static [&'static str],
    run: Box<Play>,
}

/// Lets the clients run and judges what came out.
type Play = dyn Fn(&Lab) -> Result<Report>;

/// What a run has shown.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Report {
    /// What was seen, by topic.
    seen: Vec<(String, String)>,
    /// Where teamster and the client disagree.
    differences: Vec<String>,
}

impl Report {
    fn saw(&mut self, topic: &str, what: impl Into<String>) {
        self.seen.push((topic.to_owned(), what.into()));
    }

    fn check(&mut self, holds: bool, otherwise: impl FnOnce() -> String) {
        if !holds {
            self.differences.push(otherwise());
        }
    }
}

fn all() -> Vec<RealRun> {
    let mut runs = claude::sessions();
    runs.extend(workers::runs());
    runs.push(whole_run::run());
    runs
}

/// Runs all, or those that are named; an error when teamster and a client disagree.
pub(crate) fn run(only: &[String], lab: Option<&Path>) -> Result<()> {
    let mut runs = all();
    let names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
    check_names("run", only, &names)?;
    runs.retain(|run| only.is_empty() || only.contains(&run.name));
    let folder = find_lab(lab)?;
    let mut clients: Vec<&str> = runs.iter().flat_map(|run| run.clients.to_vec()).collect();
    clients.sort_unstable();
    clients.dedup();
    must(Command::new(folder.join(INSTALL)).args(clients))
        .context("the clients cannot be installed")?;
    let product = Product::build()?;
    let mut failed = Vec::new();
    for run in runs {
        let start = Instant::now();
        let lab = Lab::new(&folder, &product)?;
        let report = (run.run)(&lab).unwrap_or_else(|error| Report {
            differences: vec![format!("{error:#}")],
            ..Report::default()
        });
        let agrees = report.differences.is_empty();
        let verdict = if agrees {
            "as the client says"
        } else {
            "DIFFERS"
        };
        let seconds = start.elapsed().as_secs_f64();
        println!("\n== {}: {verdict} ({seconds:.0} s)", run.name);
        for (topic, seen) in &report.seen {
            println!("  {topic:<10} {seen}");
        }
        for difference in &report.differences {
            println!("  ! {difference}");
        }
        if !agrees {
            println!("  everything is in {}", lab.files.keep().display());
            failed.push(run.name);
        }
    }
    if !failed.is_empty() {
        bail!("not as the client says: {}", failed.join(", "));
    }
    Ok(())
}

/// Returns the lab folder that was named, or one beside the project.
fn find_lab(named: Option<&Path>) -> Result<PathBuf> {
    let places = match named {
        Some(folder) => vec![folder.to_owned()],
        None => LABS.map(|path| workspace().join(path)).to_vec(),
    };
    let mut found = places.iter().filter(|place| place.join(INSTALL).is_file());
    match found.next() {
        Some(folder) => Ok(folder.canonicalize()?),
        None => bail!("no lab with {INSTALL} in {places:?}; --lab DIR says where it is"),
    }
}

/// The lab folder, and a folder for the results of one run with the binary in it.
struct Lab {
    folder: PathBuf,
    /// Sockets lie below it, so its path is short.
    files: TempProject,
}

impl Lab {
    fn new(folder: &Path, product: &Product) -> Result<Self> {
        let files = TempProject::new()?;
        let programs = files.root().join("bin");
        std::fs::create_dir_all(&programs)?;
        std::fs::copy(&product.binary, programs.join("teamster"))?;
        Ok(Self {
            folder: folder.to_owned(),
            files,
        })
    }

    /// Returns a path below the results.
    fn path(&self, name: &str) -> PathBuf {
        self.files.root().join(name)
    }

    /// Runs a script to its end, with its results in the folder `out` and the binary on its PATH.
    fn run(&self, script: &str, words: &[&str], variables: &[(&str, &str)]) -> Result<Finished> {
        let mut command = Command::new(self.folder.join(script));
        command.args(words).envs(variables.iter().copied());
        command.env("OUT", self.path("out"));
        Finished::of(command.env("XPATH", self.path("bin")))
    }

    /// Runs a hidden command of xtask inside the surroundings of a client and returns the report that it writes.
    fn run_inside(
        &self,
        client: &str,
        words: &[&str],
        variables: &[(&str, &str)],
    ) -> Result<Report> {
        let file = self.path("report.json").display().to_string();
        let me = std::env::current_exe()?.display().to_string();
        let mut line = vec![client, "--"];
        line.extend(
            words
                .iter()
                .map(|word| if *word == "XTASK" { &*me } else { *word }),
        );
        line.extend(["--report", &file]);
        let ended = self.run("run-worker", &line, variables)?;
        let report = std::fs::read(&file)
            .with_context(|| format!("there is no report: {}", ended.describe()))?;
        let mut report: Report = serde_json::from_slice(&report)?;
        report.check(ended.success(), || {
            format!("it failed: {}", ended.describe())
        });
        Ok(report)
    }
}

/// Writes the report of a hidden command, which must be run inside the lab.
fn write_report(file: &Path, report: impl FnOnce() -> Result<Report>) -> Result<()> {
    if std::env::var_os("LAB_URL").is_none() {
        bail!("this is run by `cargo xtask real-clients`, in the lab");
    }
    Ok(std::fs::write(file, serde_json::to_vec(&report()?)?)?)
}

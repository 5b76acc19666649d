//! Sessions of real clients with teamster installed, judged by the clients' own files.
//!
//! A lab folder beside the project starts the unmodified clients against scripted model servers on the loopback. This
//! command installs the clients through it, gives them what `teamster install` writes, lets them run, and compares
//! what teamster showed with what they left: payloads, file history, debug log, transcripts. It is not part of `ci`,
//! because the clients have to be downloaded once.
//!
//! [`claude`] has sessions of Claude Code with the hooks, [`native`] sessions with deaths and failures, [`workers`]
//! the clients as workers, [`whole_run`] a run with two clients, [`quiet`] a run whose worker is silent, [`team`] the
//! communication of a team's members. Another client is added by one more entry in [`all`]. The requests to the model
//! servers are in the folder `out` of a run, which is `LAB_OUT` inside the lab.

mod claude;
mod model_server;
mod native;
mod polls;
mod quiet;
mod session_files;
mod team;
mod whole_run;
mod workers;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::product::{
    Finished, Product, TempProject, check, check_names, is_wanted, must, workspace,
};

/// Where the lab is searched, relative to the project, and the script by which it is recognised.
const LABS: [&str; 2] = ["../lab", "../shared/lab"];
const INSTALL: &str = "install-clients";

/// Groups of runs with a common name on the command line, which is the prefix of their own names.
const GROUPS: [&str; 2] = [native::NAME, team::NAME];

/// One run of real clients.
struct RealRun {
    /// The name on the command line.
    name: String,
    /// The clients it needs, as the lab's installer calls them.
    clients: &'static [&'static str],
    run: Box<Play>,
}

/// Runs the clients and judges the results.
type Play = dyn Fn(&Lab) -> Result<Report>;

impl RealRun {
    fn new(
        name: String,
        clients: &'static [&'static str],
        run: impl Fn(&Lab) -> Result<Report> + 'static,
    ) -> Self {
        let run = Box::new(run);
        Self { name, clients, run }
    }
}

/// The results of a run.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Report {
    /// Observations, by topic.
    seen: Vec<(String, String)>,
    /// The claims, in the order in which they were judged.
    #[serde(default)]
    claims: Vec<Claim>,
    /// Where teamster and the client disagree.
    differences: Vec<String>,
}

/// Something that must hold, and what was observed.
#[derive(Debug, Serialize, Deserialize)]
struct Claim {
    what: String,
    holds: bool,
    seen: String,
}

impl Report {
    fn saw(&mut self, topic: &str, what: impl Into<String>) {
        self.seen.push((topic.to_owned(), what.into()));
    }

    /// Adds a claim with what was observed; one that does not hold is a difference.
    fn claim(&mut self, claim: &str, holds: bool, seen: impl Into<String>) {
        let seen = seen.into();
        if !holds {
            self.differences.push(format!("{claim}: {seen}"));
        }
        self.claims.push(Claim {
            what: claim.to_owned(),
            holds,
            seen,
        });
    }
}

fn all() -> Vec<RealRun> {
    let runs = claude::sessions().into_iter().chain(native::runs());
    let runs = runs.chain(workers::runs());
    let runs = runs.chain([whole_run::run(), quiet::run()]);
    runs.chain(team::runs()).collect()
}

/// Runs all, or the named ones; an error when teamster and a client disagree.
pub(crate) fn run(only: &[String], lab: Option<&Path>) -> Result<()> {
    let mut runs = all();
    let mut names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
    names.extend(GROUPS);
    check_names("run", only, &names)?;
    let is_in_group = |run: &RealRun| {
        let mut groups = GROUPS
            .iter()
            .filter(|group| only.iter().any(|name| name == *group));
        groups.any(|group| run.name.starts_with(&format!("{group}-")))
    };
    runs.retain(|run| is_wanted(&run.name, only) || is_in_group(run));
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
        let verdict = match report.differences.len() {
            0 => "as the client says",
            _ => "DIFFERS",
        };
        let seconds = start.elapsed().as_secs_f64();
        println!("\n== {}: {verdict} ({seconds:.0} s)", run.name);
        for (topic, seen) in &report.seen {
            println!("  {topic:<10} {seen}");
        }
        let widths = report.claims.iter().map(|claim| claim.what.chars().count());
        let width = widths.max().unwrap_or(0);
        for Claim { what, holds, seen } in &report.claims {
            let verdict = if *holds { "holds" } else { "FAILS" };
            println!("  {verdict}  {what:<width$}  {seen}");
        }
        for difference in &report.differences {
            println!("  ! {difference}");
        }
        if !report.differences.is_empty() {
            println!("  everything is in {}", lab.files.keep().display());
            failed.push(run.name);
        }
    }
    ensure!(
        failed.is_empty(),
        "not as the client says: {}",
        failed.join(", ")
    );
    Ok(())
}

/// Returns the named lab folder, or one beside the project.
fn find_lab(named: Option<&Path>) -> Result<PathBuf> {
    let places = match named {
        Some(folder) => vec![folder.to_owned()],
        None => LABS.map(|path| workspace().join(path)).to_vec(),
    };
    match places.iter().find(|place| place.join(INSTALL).is_file()) {
        Some(folder) => Ok(folder.canonicalize()?),
        None => bail!("no lab with {INSTALL} in {places:?}; --lab DIR says where it is"),
    }
}

/// The lab folder, and a folder for the results of one run with the binary in it.
struct Lab {
    folder: PathBuf,
    /// Sockets are created below it, so its path is short.
    files: TempProject,
}

impl Lab {
    fn new(folder: &Path, product: &Product) -> Result<Self> {
        let (folder, files) = (folder.to_owned(), TempProject::new()?);
        let programs = files.root().join("bin");
        std::fs::create_dir_all(&programs)?;
        std::fs::copy(&product.binary, programs.join("teamster"))?;
        Ok(Self { folder, files })
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

    /// Plays a [`LabScene`] inside the environment of a client, started by the words `before` it, and returns its
    /// report.
    fn play(
        &self,
        client: &str,
        before: &[&str],
        scene: &str,
        variables: &[(&str, &str)],
    ) -> Result<Report> {
        let file = self.path("report.json").display().to_string();
        let me = std::env::current_exe()?.display().to_string();
        let words = [&me, "lab-scene", scene, "--report", &file];
        let line = [&[client, "--"], before, &words].concat();
        let ended = self.run("run-worker", &line, variables)?;
        let report = std::fs::read(&file)
            .with_context(|| format!("there is no report: {}", ended.describe()))?;
        let mut report: Report = serde_json::from_slice(&report)?;
        check!(report.differences, ended.success() => "it failed: {}", ended.describe());
        Ok(report)
    }
}

/// What runs inside the lab and leaves a report: all scenes of a worker, or a whole run.
#[derive(clap::Args, Debug)]
pub(crate) struct LabScene {
    /// A client that works, `run`, `quiet`, or a scene of a team
    name: String,
    #[arg(long)]
    report: PathBuf,
}

impl LabScene {
    pub(crate) fn run(&self) -> Result<()> {
        let is_inside = std::env::var_os("LAB_URL").is_some();
        ensure!(is_inside, "this is run by `cargo xtask real-clients`");
        let report = match self.name.as_str() {
            "run" => whole_run::play()?,
            quiet::NAME => quiet::play()?,
            name => match team::play(name) {
                Some(report) => report?,
                None => workers::play(name)?,
            },
        };
        Ok(std::fs::write(&self.report, serde_json::to_vec(&report)?)?)
    }
}

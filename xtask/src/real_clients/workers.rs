//! The real clients as our workers: `teamster worker start --provider CLIENT` in a real repository, against the lab's
//! scripted models.
//!
//! The lab gives one program its surroundings (model server, client, home, often a network of its own), so everything
//! that looks at a worker has to run inside them: xtask starts itself there ([`inside`]), plays the [`scenes`] and
//! leaves a report.

mod crew;
mod processes;
mod scenes;
mod used;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};

use super::lab::Lab;
use super::{RealRun, Report};
use crate::product::Product;
use scenes::SCENES;

/// All scenes of a client take less, unless one hangs.
const LONG: &str = "600";

/// A client that is driven as a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Client {
    Codex,
    Gemini,
    Claude,
}

impl Client {
    /// The provider, and the client's name in the lab.
    fn word(self) -> &'static str {
        match self {
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Claude => "claude",
        }
    }
}

/// All clients.
pub(super) fn runs() -> Vec<Box<dyn RealRun>> {
    [Client::Codex, Client::Gemini, Client::Claude]
        .into_iter()
        .map(|client| -> Box<dyn RealRun> { Box::new(client) })
        .collect()
}

impl RealRun for Client {
    fn name(&self) -> String {
        format!("worker-{}", self.word())
    }

    fn clients(&self) -> Vec<String> {
        vec![match self {
            Self::Claude => "claude-2.1.325".to_owned(),
            Self::Codex | Self::Gemini => self.word().to_owned(),
        }]
    }

    fn run(&self, lab: &Lab, product: &Product, out: &Path) -> Result<Report> {
        let programs = out.join("bin");
        std::fs::create_dir_all(&programs)?;
        std::fs::copy(&product.binary, programs.join("teamster"))?;
        let report = out.join("report.json");
        let me = std::env::current_exe()?.display().to_string();
        let ended = lab.run(
            "run-worker",
            &[
                self.word(),
                "--",
                &me,
                "worker-scenes",
                self.word(),
                "--report",
                &report.display().to_string(),
            ],
            &[
                ("OUT", out.join("lab").display().to_string()),
                ("XPATH", programs.display().to_string()),
                ("TMO", LONG.to_owned()),
            ],
        )?;
        let told = std::fs::read(&report)
            .with_context(|| format!("the scenes left no report: {}", ended.said()))?;
        let told: Told = serde_json::from_slice(&told)?;
        let mut report = Report::default();
        for (scene, seen) in told.seen {
            let known = SCENES.iter().find(|known| known.name == scene);
            report
                .seen
                .push((known.map_or("", |known| known.name), seen));
        }
        report.differences = told.differences;
        if !ended.status.success() {
            report
                .differences
                .push(format!("the scenes went wrong: {}", ended.said()));
        }
        Ok(report)
    }
}

/// What the scenes tell whoever started them.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Told {
    seen: Vec<(String, String)>,
    differences: Vec<String>,
}

/// `xtask worker-scenes CLIENT --report FILE`, inside the lab's surroundings.
#[derive(Args, Debug)]
pub(crate) struct WorkerScenes {
    client: Client,
    #[arg(long)]
    report: PathBuf,
}

impl WorkerScenes {
    /// Plays every scene; the report says what came of it, the exit code only whether there is one.
    pub(crate) fn run(&self) -> Result<()> {
        if std::env::var_os("LAB_URL").is_none() {
            bail!("the scenes are played by `cargo xtask real-clients`, in the lab");
        }
        let mut told = Told::default();
        for scene in &SCENES {
            match scene.play(self.client) {
                Ok(played) => {
                    let name = scene.name;
                    told.seen.push((name.to_owned(), played.seen.join("; ")));
                    let differences = played.differences.iter();
                    told.differences
                        .extend(differences.map(|difference| format!("{name}: {difference}")));
                }
                Err(error) => told.differences.push(format!("{}: {error:#}", scene.name)),
            }
        }
        std::fs::write(&self.report, serde_json::to_vec(&told)?)?;
        Ok(())
    }
}

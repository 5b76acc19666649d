//! The folder whose scripts install and start the real clients.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::product::{Answer, must, workspace};

/// Where it is looked for, from the project.
const BESIDE: [&str; 2] = ["../lab", "../shared/lab"];
const INSTALL: &str = "install-clients";

#[derive(Debug)]
pub(super) struct Lab {
    folder: PathBuf,
}

impl Lab {
    /// The folder that was named, or one beside the project.
    pub(super) fn find(named: Option<&Path>) -> Result<Self> {
        let places = match named {
            Some(folder) => vec![folder.to_owned()],
            None => BESIDE.map(|path| workspace().join(path)).to_vec(),
        };
        let found = places
            .iter()
            .find(|folder| folder.join(INSTALL).is_file())
            .and_then(|folder| folder.canonicalize().ok());
        if let Some(folder) = found {
            return Ok(Self { folder });
        }
        let places: Vec<String> = places
            .iter()
            .map(|place| place.display().to_string())
            .collect();
        bail!(
            "there is no lab with the script {INSTALL} in {}; --lab DIR says where it is",
            places.join(" or ")
        )
    }

    /// Fetches what is not there yet.
    pub(super) fn install(&self, clients: &[String]) -> Result<()> {
        must(self.script(INSTALL).args(clients)).context("the clients cannot be installed")
    }

    /// Runs a script with these words and variables to its end.
    pub(super) fn run(
        &self,
        script: &str,
        words: &[&str],
        variables: &[(&str, String)],
    ) -> Result<Answer> {
        let mut command = self.script(script);
        command.args(words).envs(variables.iter().cloned());
        Answer::of(&mut command)
    }

    /// Where a script lies.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Where the installer puts the clients.
    pub(super) fn clients_home() -> Result<PathBuf> {
        let var = |name: &str| std::env::var_os(name).map(PathBuf::from);
        if let Some(home) = var("LAB_HOME") {
            return Ok(home);
        }
        let cache = var("XDG_CACHE_HOME").or_else(|| Some(var("HOME")?.join(".cache")));
        Ok(cache.context("HOME is not set")?.join("teamster-lab"))
    }

    fn script(&self, name: &str) -> Command {
        Command::new(self.path(name))
    }
}

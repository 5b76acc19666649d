//! Trying the page in a browser: what that needs, and whether it can be had here.
//!
//! Without Node, or without the packages where they cannot be fetched, the page cannot be tried, and that is said. With
//! both, everything else that is missing is a mistake of the machine's, which must not pass for a success.

use std::fmt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{check_built_in, install, npm, web};
use crate::product::{cargo, must, target};

/// Under which of these names the browser is known.
const CHROMIUM: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// What is missing.
#[derive(Debug)]
pub(crate) enum Lack {
    /// Node of this version or newer; what is here instead.
    Node(String, Option<String>),
    /// The packages of `web/package-lock.json`, and why.
    Packages(String),
    /// The browser alone.
    Chromium,
}

impl Lack {
    /// Whether a machine may lack this.
    pub(crate) fn is_excuse(&self) -> bool {
        !matches!(self, Self::Chromium)
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(wanted, None) => write!(f, "there is no Node; {wanted} or newer is needed"),
            Self::Node(wanted, Some(found)) => {
                write!(f, "Node {found} is here; {wanted} or newer is needed")
            }
            Self::Packages(why) => write!(f, "the page's packages cannot be fetched: {why}"),
            Self::Chromium => f.write_str("there is no Chromium; install the package chromium"),
        }
    }
}

/// The browser, with all that is needed to drive it.
pub(crate) fn chromium() -> Result<PathBuf, Lack> {
    has_node()?;
    install().map_err(|error| Lack::Packages(format!("{error:#}")))?;
    installed().ok_or(Lack::Chromium)
}

/// The browser of this machine.
pub(crate) fn installed() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    CHROMIUM.iter().find_map(|name| {
        let mut files = folders.iter().map(|folder| folder.join(name));
        files.find(|file| file.is_file())
    })
}

/// Whether Node is as new as the page's own tools need it.
pub(crate) fn has_node() -> Result<(), Lack> {
    let text = std::fs::read_to_string(web().join("package.json")).unwrap_or_default();
    let package: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    let wanted = package["engines"]["node"].as_str().unwrap_or_default();
    let wanted = wanted.trim_start_matches(">=").to_owned();
    let found = super::node_version();
    match &found {
        Some(found) if numbers(found) >= numbers(&wanted) => Ok(()),
        _ => Err(Lack::Node(wanted, found)),
    }
}

fn numbers(version: &str) -> Vec<u32> {
    let parts = version.split('.');
    parts.map(|part| part.parse().unwrap_or(0)).collect()
}

/// Runs a script of the page's that needs a browser and the product.
pub(super) fn run(script: &str, what: &str) -> Result<()> {
    check_built_in()?;
    let chromium = chromium().map_err(|lack| anyhow::anyhow!("{what}: {lack}"))?;
    must(&mut cargo(["build", "--quiet", "--package", "teamster"]))?;
    // Logs show where the program is, so a picture of one is made with a copy that lies where anybody's could.
    let folder = std::env::temp_dir().join("teamster-pictures");
    std::fs::create_dir_all(&folder)?;
    let copy = folder.join("teamster");
    std::fs::copy(built(), &copy)?;
    let played = play(script, &chromium, &copy);
    std::fs::remove_dir_all(&folder)?;
    played
}

/// The binary that tests have built.
fn built() -> PathBuf {
    target().join("debug").join("teamster")
}

fn play(script: &str, chromium: &PathBuf, binary: &PathBuf) -> Result<()> {
    must(
        npm()
            .args(["run", "--silent", script])
            .env("CHROMIUM", chromium)
            .env("TEAMSTER_BIN", binary),
    )
}

/// The step of `ci`: the page in a browser, with the binary that the tests have built; why not, where it cannot be tried.
pub(crate) fn step() -> Result<Option<Lack>> {
    check_built_in()?;
    let chromium = match chromium() {
        Ok(chromium) => chromium,
        Err(lack) if lack.is_excuse() => return Ok(Some(lack)),
        Err(lack) => bail!("{lack}"),
    };
    // What the tests have built already is not built again; alone, this step builds it the same way.
    let tests = ["test", "--quiet", "--workspace", "--locked", "--no-run"];
    must(&mut cargo(tests))?;
    play("e2e", &chromium, &built())?;
    Ok(None)
}

/// A script of the page's that is no test, for a benchmark.
pub(crate) fn script(name: &str) -> Result<Command> {
    let file = web().join("e2e").join(name);
    let file = file
        .canonicalize()
        .with_context(|| format!("there is no {}", file.display()))?;
    let mut command = Command::new("node");
    command.arg(file).current_dir(web());
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert!(numbers("20.19.0") >= numbers("20.19"));
        assert!(numbers("22.1.0") >= numbers("20.19"));
        assert!(numbers("20.9.1") < numbers("20.19"));
    }

    #[test]
    fn only_a_machine_without_node_or_network_is_excused() {
        assert!(Lack::Node("20.19".to_owned(), None).is_excuse());
        assert!(Lack::Packages("no network".to_owned()).is_excuse());
        assert!(!Lack::Chromium.is_excuse());
    }
}

//! The commands of the README, run as they stand there.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::product::{Place, must, target, workspace};

/// The line above a block that is run.
const MARK: &str = "<!-- run by `cargo xtask ci` -->";

/// Runs every marked block of the README with a home of its own.
pub(super) fn run_as_written() -> Result<()> {
    let text = std::fs::read_to_string(workspace().join("README.md"))?;
    let blocks = blocks(&text)?;
    if blocks.is_empty() {
        bail!("README.md has no block below `{MARK}`");
    }
    for block in blocks {
        let place = Place::temporary()?;
        let mut shell = Command::new("bash");
        shell
            .args(["-euo", "pipefail", "-c", &block])
            .current_dir(workspace());
        // The toolchain stays where it is although HOME does not.
        let home = std::env::var_os("HOME").unwrap_or_default();
        for (name, folder) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
            if std::env::var_os(name).is_none() {
                shell.env(name, Path::new(&home).join(folder));
            }
        }
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            if name.starts_with("TEAMSTER_") || name.starts_with("CLAUDE_") {
                shell.env_remove(name);
            }
        }
        shell
            .env("HOME", place.home())
            .env("TEAMSTER_PROJECT", place.project())
            .env_remove("XDG_CONFIG_HOME")
            .env("CARGO_TARGET_DIR", target());
        must(&mut shell).context("the commands of the README do not work as written")?;
    }
    Ok(())
}

fn blocks(text: &str) -> Result<Vec<String>> {
    let mut blocks = Vec::new();
    for rest in text.split(MARK).skip(1) {
        let block = rest
            .trim_start()
            .strip_prefix("```sh\n")
            .and_then(|rest| rest.split_once("\n```"))
            .context("below the mark there is no block of sh")?;
        blocks.push(block.0.to_owned());
    }
    Ok(blocks)
}

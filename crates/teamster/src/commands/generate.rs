//! Implements `teamster completions` and `teamster man`, which are generated from the definition of the command line.

use std::path::PathBuf;

use clap::{Args, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man as ManPage;
use serde_json::json;
use teamster_fs::{Dir, Durability};

use crate::cli::Cli;
use crate::error::{AppError, ErrorKind, Result};
use crate::output::Output;

/// Print a shell completion script
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster completions bash > teamster.bash
  teamster completions fish")]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

impl CompletionsArgs {
    pub fn run(self, out: Output) -> Result {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "teamster", &mut script);
        let script = String::from_utf8_lossy(&script).into_owned();
        out.answer(|| json!({ "script": script }), || script.clone())
    }
}

/// Print the manual page, or write a page for each command
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster man > teamster.1
  teamster man --dir man1")]
pub struct ManArgs {
    /// Write a page for every command into this folder instead
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl ManArgs {
    pub fn run(self, out: Output) -> Result {
        let Some(folder) = &self.dir else {
            let page = rendered(Cli::command())?;
            return out.answer(|| json!({ "page": page }), || page.clone());
        };
        let mut root = Cli::command();
        // Only a built command knows its full name, such as `teamster-task-create`.
        root.build();
        let mut pages = Vec::new();
        collect(&root, &mut pages)?;
        let dir = Dir::open_or_create_root(folder)?;
        for (name, page) in &pages {
            dir.replace(name, page.as_bytes(), Durability::Fast)?;
        }
        let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        out.answer(
            || json!({ "files": names }),
            || format!("wrote {} pages to {}", names.len(), folder.display()),
        )
    }
}

/// Collects the pages of a command and of all its subcommands.
fn collect(command: &clap::Command, pages: &mut Vec<(String, String)>) -> Result {
    for inner in command
        .get_subcommands()
        .filter(|inner| inner.get_name() != "help")
    {
        collect(inner, pages)?;
    }
    let name = ManPage::new(command.clone()).get_filename();
    pages.push((name, rendered(command.clone())?));
    Ok(())
}

fn rendered(command: clap::Command) -> Result<String> {
    let mut page = Vec::new();
    ManPage::new(command).render(&mut page).map_err(|error| {
        AppError::new(
            ErrorKind::Failed,
            format!("cannot generate the manual page: {error}"),
        )
    })?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}

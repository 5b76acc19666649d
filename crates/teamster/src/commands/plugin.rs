//! Implements `teamster plugin export`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;
use teamster_claude::install::{Scope, is_installed};
use teamster_claude::plugin::{ExportRequest, export};
use teamster_types::shell;

use crate::commands::install::this_program;
use crate::context::Context;
use crate::error::Result;
use crate::shown::plain;

/// Export a plugin for Claude Code
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster plugin export teamster-plugin")]
pub struct PluginArgs {
    #[command(subcommand)]
    command: PluginCommand,
}

#[derive(Debug, Subcommand)]
enum PluginCommand {
    Export(PluginExportArgs),
}

impl PluginArgs {
    pub fn run(self, context: &Context) -> Result {
        match self.command {
            PluginCommand::Export(command) => command.run(context),
        }
    }
}

/// Write a plugin with teamster's hooks, tools, commands and skill
#[derive(Args, Debug)]
#[command(after_help = "\
The plugin has the hooks of `teamster install claude`, the tools of `teamster mcp`, the commands
/team, /team-status and /team-approve, and a skill that teaches the lead to use teamster. It calls
the teamster on PATH, else this one, so it can be copied to another machine. Try it with

  claude --plugin-dir teamster-plugin

Use either the plugin or `teamster install claude`: with both, every event is recorded twice.

Examples:
  teamster plugin export teamster-plugin
  teamster plugin export . --force")]
pub struct PluginExportArgs {
    /// The plugin's folder: new, empty, or an earlier export
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Write into a non-empty folder and replace files of the same name
    #[arg(long)]
    force: bool,
}

impl PluginExportArgs {
    pub fn run(self, context: &Context) -> Result {
        context.actor.must_be_person("exporting a plugin")?;
        let folder = context.absolute(&self.folder);
        let program = this_program()?;
        let exported = export(&ExportRequest {
            folder: &folder,
            program: &program,
            version: env!("CARGO_PKG_VERSION"),
            force: self.force,
        })?;
        let twice: Vec<&str> = [Scope::User, Scope::Project, Scope::Local]
            .into_iter()
            .filter(|scope| is_installed(&context.layout, *scope))
            .map(Scope::word)
            .collect();
        for scope in &twice {
            context.out.remark(&format!(
                "warning: teamster's hooks are also in the {scope} settings, so every event would be recorded twice; \
                 `teamster uninstall claude --scope {scope}` takes them out there"
            ));
        }
        context.out.answer(
            || json!({ "plugin": exported.folder, "files": exported.files, "alsoInstalled": twice }),
            || {
                let folder = exported.folder.display();
                plain(&format!(
                    "wrote {} files to {folder}\ntry it: claude --plugin-dir {}",
                    exported.files.len(),
                    shell::word(&folder.to_string())
                ))
            },
        )
    }
}

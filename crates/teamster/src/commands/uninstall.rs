//! `teamster uninstall …`

use clap::{Args, Subcommand};
use teamster_app::tool_server::{self, ToolClient};
use teamster_claude::install;

use super::install::{Place, Tools, answer, answer_tools};
use crate::context::Context;
use crate::error::Result;

/// Undo what `install` did
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster uninstall claude")]
pub struct Uninstall {
    #[command(subcommand)]
    client: Client,
}

#[derive(Debug, Subcommand)]
enum Client {
    Claude(Claude),
    /// Take our tools out of the settings of Codex
    #[command(after_help = "\
Examples:
  teamster uninstall codex --mcp --dry-run")]
    Codex(Tools),
    /// Take our tools out of the settings of Gemini CLI
    #[command(after_help = "\
Examples:
  teamster uninstall gemini --mcp --dry-run")]
    Gemini(Tools),
}

/// Take our hooks out of the settings of Claude Code
#[derive(Args, Debug)]
#[command(after_help = "\
Every hook whose command is `teamster hook EVENT` is taken out, and nothing else: settings that
were not edited since are what they were, to the byte. A backup is removed when it holds nothing
that the settings do not have.

Examples:
  teamster uninstall claude --dry-run
  teamster uninstall claude
  teamster uninstall claude --scope local")]
struct Claude {
    #[command(flatten)]
    place: Place,
    /// Take our tools out instead of our hooks
    #[arg(long)]
    mcp: bool,
}

impl Uninstall {
    pub fn run(self, context: &Context) -> Result {
        let command = match self.client {
            Client::Claude(command) if command.mcp => {
                let client = command.place.tool_client()?;
                return remove_tools(context, client, command.place.is_dry_run());
            }
            Client::Claude(command) => command,
            Client::Codex(tools) => {
                return remove_tools(context, ToolClient::Codex, tools.is_dry_run());
            }
            Client::Gemini(tools) => {
                return remove_tools(context, ToolClient::Gemini, tools.is_dry_run());
            }
        };
        context.actor.must_be_person("removing hooks")?;
        // What is taken out is known by its shape, wherever the binary was.
        let request = command.place.request(context, "teamster", false);
        let outcome = install::uninstall(&request)?;
        let place = outcome.settings.display();
        let said = if outcome.diff.is_empty() {
            format!("nothing to do: no hook of ours is in {place}")
        } else if request.dry_run {
            "nothing was written: this is a dry run".to_owned()
        } else {
            format!("our hooks are no longer in {place}")
        };
        answer(context, &request, &outcome, &said)
    }
}

/// Takes our tools out of the settings of a client.
fn remove_tools(context: &Context, client: ToolClient, dry_run: bool) -> Result {
    let done = tool_server::uninstall(context, client, dry_run)?;
    let said = if done.diff.is_empty() {
        "nothing to do: no tools of ours are in "
    } else if dry_run {
        "nothing was written, this is a dry run: "
    } else {
        "our tools are no longer in "
    };
    answer_tools(context, &done, said)
}

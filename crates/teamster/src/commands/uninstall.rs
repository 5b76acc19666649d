//! `teamster uninstall …`

use clap::{Args, Subcommand};
use teamster_claude::install;

use super::install::{Place, answer};
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
}

impl Uninstall {
    pub fn run(self, context: &Context) -> Result {
        let Client::Claude(command) = self.client;
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

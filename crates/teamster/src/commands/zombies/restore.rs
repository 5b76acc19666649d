//! `teamster zombies restore`

use clap::Args;
use serde_json::json;
use teamster_fs::proc::Machine;
use teamster_gc::zombies;

use super::{render, scan_options};
use crate::context::Context;
use crate::error::Result;

/// Bring a removed team back from the trash
#[derive(Args, Debug)]
#[command(after_help = "\
The newest team of that name in the trash comes back as it was, whether `zombies reap`, a hook or
`team delete` removed it. If there is a team of that name now, nothing is changed (exit 4).

Examples:
  teamster team create a && teamster team delete a && teamster zombies restore a
  teamster zombies restore fix-auth   # exits 3")]
pub struct Restore {
    /// The team
    #[arg(value_name = "TEAM")]
    team: String,
}

impl Restore {
    pub fn run(self, context: &Context) -> Result {
        context.identity.must_be_person("restoring a team")?;
        let machine = Machine::read();
        let options = scan_options(context, &machine, zombies::TTL)?;
        let restored = zombies::restore(&options, &self.team)?;
        context.out.answer(
            || json!({ "restored": restored }),
            || {
                let tasks = if restored.tasks { " and its tasks" } else { "" };
                format!("restored team {}{tasks}", render::name(&restored.team))
            },
        )
    }
}

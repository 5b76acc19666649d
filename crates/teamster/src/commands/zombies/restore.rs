//! `teamster zombies restore`

use clap::Args;
use serde_json::json;
use teamster_app::gc;

use super::render;
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
        context.actor.must_be_person("restoring a team")?;
        let restored = gc::restore(context, &self.team)?;
        context.out.answer(
            || json!({ "restored": restored }),
            || {
                let tasks = if restored.tasks { " and its tasks" } else { "" };
                format!("restored team {}{tasks}", render::name(&restored.team))
            },
        )
    }
}

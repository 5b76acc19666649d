//! `teamster zombies scan`

use std::time::Duration;

use clap::Args;
use serde_json::json;
use teamster_app::gc;

use super::render;
use crate::commands::span;
use crate::context::Context;
use crate::error::Result;
use crate::shown::redacted;

/// Show what is over but still there, and why that is said
#[derive(Args, Debug)]
#[command(after_help = "\
Nothing is changed. A team is old when it was made longer ago than --ttl and nothing in its
folders was changed since. `reap` marks what `teamster zombies reap` removes; `keep` marks what
shows a sign of life, cannot be judged from here, or is for a person to decide. In --json `age`
is in seconds.

Examples:
  teamster zombies scan
  teamster zombies scan --ttl 1h --json")]
pub struct Scan {
    /// From which age on a team without a sign of life is over
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "24h")]
    ttl: Duration,
}

impl Scan {
    pub fn run(self, context: &Context) -> Result {
        let found = gc::scan(context, self.ttl)?;
        context.out.answer(
            || redacted(json!({ "zombies": found })),
            || render::list(&found, context.out.has_colour()),
        )
    }
}

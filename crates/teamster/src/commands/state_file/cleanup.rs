//! `teamster state-file cleanup`

use clap::Args;
use teamster_claude::state::Op;

use super::apply;
use crate::context::Context;
use crate::error::Result;

/// Show the session as ended; its progress and messages stay
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster state-file cleanup
  teamster state-file cleanup --json")]
pub struct Cleanup {}

impl Cleanup {
    pub fn run(self, context: &Context) -> Result {
        apply(context, "", Op::CleanUp, |_| {
            "the session is shown as ended".to_owned()
        })
    }
}

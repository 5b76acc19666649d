//! `teamster state-file path`

use clap::Args;
use serde_json::json;
use teamster_claude::state::States;

use crate::context::Context;
use crate::error::Result;

/// Print where the state of this project is, whether it exists or not
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster state-file path
  cat \"$(teamster state-file path)\" || true")]
pub struct Path {}

impl Path {
    pub fn run(self, context: &Context) -> Result {
        let path = States::of(&context.layout).path();
        context
            .out
            .answer(|| json!({ "path": path }), || path.display().to_string())
    }
}

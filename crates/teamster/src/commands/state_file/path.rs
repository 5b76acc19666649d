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
        let states = States::of(&context.layout);
        let path = states.path();
        context.out.answer(
            || {
                // Like every other operation this one shows the state, too, if there is one to show.
                let state = states.read().ok().flatten();
                let mut answer = state.map_or_else(|| json!({}), |state| json!(state));
                answer["path"] = json!(path);
                answer
            },
            || path.display().to_string(),
        )
    }
}

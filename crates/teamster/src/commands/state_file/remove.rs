//! `teamster state-file remove`

use clap::Args;
use teamster_claude::state::Op;

use super::apply;
use crate::context::Context;
use crate::error::Result;
use crate::shown::viewed_line;

/// Take a teammate out
#[derive(Args, Debug)]
#[command(after_help = "\
Exit code 3: nobody has that name; nothing is written.

Examples:
  teamster state-file remove worker-1
  teamster state-file remove nobody   # exits 3")]
pub struct Remove {
    /// Its name
    name: String,
}

impl Remove {
    pub fn run(self, context: &Context) -> Result {
        let said = format!("{} is gone", viewed_line(&self.name));
        apply(context, "", Op::Remove { name: self.name }, |_| said)
    }
}

//! `teamster state-file message`

use clap::Args;
use teamster_claude::state::Op;

use super::apply;
use crate::context::Context;
use crate::error::Result;

/// Show a message; the last fifty are kept
#[derive(Args, Debug)]
#[command(after_help = "\
This shows a message and delivers none: `teamster message send` does.

Examples:
  teamster state-file message --from worker-1 --to lead \"The form is fixed\"
  teamster state-file message \"Tests are green\"")]
pub struct Message {
    /// Who says it
    #[arg(long, value_name = "NAME", default_value = "unknown")]
    from: String,
    /// To whom
    #[arg(long, value_name = "NAME", default_value = "all")]
    to: String,
    /// What it says
    text: String,
}

impl Message {
    pub fn run(self, context: &Context) -> Result {
        let op = Op::Message {
            from: self.from,
            to: self.to,
            content: self.text,
            timestamp: None,
        };
        apply(context, "", op, |_| "the message is shown".to_owned())
    }
}

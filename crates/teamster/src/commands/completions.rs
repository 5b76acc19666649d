//! `teamster completions`

use clap::{Args, CommandFactory};
use clap_complete::Shell;
use serde_json::json;

use crate::cli::Cli;
use crate::error::Result;
use crate::output::Output;

/// Print a script that lets a shell complete commands
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster completions bash > teamster.bash
  teamster completions fish")]
pub struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub fn run(self, out: Output) -> Result {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "teamster", &mut script);
        let script = String::from_utf8_lossy(&script).into_owned();
        out.answer(|| json!({ "script": script }), || script.clone())
    }
}

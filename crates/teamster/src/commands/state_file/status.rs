//! `teamster state-file status`

use clap::Args;
use teamster_claude::state::{Op, Status as Word};

use super::apply;
use crate::context::Context;
use crate::error::Result;
use crate::shown::viewed_line;

/// Show a teammate with another status
#[derive(Args, Debug)]
#[command(after_help = "\
Without a task, `idle` and `completed` clear the one that is shown.
Exit code 3: nobody has that name. Exit code 4: the teammate cannot take that step.

Examples:
  teamster state-file status worker-1 working --task \"Fix the login form\"
  teamster state-file status worker-1 idle --json")]
pub struct Status {
    /// Its name
    name: String,
    /// spawning, working, idle, completed or failed
    #[arg(value_name = "STATUS", value_parser = word)]
    word: Word,
    /// What it works on
    #[arg(long, value_name = "TEXT")]
    task: Option<String>,
    /// The task's id
    #[arg(long, value_name = "ID")]
    task_id: Option<String>,
}

impl Status {
    pub fn run(self, context: &Context) -> Result {
        let said = format!("{} is {}", viewed_line(&self.name), self.word.as_str());
        let op = Op::Status {
            name: self.name,
            status: self.word,
            task: self.task,
            task_id: self.task_id,
        };
        apply(context, "", op, |_| said)
    }
}

fn word(word: &str) -> std::result::Result<Word, String> {
    Word::parse(word)
        .ok_or_else(|| "expected spawning, working, idle, completed or failed".to_owned())
}

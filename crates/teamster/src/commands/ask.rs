//! Implements `teamster ask` and `teamster answer`: an agent's question, and a person's answer to it.

use clap::Args;
use serde_json::json;
use teamster_app::questions::{self, Reply};

use super::agent::BridgeClient;
use crate::cli::TeamSelector;
use crate::context::Context;
use crate::error::{AppError, Result};
use crate::shown::display_line;

/// Ask the team's leader, or a person, and wait for the answer
///
/// For agents of workers. The question goes to the agent that leads the run, else to a person, and the answer is printed.
/// If there is none in time (setting `worker.idle_limit`), it exits with 5 and the agent decides on its own.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster ask \"Which of the two date formats should the export use?\"   # exits 6")]
pub struct AskArgs {
    /// The question, with the context needed to answer it
    question: String,
}

/// Answer an agent's question
///
/// `teamster status` lists open questions. Only the first answer to a question counts. A task whose worker cannot continue
/// is a question, too: answer it by its question id or by the number of the task.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster answer q17 \"ISO 8601\"   # exits 3
  teamster answer 2 \"Use port 8080\"   # exits 3
  teamster answer q21 --accept   # exits 3")]
pub struct AnswerArgs {
    /// The question's id, such as q17, or the number of a task that waits for an answer
    question: String,
    /// What the agent is told
    #[arg(
        default_value = "",
        hide_default_value = true,
        required_unless_present = "accept"
    )]
    answer: String,
    /// Create the task that the agent proposes
    #[arg(long)]
    accept: bool,
    #[command(flatten)]
    team: TeamSelector,
}

impl AskArgs {
    pub fn run(self, context: &Context) -> Result {
        match BridgeClient::find(context, None)? {
            Some(bridge) => bridge.ask(context, &self.question),
            None => Err(AppError::refused(
                "only a worker's agent can ask, and this was not started by a worker's bridge",
            )
            .hint("`teamster message send` reaches the workers of a team")),
        }
    }
}

impl AnswerArgs {
    pub fn run(self, context: &Context) -> Result {
        context.must_be_a_person("answering a question")?;
        let team = self.team.find(context)?;
        let id = questions::named(context, &team, &self.question)?;
        let reply = if self.accept {
            Reply::Accept(self.answer)
        } else {
            Reply::Words(self.answer)
        };
        let answered = questions::answer(context, &team, id, reply)?;
        let asker = &answered.question.asked_by;
        context.out.answer(
            || {
                json!({
                    "team": team, "question": id, "from": asker, "answer": answered.answer, "task": answered.task,
                })
            },
            || match &answered.task {
                Some(task) => format!("created task {task}, as {} proposed", display_line(asker.as_str())),
                None => format!("{} has the answer", display_line(asker.as_str())),
            },
        )
    }
}

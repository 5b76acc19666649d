//! Implements `teamster ask` and `teamster answer`: a question of an agent, and what a person says to it.

use clap::Args;
use serde_json::json;
use teamster_app::questions::{self, Reply};

use super::agent::BridgeClient;
use crate::cli::TeamSelector;
use crate::context::Context;
use crate::error::{AppError, Result};
use crate::shown::viewed_line;

/// Ask whoever leads the team, or a person, and wait for the answer
///
/// It is for the agent of a worker. The question goes to the agent that leads the run, else to a person; the answer is
/// printed. Without one in time (setting `worker.idle_limit`) it exits with 5: then the agent decides by itself.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster ask \"Which of the two date formats should the export use?\"   # exits 6")]
pub struct AskArgs {
    /// The question, with what one needs to know to answer it
    question: String,
}

/// Answer a question of an agent
///
/// `teamster status` lists the questions that wait. Only the first answer to a question counts. A task whose worker cannot
/// go on is a question, too: it is answered by its own id or by the number of the task.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster answer q17 \"ISO 8601\"   # exits 3
  teamster answer 2 \"Use port 8080\"   # exits 3
  teamster answer q21 --accept   # exits 3")]
pub struct AnswerArgs {
    /// The question, such as q17, or the number of a task that waits for an answer
    question: String,
    /// What the agent is told
    #[arg(
        default_value = "",
        hide_default_value = true,
        required_unless_present = "accept"
    )]
    answer: String,
    /// Make the task that the agent proposes
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
                "asking is for the agent of a worker, and no worker's bridge started this",
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
                Some(task) => format!("made task {task}, as {} proposed", viewed_line(asker.as_str())),
                None => format!("{} has the answer", viewed_line(asker.as_str())),
            },
        )
    }
}

//! What a person, or a program, sees of a run while it goes on, and how they say what they want.

mod json;
mod live;
mod signals;
mod text;

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::time::Duration;

use teamster_journal::payload::GateAnswer;
use teamster_journal::{Event, EventKind};
use teamster_run::observer::{GateReply, RunObserver};
use teamster_store::PlannedTask;

use crate::context::Context;
use crate::input::{Prompt, PromptInput};
use crate::notify::{Notification, notify};
use crate::shown::viewed_line;
use json::JsonObserver;
use live::LiveBars;
pub use signals::Signals;
use text::{PlainLines, TextObserver};

/// What can be typed at the gate.
const GATE_HELP: &str = "Type: approve · reject · reject rollback · revise WHAT TO CHANGE";
const GATE: &str = "decision> ";
const PLAN: &str = "Carry out this plan? [yes/no] ";

/// What every observer at this terminal has.
pub struct RunTerminal<'a> {
    context: &'a Context,
    signals: Signals,
    has_terminal: bool,
    /// What is asked now.
    prompt: Option<Prompt>,
    answer: Option<GateReply>,
    stays: bool,
}

impl<'a> RunTerminal<'a> {
    /// A screen for this call, with an answer for the gate if the call brings one.
    pub fn of(context: &'a Context, answer: Option<GateReply>) -> Self {
        let has_terminal = context.can_ask();
        Self {
            context,
            signals: Signals::listen(),
            has_terminal,
            prompt: None,
            stays: answer.is_none() || has_terminal,
            answer,
        }
    }

    /// Whether somebody types an answer now, so that nothing else may be drawn.
    fn is_asking(&self) -> bool {
        self.prompt.is_some()
    }

    /// Asks about the plan that has been shown.
    fn ask_about_plan(&mut self) {
        self.prompt = self.has_terminal.then(|| Prompt::new("", PLAN));
    }

    /// Asks about the gate that has been shown, unless the call brought an answer along.
    fn ask_about_gate(&mut self) {
        let is_asked = self.has_terminal && self.answer.is_none();
        self.prompt = is_asked.then(|| Prompt::new(GATE_HELP, GATE));
    }

    /// Ends the question without an answer, and says why on a line of its own.
    fn close(&mut self, why: &str) {
        if let Some(prompt) = self.prompt.take() {
            prompt.close(why);
        }
    }

    /// Closes the question at the gate when it is answered in another place.
    fn follow(&mut self, event: &Event) {
        match event.payload() {
            EventKind::ApprovalGiven(_)
            | EventKind::ApprovalRefused(_)
            | EventKind::ApprovalRevised(_) => self.close("This was decided elsewhere."),
            EventKind::ApprovalRequested(_)
            | EventKind::RunStage(_)
            | EventKind::RunFinished(_) => self.close("This is asked no more."),
            _ => {}
        }
    }

    /// Tells a person who looks elsewhere that they are asked; whoever brought an answer along is not.
    fn gate_is_open(&self) {
        if self.answer.is_none() {
            notify(
                self.context,
                Notification::ApprovalNeeded,
                "a run waits for your decision",
            );
        }
    }

    /// Whether the plan on the screen may be carried out; `None` while nobody has said.
    fn accepts_plan(&mut self) -> Option<bool> {
        let Some(prompt) = &mut self.prompt else {
            return Some(false);
        };
        let accepted = match prompt.heard(Duration::ZERO)? {
            PromptInput::Ended => false,
            PromptInput::Line(line) => match line.trim().to_lowercase().as_str() {
                "y" | "yes" => true,
                "n" | "no" => false,
                _ => {
                    prompt.again(&not_understood(&line, "Type yes or no."));
                    return None;
                }
            },
        };
        self.prompt = None;
        Some(accepted)
    }

    /// What the person wants at the gate.
    fn answer(&mut self) -> Option<GateReply> {
        self.answer.take().or_else(|| self.typed())
    }

    fn typed(&mut self) -> Option<GateReply> {
        let prompt = self.prompt.as_mut()?;
        let line = match prompt.heard(Duration::ZERO)? {
            PromptInput::Line(line) => line,
            PromptInput::Ended => {
                self.close(
                    "Nothing more can be typed here. The gate stays open: `teamster approve`, `teamster reject` and \
                     `teamster revise` answer it from another terminal, and so does Studio.",
                );
                return None;
            }
        };
        let Some(answer) = understand(&line) else {
            prompt.again(&not_understood(&line, GATE_HELP));
            return None;
        };
        self.prompt = None;
        Some(GateReply {
            answer,
            via: "terminal",
            gate: None,
        })
    }
}

/// Returns the answer that a line is, if it is a clear one.
fn understand(line: &str) -> Option<GateAnswer> {
    let line = line.trim();
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    match word.to_lowercase().as_str() {
        "approve" | "yes" if rest.is_empty() => Some(GateAnswer::Approve),
        "reject" => {
            let (rollback, text) = match rest.strip_prefix("rollback") {
                Some(text) => (true, text.trim()),
                None => (false, rest),
            };
            Some(GateAnswer::Reject {
                rollback,
                text: text.to_owned(),
            })
        }
        "revise" if !rest.is_empty() => Some(GateAnswer::Revise {
            text: rest.to_owned(),
        }),
        _ => None,
    }
}

fn not_understood(line: &str, help: &str) -> String {
    match line.trim() {
        "" => String::new(),
        line => format!("Not understood: {}\n{help}", viewed_line(line)),
    }
}

/// A plan that is to be accepted, as a person reads it.
fn plan_text(tasks: &[PlannedTask]) -> String {
    let mut text = String::from("The plan:");
    for (place, planned) in tasks.iter().enumerate() {
        let subject = viewed_line(&planned.task.subject);
        let _ = write!(text, "\n  {:>3}  {subject}", place + 1);
    }
    text
}

/// Returns the observer that suits this call.
pub fn make<'a>(context: &Context, terminal: RunTerminal<'a>) -> Box<dyn RunObserver + 'a> {
    let out = context.out;
    if out.is_json() {
        Box::new(JsonObserver::new(out, terminal))
    } else if out.is_screen() && std::io::stderr().is_terminal() {
        Box::new(TextObserver::new(terminal, LiveBars::new(out)))
    } else {
        Box::new(TextObserver::new(terminal, PlainLines { out }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_clear_is_an_answer() {
        assert_eq!(understand(" approve "), Some(GateAnswer::Approve));
        assert_eq!(understand("approve it all"), None);
        assert_eq!(understand("a"), None);
        assert_eq!(understand("y"), None);
        assert_eq!(understand("revise"), None);
        let revise = GateAnswer::Revise {
            text: "use one word".to_owned(),
        };
        assert_eq!(understand("Revise  use one word"), Some(revise));
        let reject = |rollback, text: &str| {
            Some(GateAnswer::Reject {
                rollback,
                text: text.to_owned(),
            })
        };
        assert_eq!(understand("reject"), reject(false, ""));
        assert_eq!(
            understand("reject rollback too slow"),
            reject(true, "too slow")
        );
        assert_eq!(understand("reject too slow"), reject(false, "too slow"));
    }
}

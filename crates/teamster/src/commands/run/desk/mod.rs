//! What a person, or a program, sees of a run while it goes on, and how they say what they want.

mod json;
mod lines;
mod live;
mod prompt;
mod signals;

use teamster_run::desk::{Desk, Said};

use crate::context::Context;
use crate::notify::{Kind, notify};
use crate::trust;
use prompt::Prompt;
pub use signals::Signals;

/// What every desk has.
pub struct Screen<'a> {
    context: &'a Context,
    signals: Signals,
    prompt: Option<Prompt>,
    answer: Option<Said>,
    stays: bool,
}

impl<'a> Screen<'a> {
    /// A screen for this call, with an answer for the gate if the call brings one.
    pub fn of(context: &'a Context, answer: Option<Said>) -> Self {
        let prompt = trust::is_terminal(context).then(Prompt::default);
        Self {
            context,
            signals: Signals::listen(),
            stays: answer.is_none() || prompt.is_some(),
            prompt,
            answer,
        }
    }

    /// Tells a person who looks elsewhere that they are asked; whoever brought an answer along is not.
    fn gate_is_open(&self) {
        if self.answer.is_none() {
            notify(
                self.context,
                Kind::ApprovalNeeded,
                "a run waits for your decision",
            );
        }
    }

    /// What the person wants at the gate.
    fn answer(&mut self) -> Option<Said> {
        let typed = |prompt: &mut Prompt| {
            prompt.answer().map(|answer| Said {
                answer,
                via: "terminal",
                gate: None,
            })
        };
        self.answer
            .take()
            .or_else(|| self.prompt.as_mut().and_then(typed))
    }
}

/// The desk that suits this call.
pub fn make<'a>(context: &Context, screen: Screen<'a>) -> Box<dyn Desk + 'a> {
    if context.out.is_json() {
        Box::new(json::Json::new(context.out, screen))
    } else if context.out.is_screen() {
        Box::new(live::Live::new(context.out, screen))
    } else {
        Box::new(lines::Lines::new(context.out, screen))
    }
}

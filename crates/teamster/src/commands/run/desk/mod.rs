//! What a person, or a program, sees of a run while it goes on, and how they say what they want.

mod json;
mod lines;
mod live;
mod prompt;
mod signals;

use teamster_run::desk::{Desk, Said};

use crate::context::Context;
use crate::trust;
use prompt::Prompt;
use signals::Signals;

/// What every desk has.
pub struct Screen {
    signals: Signals,
    prompt: Option<Prompt>,
    answer: Option<Said>,
    stays: bool,
}

impl Screen {
    /// A screen for this call, with an answer for the gate if the call brings one.
    pub fn of(context: &Context, answer: Option<Said>) -> Self {
        let prompt = trust::is_terminal(context).then(Prompt::default);
        Self {
            signals: Signals::listen(),
            stays: answer.is_none() || prompt.is_some(),
            prompt,
            answer,
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
pub fn make(context: &Context, screen: Screen) -> Box<dyn Desk> {
    if context.out.is_json() {
        Box::new(json::Json::new(context.out, screen))
    } else if context.out.is_screen() {
        Box::new(live::Live::new(context.out, screen))
    } else {
        Box::new(lines::Lines::new(context.out, screen))
    }
}

//! What a person, or a program, sees of a run while it goes on, and how they say what they want.

mod json;
mod lines;
mod live;
mod prompt;
mod signals;

use teamster_run::desk::Desk;
use teamster_run::story::Answer;

use crate::context::Context;
use crate::trust;
use prompt::Prompt;
use signals::Signals;

/// What every desk has.
pub struct Screen {
    signals: Signals,
    prompt: Option<Prompt>,
    answer: Option<Answer>,
}

impl Screen {
    /// A screen for this call, with an answer for the gate if the call brings one.
    pub fn of(context: &Context, answer: Option<Answer>) -> Self {
        Self {
            signals: Signals::listen(),
            prompt: trust::is_terminal(context).then(Prompt::default),
            answer,
        }
    }

    /// What the person wants at the gate, and how they said so.
    fn answer(&mut self) -> Option<(Answer, &'static str)> {
        let said = match self.answer.take() {
            Some(answer) => Some(answer),
            None => self.prompt.as_mut().and_then(Prompt::answer),
        };
        said.map(|answer| (answer, "terminal"))
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

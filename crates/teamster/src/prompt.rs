//! Questions to whoever sits at the terminal.

use std::io::Write as _;
use std::time::Duration;

use teamster_fs::terminal::{TerminalQuestion, Typed};

use crate::shown::plain;

const DISCARDED: &str = "What you typed before this was shown was discarded.";

/// A question that is on the screen, with a prompt below it once its answer can be typed.
#[derive(Debug)]
pub struct Prompt {
    question: TerminalQuestion,
    help: &'static str,
    text: &'static str,
    is_shown: bool,
}

/// What came of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A line was typed.
    Line(String),
    /// Nothing more can be typed.
    Ended,
}

impl Prompt {
    /// Asks for an answer to what is on the screen now. Only what is typed from now on can be one. `help` is shown once,
    /// above the prompt.
    pub fn new(help: &'static str, text: &'static str) -> Self {
        Self {
            question: TerminalQuestion::shown(),
            help,
            text,
            is_shown: false,
        }
    }

    /// What was typed since the last call; waits for it up to `limit`.
    pub fn heard(&mut self, limit: Duration) -> Option<Heard> {
        match self.question.typed(limit) {
            Typed::Nothing => None,
            Typed::Ready { discarded } => {
                self.is_shown = true;
                let discarded = if discarded { DISCARDED } else { "" };
                self.again(&format!("{}\n{discarded}", self.help));
                None
            }
            Typed::Line(line) => Some(Heard::Line(line)),
            Typed::Ended => Some(Heard::Ended),
        }
    }

    /// Shows the prompt again, below a remark.
    pub fn again(&self, remark: &str) {
        let remark = plain(remark.trim());
        let line_end = if remark.is_empty() { "" } else { "\n" };
        write(&format!("{remark}{line_end}{}", self.text));
    }

    /// Ends the question without an answer, and says why on a line of its own.
    pub fn close(self, why: &str) {
        let behind_prompt = if self.is_shown { "\n" } else { "" };
        let line_end = if why.is_empty() { "" } else { "\n" };
        write(&format!("{behind_prompt}{}{line_end}", plain(why)));
    }
}

/// Shows a text and asks whether that is wanted; everything but a clear yes is a no.
pub fn says_yes(text: &str, question: &'static str) -> bool {
    write(&format!("{}\n", plain(text.trim_end())));
    let mut prompt = Prompt::new("", question);
    loop {
        match prompt.heard(Duration::from_secs(60)) {
            None => {}
            Some(Heard::Line(line)) => return matches!(line.trim(), "y" | "Y" | "yes" | "Yes"),
            Some(Heard::Ended) => {
                prompt.close("");
                return false;
            }
        }
    }
}

/// Whoever was asked may be gone; that is noticed when they are listened to.
fn write(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes());
    let _ = stderr.flush();
}

//! Questions to whoever sits at the terminal.

use std::io::Write as _;
use std::time::Duration;

use teamster_fs::terminal::{Question, Typed};

use crate::shown::plain;

const DISCARDED: &str = "What you typed before this was shown was discarded.";

/// A question that is on the screen, with a prompt below it once its answer can be typed.
#[derive(Debug)]
pub struct Prompt {
    question: Question,
    text: &'static str,
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
    /// Asks for an answer to what is on the screen now. Only what is typed from now on can be one.
    pub fn new(text: &'static str) -> Self {
        Self {
            question: Question::shown(),
            text,
        }
    }

    /// What was typed since the last call; waits for it up to `limit`.
    pub fn heard(&mut self, limit: Duration) -> Option<Heard> {
        match self.question.typed(limit) {
            Typed::Nothing => None,
            Typed::Ready { discarded } => {
                self.again(if discarded { DISCARDED } else { "" });
                None
            }
            Typed::Line(line) => Some(Heard::Line(line)),
            Typed::Ended => Some(Heard::Ended),
        }
    }

    /// Shows the prompt again, below a remark.
    pub fn again(&self, remark: &str) {
        let line_end = if remark.is_empty() { "" } else { "\n" };
        write(&format!("{}{line_end}{}", plain(remark), self.text));
    }
}

/// Shows a text and asks whether that is wanted; everything but a clear yes is a no.
pub fn says_yes(text: &str, question: &'static str) -> bool {
    write(&format!("{}\n", plain(text.trim_end())));
    let mut prompt = Prompt::new(question);
    loop {
        match prompt.heard(Duration::from_secs(60)) {
            None => {}
            Some(Heard::Line(line)) => return matches!(line.trim(), "y" | "Y" | "yes" | "Yes"),
            Some(Heard::Ended) => {
                write("\n");
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

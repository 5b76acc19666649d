//! Input: answers to questions at the terminal, and files that are named on the command line.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::time::Duration;

use teamster_app::files::{read_file, refuse_longer};
use teamster_fs::terminal::{TerminalInput, TerminalQuestion};

use crate::error::{AppError, ErrorKind, Result};
use crate::shown::plain;

const DISCARDED: &str = "What you typed before this was shown was discarded.";

/// A question on the screen, with a prompt below it once its answer can be typed.
#[derive(Debug)]
pub struct TerminalPrompt {
    question: TerminalQuestion,
    help: &'static str,
    text: &'static str,
    is_shown: bool,
}

/// The result of waiting for input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromptInput {
    /// A line was typed.
    Line(String),
    /// The input has ended: nothing more can be typed.
    Ended,
}

impl TerminalPrompt {
    /// Asks for an answer to the text on the screen. Only input typed from now on counts. `help` is shown once, above
    /// the prompt.
    pub fn new(help: &'static str, text: &'static str) -> Self {
        Self {
            question: TerminalQuestion::shown(),
            help,
            text,
            is_shown: false,
        }
    }

    /// Returns what was typed since the last call, after waiting for it up to `limit`.
    pub fn poll(&mut self, limit: Duration) -> Option<PromptInput> {
        match self.question.typed(limit) {
            TerminalInput::Nothing => None,
            TerminalInput::Ready { discarded } => {
                self.is_shown = true;
                let discarded = if discarded { DISCARDED } else { "" };
                self.again(&format!("{}\n{discarded}", self.help));
                None
            }
            TerminalInput::Line(line) => Some(PromptInput::Line(line)),
            TerminalInput::Ended => Some(PromptInput::Ended),
        }
    }

    /// Shows the prompt again, below a remark.
    pub fn again(&self, remark: &str) {
        let remark = plain(remark.trim());
        let line_end = if remark.is_empty() { "" } else { "\n" };
        write(&format!("{remark}{line_end}{}", self.text));
    }

    /// Closes the question without an answer, and prints the reason on its own line.
    pub fn close(self, why: &str) {
        let behind_prompt = if self.is_shown { "\n" } else { "" };
        let line_end = if why.is_empty() { "" } else { "\n" };
        write(&format!("{behind_prompt}{}{line_end}", plain(why)));
    }
}

/// Shows a text and asks for confirmation; everything but a clear yes is a no.
pub fn confirm(text: &str, question: &'static str) -> bool {
    write(&format!("{}\n", plain(text.trim_end())));
    let mut prompt = TerminalPrompt::new("", question);
    loop {
        match prompt.poll(Duration::from_secs(60)) {
            None => {}
            Some(PromptInput::Line(line)) => {
                return matches!(line.trim(), "y" | "Y" | "yes" | "Yes");
            }
            Some(PromptInput::Ended) => {
                prompt.close("");
                return false;
            }
        }
    }
}

/// Moves the cursor to the beginning of the line above.
pub fn line_up() {
    write("\u{1b}[A\r");
}

/// Write errors are ignored: if the terminal is gone, the next read notices it.
fn write(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes());
    let _ = stderr.flush();
}

/// Returns the content of a file; `-` is the standard input. More than `limit` bytes are refused.
pub fn read_named(path: &Path, limit: usize) -> Result<Vec<u8>> {
    if path != Path::new("-") {
        return read_file(path, limit);
    }
    let mut bytes = Vec::new();
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    std::io::stdin()
        .lock()
        .take(most)
        .read_to_end(&mut bytes)
        .map_err(|error| {
            AppError::new(
                ErrorKind::Failed,
                format!("cannot read the standard input: {error}"),
            )
        })?;
    refuse_longer(&bytes, path, limit)?;
    Ok(bytes)
}

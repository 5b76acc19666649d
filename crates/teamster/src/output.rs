//! Where answers go: results to the standard output, as text or as one JSON object a line, and nothing else there.

use std::io::{ErrorKind as IoKind, IsTerminal, Write};

use serde::Serialize;
use teamster_app::env_vars;

use crate::error::{AppError, ErrorKind, Result};
use crate::shown::plain;

/// How this call answers.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    json: bool,
    terminal: bool,
    colour: bool,
}

impl Output {
    /// Answers as JSON when asked for, else as text, in colour only for a person at a terminal.
    pub fn new(json: bool) -> Self {
        let terminal = std::io::stdout().is_terminal();
        let colour = terminal && env_vars::get(env_vars::NO_COLOR).is_none();
        Self {
            json,
            terminal,
            colour,
        }
    }

    /// Whether the caller asked for JSON.
    pub fn is_json(self) -> bool {
        self.json
    }

    /// Whether there is a screen to draw on.
    pub fn is_screen(self) -> bool {
        self.terminal && !self.json
    }

    /// Whether text may be coloured.
    pub fn has_colour(self) -> bool {
        self.colour
    }

    /// Gives the answer in the form that was asked for.
    pub fn answer<J: Serialize>(
        self,
        json: impl FnOnce() -> J,
        text: impl FnOnce() -> String,
    ) -> Result {
        if self.json {
            self.object(&json())
        } else {
            self.text(&text())
        }
    }

    /// Makes a terminal ring.
    pub fn bell(self) -> Result {
        if self.terminal {
            self.write("\x07")
        } else {
            Ok(())
        }
    }

    /// One JSON object on a line of its own.
    pub fn object(self, object: &impl Serialize) -> Result {
        let mut line = serde_json::to_string(object).map_err(|error| {
            AppError::new(
                ErrorKind::Failed,
                format!("the answer has no JSON form: {error}"),
            )
        })?;
        line.push('\n');
        self.write(&line)
    }

    /// Text with a line end, unless there is no text or it has one.
    pub fn text(self, text: &str) -> Result {
        match text {
            "" => Ok(()),
            text if text.ends_with('\n') => self.write(text),
            text => self.write(&format!("{text}\n")),
        }
    }

    /// Exactly this, at once.
    pub fn write(self, text: &str) -> Result {
        let mut stdout = std::io::stdout().lock();
        let written = stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush());
        written.map_err(|error| match error.kind() {
            IoKind::BrokenPipe => AppError::new(ErrorKind::Unheard, "nobody reads the answer"),
            _ => AppError::new(
                ErrorKind::Failed,
                format!("the answer could not be written: {error}"),
            )
            .hint("what was asked for has been done; only its answer is lost"),
        })
    }

    /// A remark for a person. A program that asked for JSON expects nothing but errors on that stream.
    pub fn remark(self, text: &str) {
        if !self.json {
            // At once: other processes of the team may write to the same place, and stderr has no buffer.
            let line = format!("{}\n", plain(text));
            let _ = std::io::stderr().lock().write_all(line.as_bytes());
        }
    }
}

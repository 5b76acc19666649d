//! Output: results go to the standard output, as text or as one JSON object per line, and nothing else does.

use std::io::{ErrorKind as IoKind, IsTerminal, Write};

use serde::Serialize;
use teamster_app::env_vars;

use crate::error::{AppError, ErrorKind, Result};
use crate::shown::plain;

/// The output format of this call.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    json: bool,
    terminal: bool,
    colour: bool,
}

impl Output {
    /// Selects JSON if requested, else text, with colour only for a person at a terminal.
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

    /// Whether the output is a screen that can be drawn on.
    pub fn is_screen(self) -> bool {
        self.terminal && !self.json
    }

    /// Whether text may be coloured.
    pub fn has_colour(self) -> bool {
        self.colour
    }

    /// Prints the result in the requested format.
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

    /// Rings the terminal's bell.
    pub fn bell(self) -> Result {
        if self.terminal {
            self.write("\x07")
        } else {
            Ok(())
        }
    }

    /// Prints one JSON object on its own line.
    pub fn object(self, object: &impl Serialize) -> Result {
        let mut line = serde_json::to_string(object).map_err(|error| {
            AppError::new(
                ErrorKind::Failed,
                format!("cannot serialize the output as JSON: {error}"),
            )
        })?;
        line.push('\n');
        self.write(&line)
    }

    /// Prints text, with a final newline unless it is empty or already has one.
    pub fn text(self, text: &str) -> Result {
        match text {
            "" => Ok(()),
            text if text.ends_with('\n') => self.write(text),
            text => self.write(&format!("{text}\n")),
        }
    }

    /// Writes exactly this text and flushes it.
    pub fn write(self, text: &str) -> Result {
        let mut stdout = std::io::stdout().lock();
        let written = stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush());
        written.map_err(|error| match error.kind() {
            IoKind::BrokenPipe => AppError::new(ErrorKind::Unheard, "the output was closed"),
            _ => AppError::new(
                ErrorKind::Failed,
                format!("cannot write the output: {error}"),
            )
            .hint("the command has completed; only its output is lost"),
        })
    }

    /// Prints a remark for a person on stderr. A program that asked for JSON expects nothing but errors there.
    pub fn remark(self, text: &str) {
        if !self.json {
            // One write per line: other processes of the team may write to the same stream, and stderr is not
            // buffered.
            let line = format!("{}\n", plain(text));
            let _ = std::io::stderr().lock().write_all(line.as_bytes());
        }
    }
}

//! The terminal's screen, and what is typed on it.

use std::io::{Stdout, stdout};
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};

use super::frame::Scene;

/// The terminal's size: columns and lines.
pub fn size() -> std::io::Result<(u16, u16)> {
    ratatui::crossterm::terminal::size()
}

/// What was typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// End.
    Quit,
    /// The worker above.
    Up,
    /// The worker below.
    Down,
    /// The team before.
    Left,
    /// The next team, or the next event of a replay.
    Right,
    /// The tasks further up.
    PageUp,
    /// The tasks further down.
    PageDown,
    /// Wait or go on.
    Space,
    /// Something else, or the screen has another size: draw again.
    Other,
}

/// The whole screen, until it is dropped: then the terminal is as it was.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Takes the screen.
    pub fn take() -> std::io::Result<Self> {
        enable_raw_mode()?;
        // Made at once, so that whatever fails from here on gives the terminal back.
        let screen = Self {
            terminal: Terminal::new(CrosstermBackend::new(stdout()))?,
        };
        execute!(stdout(), EnterAlternateScreen)?;
        Ok(screen)
    }

    /// Draws a frame.
    pub fn draw(&mut self, scene: &Scene) -> std::io::Result<()> {
        self.terminal
            .draw(|frame| scene.draw(frame.area(), frame.buffer_mut()))?;
        Ok(())
    }

    /// What is typed in this time; `None` when nothing is.
    pub fn key(&self, patience: Duration) -> std::io::Result<Option<Key>> {
        if !event::poll(patience)? {
            return Ok(None);
        }
        Ok(Some(match event::read()? {
            Event::Key(key) if key.kind != KeyEventKind::Release => match key.code {
                KeyCode::Char('c' | 'd') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                    Key::Quit
                }
                KeyCode::Char('q') | KeyCode::Esc => Key::Quit,
                KeyCode::Up | KeyCode::Char('k') => Key::Up,
                KeyCode::Down | KeyCode::Char('j') => Key::Down,
                KeyCode::Left | KeyCode::Char('h') => Key::Left,
                KeyCode::Right | KeyCode::Char('l') | KeyCode::Enter => Key::Right,
                KeyCode::PageUp => Key::PageUp,
                KeyCode::PageDown => Key::PageDown,
                KeyCode::Char(' ') => Key::Space,
                _ => Key::Other,
            },
            _ => Key::Other,
        }))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = execute!(stdout(), LeaveAlternateScreen);
        let _ = disable_raw_mode();
        let _ = self.terminal.show_cursor();
    }
}

//! The terminal's screen, and what is typed on it.

use std::io::{ErrorKind, Stdout, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::Scene;

/// The terminal's size: columns and lines.
pub fn size() -> std::io::Result<(u16, u16)> {
    ratatui::crossterm::terminal::size()
}

/// What was typed while somebody writes a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKey {
    /// A letter of the line.
    Letter(char),
    /// The last letter goes.
    Erase,
    /// The line is complete.
    Send,
    /// The line is given up.
    Cancel,
    /// The person wants to leave.
    Quit,
    /// Something else, or the screen has another size: draw again.
    Other,
}

/// What was typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPress {
    /// The person wants to leave.
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
    /// Answer what is asked at this place, counted from 1.
    Answer(usize),
    /// Something else, or the screen has another size: draw again.
    Other,
}

/// The whole screen, until it is dropped: then the terminal is as it was.
pub struct TerminalScreen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    /// Somebody wants an end, and not by a key.
    ends: Arc<AtomicBool>,
}

impl TerminalScreen {
    /// Takes the screen.
    pub fn take() -> std::io::Result<Self> {
        enable_raw_mode()?;
        // Made at once, so that whatever fails from here on gives the terminal back.
        let screen = Self {
            terminal: Terminal::new(CrosstermBackend::new(stdout()))?,
            ends: Arc::new(AtomicBool::new(false)),
        };
        for signal in [SIGHUP, SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, screen.ends.clone())?;
        }
        // A program that ends by a mistake of its own drops nothing.
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            give_back();
            before(info);
        }));
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
    pub fn key(&self, patience: Duration) -> std::io::Result<Option<KeyPress>> {
        Ok(match self.event(patience)? {
            ScreenEvent::Nothing => None,
            ScreenEvent::End => Some(KeyPress::Quit),
            ScreenEvent::Other => Some(KeyPress::Other),
            ScreenEvent::Key(code) => Some(match code {
                KeyCode::Char('q') | KeyCode::Esc => KeyPress::Quit,
                KeyCode::Up | KeyCode::Char('k') => KeyPress::Up,
                KeyCode::Down | KeyCode::Char('j') => KeyPress::Down,
                KeyCode::Left | KeyCode::Char('h') => KeyPress::Left,
                KeyCode::Right | KeyCode::Char('l') | KeyCode::Enter => KeyPress::Right,
                KeyCode::PageUp => KeyPress::PageUp,
                KeyCode::PageDown => KeyPress::PageDown,
                KeyCode::Char(' ') => KeyPress::Space,
                KeyCode::Char('a') => KeyPress::Answer(1),
                KeyCode::Char(digit @ '1'..='9') => {
                    KeyPress::Answer(digit.to_digit(10).unwrap_or(1) as usize)
                }
                _ => KeyPress::Other,
            }),
        })
    }

    /// What is typed in this time while somebody writes a line; `None` when nothing is.
    pub fn line_key(&self, patience: Duration) -> std::io::Result<Option<LineKey>> {
        Ok(match self.event(patience)? {
            ScreenEvent::Nothing => None,
            ScreenEvent::End => Some(LineKey::Quit),
            ScreenEvent::Other => Some(LineKey::Other),
            ScreenEvent::Key(code) => Some(match code {
                KeyCode::Char(letter) => LineKey::Letter(letter),
                KeyCode::Backspace => LineKey::Erase,
                KeyCode::Enter => LineKey::Send,
                KeyCode::Esc => LineKey::Cancel,
                _ => LineKey::Other,
            }),
        })
    }

    fn event(&self, patience: Duration) -> std::io::Result<ScreenEvent> {
        let is_typed = match event::poll(patience) {
            // A signal cuts the wait short.
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            Err(_) => false,
            Ok(is_typed) => is_typed,
        };
        if self.ends.load(Ordering::Relaxed) {
            return Ok(ScreenEvent::End);
        }
        if !is_typed {
            return Ok(ScreenEvent::Nothing);
        }
        Ok(match event::read()? {
            Event::Key(key) if key.kind != KeyEventKind::Release => match key.code {
                KeyCode::Char('c' | 'd') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                    ScreenEvent::End
                }
                code => ScreenEvent::Key(code),
            },
            _ => ScreenEvent::Other,
        })
    }
}

/// What happened at the terminal.
enum ScreenEvent {
    Nothing,
    /// Somebody wants an end: by a signal, or by Ctrl-C.
    End,
    Key(KeyCode),
    Other,
}

impl Drop for TerminalScreen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Leaves the terminal as it was.
fn give_back() {
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

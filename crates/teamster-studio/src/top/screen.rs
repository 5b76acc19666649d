//! The terminal's screen and keyboard.

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

use super::TopFrame;

/// Returns the terminal's size in columns and lines.
pub fn size() -> std::io::Result<(u16, u16)> {
    ratatui::crossterm::terminal::size()
}

/// A key while a line is being typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKey {
    /// A character of the line.
    Letter(char),
    /// Delete the last character.
    Erase,
    /// The line is complete.
    Send,
    /// The line is cancelled.
    Cancel,
    /// The user wants to quit.
    Quit,
    /// Another key, or the screen was resized: draw again.
    Other,
}

/// A key in the normal view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPress {
    /// The user wants to quit.
    Quit,
    /// Select the previous worker.
    Up,
    /// Select the next worker.
    Down,
    /// Show the previous team.
    Left,
    /// Show the next team, or the next event of a replay.
    Right,
    /// Scroll the tasks up.
    PageUp,
    /// Scroll the tasks down.
    PageDown,
    /// Pause or resume.
    Space,
    /// Answer the item with this number, counted from 1.
    Answer(usize),
    /// Another key, or the screen was resized: draw again.
    Other,
}

/// The terminal in full-screen mode; dropping it restores the terminal.
pub struct TerminalScreen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    /// Set when a signal asked the program to end.
    ends: Arc<AtomicBool>,
}

impl TerminalScreen {
    /// Enters full-screen mode.
    pub fn take() -> std::io::Result<Self> {
        enable_raw_mode()?;
        // Created first, so that the terminal is restored if anything below fails.
        let screen = Self {
            terminal: Terminal::new(CrosstermBackend::new(stdout()))?,
            ends: Arc::new(AtomicBool::new(false)),
        };
        for signal in [SIGHUP, SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, screen.ends.clone())?;
        }
        // A panic may end the program without dropping the screen, so a hook restores the terminal.
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            restore_terminal();
            before(info);
        }));
        execute!(stdout(), EnterAlternateScreen)?;
        Ok(screen)
    }

    /// Draws a frame.
    pub fn draw(&mut self, scene: &TopFrame) -> std::io::Result<()> {
        self.terminal
            .draw(|frame| scene.draw(frame.area(), frame.buffer_mut()))?;
        Ok(())
    }

    /// Waits up to `patience` for a key; `None` when there was none.
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

    /// Waits up to `patience` for a key while a line is being typed; `None` when there was none.
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
            // A signal interrupts the wait.
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

/// An event of the terminal.
enum ScreenEvent {
    Nothing,
    /// The program was asked to end, by a signal or by Ctrl-C.
    End,
    Key(KeyCode),
    Other,
}

impl Drop for TerminalScreen {
    fn drop(&mut self) {
        restore_terminal();
    }
}

/// Restores the terminal.
fn restore_terminal() {
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

//! A run as text for a person: one observer that says what happens, over a display that shows it.

use teamster_journal::Event;
use teamster_run::observer::{GateReply, RunObserver, RunSnapshot, StopLevel};
use teamster_store::PlannedTask;

use super::signals::stop_message;
use super::{RunTerminal, plan_text};
use crate::commands::run::messages::EventMessages;
use crate::output::Output;
use crate::shown::{plain, viewed_line};

/// Where the text of a run is shown.
pub trait RunDisplay {
    /// Prints a line. While a question is open, `is_asking`, a display may keep it for later.
    fn print(&mut self, line: &str, is_asking: bool);

    /// Shows what a person is about to be asked about.
    fn show(&mut self, text: &str);

    /// Shows lines that a check has printed.
    fn output(&mut self, lines: &str);

    /// Shows how things stand. It is not called while a question is open.
    fn update(&mut self, _snapshot: &RunSnapshot<'_>) {}

    /// Shows what is left to be shown. Nothing is called after it.
    fn end(&mut self) {}
}

/// Says what happens in a run, and asks what a person has to decide.
pub struct TextObserver<'a, D: RunDisplay> {
    terminal: RunTerminal<'a>,
    display: D,
    messages: EventMessages,
    /// The last level of stopping that was said.
    told: StopLevel,
    asked_plan: bool,
}

impl<'a, D: RunDisplay> TextObserver<'a, D> {
    pub fn new(terminal: RunTerminal<'a>, display: D) -> Self {
        Self {
            terminal,
            display,
            messages: EventMessages::default(),
            told: StopLevel::GoOn,
            asked_plan: false,
        }
    }

    fn print(&mut self, line: &str) {
        self.display.print(line, self.terminal.is_asking());
    }
}

impl<D: RunDisplay> Drop for TextObserver<'_, D> {
    fn drop(&mut self) {
        self.terminal.close("");
        self.display.end();
    }
}

impl<D: RunDisplay> RunObserver for TextObserver<'_, D> {
    fn event(&mut self, event: &Event) {
        self.terminal.follow(event);
        if let Some(line) = self.messages.of(event) {
            let time = event.ts.to_string();
            let time = time.get(11..19).unwrap_or_default();
            self.print(&format!("{time}  {line}"));
        }
    }

    fn past_event(&mut self, event: &Event) {
        self.messages.of(event);
    }

    fn update(&mut self, snapshot: &RunSnapshot<'_>) {
        let level = self.stop_level();
        if level > self.told {
            self.told = level;
            if let Some(text) = stop_message(level) {
                self.print(text);
            }
        }
        if !self.terminal.is_asking() {
            self.display.update(snapshot);
        }
    }

    fn say(&mut self, text: &str) {
        self.print(&format!("          {}", viewed_line(text)));
    }

    fn output(&mut self, lines: &str) {
        self.display.output(lines);
    }

    fn stop_level(&self) -> StopLevel {
        self.terminal.signals.stop_level()
    }

    fn accept_plan(&mut self, tasks: &[PlannedTask]) -> Option<bool> {
        if !self.asked_plan {
            self.asked_plan = true;
            self.display.show(&plan_text(tasks));
            self.terminal.ask_about_plan();
        }
        self.terminal.accepts_plan()
    }

    fn open_gate(&mut self, text: &str) {
        self.display.show(text);
        self.terminal.ask_about_gate();
        self.terminal.gate_is_open();
    }

    fn waits_for_answer(&self) -> bool {
        self.terminal.stays
    }

    fn answer(&mut self) -> Option<GateReply> {
        self.terminal.answer()
    }
}

/// Plain lines, for logs and pipes.
pub struct PlainLines {
    pub out: Output,
}

impl RunDisplay for PlainLines {
    fn print(&mut self, line: &str, _is_asking: bool) {
        // Whoever reads may have gone; the work goes on.
        let _ = self.out.text(&format!("{line}\n"));
    }

    fn show(&mut self, text: &str) {
        self.print(&plain(text), false);
    }

    fn output(&mut self, lines: &str) {
        let mut text = String::with_capacity(lines.len() * 5 / 4);
        for line in lines.lines() {
            text.extend(["        | ", line, "\n"]);
        }
        let _ = self.out.write(&text);
    }
}

//! A run as plain lines, for logs and pipes.

use teamster_journal::Event;
use teamster_run::observer::{GateReply, RunObserver, RunSnapshot, StopLevel};
use teamster_store::PlannedTask;

use super::signals::words;
use super::{Screen, plan_text};
use crate::commands::run::messages::EventMessages;
use crate::output::Output;
use crate::shown::{plain, viewed_line};

/// Plain lines.
pub struct Lines<'a> {
    out: Output,
    screen: Screen<'a>,
    messages: EventMessages,
    told: StopLevel,
    asked_plan: bool,
}

impl<'a> Lines<'a> {
    pub fn new(out: Output, screen: Screen<'a>) -> Self {
        Self {
            out,
            screen,
            messages: EventMessages::default(),
            told: StopLevel::GoOn,
            asked_plan: false,
        }
    }

    /// Whoever reads may have gone; the work goes on.
    fn print(&self, line: &str) {
        let _ = self.out.text(&format!("{line}\n"));
    }
}

impl RunObserver for Lines<'_> {
    fn event(&mut self, event: &Event) {
        self.screen.follow(event);
        if let Some(line) = self.messages.of(event) {
            let time = event.ts.to_string();
            let time = time.get(11..19).unwrap_or_default();
            self.print(&format!("{time}  {line}"));
        }
    }

    fn past_event(&mut self, event: &Event) {
        self.messages.of(event);
    }

    fn update(&mut self, _look: &RunSnapshot<'_>) {
        let wish = self.screen.signals.stop_level();
        if wish > self.told {
            self.told = wish;
            if let Some(text) = words(wish) {
                self.print(text);
            }
        }
    }

    fn say(&mut self, text: &str) {
        self.print(&format!("          {}", viewed_line(text)));
    }

    fn output(&mut self, lines: &str) {
        let mut text = String::with_capacity(lines.len() * 5 / 4);
        for line in lines.lines() {
            text.extend(["        | ", line, "\n"]);
        }
        let _ = self.out.write(&text);
    }

    fn stop_level(&self) -> StopLevel {
        self.screen.signals.stop_level()
    }

    fn accept_plan(&mut self, tasks: &[PlannedTask]) -> Option<bool> {
        if !self.asked_plan {
            self.asked_plan = true;
            self.print(&plan_text(tasks));
            self.screen.ask_about_plan();
        }
        self.screen.accepts_plan()
    }

    fn open_gate(&mut self, text: &str) {
        self.print(&plain(text));
        self.screen.ask_about_gate();
        self.screen.gate_is_open();
    }

    fn waits_for_answer(&self) -> bool {
        self.screen.stays
    }

    fn answer(&mut self) -> Option<GateReply> {
        self.screen.answer()
    }
}

//! A run as text for a person: one observer that reports events, on top of a display that shows them.

use teamster_journal::payload::PlanAnswer;
use teamster_journal::{Event, Question};
use teamster_run::observer::{
    GateReply, PersonReply, PlanShown, RunObserver, RunSnapshot, StopLevel,
};

use super::signals::stop_message;
use super::{RunTerminal, question_text};
use crate::commands::run::messages::EventMessages;
use crate::output::Output;
use crate::shown::{display_line, display_text, plain};

/// Where the text of a run is shown.
pub trait RunDisplay {
    /// Prints a line. While a question is open (`is_asking`), a display may hold it back.
    fn print(&mut self, line: &str, is_asking: bool);

    /// Shows the text that a question refers to.
    fn show(&mut self, text: &str);

    /// Shows output of a check.
    fn output(&mut self, lines: &str);

    /// Shows the current status, how many answers agents wait for, and whether the run is stopping. It is not called
    /// while a question is open.
    fn update(
        &mut self,
        _snapshot: &RunSnapshot<'_>,
        _answers_wanted: usize,
        _stopping: StopLevel,
    ) {
    }

    /// Shows what was held back. Nothing is called after it.
    fn end(&mut self) {}
}

/// Reports the events of a run, and asks for the decisions that a person has to make.
pub struct TextObserver<'a, D: RunDisplay> {
    terminal: RunTerminal<'a>,
    display: D,
    messages: EventMessages,
    /// The last stop level that was reported.
    told: StopLevel,
}

impl<'a, D: RunDisplay> TextObserver<'a, D> {
    pub fn new(terminal: RunTerminal<'a>, display: D) -> Self {
        Self {
            terminal,
            display,
            messages: EventMessages::default(),
            told: StopLevel::GoOn,
        }
    }

    fn print(&mut self, line: &str) {
        self.display.print(line, self.terminal.is_asking());
    }
}

impl<D: RunDisplay> Drop for TextObserver<'_, D> {
    fn drop(&mut self) {
        self.terminal.close_all();
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
        self.terminal.follow_past(event);
        self.messages.of(event);
    }

    fn update(&mut self, snapshot: &RunSnapshot<'_>) {
        let level = self.stop_level();
        if level > self.told {
            self.told = level;
            // No more questions are asked, and lines are no longer held back.
            self.terminal.close_all();
            if let Some(text) = stop_message(level, snapshot) {
                self.print(&text);
            }
        }
        if level > StopLevel::GoOn {
            self.display.update(snapshot, 0, level);
            return;
        }
        if let Some(line) = self.terminal.take_answers() {
            self.print(&format!("          {line}"));
        }
        if let Some(text) = self.terminal.questions_to_show() {
            self.display.show(&text);
            self.terminal.ask_questions();
        }
        if !self.terminal.is_asking() {
            let answers_wanted = self.terminal.questions.count();
            self.display.update(snapshot, answers_wanted, level);
        }
    }

    fn say(&mut self, text: &str) {
        self.print(&format!("          {}", display_line(text)));
    }

    fn output(&mut self, lines: &str) {
        self.display.output(lines);
    }

    fn stop_level(&self) -> StopLevel {
        self.terminal.signals.stop_level()
    }

    fn show_plan(&mut self, plan: &PlanShown<'_>) {
        self.display.show(&display_text(plan.text));
        self.terminal.ask_about_plan(plan);
    }

    fn plan_answer(&mut self) -> Option<PlanAnswer> {
        self.terminal.plan_answer()
    }

    fn show_question(&mut self, question: &Question) {
        self.display.show(&question_text(question));
        self.terminal.ask_question(question);
    }

    fn question_answer(&mut self) -> Option<PersonReply> {
        self.terminal.question_answer()
    }

    fn has_person(&self) -> bool {
        self.terminal.has_terminal
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
        // The reader may be gone; the run continues.
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

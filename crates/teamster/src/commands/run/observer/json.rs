//! A run as one JSON object per line: the events of its journal, unchanged.

use serde_json::json;
use teamster_journal::Event;
use teamster_run::observer::{GateReply, RunObserver, RunSnapshot, StopLevel};

use super::RunTerminal;
use super::signals::stop_message;
use crate::output::Output;

/// Writes each event as one JSON object. The reader answers with `teamster plan` and `teamster answer`: the events
/// show what is pending.
pub struct JsonObserver<'a> {
    out: Output,
    terminal: RunTerminal<'a>,
    /// The last stop level that was reported.
    told: StopLevel,
}

impl<'a> JsonObserver<'a> {
    pub fn new(out: Output, terminal: RunTerminal<'a>) -> Self {
        Self {
            out,
            terminal,
            told: StopLevel::GoOn,
        }
    }
}

impl RunObserver for JsonObserver<'_> {
    fn event(&mut self, event: &Event) {
        self.terminal.follow(event);
        let _ = self.out.object(event);
    }

    fn past_event(&mut self, event: &Event) {
        self.terminal.follow_past(event);
    }

    fn update(&mut self, snapshot: &RunSnapshot<'_>) {
        let level = self.stop_level();
        if level > self.told {
            self.told = level;
            if let Some(text) = stop_message(level, snapshot) {
                let told = json!({ "type": "stopping", "level": level, "text": text });
                let _ = self.out.object(&told);
            }
        }
    }

    fn say(&mut self, text: &str) {
        let _ = self.out.object(&json!({ "type": "remark", "text": text }));
    }

    fn output(&mut self, lines: &str) {
        let objects = lines
            .lines()
            .map(|line| format!("{}\n", json!({ "type": "output", "text": line })));
        let _ = self.out.write(&objects.collect::<String>());
    }

    fn stop_level(&self) -> StopLevel {
        self.terminal.signals.stop_level()
    }

    fn open_gate(&mut self, text: &str) {
        let _ = self.out.object(&json!({ "type": "gate", "text": text }));
        self.terminal.gate_is_open();
    }

    fn waits_for_answer(&self) -> bool {
        self.terminal.stays
    }

    fn answer(&mut self) -> Option<GateReply> {
        self.terminal.answer()
    }
}

//! A run as one JSON object a line: the events of its journal as they are.

use serde_json::json;
use teamster_journal::Event;
use teamster_run::observer::{GateReply, RunObserver, RunSnapshot, StopLevel};
use teamster_store::PlannedTask;

use super::Screen;
use crate::output::Output;

/// Events as JSON.
pub struct Json<'a> {
    out: Output,
    screen: Screen<'a>,
}

impl<'a> Json<'a> {
    pub fn new(out: Output, screen: Screen<'a>) -> Self {
        Self { out, screen }
    }
}

impl RunObserver for Json<'_> {
    fn event(&mut self, event: &Event) {
        let _ = self.out.object(event);
    }

    fn past_event(&mut self, _event: &Event) {}

    fn update(&mut self, _look: &RunSnapshot<'_>) {}

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
        self.screen.signals.stop_level()
    }

    fn accept_plan(&mut self, _tasks: &[PlannedTask]) -> Option<bool> {
        Some(false)
    }

    fn open_gate(&mut self, text: &str) {
        let _ = self.out.object(&json!({ "type": "gate", "text": text }));
        self.screen.gate_is_open();
    }

    fn waits_for_answer(&self) -> bool {
        self.screen.stays
    }

    fn answer(&mut self) -> Option<GateReply> {
        self.screen.answer()
    }
}

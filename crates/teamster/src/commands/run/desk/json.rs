//! A run as one JSON object a line: the events of its journal as they are.

use serde_json::json;
use teamster_journal::Event;
use teamster_run::desk::{Desk, Look, Said, Wish};
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

impl Desk for Json<'_> {
    fn event(&mut self, event: &Event) {
        let _ = self.out.object(event);
    }

    fn known(&mut self, _event: &Event) {}

    fn look(&mut self, _look: &Look<'_>) {}

    fn say(&mut self, text: &str) {
        let _ = self.out.object(&json!({ "type": "remark", "text": text }));
    }

    fn output(&mut self, lines: &str) {
        let objects = lines
            .lines()
            .map(|line| format!("{}\n", json!({ "type": "output", "text": line })));
        let _ = self.out.write(&objects.collect::<String>());
    }

    fn wish(&self) -> Wish {
        self.screen.signals.wish()
    }

    fn accept_plan(&mut self, _tasks: &[PlannedTask]) -> Option<bool> {
        Some(false)
    }

    fn open_gate(&mut self, text: &str) {
        let _ = self.out.object(&json!({ "type": "gate", "text": text }));
        self.screen.gate_is_open();
    }

    fn stays(&self) -> bool {
        self.screen.stays
    }

    fn answer(&mut self) -> Option<Said> {
        self.screen.answer()
    }
}

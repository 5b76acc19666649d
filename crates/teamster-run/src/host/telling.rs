//! What a person reads: the gate, and the report.

use super::Host;
use crate::story::Gate;

impl Host<'_> {
    pub(super) fn gate_text(&self, gate: &Gate) -> String {
        format!("commit {}", gate.commit)
    }

    pub(super) fn write_down(&mut self) {}
}

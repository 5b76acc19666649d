//! What happened when: a lane for each worker.

use schemars::JsonSchema;
use serde::Serialize;
pub use teamster_journal::{Mark, Span, SpanEnd};
use teamster_types::Time;

/// What one worker did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Lane {
    /// Who.
    pub worker: String,
    /// Its work, in order.
    pub spans: Vec<Span>,
    /// What happened to it, in order.
    pub marks: Vec<Mark>,
}

/// A stage of the run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StageSpan {
    /// Which.
    pub stage: String,
    /// The position of the journal at which it began.
    pub seq: u64,
    /// From when
    pub from: Time,
    /// to when; `null` while it goes on.
    pub to: Option<Time>,
}

/// A position of the journal and its time, for whoever goes from a moment to a position.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Tick {
    /// The position.
    pub seq: u64,
    /// Its time.
    pub at: Time,
}

/// What happened when.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Timeline {
    /// The position of the journal that this shows.
    pub seq: u64,
    /// The first moment,
    pub from: Option<Time>,
    /// and the last.
    pub to: Option<Time>,
    /// A lane for each worker, in the order of their names.
    pub lanes: Vec<Lane>,
    /// The stages of the run.
    pub stages: Vec<StageSpan>,
    /// At most 512 positions, evenly spread, the first and the last among them.
    pub ticks: Vec<Tick>,
}

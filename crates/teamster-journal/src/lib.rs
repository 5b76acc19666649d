//! The journal of a team: every kind of event with its payload, and the state that follows from them.
//!
//! **What it owns.** The names of the kinds ([`EventType`]), the payload of each ([`payload`]), the line in the file
//! ([`Event`]), the state of a team ([`TeamState`]), that of its run ([`RunState`]), and what it has cost ([`cost`]). No
//! other crate spells the name of a kind; a test reads the sources to prove it.
//!
//! **How it works.** Whoever changes something makes a [`NewEvent`] from an [`EventKind`]; a store gives it its place in
//! the journal. Whoever reads an [`Event`] asks for its [`payload`](Event::payload) and gets the same [`EventKind`] again.
//! `RunState::apply` takes one event after the other and is what the host decides by; `TeamState` adds the workers and
//! what became of each task. The host, `status`, `top`, Studio, replay, the gate and the report read these, so they
//! cannot disagree. [`contract`] describes every kind from its type, for `docs/contracts.md`.
//!
//! **What it refuses.** Almost nothing: a journal is a file that older and newer versions and other programs write to. A kind
//! that is not known becomes [`EventKind::Unknown`] and is written again as it was. A value that does not fit its field
//! is treated as missing, and the rest of the event is read. What a person was shown and decided (the gate, a plan and the
//! answer to it) counts whole or not at all. It reads no clock, no file and no environment.

mod actor;
mod changes;
mod collaboration;
pub mod contract;
pub mod cost;
mod event;
mod kind;
pub mod payload;
mod permissions;
mod planning;
mod questions;
mod run_history;
mod run_state;
mod team_state;

pub use actor::EventActor;
pub use changes::{apply, changes};
pub use collaboration::{
    ChoiceRecord, Collaboration, FindingRecord, LeaderActionKind, LeaderActionRecord, WakeOutcome,
    WakeRecord,
};
pub use event::{Event, LINE_LIMIT, NewEvent, family};
pub use kind::{EventKind, EventType, Unread};
pub use permissions::PermissionHistory;
pub use planning::{PlanProposal, PlanReply, Planning};
pub use questions::{Question, QuestionFate, Questions};
pub use run_history::{
    CheckRecord, DecisionRecord, GateRecord, MergeRecord, MergeStanding, RunHistory, StageRecord,
};
pub use run_state::{
    Finished, Gate, GateDecision, HOST, LeaderState, ON_BASE, PhaseEntry, RepeatedFailure,
    ReviewOutcome, ReviewState, RunState, StageEntry, on_candidate,
};
pub use team_state::{
    Mark, PermissionRequest, Span, SpanEnd, TaskHistory, TeamState, WorkerPhase, WorkerState,
};

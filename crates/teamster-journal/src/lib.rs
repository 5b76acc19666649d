//! The journal of a team: every kind of event with its payload, and the state that follows from them.
//!
//! # What it owns
//!
//! The names of the kinds ([`EventType`]), the payload of each ([`payload`]), the line in the file
//! ([`Event`]), the state of a team ([`TeamState`]), that of its run ([`RunState`]), and what it has cost ([`cost`]). No
//! other crate spells the name of a kind; a test reads the sources to prove it.
//!
//! # How it works
//!
//! To record a change, code creates a [`NewEvent`] from an [`EventKind`], and a store assigns its position in the
//! journal. To read an [`Event`], code calls [`payload`](Event::payload) and gets the same [`EventKind`] back.
//! `RunState::apply` folds one event after the other, and the host decides by the result; `TeamState` adds the workers
//! and the history of each task. The host, `status`, `top`, Studio, replay, the gate and the report read these, so they
//! agree. (One difference is intended: the page counts only costs that a client reported, while budgets and the report
//! add "at least" where a client did not.) [`contract`] describes every kind from its type, for `docs/contracts.md`.
//!
//! # What it refuses
//!
//! It tolerates unknown input, because older and newer versions and other programs also write to a journal. An unknown
//! kind becomes [`EventKind::Unknown`] and is written back unchanged. A value that does not fit its field is treated as
//! missing, and the rest of the event is read. What the gate showed, a proposed plan and the answer to it are each
//! accepted whole or not at all. It reads no clock, no file and no environment.

mod actor;
mod changes;
mod collaboration;
pub mod contract;
pub mod cost;
mod event;
mod kind;
mod leader_state;
pub mod payload;
mod permissions;
mod planning;
mod questions;
mod run_history;
mod run_state;
mod task_failures;
mod team_state;

pub use actor::EventActor;
pub use changes::{apply, changes};
pub use collaboration::{
    ChoiceRecord, Collaboration, FindingRecord, LeaderActionKind, LeaderActionRecord, WakeOutcome,
    WakeRecord,
};
pub use event::{Event, LINE_LIMIT, NewEvent, family};
pub use kind::{EventKind, EventType, UnparsedEvent};
pub use leader_state::LeaderState;
pub use permissions::{OpenRequests, PermissionHistory, PermissionRequest};
pub use planning::{PlanProposal, PlanReply, Planning};
pub use questions::{Question, QuestionStatus, Questions};
pub use run_history::{
    CheckRecord, DecisionRecord, GateRecord, MergeRecord, MergeStanding, RunHistory, StageRecord,
};
pub use run_state::{
    FinishedRun, Gate, GateDecision, HOST, ON_BASE, PhaseEntry, ReviewOutcome, ReviewState,
    RunState, StageEntry, on_candidate,
};
pub use task_failures::{RepeatedFailure, TaskFailures};
pub use team_state::{Mark, Span, SpanEnd, TaskHistory, TeamState, WorkerPhase, WorkerState};

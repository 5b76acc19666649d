//! The words of teamster, and the rules that need nothing but words.
//!
//! This crate owns every record that is written to disk or a database ([`task`], [`message`], [`heartbeat`],
//! [`team`], [`event`], [`failure`], [`gate`]), the names that may become a path ([`ids`]), and the decisions that are a
//! function of such records: which step a task may take ([`transitions`]), what the dependency graph says ([`graph`]),
//! how healthy a worker is ([`health`]), who should get a task ([`routing`]), which stage may follow which
//! ([`flow`]), which paths no agent may touch ([`denied`]), whether two tasks reserve the same files ([`paths`]), and
//! what must not be shown ([`redact`]).
//!
//! It is pure. There is no clock, no randomness, no file and no global here: whoever calls passes the time and the
//! random token in. That is what lets a run be simulated, replayed and checked by property tests.
//!
//! Records that other programs also write are kept as the JSON they came as, behind typed accessors: an unknown key,
//! at any level, keeps its place, its order and its digits when we write the record back.

pub mod denied;
pub mod failure;
pub mod flow;
pub mod graph;
pub mod health;
pub mod heartbeat;
pub mod ids;
pub mod json;
pub mod message;
pub mod paths;
pub mod process;
pub mod progress;
pub mod quote;
pub mod redact;
pub mod routing;
pub mod session;
pub mod task;
pub mod team;
pub mod text;
pub mod time;
pub mod transitions;
pub mod usage;

pub use ids::{NameError, TaskId, TeamName, WorkerName};
pub use time::Time;

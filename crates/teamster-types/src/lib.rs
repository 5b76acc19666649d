//! Records, rules and texts that need no file, no clock and no network.
//!
//! # What it owns
//!
//! | subject | modules |
//! |---|---|
//! | names that may become a path | [`ids`] |
//! | records on disk or in a database | [`task`], [`message`], [`heartbeat`], [`team`], [`session`], [`failure`], [`end`] |
//! | values inside records | [`time`], [`created_at`], [`process`], [`progress`], [`usage`], [`json`] |
//! | which change of a task is allowed | [`transitions`], [`graph`] |
//! | which stage may follow which | [`flow`] |
//! | who gets a task; whether a worker is healthy, hung or dead; when a claim lock is abandoned | [`routing`], [`health`], [`claim_lock`] |
//! | which paths no agent may touch, and which tasks reserve the same files | [`denied`], [`paths`] |
//! | what people see of foreign texts | [`redact`], [`text`], [`shell`] |
//! | sentences with a code for translation | [`phrase`] |
//!
//! # How it works
//!
//! Every rule is a function of its arguments. The caller passes in the time, the random token, and the proof that a process
//! is alive. A store therefore calls the same rules inside its own critical section, and a run can be simulated, replayed
//! and checked by property tests.
//!
//! A task goes through [`transitions`] only:
//!
//! ```text
//! pending ──claim──► in progress ──complete──► completed ──merged──► merged
//!    ▲                 │  │  ▲ renew
//!    │ release         │  └──┘
//!    └─────────────────┴──fail──► pending again after a delay, or failed permanently after the last attempt
//!
//! failed permanently, or pending after a failure ──retry──► pending
//! ```
//!
//! Records that other programs also write are kept as the JSON they came as, behind typed accessors: an unknown key at any
//! level keeps its place, its order and its digits when the record is written back.
//!
//! # What it refuses
//!
//! It reads no file, no environment variable and no clock, prints nothing, and holds no global state. A change that a rule
//! forbids is a [`Refusal`](transitions::Refusal) and leaves the record as it was. A name that could leave its folder is
//! no [`TeamName`], [`WorkerName`] or [`TaskId`].

pub mod claim_lock;
pub mod created_at;
pub mod denied;
pub mod end;
pub mod failure;
pub mod flow;
pub mod graph;
pub mod health;
pub mod heartbeat;
pub mod ids;
pub mod json;
pub mod message;
pub mod paths;
pub mod phrase;
pub mod process;
pub mod progress;
pub mod redact;
pub mod routing;
pub mod session;
pub mod shell;
pub mod task;
pub mod team;
pub mod text;
pub mod time;
pub mod transitions;
pub mod usage;

pub use ids::{NameError, TaskId, TeamName, WorkerName};
pub use time::Time;

//! The run: from one sentence to merged, verified work.
//!
//! # What it owns
//!
//! One run of one team, from the request to the report. Before any worker starts, this crate decides what was asked for
//! ([`request`]), which preset suits it ([`preset`]), who is in the team ([`cast`]) and which tasks there are
//! ([`plan`], [`leader`]). [`preview`] shows all of that without starting anything. Then one [`host`] owns the run
//! until it ends.
//!
//! # How it works
//!
//! ```text
//! request ─▶ preset, cast, plan ─▶ host ─┬ Planner      the plan, the leader's questions, the person's approval of the plan
//!                                        ├ Scheduler    workers, what they do and whether they live
//!                                        ├ LeaderWaker  the leader's turns during the run
//!                                        ├ Merger       finished tasks into integration, one at a time
//!                                        ├ Verifier     checks in a fresh tree of the merged commit
//!                                        ├ ApprovalGate what a person is shown, and their decision
//!                                        └ Projector    state files for other programs
//! ```
//!
//! Each part is a struct with its own state; one loop drives the parts and applies the commands that they return. The
//! modules `reviewer` and `chooser` of the host have an agent review the merged commit, or choose one of several
//! results. The journal records how far the run has come ([`teamster_journal::RunState`]), so another host can resume
//! it after a crash. Tasks that finish at the same time are merged one after the other, in the order of their numbers,
//! and none before a task that it depends on. [`verify`] runs checks, [`review`] reads a reviewer's answer, [`report`]
//! renders the outcome, and an [`observer`] watches the run.
//!
//! Plans and presets are files that people write, so the faults of a file are reported together, each with file and
//! line ([`teamster_document`]).
//!
//! # What it refuses
//!
//! A task counts as merged only when the commit that lands contains its commit; this is checked after each merge,
//! before the checks, before the gate, before landing and at the end. Only a commit that was checked and shown can
//! land. The crate prints nothing, and starts processes only through `teamster-workers` and `teamster-isolate`.

pub mod cast;
pub mod host;
pub mod leader;
pub mod observer;
pub mod plan;
pub mod preset;
pub mod preview;
pub mod report;
pub mod request;
pub mod review;
pub mod verify;

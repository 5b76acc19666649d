//! The run: from one sentence to merged, verified work.
//!
//! # What it owns
//!
//! One run of one team, from the request to the report. Before anything starts it is decided what was asked for
//! ([`request`]), which preset suits it ([`preset`]), who is in the team ([`cast`]) and which tasks there are ([`plan`],
//! [`leader`]). [`preview`] shows all of that without starting anything. Then one [`host`] owns the run to its end.
//!
//! # How it works
//!
//! ```text
//! request ─▶ preset, cast, plan ─▶ host ─┬ Planner      the plan, the leader's questions, the person's approval of the plan
//!                                        ├ Scheduler    workers, what they do and whether they live
//!                                        ├ LeaderWaker  the leader's turns during the run
//!                                        ├ Merger       finished tasks into integration, one at a time
//!                                        ├ Verifier     checks in a fresh tree of the merged commit
//!                                        ├ Reviewer     another agent's look at the merged commit
//!                                        ├ ApprovalGate what a person is shown, and their decision
//!                                        └ Projector    state files for other programs
//! ```
//!
//! Each part is a struct with its own state; one loop tells them what happened and carries out what they want done. Where
//! the run is, the journal tells ([`teamster_journal::RunState`]), so another host can take it up after a crash. Two workers
//! that finish at once are merged one after the other, in the order of their dependencies. [`verify`] runs checks, [`review`]
//! reads what a reviewer answers, [`report`] says in words what the run came to, and whoever watches is an [`observer`].
//!
//! Plans and presets are files that people write, so everything that is wrong with one is found at once and named by file
//! and line ([`teamster_document`]).
//!
//! # What it refuses
//!
//! A task counts as merged only when its commit is in what lands, and this is checked after each merge, before the gate,
//! before landing and at the end. Nothing lands that was not checked and shown as it is. It prints nothing, and starts
//! processes only through `teamster-workers` and `teamster-isolate`.

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

//! Workers: how they start, what they do, how they are kept alive and how they end.
//!
//! # What it owns
//!
//! A worker is a process of its own, the [`bridge`]. It outlives the host that started it and can be watched in a
//! terminal. Any process on the same machine can detect its death from its heartbeat and the record of its process.
//! This crate holds both sides: the code that runs inside the worker's process, and the code that starts, watches and
//! stops it from outside.
//!
//! # How it works
//!
//! ```text
//! outside  launch ──starts──▶ bridge ◀──watches── supervise ──dead or hung──▶ reclaim ─▶ launch again
//!                               ▲  ◀──────stops── shutdown
//! inside   bridge ─▶ claim ─▶ workplace ─▶ briefing ─▶ agent (attempt, process) ─▶ work kept ─▶ result in the store
//! ```
//!
//! | module | what it answers |
//! |---|---|
//! | [`bridge`] | what a worker does from its claim to its commit |
//! | `attempt`, `process` | when an agent is ended, and how; shared by the bridge and [`ask`] |
//! | [`ask`] | asking an agent something once, without a worker |
//! | [`workplace`] | where a worker works, and how its agent's changes are kept |
//! | [`briefing`] | the prompt that an agent gets for its task |
//! | [`task_report`] | what an agent reports at the end of a task |
//! | [`launch`], [`record`] | how a bridge is started and found again; one process for each worker |
//! | [`guard`] | how an agent is ended when its bridge is killed |
//! | [`socket`], [`tools`] | how an agent reaches its bridge, and what it can do there |
//! | [`supervise`], [`reclaim`] | what happens to dead and hung workers and to their tasks |
//! | [`shutdown`] | how workers are stopped, and how it is proven that they are gone |
//! | [`limits`] | how long everything may take |
//!
//! Whether a worker is dead is decided in [`teamster_types::health::judge`], from its heartbeat and from what
//! [`teamster_fs::proc::Machine::process_state`] says about its process; [`reclaim::assess`] collects both. There is
//! one exception: a bridge that gets its worker's lock knows that every earlier bridge of that worker is gone
//! ([`reclaim::reclaim_predecessor`]).
//!
//! # What it refuses
//!
//! A worker holds one task at a time and ends it exactly once: completed, failed, blocked, released or lost. No work is
//! thrown away: changes that cannot become a result are kept under the name of their attempt. Only processes of
//! teamster's own launches are ended: by descent, by the launch id in their environment, or by their control group.
//! Another worker's state is untouched unless that worker is proven dead. Merging is done by the host (`teamster-run`).

pub mod alerts;
pub mod ask;
mod attempt;
pub mod bridge;
pub mod briefing;
pub mod guard;
pub mod launch;
pub mod limits;
mod mail_text;
mod process;
pub mod reclaim;
pub mod record;
pub mod shutdown;
pub mod socket;
pub mod supervise;
pub mod task_report;
pub mod tools;
pub mod workplace;

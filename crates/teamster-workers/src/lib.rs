//! Workers: how one is started, what it does, how it is kept alive and how it ends.
//!
//! A worker is a process of its own, the [`bridge`]: it outlives the host that started it, can be watched in a
//! terminal, and its death is seen by anybody who looks at its heartbeat and its pid.

pub mod ask;
mod attempt;
pub mod bridge;
pub mod launch;
pub mod limits;
mod process;
pub mod prompt;
pub mod reclaim;
pub mod record;
pub mod shutdown;
pub mod supervise;
pub mod workplace;

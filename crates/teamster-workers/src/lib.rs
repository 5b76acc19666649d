//! Workers: how one is started, what it does, how it is kept alive and how it ends.
//!
//! A worker is a process of its own, the [`bridge`]: it outlives the host that started it, can be watched in a
//! terminal, and its death is seen by anybody who looks at its heartbeat and its pid.

pub mod ask;
pub mod bridge;
pub mod dead;
mod guard;
pub mod launch;
mod process;
pub mod prompt;
pub mod record;
pub mod rules;
pub mod seat;
pub mod shutdown;
pub mod supervise;
mod temp;
pub mod usage;
pub mod workplace;

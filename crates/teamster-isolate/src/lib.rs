//! Everything that starts, watches and stops other programs.
//!
//! Today that is one thing: asking a program a short question, such as its version, without ever waiting for it
//! longer than we said. The program gets no input, its answer is cut at a limit, and when its time is up it is ended
//! together with the group of processes it started.

#![allow(
    clippy::disallowed_methods,
    reason = "this is the crate that the ban on starting processes protects"
)]

mod brief;
mod die;

pub use brief::{Answer, Silence, ask, find_program, is_program};
pub use die::die;

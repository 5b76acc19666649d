//! The run: what is decided before it, and what it does, with real processes.

mod leader;
mod verify;

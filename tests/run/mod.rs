//! The run: what is decided before it, and what it does, with real processes.

mod kills;
mod leader;
mod shop;
mod verify;
mod whole;

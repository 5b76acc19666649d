//! The run, with real programs.

mod verify;

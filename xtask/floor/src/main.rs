//! The baseline of the benchmarks: reads a JSON file, increments a number in it, writes a new file, and renames it.
//!
//! `cargo xtask bench` links it statically, like the product. A command that does something useful with a file cannot
//! be much faster than this.

#![allow(
    clippy::disallowed_methods,
    reason = "a benchmark of the bare system calls"
)]

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let (Some(file), Some(temp)) = (words.next(), words.next()) else {
        return ExitCode::from(2);
    };
    let count_up = || -> Option<()> {
        let bytes = std::fs::read(&file).ok()?;
        let mut state: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
        let runs = state.get("runs")?.as_u64()? + 1;
        *state.get_mut("runs")? = runs.into();
        std::fs::write(&temp, serde_json::to_vec(&state).ok()?).ok()?;
        std::fs::rename(&temp, &file).ok()
    };
    match count_up() {
        Some(()) => ExitCode::SUCCESS,
        None => ExitCode::FAILURE,
    }
}

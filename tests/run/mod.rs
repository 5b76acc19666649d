//! The run: what is decided before it, and what it does, with real processes.

mod briefings;
mod budgets;
mod checks;
mod gate;
mod kills;
mod landed;
mod leader;
mod overreach;
mod places;
mod plans;
pub mod shop;
mod stops;
mod tasks;
mod trace;
mod verify;
mod whole;

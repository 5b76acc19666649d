//! The drivers: against everything that the real clients were recorded saying, and against what nobody would say.

mod delivery;
mod doctor;
mod launch;
mod permissions;
mod play;
mod properties;
pub mod recorded;
mod streams;

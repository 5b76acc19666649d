//! The run: from one sentence to merged, verified work.
//!
//! What is here decides before anything starts: what was asked for ([`request`]), which people-sized team suits it
//! ([`preset`]) and who is in it ([`cast`]), and which tasks it comes to ([`plan`]). Plans and presets are files that
//! people write, so everything that is wrong with one is found at once and named by file and line ([`document`]).
//!
//! All of that is pure: texts come in, values or faults go out. Only the [`leader`] starts something: an agent that is
//! asked for a plan.

pub mod cast;
pub mod document;
pub mod leader;
pub mod plan;
pub mod preset;
pub mod preview;
pub mod request;

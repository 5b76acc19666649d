//! The run: from one sentence to merged, verified work.
//!
//! What is here decides before anything starts: what was asked for ([`request`]), which people-sized team suits it
//! ([`preset`]), and which tasks it comes to ([`plan`]). Plans and presets are files that people write, so everything
//! that is wrong with one is found at once and named by file and line ([`document`]).
//!
//! All of it is pure: texts come in, values or faults go out. Nothing is read, started or asked for here.

pub mod document;
pub mod plan;
pub mod preset;
pub mod request;

//! The run: from one sentence to merged, verified work.
//!
//! Some of it decides before anything starts: what was asked for ([`request`]), which people-sized team suits it
//! ([`preset`]), and which tasks it comes to ([`plan`]). Plans and presets are files that people write, so everything
//! that is wrong with one is found at once and named by file and line ([`document`]).
//!
//! The rest looks at the work: whether it holds ([`verify`]), what it has cost ([`cost`]), and what it
//! came to, in words ([`report`]).
//!
//! All of it is pure: texts come in, values or faults go out. Only [`verify`] reads a project's files and starts its
//! commands.

pub mod cost;
pub mod desk;
pub mod document;
pub mod exit;
pub mod host;
pub mod order;
pub mod plan;
pub mod preset;
pub mod report;
pub mod request;
pub mod story;
pub mod verify;

//! The run: from one sentence to merged, verified work.
//!
//! Before anything starts it is decided what was asked for ([`request`]), which people-sized team suits it ([`preset`]) and
//! who is in it ([`cast`]), and which tasks it comes to ([`plan`], [`leader`]). Plans and presets are files that people
//! write, so everything that is wrong with one is found at once and named by file and line ([`teamster_document`]).
//!
//! Then one [`host`] owns the run to its end. Where it is, its journal tells ([`teamster_journal::RunState`]). Whether the
//! work holds is for [`verify`], what it came to, in words, for [`report`]. Whoever watches it is an
//! [`observer`].

pub mod cast;
pub mod host;
pub mod leader;
pub mod observer;
pub mod plan;
pub mod preset;
pub mod preview;
pub mod report;
pub mod request;
pub mod review;
pub mod verify;

//! What the tests of several crates share.
//!
//! - [`scratch`]: a folder for one test, in memory where the machine has such a place, and stores in it.
//! - [`linear`]: a judge of concurrent histories in the manner of Wing and Gong: is there one order of the operations,
//!   none moved outside its own interval, that a sequential model would have answered in the same way?
//! - [`claims`]: that model for one task: claim, renew, complete, fail, release, retry.
//! - [`history`]: what clients did, when they began and when they had their answer; and its parts, task by task.
//! - [`events`]: events as somebody wrote them into a journal, complete or not.
//! - [`drive`]: clients that make such histories on a real store.
//!
//! Nothing here ships. It knows the store only through its public face.

#![allow(
    clippy::disallowed_methods,
    clippy::missing_panics_doc,
    reason = "tests make and remove their own files, and end in a panic when something is wrong"
)]

pub mod claims;
pub mod drive;
pub mod events;
pub mod history;
pub mod linear;
pub mod scratch;

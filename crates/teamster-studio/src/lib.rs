//! Seeing the team: the live page with its API, and the terminal view. Both render the one model of `teamster-view`.

pub mod api;

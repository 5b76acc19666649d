//! Until the one runner has a place for them.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    unreachable_pub
)]
#[path = "../../../tests/store/mod.rs"]
mod store;

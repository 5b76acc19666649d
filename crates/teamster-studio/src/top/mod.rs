//! The terminal view: the same model on a screen of letters.
//!
//! A frame is made from a [`Scene`] alone, so `--once`, a replay and the live screen draw the same.

mod frame;
mod panes;
mod render;
mod screen;

pub use frame::{Scene, once};
pub use screen::{Key, Screen, size};

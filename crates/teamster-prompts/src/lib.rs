//! What agents are told: one Markdown template for each kind of agent, and the facts that it takes.
//!
//! # What it owns
//!
//! The templates (`prompts/*.md` in this crate), one typed struct of facts for each ([`facts`]), and the rules by which a
//! prompt is made from both. Whoever knows the facts (the bridge, the host) fills the struct; nothing here reads a file, a
//! store or a clock.
//!
//! # How it works
//!
//! ```text
//! facts ──▶ template (ours, or an override) ──▶ text ──▶ short enough? ──▶ prompt
//!   ▲                                                        │ no
//!   └─────── the least important part is shortened ◀─────────┘
//! ```
//!
//! | filter | what it makes of a text |
//! |---|---|
//! | `quote` | lines that begin with `>`: how a text of others is told |
//! | `items` | the texts of a list, each on a line of its own behind a dash |
//! | `safe` | the text as it is: for texts of ours, such as a schema or what a preset says |
//! | none | the text on one line, without control characters |
//!
//! # What it refuses
//!
//! A text of others never begins a line of its own unless that line is marked, whatever an override writes. A name that a
//! template uses and that is not among its facts is an error, and an override is tried with examples before it is used, so
//! that a run does not stop over it. An override that still fails with real facts is replaced by our own template, and
//! [`Rendered::fallback`] says why.

mod document;
mod examples;
pub mod facts;
mod shorten;
mod templates;

pub use document::{DOCUMENT, document};
pub use shorten::{Shorten, Shortening};
pub use templates::{
    Override, Overrides, Prompt, PromptError, PromptKind, Prompts, Rendered, TEMPLATES,
};

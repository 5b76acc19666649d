//! The prompts of agents: one Markdown template for each kind of agent, and the facts that it takes.
//!
//! # What it owns
//!
//! The templates (`prompts/*.md` in this crate), one typed struct of facts for each ([`facts`]), and the rules by which
//! a prompt is rendered from both. The caller that knows the facts (the bridge, the host) fills the struct; nothing
//! here reads a file, a store or a clock.
//!
//! # How it works
//!
//! ```text
//! facts ──▶ template (ours, or an override) ──▶ text ──▶ short enough? ──▶ prompt
//!   ▲                                                        │ no
//!   └─────── the least important part is shortened ◀─────────┘
//! ```
//!
//! | filter | what it renders |
//! |---|---|
//! | `quote` | lines that begin with `>`: how an untrusted text is quoted |
//! | `items` | the texts of a list, each on its own line after a dash |
//! | `safe` | the text unchanged: for trusted texts, such as a schema or a preset's instructions |
//! | none | the text on one line, without control characters |
//!
//! # What it refuses
//!
//! An untrusted text never begins a line unless that line is marked as a quote. Only the filter `safe` turns this off;
//! whoever uses it for an untrusted text in an override takes that risk. A name that a template uses and that is not
//! among its facts is an error, and an override is tested with examples before it is used, so that a run does not stop
//! over it. An override that still fails with real facts is replaced by the built-in template, and
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

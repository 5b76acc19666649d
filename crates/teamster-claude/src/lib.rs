//! Claude Code made visible.
//!
//! Everything here is synchronous and starts nothing: it runs inside the client's hooks, which wait for it.
//!
//! - [`state`] keeps `agent-state.json`, the file that any viewer may poll;
//! - [`hook`] turns the client's payloads into changes of it;
//! - [`native`] reads the client's own registry, tasks, inboxes and sessions, which it never changes;
//! - [`install`] puts our hooks into the client's settings and takes exactly them out again; [`plugin`] writes a plugin;
//! - [`words`] makes texts from outside fit for a file that people look at.

pub mod hook;
pub mod install;
pub mod native;
pub mod plugin;
pub mod state;

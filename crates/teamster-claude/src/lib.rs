//! Claude Code: its hooks, its settings, its own files, and `agent-state.json`.
//!
//! # What it owns
//!
//! - [`hook`] handles the client's hooks: a payload becomes a change of the state and a response;
//! - [`state`] keeps `agent-state.json`, the file that any viewer may poll;
//! - [`native`] reads the client's registry of teams, its tasks, inboxes and sessions;
//! - [`install`] adds teamster's hooks to the client's settings and removes exactly these; [`plugin`] writes a plugin
//!   with these hooks, teamster's tools, three commands and a skill.
//!
//! # How it works
//!
//! ```text
//! client ──payload──► hook ──who is it?──► native (read only)
//!                      │
//!                      └──operations──► state: lock ─► read ─► apply ─► write ─► rename
//!                                         └─ locked for too long: one line in pending.jsonl for the next holder
//! ```
//!
//! Everything is synchronous, because it runs inside a hook and the client waits for it. A change of the state is a
//! list of operations that is applied as a whole by one [`StateFiles::apply`](state::StateFiles::apply); the operations
//! themselves are pure.
//!
//! # What it refuses
//!
//! - A hook never fails and never waits longer than [`hook::LONGEST`]: an error goes to the log, and the agent
//!   continues.
//! - Of the client's own files only its settings are changed, and only by [`install`]; a name found in them is used in
//!   a path only if it is one plain component.
//! - Settings that are not plain JSON are not edited, and nothing in them changes but teamster's own entries.

pub mod hook;
pub mod install;
pub mod native;
pub mod plugin;
pub mod state;

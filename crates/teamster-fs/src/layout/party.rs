//! Sessions with an approval gate.

/// Folder of a project's sessions, below the project.
pub const PARTY: &str = ".party";
/// The session, in [`PARTY`].
pub const SESSION: &str = "session.json";
/// What each phase found out, in [`PARTY`].
pub const FINDINGS: &str = "findings";
/// Pieces of the session's work, in [`PARTY`].
pub const TICKETS: &str = "tickets";
/// Records of decisions, which nothing reads back, in [`PARTY`].
pub const APPROVALS: &str = "approvals";
/// What happened, in [`PARTY`].
pub const PARTY_EVENTS: &str = "events.ndjson";
/// Held by whoever changes the session, in [`PARTY`].
pub const PARTY_LOCK: &str = ".lock";
/// Sessions that made room for a later one, in [`PARTY`].
pub const PARTY_ARCHIVE: &str = "archive";

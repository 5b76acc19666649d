//! State files of a project that other programs read: those that show Claude Code's activity, and those of sessions
//! with an approval gate. Also files of Claude Code that teamster only reads.

use teamster_types::{TeamName, Time};

/// Folder of a project's state files, below the project.
pub const BKIT: &str = ".bkit";
/// The live state that viewers poll, in [`BKIT`].
pub const AGENT_STATE: &str = "agent-state.json";
/// The lock that every writer in [`BKIT`] takes.
pub const STATE_LOCK: &str = ".agent-state.lock";
/// Changes by writers that timed out waiting for the lock, in [`BKIT`].
pub const PENDING: &str = "pending.jsonl";
/// Changes of [`PENDING`] while they are being applied.
pub const PENDING_CLAIMED: &str = ".pending.claimed";
/// A folder for changes that could not even be appended to [`PENDING`], one file each, in [`BKIT`].
pub const PENDING_ALONE: &str = ".pending";
/// One state file for each session that is not the one shown in [`AGENT_STATE`], in [`BKIT`].
pub const STATE_SESSIONS: &str = "sessions";
/// The state that hooks keep between two calls, in [`BKIT`].
pub const HOOK_MEMORY: &str = "hook-memory.json";
/// The debug log of hooks (`TEAMSTER_DEBUG`), in [`BKIT`].
pub const HOOK_LOG: &str = "hook.log";

/// A record of every teammate whose end was observed, below the Claude folder.
pub const ZOMBIE_ALERTS: &str = "zombie-alerts.jsonl";
/// Claude Code's running sessions, below the Claude folder.
pub const NATIVE_SESSIONS: &str = "sessions";

/// The configuration of bkit, in a project that uses it.
pub const BKIT_CONFIG: &str = "bkit.config.json";

/// Possible locations of a project's PDCA status, as folders and name; the first that exists is used.
pub const PDCA_STATUS: [(&[&str], &str); 2] = [
    (&["docs"], ".pdca-status.json"),
    (&[BKIT, "state"], "pdca-status.json"),
];

/// Folders that teamster creates in a project, as git ignore patterns: they hold the state of sessions and runs, not
/// the work.
pub const OUR_FOLDERS: [&str; 3] = [".bkit/", ".omc/", ".party/"];

/// The session id of scripts that name none.
pub const SCRIPT_SESSION: &str = "script";

/// The maximum length of a session id, in bytes.
const LONGEST_SESSION: usize = 128;

/// Returns the state file of a session, in [`STATE_SESSIONS`]; `None` when its id cannot be a file's name.
pub fn session_state_file(session: &str) -> Option<String> {
    let fits = !session.is_empty()
        && session.len() <= LONGEST_SESSION
        && !session.starts_with('.')
        && !session.contains(|c: char| c == '/' || c.is_control());
    fits.then(|| format!("{session}.json"))
}

/// Returns the name under which the state of a session without a usable id is kept once it is over.
pub fn unnamed_state_file(last_updated: Option<Time>) -> String {
    let millis = last_updated.map_or(0, Time::as_millis);
    format!("unnamed-{millis}.json")
}

/// Returns the name under which an unreadable state file is kept.
pub fn corrupt_state_file(now: Time) -> String {
    // Some file systems do not allow a colon in a file name.
    let time = now.to_string().replace(':', "-");
    format!("agent-state.corrupt-{time}.json")
}

/// Returns the name of a change's file in [`PENDING_ALONE`]; names sort by time.
pub fn pending_file(at: Time, random: &str) -> String {
    format!("{:015}-{random}.jsonl", at.as_millis().max(0))
}

/// Returns the process of a running session from its file name in Claude Code's session folder; `None` for other names.
pub fn pid_of_session_file(name: &str) -> Option<u32> {
    name.strip_suffix(".json")?.parse().ok()
}

/// Returns the folder name of the team that newer clients create implicitly for each session.
pub fn implicit_team(session: &str) -> Option<String> {
    let start = session.get(..8)?;
    start
        .bytes()
        .all(|byte| byte.is_ascii_hexdigit())
        .then(|| format!("session-{start}"))
}

/// Folder of a project's sessions, below the project.
pub const PARTY: &str = ".party";
/// The session, in [`PARTY`].
pub const SESSION: &str = "session.json";
/// Folder of the results of each phase, in [`PARTY`].
pub const FINDINGS: &str = "findings";
/// Folder of the session's work items, in [`PARTY`].
pub const TICKETS: &str = "tickets";
/// Folder of records of decisions, in [`PARTY`]. They are never read back.
pub const APPROVALS: &str = "approvals";
/// The log of the session's events, in [`PARTY`].
pub const PARTY_EVENTS: &str = "events.ndjson";
/// The lock for changes to the session, in [`PARTY`].
pub const PARTY_LOCK: &str = ".lock";
/// Folder of sessions that were replaced by later ones, in [`PARTY`].
pub const PARTY_ARCHIVE: &str = "archive";
/// Folder of sessions of teams that started while another team's session was active, each laid out like [`PARTY`], in
/// [`PARTY`].
pub const PARTY_SESSIONS: &str = "sessions";

/// Returns the path from a project to the session of a team that has a separate one.
pub fn own_party(team: &TeamName) -> [&str; 3] {
    [PARTY, PARTY_SESSIONS, team.as_str()]
}

/// The previous part of [`PARTY_EVENTS`], which is rotated when it grows too large.
pub const OLD_PARTY_EVENTS: &str = "events.old.ndjson";

/// Returns the team named in a session id `party-{team}-{time}-{4 random}`.
pub fn team_of_session(id: &str) -> Option<&str> {
    let mut parts = id.strip_prefix("party-")?.rsplitn(3, '-');
    let (random, time, team) = (parts.next()?, parts.next()?, parts.next()?);
    let is_ours = random.len() == 4 && time.bytes().all(|byte| byte.is_ascii_digit());
    is_ours.then_some(team)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_leads_elsewhere_has_no_file() {
        assert_eq!(
            session_state_file("9338b893-db93").as_deref(),
            Some("9338b893-db93.json")
        );
        for wrong in [
            "",
            "..",
            ".x",
            "a/b",
            "../x",
            "a\0b",
            "a\nb",
            &"x".repeat(129),
        ] {
            assert_eq!(session_state_file(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn the_implicit_team_is_named_by_the_start_of_the_session() {
        assert_eq!(
            implicit_team("9338b893-db93-42c7").as_deref(),
            Some("session-9338b893")
        );
        for wrong in ["", "e", "9338b89", "../../..", "ääääääää"] {
            assert_eq!(implicit_team(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn session_of_a_team_with_hyphens_names_that_team() {
        let team = |id| team_of_session(id);
        assert_eq!(team("party-a-b-20260101000000-12ab"), Some("a-b"));
        for other in ["party-a", "party-a-x-12ab", "unnamed-12ab", "party-1-12ab"] {
            assert_eq!(team(other), None, "{other}");
        }
    }
}

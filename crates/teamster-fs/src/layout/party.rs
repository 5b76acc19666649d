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
/// The part before [`PARTY_EVENTS`], once that grew too large.
pub const OLD_PARTY_EVENTS: &str = "events.old.ndjson";

/// The team that a session's id, `party-{team}-{time}-{4 random}`, names.
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
    fn session_of_a_team_with_hyphens_names_that_team() {
        let team = |id| team_of_session(id);
        assert_eq!(team("party-a-b-20260101000000-12ab"), Some("a-b"));
        for other in ["party-a", "party-a-x-12ab", "unnamed-12ab", "party-1-12ab"] {
            assert_eq!(team(other), None, "{other}");
        }
    }
}

//! What a check gets to see of our environment.

use std::ffi::{OsStr, OsString};

use teamster_agents::{CREDENTIALS, OUTER_SESSION_VARS};

/// Whether a check does not get this variable.
///
/// What agents wrote is run here, so the credentials of agents are not for it. What the environment says about a team,
/// a session around us, a pane or a repository was said about another place.
pub(super) fn is_withheld(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    CREDENTIALS.contains(&name)
        || OUTER_SESSION_VARS.contains(&name)
        || ["TEAMSTER_", "GIT_"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
        || matches!(name, "TMUX" | "TMUX_PANE")
}

/// What it gets besides. Many tools ask nothing, watch nothing and colour nothing with it.
/// git shows it the objects that would land.
pub(super) fn given() -> Vec<(OsString, OsString)> {
    let mut given = vec![
        ("CI".into(), "1".into()),
        ("GIT_TERMINAL_PROMPT".into(), "0".into()),
    ];
    given.extend(teamster_isolate::git::stored_objects());
    given
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_of_agents_and_words_about_other_places_are_withheld() {
        for name in [
            "ANTHROPIC_API_KEY",
            "OPENAI_API_KEY",
            "TEAMSTER_WORKER",
            "TEAMSTER_TEAM",
            "CLAUDECODE",
            "GIT_DIR",
            "TMUX",
        ] {
            assert!(is_withheld(OsStr::new(name)), "{name}");
        }
        for name in [
            "PATH",
            "HOME",
            "CARGO_HOME",
            "AWS_PROFILE",
            "GITHUB_TOKEN",
            "TEAM",
            "",
        ] {
            assert!(!is_withheld(OsStr::new(name)), "{name}");
        }
    }
}

//! The environment of a check.

use std::ffi::{OsStr, OsString};

use teamster_agents::{CREDENTIALS, OUTER_SESSION_VARS};

/// Returns whether a check does not get this variable.
///
/// A check runs code that agents wrote, so it must not get their credentials. Variables about a team, an enclosing
/// session, a pane or a repository describe another place.
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

/// Returns the additional variables of a check. They make tools run without prompts, watch mode and colours, and
/// make git read the objects as they are stored, which is what would land.
pub(super) fn check_variables() -> Vec<(OsString, OsString)> {
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

//! The client's own files, read and never changed: its teams, tasks, inboxes and sessions.
//!
//! The client rewrites them in place, so a read may find half a file; it is read again. A file that cannot be
//! understood hides no other. Nothing in them is trusted: a name is compared, and only ever used in a path as one plain
//! component.

mod inboxes;
mod pdca;
mod registry;
mod sessions;
mod tasks;

pub use inboxes::Note;
pub(crate) use inboxes::structured;
pub use pdca::{Pdca, pdca, team_is_enabled};
pub use registry::{Member, Registry, Team};
pub use tasks::TaskFolder;

/// What a teammate in a pane of its own was started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaneArguments {
    /// `--agent-name`
    pub name: String,
    /// `--team-name`
    pub team: String,
    /// `--parent-session-id`: the lead's session.
    pub lead_session: String,
}

impl PaneArguments {
    /// Reads them from the command line of the client.
    pub fn of_process(pid: u32) -> Option<Self> {
        Self::of_words(&teamster_fs::proc::arguments(pid)?)
    }

    fn of_words(words: &[String]) -> Option<Self> {
        let value = |option: &str| -> Option<String> {
            let mut rest = words.iter().skip_while(|word| {
                *word != option
                    && !word
                        .strip_prefix(option)
                        .is_some_and(|rest| rest.starts_with('='))
            });
            let found = rest.next()?;
            match found.strip_prefix(option)?.strip_prefix('=') {
                Some(value) => Some(value.to_owned()),
                None => rest.next().cloned(),
            }
        };
        let id = value("--agent-id").unwrap_or_default();
        let (name_of_id, team_of_id) = id.split_once('@').unwrap_or_default();
        let or = |option: &str, other: &str| {
            value(option)
                .or_else(|| Some(other.to_owned()))
                .filter(|value| !value.is_empty())
        };
        Some(Self {
            name: or("--agent-name", name_of_id)?,
            team: or("--team-name", team_of_id)?,
            lead_session: value("--parent-session-id").unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pane_is_known_by_how_it_was_started() {
        let words = |line: &str| -> Vec<String> { line.split(' ').map(str::to_owned).collect() };
        let line = "claude --agent-id w1@t --agent-name w1 --team-name t --parent-session-id s";
        let expected = PaneArguments {
            name: "w1".to_owned(),
            team: "t".to_owned(),
            lead_session: "s".to_owned(),
        };
        assert_eq!(
            PaneArguments::of_words(&words(line)),
            Some(expected.clone())
        );
        let line = "claude --agent-id=w1@t --parent-session-id=s";
        assert_eq!(PaneArguments::of_words(&words(line)), Some(expected));
        assert_eq!(PaneArguments::of_words(&words("claude --resume x")), None);
    }
}

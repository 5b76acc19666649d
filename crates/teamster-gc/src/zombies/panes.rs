//! Panes of tmux, as its servers list them.

use std::path::{Path, PathBuf};

/// A pane of tmux.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pane {
    /// The socket of its server.
    pub server: PathBuf,
    /// Its name there, such as `%1`.
    pub id: String,
    /// Whether its program has ended.
    pub dead: bool,
}

/// What is known about panes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Panes {
    /// Nobody asked.
    NotAsked,
    /// A server did not answer, and why.
    Silent(String),
    /// Every server answered, and these are all panes.
    Listed(Vec<Pane>),
}

impl Panes {
    /// What a server must be asked for, so that [`Pane::parse`] understands the answer.
    pub const FORMAT: &'static str = "#{pane_id} #{pane_dead}";
}

impl Pane {
    /// The panes in a server's answer to `list-panes -a -F` with [`Panes::FORMAT`].
    pub fn parse(server: &Path, answer: &str) -> Vec<Pane> {
        answer
            .lines()
            .filter_map(|line| {
                let (id, dead) = line.split_once(' ')?;
                id.starts_with('%').then(|| Pane {
                    server: server.to_owned(),
                    id: id.to_owned(),
                    dead: dead.trim() == "1",
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_line_by_line() {
        let server = Path::new("/tmp/tmux-0/default");
        let panes = Pane::parse(server, "%0 0\n%12 1\nno server running\n%3\n");
        let seen: Vec<_> = panes
            .iter()
            .map(|pane| (pane.id.as_str(), pane.dead))
            .collect();
        assert_eq!(seen, [("%0", false), ("%12", true)]);
    }
}

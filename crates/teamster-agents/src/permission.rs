//! What an agent may do: one policy, whatever client asks.
//!
//! File tools are allowed inside the worktree and denied outside it and on the paths that are always denied. A shell
//! is a setting. Everything else is denied unless a setting forwards it to a person. This keeps an honest agent on
//! its own ground; an agent with a shell is held by its sandbox, if it has one, and by the check of what it changed.

use std::path::{Component, Path, PathBuf};

use crate::event::PermissionDecision;

/// What an agent may do.
#[derive(Clone, Copy, Debug)]
pub struct Permissions {
    /// The rule for commands.
    pub shell: Rule,
    /// The rule for everything that is neither a file of the worktree nor a command.
    pub other: Rule,
    /// Returns where a path really leads, links followed, the last parts possibly not there yet; `None`: nobody can tell.
    pub real: fn(&Path) -> Option<PathBuf>,
}

impl Default for Permissions {
    fn default() -> Self {
        Self {
            shell: Rule::Allow,
            other: Rule::Deny,
            real: teamster_fs::real_path,
        }
    }
}

/// What happens to a request of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rule {
    /// It is granted.
    Allow,
    /// It is not.
    Deny,
    /// A person is asked. A client that cannot wait for one takes it for a denial.
    Ask,
}

impl Rule {
    /// The rule that a word stands for.
    pub fn of(word: &str) -> Option<Self> {
        [Self::Allow, Self::Deny, Self::Ask]
            .into_iter()
            .find(|rule| rule.word() == word)
    }

    /// Its word in settings.
    pub fn word(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::Ask => "ask",
        }
    }
}

/// What an agent wants to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ToolRequest {
    /// Read or write these files, relative ones as seen from the worktree.
    Files(Vec<PathBuf>),
    /// Run a command.
    Shell,
    /// Something else, by the name of its tool.
    Other(String),
}

impl Permissions {
    pub(crate) fn decide(&self, worktree: &Path, request: &ToolRequest) -> PermissionDecision {
        match request {
            ToolRequest::Files(paths) => paths
                .iter()
                .find_map(|path| self.objection(worktree, path))
                .map_or(PermissionDecision::Allowed, |reason| {
                    PermissionDecision::Denied { reason }
                }),
            ToolRequest::Shell => follow(self.shell, || {
                "commands are not allowed here (setting `permissions.shell`)".to_owned()
            }),
            ToolRequest::Other(tool) => follow(self.other, || {
                format!(
                    "the tool {tool} is not allowed for workers; use files and commands (setting `permissions.other`)"
                )
            }),
        }
    }

    /// Why a file may not be touched.
    fn objection(&self, worktree: &Path, path: &Path) -> Option<String> {
        let whole = worktree.join(path);
        let outside = || {
            format!(
                "{} is outside of this worktree ({})",
                path.display(),
                worktree.display()
            )
        };
        // Both ways to read `a/../b` must stay inside: as text, as a tool may, and as the kernel follows links.
        let Some(as_text) = lexical(&whole) else {
            return Some(outside());
        };
        let (Some(home), Some(in_fact)) = ((self.real)(worktree), (self.real)(&whole)) else {
            return Some(outside());
        };
        for (root, leads_to) in [(worktree, &as_text), (home.as_path(), &in_fact)] {
            let Ok(inner) = leads_to.strip_prefix(root) else {
                return Some(outside());
            };
            if let Some(pattern) = teamster_types::denied::pattern(inner) {
                return Some(format!("{} is always denied ({pattern})", path.display()));
            }
        }
        None
    }
}

fn follow(rule: Rule, reason: impl FnOnce() -> String) -> PermissionDecision {
    match rule {
        Rule::Allow => PermissionDecision::Allowed,
        Rule::Deny => PermissionDecision::Denied { reason: reason() },
        Rule::Ask => PermissionDecision::Asked,
    }
}

/// The path without `.` and `..`, as text; `None` when it climbs above the root.
fn lexical(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                if !plain.pop() {
                    return None;
                }
            }
            other => plain.push(other),
        }
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn as_named(path: &Path) -> Option<PathBuf> {
        lexical(path)
    }

    fn allows(path: &str) -> bool {
        let permissions = Permissions {
            real: as_named,
            ..Permissions::default()
        };
        let request = ToolRequest::Files(vec![path.into()]);
        permissions.decide(Path::new("/w/tree"), &request) == PermissionDecision::Allowed
    }

    #[test]
    fn files_inside_are_allowed_and_outside_denied() {
        for inside in ["a", "a/b.rs", "/w/tree/a", "a/../b", "./a", "/w/tree"] {
            assert!(allows(inside), "{inside}");
        }
        for outside in [
            "..",
            "../a",
            "/w/tree/../a",
            "a/../../tree2/x",
            "/etc/passwd",
            "/w/treehouse/a",
            "/",
        ] {
            assert!(!allows(outside), "{outside}");
        }
    }

    #[test]
    fn some_paths_are_denied_even_inside() {
        for denied in [
            ".git",
            ".git/config",
            ".env",
            "a/.env.local",
            "secrets/k",
            "x/.ssh/id",
        ] {
            assert!(!allows(denied), "{denied}");
        }
        for fine in [".gitignore", "environment.rs", "src/secrets.rs"] {
            assert!(allows(fine), "{fine}");
        }
    }

    #[test]
    fn a_link_that_leads_out_is_outside() {
        let permissions = Permissions {
            real: |path| {
                let inner = path
                    .strip_prefix("/w/tree/link")
                    .map(|rest| Path::new("/etc").join(rest));
                Some(inner.unwrap_or_else(|_| path.to_owned()))
            },
            ..Permissions::default()
        };
        let decide = |path: &str| {
            permissions.decide(Path::new("/w/tree"), &ToolRequest::Files(vec![path.into()]))
        };
        assert_eq!(decide("plain/a"), PermissionDecision::Allowed);
        assert!(matches!(
            decide("link/passwd"),
            PermissionDecision::Denied { .. }
        ));
    }

    #[test]
    fn what_cannot_be_resolved_is_denied() {
        let permissions = Permissions {
            real: |_| None,
            ..Permissions::default()
        };
        let request = ToolRequest::Files(vec!["a".into()]);
        assert!(matches!(
            permissions.decide(Path::new("/w"), &request),
            PermissionDecision::Denied { .. }
        ));
    }

    #[test]
    fn commands_and_the_rest_follow_their_rules() {
        let mut permissions = Permissions::default();
        let root = Path::new("/w");
        assert_eq!(
            permissions.decide(root, &ToolRequest::Shell),
            PermissionDecision::Allowed
        );
        let other = ToolRequest::Other("WebFetch".into());
        assert!(matches!(
            permissions.decide(root, &other),
            PermissionDecision::Denied { .. }
        ));
        permissions.shell = Rule::Ask;
        assert_eq!(
            permissions.decide(root, &ToolRequest::Shell),
            PermissionDecision::Asked
        );
    }
}

//! What an agent may do: one policy for all clients.
//!
//! File tools are allowed inside the worktree, but denied outside of it and on the paths that are always denied. Shell access
//! is a setting. Everything else is denied unless a setting forwards it to a person. This keeps an honest agent within its
//! worktree; an agent with a shell is confined by its sandbox, if it has one, and by the check of its changes.

use std::path::{Component, Path, PathBuf};

use crate::event::PermissionDecision;

/// Programs that only read and start nothing, whatever their arguments are; `find` is one except with [`ACTIONS`].
const READERS: [&str; 7] = ["cat", "find", "grep", "head", "ls", "tail", "wc"];
/// Prefixes of options that write, start a process or follow links out of the folder.
const ACTIONS: [&str; 9] = [
    "-exec",
    "-ok",
    "-delete",
    "-fprint",
    "-fls",
    "-follow",
    "-L",
    "-H",
    "--dereference",
];
/// Characters with a meaning for the shell. A command with any of them is not a single program with plain words.
const SHELL_SIGNS: &str = "|&;<>()$`\\\"'{}!#*?[\n\r";

/// What an agent may do.
#[derive(Clone, Copy, Debug)]
pub struct Permissions {
    /// The rule for commands.
    pub shell: Rule,
    /// The rule for everything that is neither a file of the worktree nor a command.
    pub other: Rule,
    /// Resolves all links in a path whose last parts need not exist yet; `None` when that is not possible.
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

/// The rule for requests of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rule {
    /// Requests are granted.
    Allow,
    /// Requests are denied.
    Deny,
    /// Requests are granted if they only read files of the worktree. Commands are limited to a few programs with plain words; a
    /// client with its own sandbox runs any command in a read-only one. Edits of files are denied as well. The configuration
    /// cannot set this rule.
    Read,
    /// A person decides. A client that cannot wait for a decision treats this as a denial.
    Ask,
}

impl Rule {
    /// Returns the rule with this name in the configuration.
    pub fn of(word: &str) -> Option<Self> {
        [Self::Allow, Self::Deny, Self::Ask]
            .into_iter()
            .find(|rule| rule.word() == word)
    }

    /// Returns the rule's name in the configuration.
    pub fn word(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::Ask => "ask",
            Self::Read => "read",
        }
    }
}

/// A request of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ToolRequest {
    /// Read these files; relative paths start at the worktree.
    Files(Vec<PathBuf>),
    /// Change these files.
    Edit(Vec<PathBuf>),
    /// Run a command, which is empty when the client does not report it.
    Shell(String),
    /// Use another tool, given by its name.
    Other(String),
}

impl Permissions {
    pub(crate) fn decide(&self, worktree: &Path, request: &ToolRequest) -> PermissionDecision {
        match request {
            ToolRequest::Edit(_) if self.shell == Rule::Read => PermissionDecision::Denied {
                reason: "here you only read; say in your answer what should be changed".to_owned(),
            },
            ToolRequest::Files(paths) | ToolRequest::Edit(paths) => paths
                .iter()
                .find_map(|path| self.objection(worktree, path))
                .map_or(PermissionDecision::Allowed, |reason| {
                    PermissionDecision::Denied { reason }
                }),
            ToolRequest::Shell(command) if self.shell == Rule::Read => {
                match self.not_reading(worktree, command) {
                    Some(reason) => PermissionDecision::Denied { reason },
                    None => PermissionDecision::Allowed,
                }
            }
            ToolRequest::Shell(_) => follow(self.shell, || {
                "commands are not allowed here (setting `permissions.shell`)".to_owned()
            }),
            ToolRequest::Other(tool) => follow(self.other, || {
                format!(
                    "the tool {tool} is not allowed for workers; use files and commands (setting `permissions.other`)"
                )
            }),
        }
    }

    /// Returns why a command may do more than read files of the worktree, or `None` when it only reads.
    fn not_reading(&self, worktree: &Path, command: &str) -> Option<String> {
        let programs = READERS.join(", ");
        let refused = |what: &str| {
            Some(format!(
                "{what}; here you can run {programs}, each alone and with plain words that name files of this folder"
            ))
        };
        let mut words = command.split_whitespace();
        let program = words.next().unwrap_or_default();
        if !READERS.contains(&program) {
            return refused("this command may do more than read");
        }
        if command.contains(|sign| SHELL_SIGNS.contains(sign)) {
            return refused("this is more than one program with plain words");
        }
        for word in words {
            let is_short = word.starts_with('-') && !word.starts_with("--");
            let follows_links = program == "grep" && is_short && word.contains('R');
            if follows_links || ACTIONS.iter().any(|action| word.starts_with(action)) {
                return refused("this command may do more than read");
            }
            // An option may contain a file name in ways that cannot all be known.
            if word.starts_with('-') && word.contains(['/', '~', '.']) || word.starts_with('~') {
                return refused("it names a file in a way that cannot be checked");
            }
            if let Some(reason) = self.objection(worktree, Path::new(word)) {
                return Some(reason);
            }
        }
        None
    }

    /// Returns why a file may not be touched, or `None` when it may.
    fn objection(&self, worktree: &Path, path: &Path) -> Option<String> {
        let whole = worktree.join(path);
        let outside = || {
            format!(
                "{} is outside of this worktree ({})",
                path.display(),
                worktree.display()
            )
        };
        // Both interpretations of `a/../b` must stay inside: as text, as a tool may read it, and with links, as the kernel does.
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
        Rule::Deny | Rule::Read => PermissionDecision::Denied { reason: reason() },
        Rule::Ask => PermissionDecision::Asked,
    }
}

/// Returns the path without `.` and `..`, resolved as text, or `None` when it climbs above the root.
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
            permissions.decide(root, &ToolRequest::Shell("make".into())),
            PermissionDecision::Allowed
        );
        let other = ToolRequest::Other("WebFetch".into());
        assert!(matches!(
            permissions.decide(root, &other),
            PermissionDecision::Denied { .. }
        ));
        permissions.shell = Rule::Ask;
        assert_eq!(
            permissions.decide(root, &ToolRequest::Shell("make".into())),
            PermissionDecision::Asked
        );
    }

    #[test]
    fn commands_of_a_reader_only_read_files_of_its_folder() {
        let permissions = Permissions {
            shell: Rule::Read,
            real: |path| Some(path.to_owned()),
            ..Permissions::default()
        };
        let decide = |command: &str| {
            let request = ToolRequest::Shell(command.to_owned());
            permissions.decide(Path::new("/w"), &request)
        };
        for command in [
            "ls",
            "ls -la src",
            "cat src/a.rs",
            "grep -rn fn src",
            "find src -name a.rs",
            "wc -l a b",
        ] {
            assert_eq!(decide(command), PermissionDecision::Allowed, "{command}");
        }
        for command in [
            "",
            "rm a",
            "ls; rm a",
            "cat a > b",
            "cat $(rm a)",
            "cat `rm a`",
            "ls\nrm a",
            "ls & rm a",
            "cat /etc/passwd",
            "cat ../a",
            "cat ~/a",
            "cat .env",
            "grep -f/etc/passwd a",
            "grep --file=/etc/passwd a",
            "find . -delete",
            "find -L .",
            "grep -nR a .",
            "cat .e*",
            "find . -exec rm a",
            "find . -execdir rm a",
            "git log",
            "./ls",
        ] {
            assert!(
                matches!(decide(command), PermissionDecision::Denied { .. }),
                "{command}"
            );
        }
        let read = ToolRequest::Files(vec!["a".into()]);
        assert_eq!(
            permissions.decide(Path::new("/w"), &read),
            PermissionDecision::Allowed
        );
        let edit = ToolRequest::Edit(vec!["a".into()]);
        assert!(matches!(
            permissions.decide(Path::new("/w"), &edit),
            PermissionDecision::Denied { .. }
        ));
        assert_eq!(Rule::of("read"), None, "no setting has it");
    }
}

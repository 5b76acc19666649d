//! The things that a run leaves behind, and how to access them.

use std::ffi::OsString;
use std::path::Path;

use teamster_isolate::child::say;

/// One thing that a run leaves behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftBehind {
    /// The kind of thing: `branch`, `worktree`, `commit`, `salvaged work`, `private file`.
    pub what: &'static str,
    /// Its name or path.
    pub name: String,
    /// Why it still exists.
    pub why: String,
    /// The command to access it.
    pub command: String,
}

impl LeftBehind {
    /// Returns a branch, with a command that compares it with the commit that the work began from.
    pub fn branch(name: &str, base: Option<&str>, why: &str) -> Self {
        let full = full_name(name);
        let range = match base {
            Some(base) => format!("{base}..{full}"),
            None => full,
        };
        Self::new("branch", name, why, "git", &["log", "--stat", &range, "--"])
    }

    /// Returns a branch with salvaged uncommitted work.
    pub fn salvaged(name: &str, why: &str) -> Self {
        let left = Self::branch(name, None, why);
        Self {
            what: "salvaged work",
            command: command("git", &["log", "--patch", &full_name(name), "--"]),
            ..left
        }
    }

    /// Returns a worktree of this name in the team's folder, at this path.
    pub fn worktree(team: &str, name: &str, path: &str, why: &str) -> Self {
        let args = ["worktree", "salvage", name, "--team", team];
        Self::new("worktree", path, why, "teamster", &args)
    }

    /// Returns a reference of teamster's that keeps a commit.
    pub fn reference(name: &str, why: &str) -> Self {
        Self::new("commit", name, why, "git", &["show", name, "--"])
    }

    /// Returns a file that must not be committed.
    pub fn secret(path: &str, why: &str) -> Self {
        Self::new("private file", path, why, "ls", &["-l", path])
    }

    fn new(what: &'static str, name: &str, why: &str, program: &str, args: &[&str]) -> Self {
        Self {
            what,
            name: name.to_owned(),
            why: why.to_owned(),
            command: command(program, args),
        }
    }
}

/// Returns the full name of a branch, which is unambiguous even if a tag has the same name.
fn full_name(branch: &str) -> String {
    format!("refs/heads/{branch}")
}

/// Returns a command line that can be pasted, whatever characters the names contain.
fn command(program: &str, args: &[&str]) -> String {
    let args: Vec<OsString> = args.iter().map(Into::into).collect();
    say(Path::new(program), &args)
}

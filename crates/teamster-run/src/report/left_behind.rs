//! What a run leaves behind, and how to get at it.

use std::ffi::OsString;
use std::path::Path;

use teamster_isolate::child::say;

/// One thing that a run leaves behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftBehind {
    /// What it is: `branch`, `worktree`, `commit`, `salvaged work`, `private file`.
    pub what: &'static str,
    /// Its name or path.
    pub name: String,
    /// Why it is still there.
    pub why: String,
    /// The command that gets at it.
    pub command: String,
}

impl LeftBehind {
    /// Returns a branch, seen from the commit that the work began from.
    pub fn branch(name: &str, base: Option<&str>, why: &str) -> Self {
        let full = full_name(name);
        let range = match base {
            Some(base) => format!("{base}..{full}"),
            None => full,
        };
        Self::new("branch", name, why, "git", &["log", "--stat", &range, "--"])
    }

    /// Returns a branch that keeps what was found uncommitted somewhere.
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

    /// Returns a reference of ours that keeps a commit.
    pub fn reference(name: &str, why: &str) -> Self {
        Self::new("commit", name, why, "git", &["show", name, "--"])
    }

    /// Returns a file that must be in no commit.
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

/// Returns the full name of a branch, which means the branch even where a tag is called the same.
fn full_name(branch: &str) -> String {
    format!("refs/heads/{branch}")
}

/// Returns a command line that can be pasted, whatever the names hold.
fn command(program: &str, args: &[&str]) -> String {
    let args: Vec<OsString> = args.iter().map(Into::into).collect();
    say(Path::new(program), &args)
}

//! Which checks a project's own files show.

mod make;
mod node;
mod python;

use std::ffi::OsStr;

use teamster_fs::{Dir, FileKind};
use teamster_isolate::find_program;

use teamster_journal::payload::Check;

/// A file that is larger is not looked into: it was not written by a person.
const LARGEST: u64 = 4 * 1024 * 1024;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Detected {
    /// The checks, in the order in which they are to be run.
    pub checks: Vec<Check>,
    /// What was left out.
    pub skipped: Vec<Skipped>,
}

/// A check that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The command, or the file that could not be looked into.
    pub command: String,
    /// Why.
    pub why: String,
}

/// Finds the checks of the project in `dir`; programs are looked for in `path`, a list as in `PATH`.
///
/// Whatever stands in the folder, this never fails: what cannot be read is skipped, and that is told. Links are not
/// followed.
pub fn detect(dir: &Dir, path: &OsStr) -> Detected {
    let mut search = Search {
        dir,
        path,
        found: Detected::default(),
    };
    if search.has("Cargo.toml") {
        search.add("cargo", "cargo check", "Cargo.toml");
        search.add("cargo", "cargo test", "Cargo.toml");
        search.add("cargo-clippy", "cargo clippy", "Cargo.toml");
    }
    node::search(&mut search);
    python::search(&mut search);
    if search.has("go.mod") {
        search.add("go", "go vet ./...", "go.mod");
        search.add("go", "go test ./...", "go.mod");
    }
    make::search(&mut search);
    search.found
}

/// A search that goes on.
struct Search<'a> {
    dir: &'a Dir,
    path: &'a OsStr,
    found: Detected,
}

impl Search<'_> {
    /// Whether a plain file of that name is there. One that is something else is told.
    fn has(&mut self, name: &str) -> bool {
        match self.dir.stamp(name) {
            Ok(Some(stamp)) if stamp.kind == FileKind::File => true,
            Ok(Some(stamp)) if stamp.kind == FileKind::Link => {
                self.skip(name, "it is a link, and those are not followed");
                false
            }
            _ => false,
        }
    }

    /// Whether a folder of that name is there.
    fn folder(&self, name: &str) -> Option<Dir> {
        self.dir.child(name).ok().flatten()
    }

    /// The text of a file that is there. Why there is none is told.
    fn text(&mut self, name: &str) -> Option<String> {
        if !self.has(name) {
            return None;
        }
        let is_small = matches!(self.dir.stamp(name), Ok(Some(stamp)) if stamp.size <= LARGEST);
        if !is_small {
            self.skip(name, "it is too large to look into");
            return None;
        }
        match self.dir.read(name) {
            Ok(Some((bytes, _))) => {
                let text = String::from_utf8_lossy(&bytes);
                Some(text.trim_start_matches('\u{feff}').to_owned())
            }
            Ok(None) => None,
            Err(error) => {
                self.skip(name, error.to_string());
                None
            }
        }
    }

    /// Adds a check, if its program is there.
    fn add(&mut self, program: &str, command: impl Into<String>, source: impl Into<String>) {
        let command = command.into();
        if find_program(program, self.path).is_some() {
            self.found.checks.push(Check::of_project(command, source));
        } else {
            self.skip(command, format!("`{program}` is not on PATH"));
        }
    }

    fn skip(&mut self, command: impl Into<String>, why: impl Into<String>) {
        let skipped = Skipped {
            command: command.into(),
            why: why.into(),
        };
        if !self.found.skipped.contains(&skipped) {
            self.found.skipped.push(skipped);
        }
    }
}

#[cfg(test)]
mod tests;

//! Detects the checks of a project by its files.

mod node;

use std::ffi::OsStr;

use teamster_fs::{Dir, FileKind};
use teamster_isolate::find_program;

use teamster_journal::payload::Check;

/// The largest file that is read: a larger one was not written by a person.
const LARGEST_FILE: u64 = 4 * 1024 * 1024;

/// The names of a makefile, in the order in which make looks for them.
const MAKEFILES: [&str; 3] = ["GNUmakefile", "makefile", "Makefile"];
const PYPROJECT: &str = "pyproject.toml";

/// The result of the detection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DetectedChecks {
    /// The checks, in the order in which they are to be run.
    pub checks: Vec<Check>,
    /// The checks that were left out.
    pub skipped: Vec<SkippedCheck>,
}

/// A check that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedCheck {
    /// The command, or the file that could not be read.
    pub command: String,
    /// Why it was left out.
    pub why: String,
}

/// Finds the checks of the project in `dir`; programs are searched for in `path`, a list as in `PATH`.
///
/// This never fails, whatever the folder contains: a file that cannot be read is skipped and reported. Links are not
/// followed.
pub fn detect(dir: &Dir, path: &OsStr) -> DetectedChecks {
    let mut search = Detector {
        dir,
        path,
        found: DetectedChecks::default(),
    };
    if search.has("Cargo.toml") {
        search.add("cargo", "cargo check", "Cargo.toml");
        search.add("cargo", "cargo test", "Cargo.toml");
        search.add("cargo-clippy", "cargo clippy", "Cargo.toml");
    }
    node::search(&mut search);
    search_python(&mut search);
    if search.has("go.mod") {
        search.add("go", "go vet ./...", "go.mod");
        search.add("go", "go test ./...", "go.mod");
    }
    search_make(&mut search);
    search.found
}

/// The state of a detection.
struct Detector<'a> {
    dir: &'a Dir,
    path: &'a OsStr,
    found: DetectedChecks,
}

impl Detector<'_> {
    /// Returns whether there is a regular file of that name. A link is reported as skipped.
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

    /// Returns the folder of that name, if it exists.
    fn folder(&self, name: &str) -> Option<Dir> {
        self.dir.child(name).ok().flatten()
    }

    /// Returns the text of a file, if it exists. A file that cannot be read is reported as skipped.
    fn text(&mut self, name: &str) -> Option<String> {
        if !self.has(name) {
            return None;
        }
        let is_small =
            matches!(self.dir.stamp(name), Ok(Some(stamp)) if stamp.size <= LARGEST_FILE);
        if !is_small {
            self.skip(name, "it is too large to read");
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

    /// Adds a check if its program is installed; otherwise the check is reported as skipped.
    fn add(&mut self, program: &str, command: impl Into<String>, source: impl Into<String>) {
        let command = command.into();
        if find_program(program, self.path).is_some() {
            self.found.checks.push(Check::of_project(command, source));
        } else {
            self.skip(command, format!("`{program}` is not on PATH"));
        }
    }

    fn skip(&mut self, command: impl Into<String>, why: impl Into<String>) {
        let skipped = SkippedCheck {
            command: command.into(),
            why: why.into(),
        };
        if !self.found.skipped.contains(&skipped) {
            self.found.skipped.push(skipped);
        }
    }
}

/// Finds the checks of a Python project by its `pyproject.toml`. Not every Python project uses every tool, so a tool is
/// used only if the project mentions it.
fn search_python(search: &mut Detector<'_>) {
    let Some(text) = search.text(PYPROJECT) else {
        return;
    };
    let settings = match text.parse::<toml::Table>() {
        Ok(settings) => toml::Value::Table(settings),
        Err(error) => {
            search.skip(PYPROJECT, format!("it is not TOML: {}", error.message()));
            toml::Value::Table(toml::Table::new())
        }
    };
    let shows_pytest = mentions(&settings, "pytest")
        || search.has("pytest.ini")
        || search.has("conftest.py")
        || has_tests(search);
    if shows_pytest {
        search.add("pytest", "pytest", PYPROJECT);
    }
    let shows_ruff =
        mentions(&settings, "ruff") || search.has("ruff.toml") || search.has(".ruff.toml");
    if shows_ruff {
        search.add("ruff", "ruff check .", PYPROJECT);
    }
}

/// Returns whether a key has this name (`[tool.ruff]`), or a string begins with it (`"ruff>=0.5"`).
fn mentions(value: &toml::Value, tool: &str) -> bool {
    match value {
        toml::Value::String(text) => text
            .strip_prefix(tool)
            .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric())),
        toml::Value::Array(items) => items.iter().any(|item| mentions(item, tool)),
        toml::Value::Table(table) => table
            .iter()
            .any(|(key, item)| key == tool || mentions(item, tool)),
        _ => false,
    }
}

/// Returns whether there is a file that pytest would collect, at the top level or in a folder of tests.
fn has_tests(search: &Detector<'_>) -> bool {
    let is_test = |name: &str| {
        name.strip_suffix(".py")
            .is_some_and(|stem| stem.starts_with("test_") || stem.ends_with("_test"))
    };
    let folders = ["tests", "test"].map(|name| search.folder(name));
    std::iter::once(search.dir)
        .chain(folders.iter().flatten())
        .filter_map(|folder| folder.entries().ok())
        .flatten()
        .any(|entry| is_test(&entry.name))
}

/// Finds a makefile with a target `test`.
fn search_make(search: &mut Detector<'_>) {
    let Some(file) = MAKEFILES.into_iter().find(|file| search.has(file)) else {
        return;
    };
    if let Some(text) = search.text(file)
        && text.lines().any(is_test_rule)
    {
        search.add("make", "make test", file);
    }
}

/// Returns whether a line begins the rule for `test`, alone or among others.
fn is_test_rule(line: &str) -> bool {
    // Recipes begin with a tab, and no rule is indented.
    if line.starts_with(['\t', ' ', '#']) {
        return false;
    }
    let Some((targets, rest)) = line.split_once(':') else {
        return false;
    };
    // The lines `test := x`, `test ::= x` and `test = a:b` assign variables.
    let is_variable = rest.trim_start_matches(':').starts_with('=') || targets.contains('=');
    !is_variable && targets.split_whitespace().any(|target| target == "test")
}

#[cfg(test)]
mod tests;

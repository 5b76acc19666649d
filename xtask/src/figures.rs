//! Statistics about the source: lines, files, names shared by several types, doc comments that are fragments, and the
//! files that the journeys of ARCHITECTURE.md pass through.
//!
//! The source is read line by line as formatted by rustfmt, so an item ends at the brace with the indentation of its
//! first line. Test modules of a crate, inline or in separate files, count as tests, and so do the test kit and the
//! `tests` folder of a crate.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::product::{Finished, TempProject, files, must, workspace};

/// A file with fewer lines is short.
const SHORT: usize = 60;
/// Derives whose doc comments are help texts, which have no full stop.
const HELP: [&str; 4] = ["Args", "Parser", "Subcommand", "ValueEnum"];

/// The statistics of one part of the source.
#[derive(Debug, Default)]
struct Figures {
    lines: usize,
    /// Lines that are neither blank nor a comment.
    code: usize,
    files: usize,
    short: usize,
    /// The places of each type's definition, by name.
    types: BTreeMap<String, Vec<String>>,
    /// The places of doc comments that are fragments, with their text.
    fragments: Vec<String>,
}

/// Reads one number of a part.
type Figure = fn(&Figures) -> usize;

/// Prints the statistics of the source, after those of an earlier commit if one is given; with `list` each place.
pub(crate) fn run(list: bool, before: Option<&str>) -> Result<()> {
    if let Some(commit) = before {
        let place = TempProject::new()?;
        let archive = place.root().join("source.tar");
        let git = |words: &[&str]| {
            let mut command = Command::new("git");
            command.current_dir(workspace()).args(words);
            command
        };
        let parts = ["crates", "tests", "xtask", "ARCHITECTURE.md"];
        let mut pack = git(&["archive", "--output"]);
        must(pack.arg(&archive).args([commit, "--"]).args(parts))?;
        let mut unpack = Command::new("tar");
        must(unpack.arg("-xf").arg(&archive).current_dir(place.root()))?;
        let about = Finished::checked(&mut git(&["log", "-1", "--format=%h, %as, %s", commit]))?;
        println!("Before ({})\n", about.stdout.trim());
        show(place.root(), list)?;
        println!("\nNow\n");
    }
    show(&workspace(), list)
}

fn show(tree: &Path, list: bool) -> Result<()> {
    let mut parts: [Figures; 3] = Default::default();
    for (folder, part) in [("crates", 0), ("tests", 1), ("xtask", 2)] {
        let root = tree.join(folder);
        let mut sources = Vec::new();
        for name in files(&root, &[""])? {
            let is_rust = Path::new(&name).extension().is_some_and(|end| end == "rs");
            if is_rust && !name.contains("/target/") {
                let text = std::fs::read_to_string(root.join(&name))?;
                sources.push((name, text));
            }
        }
        let declared = sources
            .iter()
            .flat_map(|(name, text)| test_modules(name, text));
        let declared: Vec<String> = declared.collect();
        for (name, text) in &sources {
            let is_of = |test: &String| {
                let rest = name.strip_prefix(test);
                rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
            };
            let is_test = name.starts_with("teamster-testkit/")
                || name.contains("/tests/")
                || declared.iter().any(is_of);
            let part = if part == 0 && is_test { 1 } else { part };
            let (code, inline_tests) = split(text);
            parts[part].files += 1;
            parts[part].short += usize::from(text.lines().count() < SHORT);
            parts[if part == 0 { 1 } else { part }].count(inline_tests);
            parts[part].read(&format!("{folder}/{name}"), &code);
        }
    }
    let names = ["product", "tests", "xtask"];
    let [product, tests, xtask] = names;
    println!("{:<34} {product:>8} {tests:>8} {xtask:>8} {:>8}", "", "all");
    let short = format!("files under {SHORT} lines");
    let rows: [(&str, Figure); 6] = [
        ("lines", |part| part.lines),
        ("lines of code", |part| part.code),
        ("Rust files", |part| part.files),
        (&short, |part| part.short),
        ("names of more than one type", |part| {
            part.shared_names().count()
        }),
        ("doc comments that are fragments", |part| {
            part.fragments.len()
        }),
    ];
    for (what, figure) in rows {
        let each = parts.each_ref().map(figure);
        let [product, tests, xtask] = each;
        let all: usize = each.iter().sum();
        println!("{what:<34} {product:>8} {tests:>8} {xtask:>8} {all:>8}");
    }
    let architecture = std::fs::read_to_string(tree.join("ARCHITECTURE.md")).unwrap_or_default();
    for (journey, hops) in journeys(&architecture) {
        println!("files on the way of {journey}: {hops}");
    }
    for (name, part) in names.iter().zip(&parts) {
        let shared = part.shared_names();
        let shared: Vec<_> = shared
            .map(|(name, at)| format!("{name} {}", at.len()))
            .collect();
        if !shared.is_empty() {
            let shared = shared.join(", ");
            println!("\nNames of more than one type in {name}: {shared}.");
        }
        if list {
            for (name, places) in part.shared_names() {
                println!("{name}: {}", places.join(", "));
            }
            for fragment in &part.fragments {
                println!("{fragment}");
            }
        }
    }
    Ok(())
}

/// Returns the journeys in ARCHITECTURE.md, each with the number of files that it passes through.
fn journeys(architecture: &str) -> Vec<(&str, usize)> {
    let section = architecture.split_once("\n## Three journeys\n");
    let section = section.map_or("", |(_, rest)| rest.split("\n## ").next().unwrap_or(rest));
    let parts = section.split("\n### ").skip(1);
    parts
        .map(|journey| {
            let (title, steps) = journey.split_once('\n').unwrap_or((journey, ""));
            let files = steps.lines().filter_map(|line| line.split_once(". `"));
            (title, files.count())
        })
        .collect()
}

impl Figures {
    fn shared_names(&self) -> impl Iterator<Item = (&String, &Vec<String>)> {
        self.types.iter().filter(|(_, at)| at.len() > 1)
    }

    fn count<'a>(&mut self, lines: impl IntoIterator<Item = &'a str>) {
        for line in lines {
            let text = line.trim_start();
            self.lines += 1;
            self.code += usize::from(!text.is_empty() && !text.starts_with("//"));
        }
    }

    /// Counts the lines of a file and records its types and doc comments.
    fn read(&mut self, file: &str, code: &[(usize, &str)]) {
        self.count(code.iter().map(|(_, line)| *line));
        let (mut comment, mut help_until) = (Vec::new(), None::<String>);
        for (place, (number, line)) in code.iter().enumerate() {
            let text = line.trim_start();
            let indent = &line[..line.len() - text.len()];
            if help_until.as_deref() == Some(line) {
                help_until = None;
            }
            let doc = ["///", "//!"]
                .iter()
                .find_map(|mark| text.strip_prefix(mark));
            if let Some(doc) = doc {
                comment.push(doc.trim());
                continue;
            }
            let following = code[place..].iter().map(|(_, line)| line.trim_start());
            let mut attributes = following.take_while(|line| line.starts_with("#["));
            let is_help = attributes.any(|line| {
                line.starts_with("#[derive(") && HELP.iter().any(|help| line.contains(help))
            });
            let may_lack_stop = is_help || help_until.is_some();
            if !comment.is_empty() && is_fragment(&comment, may_lack_stop) {
                let (first, text) = (number - comment.len(), comment.join(" "));
                self.fragments.push(format!("{file}:{first}: {text}"));
            }
            comment.clear();
            if is_help {
                help_until = Some(format!("{indent}}}"));
            }
            if let Some(name) = type_name(text) {
                let places = self.types.entry(name.to_owned()).or_default();
                places.push(format!("{file}:{number}"));
            }
        }
    }
}

/// Returns whether the first paragraph of a comment is not a sentence. A help text needs no full stop.
fn is_fragment(comment: &[&str], is_help: bool) -> bool {
    let paragraph = comment.split(|line| line.is_empty()).next();
    let text = paragraph.unwrap_or_default().join(" ");
    let may_begin = |c: char| c.is_uppercase() || c.is_ascii_digit() || "`[*".contains(c);
    let begins = text.starts_with(may_begin);
    let ends = text.ends_with(['.', ':', '?', '!']) || text.ends_with("```");
    !begins || !(ends || is_help) || text.split_whitespace().count() < 2
}

/// Returns the name of the type that a line begins to define.
fn type_name(line: &str) -> Option<&str> {
    let line = match line.strip_prefix("pub(") {
        Some(rest) => rest.split_once(") ")?.1,
        None => line.strip_prefix("pub ").unwrap_or(line),
    };
    let kinds = ["struct ", "enum ", "union ", "trait "];
    let rest = kinds.iter().find_map(|kind| line.strip_prefix(kind))?;
    let name = rest
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .next();
    // In a macro the name is a variable.
    name.filter(|name| !name.is_empty())
}

/// Separates the lines of inline test modules from the others, with their numbers.
fn split(text: &str) -> (Vec<(usize, &str)>, Vec<&str>) {
    let (mut code, mut tests) = (Vec::new(), Vec::new());
    let mut until = None;
    let mut lines = (1..).zip(text.lines()).peekable();
    while let Some((number, line)) = lines.next() {
        let begins = line.trim() == "#[cfg(test)]"
            && lines
                .peek()
                .is_some_and(|(_, next)| next.contains("mod ") && next.ends_with('{'));
        if until.is_none() && begins {
            let indent = line.len() - line.trim_start().len();
            until = Some(format!("{}}}", &line[..indent]));
        }
        match &until {
            Some(end) => {
                tests.push(line);
                if line == end {
                    until = None;
                }
            }
            None => code.push((number, line)),
        }
    }
    (code, tests)
}

/// Returns the paths, without `.rs`, of the test modules that a file declares.
fn test_modules(file: &str, text: &str) -> Vec<String> {
    let path = Path::new(file);
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let folder = match stem.as_ref() {
        "lib" | "main" | "mod" => path.parent().unwrap_or(path).to_owned(),
        _ => path.with_extension(""),
    };
    let lines: Vec<&str> = text.lines().collect();
    let declared = lines.windows(2).filter(|two| two[0] == "#[cfg(test)]");
    let names = declared.filter_map(|two| two[1].strip_suffix(';')?.rsplit_once("mod "));
    names
        .map(|(_, name)| folder.join(name).to_string_lossy().into_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comment_that_does_not_stand_alone_is_a_fragment() {
        let whole = [
            "Returns the lease.",
            "`blocks` mirrors it.",
            "There are two:",
        ];
        for whole in whole {
            assert!(!is_fragment(&[whole], false), "{whole}");
        }
        for fragment in ["and its folder.", "Which.", "Returns the lease", "`fsync`"] {
            assert!(is_fragment(&[fragment], false), "{fragment}");
        }
        assert!(!is_fragment(&["List the tasks"], true));
        let with_list = ["Returns the", "lease.", "", "- a list"];
        assert!(!is_fragment(&with_list, false));
    }

    #[test]
    fn steps_of_a_journey_are_counted() {
        let text = "# A\n\n## Three journeys\n\nWords.\n\n### One\n\n1. `a.rs` (`f`): x.\n2. `b.rs` (`g`): y.\n\n### Two\n\n1. `a.rs` (`f`): x.\n\n## Next\n\n1. `c.rs`\n";
        assert_eq!(journeys(text), [("One", 2), ("Two", 1)]);
        assert_eq!(journeys("# A\n"), []);
    }

    #[test]
    fn test_modules_are_told_from_code() {
        let text = "struct A;\n#[cfg(test)]\nmod tests {\n    struct B;\n}\npub(crate) enum C<T> {}\nstruct $name;\n";
        let (code, tests) = split(text);
        assert_eq!((code.len(), tests.len()), (3, 4));
        let names = code.iter().filter_map(|(_, line)| type_name(line));
        assert_eq!(names.collect::<Vec<_>>(), ["A", "C"]);
        let modules = |file| test_modules(file, "#[cfg(test)]\nmod tests;\n");
        assert_eq!(modules("a/src/claims.rs"), ["a/src/claims/tests"]);
        assert_eq!(modules("a/src/lib.rs"), ["a/src/tests"]);
    }
}

//! Rules about the source code itself.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use teamster_journal::EventType;
use teamster_journal::contract::documented;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The crates from top to bottom. A crate may depend only on those below it.
const LAYERS: [&str; 20] = [
    "teamster",
    "teamster-studio",
    "teamster-mcp",
    "teamster-app",
    "teamster-run",
    "teamster-gc",
    "teamster-view",
    "teamster-claude",
    "teamster-workers",
    "teamster-agents",
    "teamster-isolate",
    "teamster-party",
    "teamster-prompts",
    "teamster-postgres",
    "teamster-testkit",
    "teamster-store",
    "teamster-journal",
    "teamster-document",
    "teamster-fs",
    "teamster-types",
];

/// Returns the crates that a crate's manifest names, without dev-dependencies.
fn dependencies(name: &str) -> BTreeSet<String> {
    let manifest = root().join("crates").join(name).join("Cargo.toml");
    let text = std::fs::read_to_string(manifest).unwrap();
    let (_, rest) = text.split_once("[dependencies]").unwrap_or(("", ""));
    let table = rest.split("\n[").next().unwrap_or_default();
    let names = table
        .lines()
        .filter_map(|line| line.split(['.', ' ', '=']).next());
    let ours = names.filter(|name| name.starts_with("teamster-"));
    ours.map(str::to_owned).collect()
}

#[test]
fn crates_depend_only_on_crates_below_them() {
    let layer: BTreeMap<&str, usize> = LAYERS.iter().copied().zip(0..).collect();
    let folders = std::fs::read_dir(root().join("crates")).unwrap();
    let found: BTreeSet<String> = folders
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let known: BTreeSet<String> = LAYERS.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(found, known, "every crate has its layer");
    for name in LAYERS {
        let below = dependencies(name);
        let is_base = matches!(name, "teamster-types" | "teamster-document");
        assert!(is_base || !below.is_empty(), "{name}");
        for other in below {
            let is_below = layer[other.as_str()] > layer[name];
            assert!(is_below, "{name} depends on {other}, which is not below it");
        }
    }
}

/// Collects the source files of the product, without tests.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "tests" && name != "conformance" {
                sources(&path, found);
            }
        } else if path.extension().is_some_and(|end| end == "rs") && !name.ends_with("tests.rs") {
            found.push(path);
        }
    }
}

#[test]
fn kinds_of_events_are_spelled_in_the_journal_crate_only() {
    let mut files = Vec::new();
    for name in LAYERS {
        if !matches!(name, "teamster-journal" | "teamster-testkit") {
            sources(&root().join("crates").join(name).join("src"), &mut files);
        }
    }
    assert!(files.len() > 300, "{}", files.len());
    // `usage` is a common word, and also a key of the clients. Prefixes of names count as names.
    let names = EventType::ALL.iter().map(|kind| kind.name());
    let names: BTreeSet<String> = names
        .filter_map(|name| Some((name, name.split_once('.')?.0)))
        .flat_map(|(name, family)| [format!("\"{name}\""), format!("(\"{family}.\")")])
        .collect();
    let mut spelled = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        let found: Vec<&String> = names
            .iter()
            .filter(|name| product.contains(name.as_str()))
            .collect();
        for (number, line) in product.lines().enumerate() {
            if found.iter().any(|name| line.contains(name.as_str())) {
                spelled.push(format!("{}:{}: {line}", file.display(), number + 1));
            }
        }
    }
    assert!(spelled.is_empty(), "{}", spelled.join("\n"));
}

#[test]
fn kinds_of_events_are_documented_from_their_types() {
    let written = std::fs::read_to_string(root().join("docs/contracts.md")).unwrap();
    let fresh = documented(&written).expect("the marks are there");
    assert!(
        written == fresh,
        "docs/contracts.md is old: `cargo xtask docs` writes it anew"
    );
    for kind in EventType::ALL {
        let name = format!("- `{}`:", kind.name());
        assert!(written.contains(&name), "{name}");
    }
}

#[test]
fn prompts_are_documented_from_their_templates_and_facts() {
    let written = std::fs::read_to_string(root().join(teamster_prompts::DOCUMENT)).unwrap();
    assert!(
        written == teamster_prompts::document(),
        "docs/prompts.md is old: `cargo xtask docs` writes it anew"
    );
    let folder = root().join("crates/teamster-prompts/prompts");
    let mut files = Vec::new();
    for (prefix, folder) in [("", folder.clone()), ("parts/", folder.join("parts"))] {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_file() {
                files.push(format!("{prefix}{}", entry.file_name().to_str().unwrap()));
            }
        }
    }
    files.sort_unstable();
    let mut listed: Vec<&str> = teamster_prompts::TEMPLATES
        .iter()
        .map(|(name, _)| *name)
        .collect();
    listed.sort_unstable();
    assert_eq!(files, listed, "every template is part of the product");
}

/// Returns how many paths of the repository a text names in backquotes; a name with `{` or `*` does not count.
fn count_paths(document: &str, text: &str) -> usize {
    let mut count = 0;
    for name in text.split('`').skip(1).step_by(2) {
        let folder = match name.split('/').next() {
            _ if !name.contains('/') || name.contains(['{', '*', ' ', '\n']) => continue,
            Some(first) if first.starts_with("teamster") => "crates",
            Some("tests" | "web" | "xtask" | "docs" | "crates") => "",
            _ => continue,
        };
        count += 1;
        // A path in capitals stands for several, such as `tests/fixtures/workers/NAME`.
        let given = name.split('/').take_while(|part| *part != "NAME");
        let path = given.fold(root().join(folder), |path, part| path.join(part));
        assert!(path.exists(), "{document} names {name}, which is not there");
    }
    count
}

#[test]
fn every_path_in_the_documents_is_there() {
    for (document, least) in [("ARCHITECTURE.md", 50), ("CONTRIBUTING.md", 10)] {
        let text = std::fs::read_to_string(root().join(document)).unwrap();
        let count = count_paths(document, &text);
        assert!(count > least, "{count} paths in {document}");
    }
}

#[test]
fn every_path_on_the_first_page_of_a_crate_is_there() {
    let mut count = 0;
    for entry in std::fs::read_dir(root().join("crates")).unwrap() {
        let folder = entry.unwrap().path();
        let page = ["src/lib.rs", "src/main.rs"].map(|name| folder.join(name));
        let page = page.iter().find(|page| page.exists()).unwrap();
        let text = std::fs::read_to_string(page).unwrap();
        let lines = text.lines().filter_map(|line| line.strip_prefix("//!"));
        let text = lines.collect::<Vec<_>>().join("\n");
        count += count_paths(&page.display().to_string(), &text);
    }
    assert!(count > 2, "{count} paths");
}

/// Every proof in the list of hostile findings is a test that `ci` runs. Without this, a renamed test would be
/// noticed only when the evidence is generated.
#[test]
fn every_test_in_the_lists_of_findings_and_corrections_is_there() {
    #[derive(serde::Deserialize)]
    struct Findings {
        finding: Vec<Finding>,
    }
    #[derive(serde::Deserialize)]
    struct Finding {
        tests: Vec<String>,
    }
    let tests = root().join("tests");
    let lists = ["hostile/findings.toml", "corrections.toml"].map(|list| {
        let text = std::fs::read_to_string(tests.join(list)).unwrap();
        toml::from_str::<Findings>(&text).unwrap().finding
    });
    let named: Vec<String> = lists
        .into_iter()
        .flatten()
        .flat_map(|one| one.tests)
        .collect();
    assert!(named.len() > 50, "{} tests", named.len());
    for name in named {
        let (module, function) = name.rsplit_once("::").unwrap();
        let path = tests.join(module.replace("::", "/"));
        let text = std::fs::read_to_string(path.with_extension("rs")).or_else(|_| {
            // For a folder, its own file counts.
            std::fs::read_to_string(path.join("mod.rs"))
        });
        let wanted = match function {
            "" => "#[test]\n".to_owned(),
            function => format!("#[test]\nfn {function}()"),
        };
        let is_there = text.is_ok_and(|text| text.contains(&wanted));
        assert!(is_there, "a list names {name}, which is not there");
    }
}

/// Returns the location of a path in ARCHITECTURE.md.
fn file_of(path: &str) -> PathBuf {
    let is_outside = ["web/", "tests/", "xtask/"]
        .iter()
        .any(|folder| path.starts_with(folder));
    let folder = if is_outside {
        root()
    } else {
        root().join("crates")
    };
    folder.join(path)
}

/// Returns whether a text contains a name as a whole word, directly after one of these words if there are any.
fn mentions(text: &str, name: &str, behind: &[&str]) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(name).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + name.len()..]);
        let is_whole = !before.ends_with(is_part) && !after.starts_with(is_part);
        is_whole && (behind.is_empty() || behind.iter().any(|word| before.ends_with(word)))
    })
}

/// A step whose clause begins with `~` is reached through another process, a file or a trait, as its clause says.
#[test]
fn every_step_of_the_three_journeys_is_in_its_file_and_called_by_an_earlier_one() {
    let page = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let (_, section) = page.split_once("\n## Three journeys\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let journeys: Vec<&str> = section.split("\n### ").skip(1).collect();
    assert_eq!(journeys.len(), 3);
    for journey in journeys {
        let (title, steps) = journey.split_once('\n').unwrap();
        let mut earlier: Vec<(String, String)> = Vec::new();
        for line in steps.lines().filter(|line| !line.is_empty()) {
            let (number, rest) = line.split_once(". `").expect(line);
            assert_eq!(number, (earlier.len() + 1).to_string(), "{title}");
            let (path, rest) = rest.split_once("` (`").expect(line);
            let (function, clause) = rest.split_once("`): ").expect(line);
            let text = std::fs::read_to_string(file_of(path)).expect(path);
            // A method of a class of the page starts its own line, indented by two columns.
            let defines = [
                "fn ",
                "function ",
                "const ",
                "\n  ",
                "\n  #",
                "\n  async ",
                "\n  async #",
            ];
            assert!(
                mentions(&text, function, &defines),
                "{path} has no {function}"
            );
            let is_handed_over = earlier.is_empty() || clause.starts_with("~ ");
            let is_called = earlier
                .iter()
                .any(|(_, text)| mentions(text, function, &[]));
            assert!(
                is_handed_over || is_called,
                "{title}: nothing before step {number} calls {function}"
            );
            assert!(
                earlier.iter().all(|(known, _)| known != path),
                "{title}: {path} is there twice"
            );
            earlier.push((path.to_owned(), text));
        }
        assert!(earlier.len() > 5, "{title}");
    }
    let (_, hook) = section.split_once("\n### ").unwrap();
    let files = hook.split("\n### ").next().unwrap().matches(". `").count();
    assert!(
        files <= 10,
        "the start of a subagent passes through {files} files"
    );
}

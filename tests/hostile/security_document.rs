//! Every claim of docs/security.md is proven by an existing test; claims without another test have theirs here.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::run::Shop;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn document() -> String {
    std::fs::read_to_string(workspace().join("docs/security.md")).unwrap()
}

/// Returns the section of a document below a heading.
fn section<'a>(document: &'a str, heading: &str) -> &'a str {
    let start = document.find(&format!("\n## {heading}\n")).unwrap();
    let rest = &document[start + 1..];
    let end = rest[1..].find("\n## ").map_or(rest.len(), |end| end + 1);
    &rest[..end]
}

/// Returns the bold text at the beginning of each list item, up to its full stop.
fn claims(document: &str) -> BTreeSet<String> {
    section(document, "Protected")
        .lines()
        .filter_map(|line| line.strip_prefix("- **"))
        .map(|line| {
            line.split("**")
                .next()
                .unwrap()
                .trim_end_matches('.')
                .to_owned()
        })
        .collect()
}

/// Returns the rows of the table: a claim and the tests that prove it.
fn rows(document: &str) -> Vec<(String, Vec<String>)> {
    let lines = section(document, "The test of each claim").lines();
    let rows = lines.filter(|line| line.starts_with("| ")).skip(1);
    rows.map(|line| {
        let mut cells = line.trim_matches('|').splitn(2, '|');
        let claim = cells.next().unwrap().trim().to_owned();
        let tests = cells.next().unwrap().split('`').skip(1).step_by(2);
        (claim, tests.map(str::to_owned).collect())
    })
    .collect()
}

/// Returns whether the runner has a test `module::file::name`.
fn exists(test: &str) -> bool {
    let Some((module, name)) = test.rsplit_once("::") else {
        return false;
    };
    let path = workspace().join("tests").join(module.replace("::", "/"));
    let file = [path.with_extension("rs"), path.join("mod.rs")]
        .into_iter()
        .find_map(|file| std::fs::read_to_string(file).ok());
    file.is_some_and(|text| text.contains(&format!("#[test]\nfn {name}()")))
}

#[test]
fn claims_of_the_security_document_have_tests_that_exist() {
    let document = document();
    let rows = rows(&document);
    let proven: BTreeSet<String> = rows.iter().map(|(claim, _)| claim.clone()).collect();
    let claims = claims(&document);
    let unproven: Vec<_> = claims.difference(&proven).collect();
    let unknown: Vec<_> = proven.difference(&claims).collect();
    assert!(
        unproven.is_empty() && unknown.is_empty(),
        "claims without a row: {unproven:?}; rows without a claim: {unknown:?}"
    );
    for (claim, tests) in rows {
        assert!(!tests.is_empty(), "{claim} names no test");
        for test in tests {
            assert!(
                exists(&test),
                "there is no test {test}, which proves: {claim}"
            );
        }
    }
}

/// Collects files and folders below a folder that other users may access. Symlinks and work trees, which git makes,
/// are left out: the folder of the work trees is private.
fn open_to_others(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let meta = path.symlink_metadata().unwrap();
        let is_worktree = folder
            .parent()
            .is_some_and(|above| above.ends_with(".omc/worktrees"));
        if meta.is_symlink() || (meta.is_dir() && is_worktree) {
            continue;
        }
        if meta.permissions().mode() & 0o077 != 0 {
            found.push(path.clone());
        }
        if meta.is_dir() {
            open_to_others(&path, found);
        }
    }
}

#[test]
fn files_of_a_run_are_for_their_user_only_whatever_the_umask_says() {
    let shop = Shop::new();
    let script = shop.script("[[step]]\ndo = \"run\"\ncommand = \"echo new > news.txt\"\n");
    let line = format!(
        "umask 0; exec teamster run 1:w 'mend it' --team shop --provider {script} --verify true --approve never"
    );
    shop.project.shell(&line).run().exits(0);
    let mut found = Vec::new();
    open_to_others(&shop.project.claude(""), &mut found);
    for folder in [".omc", ".party", ".bkit"] {
        let folder = shop.folder().join(folder);
        if folder.exists() {
            open_to_others(&folder, &mut found);
        }
    }
    assert_eq!(found, [""; 0].map(PathBuf::from));
}

//! The single integration test binary: it links once, and notices a forgotten file.
//!
//! Tests use the real binary like a user, each in its own project and home ([`kit`]).

#![allow(
    clippy::disallowed_methods,
    reason = "tests arrange and look at files and processes as any other program would"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot be arranged should fail at once"
)]
#![allow(
    unreachable_pub,
    reason = "nothing of a test binary can be reached from outside"
)]

mod agents;
mod architecture;
mod claude_install;
mod cli;
mod formats;
mod hook;
mod hostile;
mod isolate;
mod kit;
mod machines;
mod party;
mod releases;
mod run;
mod store;
mod studio;
mod workers;
mod zombies;

/// A test file that is not declared would be silently skipped.
#[test]
fn every_test_file_is_declared_as_a_module() {
    let tests = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests");
    let mut forgotten = Vec::new();
    check_folder(&tests, &tests.join("runner.rs"), &mut forgotten);
    assert!(
        forgotten.is_empty(),
        "not declared with `mod …;`: {forgotten:?}"
    );
}

fn check_folder(
    folder: &std::path::Path,
    parent: &std::path::Path,
    forgotten: &mut Vec<std::path::PathBuf>,
) {
    let declared = std::fs::read_to_string(parent).unwrap_or_default();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
        // The inputs and expected outputs of tests.
        if stem == "fixtures" || stem == "snapshots" {
            continue;
        }
        let is_module = path.is_dir() || path.extension().is_some_and(|ext| ext == "rs");
        if !is_module || path == parent {
            continue;
        }
        let names_it = |line: &str| line.trim_start_matches("pub ") == format!("mod {stem};");
        if !declared.lines().any(names_it) {
            forgotten.push(path);
        } else if path.is_dir() {
            check_folder(&path, &path.join("mod.rs"), forgotten);
        }
    }
}

//! Projects as people have them, and as they should not be.

#![allow(
    clippy::disallowed_methods,
    reason = "tests arrange and look at files as any other program would"
)]

use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;
use teamster_testkit::scratch::Scratch;

/// A project, and the programs on its `PATH`.
struct Project {
    scratch: Scratch,
}

impl Project {
    fn new(files: &[(&str, &str)], programs: &[&str]) -> Self {
        let project = Self {
            scratch: Scratch::new("detect"),
        };
        let bin = project.scratch.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        for program in programs {
            let file = bin.join(program);
            std::fs::write(&file, "#!/bin/sh\n").unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        for (name, content) in files {
            let file = project.scratch.project().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, content).unwrap();
        }
        project
    }

    fn detect(&self) -> DetectedChecks {
        let dir = Dir::open_root(&self.scratch.project()).unwrap().unwrap();
        detect(&dir, self.scratch.path().join("bin").as_os_str())
    }

    fn commands(&self) -> Vec<String> {
        let checks = self.detect().checks;
        checks.into_iter().map(|check| check.command).collect()
    }
}

fn commands(files: &[(&str, &str)], programs: &[&str]) -> Vec<String> {
    Project::new(files, programs).commands()
}

#[test]
fn an_empty_folder_shows_nothing() {
    assert_eq!(
        Project::new(&[], &["cargo"]).detect(),
        DetectedChecks::default()
    );
}

#[test]
fn a_rust_project_is_checked_tested_and_linted() {
    let project = Project::new(&[("Cargo.toml", "")], &["cargo", "cargo-clippy"]);
    let found = project.detect();
    assert_eq!(
        found.checks,
        [
            Check::of_project("cargo check", "Cargo.toml"),
            Check::of_project("cargo test", "Cargo.toml"),
            Check::of_project("cargo clippy", "Cargo.toml"),
        ]
    );
    assert_eq!(found.skipped, []);
}

#[test]
fn a_program_that_is_not_there_is_left_out_and_told() {
    let found = Project::new(&[("Cargo.toml", ""), ("go.mod", "")], &["cargo"]).detect();
    assert_eq!(found.checks.len(), 2);
    let skipped: Vec<(&str, &str)> = found
        .skipped
        .iter()
        .map(|skipped| (skipped.command.as_str(), skipped.why.as_str()))
        .collect();
    assert_eq!(
        skipped,
        [
            ("cargo clippy", "`cargo-clippy` is not on PATH"),
            ("go vet ./...", "`go` is not on PATH"),
            ("go test ./...", "`go` is not on PATH"),
        ]
    );
}

#[test]
fn scripts_are_run_by_whose_lock_file_is_there() {
    let package =
        r#"{"scripts":{"test":"vitest","lint":"eslint .","build":"x","typecheck":"tsc"}}"#;
    for (lock, manager) in [
        ("package-lock.json", "npm"),
        ("pnpm-lock.yaml", "pnpm"),
        ("yarn.lock", "yarn"),
        ("bun.lock", "bun"),
        ("README.md", "npm"),
    ] {
        let found = commands(&[("package.json", package), (lock, "")], &[manager]);
        let expected = ["test", "lint", "typecheck"].map(|name| format!("{manager} run {name}"));
        assert_eq!(found, expected, "{lock}");
    }
    let named = r#"{"packageManager":"yarn@4.1.0","scripts":{"test":"jest"}}"#;
    assert_eq!(
        commands(&[("package.json", named)], &["yarn"]),
        ["yarn run test"]
    );
    let both = [
        ("package.json", named),
        ("yarn.lock", ""),
        ("pnpm-lock.yaml", ""),
    ];
    assert_eq!(commands(&both, &["yarn", "pnpm"]), ["yarn run test"]);
}

#[test]
fn the_test_that_npm_makes_up_is_none() {
    let package =
        r#"{"scripts":{"test":"echo \"Error: no test specified\" && exit 1","lint":" "}}"#;
    assert_eq!(
        Project::new(&[("package.json", package)], &["npm"]).detect(),
        DetectedChecks::default()
    );
}

#[test]
fn typescript_is_checked_where_no_script_does() {
    let package = r#"{"devDependencies":{"typescript":"5"}}"#;
    let files = [
        ("package.json", package),
        ("tsconfig.json", "{}"),
        ("yarn.lock", ""),
    ];
    assert_eq!(commands(&files, &["yarn"]), ["yarn run tsc --noEmit"]);
    assert_eq!(commands(&files[..1], &["npm"]), Vec::<String>::new());
    let without = [("package.json", "{}"), ("tsconfig.json", "{}")];
    assert_eq!(commands(&without, &["npm", "tsc"]), ["tsc --noEmit"]);
    let found = Project::new(&without, &["npm"]).detect();
    assert_eq!(found.skipped[0].why, "`tsc` is not on PATH");
}

#[test]
fn python_tools_are_taken_where_the_project_shows_them() {
    let both = ["pytest", "ruff"];
    let plain = (
        "pyproject.toml",
        "[project]\nname = \"x\"\n# ruff, pytest: perhaps\n",
    );
    assert_eq!(commands(&[plain], &both), Vec::<String>::new());
    assert_eq!(
        commands(&[plain, ("tests/test_a.py", "")], &both),
        ["pytest"]
    );
    assert_eq!(commands(&[plain, ("test_a.py", "")], &both), ["pytest"]);
    assert_eq!(
        commands(&[plain, ("tests/data.py", "")], &both),
        Vec::<String>::new()
    );
    assert_eq!(
        commands(&[plain, ("ruff.toml", "")], &both),
        ["ruff check ."]
    );
    let tools = "[tool.ruff]\nline-length = 100\n[dependency-groups]\ndev = [\"pytest>=8\"]\n";
    assert_eq!(
        commands(&[("pyproject.toml", tools)], &both),
        ["pytest", "ruff check ."]
    );
    let alike = "[project]\ndependencies = [\"ruffian\", \"pytester\"]\n";
    assert_eq!(
        commands(&[("pyproject.toml", alike)], &both),
        Vec::<String>::new()
    );
}

#[test]
fn go_and_make_have_their_own() {
    assert_eq!(
        commands(
            &[("go.mod", "module x"), ("Makefile", "test:\n\ttrue\n")],
            &["go", "make"]
        ),
        ["go vet ./...", "go test ./...", "make test"]
    );
    assert_eq!(
        commands(&[("Makefile", "all:\n\ttest: no\n")], &["make"]),
        Vec::<String>::new()
    );
}

#[test]
fn files_that_are_broken_or_hostile_stop_nothing() {
    let huge = format!(
        r#"{{"scripts":{{"test":"x","lint":{}}}}}"#,
        "[".repeat(1024 * 1024)
    );
    let large = " ".repeat(5 * 1024 * 1024);
    for package in [
        "",
        "null",
        "[]",
        "{",
        "\u{0}",
        r#"{"scripts":3}"#,
        r#"{"scripts":["test"]}"#,
        r#"{"scripts":{"test":{"a":1},"lint":null}}"#,
        r#"{"packageManager":7,"devDependencies":"typescript"}"#,
        &huge,
        &large,
    ] {
        let files = [
            ("package.json", package),
            ("tsconfig.json/x", ""),
            ("pyproject.toml", "[[["),
            ("Makefile/test", ""),
            ("go.mod", ""),
        ];
        let found = commands(&files, &["npm", "go", "make", "pytest", "ruff"]);
        assert_eq!(found, ["go vet ./...", "go test ./..."], "{package:.40}");
    }
}

#[test]
fn a_large_package_file_is_read() {
    let package = format!(
        r#"{{"description":"{}","scripts":{{"test":"jest"}}}}"#,
        "x".repeat(1024 * 1024)
    );
    assert_eq!(
        commands(&[("package.json", &package)], &["npm"]),
        ["npm run test"]
    );
}

#[test]
fn links_and_pipes_are_not_read() {
    let project = Project::new(&[], &["cargo", "npm"]);
    let folder = project.scratch.project();
    symlink("/etc/passwd", folder.join("package.json")).unwrap();
    symlink(folder.join("Cargo.toml"), folder.join("Cargo.toml")).unwrap();
    symlink("/", folder.join("tests")).unwrap();
    std::fs::write(folder.join("pyproject.toml"), "").unwrap();
    let found = project.detect();
    assert_eq!(found.checks, []);
    let skipped: Vec<&str> = found
        .skipped
        .iter()
        .map(|skipped| skipped.command.as_str())
        .collect();
    assert_eq!(skipped, ["Cargo.toml", "package.json"]);
}

#[test]
fn only_a_rule_of_a_makefile_is_a_target() {
    for rule in [
        "test:",
        "test: build",
        "test ::",
        "check test: x",
        "test:;echo",
    ] {
        assert!(is_test_rule(rule), "{rule}");
    }
    for other in [
        ".PHONY: test",
        "test := x",
        "test::=x",
        "test = a:b",
        "\ttest: x",
        "# test: x",
        "tests: x",
        "all: test",
        "test",
        "",
        ":",
    ] {
        assert!(!is_test_rule(other), "{other}");
    }
}

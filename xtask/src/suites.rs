//! The test suites whose size is a variable, at nightly size.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Result, bail};

use crate::product::{Answer, cargo};

/// What a suite printed about itself.
#[derive(Debug)]
pub(crate) struct Figures {
    /// The test's name.
    pub(crate) test: String,
    /// Its figures, a line each.
    pub(crate) lines: Vec<String>,
}

/// How many histories and sequences are tried.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) histories: usize,
    pub(crate) cases: usize,
}

/// Runs the suites of the store and returns their figures.
pub(crate) fn run(sizes: Sizes) -> Result<Vec<Figures>> {
    let (histories, cases) = (sizes.histories.to_string(), sizes.cases.to_string());
    suite(
        "store::",
        &[
            ("TEAMSTER_HISTORIES", &histories),
            ("TEAMSTER_CASES", &cases),
        ],
    )
}

/// Kills the host of a whole run at every so many events of it, and returns the figures.
pub(crate) fn kill_hosts(every: usize) -> Result<Vec<Figures>> {
    suite(
        "run::kills",
        &[("TEAMSTER_KILLS_EVERY", &every.to_string())],
    )
}

/// Tries the hostile findings, with so many random merge trains and sizes of disks. Returns whether each test that ran has
/// passed, and the figures.
pub(crate) fn attack(
    histories: usize,
    disks: usize,
) -> Result<(BTreeMap<String, bool>, Vec<Figures>)> {
    let name = "hostile::";
    let mut command = runner(name);
    command
        .args(["--format=pretty", "--show-output"])
        .env("TEAMSTER_MERGE_HISTORIES", histories.to_string())
        .env("TEAMSTER_DISK_SIZES", disks.to_string());
    let answer = Answer::of(&mut command)?;
    let results = passed(&answer.stdout);
    if results.is_empty() {
        bail!("{name} did not run:\n{}\n{}", answer.stdout, answer.stderr);
    }
    if results.values().any(|passed| !passed) {
        println!("{}", answer.stdout);
    }
    Ok((results, figures(&answer.stdout)))
}

/// The lines `test NAME ... ok` of what the test runner printed.
fn passed(output: &str) -> BTreeMap<String, bool> {
    let ended = output.lines().filter_map(|line| {
        let (name, result) = line.strip_prefix("test ")?.split_once(" ... ")?;
        (!result.starts_with("ignored")).then(|| (name.to_owned(), result == "ok"))
    });
    ended.collect()
}

/// The test runner for the tests of this name, built for speed but with the fail-points that a release does not have.
fn runner(name: &str) -> Command {
    cargo([
        "test",
        "--quiet",
        "--profile",
        "evidence",
        "--package",
        "teamster",
        "--test",
        "runner",
        "--",
        name,
    ])
}

/// Runs the tests of this name and returns what they told.
fn suite(name: &str, variables: &[(&str, &str)]) -> Result<Vec<Figures>> {
    let mut command = runner(name);
    command.arg("--show-output").envs(variables.iter().copied());
    let answer = Answer::of(&mut command)?;
    if !answer.status.success() {
        bail!("{name} failed:\n{}\n{}", answer.stdout, answer.stderr);
    }
    Ok(figures(&answer.stdout))
}

/// The parts `---- NAME stdout ----` of what the test runner printed.
fn figures(output: &str) -> Vec<Figures> {
    let mut found: Vec<Figures> = Vec::new();
    let mut is_inside = false;
    for line in output.lines() {
        let heading = line
            .strip_prefix("---- ")
            .and_then(|rest| rest.strip_suffix(" stdout ----"));
        if let Some(test) = heading {
            found.push(Figures {
                test: test.to_owned(),
                lines: Vec::new(),
            });
            is_inside = true;
        } else if line.is_empty() || line == "successes:" {
            is_inside = false;
        } else if is_inside && let Some(figures) = found.last_mut() {
            figures.lines.push(line.to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read_from_the_lines_of_tests_that_ran() {
        let output = "running 3 tests\ntest a::one ... ok\ntest a::two ... FAILED\ntest a::three ... ignored\n";
        let expected = [("a::one", true), ("a::two", false)];
        let expected = expected.map(|(name, passed)| (name.to_owned(), passed));
        assert_eq!(passed(output), BTreeMap::from(expected));
    }

    #[test]
    fn figures_are_what_stands_below_the_name_of_a_test() {
        let output = "running 2 tests\n..\nsuccesses:\n\n---- store::a stdout ----\n5 histories: all good\n\n\n\
                      ---- store::b stdout ----\n7 sequences\n\n\nsuccesses:\n    store::a\n";
        let found = figures(output);
        let all: Vec<(&str, &str)> = found
            .iter()
            .flat_map(|figures| {
                let test = figures.test.as_str();
                figures.lines.iter().map(move |line| (test, line.as_str()))
            })
            .collect();
        assert_eq!(
            all,
            [
                ("store::a", "5 histories: all good"),
                ("store::b", "7 sequences")
            ]
        );
    }
}

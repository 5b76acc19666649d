//! The measurements behind the guarantees, written to a document by this command and never by hand.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::process::Command;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde::Deserialize;

use crate::docs;
use crate::inject::{self, Coverage, Tally};
use crate::product::{
    Finished, Product, build_workloads, cargo, check_names, is_wanted, table_head,
};
use crate::race::{self, Races};

/// The variables with the sizes of test suites: histories, sequences of operations, the step between the events at
/// which a host is killed, random histories of merges, sizes of a full disk, the seconds of a long task, and the
/// tasks of a run on several machines; each with its nightly and its quick value.
const SUITE_SIZES: [(&str, [&str; 2]); 7] = [
    ("TEAMSTER_HISTORIES", ["10000", "100"]),
    ("TEAMSTER_CASES", ["5000", "50"]),
    ("TEAMSTER_KILLS_EVERY", ["1", "10"]),
    ("TEAMSTER_MERGE_HISTORIES", ["200", "8"]),
    ("TEAMSTER_DISK_SIZES", ["40", "3"]),
    ("TEAMSTER_LONG_TASK", ["180", "20"]),
    ("TEAMSTER_CHAOS_TASKS", ["1000", "40"]),
];
/// Every line of the list of hostile findings, with the tests that prove it.
const FINDINGS: &str = include_str!("../../tests/hostile/findings.toml");
/// Every line of the list of corrections, with the tests that prove it.
const CORRECTIONS: &str = include_str!("../../tests/corrections.toml");

type Section = (&'static str, fn(&mut Evidence) -> Result<()>);

/// The sections. What each of them does is said in the document.
const SECTIONS: [Section; 9] = [
    ("races", Evidence::races),
    ("kills", |evidence| evidence.tallies(inject::kills)),
    ("errors", |evidence| evidence.tallies(inject::errors)),
    ("workers", |evidence| {
        let tests = ["workers::limits", "--include-ignored"];
        evidence.suite(&tests).map(drop)
    }),
    ("suites", |evidence| evidence.suite(&["store::"]).map(drop)),
    ("run", |evidence| evidence.suite(&["run::kills"]).map(drop)),
    ("machines", |evidence| {
        evidence.suite(&["machines::"]).map(drop)
    }),
    ("hostile", |evidence| {
        evidence.findings(FINDINGS, &["hostile::"])
    }),
    ("corrections", |evidence| {
        let corrections = toml::from_str::<Findings>(CORRECTIONS)?.finding;
        let tests: BTreeSet<&str> = (corrections.iter())
            .flat_map(|line| line.tests.iter().map(String::as_str))
            .collect();
        evidence.findings(CORRECTIONS, &tests.into_iter().collect::<Vec<_>>())
    }),
];

/// Runs all sections, or only some, and writes the results of each into the document unless they are quick; an error when
/// a guarantee was broken.
pub(crate) fn run(quick: bool, only: &[String]) -> Result<()> {
    check_names("section", only, &SECTIONS.map(|(name, _)| name))?;
    let mut evidence = Evidence {
        quick,
        product: None,
        text: String::new(),
        failures: Vec::new(),
    };
    for (name, section) in SECTIONS {
        if is_wanted(name, only) {
            println!("== {name}");
            let (start, stamp) = (Instant::now(), docs::stamp());
            evidence.text = format!("Run on {stamp}.\n\n");
            section(&mut evidence)?;
            evidence.write(&format!("\nTook {}.", minutes(start.elapsed())));
            if !quick {
                let path = docs::put_between("docs/evidence.md", name, &evidence.text)?;
                println!("{name}: written to {}", path.display());
            }
        }
    }
    let failures = &evidence.failures;
    let count = failures.len();
    ensure!(count == 0, "{count} failures:\n{}", failures.join("\n"));
    Ok(())
}

struct Evidence {
    quick: bool,
    product: Option<Rc<Product>>,
    text: String,
    failures: Vec<String>,
}

impl Evidence {
    /// Returns the nightly or the quick one of two sizes.
    fn size<T>(&self, nightly: T, quick: T) -> T {
        if self.quick { quick } else { nightly }
    }

    /// Returns the release binary, built when the first section needs it.
    fn product(&mut self) -> Result<Rc<Product>> {
        let product = match self.product.take() {
            Some(product) => product,
            None => Rc::new(Product::build()?),
        };
        self.product = Some(product.clone());
        Ok(product)
    }

    fn write(&mut self, line: &str) {
        let _ = writeln!(self.text, "{line}");
    }

    /// Writes a line to the document and to the terminal.
    fn show(&mut self, line: &str) {
        println!("{line}");
        self.write(line);
    }

    fn races(&mut self) -> Result<()> {
        let (runs, tasks) = self.size((20, 500), (2, 100));
        self.write(&table_head(Races::COLUMNS));
        let (product, workloads) = (self.product()?, build_workloads()?);
        let many = self.size(2_000, 20);
        for races in [
            race::for_tasks(&product, runs, tasks)?,
            race::for_stale_locks(&product, runs, tasks)?,
            race::for_stale_locks_at_speed(&workloads, many, tasks)?,
        ] {
            println!("{}", races.line());
            self.write(&format!("| {} |", races.cells().join(" | ")));
            self.failures.extend(races.failure());
        }
        Ok(())
    }

    fn tallies(&mut self, inject: fn(&Product, Coverage) -> Result<Vec<Tally>>) -> Result<()> {
        let coverage = self.size(Coverage::Every, Coverage::Sample);
        let tallies = inject(&*self.product()?, coverage)?;
        self.write(&table_head(Tally::COLUMNS));
        for tally in tallies {
            println!("{}", tally.line());
            self.write(&format!("| {} |", tally.cells().join(" | ")));
            self.failures.extend(tally.violations);
        }
        Ok(())
    }

    /// Runs the tests of a name, records their output, and returns whether all passed.
    fn suite(&mut self, arguments: &[&str]) -> Result<bool> {
        let sizes = SUITE_SIZES.map(|(name, [nightly, quick])| (name, self.size(nightly, quick)));
        let finished = Finished::of(tests(arguments).arg("--show-output").envs(sizes))?;
        print!("{}", finished.stdout);
        // Hundreds of tests print this same line.
        let (compared, others): (Vec<&str>, Vec<&str>) = (finished.stdout.lines())
            .partition(|line| line.starts_with("a clone of what landed is what the gate showed"));
        let told = others.join("\n");
        self.write(&format!("```text\n{}\n```", told.trim()));
        if !compared.is_empty() {
            self.show(&format!(
                "\nClones of landed branches that are what the gate had shown, byte for byte: {}.\n",
                compared.len()
            ));
        }
        // A name that matches no test would pass.
        let is_good = finished.success() && !finished.stdout.contains("running 0 tests");
        if !is_good {
            print!("{}", finished.stderr);
            let failure = format!("the tests {arguments:?} failed");
            self.failures.push(failure);
        }
        Ok(is_good)
    }

    /// Runs the tests of these names, and judges every line of a list by the tests that it names.
    fn findings(&mut self, list: &str, names: &[&str]) -> Result<()> {
        let findings = toml::from_str::<Findings>(list)?.finding;
        let listed = list_tests(names)?;
        // One exit code shows that all passed. Otherwise each test is judged separately.
        let all_passed = self.suite(names)?;
        let passes = |test: &str| {
            let alone = || Finished::of(&mut tests(&["--exact", test]));
            all_passed || alone().is_ok_and(|finished| finished.success())
        };
        self.write(&table_head("line | what must hold | tests | passed"));
        for finding in &findings {
            let (ran, good, failure) = finding.judge(&listed, passes);
            self.show(&format!(
                "| {} | {} | `{}` | {good} of {ran}{} |",
                finding.line,
                finding.holds,
                finding.tests.join("`, `"),
                failure.as_ref().map_or("", |_| ", FAILED")
            ));
            self.failures.extend(failure);
        }
        Ok(())
    }
}

/// Returns the test runner with these arguments, optimized but with the fail points that a release does not have.
fn tests(arguments: &[&str]) -> Command {
    let mut command = cargo("test --quiet --profile evidence --package teamster --test runner --");
    command.args(arguments);
    command
}

/// Returns a time for people.
pub(crate) fn minutes(time: Duration) -> String {
    match time.as_secs() {
        seconds if seconds < 60 => format!("{:.1} s", time.as_secs_f64()),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

#[derive(Deserialize)]
struct Findings {
    finding: Vec<Finding>,
}

/// One line of the list of findings.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Finding {
    line: String,
    holds: String,
    tests: Vec<String>,
}

impl Finding {
    /// Returns how many tests the finding has, how many pass, and what is wrong unless every named one ran and
    /// passed.
    fn judge(
        &self,
        listed: &BTreeSet<String>,
        passes: impl Fn(&str) -> bool,
    ) -> (usize, usize, Option<String>) {
        let (mut ran, mut failed, mut missing) = (0, Vec::new(), Vec::new());
        for name in &self.tests {
            let is_module = name.ends_with("::");
            let is_meant = |test: &&String| *test == name || is_module && test.starts_with(name);
            let meant: Vec<&String> = listed.iter().filter(is_meant).collect();
            if meant.is_empty() {
                missing.push(name.as_str());
            }
            ran += meant.len();
            let failing = meant.into_iter().filter(|test| !passes(test));
            failed.extend(failing.map(String::as_str));
        }
        let good = ran - failed.len();
        let mut text = format!("finding {}", self.line);
        for (what, names) in [("failed", &failed), ("did not run", &missing)] {
            if !names.is_empty() {
                let _ = write!(text, "; {what}: {}", names.join(", "));
            }
        }
        let is_bad = !failed.is_empty() || !missing.is_empty();
        (ran, good, is_bad.then_some(text))
    }
}

/// Lists the tests that a run of these names runs.
fn list_tests(names: &[&str]) -> Result<BTreeSet<String>> {
    let list = |more: &[&str]| -> Result<BTreeSet<String>> {
        let arguments = [names, &["--list", "--format", "terse"], more].concat();
        let finished = Finished::checked(&mut tests(&arguments))?;
        let tests = finished.stdout.lines();
        let names = tests.filter_map(|line| line.strip_suffix(": test"));
        Ok(names.map(str::to_owned).collect())
    };
    let listed = &list(&[])? - &list(&["--ignored"])?;
    ensure!(!listed.is_empty(), "the runner has none of these tests");
    Ok(listed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finding_whose_test_failed_or_did_not_run_is_a_failure() {
        let listed = ["hostile::a::one", "hostile::a::two"].map(str::to_owned);
        let listed = BTreeSet::from(listed);
        let failure = |tests: &[&str]| {
            let finding = Finding {
                line: "1".to_owned(),
                holds: String::new(),
                tests: tests.iter().map(|test| (*test).to_owned()).collect(),
            };
            let (.., failure) = finding.judge(&listed, |test| test != "hostile::a::two");
            failure.unwrap_or_default()
        };
        assert_eq!(failure(&["hostile::a::one"]), "");
        let failed = "finding 1; failed: hostile::a::two";
        assert_eq!(failure(&["hostile::a::"]), failed);
        let missing = "finding 1; did not run: hostile::a::on, hostile::b::";
        assert_eq!(failure(&["hostile::a::on", "hostile::b::"]), missing);
    }

    #[test]
    fn findings_have_every_number_of_the_list() {
        let findings = toml::from_str::<Findings>(FINDINGS).unwrap().finding;
        let lines: Vec<&str> = findings
            .iter()
            .map(|finding| finding.line.as_str())
            .collect();
        let numbers: Vec<String> = (1..=21).map(|line| line.to_string()).collect();
        assert_eq!(lines[..21], numbers);
        assert!(findings.iter().all(|finding| !finding.tests.is_empty()));
    }
}

//! The figures behind the guarantees, written to a document by this command and never by hand.

mod hostile;
mod workers;

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::docs;
use crate::inject::{self, Coverage, Tally};
use crate::product::{Finished, Product, build_workloads, cargo, check_names, workspace};
use crate::race::{self, RACERS, Races};

/// Variables with the sizes of test suites: histories, sequences of operations, the distance of the events at which a
/// host is killed, random histories of merges, and sizes of a full disk; each with its nightly and its quick value.
const SUITE_SIZES: [(&str, [&str; 2]); 5] = [
    ("TEAMSTER_HISTORIES", ["10000", "100"]),
    ("TEAMSTER_CASES", ["5000", "50"]),
    ("TEAMSTER_KILLS_EVERY", ["1", "10"]),
    ("TEAMSTER_MERGE_HISTORIES", ["200", "8"]),
    ("TEAMSTER_DISK_SIZES", ["40", "3"]),
];

type Section = (&'static str, fn(&mut Report) -> Result<()>);

/// The sections, by their names on the command line.
const SECTIONS: [Section; 7] = [
    ("races", Report::races),
    ("kills", Report::kills),
    ("errors", Report::errors),
    ("workers", Report::workers),
    ("suites", Report::suites),
    ("run", Report::killed_hosts),
    ("hostile", Report::hostile),
];

/// Runs everything and writes the document, or prints some sections; an error when a guarantee was broken.
pub(crate) fn run(quick: bool, only: &[String], out: &Path) -> Result<()> {
    check_names("section", only, &SECTIONS.map(|(name, _)| name))?;
    let start = Instant::now();
    let mut report = Report {
        quick,
        product: None,
        text: format!(
            "# Evidence\n\nWritten by `cargo xtask evidence`. Do not edit it by hand.\n\nRun on {}.\n",
            docs::stamp()
        ),
        failures: Vec::new(),
    };
    for (name, section) in SECTIONS {
        if only.is_empty() || only.iter().any(|wanted| wanted == name) {
            let start = Instant::now();
            section(&mut report)?;
            report.write(&format!("\nTook {}.", minutes(start.elapsed())));
        }
    }
    report.write(&format!("\nAll of it took {}.", minutes(start.elapsed())));
    if out == Path::new("-") || !only.is_empty() {
        println!("{}", report.text);
    } else {
        let path = workspace().join(out);
        std::fs::write(&path, &report.text)
            .with_context(|| format!("cannot write {}", path.display()))?;
        println!("written to {}", path.display());
    }
    if !report.failures.is_empty() {
        let failures = &report.failures;
        bail!("{} failures:\n{}", failures.len(), failures.join("\n"));
    }
    Ok(())
}

struct Report {
    quick: bool,
    product: Option<Rc<Product>>,
    text: String,
    failures: Vec<String>,
}

impl Report {
    /// Returns the nightly or the quick one of two sizes.
    fn size<T>(&self, nightly: T, quick: T) -> T {
        if self.quick { quick } else { nightly }
    }

    fn coverage(&self) -> Coverage {
        self.size(Coverage::Every, Coverage::Sample)
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

    fn heading(&mut self, title: &str, text: &str) {
        println!("== {title}");
        self.write(&format!("\n## {title}\n\n{text}\n"));
    }

    fn write(&mut self, line: &str) {
        let _ = writeln!(self.text, "{line}");
    }

    /// Writes a line that the terminal shows, too.
    fn show(&mut self, line: &str) {
        println!("{line}");
        self.write(line);
    }

    fn races(&mut self) -> Result<()> {
        let (runs, tasks) = self.size((20, 500), (2, 100));
        self.heading(
            "Races",
            &format!(
                "{RACERS} workers at a time, every step a process of its own. *Stale locks*: each task carries a lock \
                 of a process that is gone; 20 locks more are alive (half of them empty and fresh, half old and held \
                 by a living process) and must not be touched. *At speed*: {RACERS} processes that claim through the \
                 library, in a file system in memory."
            ),
        );
        let head = "race | runs | tasks | claimed twice | not completed once | left over | live locks taken | took";
        self.table_head(head);
        let product = self.product()?;
        self.race(
            "claim and complete",
            &race::for_tasks(&product, runs, tasks)?,
        );
        self.race(
            "stale locks",
            &race::for_stale_locks(&product, runs, tasks)?,
        );
        let workloads = build_workloads()?;
        let fast = race::for_stale_locks_at_speed(&workloads, self.size(2_000, 20), tasks)?;
        self.race("stale locks at speed", &fast);
        Ok(())
    }

    fn table_head(&mut self, columns: &str) {
        let count = columns.split('|').count();
        self.write(&format!("| {columns} |\n|{}", "---|".repeat(count)));
    }

    fn race(&mut self, what: &str, races: &Races) {
        println!("{}", races.line(what));
        self.write(&format!(
            "| {what} | {} | {} | {} | {} | {} | {} | {} |",
            races.runs,
            races.tasks,
            races.claimed_twice,
            races.not_completed_once,
            races.left_over,
            races.live_taken,
            minutes(races.took)
        ));
        self.failures.extend(races.failure(what));
    }

    fn kills(&mut self) -> Result<()> {
        self.heading(
            "SIGKILL before every system call",
            "The release binary, killed by strace before the N-th call of each name it uses. Afterwards: every file \
             whole, the operation happened or did not, the journal says the same and rebuilds the same tasks, \
             somebody else's next operation succeeds within a second, and nothing temporary is left after it. \
             A hook has no journal: the state that viewers poll is absent or whole, with the change or without; *cold* \
             is without a state before, *warm* with one, *after* with an ended session's, *late* with a change that \
             waits for the lock.",
        );
        let product = self.product()?;
        self.tallies(&inject::kills(&product, self.coverage())?);
        Ok(())
    }

    fn errors(&mut self) -> Result<()> {
        self.heading(
            "ENOSPC, EIO, EACCES and EINTR at every system call",
            "The same, with the call failing instead. The command ends with exit code 0 and has happened, or ends \
             with one clear error and has not. *Seen late*: it ended well, but readers were told so only after the \
             next write. A hook always ends with exit code 0 within 2 seconds, with an answer that lets the agent go \
             on, whether its change was possible or not; a call that was only interrupted costs it nothing.",
        );
        let product = self.product()?;
        self.tallies(&inject::errors(&product, self.coverage())?);
        Ok(())
    }

    fn tallies(&mut self, tallies: &[Tally]) {
        let head = "operation | names | calls | tried | hit | happened | did not | seen late | \
                    longest next operation | violations";
        self.table_head(head);
        for tally in tallies {
            println!("{}", tally.line());
            self.write(&format!(
                "| `{}` | {} | {} | {} | {} | {} | {} | {} | {} ms | {} |",
                tally.operation,
                tally.names,
                tally.calls,
                tally.tried,
                tally.hit,
                tally.happened,
                tally.did_not,
                tally.late,
                tally.slowest_next.as_millis(),
                tally.violations.len()
            ));
            self.failures.extend(tally.violations.iter().cloned());
        }
    }

    fn suites(&mut self) -> Result<()> {
        self.heading(
            "Histories and state machines",
            "Concurrent histories judged for linearizability, and sequences of operations against a model while \
             processes die at any file operation. Below is what the test run printed.",
        );
        self.suite("store::")
    }

    fn killed_hosts(&mut self) -> Result<()> {
        self.heading(
            "SIGKILL of the host at every event of a run",
            "A whole run of scripted workers: a dependency, a conflict that is resolved, a check that fails on the merged \
             work and is fixed, the gate, the landing. Its host dies as soon as the journal has got the N-th event, \
             another takes the run up, and what comes out is compared with a run that nobody disturbed. Below is what \
             the test run printed.",
        );
        self.suite("run::kills")
    }

    /// Runs the tests of this name and writes down what they print. Returns whether all passed.
    fn suite(&mut self, name: &str) -> Result<()> {
        let sizes = SUITE_SIZES.map(|(name, [nightly, quick])| (name, self.size(nightly, quick)));
        let finished = Finished::of(tests(&[name, "--show-output"]).envs(sizes))?;
        print!("{}", finished.stdout);
        // Hundreds of tests print this line, which says the same each time.
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
        if !finished.success() {
            print!("{}", finished.stderr);
            self.failures.push(format!("the tests {name} failed"));
        }
        Ok(())
    }

    fn hostile(&mut self) -> Result<()> {
        self.heading(
            "Hostile findings",
            "Every line of the list of hostile findings, with the tests that drive the real binary and prove that it is \
             fixed. A line whose tests did not run has failed.",
        );
        let listed = hostile::list_tests()?;
        let before = self.failures.len();
        self.suite("hostile::")?;
        // One exit code tells that all passed. Where it does not, each test is judged by its own.
        let all_passed = self.failures.len() == before;
        let passes = |test: &str| {
            let alone = || Finished::of(&mut tests(&["--exact", test]));
            all_passed || alone().is_ok_and(|finished| finished.success())
        };
        self.table_head("line | what must hold | tests | passed");
        for finding in &hostile::FINDINGS {
            let proof = hostile::Proof::of(finding, &listed, passes);
            let failure = proof.failure(finding.line);
            self.show(&format!(
                "| {} | {} | `{}` | {} of {}{} |",
                finding.line,
                finding.holds,
                finding.tests.join("`, `"),
                proof.ran - proof.failed.len(),
                proof.ran,
                if failure.is_some() { ", FAILED" } else { "" }
            ));
            self.failures.extend(failure);
        }
        Ok(())
    }

    fn workers(&mut self) -> Result<()> {
        self.heading(
            "A worker in the middle of a long task",
            "A scripted worker that says nothing for the length of its task; its heartbeat is looked at every 100 ms. \
             In the middle of its next task the team is shut down.",
        );
        let product = self.product()?;
        let seen = workers::long_task(&product, Duration::from_secs(self.size(180, 20)))?;
        let line = format!(
            "Task of {}, {} looks: oldest heartbeat {:.1} s (limit {} s). Shutdown: {:.1} s (limit {} s), processes left: {}.",
            minutes(seen.length),
            seen.looks,
            seen.oldest_beat.as_secs_f64(),
            workers::OLDEST_BEAT.as_secs(),
            seen.shutdown.as_secs_f64(),
            workers::SHUTDOWN_WITHIN.as_secs(),
            seen.left
        );
        self.show(&line);
        if seen.oldest_beat > workers::OLDEST_BEAT
            || seen.shutdown > workers::SHUTDOWN_WITHIN
            || seen.left > 0
        {
            self.failures.push(line);
        }
        self.heading(
            "An agent that tries to get away",
            "It ignores SIGTERM, forks twice, makes sessions of its own and leaves three generations. After a shutdown \
             no process carries the variable that was planted in all of them.",
        );
        for (what, with_groups) in [("With a cgroup", true), ("Without cgroups", false)] {
            let line = match workers::runaway(&product, with_groups)? {
                Ok(seen) => {
                    let line = format!(
                        "{what}: {} processes, {}, shut down in {:.1} s, left: {}.",
                        seen.processes,
                        if seen.grouped {
                            "all in one cgroup"
                        } else {
                            "in no cgroup"
                        },
                        seen.shutdown.as_secs_f64(),
                        seen.left
                    );
                    if seen.left > 0 || seen.grouped != with_groups {
                        self.failures.push(line.clone());
                    }
                    line
                }
                Err(why) => {
                    crate::ci::skip(&format!("runaway agent, {what}"), &why)?;
                    format!("{what}: SKIPPED, {why}.")
                }
            };
            self.show(&format!("{line}\n"));
        }
        Ok(())
    }
}

/// Returns the test runner with these arguments, built for speed but with the fail-points that a release does not have.
fn tests(arguments: &[&str]) -> Command {
    let mut command = cargo("test --quiet --profile evidence --package teamster --test runner --");
    command.args(arguments);
    command
}

fn minutes(time: Duration) -> String {
    let seconds = time.as_secs();
    if seconds < 60 {
        format!("{:.1} s", time.as_secs_f64())
    } else {
        format!("{} min {} s", seconds / 60, seconds % 60)
    }
}

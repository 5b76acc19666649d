//! The figures behind the guarantees, written to a document by this command and by nobody else.

mod hostile;
mod workers;

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::docs;
use crate::inject::{self, Size, Tally};
use crate::product::{Product, build_workloads, workspace};
use crate::race::{self, RACERS, Races};
use crate::suites;

const HEAD: &str = "\
# Evidence

Written by `cargo xtask evidence`. Do not edit it by hand.
";

/// How much is run.
#[derive(Clone, Copy)]
struct Sizes {
    /// Runs of each race through the command line, and tasks in each.
    runs: usize,
    tasks: usize,
    /// Runs of the stale-lock race through the library.
    fast_runs: usize,
    histories: usize,
    cases: usize,
    /// How long a worker's long task takes.
    long_task: Duration,
    /// The host of a run is killed at every so many events.
    kills_every: usize,
    /// Random histories of the merge train, and sizes of a full disk for project and home each.
    merge_trains: usize,
    disks: usize,
}

const NIGHTLY: Sizes = Sizes {
    runs: 20,
    tasks: 500,
    fast_runs: 2_000,
    histories: 10_000,
    cases: 5_000,
    long_task: Duration::from_secs(180),
    kills_every: 1,
    merge_trains: 200,
    disks: 40,
};

const QUICK: Sizes = Sizes {
    runs: 2,
    tasks: 100,
    fast_runs: 20,
    histories: 100,
    cases: 50,
    long_task: Duration::from_secs(20),
    kills_every: 10,
    merge_trains: 8,
    disks: 3,
};

/// The sections, by their names on the command line.
const SECTIONS: [&str; 7] = [
    "races", "kills", "errors", "suites", "workers", "run", "hostile",
];
/// Those that try the release binary; the others build what they need.
const OF_PRODUCT: [&str; 4] = ["races", "kills", "errors", "workers"];

/// Runs everything and writes the document, or prints some sections; an error when any guarantee was broken.
pub(crate) fn run(quick: bool, only: &[String], out: &Path) -> Result<()> {
    if let Some(unknown) = only.iter().find(|name| !SECTIONS.contains(&name.as_str())) {
        bail!(
            "there is no section {unknown}; there are {}",
            SECTIONS.join(", ")
        );
    }
    let wants = |name: &str| only.is_empty() || only.iter().any(|wanted| wanted == name);
    let start = Instant::now();
    let mut report = Report {
        text: HEAD.to_owned(),
        failures: Vec::new(),
    };
    let _ = writeln!(report.text, "\nRun on {}.", docs::stamp());
    let (sizes, strikes) = if quick {
        (QUICK, Size::Sample)
    } else {
        (NIGHTLY, Size::Every)
    };
    if OF_PRODUCT.into_iter().any(wants) {
        let product = Product::build()?;
        if wants("races") {
            report.races(&product, sizes)?;
        }
        if wants("kills") {
            report.kills(&product, strikes)?;
        }
        if wants("errors") {
            report.errors(&product, strikes)?;
        }
        if wants("workers") {
            report.long_task(&product, sizes)?;
            report.runaway(&product)?;
        }
    }
    if wants("suites") {
        report.suites(sizes);
    }
    if wants("run") {
        report.killed_hosts(sizes);
    }
    if wants("hostile") {
        report.hostile(sizes)?;
    }
    let _ = writeln!(
        report.text,
        "\nAll of it took {}.",
        minutes(start.elapsed())
    );
    if out == Path::new("-") || !only.is_empty() {
        println!("{}", report.text);
    } else {
        let path = workspace().join(out);
        std::fs::write(&path, &report.text)
            .with_context(|| format!("cannot write {}", path.display()))?;
        println!("written to {}", path.display());
    }
    if !report.failures.is_empty() {
        bail!(
            "{} failures:\n{}",
            report.failures.len(),
            report.failures.join("\n")
        );
    }
    Ok(())
}

struct Report {
    text: String,
    failures: Vec<String>,
}

impl Report {
    fn heading(&mut self, title: &str, words: &str) {
        println!("== {title}");
        let _ = write!(self.text, "\n## {title}\n\n{words}\n\n");
    }

    fn races(&mut self, product: &Product, sizes: Sizes) -> Result<()> {
        let Sizes { runs, tasks, .. } = sizes;
        self.heading(
            "Races",
            &format!(
                "{RACERS} workers at a time, every step a process of its own. *Stale locks*: each task carries a lock \
                 of a process that is gone; 20 locks more are alive (half of them empty and fresh, half old and held \
                 by a living process) and must not be touched. *At speed*: {RACERS} processes that claim through the \
                 library, in a file system in memory."
            ),
        );
        let _ = writeln!(
            self.text,
            "| race | runs | tasks | claimed twice | not completed once | left over | live locks taken | took |\n\
             |---|---|---|---|---|---|---|---|"
        );
        self.race(
            "claim and complete",
            &race::for_tasks(product, runs, tasks)?,
        );
        self.race("stale locks", &race::for_stale_locks(product, runs, tasks)?);
        let workloads = build_workloads()?;
        self.race(
            "stale locks at speed",
            &race::for_stale_locks_at_speed(&workloads, sizes.fast_runs, tasks)?,
        );
        Ok(())
    }

    fn race(&mut self, what: &str, races: &Races) {
        println!("{}", races.line(what));
        let _ = writeln!(
            self.text,
            "| {what} | {} | {} | {} | {} | {} | {} | {} |",
            races.runs,
            races.tasks,
            races.claimed_twice,
            races.not_completed_once,
            races.left_over,
            races.live_taken,
            minutes(races.took)
        );
        self.failures.extend(races.failures(what));
    }

    fn kills(&mut self, product: &Product, size: Size) -> Result<()> {
        self.heading(
            "SIGKILL before every system call",
            "The release binary, killed by strace before the N-th call of each name it uses. Afterwards: every file \
             whole, the operation happened or did not, the journal says the same and rebuilds the same tasks, \
             somebody else's next operation succeeds within a second, and nothing temporary is left after it. \
             A hook has no journal: the state that viewers poll is absent or whole, with the change or without; *cold* \
             is without a state before, *warm* with one, *after* with an ended session's, *late* with a change that \
             waits for the lock.",
        );
        let start = Instant::now();
        let tallies = inject::kills(product, size)?;
        self.tallies(&tallies, start.elapsed());
        Ok(())
    }

    fn errors(&mut self, product: &Product, size: Size) -> Result<()> {
        self.heading(
            "ENOSPC, EIO, EACCES and EINTR at every system call",
            "The same, with the call failing instead. The command ends with exit code 0 and has happened, or ends \
             with one clear error and has not. *Seen late*: it ended well, but readers were told so only after the \
             next write. A hook always ends with exit code 0 within 2 seconds, with an answer that lets the agent go \
             on, whether its change was possible or not; a call that was only interrupted costs it nothing.",
        );
        let start = Instant::now();
        let tallies = inject::errors(product, size)?;
        self.tallies(&tallies, start.elapsed());
        Ok(())
    }

    fn suites(&mut self, sizes: Sizes) {
        self.heading(
            "Histories and state machines",
            "Concurrent histories judged for linearizability, and sequences of operations against a model while \
             processes die at any file operation. Each suite tells its own figures.",
        );
        let start = Instant::now();
        let sizes = suites::Sizes {
            histories: sizes.histories,
            cases: sizes.cases,
        };
        self.figures(suites::run(sizes));
        let _ = writeln!(self.text, "Took {}.", minutes(start.elapsed()));
    }

    fn killed_hosts(&mut self, sizes: Sizes) {
        self.heading(
            "SIGKILL of the host at every event of a run",
            "A whole run of scripted workers: a dependency, a conflict that is resolved, a check that fails on the merged \
             work and is fixed, the gate, the landing. Its host dies as soon as the journal has got the N-th event, \
             another takes the run up, and what comes out is compared with a run that nobody disturbed.",
        );
        let start = Instant::now();
        self.figures(suites::kill_hosts(sizes.kills_every));
        let _ = writeln!(self.text, "Took {}.", minutes(start.elapsed()));
    }

    fn hostile(&mut self, sizes: Sizes) -> Result<()> {
        self.heading(
            "Findings of the attack",
            "Every line of the list of hostile findings, with the tests that drive the real binary and prove that it is \
             mended. A line whose tests did not run has failed.",
        );
        let start = Instant::now();
        let (results, figures) = suites::attack(sizes.merge_trains, sizes.disks)?;
        let _ = writeln!(
            self.text,
            "| line | what must hold | tests | passed |\n|---|---|---|---|"
        );
        for finding in &hostile::FINDINGS {
            let proof = hostile::Proof::of(finding, &results);
            let failure = proof.failure(finding.line);
            let row = format!(
                "| {} | {} | `{}` | {} of {}{} |",
                finding.line,
                finding.holds,
                finding.tests.join("`, `"),
                proof.ran - proof.failed.len(),
                proof.ran,
                if failure.is_some() { ", FAILED" } else { "" }
            );
            println!("{row}");
            let _ = writeln!(self.text, "{row}");
            self.failures.extend(failure);
        }
        self.text.push('\n');
        self.figures(Ok(figures));
        let _ = writeln!(self.text, "\nTook {}.", minutes(start.elapsed()));
        Ok(())
    }

    fn figures(&mut self, told: Result<Vec<suites::Figures>>) {
        match told {
            Ok(all) => {
                for figures in all {
                    let _ = writeln!(self.text, "`{}`:\n", figures.test);
                    for line in figures.lines {
                        println!("  {line}");
                        let _ = writeln!(self.text, "    {line}");
                    }
                    let _ = writeln!(self.text);
                }
            }
            Err(error) => {
                let _ = writeln!(self.text, "FAILED; see the output of the command.");
                self.failures.push(format!("{error:#}"));
            }
        }
    }

    fn long_task(&mut self, product: &Product, sizes: Sizes) -> Result<()> {
        self.heading(
            "A worker in the middle of a long task",
            "A scripted worker that says nothing for the length of its task; its heartbeat is looked at every 100 ms. \
             In the middle of its next task the team is shut down.",
        );
        let seen = workers::long_task(product, sizes.long_task)?;
        let line = format!(
            "Task of {}, {} looks: oldest heartbeat {:.1} s (limit {} s). Shutdown: {:.1} s (limit {} s), processes left: {}.",
            minutes(seen.length),
            seen.looks,
            seen.oldest_beat.as_secs_f64(),
            workers::OLDEST_BEAT.as_secs(),
            seen.shutdown.as_secs_f64(),
            workers::OBEYED.as_secs(),
            seen.left
        );
        println!("{line}");
        let _ = writeln!(self.text, "{line}");
        if seen.oldest_beat > workers::OLDEST_BEAT
            || seen.shutdown > workers::OBEYED
            || seen.left > 0
        {
            self.failures.push(line);
        }
        Ok(())
    }

    fn runaway(&mut self, product: &Product) -> Result<()> {
        self.heading(
            "An agent that tries to get away",
            "It ignores SIGTERM, forks twice, makes sessions of its own and leaves three generations. After a shutdown \
             no process carries the variable that was planted in all of them.",
        );
        for (what, with_groups) in [("With a cgroup", true), ("Without cgroups", false)] {
            let line = match workers::runaway(product, with_groups)? {
                Ok(seen) => {
                    let line = format!(
                        "{what}: {} processes, {}, shut down in {:.1} s, left: {}.",
                        seen.processes,
                        if seen.grouped {
                            "all in a group of the kernel's"
                        } else {
                            "in no group"
                        },
                        seen.shutdown.as_secs_f64(),
                        seen.left
                    );
                    if seen.left > 0 || seen.grouped != with_groups {
                        self.failures.push(line.clone());
                    }
                    line
                }
                Err(why) => format!("{what}: SKIPPED, {why}."),
            };
            println!("{line}");
            let _ = writeln!(self.text, "{line}\n");
        }
        Ok(())
    }

    fn tallies(&mut self, tallies: &[Tally], took: Duration) {
        let _ = writeln!(
            self.text,
            "| operation | names | calls | tried | hit | happened | did not | seen late | longest next operation | violations |\n\
             |---|---|---|---|---|---|---|---|---|---|"
        );
        for tally in tallies {
            println!("{}", tally.line());
            let _ = writeln!(
                self.text,
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
            );
            self.failures.extend(tally.violations.iter().cloned());
        }
        let _ = writeln!(self.text, "\nTook {}.", minutes(took));
    }
}

fn minutes(time: Duration) -> String {
    let seconds = time.as_secs();
    if seconds < 60 {
        format!("{:.1} s", time.as_secs_f64())
    } else {
        format!("{} min {} s", seconds / 60, seconds % 60)
    }
}

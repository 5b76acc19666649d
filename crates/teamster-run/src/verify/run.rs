//! Runs one check to its end.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use teamster_fs::Dir;
use teamster_fs::proc::Machine;
use teamster_isolate::child::{ChildEvent, ChildExit, ChildSpec, RunningChild};
use teamster_isolate::process_tree::ProcessTree;
use teamster_isolate::{GRACE, Signal};
use teamster_types::TeamName;
use teamster_types::process::{ProcessId, ProcessState};
use thiserror::Error;

use super::environment;
use super::output::CheckOutput;
use teamster_journal::payload::{Check, CheckVerdict, Checked};

/// How often the request to stop and the deadline are checked.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How often the descendant processes are recorded: a process that loses its parents and our launch id is known only by
/// that.
const SNAPSHOT_INTERVAL: Duration = Duration::from_secs(2);
/// How long processes that a check left behind may take to end by themselves.
const LEFT_GRACE: Duration = Duration::from_secs(1);
/// A process that ended may have left output in a pipe. The output is complete when nothing more came for this long.
const QUIET_PERIOD: Duration = Duration::from_secs(2);
/// Output from processes that outlive the check is discarded after this long.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest time limit: a later deadline could not be represented.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 3_600);

/// Runs checks in one folder.
#[derive(Clone, Copy, Debug)]
pub struct CheckRunner<'a> {
    /// The machine that the checks run on.
    pub machine: &'a Machine,
    /// The project's folder, for the logs.
    pub project: &'a Dir,
    /// The team whose work is checked.
    pub team: &'a TeamName,
    /// The folder in which the commands run.
    pub folder: &'a Path,
    /// How long one run of a check may take.
    pub limit: Duration,
    /// The launch id that all processes of a check carry: they are found by it if the host is killed.
    pub launch: &'a str,
}

/// Identifies a check of a run. This determines the name of its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckPlace<'a> {
    /// `base` or `integration`.
    pub on: &'a str,
    /// The number of the fix round.
    pub round: u32,
    /// The index among the checks.
    pub number: usize,
}

/// The error of a check that could not be started. It says nothing about the work.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{command}` could not be started in {folder}: {why}")]
pub struct CheckNotRun {
    /// The command.
    pub command: String,
    /// The folder in which it should have run.
    pub folder: String,
    /// The error of the system.
    pub why: String,
}

/// The result of one attempt.
struct CheckAttempt {
    verdict: CheckVerdict,
    ending: ChildExit,
}

impl CheckRunner<'_> {
    /// Runs a check, and once more if it fails.
    ///
    /// Its output is passed to `lines`, redacted and cleaned: one or several lines at a time, each with a line feed.
    /// While `lines` is busy, the check is blocked and its time limit is not checked. `stopped` is polled; when it
    /// returns true, the check is ended.
    ///
    /// On return no process of the check is left, with one exception: without a cgroup, a process that removes
    /// our launch id from its environment and loses its parents within moments escapes.
    pub fn check(
        &self,
        check: &Check,
        place: &CheckPlace<'_>,
        lines: &mut dyn FnMut(&str),
        stopped: &dyn Fn() -> bool,
    ) -> Result<Checked, CheckNotRun> {
        let began = Instant::now();
        let mut output = CheckOutput::open(self.project, self.team, place, lines);
        let mut once = self.run(check, &mut output, stopped)?;
        let mut last = output.take_last();
        if once.verdict == CheckVerdict::Failed {
            output.begin_again();
            let again = self.run(check, &mut output, stopped)?;
            match again.verdict {
                CheckVerdict::Passed => once.verdict = CheckVerdict::Flaky,
                // It did fail; a timeout in the second run does not change that.
                CheckVerdict::TimedOut => {}
                _ => {
                    once = again;
                    last = output.take_last();
                }
            }
        }
        let (log, remarks) = output.close();
        let (exit_code, signal) = match once.ending {
            ChildExit::Code(code) => (Some(code), None),
            ChildExit::Signal(signal) => (None, Some(signal)),
            ChildExit::Unknown => (None, None),
        };
        Ok(Checked {
            command: check.command.clone(),
            source: check.source.clone(),
            verdict: once.verdict,
            exit_code,
            signal,
            seconds: began.elapsed().as_secs_f64(),
            last,
            log,
            remarks,
        })
    }

    fn run(
        &self,
        check: &Check,
        output: &mut CheckOutput<'_>,
        stopped: &dyn Fn() -> bool,
    ) -> Result<CheckAttempt, CheckNotRun> {
        let unset: Vec<_> = std::env::vars_os()
            .map(|(name, _)| name)
            .filter(|name| environment::is_withheld(name))
            .collect();
        let args = ["-c".into(), check.command.clone().into()];
        let start = ChildSpec {
            program: Path::new("/bin/sh"),
            args: &args,
            folder: self.folder,
            set: &environment::check_variables(),
            unset: &unset,
            number: self.launch,
            has_input: false,
        };
        let (say, said) = channel();
        let running =
            RunningChild::start(self.machine, &start, &say, |said| said).map_err(|error| {
                // Its group was created before it.
                ProcessTree::of_launch(self.machine, self.launch, None).forget();
                CheckNotRun {
                    command: check.command.clone(),
                    folder: self.folder.display().to_string(),
                    why: error.to_string(),
                }
            })?;
        // The receiver must notice when all senders are gone.
        drop(say);
        let mut watch = CheckWatch {
            machine: self.machine,
            tree: ProcessTree::of_launch(self.machine, self.launch, Some(running.id())),
            known: BTreeMap::new(),
            running: &running,
            said,
            output,
            open: 2,
            cut: None,
            deadline: Instant::now() + self.limit.min(LONGEST_TIMEOUT),
        };
        let ending = watch.watch(stopped);
        watch.remove_leftovers();
        let verdict = match (watch.cut, ending) {
            (Some(cut), _) => cut,
            (None, ChildExit::Code(0)) => CheckVerdict::Passed,
            (None, _) => CheckVerdict::Failed,
        };
        Ok(CheckAttempt { verdict, ending })
    }
}

/// A running check.
struct CheckWatch<'a, 'o> {
    machine: &'a Machine,
    tree: ProcessTree<'a>,
    /// Every process that was ever seen in the tree.
    known: BTreeMap<u32, ProcessId>,
    running: &'a RunningChild,
    said: Receiver<ChildEvent>,
    output: &'a mut CheckOutput<'o>,
    /// The number of output streams that are still open.
    open: u32,
    /// Why it is being ended, if it is.
    cut: Option<CheckVerdict>,
    /// When its time is up; once it was asked to end, when it is killed.
    deadline: Instant,
}

impl CheckWatch<'_, '_> {
    /// Watches the check until it ends, and ends it when necessary.
    fn watch(&mut self, stopped: &dyn Fn() -> bool) -> ChildExit {
        let mut looked = Instant::now();
        let mut noted = Instant::now();
        loop {
            match self.said.recv_timeout(POLL_INTERVAL) {
                Ok(ChildEvent::Ended(ending)) => return ending,
                Ok(said) => self.handle(&said),
                Err(RecvTimeoutError::Timeout) => self.output.pause(),
                Err(RecvTimeoutError::Disconnected) => return ChildExit::Unknown,
            }
            // A check that prints all the time must not keep us from looking, but looking after every line is not
            // necessary either.
            if looked.elapsed() < POLL_INTERVAL {
                continue;
            }
            looked = Instant::now();
            if noted.elapsed() >= SNAPSHOT_INTERVAL {
                self.snapshot_processes();
                noted = Instant::now();
            }
            if self.cut.is_none() && stopped() {
                self.ask_to_end(CheckVerdict::Stopped);
            } else if looked >= self.deadline {
                match self.cut {
                    None => self.ask_to_end(CheckVerdict::TimedOut),
                    Some(_) => return self.kill(),
                }
            }
        }
    }

    fn handle(&mut self, said: &ChildEvent) {
        match said {
            ChildEvent::Line(stream, line) => self.output.line(*stream, line),
            ChildEvent::Closed(_) => self.open = self.open.saturating_sub(1),
            ChildEvent::Ended(_) => {}
        }
    }

    /// Asks all processes of the check to end. Their output is read until the grace period is over.
    fn ask_to_end(&mut self, why: CheckVerdict) {
        self.cut = Some(why);
        self.deadline = Instant::now() + GRACE;
        // The first process that ends may leave orphans.
        self.snapshot_processes();
        self.tree.ask(Signal::TERM);
        // If the processes cannot be listed, the signal still reaches the group.
        self.running.signal(Signal::TERM);
    }

    fn snapshot_processes(&mut self) {
        for member in self.tree.members() {
            self.known.insert(member.pid, member);
        }
    }

    /// Returns the recorded processes that are alive but no longer in the tree.
    fn strays(&self) -> Vec<ProcessId> {
        let members = self.tree.members();
        self.known
            .values()
            .filter(|known| !members.contains(known))
            .filter(|known| self.machine.process_state(known) == ProcessState::Alive)
            .filter(|known| !teamster_fs::proc::has_ended(known.pid))
            .cloned()
            .collect()
    }

    fn kill(&mut self) -> ChildExit {
        self.snapshot_processes();
        if let Err(error) = self.tree.kill() {
            self.output.remark(error.to_string());
        }
        self.running.signal(Signal::KILL);
        let until = Instant::now() + DRAIN_TIMEOUT;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.said.recv_timeout(left) {
                Ok(ChildEvent::Ended(ending)) => return ending,
                Ok(said) => self.handle(&said),
                Err(_) => return ChildExit::Unknown,
            }
        }
    }

    /// Ends the processes that the check left behind, and reads the remaining output.
    fn remove_leftovers(&mut self) {
        let strays = self.strays();
        let left = self.tree.members().len() + strays.len();
        if left > 0 {
            if self.cut.is_none() {
                let words = match left {
                    1 => "it left a process behind, which was ended".to_owned(),
                    _ => format!("it left {left} processes behind, which were ended"),
                };
                self.output.remark(words);
            }
            let trees = std::iter::once((self.tree.clone(), LEFT_GRACE));
            let strays = strays.iter().map(|stray| {
                (
                    ProcessTree::of_launch(self.machine, "", Some(stray)),
                    Duration::ZERO,
                )
            });
            for (tree, grace) in trees.chain(strays) {
                if let Err(error) = tree.end(grace) {
                    self.output.remark(error.to_string());
                }
            }
        }
        self.tree.forget();
        let until = Instant::now() + DRAIN_TIMEOUT;
        while self.open > 0 {
            let left = until.saturating_duration_since(Instant::now());
            match self.said.recv_timeout(QUIET_PERIOD.min(left)) {
                Ok(said) => self.handle(&said),
                Err(_) => break,
            }
        }
        self.output.pause();
    }
}

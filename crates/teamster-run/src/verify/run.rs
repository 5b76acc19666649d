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
use teamster_types::process::{Life, ProcessId};
use thiserror::Error;

use super::environment;
use super::output::CheckOutput;
use teamster_journal::payload::{Check, CheckVerdict, Checked};

/// It is looked this often whether somebody wants the check to stop.
const LOOK: Duration = Duration::from_millis(50);
/// Whom it has started is noted this often: who loses both its parents and our number is known by that alone.
const NOTE: Duration = Duration::from_secs(2);
/// What a check left behind is given this long to end by itself.
const LEFT_GRACE: Duration = Duration::from_secs(1);
/// A program that ended may have left output in a pipe. It is complete when nothing more came for this long.
const SILENCE: Duration = Duration::from_secs(2);
/// Output from processes that outlive the check is discarded after this long.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// No limit is longer: a moment that no clock can tell is none.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3_600);

/// Runs checks in one folder.
#[derive(Clone, Copy, Debug)]
pub struct CheckRunner<'a> {
    /// The machine we are on.
    pub machine: &'a Machine,
    /// The project, for the logs.
    pub project: &'a Dir,
    /// Whose work is checked.
    pub team: &'a TeamName,
    /// Where the commands run.
    pub folder: &'a Path,
    /// How long one run of a check may take.
    pub limit: Duration,
    /// What everything that it starts carries: by this it is found should we be killed.
    pub launch: &'a str,
}

/// Which check of a run it is. This names its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckPlace<'a> {
    /// `base` or `integration`.
    pub on: &'a str,
    /// The round of fixing.
    pub round: u32,
    /// The place among the checks.
    pub number: usize,
}

/// A check could not even be started. That says nothing about the work.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{command}` could not be started in {folder}: {why}")]
pub struct NotRun {
    /// The command.
    pub command: String,
    /// The folder that it was to run in.
    pub folder: String,
    /// What the system said.
    pub why: String,
}

/// How one run ended.
struct CheckAttempt {
    verdict: CheckVerdict,
    ending: ChildExit,
}

impl CheckRunner<'_> {
    /// Runs a check, and once more if it fails.
    ///
    /// What it prints is given to `lines`, redacted and cleaned: one line or several at a time, each with a line feed.
    /// As long as that takes its time, the check waits, and nobody looks at the clock. `stopped` is asked all the time; when it says
    /// yes, the check is ended. When this returns, nothing that the check started is left, as far as it can be told:
    /// who takes our number out of its environment and loses its parents within moments gets away where the system gives
    /// us no group.
    pub fn check(
        &self,
        check: &Check,
        place: &CheckPlace<'_>,
        lines: &mut dyn FnMut(&str),
        stopped: &dyn Fn() -> bool,
    ) -> Result<Checked, NotRun> {
        let began = Instant::now();
        let mut output = CheckOutput::open(self.project, self.team, place, lines);
        let mut once = self.run(check, &mut output, stopped)?;
        let mut last = output.take_last();
        if once.verdict == CheckVerdict::Failed {
            output.begin_again();
            let again = self.run(check, &mut output, stopped)?;
            match again.verdict {
                CheckVerdict::Passed => once.verdict = CheckVerdict::Flaky,
                // It did fail; that it takes too long now as well makes it no better.
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
    ) -> Result<CheckAttempt, NotRun> {
        let unset: Vec<_> = std::env::vars_os()
            .map(|(name, _)| name)
            .filter(|name| environment::is_withheld(name))
            .collect();
        let args = ["-c".into(), check.command.clone().into()];
        let start = ChildSpec {
            program: Path::new("/bin/sh"),
            args: &args,
            folder: self.folder,
            set: &environment::given(),
            unset: &unset,
            number: self.launch,
            has_input: false,
        };
        let (say, said) = channel();
        let running =
            RunningChild::start(self.machine, &start, &say, |said| said).map_err(|error| {
                // Its group was there before it.
                ProcessTree::of_launch(self.machine, self.launch, None).forget();
                NotRun {
                    command: check.command.clone(),
                    folder: self.folder.display().to_string(),
                    why: error.to_string(),
                }
            })?;
        // Who listens must hear when nobody can say anything any more.
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
            deadline: Instant::now() + self.limit.min(LONGEST),
        };
        let ending = watch.accompany(stopped);
        watch.clear_away();
        let verdict = match (watch.cut, ending) {
            (Some(cut), _) => cut,
            (None, ChildExit::Code(0)) => CheckVerdict::Passed,
            (None, _) => CheckVerdict::Failed,
        };
        Ok(CheckAttempt { verdict, ending })
    }
}

/// A check that runs.
struct CheckWatch<'a, 'o> {
    machine: &'a Machine,
    tree: ProcessTree<'a>,
    /// Everyone who was ever seen in the tree.
    known: BTreeMap<u32, ProcessId>,
    running: &'a RunningChild,
    said: Receiver<ChildEvent>,
    output: &'a mut CheckOutput<'o>,
    /// Streams that are not closed.
    open: u32,
    /// Why it is being ended, if it is.
    cut: Option<CheckVerdict>,
    /// When its time is up; when it was asked to end, until when it may take its time for that.
    deadline: Instant,
}

impl CheckWatch<'_, '_> {
    /// Goes with it to its end, or makes one.
    fn accompany(&mut self, stopped: &dyn Fn() -> bool) -> ChildExit {
        let mut looked = Instant::now();
        let mut noted = Instant::now();
        loop {
            match self.said.recv_timeout(LOOK) {
                Ok(ChildEvent::Ended(ending)) => return ending,
                Ok(said) => self.hear(&said),
                Err(RecvTimeoutError::Timeout) => self.output.pause(),
                Err(RecvTimeoutError::Disconnected) => return ChildExit::Unknown,
            }
            // A talkative check must not keep us from looking, and need not be looked at after every line.
            if looked.elapsed() < LOOK {
                continue;
            }
            looked = Instant::now();
            if noted.elapsed() >= NOTE {
                self.note();
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

    fn hear(&mut self, said: &ChildEvent) {
        match said {
            ChildEvent::Line(stream, line) => self.output.line(*stream, line),
            ChildEvent::Closed(_) => self.open = self.open.saturating_sub(1),
            ChildEvent::Ended(_) => {}
        }
    }

    /// Everyone it started is asked, and may go on talking until the grace is over.
    fn ask_to_end(&mut self, why: CheckVerdict) {
        self.cut = Some(why);
        self.deadline = Instant::now() + GRACE;
        // The first to obey leaves orphans.
        self.note();
        self.tree.ask(Signal::TERM);
        // Where nobody can be found by a walk over all processes, the group still hears it.
        self.running.signal(Signal::TERM);
    }

    fn note(&mut self) {
        for member in self.tree.members() {
            self.known.insert(member.pid, member);
        }
    }

    /// Those of the known who live and are in the tree no more.
    fn strays(&self) -> Vec<ProcessId> {
        let members = self.tree.members();
        self.known
            .values()
            .filter(|known| !members.contains(known))
            .filter(|known| self.machine.life(known) == Life::Alive)
            .filter(|known| !teamster_fs::proc::has_ended(known.pid))
            .cloned()
            .collect()
    }

    fn kill(&mut self) -> ChildExit {
        self.note();
        if let Err(error) = self.tree.kill() {
            self.output.remark(error.to_string());
        }
        self.running.signal(Signal::KILL);
        let until = Instant::now() + LAST_WORDS;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.said.recv_timeout(left) {
                Ok(ChildEvent::Ended(ending)) => return ending,
                Ok(said) => self.hear(&said),
                Err(_) => return ChildExit::Unknown,
            }
        }
    }

    /// Ends what it left behind, and hears the last words.
    fn clear_away(&mut self) {
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
        let until = Instant::now() + LAST_WORDS;
        while self.open > 0 {
            let left = until.saturating_duration_since(Instant::now());
            match self.said.recv_timeout(SILENCE.min(left)) {
                Ok(said) => self.hear(&said),
                Err(_) => break,
            }
        }
        self.output.pause();
    }
}

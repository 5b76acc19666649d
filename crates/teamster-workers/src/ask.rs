//! Asking an agent something once: no task, no worktree, no worker, but the same process under the same watch.
//!
//! The agent carries a launch's number of its own, so that all it started is found and ended, and nothing else is:
//! whoever asks may have other children. It gets a temp folder that goes with it.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use teamster_agents::{
    AgentEvent, Driver, Ending, Exit, Job, Outcome, Permissions, Reader, Rule, Stopped,
};
use teamster_fs::proc::Machine;
use teamster_isolate::child::{ChildEvent, OutputStream, RunningChild};
use teamster_isolate::process_tree::ProcessTree;

use crate::process::{self, LAST_WORDS, LastLines};
use crate::rules::Rules;
use crate::temp;

/// It is looked this often whether somebody wants it stopped.
const LOOK: Duration = Duration::from_millis(100);
/// So much of what it says is kept; of more, the end.
const LONGEST_ANSWER: usize = 4 * 1024 * 1024;

/// What is asked, of whom, and where.
pub struct Ask<'a> {
    /// The agent.
    pub driver: &'a dyn Driver,
    /// Which model; else the client's own choice.
    pub model: Option<&'a str>,
    /// What it is told.
    pub prompt: &'a str,
    /// The folder it is started in; without one, a temp folder that goes with it.
    pub folder: Option<&'a Path>,
    /// Which team it is asked for.
    pub team: &'a str,
    /// As whom.
    pub name: &'a str,
    /// What it may do. What a person would have to decide is denied: nobody waits beside it.
    pub permissions: Permissions,
    /// How long it may take to start, say nothing, and take in all.
    pub rules: &'a Rules,
    /// Variables that it gets besides its own.
    pub exported: &'a [(OsString, OsString)],
    /// Where programs are looked for.
    pub path: &'a OsStr,
    /// Our own program.
    pub teamster: &'a Path,
    /// What everything that it starts carries: by this it is found should we be killed.
    pub launch: &'a str,
}

/// What came of it.
#[derive(Debug)]
pub struct Asked {
    /// Whether it is done, and what it cost.
    pub outcome: Outcome,
    /// All that it said.
    pub said: String,
    /// Why we ended it, if we did.
    pub cut: Option<Stopped>,
    /// The last lines of both its streams, for whoever wants to know why it failed.
    pub last: Vec<String>,
    /// Processes that it left behind and that were ended.
    pub left: usize,
}

/// The agent was not started at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{command}: {why}")]
pub struct NotStarted {
    /// The command line, or the agent's name where there is none.
    pub command: String,
    /// Why.
    pub why: String,
}

/// Asks once and waits for the end. `stop` is looked at all the time; `hear` is told of everything that the agent does.
pub fn ask(
    ask: &Ask<'_>,
    stop: &dyn Fn() -> bool,
    hear: &mut dyn FnMut(&AgentEvent),
) -> Result<Asked, NotStarted> {
    let temp = temp::make(ask.launch);
    let asked = with_temp(ask, ask.launch, temp.as_deref(), stop, hear);
    temp::remove(ask.launch);
    asked
}

fn with_temp(
    ask: &Ask<'_>,
    number: &str,
    temp: Option<&Path>,
    stop: &dyn Fn() -> bool,
    hear: &mut dyn FnMut(&AgentEvent),
) -> Result<Asked, NotStarted> {
    let permissions = Permissions {
        shell: without_asking(ask.permissions.shell),
        other: without_asking(ask.permissions.other),
        ..ask.permissions
    };
    let not_started = |command: String, why: String| NotStarted { command, why };
    // Clients ask where they are with links resolved, and compare.
    let own = temp.and_then(|temp| temp.canonicalize().ok());
    let Some(folder) = ask.folder.or(own.as_deref()) else {
        let why = "no folder could be made for it to run in".to_owned();
        return Err(not_started(ask.driver.provider().to_owned(), why));
    };
    let job = Job {
        prompt: ask.prompt,
        worktree: folder,
        git_dir: None,
        model: ask.model,
        resume: None,
        permissions: &permissions,
        team: ask.team,
        worker: ask.name,
        task: None,
        temp,
        path: ask.path,
        teamster: ask.teamster,
    };
    let launch = ask
        .driver
        .launch(&job)
        .map_err(|error| not_started(ask.driver.provider().to_owned(), error.to_string()))?;
    let machine = Machine::read();
    let (sender, events) = channel();
    let place = process::Where {
        folder,
        exported: ask.exported,
        number,
    };
    let (running, input) = process::begin(&machine, &launch, &place, &sender, |said| said)
        .map_err(|error| not_started(launch.command_line(), error.to_string()))?;
    drop(sender);
    let now = Instant::now();
    let mut watch = Watch {
        ask,
        machine: &machine,
        number,
        events: &events,
        reader: ask.driver.reader(&job),
        running,
        input,
        hear,
        said: String::new(),
        last: LastLines::default(),
        began: now,
        spoke: now,
        started: false,
        cut: None,
        kill_at: None,
        exit: None,
        open: 2,
    };
    watch.go_along(stop);
    let left = watch.clear_away();
    let ending = Ending {
        exit: watch.exit.unwrap_or(Exit::Unknown),
        stopped: watch.cut,
    };
    let outcome = watch.reader.end(ending, &watch.last.errors());
    Ok(Asked {
        outcome,
        said: watch.said,
        cut: watch.cut,
        last: watch.last.into_lines(),
        left,
    })
}

fn without_asking(rule: Rule) -> Rule {
    match rule {
        Rule::Ask => Rule::Deny,
        rule => rule,
    }
}

/// A run that goes on.
struct Watch<'a> {
    ask: &'a Ask<'a>,
    machine: &'a Machine,
    number: &'a str,
    events: &'a Receiver<ChildEvent>,
    reader: Box<dyn Reader>,
    running: RunningChild,
    input: Option<Sender<Vec<u8>>>,
    hear: &'a mut dyn FnMut(&AgentEvent),
    said: String,
    last: LastLines,
    began: Instant,
    spoke: Instant,
    started: bool,
    cut: Option<Stopped>,
    /// When an agent that was asked to end is ended.
    kill_at: Option<Instant>,
    exit: Option<Exit>,
    open: u32,
}

impl Watch<'_> {
    fn go_along(&mut self, stop: &dyn Fn() -> bool) {
        while self.exit.is_none() {
            match self.events.recv_timeout(LOOK) {
                Ok(said) => self.hear(said),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if self.cut.is_none() && stop() {
                self.cut(Stopped::Interrupted);
            }
            // A talkative agent must not keep us from looking.
            self.look_at_the_clock();
        }
    }

    fn look_at_the_clock(&mut self) {
        let (now, rules) = (Instant::now(), self.ask.rules);
        if let Some(kill_at) = self.kill_at {
            if now >= kill_at {
                let _ = self.tree().kill();
                self.kill_at = Some(now + rules.grace);
            }
            return;
        }
        let silence = if self.started {
            self.spoke + rules.idle
        } else {
            self.began + rules.start
        };
        if now >= silence {
            self.cut(Stopped::Silent);
        } else if now >= self.began + rules.task {
            self.cut(Stopped::Late);
        }
    }

    fn hear(&mut self, said: ChildEvent) {
        match said {
            ChildEvent::Line(stream, line) => {
                self.last.remember(stream, &line);
                match stream {
                    OutputStream::Output => self.line(&line),
                    // A program of the user's own shows life on either stream.
                    OutputStream::Error if self.ask.driver.provider() == "command" => self.spoke(),
                    OutputStream::Error => {}
                }
            }
            ChildEvent::Closed(_) => self.open = self.open.saturating_sub(1),
            ChildEvent::Ended(ending) => self.exit = Some(process::exit(ending)),
        }
    }

    fn line(&mut self, line: &[u8]) {
        let step = self.reader.line(line);
        for event in step.events {
            if self.started || matches!(event, AgentEvent::Started { .. }) {
                self.spoke();
            }
            if let AgentEvent::Text(text) = &event {
                self.keep(text);
            }
            (self.hear)(&event);
        }
        if let Some(input) = &self.input {
            for reply in step.replies {
                let _ = input.send(reply);
            }
        }
        if step.close_input {
            self.input = None;
        }
    }

    fn spoke(&mut self) {
        self.spoke = Instant::now();
        self.started = true;
    }

    fn keep(&mut self, text: &str) {
        self.said.push_str(text);
        if self.ask.driver.says_whole_texts() {
            self.said.push('\n');
        }
        if self.said.len() > 2 * LONGEST_ANSWER {
            let from = self.said.len() - LONGEST_ANSWER;
            let from = (from..self.said.len()).find(|at| self.said.is_char_boundary(*at));
            self.said.drain(..from.unwrap_or(0));
        }
    }

    fn cut(&mut self, why: Stopped) {
        self.cut = Some(why);
        self.kill_at = Some(Instant::now() + self.ask.rules.grace);
        process::ask_to_end(
            self.ask.driver,
            &self.running,
            self.input.as_ref(),
            self.started,
        );
    }

    /// Whoever asks may have other children, so nobody is taken for the agent's by being below us.
    fn tree(&self) -> ProcessTree<'_> {
        ProcessTree::of_launch(self.machine, self.number, Some(self.running.id()))
    }

    /// Ends what the agent left behind, and hears its last words; how many processes those were.
    fn clear_away(&mut self) -> usize {
        self.input = None;
        let tree = self.tree();
        let left = tree.members().len();
        if left > 0 {
            let _ = tree.end(self.ask.rules.grace.min(Duration::from_secs(1)));
        }
        tree.forget();
        let deadline = Instant::now() + LAST_WORDS;
        while self.open > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.events.recv_timeout(left) {
                Ok(said) => self.hear(said),
                Err(_) => break,
            }
        }
        left
    }
}

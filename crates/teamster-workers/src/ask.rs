//! Asks an agent a single question: no task, no worktree, no worker, but the same process supervision.
//!
//! The agent carries a launch id of its own, so that exactly the processes that it started are found and ended: the caller
//! may have other children. It gets a temp folder that is removed with it.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use teamster_agents::{
    AgentEvent, AgentOutcome, AgentSpending, Driver, Job, Permissions, QuestionReply, Rule, Stopped,
};
use teamster_fs::proc::Machine;
use teamster_isolate::OrTrace as _;
use teamster_isolate::child::ChildEvent;
use teamster_isolate::process_tree::ProcessTree;
use teamster_journal::payload::UsageReported;
use teamster_journal::{EventActor, EventKind, NewEvent};

use crate::attempt::{AgentAttempt, AttemptCommand, StopCause};
use crate::limits::WorkerLimits;
use crate::process::{self, AgentProcess, DRAIN_TIMEOUT, LaunchSite, TempFolder};

/// The poll interval for `stop`.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// An answer of more than twice this many bytes is shortened to its end of this length.
const LONGEST_ANSWER: usize = 4 * 1024 * 1024;

/// The reply to an agent that itself asks the person a question.
const NOBODY_CAN_ANSWER: &str = "Nobody answers while you are asked this. If your answer has a place for questions, put it there; else \
     decide by yourself, and say what you assumed.";

/// The question, the agent and the environment in which it answers.
pub struct Ask<'a> {
    /// The agent's driver.
    pub driver: &'a dyn Driver,
    /// The model, or `None` for the client's own choice.
    pub model: Option<&'a str>,
    /// The prompt.
    pub prompt: &'a str,
    /// The folder the agent is started in; `None` for a temp folder that is removed with the agent.
    pub folder: Option<&'a Path>,
    /// The team that the agent is asked for.
    pub team: &'a str,
    /// The worker name that the agent gets.
    pub name: &'a str,
    /// What the agent may do. Requests that would need a person's decision are denied: no person is there to decide.
    pub permissions: Permissions,
    /// The time limits for the agent's start, its silence and its whole run.
    pub limits: &'a WorkerLimits,
    /// Variables that the agent gets in addition to its driver's.
    pub exported: &'a [(OsString, OsString)],
    /// The search path for programs, as in `PATH`.
    pub path: &'a OsStr,
    /// The path of teamster's own program.
    pub teamster: &'a Path,
    /// The launch id that all processes of the agent carry, by which they are found if teamster is killed.
    pub launch: &'a str,
}

/// The result of asking an agent.
#[derive(Debug)]
pub struct AskResult {
    /// Whether the agent is done, and what it cost.
    pub outcome: AgentOutcome,
    /// The text of the agent's messages.
    pub said: String,
    /// Why teamster ended the agent, if it did.
    pub stopped: Option<Stopped>,
    /// The last lines of both streams, to explain a failure of the agent.
    pub last_lines: Vec<String>,
    /// The number of processes that the agent left behind and that were then ended.
    pub leftover: usize,
}

/// An agent that was not started at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{command}: {why}")]
pub struct AgentNotStarted {
    /// The command line, or the agent's provider when there is no command line yet.
    pub command: String,
    /// Why the agent was not started.
    pub why: String,
}

/// Asks an agent once and waits for its end. `stop` is polled while it runs; `hear` gets every event of the agent.
pub fn ask(
    ask: &Ask<'_>,
    stop: &dyn Fn() -> bool,
    hear: &mut dyn FnMut(&AgentEvent),
) -> Result<AskResult, AgentNotStarted> {
    let temp = TempFolder::make(ask.launch);
    let permissions = Permissions {
        shell: without_asking(ask.permissions.shell),
        other: without_asking(ask.permissions.other),
        ..ask.permissions
    };
    let not_started = |command: String, why: String| AgentNotStarted { command, why };
    // Clients resolve links in their own folder's path and compare it with this one.
    let own = temp.path().and_then(|temp| temp.canonicalize().ok());
    let Some(folder) = ask.folder.or(own.as_deref()) else {
        let why = "could not create a folder to run it in".to_owned();
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
        temp: temp.path(),
        inbox: None,
        path: ask.path,
        teamster: ask.teamster,
        tools: None,
    };
    let launch = ask
        .driver
        .launch(&job)
        .map_err(|error| not_started(ask.driver.provider().to_owned(), error.to_string()))?;
    let machine = Machine::read();
    let (sender, events) = channel();
    let site = LaunchSite {
        folder,
        exported: ask.exported,
        launch_id: ask.launch,
    };
    let process = AgentProcess::start(&machine, &launch, &site, &sender, |said| said)
        .map_err(|error| not_started(launch.command_line(), error.to_string()))?;
    drop(sender);
    let attempt = AgentAttempt::new(
        ask.driver.reader(&job),
        ask.limits.clone(),
        ask.driver.provider() == "command",
        Instant::now(),
    );
    let conversation = Conversation {
        ask,
        machine: &machine,
        events: &events,
        process,
        attempt,
        hear,
        said: String::new(),
    };
    Ok(conversation.run(stop))
}

fn without_asking(rule: Rule) -> Rule {
    match rule {
        Rule::Ask => Rule::Deny,
        rule => rule,
    }
}

/// An agent that is being asked.
struct Conversation<'a> {
    ask: &'a Ask<'a>,
    machine: &'a Machine,
    events: &'a Receiver<ChildEvent>,
    process: AgentProcess,
    attempt: AgentAttempt,
    hear: &'a mut dyn FnMut(&AgentEvent),
    said: String,
}

impl Conversation<'_> {
    fn run(mut self, stop: &dyn Fn() -> bool) -> AskResult {
        self.watch(stop);
        self.process.close_input();
        let (leftover, _) = process::end_leftovers(&self.tree(), self.ask.limits.grace);
        let deadline = Instant::now() + DRAIN_TIMEOUT;
        while !self.attempt.is_drained() {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.events.recv_timeout(left) {
                Ok(said) => self.take(said),
                Err(_) => break,
            }
        }
        let end = self.attempt.finish(String::new(), leftover);
        AskResult {
            outcome: end.outcome,
            said: self.said,
            stopped: end.cause.as_ref().map(StopCause::as_stopped),
            last_lines: end.last_lines,
            leftover,
        }
    }

    /// Supervises the agent until it ends.
    fn watch(&mut self, stop: &dyn Fn() -> bool) {
        while !self.attempt.has_ended() {
            match self.events.recv_timeout(POLL_INTERVAL) {
                Ok(said) => self.take(said),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if !self.attempt.is_stopping()
                && stop()
                && let Some(command) = self.attempt.stop(StopCause::Requested, Instant::now())
            {
                self.apply(command);
            }
            // The time limits are checked after every event, so that steady output cannot delay them.
            if let Some(command) = self.attempt.tick(Instant::now()) {
                self.apply(command);
            }
        }
    }

    fn take(&mut self, said: ChildEvent) {
        for command in self.attempt.handle(said, Instant::now()) {
            self.apply(command);
        }
    }

    fn apply(&mut self, command: AttemptCommand) {
        match command {
            AttemptCommand::Report(event) => {
                match &event {
                    AgentEvent::Text(text) => self.keep(text),
                    AgentEvent::QuestionAsked { request, .. } => self.leave_question(request),
                    _ => {}
                }
                (self.hear)(&event);
            }
            AttemptCommand::Write(bytes) => self.process.write(bytes),
            AttemptCommand::CloseInput => self.process.close_input(),
            AttemptCommand::RequestEnd(_) => {
                let interrupt = self.attempt.interrupt();
                let interrupt = interrupt.unwrap_or_else(|| self.ask.driver.interrupt());
                self.process
                    .ask_to_end(interrupt, self.attempt.has_shown_life());
            }
            AttemptCommand::Kill => {
                self.tree().kill().or_trace("kill what an agent started");
            }
            // There is no log, no heartbeat and no mail.
            AttemptCommand::Log { .. }
            | AttemptCommand::NoteTaken(_)
            | AttemptCommand::NoteRefused(_)
            | AttemptCommand::NoteActivity { .. }
            | AttemptCommand::NoteStarted { .. } => {}
        }
    }

    /// Tells the client that its question will not be answered.
    fn leave_question(&mut self, request: &str) {
        let reply = QuestionReply::Unanswered(NOBODY_CAN_ANSWER.to_owned());
        let line = self
            .attempt
            .answer_question(request, &reply, Instant::now());
        if let Some(line) = line {
            self.process.write(line);
        }
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

    /// Returns the processes of the agent, identified by the launch id: the caller may have other children, so being a
    /// descendant of this process is not enough.
    fn tree(&self) -> ProcessTree<'_> {
        ProcessTree::of_launch(self.machine, self.ask.launch, Some(self.process.id()))
    }
}

/// Returns the event that reports what `actor` has used. Unknown amounts are `null`, never 0.
pub fn usage_event(
    actor: impl Into<EventActor>,
    provider: &str,
    model: Option<&str>,
    spent: &AgentSpending,
) -> NewEvent {
    NewEvent::new(
        actor,
        EventKind::Usage(UsageReported {
            provider: Some(provider.to_owned()),
            model: model.map(str::to_owned),
            tokens_in: spent.usage.map(|usage| usage.input),
            tokens_out: spent.usage.map(|usage| usage.output),
            cached_in: spent.usage.map(|usage| usage.cached_input),
            cache_write: spent.usage.map(|usage| usage.cache_write),
            reasoning: spent.usage.map(|usage| usage.reasoning),
            usd: spent.cost_usd,
            at_least: spent.at_least,
        }),
    )
}

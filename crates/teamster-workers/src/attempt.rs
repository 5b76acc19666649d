//! One run of an agent as a state machine: its output and the passing of time go in, commands come out.
//!
//! An [`AgentAttempt`] starts nothing, writes nothing and reads no clock. The bridge and [`ask`](crate::ask) feed it and carry
//! out its [`AttemptCommand`]s, so both end an agent by the same rules:
//!
//! ```text
//! start limit ──▶ idle limit (from each sign of life) ──▶ asked to end ──▶ grace ──▶ killed, again after each grace
//!        └────────────── task limit (from the start) ────────┘
//! ```

use std::time::Instant;

use teamster_agents::{
    AgentEnd, AgentEvent, AgentOutcome, Exit, Interrupt, LineEffects, MessageRoute, OutputReader,
    PermissionReply, QuestionReply, Stopped,
};
use teamster_isolate::child::{self, ChildEvent, OutputLine, OutputStream};

use crate::limits::WorkerLimits;
use crate::process::LastLines;

/// Why the bridge ended an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StopCause {
    /// The agent did not show that it runs within the start limit.
    NoStart,
    /// The agent said nothing for longer than the idle limit.
    Silent,
    /// The agent took longer than the task limit.
    Late,
    /// The worker was asked to stop immediately.
    Requested,
    /// The worker lost its claim on the task, for this reason.
    ClaimLost(String),
    /// The team was deleted.
    TeamGone,
}

impl StopCause {
    /// Returns the cause as a sentence for the log.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::NoStart => "it gave no sign of life after its start".to_owned(),
            Self::Silent => "it printed nothing for too long".to_owned(),
            Self::Late => "the task takes too long".to_owned(),
            Self::Requested => "the worker is stopping".to_owned(),
            Self::ClaimLost(why) => format!("the task no longer belongs to this worker: {why}"),
            Self::TeamGone => "the team is gone".to_owned(),
        }
    }

    /// Returns the cause as drivers know it.
    pub(crate) fn as_stopped(&self) -> Stopped {
        match self {
            Self::NoStart | Self::Silent => Stopped::Silent,
            Self::Late => Stopped::Late,
            Self::Requested | Self::ClaimLost(_) | Self::TeamGone => Stopped::Interrupted,
        }
    }
}

/// An action that the owner of an attempt must perform. Commands are performed in the order in which they are returned.
#[derive(Debug)]
pub(crate) enum AttemptCommand {
    /// Write a line of the agent to the task's log, with its human-readable form if the client's format is known.
    Log {
        stream: OutputStream,
        line: OutputLine,
        shown: Option<String>,
    },
    /// Note that the agent gave a sign of life, with its session where it named one.
    NoteActivity { session: Option<String> },
    /// Note that the agent has shown for the first time that it runs.
    NoteStarted { session: Option<String> },
    /// Report an event of the agent.
    Report(AgentEvent),
    /// Note that the client accepted this delivery of messages.
    NoteTaken(String),
    /// Note that the client rejected this delivery of messages.
    NoteRefused(String),
    /// Write these bytes to the agent's input.
    Write(Vec<u8>),
    /// Close the agent's input.
    CloseInput,
    /// Ask the agent to exit.
    RequestEnd(StopCause),
    /// Kill the agent and all processes that it started.
    Kill,
}

/// How an attempt ended.
#[derive(Debug)]
pub(crate) struct AttemptEnd {
    /// The driver's judgement of the run.
    pub(crate) outcome: AgentOutcome,
    /// Why teamster ended the agent, if it did.
    pub(crate) cause: Option<StopCause>,
    /// The command line that was started, redacted.
    pub(crate) command: String,
    /// How the process ended.
    pub(crate) exit: Exit,
    /// The last lines of both streams, redacted.
    pub(crate) last_lines: Vec<String>,
    /// The number of processes that the agent left behind and that were then ended.
    pub(crate) leftover: usize,
    /// Whether the agent showed that it was running before it ended.
    pub(crate) has_shown_life: bool,
}

impl AttemptEnd {
    /// Returns what a person needs to know to see why an agent did not start.
    pub(crate) fn describe_failed_launch(&self) -> String {
        let last = if self.last_lines.is_empty() {
            "it printed nothing".to_owned()
        } else {
            format!("its last output: {}", self.last_lines.join(" ⏎ "))
        };
        format!("{}: {}; {last}", self.command, self.describe_exit())
    }

    fn describe_exit(&self) -> String {
        let exit = match self.exit {
            Exit::Code(code) => format!("exit code {code}"),
            Exit::Signal(signal) => format!("ended by signal {signal}"),
            Exit::Unknown => "no exit code".to_owned(),
        };
        match &self.cause {
            Some(cause) => format!("{}, then {exit}", cause.describe()),
            None => exit,
        }
    }
}

/// One run of an agent, from its start to its end.
pub(crate) struct AgentAttempt {
    reader: Box<dyn OutputReader>,
    limits: WorkerLimits,
    /// Whether the agent is a program of the user's own. Such a program counts as started once it is executed, and its error
    /// output is a sign of life as well.
    is_program: bool,
    started_at: Instant,
    last_activity: Instant,
    has_shown_life: bool,
    stop: Option<StopCause>,
    /// When an agent that was asked to exit is killed.
    kill_at: Option<Instant>,
    /// When the input of an agent that may be finished is closed, unless it continues.
    close_at: Option<Instant>,
    exit: Option<Exit>,
    open_streams: u32,
    last_lines: LastLines,
}

impl AgentAttempt {
    /// Begins an attempt whose process was started at `now`.
    pub(crate) fn new(
        reader: Box<dyn OutputReader>,
        limits: WorkerLimits,
        is_program: bool,
        now: Instant,
    ) -> Self {
        Self {
            reader,
            limits,
            is_program,
            started_at: now,
            last_activity: now,
            has_shown_life: false,
            stop: None,
            kill_at: None,
            close_at: None,
            exit: None,
            open_streams: 2,
            last_lines: LastLines::default(),
        }
    }

    /// Handles the execution of the process, which is the only start signal of a program of the user's own.
    pub(crate) fn note_executed(&mut self, now: Instant) -> Vec<AttemptCommand> {
        let mut commands = Vec::new();
        if self.is_program {
            self.note_activity(None, now, &mut commands);
        }
        commands
    }

    /// Handles an event of the process.
    pub(crate) fn handle(&mut self, said: ChildEvent, now: Instant) -> Vec<AttemptCommand> {
        match said {
            ChildEvent::Line(stream, line) => self.handle_line(stream, line, now),
            ChildEvent::Closed(_) => {
                self.open_streams = self.open_streams.saturating_sub(1);
                Vec::new()
            }
            ChildEvent::Ended(ending) => {
                self.exit = Some(match ending {
                    child::ChildExit::Code(code) => Exit::Code(code),
                    child::ChildExit::Signal(signal) => Exit::Signal(signal),
                    child::ChildExit::Unknown => Exit::Unknown,
                });
                Vec::new()
            }
        }
    }

    fn handle_line(
        &mut self,
        stream: OutputStream,
        line: OutputLine,
        now: Instant,
    ) -> Vec<AttemptCommand> {
        let effects = matches!(stream, OutputStream::Output).then(|| self.reader.line(&line));
        let shown = effects.as_ref().and_then(shown);
        self.last_lines.remember(stream, &line);
        let mut commands = vec![AttemptCommand::Log {
            stream,
            line,
            shown,
        }];
        match effects {
            Some(effects) => self.take_effects(effects, now, &mut commands),
            None if self.is_program => self.note_activity(None, now, &mut commands),
            None => {}
        }
        commands
    }

    fn take_effects(
        &mut self,
        effects: LineEffects,
        now: Instant,
        commands: &mut Vec<AttemptCommand>,
    ) {
        for event in effects.events {
            match &event {
                AgentEvent::Started { session, .. } => {
                    self.note_activity(session.clone(), now, commands);
                }
                _ if self.has_shown_life => self.note_activity(None, now, commands),
                // Before the agent has shown that it runs, no event counts as a sign of life.
                _ => {}
            }
            commands.push(AttemptCommand::Report(event));
        }
        commands.extend(effects.taken.into_iter().map(AttemptCommand::NoteTaken));
        commands.extend(effects.refused.into_iter().map(AttemptCommand::NoteRefused));
        commands.extend(effects.replies.into_iter().map(AttemptCommand::Write));
        if effects.close_input {
            commands.push(AttemptCommand::CloseInput);
        }
        self.close_at = effects.may_be_over.then(|| now + self.limits.grace);
    }

    /// Handles a call of one of teamster's tools, or the wait for its reply; both are signs of life.
    pub(crate) fn note_request(&mut self, now: Instant) -> Vec<AttemptCommand> {
        let mut commands = Vec::new();
        self.note_activity(None, now, &mut commands);
        commands
    }

    fn note_activity(
        &mut self,
        session: Option<String>,
        now: Instant,
        commands: &mut Vec<AttemptCommand>,
    ) {
        self.last_activity = now;
        commands.push(AttemptCommand::NoteActivity {
            session: session.clone(),
        });
        if !std::mem::replace(&mut self.has_shown_life, true) {
            commands.push(AttemptCommand::NoteStarted { session });
        }
    }

    /// Returns the command that is due by `now`, if any.
    pub(crate) fn tick(&mut self, now: Instant) -> Option<AttemptCommand> {
        if let Some(kill_at) = self.kill_at {
            return (now >= kill_at).then(|| {
                self.kill_at = Some(now + self.limits.grace);
                AttemptCommand::Kill
            });
        }
        if self.close_at.take_if(|close_at| now >= *close_at).is_some() {
            return Some(AttemptCommand::CloseInput);
        }
        let cause = if !self.has_shown_life && now >= self.started_at + self.limits.start {
            StopCause::NoStart
        } else if self.has_shown_life && now >= self.last_activity + self.limits.idle {
            StopCause::Silent
        } else if now >= self.started_at + self.limits.task {
            StopCause::Late
        } else {
            return None;
        };
        self.stop(cause, now)
    }

    /// Ends the attempt for this cause, unless it is already being ended.
    pub(crate) fn stop(&mut self, cause: StopCause, now: Instant) -> Option<AttemptCommand> {
        if self.stop.is_some() {
            return None;
        }
        self.stop = Some(cause.clone());
        self.kill_at = Some(now + self.limits.grace);
        Some(AttemptCommand::RequestEnd(cause))
    }

    /// Returns the line that tells the agent what a person decided, or `None` when the agent does not wait for it.
    pub(crate) fn reply(
        &mut self,
        request: &str,
        reply: PermissionReply,
        now: Instant,
    ) -> Option<Vec<u8>> {
        let line = self.reader.answer(request, reply)?;
        self.last_activity = now;
        Some(line)
    }

    /// Returns the bytes that answer the client's question, or `None` when the client no longer waits for an answer.
    pub(crate) fn answer_question(
        &mut self,
        request: &str,
        reply: &QuestionReply,
        now: Instant,
    ) -> Option<Vec<u8>> {
        let line = self.reader.answer_question(request, reply)?;
        self.last_activity = now;
        Some(line)
    }

    /// Returns how a message reaches the agent now. An agent that is being ended gets no more messages.
    pub(crate) fn deliver(&mut self, delivery: &str, text: &str) -> MessageRoute {
        if self.accepts_messages() {
            self.reader.deliver(delivery, text)
        } else {
            MessageRoute::Never
        }
    }

    /// Returns whether messages may be sent to the agent: it has not exited and is not being ended.
    pub(crate) fn accepts_messages(&self) -> bool {
        self.stop.is_none() && self.exit.is_none()
    }

    /// Returns how this run is asked to exit, where that depends on its output so far.
    pub(crate) fn interrupt(&self) -> Option<Interrupt> {
        self.reader.interrupt()
    }

    /// Returns when [`AgentAttempt::tick`] must be called next if no event comes before.
    pub(crate) fn deadline(&self) -> Instant {
        if let Some(kill_at) = self.kill_at {
            return kill_at;
        }
        let silent = if self.has_shown_life {
            self.last_activity + self.limits.idle
        } else {
            self.started_at + self.limits.start
        };
        let end = silent.min(self.started_at + self.limits.task);
        self.close_at.map_or(end, |close_at| end.min(close_at))
    }

    /// Returns whether the agent was asked to exit.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.is_some()
    }

    /// Returns whether the process has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.exit.is_some()
    }

    /// Returns whether both output streams are closed.
    pub(crate) fn is_drained(&self) -> bool {
        self.open_streams == 0
    }

    /// Returns whether the agent has shown that it runs.
    pub(crate) fn has_shown_life(&self) -> bool {
        self.has_shown_life
    }

    /// Returns when the agent last gave a sign of life.
    pub(crate) fn last_activity(&self) -> Instant {
        self.last_activity
    }

    /// Ends the attempt with the driver's judgement. `command` is the command line that was started, `leftover` the number of
    /// processes that it left behind.
    pub(crate) fn finish(self, command: String, leftover: usize) -> AttemptEnd {
        let exit = self.exit.unwrap_or(Exit::Unknown);
        let end = AgentEnd {
            exit,
            stopped: self.stop.as_ref().map(StopCause::as_stopped),
        };
        AttemptEnd {
            outcome: self.reader.end(end, &self.last_lines.errors()),
            cause: self.stop,
            command,
            exit,
            last_lines: self.last_lines.into_lines(),
            leftover,
            has_shown_life: self.has_shown_life,
        }
    }
}

/// Returns the human-readable form of one line: empty for the client's internal messages, `None` for a line that is not
/// understood.
fn shown(effects: &LineEffects) -> Option<String> {
    let said: Option<Vec<String>> = effects.events.iter().map(AgentEvent::shown).collect();
    let mut said = said?;
    said.retain(|text| !text.is_empty());
    Some(said.join("\n"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use teamster_agents::{AgentVerdict, CommandDriver, Driver as _, Job, Permissions};

    use super::*;

    fn limits() -> WorkerLimits {
        WorkerLimits {
            start: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            task: Duration::from_secs(100),
            grace: Duration::from_secs(5),
            ..WorkerLimits::default()
        }
    }

    fn attempt(is_program: bool) -> (AgentAttempt, Instant) {
        let job = Job {
            prompt: "",
            worktree: std::path::Path::new("/"),
            git_dir: None,
            model: None,
            resume: None,
            permissions: &Permissions::default(),
            team: "t",
            worker: "w",
            task: None,
            temp: None,
            inbox: None,
            path: std::ffi::OsStr::new(""),
            teamster: std::path::Path::new("/teamster"),
            tools: None,
        };
        let reader = CommandDriver::new("true", Vec::new()).reader(&job);
        let now = Instant::now();
        (AgentAttempt::new(reader, limits(), is_program, now), now)
    }

    fn after(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    fn is_end(command: Option<&AttemptCommand>, expected: &StopCause) -> bool {
        matches!(command, Some(AttemptCommand::RequestEnd(cause)) if cause == expected)
    }

    #[test]
    fn agent_that_never_shows_itself_is_stopped_at_the_start_limit() {
        let (mut attempt, start) = attempt(false);
        assert_eq!(attempt.deadline(), after(start, 10));
        assert!(attempt.tick(after(start, 9)).is_none());
        assert!(is_end(
            attempt.tick(after(start, 10)).as_ref(),
            &StopCause::NoStart
        ));
        let end = attempt.finish("sh".to_owned(), 0);
        assert!(!end.has_shown_life);
        assert_eq!(
            end.cause.map(|cause| cause.as_stopped()),
            Some(Stopped::Silent)
        );
    }

    #[test]
    fn program_that_was_executed_may_be_silent_until_the_idle_limit() {
        let (mut attempt, start) = attempt(true);
        let commands = attempt.note_executed(start);
        assert!(matches!(
            commands[..],
            [
                AttemptCommand::NoteActivity { session: None },
                AttemptCommand::NoteStarted { session: None }
            ]
        ));
        assert!(attempt.tick(after(start, 59)).is_none());
        assert!(is_end(
            attempt.tick(after(start, 60)).as_ref(),
            &StopCause::Silent
        ));
    }

    #[test]
    fn activity_moves_the_idle_deadline_but_not_the_task_deadline() {
        let (mut attempt, start) = attempt(true);
        let mut commands = Vec::new();
        attempt.note_activity(None, after(start, 5), &mut commands);
        assert!(matches!(
            commands[..],
            [
                AttemptCommand::NoteActivity { session: None },
                AttemptCommand::NoteStarted { session: None }
            ]
        ));
        assert_eq!(attempt.deadline(), after(start, 65));
        commands.clear();
        attempt.note_activity(None, after(start, 50), &mut commands);
        assert!(matches!(
            commands[..],
            [AttemptCommand::NoteActivity { session: None }]
        ));
        assert_eq!(attempt.deadline(), after(start, 100));
        assert!(is_end(
            attempt.tick(after(start, 100)).as_ref(),
            &StopCause::Late
        ));
    }

    #[test]
    fn silent_agent_is_asked_once_and_then_killed_after_each_grace() {
        let (mut attempt, start) = attempt(true);
        attempt.note_activity(None, start, &mut Vec::new());
        assert!(is_end(
            attempt.tick(after(start, 60)).as_ref(),
            &StopCause::Silent
        ));
        assert!(attempt.is_stopping());
        assert!(
            attempt
                .stop(StopCause::Requested, after(start, 61))
                .is_none()
        );
        assert!(attempt.tick(after(start, 64)).is_none());
        for seconds in [65, 70] {
            assert!(matches!(
                attempt.tick(after(start, seconds)),
                Some(AttemptCommand::Kill)
            ));
        }
        let end = attempt.finish("sh".to_owned(), 0);
        assert_eq!(end.cause, Some(StopCause::Silent));
    }

    #[test]
    fn input_of_an_agent_that_may_be_over_is_closed_unless_it_goes_on() {
        let (mut attempt, start) = attempt(true);
        attempt.note_activity(None, start, &mut Vec::new());
        let may_be_over = |is_so| LineEffects {
            may_be_over: is_so,
            ..LineEffects::default()
        };
        for is_over in [true, false, true] {
            attempt.take_effects(may_be_over(is_over), start, &mut Vec::new());
        }
        assert_eq!(attempt.deadline(), after(start, 5));
        attempt.take_effects(may_be_over(false), start, &mut Vec::new());
        assert!(attempt.tick(after(start, 5)).is_none(), "it went on");
        attempt.take_effects(may_be_over(true), start, &mut Vec::new());
        assert!(attempt.tick(after(start, 4)).is_none());
        let closed = attempt.tick(after(start, 5));
        assert!(matches!(closed, Some(AttemptCommand::CloseInput)));
        assert!(attempt.tick(after(start, 6)).is_none(), "once");
    }

    #[test]
    fn exit_code_decides_when_nobody_stopped_the_agent() {
        let (mut attempt, start) = attempt(false);
        assert!(!attempt.has_ended() && !attempt.is_drained());
        for said in [
            ChildEvent::Closed(OutputStream::Output),
            ChildEvent::Closed(OutputStream::Error),
            ChildEvent::Ended(child::ChildExit::Code(0)),
        ] {
            assert!(attempt.handle(said, start).is_empty());
        }
        assert!(attempt.has_ended() && attempt.is_drained());
        let end = attempt.finish("sh".to_owned(), 2);
        assert!(matches!(end.outcome.verdict, AgentVerdict::Done { .. }));
        assert_eq!(end.leftover, 2);
        assert_eq!(
            end.describe_failed_launch(),
            "sh: exit code 0; it printed nothing"
        );
    }
}

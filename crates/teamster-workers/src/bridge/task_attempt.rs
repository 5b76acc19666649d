//! One run of an agent on one task: its launch, its process, its log, and its end.
//!
//! An [`AgentLauncher`] starts the agent of one worker, any number of times. Each start creates a [`TaskAttempt`], which
//! performs those commands of its [`AgentAttempt`] that concern the agent itself; the bridge performs those that concern
//! the worker.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use teamster_agents::{
    AgentTools, Driver, Job, JobTask, MessageRoute, PermissionReply, Permissions, QuestionReply,
    ResumeSession,
};
use teamster_fs::proc::Machine;
use teamster_fs::{Dir, Durability, FsError, InboxFile, layout};
use teamster_isolate::OrTrace as _;
use teamster_isolate::child::{ChildEvent, OutputStream};
use teamster_isolate::process_tree::{self, ProcessTree, SurvivingProcesses};
use teamster_store::Claimed;
use teamster_types::message::Message;
use teamster_types::process::ProcessId;
use teamster_types::task::Task;
use teamster_types::{TaskId, Time};

use super::BridgeEvent;
use super::reporter::{Reporter, TaskLog, TaskLogSource, WorkerIdentity};
use super::socket::WorkerSocket;
use crate::attempt::{AgentAttempt, AttemptCommand, AttemptEnd, StopCause};
use crate::limits::WorkerLimits;
use crate::mail_text;
use crate::process::{self, AgentProcess, LaunchSite, TempFolder};

/// The settings with which a worker's agent is started each time.
pub struct AgentSetup {
    /// The driver of the agent's client.
    pub driver: Arc<dyn Driver>,
    /// The model, or `None` for the client's own choice.
    pub model: Option<String>,
    /// What the agent may do.
    pub permissions: Permissions,
    /// Variables that the agent gets in addition to its driver's.
    pub exported: Vec<(OsString, OsString)>,
    /// The path of teamster's own program.
    pub teamster: PathBuf,
    /// The search path for programs, as in `PATH`.
    pub path: OsString,
}

/// Starts the agent of one worker.
pub(super) struct AgentLauncher {
    identity: WorkerIdentity,
    setup: AgentSetup,
    limits: WorkerLimits,
    /// The project, whose teamster folder holds task files and logs.
    project: Dir,
    machine: Arc<Machine>,
    /// The socket through which the agent reaches its bridge; `None` when there is none.
    socket: Option<WorkerSocket>,
    /// Where the agent's output goes.
    events: Sender<BridgeEvent>,
    /// The number of attempts so far.
    attempts: u64,
}

/// The input of one attempt at a task.
pub(super) struct AttemptInput<'a> {
    /// The folder that the agent works in.
    pub(super) folder: &'a Path,
    /// The prompt.
    pub(super) prompt: &'a str,
    /// The number of attempts at this task that failed.
    pub(super) failures: u32,
    /// The client's session to resume.
    pub(super) resume: Option<ResumeSession<'a>>,
    /// The folder for temp files of this attempt. It is removed when the last reference is dropped.
    pub(super) temp: Arc<TempFolder>,
}

impl AgentLauncher {
    /// Creates the launcher of a worker; output of its agents goes to `events`.
    pub(super) fn new(
        identity: WorkerIdentity,
        setup: AgentSetup,
        limits: WorkerLimits,
        project: Dir,
        machine: Arc<Machine>,
        socket: Option<WorkerSocket>,
        events: Sender<BridgeEvent>,
    ) -> Self {
        Self {
            identity,
            setup,
            limits,
            project,
            machine,
            socket,
            events,
            attempts: 0,
        }
    }

    /// Returns the machine that the agent runs on.
    pub(super) fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Returns the project's folder.
    pub(super) fn project(&self) -> &Dir {
        &self.project
    }

    /// Returns the worker's limits.
    pub(super) fn limits(&self) -> &WorkerLimits {
        &self.limits
    }

    /// Returns whether messages that arrived during a turn are delivered in a turn of their own.
    pub(super) fn has_turns_for_mail(&self) -> bool {
        self.setup.driver.has_turns_for_mail()
    }

    /// Returns the agent's model, or `None` for the client's own choice.
    pub(super) fn model(&self) -> Option<&str> {
        self.setup.model.as_deref()
    }

    /// Opens the log of a task.
    pub(super) fn open_log(&self, reporter: &mut Reporter, task: &TaskId) -> TaskLog {
        TaskLog::open(&self.project, reporter, task, self.limits.log_bytes)
    }

    /// Starts the agent, or returns in words why it was not started. The agent's output arrives as
    /// [`BridgeEvent::Agent`] with the number of this attempt.
    pub(super) fn start<'a>(
        &mut self,
        claimed: &'a Claimed,
        input: AttemptInput<'_>,
        log: &'a mut TaskLog,
        now: Time,
    ) -> Result<TaskAttempt<'a>, String> {
        let task = &claimed.task;
        let file = self
            .write_task(task)
            .map_err(|error| format!("cannot write the task for the agent: {error}"))?;
        let inbox = input.temp.make_inbox();
        let inbox_path = inbox.as_ref().map(InboxFile::path);
        let id = task.id().to_string();
        let job = Job {
            prompt: input.prompt,
            worktree: input.folder,
            // The bridge commits, so that no agent needs write access to the repository's `.git` folder.
            git_dir: None,
            model: self.setup.model.as_deref(),
            resume: input.resume,
            permissions: &self.setup.permissions,
            team: self.identity.team.as_str(),
            worker: self.identity.name.as_str(),
            task: Some(JobTask {
                id: &id,
                subject: task.subject(),
                file: &file,
                attempt: input.failures + 1,
            }),
            path: &self.setup.path,
            teamster: &self.setup.teamster,
            temp: input.temp.path(),
            inbox: inbox_path.as_deref(),
            tools: self.socket.as_ref().map(|socket| AgentTools {
                socket: socket.path(),
                patience: self.limits.idle,
            }),
        };
        let driver = Arc::clone(&self.setup.driver);
        let launch = driver
            .launch(&job)
            .map_err(|error| format!("{}: {error}", driver.provider()))?;
        let command = launch.command_line();
        log.note(now, &format!("starts {command}"));
        self.attempts += 1;
        let number = self.attempts;
        let site = LaunchSite {
            folder: input.folder,
            exported: &self.setup.exported,
            launch_id: &self.identity.launch,
        };
        let process =
            AgentProcess::start(&self.machine, &launch, &site, &self.events, move |said| {
                BridgeEvent::Agent(number, said)
            })
            .map_err(|error| format!("{command}: {error}"))?;
        let attempt = AgentAttempt::new(
            driver.reader(&job),
            self.limits.clone(),
            driver.provider() == "command",
            Instant::now(),
        );
        Ok(TaskAttempt {
            claimed,
            log,
            driver,
            machine: Arc::clone(&self.machine),
            launch_id: self.identity.launch.clone(),
            grace: self.limits.grace,
            number,
            command,
            process,
            attempt,
            inbox,
            _temp: input.temp,
        })
    }

    /// Writes the task for the agent, without the claim token; returns the file.
    fn write_task(&self, task: &Task) -> Result<PathBuf, FsError> {
        let mut folder = self.project.child_or_create(layout::OMC)?;
        for name in layout::agent_folders(&self.identity.team, &self.identity.name) {
            folder = folder.child_or_create(name)?;
        }
        let bytes = teamster_types::json::to_file(&task.public());
        folder.replace(layout::AGENT_TASK, &bytes, Durability::Fast)?;
        Ok(folder.join(layout::AGENT_TASK))
    }
}

/// One run of an agent on one task.
pub(super) struct TaskAttempt<'a> {
    claimed: &'a Claimed,
    log: &'a mut TaskLog,
    driver: Arc<dyn Driver>,
    machine: Arc<Machine>,
    launch_id: String,
    grace: Duration,
    number: u64,
    command: String,
    process: AgentProcess,
    attempt: AgentAttempt,
    /// The file that messages are appended to, if the agent receives them that way.
    inbox: Option<InboxFile>,
    /// Removed at the end of the attempt, with all files that the agent left there.
    _temp: Arc<TempFolder>,
}

impl TaskAttempt<'_> {
    /// Returns the task and its claim token.
    pub(super) fn claimed(&self) -> &Claimed {
        self.claimed
    }

    /// Returns the id of the task.
    pub(super) fn task(&self) -> &TaskId {
        self.claimed.task.id()
    }

    /// Returns the state of the agent and its deadlines.
    pub(super) fn state(&self) -> &AgentAttempt {
        &self.attempt
    }

    /// Returns the identity of the agent's process.
    pub(super) fn process_id(&self) -> &ProcessId {
        self.process.id()
    }

    /// Returns whether an event with this number belongs to this attempt, and not to an earlier one.
    pub(super) fn has_number(&self, number: u64) -> bool {
        self.number == number
    }

    /// Handles an event of the process.
    pub(super) fn handle(&mut self, said: ChildEvent) -> Vec<AttemptCommand> {
        self.attempt.handle(said, Instant::now())
    }

    /// Handles the execution of the agent's process.
    pub(super) fn note_executed(&mut self) -> Vec<AttemptCommand> {
        self.attempt.note_executed(Instant::now())
    }

    /// Handles a call of one of teamster's tools, or the wait for its reply.
    pub(super) fn note_request(&mut self) -> Vec<AttemptCommand> {
        self.attempt.note_request(Instant::now())
    }

    /// Returns the command that is due by now, if any.
    pub(super) fn tick(&mut self) -> Option<AttemptCommand> {
        self.attempt.tick(Instant::now())
    }

    /// Ends the agent for this cause, unless it is already being ended.
    pub(super) fn stop(&mut self, cause: StopCause, now: Time) {
        if let Some(command) = self.attempt.stop(cause, Instant::now()) {
            let _ = self.perform(command, now);
        }
    }

    /// Passes a person's decision to the agent; returns whether the agent waited for it.
    pub(super) fn reply(&mut self, request: &str, reply: PermissionReply) -> bool {
        match self.attempt.reply(request, reply, Instant::now()) {
            Some(line) => {
                self.process.write(line);
                true
            }
            None => false,
        }
    }

    /// Passes the outcome of a question to the client, if the client waits for it.
    pub(super) fn answer_question(&mut self, request: &str, reply: &QuestionReply) {
        let line = self.attempt.answer_question(request, reply, Instant::now());
        if let Some(line) = line {
            self.process.write(line);
        }
    }

    /// Returns whether messages may be sent to the agent: it has not exited and is not being ended.
    pub(super) fn accepts_messages(&self) -> bool {
        self.attempt.accepts_messages()
    }

    /// Delivers messages to the agent, in the way that its client accepts now. `delivery` identifies this attempt to deliver.
    pub(super) fn tell(&mut self, delivery: &str, messages: &[Message]) -> MessageRoute {
        let text = mail_text::delivery_text(messages);
        match self.attempt.deliver(delivery, &text) {
            MessageRoute::Input(bytes) => {
                self.process.write(bytes.clone());
                MessageRoute::Input(bytes)
            }
            MessageRoute::InboxFile => {
                let lines: Vec<u8> = messages.iter().flat_map(mail_text::inbox_line).collect();
                let Some(inbox) = &mut self.inbox else {
                    return MessageRoute::Never;
                };
                let appended = inbox.append(&lines);
                match appended.ok_or_trace("append to the inbox file of an agent") {
                    Some(()) => MessageRoute::InboxFile,
                    None => MessageRoute::Later,
                }
            }
            other => other,
        }
    }

    /// Returns whether the program has read all of its inbox file.
    pub(super) fn was_inbox_read(&self) -> bool {
        let was_read = self.inbox.as_ref().map(InboxFile::was_read);
        was_read
            .and_then(|read| read.ok_or_trace("look at the inbox file of an agent"))
            .unwrap_or(false)
    }

    /// Adds a line of the bridge to the task's log.
    pub(super) fn note(&mut self, now: Time, text: &str) {
        self.log.note(now, text);
    }

    /// Performs a command that concerns the agent itself; returns the text of the agent, if there is any to show.
    pub(super) fn perform(&mut self, command: AttemptCommand, now: Time) -> Option<String> {
        match command {
            AttemptCommand::Log {
                stream,
                line,
                shown,
            } => {
                let source = match stream {
                    OutputStream::Output => TaskLogSource::Agent,
                    OutputStream::Error => TaskLogSource::Stderr,
                };
                return self.log.line(now, source, &line, shown.as_deref());
            }
            AttemptCommand::Write(bytes) => self.process.write(bytes),
            AttemptCommand::CloseInput => self.process.close_input(),
            AttemptCommand::RequestEnd(cause) => {
                let text = format!("ends the agent: {}", cause.describe());
                self.log.note(now, &text);
                let interrupt = self.attempt.interrupt();
                let interrupt = interrupt.unwrap_or_else(|| self.driver.interrupt());
                self.process
                    .ask_to_end(interrupt, self.attempt.has_shown_life());
            }
            AttemptCommand::Kill => {
                ProcessTree::below_me(&self.machine, &self.launch_id)
                    .kill()
                    .or_trace("kill what an agent started");
            }
            AttemptCommand::NoteActivity { .. }
            | AttemptCommand::NoteStarted { .. }
            | AttemptCommand::NoteTaken(_)
            | AttemptCommand::NoteRefused(_)
            | AttemptCommand::Report(_) => {}
        }
        None
    }

    /// Reaps ended orphans of the agent, so that they leave the process table.
    pub(super) fn reap_orphans(&self) {
        process_tree::reap_adopted(&self.machine);
    }

    /// Ends the processes that the agent left behind; returns their number, and those that could not be ended.
    pub(super) fn end_leftovers(&mut self) -> (usize, Option<SurvivingProcesses>) {
        self.process.close_input();
        let tree = ProcessTree::below_me(&self.machine, &self.launch_id);
        process::end_leftovers(&tree, self.grace)
    }

    /// Ends the attempt with the driver's judgement.
    pub(super) fn finish(self, leftover: usize) -> AttemptEnd {
        self.attempt.finish(self.command, leftover)
    }
}

//! The bridge: a worker's own process. It claims tasks, runs its agent on them, and hands over the results.
//!
//! ```text
//!                    ┌──────────────── Bridge: one loop, one channel ────────────────┐
//!  agent ──lines──▶  │  TaskAttempt   one run of the agent: process, log, deadlines  │
//!  journal, mail ─▶  │  WorkerMailbox mail, requests of the agent, people's replies  │ ──▶ Reporter: journal, lead,
//!  signals, lease ▶  │  Lifecycle     heartbeat, stop requests, pauses, quarantine   │     own output, task logs
//!  agent's socket ▶  │  AgentRequests tools that the agent calls, its open questions │
//!                    └───────────────────────────────────────────────────────────────┘
//!  signals → mail → claim → workplace made ready → agent → work kept → task completed, failed or released → …
//! ```
//!
//! Every event arrives through one channel as a [`BridgeEvent`], from the agent's lines to a stop signal, so that waiting
//! for one source never blocks another. [`Bridge::step`] is the only place that waits: it passes the event to the part
//! that it concerns and applies what that part returns. Another source of events is one more variant of
//! [`BridgeEvent`] and one more arm of [`Bridge::dispatch`].
//!
//! Only the heartbeat has a thread of its own ([`heartbeat`]): other processes judge the worker by it, even while the
//! bridge is busy.

mod agent_mail;
mod agent_requests;
mod completion;
mod heartbeat;
mod lifecycle;
mod log_requests;
mod mailbox;
mod reporter;
mod socket;
mod task_attempt;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use teamster_agents::{AgentEvent, AgentVerdict, PermissionDecision, ResumeSession, Trouble};
use teamster_fs::proc::Machine;
use teamster_fs::{Dir, OrTrace as _};
use teamster_isolate::child::ChildEvent;
use teamster_isolate::process_tree::{self, ProcessTree};
use teamster_journal::payload::{
    Addressee, WorkerPaused, WorkerResumed, WorkerSpawned, WorkerStarted, WorkerStopped,
};
use teamster_journal::{EventActor, EventKind};
use teamster_prompts::Prompts;
use teamster_store::{ClaimRequest, Claimed, Signal, Store, StoreError, StoreErrorKind};
use teamster_types::TaskId;
use teamster_types::heartbeat::{LimitCause, ProviderLimit, WorkerStatus};
use teamster_types::json::Object;
use teamster_types::process::ProcessId;
use teamster_types::redact::redact;
use teamster_types::team::TeamOrigin;
use teamster_types::text::shown;

use crate::alerts::EndAlerts;
use crate::attempt::{AttemptCommand, AttemptEnd, StopCause};
use crate::briefing::{self, Briefer, BriefingInput};
use crate::limits::WorkerLimits;
use crate::mail_text;
use crate::process::{LAST_WORDS, TempFolder};
use crate::record::{self, LaunchRecord, WorkerBackend, WorkerLock, WorkerSpec};
use crate::tools::{ToolFailure, WorkerTool};
use crate::workplace::{Foundation, Workplace, WorkplaceError};
use agent_requests::{AgentRequests, ClientReply};
use completion::{AgentPart, Completion, REASON, TaskResolution, lost_claim};
use heartbeat::HeartbeatThread;
use lifecycle::{IdleWait, Lifecycle, WorkOutlook, forward_system_signals};
use mailbox::{MailRequest, PersonRequest, WorkerMailbox};
use reporter::{Reporter, TaskLog, WorkerIdentity};
use socket::{AgentRequest, WorkerSocket};
pub use task_attempt::AgentSetup;
use task_attempt::{AgentLauncher, AttemptInput, TaskAttempt};

/// The number of launches of an agent before the attempt is given up.
const LAUNCHES: u32 = 2;
/// How often ended orphans of the agent are reaped, so that they leave the process table.
const REAP_ORPHANS: Duration = Duration::from_secs(30);
/// The longest pause before a result that the store could not accept is written again.
const WRITE_AGAIN: Duration = Duration::from_secs(10);
/// The number of retries to write a result once the worker is asked to stop.
const LAST_WRITES: u32 = 3;
/// The most extra turns in which an agent gets messages that arrived while it worked; the rest go into the next prompt.
const TURNS_FOR_MAIL: u32 = 3;

/// The input of one turn of an agent.
#[derive(Clone, Copy)]
struct AgentTurn<'a> {
    /// The prompt.
    prompt: &'a str,
    /// The number of attempts at the task that failed.
    failures: u32,
    /// The client's session to resume.
    resume: Option<ResumeSession<'a>>,
    /// The folder for temp files.
    temp: &'a Arc<TempFolder>,
}

/// Everything that reaches a bridge.
#[derive(Debug)]
enum BridgeEvent {
    /// Something happened in the team.
    TeamChanged {
        /// Whether there is a new line in the worker's inbox.
        has_mail: bool,
    },
    /// The worker is asked to stop.
    StopRequested(Signal),
    /// The claim of this task is lost, for this reason.
    ClaimLost(TaskId, String),
    /// A reader on another machine requests the worker's logs.
    LogsWanted,
    /// The team was deleted.
    TeamGone,
    /// The agent of the attempt with this number said something.
    Agent(u64, ChildEvent),
    /// The agent calls a tool through the socket.
    Requested(AgentRequest),
    /// The reply to the request with this number was written, or could not be.
    ReplyWritten { number: u64, is_written: bool },
    /// The caller of the request with this number no longer waits for its reply.
    CallerGone(u64),
}

/// How a wait for an event ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StepOutcome {
    /// An event came and was applied.
    Event { may_be_work: bool },
    /// The time limit was reached.
    Timeout,
    /// Every sender of events is gone.
    Closed,
}

/// Creates the worker's workplace, and prints what it does. The caller holds the worker's lock.
pub type OpenWorkplace =
    Box<dyn FnOnce(&mut dyn FnMut(&str)) -> Result<Box<dyn Workplace>, WorkplaceError> + Send>;

/// Returns whether another task may be started now.
pub type MayBegin = Box<dyn FnMut() -> bool + Send>;

/// The configuration of a bridge.
pub struct BridgeConfig {
    /// The store that tasks come from.
    pub store: Arc<dyn Store>,
    /// Where the ends of workers are recorded.
    pub alerts: EndAlerts,
    /// The worker's lock, taken before any of the worker's state was touched.
    pub lock: WorkerLock,
    /// The launch whose last heartbeat is still in the store, though it has stopped beating.
    pub seen: Option<String>,
    /// The project's folder.
    pub project: PathBuf,
    /// The worker's name and team, and the agent that it runs.
    pub spec: WorkerSpec,
    /// How often the worker was restarted since it last ended in order.
    pub restarts: u32,
    /// The agent's provider, as the user wrote it.
    pub provider: String,
    /// The settings with which the agent is started each time.
    pub agent: AgentSetup,
    /// The templates of the agent's prompts.
    pub prompts: Prompts,
    /// Creates the worker's workplace.
    pub workplace: OpenWorkplace,
    /// How long things may take.
    pub limits: WorkerLimits,
    /// The id of this launch.
    pub launch: String,
    /// Decides whether another task may be started: a run may have used up its budget.
    pub may_begin: MayBegin,
    /// Who answers questions of the agent.
    pub questions_to: Addressee,
    /// Prints a line to the worker's pane or log.
    pub output: Box<dyn FnMut(&str) + Send>,
}

/// Why a bridge did not start, or did not end in order.
#[derive(Debug, thiserror::Error)]
pub enum BridgeError {
    /// The store refused an operation.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file could not be read or written.
    #[error(transparent)]
    Files(#[from] teamster_fs::FsError),
    /// The workplace could not be created.
    #[error(transparent)]
    Place(#[from] WorkplaceError),
}

/// A worker's own process.
pub struct Bridge {
    reporter: Reporter,
    mailbox: WorkerMailbox,
    lifecycle: Lifecycle,
    launcher: AgentLauncher,
    briefer: Briefer,
    requests: AgentRequests,
    /// Whether the agent's output is shown where the worker's own output goes.
    shows_agent: bool,
    workplace: Box<dyn Workplace>,
    may_begin: MayBegin,
    events: Receiver<BridgeEvent>,
    /// The task that the worker keeps while it waits for its provider.
    waiting: Option<Claimed>,
    /// Why the claim on that task is lost.
    lost: Option<String>,
    /// Held for the bridge's life; the kernel releases it when the bridge dies.
    _lock: WorkerLock,
}

/// A limit of the provider that the agent hit.
struct MetLimit {
    limit: ProviderLimit,
    /// How long the worker waits.
    seconds: u64,
    /// What the client said, in words.
    reason: String,
}

impl Bridge {
    /// Creates the workplace and starts the heartbeat.
    pub fn open(mut config: BridgeConfig) -> Result<Self, BridgeError> {
        // The lock is held, so no other process of this worker loses its worktree while its agent runs.
        let workplace = (config.workplace)(&mut config.output)?;
        process_tree::adopt_orphans();
        let machine = Arc::new(Machine::read());
        let project = Dir::open_or_create_root(&config.project)?;
        let store = config.store;
        let identity = WorkerIdentity {
            team: config.spec.team.clone(),
            name: config.spec.worker.clone(),
            provider: config.provider,
            launch: config.launch,
        };
        // A signal that was meant for an earlier bridge of this name does not concern this one.
        store.clear_signals(&identity.team, &identity.name)?;
        let record = LaunchRecord {
            launch: identity.launch.clone(),
            process: machine.me().clone(),
            started_at: store.now(),
            restarts: config.restarts,
            spec: config.spec,
        };
        record::write(&project, &record)?;
        let position = store.position(&identity.team)?;
        let is_guest = store.team(&identity.team)?.kind() == TeamOrigin::Claude;
        let (sender, events) = channel();
        let heartbeat = HeartbeatThread::start(
            Arc::clone(&store),
            Arc::clone(&machine),
            identity.clone(),
            &config.limits,
            config.seen.as_deref(),
            sender.clone(),
        )?;
        forward_system_signals(Arc::clone(&store), sender.clone());
        let reach = briefing::reach(config.agent.driver.provider(), &config.agent.teamster);
        let briefer = Briefer::new(
            identity.team.clone(),
            identity.name.clone(),
            config.prompts,
            reach,
            config.limits.prompt,
        );
        let socket = WorkerSocket::open(&identity.launch, sender.clone());
        let socket = match socket {
            Ok(socket) => Some(socket),
            Err(error) => {
                (config.output)(&format!("the agent cannot reach its team: {error}"));
                None
            }
        };
        let mut bridge = Self {
            briefer,
            reporter: Reporter::new(store, identity.clone(), config.alerts, config.output),
            mailbox: WorkerMailbox::new(record.started_at, position, is_guest),
            lifecycle: Lifecycle::new(heartbeat, config.limits.clone()),
            launcher: AgentLauncher::new(
                identity.clone(),
                config.agent,
                config.limits,
                project,
                machine,
                socket,
                sender,
            ),
            requests: AgentRequests::new(config.questions_to),
            shows_agent: record.spec.backend == WorkerBackend::Tmux,
            workplace,
            may_begin: config.may_begin,
            events,
            waiting: None,
            lost: None,
            _lock: config.lock,
        };
        let spawned = bridge
            .reporter
            .event(EventKind::WorkerSpawned(WorkerSpawned {
                process: Some(record.process),
                launch: identity.launch,
                provider: identity.provider,
            }));
        bridge.reporter.store().record(&identity.team, spawned)?;
        bridge.reporter.send_to_lead("ready", "", Object::new());
        Ok(bridge)
    }

    /// Works until the worker is to stop.
    pub fn run(mut self) -> Result<(), BridgeError> {
        self.lifecycle.show(WorkerStatus::Polling);
        let requests = self.mailbox.read_mail(&mut self.reporter);
        self.obey(requests);
        if let Some(limit) = WorkerMailbox::known_limit(&self.reporter) {
            self.hear_of_limit(&limit);
        }
        let mut claimed_at: Option<Instant> = None;
        while !self.lifecycle.is_over() {
            if self.lifecycle.may_work() && (self.may_begin)() && !self.is_called_back() {
                claimed_at = Some(Instant::now());
                match self.claim() {
                    Ok(Some(claimed)) => {
                        self.work(&claimed);
                        continue;
                    }
                    Ok(None) => self.report_idle(),
                    Err(error) if error.kind == StoreErrorKind::NotFound => {
                        self.lifecycle.note_team_gone();
                        continue;
                    }
                    Err(error) => self.reporter.say(&format!("cannot claim: {error}")),
                }
            }
            if !self.lifecycle.is_stopping() {
                self.wait_for_work(claimed_at);
            }
        }
        self.leave()
    }

    /// Waits until `until` for one event, passes it to the part that it concerns and applies the result.
    fn step(&mut self, run: Option<&mut TaskAttempt<'_>>, until: Instant) -> StepOutcome {
        let left = until.saturating_duration_since(Instant::now());
        match self.events.recv_timeout(left) {
            Ok(event) => StepOutcome::Event {
                may_be_work: self.dispatch(event, run),
            },
            Err(RecvTimeoutError::Timeout) => StepOutcome::Timeout,
            Err(RecvTimeoutError::Disconnected) => StepOutcome::Closed,
        }
    }

    /// Applies an event to the worker and to its agent, if one runs; returns whether there may be a task to claim now.
    fn dispatch(&mut self, event: BridgeEvent, run: Option<&mut TaskAttempt<'_>>) -> bool {
        let now = self.reporter.store().now();
        match (event, run) {
            (BridgeEvent::Agent(number, said), Some(run)) if run.has_number(number) => {
                let commands = run.hear(said);
                // Mail is delivered before replies, so that a client that waits for a reply has the messages when it continues.
                self.deliver_mail(run);
                self.apply(run, commands);
            }
            (BridgeEvent::StopRequested(signal), run) => {
                let is_now = !signal.drain;
                self.request_stop(signal);
                if is_now && let Some(run) = run {
                    run.stop(StopCause::Requested, now);
                }
            }
            (BridgeEvent::ClaimLost(task, why), Some(run)) if *run.task() == task => {
                run.stop(StopCause::ClaimLost(why), now);
            }
            (BridgeEvent::TeamGone, Some(run)) => run.stop(StopCause::TeamGone, now),
            (BridgeEvent::TeamGone, None) => self.lifecycle.note_team_gone(),
            (BridgeEvent::LogsWanted, _) => {
                log_requests::answer(&self.reporter, self.launcher.project());
            }
            (BridgeEvent::TeamChanged { has_mail }, run) => return self.read_news(run, has_mail),
            (BridgeEvent::Requested(request), Some(run)) => self.serve(request, run),
            (BridgeEvent::Requested(request), None) => {
                let failure = ToolFailure::new(
                    "the work on the task is over",
                    "put what is left to say into the last message of the task",
                );
                request.reply(Err(failure), false);
            }
            (BridgeEvent::ReplyWritten { number, is_written }, _) => {
                let (reporter, mailbox) = (&mut self.reporter, &mut self.mailbox);
                let asked = self
                    .requests
                    .note_written(number, is_written, reporter, mailbox);
                self.obey(asked);
            }
            (BridgeEvent::CallerGone(number), _) => {
                self.requests.note_caller_gone(number, &mut self.reporter);
            }
            (BridgeEvent::ClaimLost(task, why), None)
                if (self.waiting.as_ref()).is_some_and(|held| *held.task.id() == task) =>
            {
                self.lost = Some(why);
            }
            // These are the last lines of an earlier attempt, or the claim of an earlier task.
            (BridgeEvent::Agent(..) | BridgeEvent::ClaimLost(..), _) => {}
        }
        false
    }

    /// Delivers new messages to the running agent, unless a tool reply is already delivering mail.
    fn deliver_mail(&mut self, run: &mut TaskAttempt<'_>) {
        if !self.requests.has_mail_on_its_way() {
            let limit = self.launcher.limits().prompt;
            self.mailbox.deliver(run, &mut self.reporter, limit);
        }
    }

    /// Serves a request of the agent, which is also a sign of life.
    fn serve(&mut self, request: AgentRequest, run: &mut TaskAttempt<'_>) {
        let commands = run.note_request();
        self.apply(run, commands);
        // Other tools deliver the mail that the bridge already knows; `inbox_read` must also include the latest messages.
        if request.tool == WorkerTool::InboxRead.name() {
            let asked = self.mailbox.read_mail(&mut self.reporter);
            self.obey(asked);
        }
        let limit = self.launcher.limits().idle;
        let (reporter, mailbox) = (&mut self.reporter, &self.mailbox);
        self.requests
            .serve(request, run.task(), limit, reporter, mailbox);
    }

    /// Reads the journal and the mail, and passes on what concerns the running agent; returns whether there may be a task to
    /// claim.
    fn read_news(&mut self, run: Option<&mut TaskAttempt<'_>>, has_mail: bool) -> bool {
        let held = run.as_ref().map(|run| run.task().clone());
        let held = held.or_else(|| Some(self.waiting.as_ref()?.task.id().clone()));
        let news = self
            .mailbox
            .read_journal(&mut self.reporter, held.as_ref(), has_mail);
        self.obey(news.requests);
        if let Some(run) = run {
            self.deliver_mail(run);
            self.mailbox.pass_replies_on(run, &mut self.reporter);
            self.requests
                .hear_answers(&mut self.reporter, &self.mailbox);
            self.answer_client(run);
            let now = self.reporter.store().now();
            if self.lifecycle.is_stopping_now() {
                run.stop(StopCause::Requested, now);
            }
            // The next renewal of the lease would notice as well, but until then two agents could work on one task.
            if news.held_task_changed
                && let Some(why) = lost_claim(&self.reporter, run.claimed())
            {
                run.stop(StopCause::ClaimLost(why), now);
            }
        } else if let Some(claimed) = &self.waiting
            && news.held_task_changed
        {
            self.lost = lost_claim(&self.reporter, claimed);
        }
        if let Some(limit) = news.limit {
            self.hear_of_limit(&limit);
        }
        news.may_be_work
    }

    /// Handles a limit that another worker of the same provider hit, so that this worker does not hit it as well.
    fn hear_of_limit(&mut self, limit: &ProviderLimit) {
        let now = self.reporter.store().now();
        let is_ours = limit.provider == self.reporter.identity().provider
            && limit.cause == LimitCause::RateLimit
            && limit.until > now;
        if is_ours && self.lifecycle.wait_for(limit.clone(), now) {
            self.reporter.say(limit.phrase().as_str());
        }
    }

    /// Carries out requests in the mail that are addressed to the bridge itself.
    fn obey(&mut self, requests: Vec<MailRequest>) {
        for request in requests {
            match request {
                MailRequest::Stop(signal) => self.request_stop(signal),
                MailRequest::Resume { by } => {
                    if self.lifecycle.resume() {
                        self.reporter.say(&format!("resumed by {by}"));
                        let resumed = EventKind::WorkerResumed(WorkerResumed { by });
                        let event = self.reporter.event(resumed);
                        self.reporter.record(event);
                    }
                }
            }
        }
        self.mailbox.acknowledge_obeyed(&mut self.reporter);
    }

    fn request_stop(&mut self, signal: Signal) {
        if let Some(line) = self.lifecycle.request_stop(signal) {
            self.reporter.say(&line);
        }
    }

    /// Returns whether the worker is asked to stop. The heartbeat thread reports that a moment later, and no task may start in
    /// between.
    fn is_called_back(&mut self) -> bool {
        let signals = self
            .reporter
            .store()
            .signals(self.reporter.team(), self.reporter.name())
            .ok_or_trace("read stop signals");
        for signal in signals.unwrap_or_default() {
            self.request_stop(signal);
        }
        self.lifecycle.is_stopping()
    }

    fn claim(&self) -> teamster_store::Result<Option<Claimed>> {
        let request = ClaimRequest {
            worker: self.reporter.name().clone(),
            id: None,
            lease: None,
        };
        self.reporter.store().claim(self.reporter.team(), &request)
    }

    /// Tells the lead, once until the next task, that the worker is idle, and whether every task is done.
    fn report_idle(&mut self) {
        if !self.lifecycle.report_idle() {
            return;
        }
        let reporter = &mut self.reporter;
        reporter.send_to_lead("idle", "there is no task for me now", Object::new());
        let progress = reporter.store().progress(reporter.team());
        let is_all_done = progress.is_ok_and(|(progress, _)| {
            progress.total_tasks > 0 && progress.pending_tasks + progress.in_progress_tasks == 0
        });
        if is_all_done {
            reporter.send_to_lead(
                "all_tasks_complete",
                "every task is done or failed for good",
                Object::new(),
            );
        }
    }

    /// Waits until another claim may find a task.
    fn wait_for_work(&mut self, claimed_at: Option<Instant>) {
        let mut wait = IdleWait::new(claimed_at, Instant::now());
        loop {
            let until = self.lifecycle.wake_at(&wait, self.reporter.store().now());
            match self.step(None, until) {
                StepOutcome::Event { may_be_work } => {
                    let now = Instant::now();
                    if self.lifecycle.is_over() {
                        return;
                    }
                    if may_be_work && self.lifecycle.may_work() {
                        std::thread::sleep(wait.before_claim(now));
                        return;
                    }
                }
                StepOutcome::Timeout => {
                    if self.lifecycle.end_limit(self.reporter.store().now()) {
                        return;
                    }
                    let outlook = if self.lifecycle.may_work() {
                        WorkOutlook::look(&mut self.reporter, self.launcher.machine())
                    } else {
                        WorkOutlook::Later
                    };
                    if outlook == WorkOutlook::Now {
                        return;
                    }
                    wait.look_again(outlook, Instant::now());
                }
                StepOutcome::Closed => {
                    self.lifecycle.note_team_gone();
                    return;
                }
            }
        }
    }

    /// Works on a task, from its claim to its end.
    fn work(&mut self, claimed: &Claimed) {
        let id = claimed.task.id();
        self.lifecycle.begin_task(id, &claimed.token);
        self.reporter
            .say(&format!("task {id}: {}", claimed.task.subject()));
        let mut log = self.launcher.open_log(&mut self.reporter, id);
        let part = match self.begin_workplace(claimed, &mut log) {
            Ok(()) => self.run_until_served(claimed, &mut log),
            Err(part) => part,
        };
        self.complete(claimed, &part, &mut log);
        self.lifecycle.end_task();
    }

    /// Runs the agent on the task. While its provider is unavailable, the worker keeps the task and its worktree, and then
    /// continues: no other worker takes the task in the meantime, and the attempt does not count as a failure.
    fn run_until_served(&mut self, claimed: &Claimed, log: &mut TaskLog) -> AgentPart {
        let mut is_continued = false;
        loop {
            let part = self.run_agent(claimed, log, is_continued);
            let Some(limit) = self.limit_met(&part) else {
                return part;
            };
            self.waiting = Some(claimed.clone());
            let goes_on = self.wait_for_provider(claimed, &limit, log);
            self.waiting = None;
            if let Some(why) = self.lost.take() {
                self.record_spent(claimed, &part);
                return AgentPart::Lost(why);
            }
            if !goes_on {
                return part;
            }
            self.record_spent(claimed, &part);
            is_continued = true;
        }
    }

    /// Returns the limit of the provider that ended the agent, and until when the worker waits.
    fn limit_met(&mut self, part: &AgentPart) -> Option<MetLimit> {
        let AgentPart::Ran(end) = part else {
            return None;
        };
        let AgentVerdict::Paused { trouble, reason } = &end.outcome.verdict else {
            return None;
        };
        if !matches!(end.cause, None | Some(StopCause::Silent | StopCause::Late)) {
            return None;
        }
        let known = end.outcome.limit.as_ref();
        let resets_at = known.and_then(|known| known.resets_at);
        let now = self.reporter.store().now();
        let until = self.lifecycle.count_trouble(now, resets_at);
        Some(MetLimit {
            seconds: until.since(now).as_secs(),
            limit: ProviderLimit {
                provider: self.reporter.identity().provider.clone(),
                cause: match trouble {
                    Trouble::Outage => LimitCause::Outage,
                    Trouble::SignIn => LimitCause::SignIn,
                    Trouble::RateLimit | Trouble::Task => LimitCause::RateLimit,
                },
                window: known.and_then(|known| known.window.clone()),
                until,
            },
            reason: format!("{}: {reason}", trouble.words()),
        })
    }

    /// Waits until the provider is available again; returns whether the work continues then. Other workers of the same provider
    /// learn about the limit from the recorded event.
    fn wait_for_provider(&mut self, claimed: &Claimed, met: &MetLimit, log: &mut TaskLog) -> bool {
        let now = self.reporter.store().now();
        let MetLimit {
            limit,
            seconds,
            reason,
        } = met;
        let words = format!("{}; {reason}", limit.phrase());
        self.reporter.say(&words);
        log.note(now, &words);
        let paused = EventKind::WorkerPaused(WorkerPaused {
            seconds: *seconds,
            reason: shown(reason, REASON),
            limit: Some(limit.clone()),
        });
        let event = self.reporter.event(paused).task(claimed.task.id());
        self.reporter.record(event);
        self.lifecycle.wait_for(limit.clone(), now);
        self.lifecycle.show(WorkerStatus::Polling);
        while !self.lifecycle.is_over() && self.lost.is_none() {
            let now = self.reporter.store().now();
            if self.lifecycle.end_limit(now) {
                self.lost = lost_claim(&self.reporter, claimed);
                return self.lost.is_none();
            }
            let wait = self.lifecycle.limited_for(now).unwrap_or_default();
            if self.step(None, Instant::now() + wait) == StepOutcome::Closed {
                self.lifecycle.note_team_gone();
            }
        }
        false
    }

    /// Prepares the workplace, with the finished work that the task builds on.
    fn begin_workplace(&mut self, claimed: &Claimed, log: &mut TaskLog) -> Result<(), AgentPart> {
        let (store, team) = (self.reporter.store(), self.reporter.team());
        let on = Foundation::of(store, team, self.reporter.name(), Some(&claimed.task))
            .map_err(|error| AgentPart::NoWorkplace(error.to_string()))?;
        let left_out = self
            .workplace
            .begin(&on)
            .map_err(|error| AgentPart::NoWorkplace(error.to_string()))?;
        // Files that must not be committed and were left by a killed worker are reported now: they do not belong to this task.
        let secrets = self.workplace.take_secrets();
        if !secrets.is_empty() {
            self.reporter.record_secrets(None, &secrets);
        }
        let (store, team) = (self.reporter.store(), self.reporter.team());
        for work in &left_out.own {
            log.note(store.now(), &format!("begins without {work}"));
        }
        if left_out.waited_for.is_empty() {
            return Ok(());
        }
        Err(AgentPart::NoFoundation(format!(
            "the results it waited for conflict: {}; merge them, as `teamster merge {team}` \
             does, or redo one of the tasks with `teamster task retry`",
            left_out.waited_for.join("; ")
        )))
    }

    /// Runs the agent on the task; a failed launch is retried once.
    fn run_agent(&mut self, claimed: &Claimed, log: &mut TaskLog, is_continued: bool) -> AgentPart {
        let mut why = String::new();
        for launch in 1..=LAUNCHES {
            if self.lifecycle.is_stopping_now() {
                break;
            }
            why = match self.attempt(claimed, log, is_continued) {
                Ok(end) if end.cause == Some(StopCause::NoStart) => end.describe_failed_launch(),
                Ok(end) => return AgentPart::Ran(Box::new(end)),
                Err(why) => why,
            };
            let reason = redact(&why).into_owned();
            let text = format!("launch {launch} failed: {reason}");
            log.note(self.reporter.store().now(), &text);
            self.reporter
                .record_failed_launch(claimed.task.id(), launch, &reason);
        }
        AgentPart::NoLaunch(why)
    }

    /// Makes one attempt at a task: a turn of the agent, and further turns for messages that arrived while it worked.
    fn attempt(
        &mut self,
        claimed: &Claimed,
        log: &mut TaskLog,
        is_continued: bool,
    ) -> Result<AttemptEnd, String> {
        // Replies from before this attempt do not belong to it.
        self.mailbox.begin_attempt();
        self.requests.begin_attempt();
        let (store, id) = (self.reporter.store(), claimed.task.id());
        let failure = store.failure(self.reporter.team(), id);
        let failure = failure
            .ok_or_trace("read how the task failed before")
            .flatten();
        let temp = Arc::new(TempFolder::make(&self.reporter.identity().launch));
        let mail = self.mailbox.mail_for_prompt(self.launcher.limits().prompt);
        let briefing = BriefingInput {
            task: &claimed.task,
            mail: &mail,
            failure: failure.as_ref(),
            workplace: self.workplace.as_ref(),
            temp: temp.path(),
            is_continued,
        };
        let briefing = self
            .briefer
            .brief(store, &briefing)
            .map_err(|error| format!("cannot build the prompt for the agent: {error}"))?;
        if let Some(error) = &briefing.fallback {
            log.note(store.now(), &format!("uses the built-in prompt: {error}"));
        }
        if !briefing.left_out.is_empty() {
            let parts = briefing.left_out.join(", ");
            log.note(
                store.now(),
                &format!("the prompt was too long; shortened: {parts}"),
            );
        }
        let turn = AgentTurn {
            prompt: &briefing.text,
            failures: failure.as_ref().map_or(0, |failure| failure.retry_count),
            resume: None,
            temp: &temp,
        };
        let end = self.turn(claimed, log, &turn)?;
        Ok(self.tell_rest(claimed, log, end, &turn))
    }

    /// Delivers messages that arrived while the agent worked in further turns of its session, if its client accepts them in no
    /// other way. The task stays done even if such a turn fails.
    fn tell_rest(
        &mut self,
        claimed: &Claimed,
        log: &mut TaskLog,
        mut end: AttemptEnd,
        first: &AgentTurn<'_>,
    ) -> AttemptEnd {
        for _ in 0..TURNS_FOR_MAIL {
            if !self.launcher.has_turns_for_mail() {
                break;
            }
            // Messages that arrived at the end of the turn are included.
            self.read_news(None, true);
            let AgentVerdict::Done { summary } = &end.outcome.verdict else {
                break;
            };
            let can_go_on = end.cause.is_none() && !self.lifecycle.is_stopping_now();
            let Some(session) = end.outcome.session.clone().filter(|_| can_go_on) else {
                break;
            };
            let (summary, spent) = (summary.clone(), end.outcome.spent);
            self.mailbox.begin_attempt();
            let mail = self.mailbox.mail_for_prompt(self.launcher.limits().prompt);
            if mail.is_empty() {
                break;
            }
            self.requests.begin_attempt();
            let prompt = mail_text::told_at_work(&mail);
            let turn = AgentTurn {
                prompt: &prompt,
                resume: Some(ResumeSession {
                    session: &session,
                    spent: Some(spent),
                }),
                ..*first
            };
            let now = self.reporter.store().now();
            log.note(now, "gives the agent another turn for the messages it got");
            let told = match self.turn(claimed, log, &turn) {
                Ok(told) => told,
                Err(why) => {
                    log.note(now, &format!("the turn could not be started: {why}"));
                    break;
                }
            };
            end.outcome.spent = spent.then(told.outcome.spent);
            end.leftover += told.leftover;
            match told.outcome.verdict {
                // The earlier report stays unless the agent reports again.
                AgentVerdict::Done { summary: more } => {
                    let summary = format!("{summary}\n\n{more}");
                    end.outcome.verdict = AgentVerdict::Done { summary };
                    end.outcome.session = told.outcome.session.or(end.outcome.session);
                }
                other => {
                    let text = format!(
                        "the earlier result stands, because that turn had no result: {other:?}"
                    );
                    log.note(now, &text);
                    break;
                }
            }
        }
        end
    }

    /// Runs the agent for one turn, to its end.
    fn turn(
        &mut self,
        claimed: &Claimed,
        log: &mut TaskLog,
        turn: &AgentTurn<'_>,
    ) -> Result<AttemptEnd, String> {
        let (store, id) = (self.reporter.store(), claimed.task.id());
        let input = AttemptInput {
            folder: self.workplace.folder(),
            prompt: turn.prompt,
            failures: turn.failures,
            resume: turn.resume,
            temp: Arc::clone(turn.temp),
        };
        let mut run = self.launcher.start(claimed, input, log, store.now())?;
        let commands = run.note_executed();
        self.apply(&mut run, commands);
        self.watch(&mut run);
        self.requests.end_attempt(&mut self.reporter);
        let (leftover, still_there) = run.end_leftovers();
        if let Some(error) = still_there {
            self.reporter.say(&error.to_string());
        }
        let deadline = Instant::now() + LAST_WORDS;
        while !run.state().is_drained() {
            match self.step(Some(&mut run), deadline) {
                StepOutcome::Event { .. } => {}
                StepOutcome::Timeout | StepOutcome::Closed => break,
            }
        }
        self.look_at_inbox_file(&run);
        let process = run.process_id().clone();
        let end = run.finish(leftover);
        // An agent that ended without any output has shown by its end that it ran.
        if end.outcome.started && !end.was_seen && end.cause.is_none() {
            self.note_started(id, process, None);
        }
        let requests = self.mailbox.end_attempt(&mut self.reporter);
        self.obey(requests);
        Ok(end)
    }

    /// Supervises the agent until it ends.
    fn watch(&mut self, run: &mut TaskAttempt<'_>) {
        let mut reaped = Instant::now();
        while !run.state().has_ended() {
            let until = self.next_deadline(run).min(Instant::now() + REAP_ORPHANS);
            if self.step(Some(run), until) == StepOutcome::Closed {
                return;
            }
            // The time limits are checked after every event, so that steady output cannot delay them.
            if !run.state().is_stopping() {
                let limit = self.launcher.limits().idle;
                self.mailbox.deny_expired(run, &mut self.reporter, limit);
                self.wait_for_answers(run, limit);
            }
            self.look_at_inbox_file(run);
            if let Some(command) = run.tick() {
                self.apply(run, vec![command]);
            }
            if reaped.elapsed() >= REAP_ORPHANS {
                reaped = Instant::now();
                run.reap_orphans();
            }
        }
    }

    /// Expires questions that were not answered within `limit`. An agent that waits for an answer does not count as silent.
    fn wait_for_answers(&mut self, run: &mut TaskAttempt<'_>, limit: Duration) {
        if !self.requests.is_waiting() {
            return;
        }
        let (reporter, mailbox) = (&mut self.reporter, &self.mailbox);
        self.requests.expire_pending(limit, reporter, mailbox);
        self.answer_client(run);
        let commands = run.note_request();
        self.apply(run, commands);
    }

    /// Passes the outcomes of the client's questions to the client.
    fn answer_client(&mut self, run: &mut TaskAttempt<'_>) {
        for ClientReply { request, reply } in self.requests.take_client_replies() {
            run.answer_question(&request, &reply);
        }
    }

    fn next_deadline(&self, run: &TaskAttempt<'_>) -> Instant {
        let deadline = run.state().deadline();
        let deadline = match self.mailbox.next_look_at_inbox_file(Instant::now()) {
            Some(look) => deadline.min(look),
            None => deadline,
        };
        if run.state().is_stopping() {
            return deadline;
        }
        let expiries = [
            self.mailbox.next_expiry(self.launcher.limits().idle),
            self.requests.next_expiry(),
        ];
        expiries.into_iter().flatten().fold(deadline, Instant::min)
    }

    /// Checks whether a program has read the messages in its inbox file.
    fn look_at_inbox_file(&mut self, run: &TaskAttempt<'_>) {
        let requests = self.mailbox.look_at_inbox_file(run, &mut self.reporter);
        self.obey(requests);
    }

    /// Performs the commands of an attempt.
    fn apply(&mut self, run: &mut TaskAttempt<'_>, commands: Vec<AttemptCommand>) {
        for command in commands {
            match command {
                AttemptCommand::NoteActivity { session } => {
                    self.lifecycle.note_activity(session.as_deref());
                }
                AttemptCommand::NoteStarted { session } => {
                    let process = run.process_id().clone();
                    self.note_started(run.task(), process, session);
                }
                AttemptCommand::NoteTaken(delivery) => {
                    let requests = self.mailbox.client_took(&mut self.reporter, &delivery);
                    self.obey(requests);
                }
                AttemptCommand::NoteRefused(delivery) => self.mailbox.client_refused(&delivery),
                AttemptCommand::Report(event) => self.report(run, &event),
                own => {
                    let said = run.perform(own, self.reporter.store().now());
                    if let Some(said) = said.filter(|_| self.shows_agent) {
                        self.reporter.show(&said);
                    }
                }
            }
        }
    }

    /// Notes that the agent runs, and so has received the mail in its prompt.
    fn note_started(&mut self, task: &TaskId, process: ProcessId, session: Option<String>) {
        let requests = self.mailbox.prompt_was_told(&mut self.reporter);
        self.obey(requests);
        let started = EventKind::WorkerStarted(WorkerStarted {
            process: Some(process),
            session,
        });
        let event = self.reporter.event(started).task(task);
        self.reporter.record(event);
    }

    /// Reports an event of the agent, and carries out what it requests.
    fn report(&mut self, run: &mut TaskAttempt<'_>, event: &AgentEvent) {
        if let AgentEvent::CommitAsked { message } = event
            && let Err(error) = self.workplace.commit(message)
        {
            self.reporter.say(&format!("cannot commit: {error}"));
        }
        let position = self.reporter.record_agent_event(run.task(), event);
        match event {
            AgentEvent::PermissionAsked {
                request,
                tool,
                detail,
                decision: PermissionDecision::Asked,
            } => {
                let asked = PersonRequest {
                    request,
                    tool,
                    detail,
                    position,
                };
                // The request is the agent's latest sign of life, so the wait for the person starts there.
                let since = run.state().last_activity();
                self.mailbox
                    .ask_person(&mut self.reporter, run.task(), &asked, since);
            }
            AgentEvent::QuestionAsked { request, question } => {
                let limit = self.launcher.limits().idle;
                let reporter = &mut self.reporter;
                self.requests
                    .ask_for_client(request, question, run.task(), limit, reporter);
                self.answer_client(run);
            }
            AgentEvent::QuestionWithdrawn { request } => {
                self.requests.note_withdrawn(request, &mut self.reporter);
            }
            _ => {}
        }
    }

    /// Keeps the work of a task and writes its result to the store.
    fn complete(&mut self, claimed: &Claimed, part: &AgentPart, log: &mut TaskLog) {
        let resolution = TaskResolution::of(part);
        self.record_spent(claimed, part);
        let workplace = self.workplace.as_mut();
        let mut completion =
            Completion::prepare(claimed, resolution, &mut self.reporter, workplace);
        let now = self.reporter.store().now();
        log.note(now, &completion.resolution().describe());
        let mut tries = 0;
        while let Err(error) = completion.write(&mut self.reporter) {
            tries += 1;
            if !self.may_write_again(&error, tries) {
                completion.give_up(&error, &mut self.reporter, self.workplace.as_mut());
                break;
            }
        }
        let resolution = completion.resolution();
        if let Some(quarantine) = self.lifecycle.account_for(resolution) {
            quarantine.report(&mut self.reporter);
        }
    }

    /// Records the usage of a run of the agent and the processes that it left behind.
    fn record_spent(&mut self, claimed: &Claimed, part: &AgentPart) {
        let AgentPart::Ran(end) = part else {
            return;
        };
        let model = self.launcher.model();
        let spent = &end.outcome.spent;
        self.reporter.record_usage(claimed.task.id(), model, spent);
        if end.leftover > 0 {
            let text = format!(
                "ended {} processes that the agent left behind",
                end.leftover
            );
            self.reporter.say(&text);
        }
    }

    /// Waits, and returns whether to retry writing a result that the store could not accept. No other process can end the task
    /// while this bridge lives, so a full disk must not lose the result; but a stop request must not wait forever.
    fn may_write_again(&mut self, error: &StoreError, tries: u32) -> bool {
        let may_pass = error.busy || error.kind == StoreErrorKind::Unreachable;
        let is_last = self.lifecycle.is_stopping() && tries > LAST_WRITES;
        if !may_pass || self.lifecycle.is_team_gone() || is_last {
            return false;
        }
        if tries == 1 {
            self.reporter
                .say(&format!("the result cannot be written yet: {error}"));
        }
        let pause = self.launcher.limits().pause_after(tries).min(WRITE_AGAIN);
        let until = Instant::now() + pause;
        while let StepOutcome::Event { .. } = self.step(None, until) {}
        true
    }

    /// Leaves in order: answers the stop request, ends all remaining processes, and removes the heartbeat.
    fn leave(mut self) -> Result<(), BridgeError> {
        self.lifecycle.show(WorkerStatus::Shutdown);
        let identity = self.reporter.identity().clone();
        let tree = ProcessTree::below_me(self.launcher.machine(), &identity.launch);
        if let Err(error) = tree.end(self.launcher.limits().grace) {
            self.reporter.say(&error.to_string());
        }
        let is_team_gone = self.lifecycle.is_team_gone();
        let stop = self.lifecycle.take_stop();
        if !is_team_gone {
            // Late messages are included, but requests in them are no longer carried out.
            drop(self.mailbox.read_mail(&mut self.reporter));
            self.mailbox.report_untold(&mut self.reporter);
            if let Some(stop) = &stop {
                self.reporter.answer_stop(stop);
            }
            let stopped = EventKind::WorkerStopped(WorkerStopped {
                reason: stop.map(|stop| stop.reason).unwrap_or_default(),
                ..WorkerStopped::default()
            });
            let event = self.reporter.event(stopped);
            self.reporter.store().record(&identity.team, event)?;
        }
        record::remove(
            self.launcher.project(),
            &identity.team,
            &identity.name,
            &identity.launch,
        )?;
        let ended = self.lifecycle.end_heartbeat();
        if is_team_gone {
            return Ok(());
        }
        // The heartbeat is removed before the signal: the sender of the request must see this bridge end, and no later bridge
        // may obey the same signal.
        let store = self.reporter.store();
        store.clear_signals(&identity.team, &identity.name)?;
        let me = EventActor::from(identity.name.as_str());
        store.dismiss(&identity.team, &me, &identity.name)?;
        Ok(ended?)
    }
}

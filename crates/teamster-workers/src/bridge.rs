//! The bridge: a worker's own process. It claims tasks, runs its agent on them, and hands over the results.
//!
//! ```text
//!                    ┌──────────────── Bridge: one loop, one channel ────────────────┐
//!  agent ──lines──▶  │  TaskWork           one task, from its claim to its result    │
//!                    │   └ TaskAttempt     one run of the agent on it                │
//!  journal, mail ─▶  │  WorkerMailbox      messages for the agent and the bridge     │ ──▶ Reporter: journal, lead,
//!                    │  PermissionRequests what a person has to decide               │     own output, task logs
//!  signals, lease ▶  │  Lifecycle          heartbeat, stop requests, quarantine      │
//!                    │  ProviderWait       the provider's limits, and waiting        │
//!  agent's socket ▶  │  AgentRequests      tools that the agent calls, questions     │
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
mod permission_requests;
mod provider_wait;
mod reporter;
mod socket;
mod task_attempt;
mod task_work;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use teamster_agents::{AgentEvent, PermissionDecision};
use teamster_fs::proc::Machine;
use teamster_fs::{Dir, OrTrace as _};
use teamster_isolate::child::ChildEvent;
use teamster_isolate::process_tree::{self, ProcessTree};
use teamster_journal::payload::{
    Addressee, WorkerResumed, WorkerSpawned, WorkerStarted, WorkerStopped,
};
use teamster_journal::{EventActor, EventKind};
use teamster_prompts::Prompts;
use teamster_store::{ClaimRequest, Claimed, Signal, Store, StoreError, StoreErrorKind};
use teamster_types::heartbeat::{ProviderLimit, WorkerStatus};
use teamster_types::json::Object;
use teamster_types::process::ProcessId;
use teamster_types::team::TeamOrigin;
use teamster_types::{TaskId, Time, WorkerName};

use crate::alerts::EndAlerts;
use crate::attempt::{AttemptCommand, StopCause};
use crate::briefing::{self, Briefer};
use crate::limits::WorkerLimits;
use crate::reclaim;
use crate::record::{self, LaunchRecord, WorkerBackend, WorkerLock, WorkerSpec};
use crate::tools::{ToolFailure, WorkerTool};
use crate::workplace::{Workplace, WorkplaceError};
use agent_requests::{AgentRequests, ClientReply};
use completion::lost_claim;
use heartbeat::HeartbeatThread;
pub(crate) use lifecycle::REPLACE;
use lifecycle::{IdleWait, Lifecycle, WorkOutlook, forward_system_signals};
use mailbox::{MailRequest, WorkerMailbox};
use permission_requests::{PermissionRequests, PersonRequest};
use provider_wait::ProviderWait;
use reporter::{Reporter, WorkerIdentity};
use socket::{AgentRequest, WorkerSocket};
pub use task_attempt::AgentSetup;
use task_attempt::{AgentLauncher, TaskAttempt};
use task_work::TaskWork;

/// How often ended orphans of the agent are reaped, so that they leave the process table.
const REAP_INTERVAL: Duration = Duration::from_secs(30);

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
    /// The worker's supervisor asks it to leave, because it hung, and starts it again.
    ReplacementRequested(Signal),
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
pub type AdmissionCheck = Box<dyn FnMut() -> bool + Send>;

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
    pub may_begin: AdmissionCheck,
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
    /// The worker that this bridge replaces was asked to stop meanwhile.
    #[error("{0} was asked to stop before it was restarted")]
    Stopped(WorkerName),
}

/// Checks, for a bridge that replaces a dead one, that nobody has stopped the worker since its supervisor decided that:
/// whoever asks a worker to stop leaves a request until its record is removed, and whoever ends it by force notes that in
/// the record. Creating the workplace can take minutes, so this is the last step before the bridge records itself.
fn must_be_wanted(
    store: &dyn Store,
    project: &Dir,
    identity: &WorkerIdentity,
) -> Result<(), BridgeError> {
    let (team, worker) = (&identity.team, &identity.name);
    let record = record::read(project, team, worker)?;
    let is_kept = record.is_some_and(|record| !record.is_dismissed);
    if is_kept && store.signals(team, worker)?.is_empty() {
        return Ok(());
    }
    Err(BridgeError::Stopped(worker.clone()))
}

/// A worker's own process.
pub struct Bridge {
    reporter: Reporter,
    mailbox: WorkerMailbox,
    permissions: PermissionRequests,
    lifecycle: Lifecycle,
    provider: ProviderWait,
    launcher: AgentLauncher,
    briefer: Briefer,
    requests: AgentRequests,
    /// Whether the agent's output is shown where the worker's own output goes.
    shows_agent: bool,
    workplace: Box<dyn Workplace>,
    may_begin: AdmissionCheck,
    events: Receiver<BridgeEvent>,
    /// Held for the bridge's life; the kernel releases it when the bridge dies.
    _lock: WorkerLock,
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
        if config.restarts > 0 {
            must_be_wanted(&*store, &project, &identity)?;
        }
        // A signal that was meant for an earlier bridge of this name does not concern this one.
        store.clear_signals(&identity.team, &identity.name)?;
        let record = LaunchRecord {
            launch: identity.launch.clone(),
            process: machine.me().clone(),
            started_at: store.now(),
            restarts: config.restarts,
            is_dismissed: false,
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
        let reach = briefing::channel_facts(config.agent.driver.provider(), &config.agent.teamster);
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
            permissions: PermissionRequests::default(),
            lifecycle: Lifecycle::new(heartbeat, config.limits.clone()),
            provider: ProviderWait::new(identity.provider.clone(), config.limits.clone()),
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
        self.lifecycle.set_status(WorkerStatus::Polling);
        let requests = self.mailbox.read_mail(&mut self.reporter);
        self.carry_out(requests);
        if let Some(limit) = provider_wait::known_limit(&self.reporter) {
            self.note_peer_limit(&limit);
        }
        let mut claimed_at: Option<Instant> = None;
        while !self.lifecycle.is_over() {
            if self.may_work() && (self.may_begin)() && !self.has_stop_signal() {
                claimed_at = Some(Instant::now());
                let claimed = self.claim();
                match &claimed {
                    Ok(_) => self.lifecycle.end_refusal(),
                    Err(error) => {
                        let now = self.reporter.store().now();
                        self.lifecycle.show_refusal("claim a task", error, now);
                    }
                }
                match claimed {
                    Ok(Some(claimed)) => {
                        TaskWork::run(&mut self, &claimed);
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
                let commands = run.handle(said);
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
            (BridgeEvent::ReplacementRequested(signal), run) => {
                if let Some(line) = self.lifecycle.request_replacement(signal) {
                    self.reporter.say(&line);
                }
                if let Some(run) = run {
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
            (BridgeEvent::TeamChanged { has_mail }, run) => {
                return self.read_journal(run, has_mail);
            }
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
                self.carry_out(asked);
            }
            (BridgeEvent::CallerGone(number), _) => {
                self.requests.note_caller_gone(number, &mut self.reporter);
            }
            (BridgeEvent::ClaimLost(task, why), None) if self.provider.keeps(&task) => {
                self.provider.set_lost(Some(why));
            }
            // These are the last lines of an earlier attempt, or the claim of an earlier task.
            (BridgeEvent::Agent(..) | BridgeEvent::ClaimLost(..), _) => {}
        }
        false
    }

    /// Delivers new messages to the running agent, unless a tool reply is already delivering mail.
    fn deliver_mail(&mut self, run: &mut TaskAttempt<'_>) {
        if !self.requests.has_mail_in_flight() {
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
            self.carry_out(asked);
        }
        let limit = self.launcher.limits().idle;
        let (reporter, mailbox) = (&mut self.reporter, &self.mailbox);
        self.requests
            .serve(request, run.task(), limit, reporter, mailbox);
    }

    /// Reads the journal and the mail, and passes on what concerns the running agent; returns whether there may be a task to
    /// claim.
    fn read_journal(&mut self, run: Option<&mut TaskAttempt<'_>>, has_mail: bool) -> bool {
        let held = run.as_ref().map(|run| run.task().clone());
        let held = held.or_else(|| Some(self.provider.kept_task()?.task.id().clone()));
        let news = self
            .mailbox
            .read_journal(&mut self.reporter, held.as_ref(), has_mail);
        self.carry_out(news.requests);
        if let Some(run) = run {
            self.deliver_mail(run);
            self.permissions.forward_replies(run, &mut self.reporter);
            self.requests
                .forward_answers(&mut self.reporter, &self.mailbox);
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
        } else if let Some(claimed) = self.provider.kept_task()
            && news.held_task_changed
        {
            let lost = lost_claim(&self.reporter, claimed);
            self.provider.set_lost(lost);
        }
        if let Some(limit) = news.limit {
            self.note_peer_limit(&limit);
        }
        news.may_be_work
    }

    /// Handles a limit that another worker of the same provider hit, so that this worker does not hit it as well.
    fn note_peer_limit(&mut self, limit: &ProviderLimit) {
        let now = self.reporter.store().now();
        if self.provider.concerns_us(limit, now) && self.wait_for_limit(limit, now) {
            self.reporter.say(limit.phrase().as_str());
        }
    }

    /// Waits for a limit, and shows it in the heartbeat, unless a known limit ends later. Returns whether it did.
    fn wait_for_limit(&mut self, limit: &ProviderLimit, now: Time) -> bool {
        let is_longer = self.provider.wait_for(limit, now);
        if is_longer {
            self.lifecycle.show_limit(Some(limit.clone()));
        }
        is_longer
    }

    /// Ends the wait for a limit that has passed; returns whether there was one.
    fn end_limit_if_over(&mut self, now: Time) -> bool {
        let is_over = self.provider.end_if_over(now);
        if is_over {
            self.lifecycle.show_limit(None);
        }
        is_over
    }

    /// Returns whether the worker may claim a task now.
    fn may_work(&self) -> bool {
        self.lifecycle.may_work() && !self.provider.is_waiting()
    }

    /// Carries out requests in the mail that are addressed to the bridge itself.
    fn carry_out(&mut self, requests: Vec<MailRequest>) {
        for request in requests {
            match request {
                MailRequest::Stop(signal) => self.request_stop(signal),
                MailRequest::Decide(reply) => self.permissions.add_reply(reply),
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
        self.mailbox.acknowledge_requests(&mut self.reporter);
    }

    fn request_stop(&mut self, signal: Signal) {
        if let Some(line) = self.lifecycle.request_stop(signal) {
            self.reporter.say(&line);
        }
    }

    /// Returns whether the worker is asked to stop. The heartbeat thread reports that a moment later, and no task may start in
    /// between.
    fn has_stop_signal(&mut self) -> bool {
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
        if !self.lifecycle.take_idle_report() {
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
                "every task is done or failed permanently",
                Object::new(),
            );
        }
    }

    /// Waits until another claim may find a task.
    fn wait_for_work(&mut self, claimed_at: Option<Instant>) {
        let mut wait = IdleWait::new(claimed_at, Instant::now());
        loop {
            let limited = self.provider.time_left(self.reporter.store().now());
            let until = wait.wake_at(limited);
            match self.step(None, until) {
                StepOutcome::Event { may_be_work } => {
                    let now = Instant::now();
                    if self.lifecycle.is_over() {
                        return;
                    }
                    if may_be_work && self.may_work() {
                        std::thread::sleep(wait.before_claim(now));
                        return;
                    }
                }
                StepOutcome::Timeout => {
                    if self.end_limit_if_over(self.reporter.store().now()) {
                        return;
                    }
                    let outlook = if self.may_work() {
                        WorkOutlook::check(&mut self.reporter, self.launcher.machine())
                    } else {
                        WorkOutlook::Later
                    };
                    if outlook == WorkOutlook::Now {
                        return;
                    }
                    wait.extend(outlook, Instant::now());
                }
                StepOutcome::Closed => {
                    self.lifecycle.note_team_gone();
                    return;
                }
            }
        }
    }

    /// Supervises the agent until it ends.
    fn watch(&mut self, run: &mut TaskAttempt<'_>) {
        let mut reaped = Instant::now();
        while !run.state().has_ended() {
            let until = self.next_deadline(run).min(Instant::now() + REAP_INTERVAL);
            if self.step(Some(run), until) == StepOutcome::Closed {
                return;
            }
            // The time limits are checked after every event, so that steady output cannot delay them.
            if !run.state().is_stopping() {
                let limit = self.launcher.limits().idle;
                self.permissions
                    .deny_expired(run, &mut self.reporter, limit);
                self.wait_for_answers(run, limit);
            }
            self.check_inbox_file(run);
            if let Some(command) = run.tick() {
                self.apply(run, vec![command]);
            }
            if reaped.elapsed() >= REAP_INTERVAL {
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
        let deadline = match self.mailbox.next_inbox_check(Instant::now()) {
            Some(look) => deadline.min(look),
            None => deadline,
        };
        if run.state().is_stopping() {
            return deadline;
        }
        let expiries = [
            self.permissions.next_expiry(self.launcher.limits().idle),
            self.requests.next_expiry(),
        ];
        expiries.into_iter().flatten().fold(deadline, Instant::min)
    }

    /// Checks whether a program has read the messages in its inbox file.
    fn check_inbox_file(&mut self, run: &TaskAttempt<'_>) {
        let requests = self.mailbox.check_inbox_file(run, &mut self.reporter);
        self.carry_out(requests);
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
                    let requests = self.mailbox.note_accepted(&mut self.reporter, &delivery);
                    self.carry_out(requests);
                }
                AttemptCommand::NoteRefused(delivery) => self.mailbox.note_rejected(&delivery),
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
        let requests = self.mailbox.note_prompt_delivered(&mut self.reporter);
        self.carry_out(requests);
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
                self.permissions
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

    /// Gives back the tasks that this process still claims, because the store has refused their results or the reply to a
    /// claim was lost.
    fn release_own_tasks(&self) -> Result<(), StoreError> {
        let identity = self.reporter.identity();
        let processes = [self.launcher.machine().me().clone()];
        let store = self.reporter.store();
        reclaim::release_tasks(store, &identity.team, &identity.name, &processes)?;
        Ok(())
    }

    /// Leaves in order: answers the stop request, ends all remaining processes, and removes the heartbeat. The record of the
    /// launch of a worker that is replaced stays: it says that the worker is to be started again.
    fn leave(mut self) -> Result<(), BridgeError> {
        self.lifecycle.set_status(WorkerStatus::Shutdown);
        let identity = self.reporter.identity().clone();
        let tree = ProcessTree::below_me(self.launcher.machine(), &identity.launch);
        if let Err(error) = tree.end(self.launcher.limits().grace) {
            self.reporter.say(&error.to_string());
        }
        let is_team_gone = self.lifecycle.is_team_gone();
        if !is_team_gone {
            // Late messages are included. Of the requests in them only one to stop still matters: a worker that was asked
            // to stop, however late, is not started again.
            for request in self.mailbox.read_mail(&mut self.reporter) {
                if let MailRequest::Stop(signal) = request {
                    self.request_stop(signal);
                }
            }
            self.has_stop_signal();
        }
        let is_replaced = self.lifecycle.is_replaced() && !is_team_gone;
        let stop = self.lifecycle.take_stop();
        if !is_team_gone
            && !is_replaced
            && let Err(error) = self.release_own_tasks()
        {
            // The record and the heartbeat stay, so that whoever finds this worker dead takes the task back. Only a request
            // tells a supervisor that the worker was stopped; a signal of the system does not.
            if stop.is_none_or(|stop| stop.request_id.is_empty()) {
                let (project, launch) = (self.launcher.project(), &identity.launch);
                record::dismiss(project, &identity.team, &identity.name, launch)
                    .or_trace("note that a worker is not to be started again");
            }
            return Err(error.into());
        }
        if !is_team_gone {
            self.mailbox.report_undelivered(&mut self.reporter);
            // The supervisor waits for no answer.
            if let Some(stop) = stop.as_ref().filter(|_| !is_replaced) {
                self.reporter.acknowledge_stop(stop);
            }
            let stopped = EventKind::WorkerStopped(WorkerStopped {
                reason: stop.map(|stop| stop.reason).unwrap_or_default(),
                ..WorkerStopped::default()
            });
            let event = self.reporter.event(stopped);
            self.reporter.store().record(&identity.team, event)?;
        }
        if !is_replaced {
            record::remove(
                self.launcher.project(),
                &identity.team,
                &identity.name,
                &identity.launch,
            )?;
        }
        if is_team_gone {
            let ended = self.lifecycle.end_heartbeat();
            ended.or_trace("remove the heartbeat of a deleted team");
            return Ok(());
        }
        self.mailbox.acknowledge_requests(&mut self.reporter);
        let ended = self.lifecycle.end_heartbeat();
        // The heartbeat is removed before the signal: the sender of the request must see this bridge end, and no later bridge
        // may obey the same signal.
        let store = self.reporter.store();
        if !is_replaced {
            store.clear_signals(&identity.team, &identity.name)?;
        }
        let me = EventActor::from(identity.name.as_str());
        store.dismiss(&identity.team, &me, &identity.name)?;
        Ok(ended?)
    }
}

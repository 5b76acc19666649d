//! One task, from the claim to its end.

use serde_json::json;
use teamster_agents::{AgentEvent, Decision, Job, TaskFacts};
use teamster_fs::{Dir, Sync, layout};
use teamster_isolate::child::RunningChild;
use teamster_journal::EventKind;
use teamster_journal::payload::{AgentEventRecorded, WorkerLaunchFailed, WorkerStarted};
use teamster_store::{ClaimRequest, Claimed};
use teamster_types::heartbeat::WorkerStatus;
use teamster_types::redact::{clean, redact};
use teamster_types::task::Task;

use super::Bridge;
use super::attempt::{Cut, NotStarted, Ran};
use super::log::{From, Log};
use crate::prompt::{mail_that_fits, prompt};
use crate::temp;

/// The longest text in a journal event of ours.
const SHORT: usize = 200;

/// How the agent's part of a task ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// The agent ran to some end.
    Ran(Ran),
    /// The agent never showed that it was there, twice.
    NoLaunch(String),
    /// There is no place to work in.
    NoPlace(String),
}

impl Bridge {
    pub(super) fn claim(&self) -> teamster_store::Result<Option<Claimed>> {
        let request = ClaimRequest {
            worker: self.who.name.clone(),
            id: None,
            lease: None,
        };
        self.store.claim(&self.who.team, &request)
    }

    /// Does a task.
    pub(super) fn work(&mut self, claimed: &Claimed) {
        let id = claimed.task.id().clone();
        self.holding = Some(id.clone());
        self.touched = false;
        self.heart.holds(&id, &claimed.token);
        self.tell(&format!("task {id}: {}", claimed.task.subject()));
        let log = Log::open(
            &self.project,
            &self.who.team,
            &self.who.name,
            &id,
            self.rules.log_bytes,
        );
        if let Err(error) = &log {
            self.tell(&format!("cannot keep a log: {error}"));
        }
        let log = log.ok();
        let ended = match self.workplace.begin() {
            Ok(()) => self.have_it_done(claimed, log.as_ref()),
            Err(error) => Ended::NoPlace(error.to_string()),
        };
        self.finish(claimed, &ended, log.as_ref());
        self.holding = None;
        let status = if self.is_quarantined() {
            WorkerStatus::Quarantined
        } else {
            WorkerStatus::Polling
        };
        self.heart.lets_go(self.errors);
        self.heart.is(status);
    }

    /// Has the agent do the task; a launch that failed is tried once more.
    fn have_it_done(&mut self, claimed: &Claimed, log: Option<&Log>) -> Ended {
        let Some(driver) = self.driver.take() else {
            return Ended::NoPlace("there is no agent".to_owned());
        };
        let mut why = String::new();
        for launch in 1..=2 {
            if self.stop.as_ref().is_some_and(|stop| !stop.drain) {
                break;
            }
            match self.launch_once(driver.as_ref(), claimed, log) {
                Ok(Ok(ran)) if ran.cut == Some(Cut::NoStart) => why = ran.say_failed_launch(),
                Ok(Ok(ran)) => {
                    self.driver = Some(driver);
                    return Ended::Ran(ran);
                }
                Ok(Err(error)) => why = format!("{}: {}", error.command, error.why),
                Err(error) => why = error,
            }
            self.launch_failed(&claimed.task, &why, launch, log);
        }
        self.driver = Some(driver);
        Ended::NoLaunch(why)
    }

    fn launch_once(
        &mut self,
        driver: &dyn teamster_agents::Driver,
        claimed: &Claimed,
        log: Option<&Log>,
    ) -> Result<Result<Ran, NotStarted>, String> {
        let task = &claimed.task;
        let id = task.id().to_string();
        let failure = self.store.failure(&self.who.team, task.id()).ok().flatten();
        let before = failure.as_ref().map(|failure| failure.last_error.as_str());
        self.told = mail_that_fits(&self.mail, self.rules.prompt);
        let mail = &self.mail[..self.told];
        let text = prompt(&self.told_always, task, before, mail, self.rules.prompt);
        let file = self
            .write_task(task)
            .map_err(|error| format!("cannot write the task for the agent: {error}"))?;
        let folder = self.workplace.folder().to_owned();
        let (model, permissions) = (self.model.clone(), self.permissions);
        let (path, teamster) = (self.path.clone(), self.teamster.clone());
        let who = self.who.clone();
        let attempt = failure.map_or(0, |failure| failure.retry_count) + 1;
        let temp = temp::make(&who.launch);
        let job = Job {
            prompt: &text,
            worktree: &folder,
            // The bridge commits, so that no agent needs to write to the repository's own folder.
            git_dir: None,
            model: model.as_deref(),
            resume: None,
            permissions: &permissions,
            team: who.team.as_str(),
            worker: who.name.as_str(),
            task: Some(TaskFacts {
                id: &id,
                subject: task.subject(),
                file: &file,
                attempt,
            }),
            path: &path,
            teamster: &teamster,
            temp: temp.as_deref(),
        };
        let ran = self.attempt(driver, &job, claimed, log);
        temp::remove(&who.launch);
        Ok(ran)
    }

    /// The task as the agent may see it: without the proof of our claim.
    fn write_task(&self, task: &Task) -> Result<std::path::PathBuf, teamster_fs::FsError> {
        let mut folder: Dir = self.project.child_or_create(layout::OMC)?;
        for name in layout::agent_folders(&self.who.team, &self.who.name) {
            folder = folder.child_or_create(name)?;
        }
        let bytes = teamster_types::json::to_file(&task.public());
        folder.replace(layout::AGENT_TASK, &bytes, Sync::Fast)?;
        Ok(folder.join(layout::AGENT_TASK))
    }

    fn launch_failed(&mut self, task: &Task, why: &str, launch: u32, log: Option<&Log>) {
        let why = redact(why).into_owned();
        self.tell(&format!("the agent did not start: {why}"));
        self.log_line(log, &format!("launch {launch} failed: {why}"));
        let failed = WorkerLaunchFailed {
            launch,
            reason: clean(&why, 4_000).into_owned(),
        };
        let event = self
            .event(EventKind::WorkerLaunchFailed(failed))
            .task(task.id());
        self.record(event);
    }

    /// The agent showed that it is there.
    pub(super) fn agent_is_there(&mut self, running: &RunningChild, session: Option<&str>) {
        self.mail_is_passed_on();
        let event = self.event_of_task(EventKind::WorkerStarted(WorkerStarted {
            process: Some(running.id().clone()),
            session: session.map(str::to_owned),
        }));
        self.record(event);
    }

    /// The agent did something. What a person may want to see at once is recorded; all of it is in the log.
    pub(super) fn happened(&mut self, event: &AgentEvent) {
        if let AgentEvent::CommitAsked { message } = event
            && let Err(error) = self.workplace.commit(message)
        {
            self.tell(&format!("cannot commit: {error}"));
        }
        let (what, text, always) = match event {
            AgentEvent::ToolUse { tool, detail, .. } => ("tool", format!("{tool} {detail}"), false),
            AgentEvent::PermissionAsked {
                tool,
                detail,
                decision,
                ..
            } => match decision {
                Decision::Allowed => ("allowed", format!("{tool} {detail}"), false),
                Decision::Denied { reason } => {
                    ("denied", format!("{tool} {detail}: {reason}"), true)
                }
                Decision::Asked => ("asked", format!("{tool} {detail}"), true),
            },
            AgentEvent::Error { message, .. } => ("error", message.clone(), true),
            AgentEvent::Finished { summary, .. } => ("finished", summary.clone(), true),
            _ => return,
        };
        if !always && !self.is_time_for_small_news() {
            return;
        }
        let text = redact(&text).into_owned();
        let request = match event {
            AgentEvent::PermissionAsked {
                request,
                decision: Decision::Asked,
                ..
            } => Some(request.clone()),
            _ => None,
        };
        let recorded = self.event_of_task(EventKind::AgentEvent(AgentEventRecorded {
            what: what.to_owned(),
            request,
            allowed: None,
            text: clean(&text, SHORT).into_owned(),
        }));
        self.record(recorded);
    }

    pub(super) fn log_line(&self, log: Option<&Log>, text: &str) {
        if let Some(log) = log {
            let line = json!({ "teamster": text }).to_string();
            let _ = log.line(self.store.now(), From::Bridge, line.as_bytes(), None);
        }
    }
}

impl Ran {
    /// What a person needs to see why an agent did not start.
    pub(super) fn say_failed_launch(&self) -> String {
        let last = if self.last.is_empty() {
            "it printed nothing".to_owned()
        } else {
            format!("its last output: {}", self.last.join(" ⏎ "))
        };
        format!("{}: {}; {last}", self.command, self.say_exit())
    }

    /// How the agent's process ended, in words.
    pub(super) fn say_exit(&self) -> String {
        use teamster_agents::Exit;
        let exit = match self.exit {
            Exit::Code(code) => format!("exit code {code}"),
            Exit::Signal(signal) => format!("ended by signal {signal}"),
            Exit::Unknown => "no exit code".to_owned(),
        };
        match &self.cut {
            Some(cut) => format!("{}, then {exit}", cut.words()),
            None => exit,
        }
    }
}

//! One run of an agent: started, watched, and ended with everything it started.

use std::sync::mpsc::{RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use teamster_agents::{
    AgentEvent, Decision, Driver, Ending, Exit, Job, Launch, Outcome, Reader, Step, Stopped,
};
use teamster_isolate::child::{ChildEvent, OutputStream, RunningChild};
use teamster_isolate::process_tree;
use teamster_store::Claimed;

use super::asked::Waiting;
use super::heart::News;
use super::log::{From, Log};
use super::{Bridge, Event};
use crate::process::{self, LAST_WORDS, LastLines};

/// Ended orphans of the agent are looked at this often, so that they leave the system's table.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// Why we ended an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// It never showed that it was there.
    NoStart,
    /// It said nothing for too long.
    Silent,
    /// It took too long.
    Late,
    /// The worker is to stop.
    Asked,
    /// The task is not ours any more, and why.
    Lost(String),
    /// The team is gone.
    NoTeam,
}

/// How a run ended.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) outcome: Outcome,
    pub(super) cut: Option<Cut>,
    /// The command line.
    pub(super) command: String,
    pub(super) exit: Exit,
    /// The last lines of both streams.
    pub(super) last: Vec<String>,
    /// Processes that the agent left behind and that were ended.
    pub(super) left: usize,
}

/// The agent was not started at all.
#[derive(Debug)]
pub(super) struct NotStarted {
    pub(super) command: String,
    pub(super) why: String,
}

/// What one line says to a person: nothing where the client only talks to itself, `None` where nobody understands it.
fn shown(step: &Step) -> Option<String> {
    let said: Option<Vec<String>> = step.events.iter().map(AgentEvent::shown).collect();
    let mut said = said?;
    said.retain(|text| !text.is_empty());
    Some(said.join("\n"))
}

/// A run that goes on.
pub(super) struct Watch<'a> {
    driver: &'a dyn Driver,
    claimed: &'a Claimed,
    pub(super) reader: Box<dyn Reader>,
    running: RunningChild,
    number: u64,
    pub(super) input: Option<Sender<Vec<u8>>>,
    pub(super) log: Option<&'a Log>,
    last: LastLines,
    began: Instant,
    pub(super) spoke: Instant,
    /// Requests that a person has to decide, the oldest first.
    pub(super) waiting: Vec<Waiting>,
    started: bool,
    /// A program of the user's own shows life on either stream.
    hears_errors: bool,
    cut: Option<Cut>,
    /// When an agent that was asked to end is ended.
    kill_at: Option<Instant>,
    exit: Option<Exit>,
    open: u32,
}

impl Bridge {
    /// Runs the agent once for this job.
    pub(super) fn attempt(
        &mut self,
        driver: &dyn Driver,
        job: &Job<'_>,
        claimed: &Claimed,
        log: Option<&Log>,
    ) -> Result<Ran, NotStarted> {
        let launch = driver.launch(job).map_err(|error| NotStarted {
            command: driver.provider().to_owned(),
            why: error.to_string(),
        })?;
        let command = launch.command_line();
        self.log_line(log, &format!("starts {command}"));
        self.attempts += 1;
        // Whatever was answered before this run was not an answer to it.
        self.answers.clear();
        let mut watch = self
            .start(driver, job, claimed, &launch, log)
            .map_err(|error| NotStarted {
                command: command.clone(),
                why: error.to_string(),
            })?;
        self.watch(&mut watch);
        let left = self.clear_away(&mut watch);
        let exit = watch.exit.unwrap_or(Exit::Unknown);
        let stopped = watch.cut.as_ref().map(|cut| match cut {
            Cut::NoStart | Cut::Silent => Stopped::Silent,
            Cut::Late => Stopped::Late,
            Cut::Asked | Cut::Lost(_) | Cut::NoTeam => Stopped::Interrupted,
        });
        let ending = Ending { exit, stopped };
        let outcome = watch.reader.end(ending, &watch.last.errors());
        // One that said nothing and ended shows by its end that it was there.
        if outcome.started && !watch.started && watch.cut.is_none() {
            self.agent_is_there(&watch.running, None);
        }
        Ok(Ran {
            outcome,
            cut: watch.cut,
            command,
            exit,
            last: watch.last.into_lines(),
            left,
        })
    }

    fn start<'a>(
        &self,
        driver: &'a dyn Driver,
        job: &Job<'_>,
        claimed: &'a Claimed,
        launch: &Launch,
        log: Option<&'a Log>,
    ) -> std::io::Result<Watch<'a>> {
        let number = self.attempts;
        let (running, input) = process::begin(
            &self.machine,
            launch,
            &process::Where {
                folder: job.worktree,
                exported: &self.exported,
                number: &self.who.launch,
            },
            &self.sender,
            move |said| Event::Agent(number, said),
        )?;
        let now = Instant::now();
        Ok(Watch {
            driver,
            claimed,
            reader: driver.reader(job),
            running,
            number,
            input,
            log,
            last: LastLines::default(),
            began: now,
            spoke: now,
            waiting: Vec::new(),
            started: false,
            hears_errors: driver.provider() == "command",
            cut: None,
            kill_at: None,
            exit: None,
            open: 2,
        })
    }

    /// Goes with the agent to its end.
    fn watch(&mut self, watch: &mut Watch<'_>) {
        let mut looked = Instant::now();
        while watch.exit.is_none() {
            let patience = self.time_left(watch).min(LOOK_AGAIN);
            match self.events.recv_timeout(patience) {
                Ok(event) => self.hear(watch, event),
                Err(RecvTimeoutError::Timeout) => self.look_at_the_clock(watch),
                Err(RecvTimeoutError::Disconnected) => return,
            }
            // A talkative agent must not keep us from looking.
            self.look_at_the_clock(watch);
            if looked.elapsed() >= LOOK_AGAIN {
                looked = Instant::now();
                process_tree::reap_adopted(&self.machine);
            }
        }
    }

    fn time_left(&self, watch: &Watch<'_>) -> Duration {
        let now = Instant::now();
        if let Some(kill_at) = watch.kill_at {
            return kill_at.saturating_duration_since(now);
        }
        let silence = if watch.started {
            watch.spoke + self.rules.idle
        } else {
            watch.began + self.rules.start
        };
        let forgotten = watch.patience_ends(self.rules.idle).unwrap_or(silence);
        silence
            .min(forgotten)
            .min(watch.began + self.rules.task)
            .saturating_duration_since(now)
    }

    fn look_at_the_clock(&mut self, watch: &mut Watch<'_>) {
        let now = Instant::now();
        if let Some(kill_at) = watch.kill_at {
            if now >= kill_at {
                // It had its chance. Everything it started goes with it.
                let _ = process_tree::ProcessTree::below_me(&self.machine, &self.who.launch).kill();
                watch.kill_at = Some(now + self.rules.grace);
            }
            return;
        }
        self.deny_the_forgotten(watch);
        if !watch.started && now >= watch.began + self.rules.start {
            self.cut(watch, Cut::NoStart);
        } else if watch.started && now >= watch.spoke + self.rules.idle {
            self.cut(watch, Cut::Silent);
        } else if now >= watch.began + self.rules.task {
            self.cut(watch, Cut::Late);
        }
    }

    fn hear(&mut self, watch: &mut Watch<'_>, event: Event) {
        match event {
            Event::Agent(number, said) if number == watch.number => self.said(watch, said),
            // The last words of an earlier run.
            Event::Agent(..) => {}
            Event::Heart(News::Stop(signal)) => {
                let now = !signal.drain;
                self.asked_to_stop(signal);
                if now {
                    self.cut(watch, Cut::Asked);
                }
            }
            Event::Heart(News::Lost(task, why)) => {
                if self.holding.as_ref() == Some(&task) {
                    self.cut(watch, Cut::Lost(why));
                }
            }
            Event::Heart(News::NoTeam) => self.cut(watch, Cut::NoTeam),
            Event::Heart(News::Changed) => {
                self.read_the_news();
                self.pass_answers_on(watch);
                if self.stop.as_ref().is_some_and(|stop| !stop.drain) {
                    self.cut(watch, Cut::Asked);
                }
                // The next renewal of the lease would tell, but until then two agents may do one task.
                if std::mem::take(&mut self.touched)
                    && let Some(why) = self.is_lost(watch.claimed)
                {
                    self.cut(watch, Cut::Lost(why));
                }
            }
        }
    }

    fn said(&mut self, watch: &mut Watch<'_>, said: ChildEvent) {
        match said {
            ChildEvent::Line(stream, line) => {
                let from = match stream {
                    OutputStream::Output => From::Agent,
                    OutputStream::Error => From::Error,
                };
                let step = matches!(stream, OutputStream::Output).then(|| watch.reader.line(&line));
                let shown = step.as_ref().and_then(shown);
                if let Some(log) = watch.log
                    && log
                        .line(self.store.now(), from, &line, shown.as_deref())
                        .is_err()
                {
                    self.lost_lines += 1;
                }
                watch.last.remember(stream, &line);
                match stream {
                    OutputStream::Output => self.take(watch, step.unwrap_or_default()),
                    OutputStream::Error if watch.hears_errors => self.spoke(watch, None),
                    OutputStream::Error => {}
                }
            }
            ChildEvent::Closed(_) => watch.open = watch.open.saturating_sub(1),
            ChildEvent::Ended(ending) => {
                watch.exit = Some(process::exit(ending));
            }
        }
    }

    fn take(&mut self, watch: &mut Watch<'_>, step: Step) {
        for event in step.events {
            match &event {
                AgentEvent::Started { session, .. } => self.spoke(watch, session.as_deref()),
                _ if watch.started => {
                    watch.spoke = Instant::now();
                    self.heart.agent_spoke(None);
                }
                // Whatever comes before it shows that it is there is no proof of anything.
                _ => {}
            }
            self.happened(&event);
            if let AgentEvent::PermissionAsked {
                request,
                tool,
                detail,
                decision: Decision::Asked,
            } = &event
            {
                self.ask_a_person(watch, request, tool, detail);
            }
        }
        if let Some(input) = &watch.input {
            for reply in step.replies {
                let _ = input.send(reply);
            }
        }
        if step.close_input {
            watch.input = None;
        }
    }

    /// The agent showed that it is there.
    fn spoke(&mut self, watch: &mut Watch<'_>, session: Option<&str>) {
        watch.spoke = Instant::now();
        self.heart.agent_spoke(session);
        if !watch.started {
            watch.started = true;
            self.agent_is_there(&watch.running, session);
        }
    }

    /// Asks the agent to end, and remembers why. Whether it obeys is seen by its end.
    fn cut(&mut self, watch: &mut Watch<'_>, cut: Cut) {
        if watch.cut.is_some() {
            return;
        }
        self.log_line(watch.log, &format!("ends the agent: {}", cut.words()));
        watch.cut = Some(cut);
        watch.kill_at = Some(Instant::now() + self.rules.grace);
        process::ask_to_end(
            watch.driver,
            &watch.running,
            watch.input.as_ref(),
            watch.started,
        );
    }

    /// Ends what the agent left behind, and hears its last words; how many processes those were.
    fn clear_away(&mut self, watch: &mut Watch<'_>) -> usize {
        watch.input = None;
        let tree = process_tree::ProcessTree::below_me(&self.machine, &self.who.launch);
        let left = tree.members().len();
        let ended = if left > 0 {
            tree.end(self.rules.grace.min(Duration::from_secs(1)))
        } else {
            Ok(())
        };
        tree.forget();
        if let Err(error) = ended {
            self.tell(&error.to_string());
        }
        let deadline = Instant::now() + LAST_WORDS;
        while watch.open > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.events.recv_timeout(left) {
                Ok(event) => self.hear(watch, event),
                Err(_) => break,
            }
        }
        left
    }
}

impl Cut {
    /// In words.
    pub(super) fn words(&self) -> String {
        match self {
            Self::NoStart => "it did not show that it is there".to_owned(),
            Self::Silent => "it said nothing for too long".to_owned(),
            Self::Late => "the task takes too long".to_owned(),
            Self::Asked => "the worker is to stop".to_owned(),
            Self::Lost(why) => format!("the task is not ours any more: {why}"),
            Self::NoTeam => "the team is gone".to_owned(),
        }
    }
}

//! Stopping workers: each is asked, asked once more, and then ended with everything it started. It is over when nobody
//! is left, and that is looked at, not assumed.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;
use teamster_fs::Dir;
use teamster_fs::proc::Machine;
use teamster_isolate::OrTrace as _;
use teamster_isolate::process_tree::ProcessTree;
use teamster_isolate::tmux::Tmux;
use teamster_journal::payload::WorkerStopped;
use teamster_journal::{EventKind, NewEvent};
use teamster_store::{Outgoing, Recipient, Signal, Store, StoreError};
use teamster_types::heartbeat::Heartbeat;
use teamster_types::json::Object;
use teamster_types::process::{Life, ProcessId};
use teamster_types::task::Status;
use teamster_types::{TeamName, WorkerName};

use crate::{process, reclaim, record};

/// Who is asked is looked at this often.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// What is asked politely at the end has this long.
const GRACE: Duration = Duration::from_secs(5);

/// How workers are to stop.
#[derive(Clone, Debug)]
pub struct ShutdownRequest {
    /// Their team.
    pub team: TeamName,
    /// Only this one.
    pub only: Option<WorkerName>,
    /// Who wants it.
    pub actor: String,
    /// Why.
    pub reason: String,
    /// The current task is finished first.
    pub drain: bool,
    /// Nobody is asked.
    pub force: bool,
    /// Until when they may end by themselves.
    pub deadline: Duration,
}

/// How a worker ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndKind {
    /// It answered and ended.
    Confirmed,
    /// It was gone before it was asked.
    Gone,
    /// It ended without an answer.
    Ended,
    /// It had to be killed.
    Killed,
    /// It is still there.
    Alive,
}

impl EndKind {
    /// In a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Gone => "gone",
            Self::Ended => "ended",
            Self::Killed => "killed",
            Self::Alive => "alive",
        }
    }
}

/// One worker's end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StoppedWorker {
    /// Who.
    pub worker: WorkerName,
    /// How.
    pub how: EndKind,
    /// What it said, or what is still there.
    pub note: String,
}

/// A worker as it is known before it is stopped.
#[derive(Clone, Debug)]
struct KnownWorker {
    worker: WorkerName,
    process: Option<ProcessId>,
    /// The process that our own record of the launch names. A heartbeat alone is written by anybody.
    root: Option<ProcessId>,
    launch: Option<String>,
    asked: BTreeSet<String>,
    answer: Option<(bool, String)>,
}

/// Stops workers.
pub struct ShutdownCoordinator<'a> {
    /// Where they are asked.
    pub store: &'a dyn Store,
    /// Where they run.
    pub machine: &'a Machine,
    /// Their project.
    pub project: &'a Dir,
    /// The terminal server they may run in.
    pub tmux: Option<&'a Tmux>,
    /// Is told what happens.
    pub tell: &'a mut dyn FnMut(&str),
    /// Says when those who have not ended yet are not waited for any longer. They are left as they are, for a stronger
    /// wish.
    pub hurry: &'a dyn Fn() -> bool,
}

/// Nobody loses patience.
pub fn no_hurry() -> bool {
    false
}

impl ShutdownCoordinator<'_> {
    /// Stops them, and says how each ended.
    pub fn run(&mut self, wish: &ShutdownRequest) -> Result<Vec<StoppedWorker>, StoreError> {
        let everyone = self.everyone(wish)?;
        let (mut living, gone): (Vec<KnownWorker>, Vec<KnownWorker>) = everyone
            .iter()
            .cloned()
            .partition(|known| self.lives(known));
        let mut ends: Vec<StoppedWorker> = Vec::new();
        for known in &gone {
            self.put_in_order(wish, known)?;
            ends.push(end(known, EndKind::Gone, ""));
        }
        let start = Instant::now();
        if !wish.force && !living.is_empty() {
            // Answers from before are none to this question.
            let mut read = self.store.position(&wish.team)? + 1;
            for known in &mut living {
                self.ask(wish, known)?;
            }
            let mut asked_again = false;
            while !living.is_empty() && start.elapsed() < wish.deadline && !(self.hurry)() {
                self.hear(wish, &mut living, &mut read)?;
                let (still, over): (Vec<KnownWorker>, Vec<KnownWorker>) =
                    living.into_iter().partition(|known| self.lives(known));
                for known in &over {
                    let how = match known.answer {
                        Some((true, _)) => EndKind::Confirmed,
                        _ => EndKind::Ended,
                    };
                    let why = known.answer.as_ref().map_or("", |(_, why)| why.as_str());
                    if how == EndKind::Ended {
                        self.put_in_order(wish, known)?;
                    }
                    (self.tell)(&format!("{} has ended", known.worker));
                    ends.push(end(known, how, why));
                }
                living = still;
                let refused = living
                    .iter()
                    .any(|known| matches!(known.answer, Some((false, _))));
                if !asked_again && (refused || start.elapsed() >= wish.deadline / 2) {
                    asked_again = true;
                    for known in &mut living {
                        if let Some((false, why)) = &known.answer {
                            (self.tell)(&format!("{} does not want to: {why}", known.worker));
                        }
                        (self.tell)(&format!("{} is asked once more", known.worker));
                        self.ask(wish, known)?;
                    }
                }
                if !living.is_empty() {
                    std::thread::sleep(LOOK_AGAIN);
                }
            }
        }
        let is_left = !wish.force && start.elapsed() < wish.deadline;
        for known in &living {
            ends.push(if is_left {
                end(known, EndKind::Alive, "it was not waited for")
            } else {
                self.end(wish, known)?
            });
        }
        self.tidy(wish, &everyone, &ends)?;
        ends.sort_by(|a, b| a.worker.cmp(&b.worker));
        Ok(ends)
    }

    /// Ends every process of the team that teamster has started, and writes nothing: for when nothing can be written. Who
    /// is still there, in words. Their tasks are taken from them by whoever finds them dead.
    pub fn end_processes(&self, wish: &ShutdownRequest) -> Vec<String> {
        let mut left = Vec::new();
        let everyone = match self.everyone(wish) {
            Ok(everyone) => everyone,
            Err(error) => return vec![format!("who is at work cannot be read: {error}")],
        };
        for known in everyone.iter().filter(|known| self.lives(known)) {
            let Some(number) = &known.launch else {
                continue;
            };
            let tree = ProcessTree::of_launch(self.machine, number, known.root.as_ref());
            tree.ask(teamster_isolate::Signal::INT);
            if let Err(still) = tree.end(GRACE) {
                left.push(format!("{} is still there: {still}", known.worker));
            }
        }
        left
    }

    /// Everyone who may be running: by heartbeat or by the record of a launch.
    fn everyone(&self, wish: &ShutdownRequest) -> Result<Vec<KnownWorker>, StoreError> {
        let (beats, _) = self.store.heartbeats(&wish.team)?;
        let records = record::all(self.project, &wish.team)?;
        let mut all: Vec<KnownWorker> = beats.into_iter().map(of_beat).collect();
        for record in records {
            let same = |known: &&mut KnownWorker| {
                known.worker == record.spec.worker
                    && known
                        .launch
                        .as_ref()
                        .is_none_or(|launch| *launch == record.launch)
            };
            match all.iter_mut().find(same) {
                Some(known) => {
                    known.launch = Some(record.launch);
                    known.root = Some(record.process);
                }
                None => all.push(KnownWorker {
                    worker: record.spec.worker,
                    process: Some(record.process.clone()),
                    root: Some(record.process),
                    launch: Some(record.launch),
                    asked: BTreeSet::new(),
                    answer: None,
                }),
            }
        }
        all.retain(|known| wish.only.as_ref().is_none_or(|only| *only == known.worker));
        Ok(all)
    }

    fn lives(&self, known: &KnownWorker) -> bool {
        let runs = known
            .process
            .as_ref()
            .is_some_and(|process| self.machine.life(process) == Life::Alive);
        runs || !self.tree(known).is_empty()
    }

    fn tree(&self, known: &KnownWorker) -> Vec<ProcessId> {
        match &known.launch {
            Some(launch) => {
                ProcessTree::of_launch(self.machine, launch, known.root.as_ref()).members()
            }
            None => Vec::new(),
        }
    }

    fn ask(&mut self, wish: &ShutdownRequest, known: &mut KnownWorker) -> Result<(), StoreError> {
        let signal = Signal {
            request_id: teamster_fs::random_hex(),
            reason: wish.reason.clone(),
            timestamp: self.store.now(),
            drain: wish.drain,
        };
        self.store
            .signal(&wish.team, &wish.actor, &known.worker, &signal)?;
        let mut extra = Object::new();
        extra.insert("requestId".into(), signal.request_id.clone().into());
        extra.insert("drain".into(), wish.drain.into());
        self.store.send(
            &wish.team,
            &Outgoing {
                from: "lead".to_owned(),
                to: Recipient::Worker(known.worker.to_string()),
                kind: "shutdown_request".to_owned(),
                content: wish.reason.clone(),
                extra,
            },
        )?;
        known.asked.insert(signal.request_id);
        known.answer = None;
        Ok(())
    }

    /// Answers are journalled, so they can be heard without moving the lead's place in its mail.
    fn hear(
        &mut self,
        wish: &ShutdownRequest,
        living: &mut [KnownWorker],
        read: &mut u64,
    ) -> Result<(), StoreError> {
        let page = self.store.events(&wish.team, *read, 1_000)?;
        for event in &page.events {
            *read = event.seq + 1;
            let EventKind::MessageSent(sent) = event.payload() else {
                continue;
            };
            if let Some(known) = living
                .iter_mut()
                .find(|known| event.actor == known.worker.as_str())
            {
                let extra = |key: &str| sent.extra.get(key);
                let request = extra("requestId")
                    .and_then(Value::as_str)
                    .unwrap_or_default();
                if matches!(sent.message_type.as_str(), "shutdown_ack" | "drain_ack")
                    && (request.is_empty() || known.asked.contains(request))
                {
                    let approve = extra("approve").and_then(Value::as_bool);
                    let why = extra("reason").and_then(Value::as_str).unwrap_or_default();
                    known.answer = Some((approve.unwrap_or(true), why.to_owned()));
                }
            }
        }
        Ok(())
    }

    /// Ends one that did not end by itself, with everything it started.
    fn end(
        &mut self,
        wish: &ShutdownRequest,
        known: &KnownWorker,
    ) -> Result<StoppedWorker, StoreError> {
        let Some(number) = &known.launch else {
            let note = "it was not started by teamster, which ends only what it started";
            return Ok(end(known, EndKind::Alive, note));
        };
        (self.tell)(&format!("{} is ended", known.worker));
        let tree = ProcessTree::of_launch(self.machine, number, known.root.as_ref());
        tree.ask(teamster_isolate::Signal::INT);
        if let Err(still) = tree.end(GRACE) {
            return Ok(end(known, EndKind::Alive, &still.to_string()));
        }
        if self.lives(known) {
            let note = "its heartbeat names a process that its launch did not start";
            return Ok(end(known, EndKind::Alive, note));
        }
        process::remove_temp_folder(number);
        for task in self.store.tasks(&wish.team)?.tasks {
            let is_theirs = task.status() == Status::InProgress
                && task
                    .claim()
                    .is_some_and(|claim| claim.worker == known.worker);
            if is_theirs {
                self.store
                    .release(&wish.team, &wish.actor, task.id(), None)?;
            }
        }
        let stopped = WorkerStopped {
            worker: Some(known.worker.to_string()),
            how: Some(EndKind::Killed.as_str().to_owned()),
            reason: wish.reason.clone(),
        };
        let event = NewEvent::new(&wish.actor, EventKind::WorkerStopped(stopped));
        self.store.record(&wish.team, event)?;
        let note = if wish.force {
            ""
        } else {
            "it did not end when asked"
        };
        Ok(end(known, EndKind::Killed, note))
    }

    /// Does for one that is gone what it could not do itself: its tasks go back, its temp files go. After this nobody
    /// knows of it any more, so nobody else would.
    fn put_in_order(&self, wish: &ShutdownRequest, known: &KnownWorker) -> Result<(), StoreError> {
        let processes: Vec<ProcessId> = known.process.iter().chain(&known.root).cloned().collect();
        reclaim::give_back(self.store, &wish.team, &known.worker, &processes)?;
        if let Some(launch) = &known.launch {
            process::remove_temp_folder(launch);
        }
        Ok(())
    }

    /// Whether nothing has this pid any more. A terminal server takes a moment to notice that.
    fn is_gone(&self, pid: u32) -> bool {
        let process = self.machine.process(pid);
        process.is_none_or(|process| self.machine.life(&process) == Life::Gone)
    }

    /// Takes away what the ended ones left: heartbeats, records, signals, dead panes.
    fn tidy(
        &self,
        wish: &ShutdownRequest,
        everyone: &[KnownWorker],
        ends: &[StoppedWorker],
    ) -> Result<(), StoreError> {
        let is_alive = |worker: &WorkerName| {
            ends.iter()
                .any(|end| end.worker == *worker && end.how == EndKind::Alive)
        };
        for known in everyone.iter().filter(|known| !is_alive(&known.worker)) {
            let launch = known.launch.as_deref();
            reclaim::forget(self.store, self.project, &wish.team, &known.worker, launch)?;
        }
        for end in ends.iter().filter(|end| end.how != EndKind::Alive) {
            self.store.clear_signals(&wish.team, &end.worker)?;
            if let Some(tmux) = self.tmux
                && let Ok(Some(pane)) = tmux.pane_of(&wish.team, &end.worker)
                && (pane.dead || self.is_gone(pane.pid))
            {
                tmux.close_pane(&pane).or_trace("close a pane");
            }
        }
        if let Some(tmux) = self.tmux {
            tmux.end_if_empty().or_trace("end the tmux server");
        }
        Ok(())
    }
}

fn of_beat(beat: Heartbeat) -> KnownWorker {
    KnownWorker {
        process: beat.process(),
        root: None,
        launch: beat.launch,
        worker: beat.worker_name,
        asked: BTreeSet::new(),
        answer: None,
    }
}

fn end(known: &KnownWorker, how: EndKind, note: &str) -> StoppedWorker {
    StoppedWorker {
        worker: known.worker.clone(),
        how,
        note: note.to_owned(),
    }
}

//! A moment, shown from the journal alone.

use std::collections::{HashMap, HashSet};

use teamster_types::graph::{critical_path, standings};
use teamster_types::health::Verdict;
use teamster_types::progress::Progress;
use teamster_types::task::Task;
use teamster_types::{TaskId, Time};

use super::crew::Told;
use super::{Story, Times, stage_spans};
use crate::model::cost::{Cost, Spent, WorkerCost};
use crate::model::graph::levels;
use crate::model::rows::{Message, TaskRow, Worker};
use crate::model::team::{History, TeamKind, TeamView, Viewed};
use crate::model::timeline::Timeline;
use crate::status::{Problem, ProblemKind};

impl Story {
    /// The team as it was right after the last event that was told.
    pub fn view(&self) -> TeamView {
        let now = self.last.unwrap_or(Time::from_millis(0));
        let tasks: Vec<Task> = self.tasks.rest();
        let standings = standings(&tasks, now);
        let critical = critical_path(&tasks);
        let on_it: HashSet<&TaskId> = critical.iter().collect();
        let levels = levels(&tasks);
        let rows: Vec<TaskRow> = tasks
            .iter()
            .zip(standings)
            .map(|(task, standing)| {
                let mut row = TaskRow::of(task, standing.state, standing.reason);
                row.level = levels.get(task.id()).copied().unwrap_or(0);
                row.critical = on_it.contains(task.id());
                self.add_times(&mut row);
                row
            })
            .collect();
        let progress = Progress::of(&tasks);
        let workers = self.workers(&tasks);
        TeamView {
            id: self.team.clone(),
            name: self.team.clone(),
            kind: Some(TeamKind::Teamster),
            project: self.project.clone(),
            description: String::new(),
            state: self.state(&workers, &progress),
            seq: self.seq,
            at: self.last,
            past: true,
            history: self.history(self.seq),
            progress,
            problems: problems(&workers),
            workers,
            tasks: rows,
            critical_path: critical,
            messages: self.messages(),
            message_count: self.message_count,
            run: self.runs.run.clone(),
            approval: self.runs.approval.clone(),
            verifications: self.runs.verifications.clone(),
            merges: self.runs.merges.clone(),
            cost: self.cost(),
            session: None,
        }
    }

    /// How much of a journal that ends at `last` is told.
    pub fn history(&self, last: u64) -> History {
        History {
            read: self.seq,
            last: last.max(self.seq),
            complete: self.seq >= last,
        }
    }

    fn messages(&self) -> Vec<Message> {
        self.messages.iter().cloned().collect()
    }

    /// What was spent.
    pub fn cost(&self) -> Cost {
        let mut cost = self.money.cost();
        cost.by_worker = self
            .crew
            .workers
            .iter()
            .filter(|(_, told)| told.spent.reports > 0)
            .map(|(worker, told)| WorkerCost {
                worker: worker.clone(),
                spent: told.spent.spent(),
            })
            .collect();
        cost.budget = self.runs.run.as_ref().and_then(|run| run.budget.clone());
        cost
    }

    /// What was spent on one task.
    pub fn spent_on(&self, id: &TaskId) -> Spent {
        self.money.of_task(id)
    }

    /// What happened when.
    pub fn timeline(&self) -> Timeline {
        Timeline {
            seq: self.seq,
            from: self.first,
            to: self.last,
            lanes: self.crew.lanes(),
            stages: stage_spans(&self.runs),
            ticks: self.ticks.all(),
        }
    }

    /// Takes over what only the journal knows: the run, the gate, costs, times.
    pub(crate) fn complete(&self, view: &mut TeamView) {
        view.history = self.history(view.seq);
        view.run.clone_from(&self.runs.run);
        view.approval.clone_from(&self.runs.approval);
        view.verifications.clone_from(&self.runs.verifications);
        view.merges.clone_from(&self.runs.merges);
        view.cost = self.cost();
        view.messages = self.messages();
        view.message_count = self.message_count;
        for worker in &mut view.workers {
            if let Some(told) = self.crew.workers.get(&worker.name) {
                told.add_to(worker);
            }
        }
        for row in &mut view.tasks {
            self.add_times(row);
        }
    }

    pub(crate) fn add_times(&self, row: &mut TaskRow) {
        if let Some(Times {
            started,
            ended,
            fixes,
        }) = self.times.get(&row.id)
        {
            row.started_at = *started;
            row.ended_at = *ended;
            row.fixes.clone_from(fixes);
        }
    }

    /// Members in the order in which they joined, then whoever else was told of, by name.
    fn workers(&self, tasks: &[Task]) -> Vec<Worker> {
        let subjects: HashMap<&TaskId, &str> = tasks
            .iter()
            .map(|task| (task.id(), task.subject()))
            .collect();
        let others = self.crew.workers.keys();
        let others = others.filter(|name| {
            let told = &self.crew.workers[*name];
            !self.crew.order.contains(name) && told.is_worker()
        });
        self.crew
            .order
            .iter()
            .chain(others)
            .filter_map(|name| {
                let told = self.crew.workers.get(name)?;
                let (verdict, evidence) = told.verdict();
                let mut worker = Worker {
                    status: Some(told.status.to_owned()),
                    verdict,
                    evidence,
                    current_task_id: told.holds.clone(),
                    current_task: told
                        .holds
                        .as_ref()
                        .and_then(|id| subjects.get(id))
                        .map(|subject| (*subject).to_owned()),
                    provider: told.provider.clone(),
                    last_event_at: told.last_event_at,
                    consecutive_errors: told.in_a_row,
                    ..Worker::named(name)
                };
                told.add_to(&mut worker);
                worker.since = told.since;
                Some(worker)
            })
            .collect()
    }

    fn state(&self, workers: &[Worker], progress: &Progress) -> Viewed {
        let finished = self.runs.run.as_ref().map(|run| run.finished.is_some());
        if self.deleted || finished == Some(true) {
            return Viewed::Ended;
        }
        let is_there = |worker: &Worker| {
            matches!(
                worker.status.as_deref(),
                Some("spawning" | "working" | "idle" | "paused" | "quarantined")
            )
        };
        let left = progress.pending_tasks + progress.in_progress_tasks;
        if finished == Some(false) || workers.iter().any(is_there) {
            Viewed::Live
        } else if progress.total_tasks > 0 && left == 0 {
            Viewed::Ended
        } else {
            Viewed::Stale
        }
    }
}

impl Told {
    /// Whether this is a worker at all: a person and the system act, too.
    fn is_worker(&self) -> bool {
        !self.spans.is_empty() || !self.marks.is_empty() || self.spent.reports > 0
    }

    fn verdict(&self) -> (Verdict, Vec<String>) {
        if let Some((verdict, evidence)) = &self.verdict {
            return (*verdict, evidence.clone());
        }
        match self.status {
            "joined" | "left" | "stopped" | "" => {
                let word = if self.status.is_empty() {
                    "unknown"
                } else {
                    self.status
                };
                (Verdict::Unknown, vec![format!("the journal says: {word}")])
            }
            _ if self.in_a_row >= 2 => (
                Verdict::AtRisk,
                vec![format!("{} attempts failed in a row", self.in_a_row)],
            ),
            status => (
                Verdict::Healthy,
                vec![format!("the journal says: {status}")],
            ),
        }
    }

    /// What only the journal knows.
    fn add_to(&self, worker: &mut Worker) {
        worker.role.clone_from(&self.role);
        worker.model.clone_from(&self.model);
        worker.since = match (&worker.current_task_id, &self.holds) {
            (Some(now), Some(told)) if now == told => self.since,
            (None, None) => self.since,
            _ => worker.since,
        };
        worker.tasks_completed = self.completed;
        worker.attempts_failed = self.failed;
        worker.spent = self.spent.spent();
        worker.requests.clone_from(&self.requests);
        worker.asked_to = self.asked_to.map(str::to_owned);
    }
}

fn problems(workers: &[Worker]) -> Vec<Problem> {
    workers
        .iter()
        .filter(|worker| !matches!(worker.verdict, Verdict::Healthy | Verdict::Unknown))
        .map(|worker| Problem {
            kind: ProblemKind::Worker,
            about: worker.name.clone(),
            error: format!("{}: {}", worker.verdict, worker.evidence.join(", ")),
        })
        .collect()
}

//! A moment of a team, shown from the journal alone.

use std::collections::{HashMap, HashSet};

use teamster_journal::{TeamState, WorkerPhase, WorkerState};
use teamster_types::graph::{critical_path, explain_states};
use teamster_types::health::Verdict;
use teamster_types::heartbeat::ProviderLimit;
use teamster_types::phrase::{Phrase, PhraseCode, PhraseKey};
use teamster_types::progress::Progress;
use teamster_types::task::Task;
use teamster_types::{TaskId, Time};

use super::{TaskTimes, TeamProjection, money, runs, stage_spans};
use crate::model::collaboration;
use crate::model::cost::{CostView, Spent};
use crate::model::graph::levels;
use crate::model::rows::{MessageView, TaskRow, WorkerView};
use crate::model::team::{History, Lane, MOST_WORKERS, TeamKind, TeamView, Timeline, Viewed};
use crate::questions;
use crate::status::TeamProblem;

impl TeamProjection {
    /// Returns the view of the team right after the last applied event.
    pub fn view(&self) -> TeamView {
        let now = self.state.last.unwrap_or(Time::from_millis(0));
        let tasks: Vec<Task> = self.tasks.remaining();
        let standings = explain_states(&tasks, now);
        let critical = critical_path(&tasks);
        let on_it: HashSet<&TaskId> = critical.iter().collect();
        let levels = levels(&tasks);
        let rows: Vec<TaskRow> = tasks
            .iter()
            .zip(standings)
            .map(|(task, standing)| {
                let mut row = TaskRow::of(task, standing);
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
            project: self.state.project.clone(),
            description: String::new(),
            state: self.state(&workers, &progress),
            seq: self.seq,
            at: self.state.last,
            past: true,
            history: self.history(self.seq),
            progress,
            problems: problems(&workers),
            problem_count: 0,
            worker_count: 0,
            workers,
            tasks: rows,
            critical_path: critical,
            messages: self.messages(),
            message_count: self.message_count,
            run: runs::run(&self.state.run),
            approval: runs::approval(&self.state.run),
            verifications: runs::verifications(&self.state.run),
            merges: runs::merges(&self.state.run),
            proposal: collaboration::proposal(&self.state.run),
            questions: questions::shown(&self.state.questions),
            wakes: collaboration::wakes(&self.state.run),
            reviews: collaboration::reviews(&self.state.run),
            findings: collaboration::findings(&self.state.run),
            choice: collaboration::choice(&self.state.run),
            cost: self.cost(),
            session: None,
        }
        .bounded()
    }

    /// Returns how much has been read of a journal that ends at `last`.
    pub fn history(&self, last: u64) -> History {
        History {
            read: self.seq,
            last: last.max(self.seq),
            complete: self.seq >= last,
        }
    }

    fn messages(&self) -> Vec<MessageView> {
        self.messages.iter().cloned().collect()
    }

    /// Returns the costs.
    pub fn cost(&self) -> CostView {
        self.curve.cost(&self.state)
    }

    /// Returns the costs of one task.
    pub fn spent_on(&self, id: &TaskId) -> Spent {
        money::of_task(&self.state.run.spent, id)
    }

    /// Returns the timeline of the team.
    pub fn timeline(&self) -> Timeline {
        Timeline {
            seq: self.seq,
            from: self.first,
            to: self.state.last,
            lanes: lanes(&self.state),
            stages: stage_spans(&self.state.run.history),
            ticks: self.ticks.all(),
        }
    }

    /// Adds what only the journal knows: the run, the gate, costs, times.
    pub(crate) fn complete(&self, view: &mut TeamView) {
        view.history = self.history(view.seq);
        view.run = runs::run(&self.state.run);
        view.approval = runs::approval(&self.state.run);
        view.verifications = runs::verifications(&self.state.run);
        view.merges = runs::merges(&self.state.run);
        view.proposal = collaboration::proposal(&self.state.run);
        view.questions = questions::shown(&self.state.questions);
        view.wakes = collaboration::wakes(&self.state.run);
        view.reviews = collaboration::reviews(&self.state.run);
        view.findings = collaboration::findings(&self.state.run);
        view.choice = collaboration::choice(&self.state.run);
        view.cost = self.cost();
        view.messages = self.messages();
        view.message_count = self.message_count;
        for worker in &mut view.workers {
            if let Some(told) = self.state.workers.get(&worker.name) {
                self.add_told(told, worker);
            }
        }
        for row in &mut view.tasks {
            self.add_times(row);
        }
    }

    pub(crate) fn add_times(&self, row: &mut TaskRow) {
        if let Some(TaskTimes {
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

    /// Returns the members in the order in which they joined, then all other known workers, by name.
    fn workers(&self, tasks: &[Task]) -> Vec<WorkerView> {
        let subjects: HashMap<&TaskId, &str> = tasks
            .iter()
            .map(|task| (task.id(), task.subject()))
            .collect();
        let costs = &self.state.run.spent;
        let others = self.state.workers.iter().filter(|(name, told)| {
            let is_worker = told.is_worker() || costs.reported_by_worker.contains_key(*name);
            is_worker && !self.state.members.contains(name)
        });
        self.state
            .members
            .iter()
            .chain(others.map(|(name, _)| name))
            .filter_map(|name| {
                let told = self.state.workers.get(name)?;
                let (verdict, evidence, evidence_codes) = verdict(told);
                let mut worker = WorkerView {
                    status: Some(told.phase.as_str().to_owned()),
                    verdict,
                    evidence,
                    evidence_codes,
                    current_task_id: told.holds.clone(),
                    current_task: told
                        .holds
                        .as_ref()
                        .and_then(|id| subjects.get(id))
                        .map(|subject| (*subject).to_owned()),
                    provider: told.provider.clone(),
                    last_event_at: told.last_event_at,
                    consecutive_errors: told.failed_in_a_row,
                    ..WorkerView::named(name)
                };
                self.add_told(told, &mut worker);
                worker.since = told.since;
                Some(worker)
            })
            .collect()
    }

    /// Adds what only the journal knows about a worker.
    fn add_told(&self, told: &WorkerState, worker: &mut WorkerView) {
        worker.role.clone_from(&told.role);
        worker.model.clone_from(&told.model);
        worker.since = match (&worker.current_task_id, &told.holds) {
            (Some(now), Some(held)) if now == held => told.since,
            (None, None) => told.since,
            _ => worker.since,
        };
        worker.tasks_completed = told.completed;
        worker.attempts_failed = told.failed;
        worker.spent = money::of_worker(&self.state.run.spent, &worker.name);
        worker.requests = self.state.run.permissions.open.of(&worker.name).to_vec();
        // The bridge only knows that its agent runs.
        let works = worker.current_task_id.is_some() && worker.status.is_some();
        if told.phase == WorkerPhase::Waiting && works {
            worker.status = Some(told.phase.as_str().to_owned());
        }
        worker.asked_to = told.asked_to.map(str::to_owned);
    }

    fn state(&self, workers: &[WorkerView], progress: &Progress) -> Viewed {
        let history = &self.state.run.history;
        if self.state.is_deleted || history.finished.is_some() {
            return Viewed::Ended;
        }
        let is_there = |worker: &WorkerView| {
            matches!(
                worker.status.as_deref(),
                Some(
                    "spawning"
                        | "working"
                        | "waiting for an answer"
                        | "idle"
                        | "paused"
                        | "limited"
                        | "quarantined"
                )
            )
        };
        let left = progress.pending_tasks + progress.in_progress_tasks;
        if runs::is_told(history) || workers.iter().any(is_there) {
            Viewed::Live
        } else if progress.total_tasks > 0 && left == 0 {
            Viewed::Ended
        } else {
            Viewed::Stale
        }
    }
}

/// Returns a lane for each worker, in the order of their names.
fn lanes(state: &TeamState) -> Vec<Lane> {
    let has_lane = |told: &WorkerState| told.is_worker() || told.phase == WorkerPhase::Joined;
    let workers = state.workers.iter().filter(|(_, told)| has_lane(told));
    workers
        .map(|(worker, told)| Lane {
            worker: worker.clone(),
            spans: told.spans.clone(),
            marks: told.marks.clone(),
        })
        .take(MOST_WORKERS)
        .collect()
}

/// Returns the verdict on a worker according to the journal, and its evidence: the sentences, and their message codes.
fn verdict(told: &WorkerState) -> (Verdict, Vec<String>, Vec<PhraseKey>) {
    if let Some((verdict, evidence, codes)) = &told.verdict {
        let mut codes = codes.to_vec();
        if codes.len() != evidence.len() {
            // An older version wrote only the sentences.
            let phrases = evidence.iter().map(|words| Phrase::verbatim(words));
            codes = Phrase::keys(&phrases.collect::<Vec<_>>());
        }
        return (*verdict, evidence.clone(), codes);
    }
    let (verdict, evidence) = verdict_of_phase(told);
    (verdict, Phrase::texts(&evidence), Phrase::keys(&evidence))
}

/// Returns the verdict on a worker without a recorded verdict.
fn verdict_of_phase(told: &WorkerState) -> (Verdict, Vec<Phrase>) {
    let says = |word: &str| vec![Phrase::new(PhraseCode::JournalSays, [("status", &word)])];
    match told.phase {
        WorkerPhase::Unknown => (Verdict::Unknown, says("unknown")),
        WorkerPhase::Joined | WorkerPhase::Left | WorkerPhase::Stopped => {
            (Verdict::Unknown, says(told.phase.as_str()))
        }
        WorkerPhase::Limited => {
            let known = told.limit.as_ref().map(ProviderLimit::phrase);
            let says = known.map_or_else(|| says(told.phase.as_str()), |known| vec![known]);
            (Verdict::Limited, says)
        }
        _ if told.failed_in_a_row >= 2 => (
            Verdict::AtRisk,
            vec![Phrase::new(
                PhraseCode::AttemptsFailed,
                [("count", &told.failed_in_a_row)],
            )],
        ),
        phase => (Verdict::Healthy, says(phase.as_str())),
    }
}

fn problems(workers: &[WorkerView]) -> Vec<TeamProblem> {
    workers
        .iter()
        .filter(|worker| {
            !matches!(
                worker.verdict,
                Verdict::Healthy | Verdict::Limited | Verdict::Unknown
            )
        })
        .map(|worker| {
            let error = format!("{}: {}", worker.verdict, worker.evidence.join(", "));
            TeamProblem::of_worker(&worker.name, error, worker.verdict, &worker.evidence_codes)
        })
        .collect()
}

//! Tasks with their state and the reason for it.

use std::cell::OnceCell;

use serde::Serialize;
use serde_json::{Value, json};
use teamster_store::{Damaged, ReadStore, Result};
use teamster_types::graph::{Blocker, ExplainedState, State, explain_state, explain_states};
use teamster_types::heartbeat::Heartbeat;
use teamster_types::paths::{Reservations, may_overlap};
use teamster_types::phrase::{Phrase, PhraseCode};
use teamster_types::progress::Progress;
use teamster_types::task::{Status, Task};
use teamster_types::transitions::{HEARTBEAT_FRESH, abandoned};
use teamster_types::{TaskId, TeamName};

/// A task with its state.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskView {
    task: Task,
    standing: ExplainedState,
}

impl TaskView {
    /// Returns the task itself.
    pub fn task(&self) -> &Task {
        &self.task
    }

    /// Returns its state.
    pub fn state(&self) -> State {
        self.standing.state
    }

    /// Returns the reason for its state, as text.
    pub fn reason(&self) -> &str {
        &self.standing.reason
    }

    /// Returns its state and the reason for it.
    pub fn explained_state(&self) -> &ExplainedState {
        &self.standing
    }

    /// Returns the task file without the claim's token, with `state` and `reason`.
    pub fn to_json(&self) -> Value {
        let mut object = self.task.public();
        object.insert("state".into(), json!(self.state()));
        object.insert("reason".into(), json!(self.reason()));
        Value::Object(object)
    }
}

/// All tasks of a team.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskListView {
    /// The readable tasks, in number order.
    pub tasks: Vec<TaskView>,
    /// The unreadable task files.
    pub problems: Vec<Damaged>,
    /// The progress of the team.
    pub progress: Progress,
}

/// Returns one task, evaluated against its blockers.
pub fn task(read: &dyn ReadStore, team: &TeamName, id: &TaskId) -> Result<TaskView> {
    Ok(judged(read, team, read.task(team, id)?))
}

/// Returns a task that was just read or changed, evaluated against its blockers.
pub fn judged(read: &dyn ReadStore, team: &TeamName, task: Task) -> TaskView {
    // An unreadable blocker blocks, like a missing one.
    let standing = explain_state(&task, read.now(), |id| {
        Blocker::of(read.task(team, id).ok().as_ref())
    });
    let standing = free_again(read, team, &task, &OnceCell::new()).unwrap_or(standing);
    TaskView { task, standing }
}

/// Returns the state of a task whose worker died: it can be claimed, although its file still says `in_progress`.
fn free_again(
    read: &dyn ReadStore,
    team: &TeamName,
    task: &Task,
    beats: &OnceCell<Vec<Heartbeat>>,
) -> Option<ExplainedState> {
    let claim = task
        .claim()
        .filter(|claim| claim.leased_until <= read.now())?;
    let life = read.process_state(&claim.process());
    let read_beats = || read.heartbeats(team).map(|(beats, _)| beats);
    let beats = beats.get_or_init(|| read_beats().unwrap_or_default());
    let beat = beats.iter().find(|beat| beat.worker_name == claim.worker);
    let fresh = beat.is_some_and(|beat| beat.is_fresh(read.now(), HEARTBEAT_FRESH));
    abandoned(task, life, fresh, read.now())?;
    let because = [
        ("worker", &claim.worker as _),
        ("until", &claim.leased_until as _),
        ("pid", &claim.pid as _),
    ];
    let because = Phrase::new(PhraseCode::FreeAgain, because);
    Some(ExplainedState::new(State::Claimable, &[because]))
}

/// Returns every task of a team.
pub fn list(read: &dyn ReadStore, team: &TeamName) -> Result<TaskListView> {
    let found = read.tasks(team)?;
    let progress = Progress::of(&found.tasks);
    Ok(TaskListView {
        tasks: judge(read, team, found.tasks),
        problems: found.problems,
        progress,
    })
}

/// Evaluates all tasks of a team, each in relation to the others.
pub(crate) fn judge(read: &dyn ReadStore, team: &TeamName, tasks: Vec<Task>) -> Vec<TaskView> {
    let standings = explain_states(&tasks, read.now());
    let beats = OnceCell::new();
    tasks
        .into_iter()
        .zip(standings)
        .map(|(task, standing)| TaskView {
            standing: free_again(read, team, &task, &beats).unwrap_or(standing),
            task,
        })
        .collect()
}

impl TaskListView {
    /// Marks the tasks that cannot be claimed now, because a running task may change the same files.
    pub fn note_reservations(&mut self, rule: Reservations) {
        if rule != Reservations::Enforce {
            return;
        }
        let at_work = self
            .tasks
            .iter()
            .filter(|view| view.task.status() == Status::InProgress)
            .map(|view| (view.task.id().clone(), view.task.paths()))
            .filter(|(_, paths)| !paths.is_empty());
        let at_work: Vec<(TaskId, Vec<String>)> = at_work.collect();
        for view in &mut self.tasks {
            let paths = view.task.paths();
            if view.state() != State::Claimable || paths.is_empty() {
                continue;
            }
            let other = at_work
                .iter()
                .find(|(id, theirs)| id != view.task.id() && may_overlap(&paths, theirs));
            if let Some((other, _)) = other {
                let why = Phrase::new(PhraseCode::FilesReserved, [("task", other)]);
                view.standing = ExplainedState::new(State::Waiting, &[why]);
            }
        }
    }
}

/// Returns whether a worker could claim the task now without naming it.
pub fn is_offered(view: &TaskView) -> bool {
    view.state() == State::Claimable && !view.task().is_internal()
}

impl Serialize for TaskView {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_json().serialize(serializer)
    }
}

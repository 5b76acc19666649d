//! The dependency graph: which tasks may be claimed, which wait for others, and where a cycle would close.

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use crate::failure::LONGEST_BACKOFF;
use crate::phrase::{Phrase, PhraseCode, PhraseKey};
use crate::task::{Status, Task};
use crate::{TaskId, Time};

/// The state of a task, as shown to people and programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// A worker may claim it now.
    Claimable,
    /// It will become claimable by itself: a blocker is unfinished, or a retry delay runs.
    Waiting,
    /// It will not become claimable without help: a blocker failed permanently or does not exist, or its worker waits
    /// for an answer.
    Blocked,
    /// Its owner works on it.
    InProgress,
    /// It is done.
    Completed,
    /// Failed permanently.
    Failed,
}

impl State {
    /// Returns the name used in `--json` output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Claimable => "claimable",
            Self::Waiting => "waiting",
            Self::Blocked => "blocked",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }
}

/// The state of a task, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedState {
    /// The state of the task.
    pub state: State,
    /// The reason, in words.
    pub reason: String,
    /// The codes of the sentences that the reason consists of.
    pub phrases: Vec<PhraseKey>,
}

impl ExplainedState {
    /// Returns a state with the sentences that explain it.
    pub fn new(state: State, because: &[Phrase]) -> Self {
        Self {
            state,
            reason: because.join("; "),
            phrases: Phrase::keys(because),
        }
    }
}

/// The state of a blocker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocker {
    /// It is completed.
    Done,
    /// Failed permanently.
    Failed,
    /// Not completed yet.
    Open,
    /// Completed, but its work is not merged yet.
    Unmerged,
    /// Missing or unreadable: it blocks.
    Missing,
}

impl Blocker {
    /// Returns the state of a task as a blocker of others.
    pub fn of(task: Option<&Task>) -> Self {
        match task {
            None => Self::Missing,
            Some(task) if task.is_failed() => Self::Failed,
            Some(task) if task.status() == Status::Completed && task.is_unmerged() => {
                Self::Unmerged
            }
            Some(task) if task.status() == Status::Completed => Self::Done,
            Some(_) => Self::Open,
        }
    }
}

/// Determines the state of one task; `blocker` returns the state of the tasks it waits for.
pub fn explain_state(
    task: &Task,
    now: Time,
    mut blocker: impl FnMut(&TaskId) -> Blocker,
) -> ExplainedState {
    let one = |state: State, because: Phrase| ExplainedState::new(state, &[because]);
    match task.status() {
        Status::Completed if task.is_failed() => one(
            State::Failed,
            match task.error() {
                Some(error) => Phrase::new(PhraseCode::TaskFailed, [("error", &error)]),
                None => Phrase::new(PhraseCode::TaskFailedUnexplained, []),
            },
        ),
        Status::Completed => one(State::Completed, Phrase::new(PhraseCode::TaskCompleted, [])),
        Status::InProgress => one(State::InProgress, in_progress(task, now)),
        Status::Pending => {
            let blockers: Vec<(Blocker, &TaskId)> = task
                .blocked_by()
                .iter()
                .map(|id| (blocker(id), id))
                .collect();
            let reason: Vec<Phrase> = [
                (Blocker::Failed, PhraseCode::BlockedByFailure),
                (Blocker::Missing, PhraseCode::BlockedByMissing),
                (Blocker::Open, PhraseCode::WaitsFor),
                (Blocker::Unmerged, PhraseCode::WaitsForMerge),
            ]
            .into_iter()
            .filter_map(|(kind, code)| {
                let its = blockers.iter().filter(|(found, _)| *found == kind);
                let ids: Vec<&str> = its.map(|(_, id)| id.as_str()).collect();
                (!ids.is_empty()).then(|| Phrase::new(code, [("tasks", &ids.join(", "))]))
            })
            .collect();
            let is_stuck = blockers
                .iter()
                .any(|(found, _)| matches!(found, Blocker::Failed | Blocker::Missing));
            // No delay exceeds the maximum, even if the clock was set back since.
            let backoff = task
                .not_before()
                .filter(|moment| *moment > now && moment.since(now) <= LONGEST_BACKOFF);
            if let Some(block) = task.block() {
                let asked = [("asker", &block.by as _), ("question", &block.reason as _)];
                one(
                    State::Blocked,
                    Phrase::new(PhraseCode::WaitsForAnswer, asked),
                )
            } else if is_stuck {
                ExplainedState::new(State::Blocked, &reason)
            } else if !reason.is_empty() {
                ExplainedState::new(State::Waiting, &reason)
            } else if let Some(moment) = backoff {
                one(
                    State::Waiting,
                    Phrase::new(PhraseCode::NotAgainUntil, [("until", &moment)]),
                )
            } else if task.is_internal() {
                one(State::Claimable, Phrase::new(PhraseCode::Internal, []))
            } else if let Some(owner) = task.owner() {
                one(
                    State::Claimable,
                    Phrase::new(PhraseCode::AssignedTo, [("owner", &owner)]),
                )
            } else {
                one(State::Claimable, Phrase::new(PhraseCode::Free, []))
            }
        }
    }
}

fn in_progress(task: &Task, now: Time) -> Phrase {
    let owner = task.owner().unwrap_or("nobody");
    let until = |code: PhraseCode, until: Time| {
        Phrase::new(code, [("owner", &owner as _), ("until", &until as _)])
    };
    match task.claim() {
        Some(claim) if claim.leased_until <= now => {
            until(PhraseCode::WorksOnItOverdue, claim.leased_until)
        }
        Some(claim) => until(PhraseCode::WorksOnItUntil, claim.leased_until),
        None => Phrase::new(PhraseCode::WorksOnIt, [("owner", &owner)]),
    }
}

/// Determines the state of every task of a team.
pub fn explain_states(tasks: &[Task], now: Time) -> Vec<ExplainedState> {
    let by_id: HashMap<&TaskId, &Task> = tasks.iter().map(|task| (task.id(), task)).collect();
    tasks
        .iter()
        .map(|task| explain_state(task, now, |id| Blocker::of(by_id.get(id).copied())))
        .collect()
}

/// Returns the cycle that would close if `id` waited for `blockers`, as a path from `id` back to `id`.
///
/// `blocked_by` returns what a task waits for now. Its error ends the search.
pub fn find_cycle<E>(
    id: &TaskId,
    blockers: &[TaskId],
    mut blocked_by: impl FnMut(&TaskId) -> Result<Vec<TaskId>, E>,
) -> Result<Option<Vec<TaskId>>, E> {
    // Each task that was reached, with the task that waits for it.
    let mut reached: HashMap<TaskId, TaskId> = HashMap::new();
    let mut open: Vec<(TaskId, TaskId)> = blockers
        .iter()
        .rev()
        .map(|blocker| (blocker.clone(), id.clone()))
        .collect();
    while let Some((task, waiting)) = open.pop() {
        if task == *id {
            let mut path = vec![task];
            let mut step = waiting;
            while step != *id {
                let before = reached.get(&step).unwrap_or(id).clone();
                path.push(std::mem::replace(&mut step, before));
            }
            path.push(step);
            path.reverse();
            return Ok(Some(path));
        }
        if reached.contains_key(&task) {
            continue;
        }
        reached.insert(task.clone(), waiting);
        let further = blocked_by(&task)?;
        open.extend(further.into_iter().map(|next| (next, task.clone())));
    }
    Ok(None)
}

/// Returns a cycle among the tasks of a plan, as places in it, with the first one repeated at the end. `after[n]` holds
/// the places that the task at place `n` waits for.
pub fn plan_cycle(after: &[&[usize]]) -> Option<Vec<usize>> {
    let mut waiting: Vec<usize> = after.iter().map(|blockers| blockers.len()).collect();
    let mut dependents: Vec<Vec<usize>> = vec![Vec::new(); after.len()];
    for (place, blockers) in after.iter().enumerate() {
        for blocker in *blockers {
            dependents.get_mut(*blocker)?.push(place);
        }
    }
    let mut ready: Vec<usize> = (0..after.len())
        .filter(|place| waiting[*place] == 0)
        .collect();
    while let Some(place) = ready.pop() {
        for dependent in &dependents[place] {
            waiting[*dependent] -= 1;
            if waiting[*dependent] == 0 {
                ready.push(*dependent);
            }
        }
    }
    // Every task still waiting waits for another one: following these edges leads into a cycle.
    let mut path = vec![waiting.iter().position(|count| *count > 0)?];
    loop {
        let last = path[path.len() - 1];
        let next = after[last]
            .iter()
            .copied()
            .find(|blocker| waiting[*blocker] > 0)?;
        if let Some(begin) = path.iter().position(|place| *place == next) {
            path.drain(..begin);
            path.push(next);
            return Some(path);
        }
        path.push(next);
    }
}

/// Returns the longest chain of tasks that are not completed, in the order they must be done.
pub fn critical_path(tasks: &[Task]) -> Vec<TaskId> {
    let open: HashMap<&TaskId, &Task> = tasks
        .iter()
        .filter(|task| task.status() != Status::Completed)
        .map(|task| (task.id(), task))
        .collect();
    let mut waiting: HashMap<&TaskId, usize> = HashMap::new();
    let mut dependents: HashMap<&TaskId, Vec<&TaskId>> = HashMap::new();
    for (id, task) in &open {
        let blockers: HashSet<&TaskId> = task
            .blocked_by()
            .iter()
            .filter(|b| open.contains_key(b))
            .collect();
        waiting.insert(id, blockers.len());
        for blocker in blockers {
            dependents.entry(blocker).or_default().push(id);
        }
    }
    // Longest path in topological order. Tasks in a cycle, which a foreign program may write, never become ready and
    // are left out.
    let mut best: HashMap<&TaskId, (usize, Option<&TaskId>)> = HashMap::new();
    let mut ready: Vec<&TaskId> = waiting
        .iter()
        .filter(|(_, n)| **n == 0)
        .map(|(id, _)| *id)
        .collect();
    ready.sort_unstable_by(|a, b| b.cmp(a));
    while let Some(id) = ready.pop() {
        let length = best.entry(id).or_insert((1, None)).0;
        for dependent in dependents.get(id).into_iter().flatten() {
            let through = (length + 1, Some(id));
            let known = best.entry(dependent).or_insert(through);
            if through.0 > known.0 || (through.0 == known.0 && through.1 < known.1) {
                *known = through;
            }
            if let Some(count) = waiting.get_mut(dependent) {
                *count -= 1;
                if *count == 0 {
                    ready.push(dependent);
                }
            }
        }
    }
    let longest = best
        .iter()
        .filter(|(id, _)| waiting.get(*id) == Some(&0))
        .max_by(|(a, (m, _)), (b, (n, _))| m.cmp(n).then_with(|| b.cmp(a)));
    let mut path: Vec<TaskId> = std::iter::successors(longest.map(|(id, _)| *id), |id| {
        best.get(*id).and_then(|(_, before)| *before)
    })
    .cloned()
    .collect();
    path.reverse();
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::NewTask;
    use proptest::prelude::*;

    fn id(number: u64) -> TaskId {
        TaskId::from_number(number)
    }

    fn task(number: u64, blocked_by: &[u64]) -> Task {
        let new = NewTask {
            subject: format!("task {number}"),
            blocked_by: blocked_by.iter().map(|b| id(*b)).collect(),
            ..NewTask::default()
        };
        Task::new(id(number), &new, Time::from_millis(0))
    }

    fn reasons(tasks: &[Task]) -> Vec<String> {
        explain_states(tasks, Time::from_millis(0))
            .into_iter()
            .map(|s| format!("{}: {}", s.state.as_str(), s.reason))
            .collect()
    }

    #[test]
    fn a_failed_blocker_blocks_visibly_and_an_open_one_waits() {
        let mut failed = task(1, &[]);
        failed.set_status(Status::Completed);
        failed.set_permanently_failed(true);
        let mut done = task(2, &[]);
        done.set_status(Status::Completed);
        let tasks = [
            failed,
            done,
            task(3, &[1]),
            task(4, &[2]),
            task(5, &[4, 2]),
            task(6, &[9, 4]),
        ];
        assert_eq!(
            reasons(&tasks),
            [
                "failed: failed permanently: no reason was recorded",
                "completed: completed",
                "blocked: blocked by failure of 1",
                "claimable: free",
                "waiting: waits for 4",
                "blocked: blocked by the missing task 9; waits for 4",
            ]
        );
    }

    #[test]
    fn a_cycle_is_found_with_its_path() {
        let graph = |asked: &TaskId| -> Result<Vec<TaskId>, ()> {
            Ok(match asked.as_str() {
                "3" => vec![id(2)],
                "2" => vec![id(1)],
                _ => vec![],
            })
        };
        let cycle = find_cycle(&id(1), &[id(3)], graph).unwrap().unwrap();
        assert_eq!(cycle, [id(1), id(3), id(2), id(1)]);
        assert_eq!(find_cycle(&id(4), &[id(3)], graph), Ok(None));
        assert_eq!(
            find_cycle(&id(4), &[id(4)], graph),
            Ok(Some(vec![id(4), id(4)]))
        );
    }

    #[test]
    fn a_plan_is_put_in_order_at_once_however_long_it_is() {
        let chain: Vec<Vec<usize>> = (0..20_000_usize)
            .map(|n| n.checked_sub(1).into_iter().collect())
            .collect();
        let mut after: Vec<&[usize]> = chain.iter().map(Vec::as_slice).collect();
        assert_eq!(plan_cycle(&after), None);
        after[7] = &[9];
        assert_eq!(plan_cycle(&after), Some(vec![7, 9, 8, 7]));
        assert_eq!(plan_cycle(&[&[0]]), Some(vec![0, 0]));
    }

    #[test]
    fn the_critical_path_is_the_longest_open_chain() {
        let tasks = [
            task(1, &[]),
            task(2, &[1]),
            task(3, &[]),
            task(4, &[2, 3]),
            task(5, &[3]),
        ];
        assert_eq!(critical_path(&tasks), [id(1), id(2), id(4)]);
        assert_eq!(critical_path(&[]), []);
        assert_eq!(
            critical_path(&[task(1, &[2]), task(2, &[1])]),
            [],
            "a foreign cycle has no order"
        );
    }

    proptest! {
        /// Edges that are added only where no cycle is found never form one.
        #[test]
        fn no_accepted_edge_closes_a_cycle(edges in prop::collection::vec((0u64..8, 0u64..8), 0..40)) {
            let mut graph: HashMap<TaskId, Vec<TaskId>> = HashMap::new();
            for (from, to) in edges {
                let (from, to) = (id(from), id(to));
                let mut wanted = graph.get(&from).cloned().unwrap_or_default();
                wanted.push(to);
                let cycle = find_cycle::<()>(&from, &wanted, |asked| {
                    Ok(graph.get(asked).cloned().unwrap_or_default())
                }).unwrap();
                if cycle.is_none() {
                    graph.insert(from, wanted);
                }
            }
            let tasks: Vec<Task> = (0..8).map(|n| {
                let blockers: Vec<u64> = graph.get(&id(n)).into_iter().flatten()
                    .map(|b| u64::try_from(b.number()).unwrap()).collect();
                task(n, &blockers)
            }).collect();
            // A topological order exists only without cycles: repeatedly remove the tasks that wait for no open task.
            let mut left: Vec<&Task> = tasks.iter().collect();
            loop {
                let before = left.len();
                let names: HashSet<TaskId> = left.iter().map(|t| t.id().clone()).collect();
                left.retain(|t| t.blocked_by().iter().any(|b| names.contains(b)));
                if left.len() == before { break; }
            }
            prop_assert!(left.is_empty(), "a cycle was accepted: {left:?}");
        }
    }
}

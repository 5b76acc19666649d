//! Predicts which worker takes which task first, when all workers are idle.

use teamster_journal::payload::Member;
use teamster_types::WorkerName;
use teamster_types::paths::{Reservations, may_overlap};
use teamster_types::routing::{RoutingCandidate, rank};

use crate::plan::Plan;

/// What happens to a task at the beginning of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum FirstAssignment {
    /// It is assigned to this worker, who takes it at once.
    Owner(WorkerName),
    /// It goes to this worker, the best idle one, with this score.
    Best(WorkerName, f64),
    /// It waits for other tasks, by their indexes in the plan.
    After(Vec<usize>),
    /// It waits for a task that may change the same files.
    Paths(usize),
    /// It waits until a worker is free: this one, or any.
    Later(Option<WorkerName>),
    /// No worker can ever take it.
    Nobody,
}

impl FirstAssignment {
    /// Returns the worker that takes it at once.
    pub fn worker(&self) -> Option<&WorkerName> {
        match self {
            Self::Owner(worker) | Self::Best(worker, _) => Some(worker),
            _ => None,
        }
    }

    /// Describes it in words, with the labels of the plan.
    pub fn words(&self, labels: &[String]) -> String {
        match self {
            Self::Owner(worker) => format!("{worker}, its owner"),
            Self::Best(worker, score) => format!("{worker}, score {score:.2}"),
            Self::After(places) => {
                let names: Vec<&str> = places.iter().map(|place| labels[*place].as_str()).collect();
                format!("after {}", names.join(", "))
            }
            Self::Paths(place) => format!("after {}, whose paths overlap", labels[*place]),
            Self::Later(Some(worker)) => format!("when {worker} is free"),
            Self::Later(None) => "when a worker is free".to_owned(),
            Self::Nobody => "nobody".to_owned(),
        }
    }
}

/// Lets each worker take one task: tasks with an owner first, then the others, each in the order of the plan.
pub fn first_assignments(
    plan: &Plan,
    members: &[Member],
    reservations: Reservations,
) -> Vec<FirstAssignment> {
    let mut candidates: Vec<RoutingCandidate> = members
        .iter()
        .map(|member| RoutingCandidate {
            name: member.name.clone(),
            capabilities: member.abilities(),
            in_progress: 0,
            idle: true,
            out: None,
        })
        .collect();
    let mut firsts: Vec<FirstAssignment> = vec![FirstAssignment::Nobody; plan.tasks.len()];
    let mut running: Vec<usize> = Vec::new();
    let mut order: Vec<usize> = (0..plan.tasks.len()).collect();
    order.sort_by_key(|place| plan.tasks[*place].task.owner.is_none());
    for place in order {
        let planned = &plan.tasks[place];
        let task = &planned.task;
        let in_the_way = running.iter().copied().find(|other| {
            reservations == Reservations::Enforce
                && may_overlap(&task.paths, &plan.tasks[*other].task.paths)
        });
        let first = match (&planned.after, in_the_way) {
            (after, _) if !after.is_empty() => FirstAssignment::After(after.clone()),
            (_, Some(other)) => FirstAssignment::Paths(other),
            _ => taker(task.owner.as_ref(), &task.capabilities, &candidates),
        };
        if let Some(worker) = first.worker() {
            running.push(place);
            for candidate in candidates.iter_mut().filter(|one| one.name == *worker) {
                candidate.idle = false;
                candidate.in_progress += 1;
            }
        }
        firsts[place] = first;
    }
    firsts
}

fn taker(
    owner: Option<&WorkerName>,
    wanted: &[String],
    candidates: &[RoutingCandidate],
) -> FirstAssignment {
    if let Some(owner) = owner {
        return match candidates.iter().find(|candidate| candidate.name == *owner) {
            None => FirstAssignment::Nobody,
            Some(candidate) if candidate.idle => FirstAssignment::Owner(owner.clone()),
            Some(_) => FirstAssignment::Later(Some(owner.clone())),
        };
    }
    let ranked = rank(wanted, candidates);
    let mut able = ranked.into_iter().filter(|scored| scored.out.is_none());
    let Some(best) = able.next() else {
        return FirstAssignment::Nobody;
    };
    if best.idle {
        return FirstAssignment::Best(best.name, best.score);
    }
    // The best worker is busy, so the best idle one takes the task.
    match able.find(|scored| scored.idle) {
        Some(scored) => FirstAssignment::Best(scored.name, scored.score),
        None => FirstAssignment::Later(None),
    }
}

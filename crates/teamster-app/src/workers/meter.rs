//! What a run's order means for one of its workers: what it is told, and whether it may begin another task.

use std::sync::Arc;

use teamster_journal::cost::Costs;
use teamster_journal::payload::{Addressee, Budget, RunSpec};
use teamster_store::Store;
use teamster_types::{TeamName, WorkerName};
use teamster_workers::bridge::MayBegin;

/// Events that are read at once.
const PAGE: usize = 1_000;

/// What a worker of this team is told before each task; nothing outside of a run.
pub(super) fn told(order: Option<&RunSpec>, worker: &WorkerName) -> String {
    let hand = order.and_then(|order| order.members.iter().find(|hand| hand.name == *worker));
    hand.map_or_else(String::new, |hand| hand.prompt.clone())
}

/// The order of the run that a team was made for.
pub(super) fn order(store: &dyn Store, team: &TeamName) -> Option<RunSpec> {
    let config = store.team(team).ok()?;
    RunSpec::strict(config.run()?).ok()
}

/// Returns who answers questions of a worker: the agent that leads the run, else a person.
pub(super) fn questions_to(order: Option<&RunSpec>) -> Addressee {
    match order {
        Some(order) if order.has_leader() => Addressee::Leader,
        _ => Addressee::Person,
    }
}

/// Says whether there is room in the budget for another task. A run without a budget always has some.
pub(super) fn may_begin(
    order: Option<&RunSpec>,
    store: &Arc<dyn Store>,
    team: &TeamName,
) -> MayBegin {
    let Some(budget) = order.map(|order| order.budget).filter(is_limited) else {
        return Box::new(|| true);
    };
    let mut meter = Meter {
        store: Arc::clone(store),
        team: team.clone(),
        budget,
        costs: Costs::default(),
        seen: 0,
    };
    Box::new(move || meter.has_room())
}

fn is_limited(budget: &Budget) -> bool {
    budget.tokens.is_some() || budget.usd.is_some()
}

/// Follows the journal as far as it is about cost.
struct Meter {
    store: Arc<dyn Store>,
    team: TeamName,
    budget: Budget,
    costs: Costs,
    seen: u64,
}

impl Meter {
    /// What is used, what those who work now have reserved, and what the next task is to be given must fit. When that
    /// cannot be told, nothing is begun.
    fn has_room(&mut self) -> bool {
        loop {
            let Ok(page) = self.store.events(&self.team, self.seen + 1, PAGE) else {
                return false;
            };
            for event in &page.events {
                self.seen = event.seq;
                self.costs.apply(event, &event.payload());
            }
            if page.events.len() < PAGE {
                break;
            }
        }
        let reserved = self.costs.reservation().times(self.costs.running() + 1);
        self.budget.fits(&self.costs.run, reserved)
    }
}

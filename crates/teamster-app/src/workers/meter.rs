//! Decides for a worker of a run whether the budget allows another task.

use std::sync::Arc;

use teamster_journal::cost::Costs;
use teamster_journal::payload::{Addressee, Budget, RunSpec};
use teamster_store::Store;
use teamster_types::TeamName;
use teamster_workers::bridge::AdmissionCheck;

/// The number of events that are read at once.
const PAGE: usize = 1_000;

/// Returns the specification of the run that a team was created for; `None` outside a run.
pub(super) fn run_spec(store: &dyn Store, team: &TeamName) -> Option<RunSpec> {
    let config = store
        .team(team)
        .inspect_err(|error| tracing::warn!("cannot read the specification of the run: {error}"))
        .ok()?;
    RunSpec::strict(config.run()?)
        .inspect_err(|error| tracing::warn!("cannot read the specification of the run: {error}"))
        .ok()
        .filter(|spec| !spec.collects)
}

/// Returns the addressee of a worker's questions: the agent that leads the run, otherwise a person.
pub(super) fn questions_to(spec: Option<&RunSpec>) -> Addressee {
    match spec.and_then(RunSpec::leading_agent) {
        Some(_) => Addressee::Leader,
        None => Addressee::Person,
    }
}

/// Returns whether the budget has room for another task. A run without a budget always has.
pub(super) fn may_begin(
    spec: Option<&RunSpec>,
    store: &Arc<dyn Store>,
    team: &TeamName,
) -> AdmissionCheck {
    let Some(budget) = spec.map(|spec| spec.budget).filter(is_limited) else {
        return Box::new(|| true);
    };
    let mut meter = BudgetMeter {
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

/// Follows the events of the journal that concern costs.
struct BudgetMeter {
    store: Arc<dyn Store>,
    team: TeamName,
    budget: Budget,
    costs: Costs,
    seen: u64,
}

impl BudgetMeter {
    /// Returns whether the costs so far, the reservations of running attempts and that of the next task fit the budget.
    /// When this cannot be determined, no task is started.
    fn has_room(&mut self) -> bool {
        loop {
            let page = match self.store.events(&self.team, self.seen + 1, PAGE) {
                Ok(page) => page,
                Err(error) => {
                    tracing::debug!("cannot tell whether the budget has room: {error}");
                    return false;
                }
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

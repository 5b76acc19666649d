//! An agent that plans.

use std::path::Path;

use teamster_run::desk::Desk;
use teamster_run::host::Plans;
use teamster_run::order::Order;
use teamster_run::plan::Plan;

/// Asks the leader of an order for a plan.
pub struct Leader;

impl Plans for Leader {
    fn plan(
        &mut self,
        _order: &Order,
        _folder: &Path,
        _desk: &mut dyn Desk,
    ) -> Result<Plan, String> {
        Err("no leader yet".to_owned())
    }
}

//! What an agent has used, as the journal tells it.

use teamster_agents::AgentSpending;
use teamster_journal::payload::UsageReported;
use teamster_journal::{EventKind, NewEvent};

/// The event that tells what `actor` has used. What is unknown is `null`, never 0.
pub fn used(actor: &str, provider: &str, model: Option<&str>, spent: &AgentSpending) -> NewEvent {
    NewEvent::new(
        actor,
        EventKind::Usage(UsageReported {
            provider: Some(provider.to_owned()),
            model: model.map(str::to_owned),
            tokens_in: spent.usage.map(|usage| usage.input),
            tokens_out: spent.usage.map(|usage| usage.output),
            cached_in: spent.usage.map(|usage| usage.cached_input),
            cache_write: spent.usage.map(|usage| usage.cache_write),
            reasoning: spent.usage.map(|usage| usage.reasoning),
            usd: spent.cost_usd,
            at_least: spent.at_least,
        }),
    )
}

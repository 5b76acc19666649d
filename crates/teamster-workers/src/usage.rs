//! What an agent has used, as the journal tells it.

use teamster_agents::Spent;
use teamster_journal::NewEvent;

/// The event that tells what `actor` has used. What is unknown is `null`, never 0.
pub fn used(actor: &str, provider: &str, model: Option<&str>, spent: &Spent) -> NewEvent {
    NewEvent::new("usage", actor)
        .with("provider", provider)
        .with("model", model)
        .with("tokensIn", spent.usage.map(|usage| usage.input))
        .with("tokensOut", spent.usage.map(|usage| usage.output))
        .with("cachedIn", spent.usage.map(|usage| usage.cached_input))
        .with("cacheWrite", spent.usage.map(|usage| usage.cache_write))
        .with("reasoning", spent.usage.map(|usage| usage.reasoning))
        .with("usd", spent.cost_usd)
        .with("atLeast", spent.at_least)
}

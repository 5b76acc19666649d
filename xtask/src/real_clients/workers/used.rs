//! What a client itself says that it used, read from what it printed without the help of our drivers.

use anyhow::{Context, Result};
use serde_json::Value;

use super::Client;

/// Tokens and money of one run.
#[derive(Debug, PartialEq)]
pub(super) struct Used {
    /// Everything that was read and written,
    pub(super) tokens: u64,
    /// and the part of it that came from a cache.
    pub(super) cached: u64,
    pub(super) dollars: Option<f64>,
}

/// By the client's last word.
pub(super) fn by_the_client(client: Client, printed: &[Value]) -> Result<Used> {
    let (kind, figures, of_all, cached): (_, _, &[&str], _) = match client {
        Client::Codex => (
            "turn.completed",
            "usage",
            &["input_tokens", "output_tokens"],
            "cached_input_tokens",
        ),
        Client::Gemini => ("result", "stats", &["total_tokens"], "cached"),
        Client::Claude => (
            "result",
            "usage",
            &[
                "input_tokens",
                "cache_read_input_tokens",
                "cache_creation_input_tokens",
                "output_tokens",
            ],
            "cache_read_input_tokens",
        ),
    };
    let last = printed.iter().rfind(|event| event["type"] == kind);
    let last = last.with_context(|| format!("the client printed no {kind}"))?;
    let figures = &last[figures];
    let number = |name: &str| figures[name].as_u64().with_context(|| format!("no {name}"));
    let tokens = of_all.iter().map(|name| number(name));
    Ok(Used {
        tokens: tokens.sum::<Result<u64>>()?,
        cached: number(cached)?,
        dollars: last["total_cost_usd"].as_f64(),
    })
}

/// By our `usage` event.
pub(super) fn by_us(event: &Value) -> Result<Used> {
    let usage = &event["data"];
    let number = |name: &str| usage[name].as_u64().with_context(|| format!("no {name}"));
    Ok(Used {
        tokens: number("tokensIn")?
            + number("cachedIn")?
            + number("cacheWrite")?
            + number("tokensOut")?,
        cached: number("cachedIn")?,
        dollars: usage["usd"].as_f64(),
    })
}

//! What a `usage` event tells. Whoever sums up what a team has cost reads it here, so no two sums differ.

use serde_json::{Map, Value};

/// What a client said that it used. What it did not say is `None`, and never taken for 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Used {
    /// Tokens; `None` when it told none.
    pub tokens: Option<Tokens>,
    /// In US dollars; `None` when it told no price, or one that is none.
    pub usd: Option<f64>,
    /// It was at least that: the client ended before it told its sum.
    pub at_least: bool,
}

/// Tokens by their kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Read by the model and not from a cache.
    pub input: u64,
    /// Read from a cache.
    pub cached_input: u64,
    /// Written to a cache.
    pub cache_write: u64,
    /// Written by the model.
    pub output: u64,
    /// Those of the output that were reasoning.
    pub reasoning: u64,
}

impl Used {
    /// From the data of an event. Figures that are none count as not told.
    pub fn of(data: &Map<String, Value>) -> Self {
        let count = |key: &str| data.get(key).and_then(Value::as_u64);
        let tokens = count("tokensIn").or(count("tokensOut")).map(|_| Tokens {
            input: count("tokensIn").unwrap_or(0),
            cached_input: count("cachedIn").unwrap_or(0),
            cache_write: count("cacheWrite").unwrap_or(0),
            output: count("tokensOut").unwrap_or(0),
            reasoning: count("reasoning").unwrap_or(0),
        });
        let usd = data.get("usd").and_then(Value::as_f64);
        Self {
            tokens,
            usd: usd.filter(|usd| usd.is_finite() && *usd >= 0.0),
            at_least: data.get("atLeast").and_then(Value::as_bool) == Some(true),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(data: &Value) -> Used {
        Used::of(data.as_object().unwrap())
    }

    #[test]
    fn what_was_not_told_is_not_zero() {
        assert_eq!(
            of(&json!({ "tokensIn": null, "usd": null })),
            Used::default()
        );
        let told = of(&json!({ "tokensOut": 7, "usd": 0 }));
        let tokens = Tokens {
            output: 7,
            ..Tokens::default()
        };
        assert_eq!((told.tokens, told.usd), (Some(tokens), Some(0.0)));
    }

    #[test]
    fn figures_that_are_none_were_not_told() {
        let told =
            of(&json!({ "tokensIn": -4, "tokensOut": "many", "usd": -0.5, "atLeast": "yes" }));
        assert_eq!(told, Used::default());
        assert!(of(&json!({ "atLeast": true })).at_least);
    }
}

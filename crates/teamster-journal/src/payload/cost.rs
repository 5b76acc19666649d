//! Payloads about the costs of a run.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use teamster_types::usage::Usage;

/// The payload of `usage`. Values that the client did not report are `null`, and are never counted as 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct UsageReported {
    /// The client.
    pub provider: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// Input tokens that were not read from a cache.
    #[serde(deserialize_with = "count")]
    pub tokens_in: Option<u64>,
    /// Output tokens, including reasoning.
    #[serde(deserialize_with = "count")]
    pub tokens_out: Option<u64>,
    /// Tokens that were read from a cache.
    #[serde(deserialize_with = "count")]
    pub cached_in: Option<u64>,
    /// Tokens that were written to a cache.
    #[serde(deserialize_with = "count")]
    pub cache_write: Option<u64>,
    /// The part of the output that was reasoning.
    #[serde(deserialize_with = "count")]
    pub reasoning: Option<u64>,
    /// The cost in US dollars, as calculated by the client.
    #[serde(deserialize_with = "amount")]
    pub usd: Option<f64>,
    /// Whether the values are lower bounds, because the client ended before it reported its total.
    #[serde(deserialize_with = "flag")]
    pub at_least: bool,
}

impl UsageReported {
    /// Returns the tokens, or `None` when the client reported none.
    pub fn tokens(&self) -> Option<Usage> {
        self.tokens_in.or(self.tokens_out)?;
        Some(Usage {
            input: self.tokens_in.unwrap_or(0),
            cached_input: self.cached_in.unwrap_or(0),
            cache_write: self.cache_write.unwrap_or(0),
            output: self.tokens_out.unwrap_or(0),
            reasoning: self.reasoning.unwrap_or(0),
        })
    }
}

/// Reads a count; an invalid value counts as not reported.
fn count<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    Ok(Value::deserialize(from)?.as_u64())
}

/// Reads an amount of money; an invalid value counts as not reported.
fn amount<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    let usd = Value::deserialize(from)?.as_f64();
    Ok(usd.filter(|usd| usd.is_finite() && *usd >= 0.0))
}

fn flag<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    Ok(Value::deserialize(from)?.as_bool() == Some(true))
}

/// The limits of a run. A missing value means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Budget {
    /// Tokens of all kinds.
    #[serde(deserialize_with = "count")]
    pub tokens: Option<u64>,
    /// US dollars.
    #[serde(deserialize_with = "amount")]
    pub usd: Option<f64>,
    /// Minutes since the run began.
    #[serde(deserialize_with = "amount")]
    pub minutes: Option<f64>,
}

/// What a budget limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Limit {
    /// Tokens of all kinds.
    Tokens,
    /// Money, in US dollars.
    Usd,
    /// Time, in minutes.
    Minutes,
}

impl Limit {
    /// Returns its name in the journal.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::Usd => "usd",
            Self::Minutes => "minutes",
        }
    }
}

/// The payload of `budget.reserved`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BudgetReserved {
    /// Tokens that are reserved for running attempts.
    pub tokens: u64,
}

/// The payload of `budget.exhausted`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BudgetExhausted {
    /// The limit that was reached.
    pub what: Option<Limit>,
    /// The configured limit.
    pub limit: Option<f64>,
    /// How much was used.
    pub used: Option<f64>,
    /// The estimate for one more task, when the remainder was too small for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<f64>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(data: &Value) -> UsageReported {
        UsageReported::deserialize(data).unwrap()
    }

    #[test]
    fn usage_that_was_not_told_is_not_zero() {
        let told = read(&json!({ "tokensIn": null, "usd": null }));
        assert_eq!((told.tokens(), told.usd), (None, None));
        let told = read(&json!({ "tokensOut": 7, "usd": 0 }));
        let tokens = Usage {
            output: 7,
            ..Usage::default()
        };
        assert_eq!((told.tokens(), told.usd), (Some(tokens), Some(0.0)));
    }

    #[test]
    fn usage_with_figures_that_are_none_was_not_told() {
        let told =
            read(&json!({ "tokensIn": -4, "tokensOut": "many", "usd": -0.5, "atLeast": "yes" }));
        assert_eq!(told, UsageReported::default());
        assert!(read(&json!({ "atLeast": true })).at_least);
    }
}

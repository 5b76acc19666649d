//! Token usage of agents.

use serde::{Deserialize, Serialize};

/// Token counts, with the same meaning for every provider: `input`, `cached_input`, `cache_write` and `output` do not
/// overlap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// Input tokens that did not come from a cache.
    pub input: u64,
    /// Input tokens read from a cache.
    pub cached_input: u64,
    /// Input tokens written to a cache.
    pub cache_write: u64,
    /// Output tokens, including reasoning.
    pub output: u64,
    /// The part of `output` that was reasoning.
    pub reasoning: u64,
}

impl Usage {
    /// Returns the sum of all kinds of tokens, which is what a budget counts.
    pub fn total(&self) -> u64 {
        self.input
            .saturating_add(self.cached_input)
            .saturating_add(self.cache_write)
            .saturating_add(self.output)
    }

    /// Returns whether nothing was used.
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.each(other, u64::saturating_add)
    }

    /// Subtracts `other`; no count becomes negative.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        self.each(other, u64::saturating_sub)
    }

    /// Returns the larger count of each kind.
    #[must_use]
    pub fn larger(self, other: Self) -> Self {
        self.each(other, u64::max)
    }

    fn each(self, other: Self, with: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            input: with(self.input, other.input),
            cached_input: with(self.cached_input, other.cached_input),
            cache_write: with(self.cache_write, other.cache_write),
            output: with(self.output, other.output),
            reasoning: with(self.reasoning, other.reasoning),
        }
    }
}

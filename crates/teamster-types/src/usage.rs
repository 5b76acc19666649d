//! Tokens that agents use.

use serde::{Deserialize, Serialize};

/// Tokens, counted the same way for every client: the four kinds do not overlap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// Read by the model and not from a cache.
    pub input: u64,
    /// Read from a cache.
    pub cached_input: u64,
    /// Written to a cache.
    pub cache_write: u64,
    /// Written by the model, its reasoning included.
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

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.each(other, u64::saturating_add)
    }

    /// Subtracts `other`; no figure becomes less than zero.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        self.each(other, u64::saturating_sub)
    }

    /// Returns the larger figure of each kind.
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

//! Routing: decides which worker should get a task, by its capabilities and its load.
//!
//! ```text
//! fitness = (capabilities it has × 1.0 + each one covered only by `general` × 0.5) / required     (none required: 1.0)
//! score   = clamp(fitness − 0.2 × tasks in progress + 0.1 if idle, 0, 1)
//! ```
//!
//! A role is a capability that `general` does not cover: a worker without a required role is excluded.
//!
//! The best score wins; ties go to the worker with fewer tasks in progress, then to the name that sorts first. Excluded
//! workers (dead, quarantined, without any required capability) stay in the list, last and with the reason, so that
//! `teamster task route --explain` can show every worker's score.

use std::cmp::Ordering;
use std::fmt::Write as _;
use std::time::Duration;

use crate::WorkerName;

/// The capability that covers any other by half.
pub const GENERAL: &str = "general";

/// The prefix of the capability that the members of a role have.
const ROLE: &str = "role:";

/// How long a task waits for the best worker; after that, any worker with one of the required capabilities may take it.
pub const LONG_ENOUGH: Duration = Duration::from_secs(10);

const BUSY_COST: f64 = 0.2;
const IDLE_BONUS: f64 = 0.1;

/// The default capabilities of each provider's workers.
const CAPABILITIES: &[(&[&str], &[&str])] = &[
    (
        &["claude", "claude-native"],
        &["code-edit", "testing", GENERAL],
    ),
    (
        &["codex", "mcp-codex"],
        &[
            "code-review",
            "security-review",
            "architecture",
            "refactoring",
        ],
    ),
    (
        &["gemini", "mcp-gemini"],
        &["ui-design", "documentation", "research", "code-edit"],
    ),
    (&["command", "scripted"], &[GENERAL]),
];

/// Returns the default capabilities of a provider's workers; a worker of an unknown provider is a generalist.
///
/// The provider may carry its argument, as in `command:make x` or `scripted:demo.toml`.
pub fn default_capabilities(provider: &str) -> &'static [&'static str] {
    let kind = provider.split_once(':').map_or(provider, |(kind, _)| kind);
    CAPABILITIES
        .iter()
        .find(|(providers, _)| providers.contains(&kind))
        .map_or(&[GENERAL], |(_, capabilities)| capabilities)
}

/// Returns the capability that only the members of a role have.
pub fn role_ability(role: &str) -> String {
    format!("{ROLE}{}", role.trim().to_lowercase())
}

/// Returns the share of the required capabilities that a worker covers, from 0 to 1. It is 0 for a worker without a
/// required role.
pub fn fitness(required: &[String], have: &[String]) -> f64 {
    if required.is_empty() {
        return 1.0;
    }
    let is_missing_role = |wanted: &String| wanted.starts_with(ROLE) && !have.contains(wanted);
    if required.iter().any(is_missing_role) {
        return 0.0;
    }
    let covered: f64 = required.iter().map(|wanted| cover(wanted, have)).sum();
    // A task names a handful of capabilities; the conversion is exact far beyond that.
    covered / f64::from(u32::try_from(required.len()).unwrap_or(u32::MAX))
}

/// Short names of capabilities, and what they stand for.
const ALIASES: &[(&str, &str)] = &[("security", "security-review"), ("docs", "documentation")];

/// Returns the capability that a name stands for: another one, or itself.
fn resolve_alias(word: &str) -> &str {
    let known = ALIASES.iter().find(|(alias, _)| *alias == word);
    known.map_or(word, |(_, capability)| capability)
}

fn cover(wanted: &str, have: &[String]) -> f64 {
    if have
        .iter()
        .any(|capability| resolve_alias(capability) == resolve_alias(wanted))
    {
        1.0
    } else if have.iter().any(|capability| capability == GENERAL) {
        0.5
    } else {
        0.0
    }
}

/// Returns how suitable a worker is for a task, from 0 to 1.
pub fn score(fitness: f64, in_progress: u32, idle: bool) -> f64 {
    unclamped(fitness, in_progress, idle).clamp(0.0, 1.0)
}

fn unclamped(fitness: f64, in_progress: u32, idle: bool) -> f64 {
    let bonus = if idle { IDLE_BONUS } else { 0.0 };
    let sum = fitness - BUSY_COST * f64::from(in_progress) + bonus;
    // Mathematically equal scores must compare equal, or rounding errors would decide a tie.
    (sum * 1e9).round() / 1e9
}

/// A worker that a task could go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutingCandidate {
    /// The name of the worker.
    pub name: WorkerName,
    /// What it can do.
    pub capabilities: Vec<String>,
    /// How many tasks it works on now.
    pub in_progress: u32,
    /// Whether it waits for work.
    pub idle: bool,
    /// Why it is excluded regardless of its capabilities: dead, quarantined.
    pub out: Option<String>,
}

/// A candidate with its score.
#[derive(Clone, Debug, PartialEq)]
pub struct ScoredCandidate {
    /// The name of the worker.
    pub name: WorkerName,
    /// The share of the required capabilities that it covers.
    pub fitness: f64,
    /// How suitable it is for the task.
    pub score: f64,
    /// How many tasks it works on now.
    pub in_progress: u32,
    /// Whether it waits for work.
    pub idle: bool,
    /// Why it is excluded, if it is.
    pub out: Option<String>,
    /// The calculation of the score, for people.
    pub sum: String,
}

impl ScoredCandidate {
    fn new(required: &[String], candidate: &RoutingCandidate) -> Self {
        let fitness = fitness(required, &candidate.capabilities);
        let out = candidate.out.clone().or_else(|| {
            (fitness <= 0.0).then(|| format!("can do none of {}", required.join(", ")))
        });
        Self {
            name: candidate.name.clone(),
            fitness,
            score: score(fitness, candidate.in_progress, candidate.idle),
            in_progress: candidate.in_progress,
            idle: candidate.idle,
            sum: say_sum(required, candidate, fitness, out.as_deref()),
            out,
        }
    }

    /// Compares candidates, best first; a total order as long as names differ.
    fn order(&self, other: &Self) -> Ordering {
        (self.out.is_some().cmp(&other.out.is_some()))
            .then_with(|| other.score.total_cmp(&self.score))
            .then_with(|| self.in_progress.cmp(&other.in_progress))
            .then_with(|| self.name.cmp(&other.name))
    }
}

/// Returns every candidate, best first; excluded ones come last, in the same order among themselves.
pub fn rank(required: &[String], candidates: &[RoutingCandidate]) -> Vec<ScoredCandidate> {
    let mut ranked: Vec<ScoredCandidate> = candidates
        .iter()
        .map(|candidate| ScoredCandidate::new(required, candidate))
        .collect();
    ranked.sort_by(ScoredCandidate::order);
    ranked
}

/// Returns whether a worker that looks for work may take an unowned task that requires `required` and has waited for
/// `waited`.
///
/// It may not while a better idle worker could claim the task, but no task waits for that longer than [`LONG_ENOUGH`].
pub fn may_pull(
    puller: &WorkerName,
    required: &[String],
    candidates: &[RoutingCandidate],
    waited: Duration,
) -> bool {
    let ranked = rank(required, candidates);
    let Some(own) = ranked
        .iter()
        .find(|scored| scored.name == *puller && scored.out.is_none())
    else {
        return false;
    };
    waited >= LONG_ENOUGH
        || !ranked
            .iter()
            .any(|other| other.out.is_none() && other.idle && other.score > own.score)
}

fn say_sum(
    required: &[String],
    candidate: &RoutingCandidate,
    fitness: f64,
    out: Option<&str>,
) -> String {
    let parts: Vec<String> = required
        .iter()
        .map(|wanted| match cover(wanted, &candidate.capabilities) {
            1.0 => format!("{wanted} 1"),
            0.0 => format!("{wanted} 0"),
            half => format!("{wanted} {half} by {GENERAL}"),
        })
        .collect();
    let parts = if parts.is_empty() {
        "nothing required".to_owned()
    } else {
        parts.join(", ")
    };
    let mut sum = format!("fitness {} ({parts})", round(fitness));
    let (busy, idle) = (candidate.in_progress, candidate.idle);
    if busy > 0 {
        let _ = write!(sum, " − {BUSY_COST} × {busy} in progress");
    }
    if idle {
        let _ = write!(sum, " + {IDLE_BONUS} idle");
    }
    let plain = unclamped(fitness, busy, idle);
    let clamped = score(fitness, busy, idle);
    let _ = write!(sum, " = {}", round(plain));
    if !(0.0..=1.0).contains(&plain) {
        let _ = write!(sum, ", capped at {}", round(clamped));
    }
    if let Some(reason) = out {
        let _ = write!(sum, "; out: {reason}");
    }
    sum
}

/// Rounds to two decimals, for display.
fn round(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

#[cfg(test)]
#[path = "routing_tests.rs"]
mod tests;

//! The limits on what a run may cost.

use std::time::Duration;

use teamster_types::phrase::{Phrase, PhraseCode};

use super::{Cost, Money, Reservation, say_usd, with_commas};
use crate::payload::{Budget, BudgetExhausted, Limit};

impl Limit {
    /// Formats an amount of this limit for people.
    pub fn say(self, figure: f64) -> String {
        match self {
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a count of tokens"
            )]
            Self::Tokens => format!("{} tokens", with_commas(figure as u64)),
            Self::Usd => say_usd(figure),
            Self::Minutes => format!("{} min", (figure * 10.0).round() / 10.0),
        }
    }
}

/// A limit that was reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LimitReached {
    /// The limit that was reached.
    pub what: Limit,
    /// The configured limit.
    pub limit: f64,
    /// How much was used.
    pub used: f64,
    /// The estimate for one more task, when the remainder is too small for it; `None` when nothing is left.
    pub next: Option<f64>,
}

impl LimitReached {
    /// Returns the limit that an event describes, or `None` when the event is incomplete.
    pub fn from_event(event: &BudgetExhausted) -> Option<Self> {
        Some(Self {
            what: event.what?,
            limit: event.limit?,
            used: event.used?,
            next: event.next,
        })
    }

    /// Returns the payload for the journal.
    pub fn event(&self) -> BudgetExhausted {
        BudgetExhausted {
            what: Some(self.what),
            limit: Some(self.limit),
            used: Some(self.used),
            next: self.next,
        }
    }

    /// Returns why the run ends, for people: `the budget is used up: 12,000 tokens used of 10,000 tokens`.
    pub fn sentence(&self) -> Phrase {
        let [used, allowed, rest] = self.figures();
        match self.next {
            None => Phrase::new(
                PhraseCode::BudgetExhausted,
                [("used", &used), ("allowed", &allowed)],
            ),
            Some(next) => {
                let each = self.what.say(next);
                let told: [(&str, &dyn std::fmt::Display); 4] = [
                    ("used", &used),
                    ("allowed", &allowed),
                    ("rest", &rest),
                    ("each", &each),
                ];
                Phrase::new(PhraseCode::BudgetHasNoRoom, told)
            }
        }
    }

    /// Returns the amount used, the limit and the remainder, for people.
    fn figures(&self) -> [String; 3] {
        [self.used, self.limit, self.limit - self.used].map(|figure| self.what.say(figure))
    }

    /// Returns the amounts, for people: `12,000 tokens used of 10,000 tokens`.
    pub fn words(&self) -> String {
        let [used, limit, left] = self.figures();
        match self.next {
            None => format!("{used} used of {limit}"),
            Some(next) => format!(
                "{used} used of {limit}; {left} are left, and a task took {} on average",
                self.what.say(next)
            ),
        }
    }
}

#[allow(
    clippy::cast_precision_loss,
    reason = "for people and the journal; limits are compared as they are"
)]
impl Budget {
    /// Returns the first limit that is exhausted by the known costs or by the elapsed time. Unknown costs are not
    /// counted against a run; see [`Budget::blind`].
    pub fn exceeded(&self, spent: &Cost, elapsed: Duration) -> Option<LimitReached> {
        let used = spent.total().unwrap_or(0);
        if let Some(limit) = self.tokens.filter(|limit| used >= *limit) {
            return Some(LimitReached {
                what: Limit::Tokens,
                limit: limit as f64,
                used: used as f64,
                next: None,
            });
        }
        let used = spent.money.unwrap_or_default();
        if let Some(limit) = self.money().filter(|limit| used >= *limit) {
            return Some(LimitReached {
                what: Limit::Usd,
                limit: limit.usd(),
                used: used.usd(),
                next: None,
            });
        }
        self.out_of_minutes(elapsed)
    }

    /// Returns the time limit, if it is exhausted.
    pub fn out_of_minutes(&self, elapsed: Duration) -> Option<LimitReached> {
        let limit = self.minutes?;
        let used = elapsed.as_secs_f64() / 60.0;
        (used >= limit).then_some(LimitReached {
            what: Limit::Minutes,
            limit,
            used,
            next: None,
        })
    }

    /// Returns the limit that leaves no room for the reservation although it is not exhausted yet; `None` when there is
    /// room.
    pub fn short_of(&self, spent: &Cost, reserved: Reservation) -> Option<LimitReached> {
        let tokens = self.tokens.map(|limit| LimitReached {
            what: Limit::Tokens,
            limit: limit as f64,
            used: spent.total().unwrap_or(0) as f64,
            next: Some(reserved.tokens as f64),
        });
        let money = self.money().map(|limit| LimitReached {
            what: Limit::Usd,
            limit: limit.usd(),
            used: spent.money.unwrap_or_default().usd(),
            next: Some(reserved.money.usd()),
        });
        let only = |what: Limit| match what {
            Limit::Tokens => Self { usd: None, ..*self },
            _ => Self {
                tokens: None,
                ..*self
            },
        };
        let mut both = tokens.into_iter().chain(money);
        both.find(|limit| !only(limit.what).fits(spent, reserved))
    }

    /// Returns whether there is room for the reservation, which covers all running tasks and the one that is to start.
    pub fn fits(&self, spent: &Cost, reserved: Reservation) -> bool {
        let tokens = spent.total().unwrap_or(0);
        let money = spent.money.unwrap_or_default();
        let has_room = |used: u64, reserved: u64, limit: u64| {
            used < limit && used.saturating_add(reserved) <= limit
        };
        self.tokens
            .is_none_or(|limit| has_room(tokens, reserved.tokens, limit))
            && self
                .money()
                .is_none_or(|limit| has_room(money.0, reserved.money.0, limit.0))
    }

    /// Returns the limits that cannot be enforced because agents did not report their usage. The user is warned about
    /// them.
    pub fn blind(&self, spent: &Cost) -> Vec<Limit> {
        let mut blind = Vec::new();
        if self.tokens.is_some() && spent.tokens_at_least {
            blind.push(Limit::Tokens);
        }
        if self.usd.is_some() && spent.money_at_least {
            blind.push(Limit::Usd);
        }
        blind
    }

    fn money(&self) -> Option<Money> {
        self.usd.and_then(Money::from_usd)
    }
}

//! What one task would do if everyone asked one after the other.

use teamster_types::failure::ATTEMPTS;

use crate::linear::Model;

/// Proof of a claim: a number for each token, and for each claim whose token nobody heard of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ticket {
    /// A token that was given out.
    Token(usize),
    /// The claim at this place of the history, whose process died.
    Unheard(usize),
}

/// Who asks for the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Claimant {
    /// Which worker.
    pub worker: u8,
    /// Whether its process is gone by the time anybody looks.
    pub ghost: bool,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimCall {
    /// Any task: this one may be it.
    Next(Claimant),
    /// Any task, and it was not this one, though it would have come before what was given.
    PassedBy(Claimant),
    /// Any task, and it was not this one; a lock that a dead client left may have hidden it.
    MayHavePassedBy(Claimant),
    /// This very task.
    ById(Claimant),
    /// A longer lease.
    Renew(Ticket),
    /// It is done.
    Complete(Ticket),
    /// It went wrong.
    Fail(Ticket),
    /// It is given back.
    Release(Ticket),
    /// A person takes it back.
    Force,
    /// It may begin anew.
    Retry,
    /// So much time passes that leases run out and pauses end.
    Pass,
}

/// What is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimAnswer {
    /// The task, under this proof.
    Given(Ticket),
    /// It was done.
    Yes,
    /// Nothing was changed.
    No,
}

/// Who has the task.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Holder {
    /// Nobody; resting after a failure, perhaps.
    Nobody {
        /// Not to be given before some time has passed.
        resting: bool,
    },
    /// A worker.
    Held {
        /// Its proof.
        ticket: Ticket,
        /// Who it is.
        by: Claimant,
        /// Whether the lease ran out.
        expired: bool,
    },
    /// It is done.
    Done(Ticket),
    /// It failed for good.
    Failed,
}

/// A task between two operations.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// Who has it.
    pub holder: Holder,
    /// How often it failed.
    pub failures: u32,
}

impl State {
    fn with(&self, holder: Holder) -> Self {
        Self {
            holder,
            failures: self.failures,
        }
    }

    fn is_held(&self, ticket: Ticket) -> bool {
        matches!(self.holder, Holder::Held { ticket: held, .. } if held == ticket)
    }

    /// Ends the attempt; `resting` when it was its worker who said so.
    fn failed(&self, resting: bool) -> Self {
        let failures = self.failures + 1;
        let holder = if failures >= ATTEMPTS {
            Holder::Failed
        } else {
            Holder::Nobody { resting }
        };
        Self { holder, failures }
    }

    /// Returns what somebody who looks for work makes of it before anything is given: a dead worker loses it.
    fn looked_at(&self, asker: Claimant, by_id: bool) -> Self {
        match &self.holder {
            Holder::Held { by, .. } if by.ghost && by_id && by.worker == asker.worker => {
                self.with(Holder::Nobody { resting: false })
            }
            Holder::Held {
                by, expired: true, ..
            } if by.ghost => self.failed(false),
            _ => self.clone(),
        }
    }

    fn is_free(&self) -> bool {
        self.holder == Holder::Nobody { resting: false }
    }

    fn given(&self, asker: Claimant, ticket: Ticket) -> Self {
        self.with(Holder::Held {
            ticket,
            by: asker,
            expired: false,
        })
    }
}

/// The model of one task.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClaimModel;

impl ClaimModel {
    /// Returns what becomes of the state, and what is answered, where that does not depend on who is lucky.
    fn turn(state: &State, call: &ClaimCall) -> (State, ClaimAnswer) {
        let refused = (state.clone(), ClaimAnswer::No);
        match call {
            ClaimCall::Renew(ticket) => match &state.holder {
                Holder::Held {
                    ticket: held, by, ..
                } if held == ticket => (state.given(*by, *ticket), ClaimAnswer::Yes),
                _ => refused,
            },
            ClaimCall::Complete(ticket) => {
                if state.is_held(*ticket) || state.holder == Holder::Done(*ticket) {
                    (state.with(Holder::Done(*ticket)), ClaimAnswer::Yes)
                } else {
                    refused
                }
            }
            ClaimCall::Fail(ticket) if state.is_held(*ticket) => {
                (state.failed(true), ClaimAnswer::Yes)
            }
            ClaimCall::Release(ticket) if state.is_held(*ticket) => (
                state.with(Holder::Nobody { resting: false }),
                ClaimAnswer::Yes,
            ),
            ClaimCall::Force if matches!(state.holder, Holder::Held { .. }) => (
                state.with(Holder::Nobody { resting: false }),
                ClaimAnswer::Yes,
            ),
            ClaimCall::Retry => match state.holder {
                Holder::Failed | Holder::Nobody { .. } if state.failures > 0 => {
                    let fresh = State {
                        holder: Holder::Nobody { resting: false },
                        failures: 0,
                    };
                    (fresh, ClaimAnswer::Yes)
                }
                _ => refused,
            },
            ClaimCall::Pass => {
                let holder = match &state.holder {
                    Holder::Nobody { .. } => Holder::Nobody { resting: false },
                    Holder::Held { ticket, by, .. } => Holder::Held {
                        ticket: *ticket,
                        by: *by,
                        expired: true,
                    },
                    other => other.clone(),
                };
                (state.with(holder), ClaimAnswer::Yes)
            }
            _ => refused,
        }
    }
}

impl Model for ClaimModel {
    type State = State;
    type Call = (usize, ClaimCall);
    type Answer = ClaimAnswer;

    fn start(&self) -> State {
        State {
            holder: Holder::Nobody { resting: false },
            failures: 0,
        }
    }

    fn step(
        &self,
        state: &State,
        call: &(usize, ClaimCall),
        answer: Option<&ClaimAnswer>,
    ) -> Vec<State> {
        let (place, call) = call;
        match (call, answer) {
            (ClaimCall::Next(asker) | ClaimCall::ById(asker), Some(ClaimAnswer::Given(ticket))) => {
                let looked = state.looked_at(*asker, matches!(call, ClaimCall::ById(_)));
                if looked.is_free() {
                    vec![looked.given(*asker, *ticket)]
                } else {
                    Vec::new()
                }
            }
            // Whoever died may have got it, or may have left it as it found it, or, on its way to another task, may
            // have taken it from the dead.
            (ClaimCall::Next(asker) | ClaimCall::ById(asker), None) => {
                let looked = state.looked_at(*asker, matches!(call, ClaimCall::ById(_)));
                let mut possible = vec![state.clone()];
                if looked.is_free() {
                    possible.push(looked.given(*asker, Ticket::Unheard(*place)));
                } else if matches!(call, ClaimCall::Next(_)) {
                    possible.push(looked);
                }
                possible
            }
            (ClaimCall::ById(asker), Some(_)) => {
                if state.looked_at(*asker, true).is_free() {
                    Vec::new()
                } else {
                    vec![state.clone()]
                }
            }
            (ClaimCall::PassedBy(asker), _) => {
                let looked = state.looked_at(*asker, false);
                if looked.is_free() {
                    Vec::new()
                } else {
                    vec![looked]
                }
            }
            // Whoever met it took it from the dead, if need be; whoever did not left it as it was.
            (ClaimCall::MayHavePassedBy(asker), _) => {
                let looked = state.looked_at(*asker, false);
                let mut possible = vec![state.clone()];
                if !looked.is_free() && looked != *state {
                    possible.push(looked);
                }
                possible
            }
            (_, answer) => {
                let (after, said) = Self::turn(state, call);
                if answer.is_none_or(|answer| *answer == said) {
                    vec![after]
                } else {
                    Vec::new()
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "claims_tests.rs"]
mod tests;

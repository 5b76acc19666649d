//! The sequential model of one task, for the linearizability checker.

use teamster_types::failure::ATTEMPTS;

use crate::linear::Model;

/// The proof of a claim: a number for each token, and for each claim whose token was never received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ticket {
    /// A token that was given out.
    Token(usize),
    /// The claim at this position of the history, whose client died before it got the token.
    Unheard(usize),
}

/// A client that asks for the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Claimant {
    /// The number of the worker.
    pub worker: u8,
    /// Whether its process is gone when others check it.
    pub ghost: bool,
}

/// A call to the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimCall {
    /// Claim any task: this one may be given.
    Next(Claimant),
    /// Claim any task, when another was given although this one precedes it.
    PassedBy(Claimant),
    /// Claim any task, when another was given; the lock of a dead client may have hidden this one.
    MayHavePassedBy(Claimant),
    /// Claim this task by its id.
    ById(Claimant),
    /// Renew the lease.
    Renew(Ticket),
    /// Complete the task.
    Complete(Ticket),
    /// Fail the attempt.
    Fail(Ticket),
    /// Release the task.
    Release(Ticket),
    /// Release the task by force, as a person.
    Force,
    /// Retry a failed task.
    Retry,
    /// Let enough time pass for leases to expire and retry delays to end.
    Pass,
}

/// The answer of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimAnswer {
    /// The task was given, with this proof.
    Given(Ticket),
    /// The call succeeded.
    Yes,
    /// The call was refused and changed nothing.
    No,
}

/// The state of the task's claim.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Holder {
    /// The task is unclaimed.
    Nobody {
        /// Whether it must wait for its retry delay after a failure.
        resting: bool,
    },
    /// A worker holds the claim.
    Held {
        /// The proof of the claim.
        ticket: Ticket,
        /// The holder.
        by: Claimant,
        /// Whether the lease has expired.
        expired: bool,
    },
    /// The task is completed.
    Done(Ticket),
    /// The task failed permanently.
    Failed,
}

/// The state of a task between two operations.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The state of its claim.
    pub holder: Holder,
    /// The number of failures.
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

    /// Ends the attempt as failed; `resting` if its own worker reported the failure.
    fn failed(&self, resting: bool) -> Self {
        let failures = self.failures + 1;
        let holder = if failures >= ATTEMPTS {
            Holder::Failed
        } else {
            Holder::Nobody { resting }
        };
        Self { holder, failures }
    }

    /// Returns the state after a client has looked for work but before anything is given: a dead worker loses the task.
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
    /// Returns the next state and the answer, for calls whose answer is deterministic.
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
            // A client that died may have got the task, may have left it unchanged, or, on its way to another task, may
            // have reclaimed it from a dead worker.
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
            // A client that came across it reclaimed it from a dead worker if necessary; one that did not left it
            // unchanged.
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

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
pub struct Asker {
    /// Which worker.
    pub worker: u8,
    /// Whether its process is gone by the time anybody looks.
    pub ghost: bool,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskCall {
    /// Any task: this one may be it.
    Next(Asker),
    /// Any task, and it was not this one, though it would have come before what was given.
    PassedBy(Asker),
    /// This very task.
    ById(Asker),
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
pub enum Answer {
    /// The task, under this proof.
    Given(Ticket),
    /// It was done as asked.
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
        by: Asker,
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
    fn looked_at(&self, asker: Asker, by_id: bool) -> Self {
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

    fn given(&self, asker: Asker, ticket: Ticket) -> Self {
        self.with(Holder::Held {
            ticket,
            by: asker,
            expired: false,
        })
    }
}

/// The model of one task.
#[derive(Clone, Copy, Debug, Default)]
pub struct TaskModel;

impl TaskModel {
    /// Returns what becomes of the state, and what is answered, where that does not depend on who is lucky.
    fn turn(state: &State, call: &TaskCall) -> (State, Answer) {
        let refused = (state.clone(), Answer::No);
        match call {
            TaskCall::Renew(ticket) => match &state.holder {
                Holder::Held {
                    ticket: held, by, ..
                } if held == ticket => (state.given(*by, *ticket), Answer::Yes),
                _ => refused,
            },
            TaskCall::Complete(ticket) => {
                if state.is_held(*ticket) || state.holder == Holder::Done(*ticket) {
                    (state.with(Holder::Done(*ticket)), Answer::Yes)
                } else {
                    refused
                }
            }
            TaskCall::Fail(ticket) if state.is_held(*ticket) => (state.failed(true), Answer::Yes),
            TaskCall::Release(ticket) if state.is_held(*ticket) => {
                (state.with(Holder::Nobody { resting: false }), Answer::Yes)
            }
            TaskCall::Force if matches!(state.holder, Holder::Held { .. }) => {
                (state.with(Holder::Nobody { resting: false }), Answer::Yes)
            }
            TaskCall::Retry => match state.holder {
                Holder::Failed | Holder::Nobody { .. } if state.failures > 0 => {
                    let fresh = State {
                        holder: Holder::Nobody { resting: false },
                        failures: 0,
                    };
                    (fresh, Answer::Yes)
                }
                _ => refused,
            },
            TaskCall::Pass => {
                let holder = match &state.holder {
                    Holder::Nobody { .. } => Holder::Nobody { resting: false },
                    Holder::Held { ticket, by, .. } => Holder::Held {
                        ticket: *ticket,
                        by: *by,
                        expired: true,
                    },
                    other => other.clone(),
                };
                (state.with(holder), Answer::Yes)
            }
            _ => refused,
        }
    }
}

impl Model for TaskModel {
    type State = State;
    type Call = (usize, TaskCall);
    type Answer = Answer;

    fn start(&self) -> State {
        State {
            holder: Holder::Nobody { resting: false },
            failures: 0,
        }
    }

    fn step(&self, state: &State, call: &(usize, TaskCall), answer: Option<&Answer>) -> Vec<State> {
        let (place, call) = call;
        match (call, answer) {
            (TaskCall::Next(asker) | TaskCall::ById(asker), Some(Answer::Given(ticket))) => {
                let looked = state.looked_at(*asker, matches!(call, TaskCall::ById(_)));
                if looked.is_free() {
                    vec![looked.given(*asker, *ticket)]
                } else {
                    Vec::new()
                }
            }
            // Whoever died may have got it, or may have left it as it found it, or, on its way to another task, may
            // have taken it from the dead.
            (TaskCall::Next(asker) | TaskCall::ById(asker), None) => {
                let looked = state.looked_at(*asker, matches!(call, TaskCall::ById(_)));
                let mut possible = vec![state.clone()];
                if looked.is_free() {
                    possible.push(looked.given(*asker, Ticket::Unheard(*place)));
                } else if matches!(call, TaskCall::Next(_)) {
                    possible.push(looked);
                }
                possible
            }
            (TaskCall::ById(asker), Some(_)) => {
                if state.looked_at(*asker, true).is_free() {
                    Vec::new()
                } else {
                    vec![state.clone()]
                }
            }
            (TaskCall::PassedBy(asker), _) => {
                let looked = state.looked_at(*asker, false);
                if looked.is_free() {
                    Vec::new()
                } else {
                    vec![looked]
                }
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

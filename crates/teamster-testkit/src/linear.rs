//! A linearizability checker for concurrent histories, after Wing and Gong, with Lowe's memoisation.
//!
//! An operation takes effect at one moment between its call and its return. A history is linearizable when those
//! moments can be chosen so that a sequential model, executing the operations in that order, gives every answer that
//! was actually given. An operation without a return (its process died) may take effect at any time after its call, or
//! never.

use std::collections::HashSet;
use std::hash::Hash;

/// A sequential specification.
pub trait Model {
    /// The state between two operations.
    type State: Clone + Eq + Hash;
    /// A call.
    type Call;
    /// An answer.
    type Answer;

    /// Returns the initial state.
    fn start(&self) -> Self::State;

    /// Returns every state in which the call could have ended with this answer, or with any answer if it is unknown.
    fn step(
        &self,
        state: &Self::State,
        call: &Self::Call,
        answer: Option<&Self::Answer>,
    ) -> Vec<Self::State>;
}

/// One operation of a history.
#[derive(Clone, Debug)]
pub struct Operation<C, A> {
    /// When it was called, on a clock that all clients share.
    pub called: u64,
    /// When it returned; `None` when its process died before.
    pub returned: Option<u64>,
    /// The call.
    pub call: C,
    /// The answer, if known.
    pub answer: Option<A>,
}

/// Why a history is not linearizable: how far the search got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotLinearizable {
    /// The longest order that the model accepts, as positions in the history.
    pub order: Vec<usize>,
    /// The operations that would have to come next, none of which the model accepts.
    pub next: Vec<usize>,
}

/// A set of small numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct IndexSet(Vec<u64>);

impl IndexSet {
    fn new(count: usize) -> Self {
        Self(vec![0; count.div_ceil(64)])
    }

    fn has(&self, place: usize) -> bool {
        self.0[place / 64] & (1 << (place % 64)) != 0
    }

    fn set(&mut self, place: usize, done: bool) {
        let bit = 1 << (place % 64);
        if done {
            self.0[place / 64] |= bit;
        } else {
            self.0[place / 64] &= !bit;
        }
    }
}

/// One level of the search: an operation that was chosen, and the states it may have led to.
struct SearchLevel<S> {
    /// The operations that could come next here and were not tried yet.
    candidates: Vec<usize>,
    /// The operation that is being tried, with the possible next states that were not tried yet.
    trying: Option<(usize, Vec<S>)>,
    state: S,
}

/// Finds a valid order, or returns how far one gets.
pub fn check<M: Model>(
    model: &M,
    history: &[Operation<M::Call, M::Answer>],
) -> Result<Vec<usize>, NotLinearizable> {
    let mut done = IndexSet::new(history.len());
    let mut order: Vec<usize> = Vec::new();
    let mut longest = NotLinearizable {
        order: Vec::new(),
        next: next(history, &done),
    };
    let mut tried: HashSet<(IndexSet, M::State)> = HashSet::new();
    let state = model.start();
    if is_over(history, &done) {
        return Ok(order);
    }
    let mut levels = vec![SearchLevel {
        candidates: next(history, &done),
        trying: None,
        state,
    }];
    while let Some(level) = levels.last_mut() {
        let Some((place, states)) = &mut level.trying else {
            let Some(place) = level.candidates.pop() else {
                levels.pop();
                if let Some(place) = order.pop() {
                    done.set(place, false);
                }
                continue;
            };
            let operation = &history[place];
            let states = model.step(&level.state, &operation.call, operation.answer.as_ref());
            level.trying = Some((place, states));
            continue;
        };
        let place = *place;
        let Some(state) = states.pop() else {
            level.trying = None;
            continue;
        };
        done.set(place, true);
        if !tried.insert((done.clone(), state.clone())) {
            done.set(place, false);
            continue;
        }
        order.push(place);
        let candidates = next(history, &done);
        if order.len() > longest.order.len() {
            longest = NotLinearizable {
                order: order.clone(),
                next: candidates.clone(),
            };
        }
        if is_over(history, &done) {
            return Ok(order);
        }
        levels.push(SearchLevel {
            candidates,
            trying: None,
            state,
        });
    }
    Err(longest)
}

/// Returns whether every answered operation has taken effect. Unanswered ones need not have.
fn is_over<C, A>(history: &[Operation<C, A>], done: &IndexSet) -> bool {
    let mut all = history.iter().enumerate();
    all.all(|(place, operation)| operation.returned.is_none() || done.has(place))
}

/// Returns the operations that may take effect next: those called before any other open operation returned.
fn next<C, A>(history: &[Operation<C, A>], done: &IndexSet) -> Vec<usize> {
    let open = || {
        let all = history.iter().enumerate();
        all.filter(|(place, _)| !done.has(*place))
    };
    let first_return = open()
        .filter_map(|(_, operation)| operation.returned)
        .min()
        .unwrap_or(u64::MAX);
    // The last candidate is tried first; unanswered operations are the last resort.
    let (unheard, mut heard): (Vec<_>, Vec<_>) = open()
        .filter(|(_, operation)| operation.called < first_return)
        .partition(|(_, operation)| operation.returned.is_none());
    heard.sort_by_key(|(_, operation)| std::cmp::Reverse(operation.returned));
    let places = unheard.into_iter().chain(heard);
    places.map(|(place, _)| place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A register: one number that can be written and read.
    struct Register;

    #[derive(Clone, Copy, Debug)]
    enum Use {
        Write(u32),
        Read,
    }

    impl Model for Register {
        type State = u32;
        type Call = Use;
        type Answer = u32;

        fn start(&self) -> u32 {
            0
        }

        fn step(&self, state: &u32, call: &Use, answer: Option<&u32>) -> Vec<u32> {
            match (call, answer) {
                (Use::Write(number), _) => vec![*number],
                (Use::Read, Some(seen)) if seen != state => Vec::new(),
                (Use::Read, _) => vec![*state],
            }
        }
    }

    fn operation(
        called: u64,
        returned: Option<u64>,
        call: Use,
        answer: Option<u32>,
    ) -> Operation<Use, u32> {
        Operation {
            called,
            returned,
            call,
            answer,
        }
    }

    #[test]
    fn a_read_sees_the_last_write_before_it_or_one_beside_it() {
        let write =
            |called, returned, number| operation(called, Some(returned), Use::Write(number), None);
        let read =
            |called, returned, seen| operation(called, Some(returned), Use::Read, Some(seen));
        assert!(check(&Register, &[]).is_ok());
        assert!(check(&Register, &[write(0, 1, 7), read(2, 3, 7)]).is_ok());
        assert!(check(&Register, &[write(0, 1, 7), read(2, 3, 0)]).is_err());
        let beside = [write(0, 5, 7), read(1, 2, 0), read(3, 4, 7)];
        assert_eq!(check(&Register, &beside), Ok(vec![1, 0, 2]));
        let back = [write(0, 5, 7), read(1, 2, 7), read(3, 4, 0)];
        assert!(check(&Register, &back).is_err(), "time does not go back");
    }

    #[test]
    fn who_died_may_have_written_or_not_but_not_both() {
        let died = operation(0, None, Use::Write(7), None);
        let read = |called, seen| operation(called, Some(called + 1), Use::Read, Some(seen));
        assert!(check(&Register, std::slice::from_ref(&died)).is_ok());
        assert!(check(&Register, &[died.clone(), read(2, 0), read(4, 0)]).is_ok());
        assert!(check(&Register, &[died.clone(), read(2, 0), read(4, 7)]).is_ok());
        let flickers = [died, read(2, 7), read(4, 0)];
        assert!(check(&Register, &flickers).is_err());
    }

    #[test]
    fn what_cannot_be_is_told_with_how_far_one_gets() {
        let history = [
            operation(0, Some(1), Use::Write(1), None),
            operation(2, Some(3), Use::Read, Some(1)),
            operation(4, Some(5), Use::Read, Some(2)),
        ];
        let stuck = check(&Register, &history).unwrap_err();
        assert_eq!(stuck.order, [0, 1]);
        assert_eq!(stuck.next, [2]);
    }

    #[test]
    fn many_that_overlap_are_judged_in_reasonable_time() {
        // Fourteen concurrent writers, then a read of a value that none of them wrote: 14! orders, but only 2^14 sets.
        let mut history: Vec<_> = (0..14)
            .map(|number| operation(number, Some(100 + number), Use::Write(1), None))
            .collect();
        history.push(operation(200, Some(201), Use::Read, Some(2)));
        assert!(check(&Register, &history).is_err());
    }
}

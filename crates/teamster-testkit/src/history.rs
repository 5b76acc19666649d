//! The recorded history of clients, and its parts by task.

use std::collections::HashMap;
use std::fmt::Write as _;

use crate::claims::{ClaimAnswer, ClaimCall, ClaimModel, Claimant, Ticket};
use crate::linear::{Operation, check};

/// A client's call to the store. Tasks are counted from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreCall {
    /// Claim the next task.
    Next(Claimant),
    /// Claim a specific task.
    ById(Claimant, usize),
    /// Renew the lease.
    Renew(usize, String),
    /// Complete the task.
    Complete(usize, String),
    /// Fail the attempt.
    Fail(usize, String),
    /// Release the task.
    Release(usize, String),
    /// Release the task by force, as a person.
    Force(usize),
    /// Retry a failed task.
    Retry(usize),
    /// Advance the clock for all clients.
    Pass,
}

/// The reply of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreReply {
    /// This task was given, with this token.
    Given(usize, String),
    /// There was no task to claim.
    Nothing,
    /// The call succeeded.
    Yes,
    /// The call was refused and changed nothing.
    No,
}

/// One operation of one client.
#[derive(Clone, Debug)]
pub struct HistoryEntry {
    /// The number of the client.
    pub client: usize,
    /// When it was called, on a clock that all share.
    pub called: u64,
    /// When it returned; `None` when the client died.
    pub returned: Option<u64>,
    /// The call.
    pub asked: StoreCall,
    /// The reply.
    pub said: Option<StoreReply>,
}

/// The history of several clients and tasks.
#[derive(Clone, Debug, Default)]
pub struct ClaimHistory {
    /// How many tasks there were.
    pub tasks: usize,
    /// The operations, in any order.
    pub entries: Vec<HistoryEntry>,
    /// Whether a client that looked for the next task must have got any claimable one. The lock of a dead client may
    /// hide a task for a while.
    pub nothing_hidden: bool,
}

type TaskOperations = Vec<Operation<(usize, ClaimCall), ClaimAnswer>>;

impl ClaimHistory {
    /// Checks that the operations on each task, taken by itself, are linearizable; otherwise returns what is not.
    pub fn judge(&self) -> Result<(), String> {
        for task in 0..self.tasks {
            let part = self.part(task);
            if let Err(stuck) = check(&ClaimModel, &part) {
                let mut told = format!("task {task} is not linearizable; one gets as far as\n");
                for place in &stuck.order {
                    let _ = writeln!(told, "  {}", self.line(part[*place].call.0));
                }
                told.push_str("and then none of these can come next:\n");
                for place in &stuck.next {
                    let _ = writeln!(told, "  {}", self.line(part[*place].call.0));
                }
                return Err(told);
            }
        }
        Ok(())
    }

    fn line(&self, place: usize) -> String {
        let entry = &self.entries[place];
        let returned = entry
            .returned
            .map_or("died".to_owned(), |returned| returned.to_string());
        format!(
            "client {} [{}, {returned}] {:?} -> {:?}",
            entry.client, entry.called, entry.asked, entry.said
        )
    }

    /// Returns the part of the history that concerns one task.
    fn part(&self, task: usize) -> TaskOperations {
        let tokens = self.tokens();
        let entries = self.entries.iter().enumerate();
        entries
            .filter_map(|(place, entry)| {
                let (call, answer) = self.of_task(entry, task, &tokens)?;
                Some(Operation {
                    called: entry.called,
                    returned: entry.returned,
                    call: (place, call),
                    answer,
                })
            })
            .collect()
    }

    fn tokens(&self) -> HashMap<&str, usize> {
        let mut tokens = HashMap::new();
        for entry in &self.entries {
            if let Some(StoreReply::Given(_, token)) = &entry.said {
                let number = tokens.len();
                tokens.entry(token.as_str()).or_insert(number);
            }
        }
        tokens
    }

    fn of_task(
        &self,
        entry: &HistoryEntry,
        task: usize,
        tokens: &HashMap<&str, usize>,
    ) -> Option<(ClaimCall, Option<ClaimAnswer>)> {
        // A token that was never given out proves nothing.
        let ticket = |token: &String| {
            let known = tokens.get(token.as_str()).copied();
            Ticket::Token(known.unwrap_or(usize::MAX))
        };
        let answer = match &entry.said {
            None => None,
            Some(StoreReply::Given(_, token)) => Some(ClaimAnswer::Given(ticket(token))),
            Some(StoreReply::Yes) => Some(ClaimAnswer::Yes),
            Some(StoreReply::No | StoreReply::Nothing) => Some(ClaimAnswer::No),
        };
        let mine = |number: &usize, call: ClaimCall| (*number == task).then_some((call, answer));
        match &entry.asked {
            StoreCall::Next(asker) => match &entry.said {
                None => Some((ClaimCall::Next(*asker), None)),
                Some(StoreReply::Given(given, _)) if *given == task => {
                    Some((ClaimCall::Next(*asker), answer))
                }
                Some(StoreReply::Given(given, _)) if *given < task => None,
                Some(_) if self.nothing_hidden => Some((ClaimCall::PassedBy(*asker), answer)),
                Some(_) => Some((ClaimCall::MayHavePassedBy(*asker), answer)),
            },
            StoreCall::ById(asker, number) => mine(number, ClaimCall::ById(*asker)),
            StoreCall::Renew(number, token) => mine(number, ClaimCall::Renew(ticket(token))),
            StoreCall::Complete(number, token) => mine(number, ClaimCall::Complete(ticket(token))),
            StoreCall::Fail(number, token) => mine(number, ClaimCall::Fail(ticket(token))),
            StoreCall::Release(number, token) => mine(number, ClaimCall::Release(ticket(token))),
            StoreCall::Force(number) => mine(number, ClaimCall::Force),
            StoreCall::Retry(number) => mine(number, ClaimCall::Retry),
            StoreCall::Pass => Some((ClaimCall::Pass, Some(ClaimAnswer::Yes))),
        }
    }
}

#[cfg(test)]
mod tests {
    use teamster_types::failure::ATTEMPTS;

    use super::*;

    fn entry(client: usize, called: u64, asked: StoreCall, said: StoreReply) -> HistoryEntry {
        HistoryEntry {
            client,
            called,
            returned: Some(called + 1),
            asked,
            said: Some(said),
        }
    }

    fn ada() -> Claimant {
        Claimant {
            worker: 0,
            ghost: false,
        }
    }

    #[test]
    fn the_next_task_is_the_lowest_that_is_free() {
        let history = |given: [usize; 2], nothing_hidden: bool| ClaimHistory {
            tasks: 2,
            nothing_hidden,
            entries: given
                .iter()
                .enumerate()
                .map(|(place, task)| {
                    let said = StoreReply::Given(*task, format!("token {place}"));
                    entry(place, place as u64 * 2, StoreCall::Next(ada()), said)
                })
                .collect(),
        };
        assert_eq!(history([0, 1], true).judge(), Ok(()));
        assert!(history([1, 0], true).judge().is_err());
        assert_eq!(
            history([1, 0], false).judge(),
            Ok(()),
            "0 may have been hidden"
        );
        assert!(
            history([0, 0], false).judge().is_err(),
            "but not given twice"
        );
    }

    #[test]
    fn last_attempt_of_a_dead_worker_ends_when_somebody_looks_for_other_work() {
        let ghost = Claimant {
            worker: 1,
            ghost: true,
        };
        let mut said: Vec<(StoreCall, StoreReply)> = Vec::new();
        for attempt in 0..ATTEMPTS {
            let token = format!("token {attempt}");
            said.push((StoreCall::Next(ghost), StoreReply::Given(0, token.clone())));
            if attempt + 1 < ATTEMPTS {
                said.push((StoreCall::Fail(0, token), StoreReply::Yes));
            }
            said.push((StoreCall::Pass, StoreReply::Yes));
        }
        let judged = |with_a_look: bool| {
            let other = StoreReply::Given(1, "another".to_owned());
            let look = with_a_look.then_some((StoreCall::Next(ada()), other));
            let last = (StoreCall::Retry(0), StoreReply::Yes);
            let all = said.iter().cloned().chain(look).chain([last]);
            let entries = (0..).zip(all);
            let history = ClaimHistory {
                tasks: 2,
                nothing_hidden: false,
                entries: entries
                    .map(|(place, (asked, said))| entry(0, place * 2, asked, said))
                    .collect(),
            };
            history.judge()
        };
        assert_eq!(judged(true), Ok(()));
        assert!(
            judged(false).is_err(),
            "nobody looked, so it has not failed"
        );
    }

    #[test]
    fn what_is_wrong_is_told_with_client_and_time() {
        let history = ClaimHistory {
            tasks: 1,
            nothing_hidden: true,
            entries: vec![
                entry(
                    4,
                    0,
                    StoreCall::Next(ada()),
                    StoreReply::Given(0, "a".to_owned()),
                ),
                entry(
                    5,
                    2,
                    StoreCall::Renew(0, "made up".to_owned()),
                    StoreReply::Yes,
                ),
            ],
        };
        let told = history.judge().unwrap_err();
        assert!(told.contains("client 4 [0, 1] Next"), "{told}");
        assert!(told.contains("client 5 [2, 3] Renew"), "{told}");
    }
}

//! A blocked task: its worker needs an answer, and the task cannot be claimed until it gets one.

use serde::{Deserialize, Serialize};

use super::{Refusal, clear_owner, count_write, held_claim};
use crate::task::{Status, Task, Token};
use crate::text::clip;
use crate::{Time, WorkerName};

/// The maximum number of answers that a task keeps. The oldest ones are dropped first.
const MOST_ANSWERS: usize = 20;
/// The longest reason or answer that a task keeps, in characters.
pub const WORDS_LIMIT: usize = 4_000;

/// Why a task waits for an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// What the worker needs to know or to have, in its own words.
    pub reason: String,
    /// The worker that could not go on.
    pub by: WorkerName,
    /// When the task was blocked.
    pub at: Time,
}

/// The answer to the worker of a blocked task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockAnswer {
    /// The worker's reason.
    pub reason: String,
    /// The answer.
    pub answer: String,
    /// The name of the answerer.
    pub by: String,
    /// When the answer came.
    pub at: Time,
}

/// Puts a claimed task back because its worker needs an answer. No attempt is counted.
pub fn block(task: &mut Task, token: &Token, reason: &str, now: Time) -> Result<Block, Refusal> {
    let reason = reason.trim();
    if reason.is_empty() {
        return Err(Refusal::Empty("reason"));
    }
    let claim = held_claim(task, token, "blocked")?;
    let block = Block {
        reason: clip(reason, WORDS_LIMIT),
        by: claim.worker,
        at: now,
    };
    task.set_status(Status::Pending);
    clear_owner(task);
    task.remove_claim();
    task.set_block(Some(&block));
    count_write(task);
    Ok(block)
}

/// Unblocks a task with an answer, which the next attempt gets.
pub fn answer_block(task: &mut Task, by: &str, answer: &str, now: Time) -> Result<(), Refusal> {
    let answer = answer.trim();
    if answer.is_empty() {
        return Err(Refusal::Empty("answer"));
    }
    let Some(block) = task.block() else {
        return Err(Refusal::IllegalStep {
            id: task.id().clone(),
            state: format!(
                "{} and waits for no answer",
                task.status().as_str().replace('_', " ")
            ),
            step: "unblocked",
        });
    };
    let mut answers = task.block_answers();
    answers.push(BlockAnswer {
        reason: block.reason,
        answer: clip(answer, WORDS_LIMIT),
        by: by.to_owned(),
        at: now,
    });
    if answers.len() > MOST_ANSWERS {
        answers.drain(..answers.len() - MOST_ANSWERS);
    }
    task.set_block(None);
    task.set_block_answers(&answers);
    count_write(task);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::TaskId;
    use crate::graph::{Blocker, State, explain_state};
    use crate::process::ProcessId;
    use crate::task::NewTask;
    use crate::transitions::{check_claimable, claim, give_up};

    fn now() -> Time {
        Time::from_millis(1_000)
    }

    fn worker() -> WorkerName {
        "ann".parse().unwrap()
    }

    fn claimed() -> (Task, Token) {
        let new = NewTask {
            subject: "Fix the form".to_owned(),
            ..NewTask::default()
        };
        let mut task = Task::new(TaskId::from_number(1), &new, now());
        let token = Token::new("secret");
        let process = ProcessId {
            pid: 1,
            process_start_time: 1,
            boot_id: String::new(),
            pid_ns: String::new(),
            host: String::new(),
        };
        let proof = (token.clone(), "nonce".to_owned());
        claim(
            &mut task,
            &worker(),
            proof,
            process,
            now(),
            Duration::from_secs(60),
        );
        (task, token)
    }

    fn is_claimable(task: &Task) -> bool {
        check_claimable(task, &worker(), now(), |_| Blocker::Done).is_ok()
    }

    #[test]
    fn blocked_task_is_claimed_by_nobody_until_somebody_answers() {
        let (mut task, token) = claimed();
        block(&mut task, &token, " Which database? ", now()).unwrap();
        assert_eq!(task.status(), Status::Pending);
        assert_eq!(task.failed_attempts(), 0);
        let standing = explain_state(&task, now(), |_| Blocker::Done);
        assert_eq!(standing.state, State::Blocked);
        assert_eq!(
            standing.reason,
            "waits for an answer to ann: Which database?"
        );
        assert!(!is_claimable(&task));
        answer_block(&mut task, "user", "PostgreSQL", now()).unwrap();
        assert!(is_claimable(&task));
        let answers = task.block_answers();
        assert_eq!(answers.len(), 1);
        assert_eq!(answers[0].reason, "Which database?");
        assert_eq!(answers[0].answer, "PostgreSQL");
        assert_eq!(answers[0].by, "user");
    }

    #[test]
    fn block_needs_the_claim_and_a_reason_and_an_answer_needs_a_block() {
        let (mut task, token) = claimed();
        let stale = Token::new("other");
        assert!(block(&mut task, &stale, "why", now()).is_err());
        assert!(block(&mut task, &token, " ", now()).is_err());
        assert!(answer_block(&mut task, "user", "yes", now()).is_err());
        block(&mut task, &token, "why", now()).unwrap();
        assert!(answer_block(&mut task, "user", "", now()).is_err());
        answer_block(&mut task, "user", "yes", now()).unwrap();
        let second = answer_block(&mut task, "user", "no", now()).unwrap_err();
        assert_eq!(
            second.to_string(),
            "task 1 is pending and waits for no answer, so it cannot be unblocked"
        );
    }

    #[test]
    fn blocked_task_can_be_given_up() {
        let (mut task, token) = claimed();
        block(&mut task, &token, "why", now()).unwrap();
        give_up(&mut task, None, "blocked: why", now()).unwrap();
        assert!(task.is_failed());
        assert!(task.block().is_none());
    }

    #[test]
    fn only_the_latest_answers_are_kept() {
        let (mut task, _) = claimed();
        task.set_status(Status::Pending);
        for number in 0..30 {
            let by = worker();
            let reason = "x".repeat(5_000);
            let at = now();
            task.set_block(Some(&Block { reason, by, at }));
            answer_block(&mut task, "user", &format!("answer {number}"), now()).unwrap();
        }
        let answers = task.block_answers();
        assert_eq!(answers.len(), MOST_ANSWERS);
        assert_eq!(answers[0].answer, "answer 10");
    }
}

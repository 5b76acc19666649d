use super::*;
use crate::linear::{Operation, check};

const ADA: Asker = Asker {
    worker: 0,
    ghost: false,
};
const BOB: Asker = Asker {
    worker: 1,
    ghost: false,
};
const GHOST: Asker = Asker {
    worker: 2,
    ghost: true,
};

type Done = Operation<(usize, TaskCall), Answer>;

/// Operations one after the other.
fn in_turn(operations: &[(TaskCall, Answer)]) -> Vec<Done> {
    let numbered = operations.iter().enumerate();
    numbered
        .map(|(place, (call, answer))| at(place, place as u64 * 2, 1, call.clone(), *answer))
        .collect()
}

fn at(place: usize, called: u64, length: u64, call: TaskCall, answer: Answer) -> Done {
    Operation {
        called,
        returned: Some(called + length),
        call: (place, call),
        answer: Some(answer),
    }
}

fn died(place: usize, called: u64, call: TaskCall) -> Done {
    Operation {
        called,
        returned: None,
        call: (place, call),
        answer: None,
    }
}

fn token(number: usize) -> Ticket {
    Ticket::Token(number)
}

fn given(number: usize) -> Answer {
    Answer::Given(token(number))
}

fn is_good(history: &[Done]) -> bool {
    check(&TaskModel, history).is_ok()
}

#[test]
fn a_task_that_is_given_twice_is_noticed() {
    let twice = in_turn(&[(TaskCall::Next(ADA), given(1)), (TaskCall::ById(BOB), given(2))]);
    assert!(!is_good(&twice));
    let at_once = [
        at(0, 0, 9, TaskCall::Next(ADA), given(1)),
        at(1, 1, 9, TaskCall::Next(BOB), given(2)),
    ];
    assert!(!is_good(&at_once), "not even at the same time");
    let fairly = in_turn(&[
        (TaskCall::Next(ADA), given(1)),
        (TaskCall::ById(BOB), Answer::No),
        (TaskCall::Release(token(1)), Answer::Yes),
        (TaskCall::ById(BOB), given(2)),
    ]);
    assert!(is_good(&fairly));
}

#[test]
fn a_completion_that_is_lost_is_noticed() {
    let lost = in_turn(&[
        (TaskCall::Next(ADA), given(1)),
        (TaskCall::Complete(token(1)), Answer::Yes),
        (TaskCall::Next(BOB), given(2)),
    ]);
    assert!(!is_good(&lost));
    let forgotten = in_turn(&[
        (TaskCall::Next(ADA), given(1)),
        (TaskCall::Complete(token(1)), Answer::Yes),
        (TaskCall::Complete(token(1)), Answer::No),
    ]);
    assert!(!is_good(&forgotten), "the same token completes it again");
    let refused = in_turn(&[
        (TaskCall::Next(ADA), given(1)),
        (TaskCall::Complete(token(1)), Answer::No),
    ]);
    assert!(!is_good(&refused), "its holder must be able to complete it");
}

#[test]
fn an_old_token_that_is_believed_is_noticed() {
    let finishes = [TaskCall::Complete, TaskCall::Renew, TaskCall::Fail, TaskCall::Release];
    for finish in finishes {
        let begin = [
            (TaskCall::Next(ADA), given(1)),
            (TaskCall::Force, Answer::Yes),
            (TaskCall::Next(BOB), given(2)),
        ];
        let mut believed = begin.to_vec();
        believed.push((finish(token(1)), Answer::Yes));
        assert!(!is_good(&in_turn(&believed)), "{believed:?}");
        let mut refused = begin.to_vec();
        refused.push((finish(token(1)), Answer::No));
        refused.push((TaskCall::Complete(token(2)), Answer::Yes));
        assert!(is_good(&in_turn(&refused)), "{refused:?}");
    }
}

#[test]
fn a_living_worker_that_loses_its_task_is_noticed() {
    let robbed = in_turn(&[
        (TaskCall::Next(ADA), given(1)),
        (TaskCall::Pass, Answer::Yes),
        (TaskCall::Next(BOB), given(2)),
    ]);
    assert!(!is_good(&robbed));
    let from_the_dead = in_turn(&[
        (TaskCall::Next(GHOST), given(1)),
        (TaskCall::PassedBy(BOB), Answer::No),
        (TaskCall::Pass, Answer::Yes),
        (TaskCall::Next(BOB), given(2)),
        (TaskCall::Complete(token(1)), Answer::No),
        (TaskCall::Complete(token(2)), Answer::Yes),
    ]);
    assert!(is_good(&from_the_dead));
    let too_early = in_turn(&[(TaskCall::Next(GHOST), given(1)), (TaskCall::Next(BOB), given(2))]);
    assert!(!is_good(&too_early));
    let restarted = in_turn(&[
        (TaskCall::Next(GHOST), given(1)),
        (TaskCall::ById(GHOST), given(2)),
        (TaskCall::Renew(token(1)), Answer::No),
    ]);
    assert!(is_good(&restarted));
    let renewed = in_turn(&[
        (TaskCall::Next(GHOST), given(1)),
        (TaskCall::Pass, Answer::Yes),
        (TaskCall::Renew(token(1)), Answer::Yes),
        (TaskCall::Next(BOB), given(2)),
    ]);
    assert!(!is_good(&renewed), "a renewed lease holds again");
}

#[test]
fn a_task_that_is_given_while_it_rests_is_noticed() {
    let restless = in_turn(&[
        (TaskCall::Next(ADA), given(1)),
        (TaskCall::Fail(token(1)), Answer::Yes),
        (TaskCall::Next(BOB), given(2)),
    ]);
    assert!(!is_good(&restless));
    let rested = in_turn(&[
        (TaskCall::Next(ADA), given(1)),
        (TaskCall::Fail(token(1)), Answer::Yes),
        (TaskCall::PassedBy(BOB), Answer::No),
        (TaskCall::Pass, Answer::Yes),
        (TaskCall::Next(BOB), given(2)),
        (TaskCall::Fail(token(2)), Answer::Yes),
        (TaskCall::Retry, Answer::Yes),
        (TaskCall::Next(ADA), given(3)),
    ]);
    assert!(is_good(&rested));
}

#[test]
fn a_sixth_attempt_is_noticed() {
    let mut attempts = Vec::new();
    for number in 1..=5 {
        attempts.push((TaskCall::Next(ADA), given(number)));
        attempts.push((TaskCall::Fail(token(number)), Answer::Yes));
        attempts.push((TaskCall::Pass, Answer::Yes));
    }
    assert!(is_good(&in_turn(&attempts)));
    let mut sixth = attempts.clone();
    sixth.push((TaskCall::Next(ADA), given(6)));
    assert!(!is_good(&in_turn(&sixth)));
    attempts.push((TaskCall::Retry, Answer::Yes));
    attempts.push((TaskCall::Next(ADA), given(6)));
    assert!(is_good(&in_turn(&attempts)));
}

#[test]
fn a_free_task_that_is_passed_by_is_noticed() {
    assert!(!is_good(&in_turn(&[(TaskCall::PassedBy(ADA), Answer::No)])));
    let beside = [
        at(0, 0, 9, TaskCall::PassedBy(ADA), Answer::No),
        at(1, 1, 2, TaskCall::Next(BOB), given(1)),
        at(2, 4, 2, TaskCall::Release(token(1)), Answer::Yes),
    ];
    assert!(is_good(&beside), "it may have looked while another had it");
}

#[test]
fn a_dead_client_explains_what_it_may_have_done_and_nothing_else() {
    let claimed = [
        died(0, 0, TaskCall::Next(ADA)),
        at(1, 2, 1, TaskCall::ById(BOB), Answer::No),
    ];
    assert!(is_good(&claimed), "it may have got the task before it died");
    let not_claimed = [
        died(0, 0, TaskCall::Next(ADA)),
        at(1, 2, 1, TaskCall::ById(BOB), given(1)),
    ];
    assert!(is_good(&not_claimed), "or not");
    let too_late = [
        at(0, 0, 1, TaskCall::ById(BOB), Answer::No),
        died(1, 2, TaskCall::Next(ADA)),
    ];
    assert!(!is_good(&too_late), "but not before it asked");
    let completed = [
        at(0, 0, 1, TaskCall::Next(ADA), given(1)),
        died(1, 2, TaskCall::Complete(token(1))),
        at(2, 4, 1, TaskCall::Renew(token(1)), Answer::No),
        at(3, 6, 1, TaskCall::Complete(token(1)), Answer::Yes),
    ];
    assert!(is_good(&completed));
    let half = [
        at(0, 0, 1, TaskCall::Next(ADA), given(1)),
        died(1, 2, TaskCall::Complete(token(1))),
        at(2, 4, 1, TaskCall::Renew(token(1)), Answer::No),
        at(3, 6, 1, TaskCall::Renew(token(1)), Answer::Yes),
    ];
    assert!(!is_good(&half), "what happened stays happened");
}

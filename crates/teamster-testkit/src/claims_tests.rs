use super::*;
use crate::linear::{Operation, check};

const ADA: Claimant = Claimant {
    worker: 0,
    ghost: false,
};
const BOB: Claimant = Claimant {
    worker: 1,
    ghost: false,
};
const GHOST: Claimant = Claimant {
    worker: 2,
    ghost: true,
};

type ClaimOperation = Operation<(usize, ClaimCall), ClaimAnswer>;

/// Returns a history of operations in sequence.
fn in_turn(operations: &[(ClaimCall, ClaimAnswer)]) -> Vec<ClaimOperation> {
    let numbered = operations.iter().enumerate();
    numbered
        .map(|(place, (call, answer))| at(place, place as u64 * 2, 1, call.clone(), *answer))
        .collect()
}

fn at(
    place: usize,
    called: u64,
    length: u64,
    call: ClaimCall,
    answer: ClaimAnswer,
) -> ClaimOperation {
    Operation {
        called,
        returned: Some(called + length),
        call: (place, call),
        answer: Some(answer),
    }
}

fn died(place: usize, called: u64, call: ClaimCall) -> ClaimOperation {
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

fn given(number: usize) -> ClaimAnswer {
    ClaimAnswer::Given(token(number))
}

fn is_good(history: &[ClaimOperation]) -> bool {
    check(&ClaimModel, history).is_ok()
}

#[test]
fn a_task_that_is_given_twice_is_noticed() {
    let twice = in_turn(&[
        (ClaimCall::Next(ADA), given(1)),
        (ClaimCall::ById(BOB), given(2)),
    ]);
    assert!(!is_good(&twice));
    let at_once = [
        at(0, 0, 9, ClaimCall::Next(ADA), given(1)),
        at(1, 1, 9, ClaimCall::Next(BOB), given(2)),
    ];
    assert!(!is_good(&at_once), "not even at the same time");
    let fairly = in_turn(&[
        (ClaimCall::Next(ADA), given(1)),
        (ClaimCall::ById(BOB), ClaimAnswer::No),
        (ClaimCall::Release(token(1)), ClaimAnswer::Yes),
        (ClaimCall::ById(BOB), given(2)),
    ]);
    assert!(is_good(&fairly));
}

#[test]
fn a_completion_that_is_lost_is_noticed() {
    let lost = in_turn(&[
        (ClaimCall::Next(ADA), given(1)),
        (ClaimCall::Complete(token(1)), ClaimAnswer::Yes),
        (ClaimCall::Next(BOB), given(2)),
    ]);
    assert!(!is_good(&lost));
    let forgotten = in_turn(&[
        (ClaimCall::Next(ADA), given(1)),
        (ClaimCall::Complete(token(1)), ClaimAnswer::Yes),
        (ClaimCall::Complete(token(1)), ClaimAnswer::No),
    ]);
    assert!(!is_good(&forgotten), "the same token completes it again");
    let refused = in_turn(&[
        (ClaimCall::Next(ADA), given(1)),
        (ClaimCall::Complete(token(1)), ClaimAnswer::No),
    ]);
    assert!(!is_good(&refused), "its holder must be able to complete it");
}

#[test]
fn an_old_token_that_is_believed_is_noticed() {
    let finishes = [
        ClaimCall::Complete,
        ClaimCall::Renew,
        ClaimCall::Fail,
        ClaimCall::Release,
    ];
    for finish in finishes {
        let begin = [
            (ClaimCall::Next(ADA), given(1)),
            (ClaimCall::Force, ClaimAnswer::Yes),
            (ClaimCall::Next(BOB), given(2)),
        ];
        let mut believed = begin.to_vec();
        believed.push((finish(token(1)), ClaimAnswer::Yes));
        assert!(!is_good(&in_turn(&believed)), "{believed:?}");
        let mut refused = begin.to_vec();
        refused.push((finish(token(1)), ClaimAnswer::No));
        refused.push((ClaimCall::Complete(token(2)), ClaimAnswer::Yes));
        assert!(is_good(&in_turn(&refused)), "{refused:?}");
    }
}

#[test]
fn a_living_worker_that_loses_its_task_is_noticed() {
    let robbed = in_turn(&[
        (ClaimCall::Next(ADA), given(1)),
        (ClaimCall::Pass, ClaimAnswer::Yes),
        (ClaimCall::Next(BOB), given(2)),
    ]);
    assert!(!is_good(&robbed));
    let from_the_dead = in_turn(&[
        (ClaimCall::Next(GHOST), given(1)),
        (ClaimCall::PassedBy(BOB), ClaimAnswer::No),
        (ClaimCall::Pass, ClaimAnswer::Yes),
        (ClaimCall::Next(BOB), given(2)),
        (ClaimCall::Complete(token(1)), ClaimAnswer::No),
        (ClaimCall::Complete(token(2)), ClaimAnswer::Yes),
    ]);
    assert!(is_good(&from_the_dead));
    let too_early = in_turn(&[
        (ClaimCall::Next(GHOST), given(1)),
        (ClaimCall::Next(BOB), given(2)),
    ]);
    assert!(!is_good(&too_early));
    let restarted = in_turn(&[
        (ClaimCall::Next(GHOST), given(1)),
        (ClaimCall::ById(GHOST), given(2)),
        (ClaimCall::Renew(token(1)), ClaimAnswer::No),
    ]);
    assert!(is_good(&restarted));
    let renewed = in_turn(&[
        (ClaimCall::Next(GHOST), given(1)),
        (ClaimCall::Pass, ClaimAnswer::Yes),
        (ClaimCall::Renew(token(1)), ClaimAnswer::Yes),
        (ClaimCall::Next(BOB), given(2)),
    ]);
    assert!(!is_good(&renewed), "a renewed lease holds again");
}

#[test]
fn a_task_that_is_given_while_it_rests_is_noticed() {
    let restless = in_turn(&[
        (ClaimCall::Next(ADA), given(1)),
        (ClaimCall::Fail(token(1)), ClaimAnswer::Yes),
        (ClaimCall::Next(BOB), given(2)),
    ]);
    assert!(!is_good(&restless));
    let rested = in_turn(&[
        (ClaimCall::Next(ADA), given(1)),
        (ClaimCall::Fail(token(1)), ClaimAnswer::Yes),
        (ClaimCall::PassedBy(BOB), ClaimAnswer::No),
        (ClaimCall::Pass, ClaimAnswer::Yes),
        (ClaimCall::Next(BOB), given(2)),
        (ClaimCall::Fail(token(2)), ClaimAnswer::Yes),
        (ClaimCall::Retry, ClaimAnswer::Yes),
        (ClaimCall::Next(ADA), given(3)),
    ]);
    assert!(is_good(&rested));
}

#[test]
fn a_sixth_attempt_is_noticed() {
    let mut attempts = Vec::new();
    for number in 1..=5 {
        attempts.push((ClaimCall::Next(ADA), given(number)));
        attempts.push((ClaimCall::Fail(token(number)), ClaimAnswer::Yes));
        attempts.push((ClaimCall::Pass, ClaimAnswer::Yes));
    }
    assert!(is_good(&in_turn(&attempts)));
    let mut sixth = attempts.clone();
    sixth.push((ClaimCall::Next(ADA), given(6)));
    assert!(!is_good(&in_turn(&sixth)));
    attempts.push((ClaimCall::Retry, ClaimAnswer::Yes));
    attempts.push((ClaimCall::Next(ADA), given(6)));
    assert!(is_good(&in_turn(&attempts)));
}

#[test]
fn a_free_task_that_is_passed_by_is_noticed() {
    assert!(!is_good(&in_turn(&[(
        ClaimCall::PassedBy(ADA),
        ClaimAnswer::No
    )])));
    let beside = [
        at(0, 0, 9, ClaimCall::PassedBy(ADA), ClaimAnswer::No),
        at(1, 1, 2, ClaimCall::Next(BOB), given(1)),
        at(2, 4, 2, ClaimCall::Release(token(1)), ClaimAnswer::Yes),
    ];
    assert!(is_good(&beside), "it may have looked while another had it");
}

#[test]
fn a_dead_client_explains_what_it_may_have_done_and_nothing_else() {
    let claimed = [
        died(0, 0, ClaimCall::Next(ADA)),
        at(1, 2, 1, ClaimCall::ById(BOB), ClaimAnswer::No),
    ];
    assert!(is_good(&claimed), "it may have got the task before it died");
    let not_claimed = [
        died(0, 0, ClaimCall::Next(ADA)),
        at(1, 2, 1, ClaimCall::ById(BOB), given(1)),
    ];
    assert!(is_good(&not_claimed), "or not");
    let too_late = [
        at(0, 0, 1, ClaimCall::ById(BOB), ClaimAnswer::No),
        died(1, 2, ClaimCall::Next(ADA)),
    ];
    assert!(!is_good(&too_late), "but not before it asked");
    let completed = [
        at(0, 0, 1, ClaimCall::Next(ADA), given(1)),
        died(1, 2, ClaimCall::Complete(token(1))),
        at(2, 4, 1, ClaimCall::Renew(token(1)), ClaimAnswer::No),
        at(3, 6, 1, ClaimCall::Complete(token(1)), ClaimAnswer::Yes),
    ];
    assert!(is_good(&completed));
    let half = [
        at(0, 0, 1, ClaimCall::Next(ADA), given(1)),
        died(1, 2, ClaimCall::Complete(token(1))),
        at(2, 4, 1, ClaimCall::Renew(token(1)), ClaimAnswer::No),
        at(3, 6, 1, ClaimCall::Renew(token(1)), ClaimAnswer::Yes),
    ];
    assert!(!is_good(&half), "what happened stays happened");
}

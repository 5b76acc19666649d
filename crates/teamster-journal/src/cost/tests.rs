//! Sums never claim more than is known.

use std::time::Duration;

use proptest::prelude::*;
use serde::Deserialize as _;
use serde_json::{Value, json};
use teamster_types::Time;

use super::*;
use crate::payload::{Budget, Limit};

fn event(kind: &str, actor: &str, task: &str, data: &Value) -> Event {
    Event {
        seq: 1,
        id: String::new(),
        ts: Time::from_millis(0),
        team: "fix".to_owned(),
        kind: kind.to_owned(),
        actor: actor.into(),
        task_id: task.parse().ok(),
        more: false,
        data: data.as_object().cloned().unwrap_or_default(),
    }
}

fn usage(actor: &str, task: &str, tokens: Option<u64>, usd: Option<f64>) -> Event {
    event(
        "usage",
        actor,
        task,
        &json!({"tokensIn": tokens, "tokensOut": tokens.map(|_| 1), "usd": usd, "atLeast": false}),
    )
}

fn claimed(actor: &str, task: &str) -> Event {
    event("task.claimed", actor, task, &json!({}))
}

fn over(kind: &str, actor: &str, task: &str) -> Event {
    event(kind, actor, task, &json!({}))
}

#[test]
fn what_was_told_is_summed_by_worker_task_and_run() {
    let costs = Costs::of(&[
        claimed("w1", "1"),
        usage("w1", "1", Some(99), Some(0.25)),
        over("task.failed", "w1", "1"),
        claimed("w2", "1"),
        usage("w2", "1", Some(199), Some(0.5)),
        over("task.completed", "w2", "1"),
        claimed("w1", "2"),
        usage("w1", "2", Some(299), Some(0.5)),
    ]);
    assert_eq!(costs.run.total(), Some(600));
    assert_eq!(costs.run.say_money(), "$1.25");
    assert_eq!(costs.workers["w1"].total(), Some(400));
    assert_eq!(costs.tasks[&"1".parse().unwrap()].total(), Some(300));
    let mean = costs.reservation();
    assert_eq!(
        mean.tokens, 150,
        "the attempt that goes on does not count yet"
    );
    assert_eq!(mean.money, Money::from_usd(0.375).unwrap());
}

#[test]
fn unknown_is_never_nothing() {
    // One agent reports tokens but no money; another reports nothing.
    let costs = Costs::of(&[
        claimed("w1", "1"),
        usage("w1", "1", Some(9), None),
        over("task.completed", "w1", "1"),
    ]);
    assert_eq!(costs.run.say_tokens(), "10");
    assert_eq!(costs.run.say_money(), "unknown");
    assert_eq!(costs.run.words(), "10 tokens · cost not reported");
    let costs = Costs::of(&[claimed("w1", "1"), over("task.completed", "w1", "1")]);
    assert_eq!(costs.run, Cost::UNKNOWN);
    assert_eq!(costs.run.words(), "cost not reported");
    assert_eq!(costs.workers["w1"].say_tokens(), "unknown");
    assert_eq!(costs.reservation(), Reservation::default());
    let costs = Costs::of(&[
        claimed("w1", "1"),
        usage("w1", "1", Some(9), Some(1.0)),
        over("task.completed", "w1", "1"),
        claimed("w1", "2"),
        over("worker.started", "w1", "2"),
        over("task.released", "system", "2"),
    ]);
    assert_eq!(costs.run.say_tokens(), "at least 10");
    assert_eq!(costs.run.say_money(), "at least $1.00");
    assert_eq!(costs.run.words(), "at least 10 tokens · at least $1.00");
    assert_eq!(
        costs.reservation().tokens,
        10,
        "the mean of those that told"
    );
}

#[test]
fn a_task_that_was_given_back_before_an_agent_was_there_cost_nothing() {
    let costs = Costs::of(&[claimed("w1", "1"), over("task.released", "w1", "1")]);
    assert_eq!(costs.run, Cost::default());
    assert_eq!(costs.run.say_money(), "$0.00");
    assert_eq!(costs.run.words(), "0 tokens · $0.00");
}

#[test]
fn whoever_plans_costs_too() {
    let mut planned = usage("leader", "1", Some(9), Some(0.5));
    planned.task_id = None;
    let costs = Costs::of(&[planned]);
    assert_eq!(costs.run.total(), Some(10));
    assert_eq!(costs.workers["leader"].say_money(), "$0.50");
    assert_eq!(costs.tasks.len(), 0);
}

#[test]
fn figures_that_are_none_are_not_told() {
    for data in [
        json!({}),
        json!({"tokensIn": "3", "usd": "1"}),
        json!({"tokensIn": -1, "usd": -1.0}),
        json!({"tokensIn": null, "tokensOut": null, "usd": null}),
    ] {
        let costs = Costs::of(&[event("usage", "w1", "1", &data)]);
        assert_eq!(costs.run, Cost::UNKNOWN, "{data}");
    }
    let told = json!({"tokensIn": 5, "usd": 1, "atLeast": true});
    let costs = Costs::of(&[event("usage", "w1", "1", &told)]);
    assert_eq!(costs.run.say_tokens(), "at least 5");
}

#[test]
fn figures_are_said_as_people_read_them() {
    assert_eq!(with_commas(0), "0");
    assert_eq!(with_commas(999), "999");
    assert_eq!(with_commas(1_234_567), "1,234,567");
    assert_eq!(say_usd(0.0), "$0.00");
    assert_eq!(say_usd(0.0012), "$0.0012");
    assert_eq!(say_usd(12.345), "$12.35");
}

fn spent(tokens: u64, usd: f64) -> Cost {
    Cost {
        tokens: Some(Usage {
            input: tokens,
            ..Usage::default()
        }),
        money: Money::from_usd(usd),
        ..Cost::default()
    }
}

#[test]
fn a_budget_stops_at_its_first_limit() {
    let budget = Budget {
        tokens: Some(1_000),
        usd: Some(2.0),
        minutes: Some(10.0),
    };
    let now = Duration::from_secs(599);
    assert_eq!(budget.exceeded(&spent(999, 1.99), now), None);
    let tokens = budget.exceeded(&spent(1_000, 1.0), now).unwrap();
    assert_eq!(tokens.what.as_str(), "tokens");
    assert_eq!(tokens.words(), "1,000 tokens used of 1,000 tokens");
    let usd = budget.exceeded(&spent(1, 2.5), now).unwrap();
    assert_eq!(usd.words(), "$2.50 used of $2.00");
    let late = budget.exceeded(&spent(1, 1.0), Duration::from_secs(600));
    assert_eq!(late.unwrap().words(), "10 min used of 10 min");
    assert_eq!(Budget::default().exceeded(&spent(u64::MAX, 1e9), now), None);
    assert_eq!(budget.exceeded(&Cost::UNKNOWN, now), None);
    assert_eq!(
        budget.blind(&Cost::UNKNOWN),
        [Limit::Tokens, Limit::Usd],
        "what cannot be watched is told"
    );
}

#[test]
fn a_task_starts_only_if_its_reservation_fits() {
    let budget = Budget {
        tokens: Some(1_000),
        usd: None,
        minutes: None,
    };
    let reserved = |tokens| Reservation {
        tokens,
        money: Money::default(),
    };
    assert!(budget.fits(&spent(400, 0.0), reserved(300).times(2)));
    assert!(!budget.fits(&spent(400, 0.0), reserved(301).times(2)));
    assert!(budget.fits(&Cost::UNKNOWN, reserved(0)));
    assert!(
        !budget.fits(&spent(1_000, 0.0), reserved(0)),
        "nothing is left"
    );
    assert_eq!(budget.short_of(&spent(400, 0.0), reserved(600)), None);
    let short = budget.short_of(&spent(400, 0.0), reserved(700)).unwrap();
    assert_eq!(
        short.sentence().as_str(),
        "the budget has no room for another task: 400 tokens used of 1,000 tokens; 600 tokens are left, and a task took 700 \
         tokens on average"
    );
    assert_eq!(LimitReached::from_event(&short.event()), Some(short));
}

#[test]
fn a_budget_is_read_from_the_journal() {
    let budget = Budget::deserialize(json!({"tokens": 5, "usd": 1.5, "minutes": 2})).unwrap();
    assert_eq!(budget.tokens, Some(5));
    assert_eq!(budget.usd, Some(1.5));
    assert_eq!(budget.minutes, Some(2.0));
    let odd = json!({"tokens": "many", "usd": -3, "minutes": -1});
    assert_eq!(Budget::deserialize(&odd).unwrap(), Budget::default());
}

fn any_event() -> impl Strategy<Value = Event> {
    let kind = prop::sample::select(vec![
        "task.claimed",
        "worker.started",
        "task.completed",
        "task.failed",
        "task.released",
        "message.sent",
    ]);
    let told = (
        "w[1-3]",
        "[1-4]",
        prop::option::of(0..10_000_u64),
        prop::option::of(0..2_000_u32),
    )
        .prop_map(|(actor, task, tokens, cents)| {
            usage(
                &actor,
                &task,
                tokens,
                cents.map(|cents| f64::from(cents) / 100.0),
            )
        });
    let other = (kind, "w[1-3]", "[1-4]").prop_map(|(kind, actor, task)| over(kind, &actor, &task));
    prop_oneof![told, other]
}

fn sum<'a>(costs: impl Iterator<Item = &'a Cost>) -> Cost {
    costs.fold(Cost::default(), |sum, cost| sum.plus(*cost))
}

proptest! {
    #[test]
    fn workers_and_tasks_add_up_to_the_run(events in prop::collection::vec(any_event(), 0..60)) {
        let costs = Costs::of(&events);
        prop_assert_eq!(sum(costs.workers.values()), costs.run);
        prop_assert_eq!(sum(costs.tasks.values()), costs.run);
    }

    #[test]
    fn what_was_spent_never_shrinks_and_doubt_never_goes(events in prop::collection::vec(any_event(), 0..60)) {
        let mut costs = Costs::default();
        let mut before = Cost::default();
        for event in &events {
            costs.apply(event, &event.payload());
            let now = costs.run;
            prop_assert!(now.total() >= before.total() && now.money >= before.money);
            prop_assert!(now.tokens_at_least >= before.tokens_at_least);
            prop_assert!(now.money_at_least >= before.money_at_least);
            before = now;
        }
        let known: u64 = events
            .iter()
            .filter(|event| event.kind == "usage")
            .filter_map(|event| event.data["tokensIn"].as_u64())
            .map(|input| input + 1)
            .sum();
        prop_assert_eq!(before.total().unwrap_or(0), known, "nothing is lost, nothing counted twice");
    }

    #[test]
    fn what_fits_does_not_exceed(
        tokens in 0..2_000_u64, cents in 0..300_u32, reserved in 0..2_000_u64, limit in 0..2_000_u64,
    ) {
        let budget = Budget { tokens: Some(limit), usd: Some(2.0), minutes: None };
        let spent = spent(tokens, f64::from(cents) / 100.0);
        let reservation = Reservation { tokens: reserved, money: Money::default() };
        if budget.fits(&spent, reservation) {
            prop_assert_eq!(budget.exceeded(&spent, Duration::ZERO), None);
            prop_assert!(tokens + reserved <= limit);
        }
    }
}

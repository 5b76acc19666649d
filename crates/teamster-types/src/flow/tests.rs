use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn staged() -> Flow {
    Flow::builtin("staged").unwrap()
}

fn party() -> Flow {
    Flow::builtin("party").unwrap()
}

/// Returns facts that meet every guard, with no round used.
fn all_met() -> FlowFacts {
    FlowFacts {
        findings: ["analyzing", "planning", "executing", "reviewing"]
            .map(str::to_owned)
            .into(),
        has_plan: true,
        ..FlowFacts::default()
    }
}

/// Returns facts that meet no guard.
fn none_met() -> FlowFacts {
    FlowFacts {
        open_tickets: vec!["TICKET-002".to_owned(), "TICKET-003".to_owned()],
        unsettled_tasks: 2,
        ..FlowFacts::default()
    }
}

/// The specification, written down independently: `from: to to? ...`, where `?` marks a guarded step.
const STAGED: &str = "
team-plan: team-prd team-exec? cancelled
team-prd: team-exec? cancelled
team-exec: team-verify? cancelled
team-verify: team-fix complete failed cancelled
team-fix: team-exec? team-verify complete failed cancelled
complete:
failed:
cancelled: team-plan team-exec?
";
const PARTY: &str = "
IDLE: ANALYZING PLANNING
ANALYZING: PLANNING? CANCELLED
PLANNING: EXECUTING? CANCELLED
EXECUTING: REVIEWING? CANCELLED
REVIEWING: AWAITING_APPROVAL? EXECUTING? CANCELLED
AWAITING_APPROVAL: APPROVED REJECTED REVISION CANCELLED
APPROVED: DONE CANCELLED
REJECTED: DONE ROLLED_BACK CANCELLED
REVISION: ANALYZING PLANNING EXECUTING CANCELLED
DONE:
ROLLED_BACK:
FAILED:
CANCELLED: IDLE
";
const PDCA: &str = "
plan: design end
design: do end
do: check end
check: act do end
act: plan end
end:
";

type Expected<'a> = BTreeMap<&'a str, Vec<(&'a str, bool)>>;

fn read(table: &str) -> Expected<'_> {
    (table.trim().lines())
        .map(|line| {
            let (from, to) = line.split_once(':').unwrap();
            let to = to
                .split_whitespace()
                .map(|to| match to.strip_suffix('?') {
                    Some(to) => (to, true),
                    None => (to, false),
                })
                .collect();
            (from, to)
        })
        .collect()
}

#[test]
fn every_state_to_every_state_is_as_the_specification_says() {
    for (name, table) in [("staged", STAGED), ("party", PARTY), ("pdca", PDCA)] {
        let flow = Flow::builtin(name).unwrap();
        let expected = read(table);
        let states: BTreeSet<&str> = flow.states.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(states, expected.keys().copied().collect(), "{name}");
        for (&from, next) in &expected {
            let mut legal = flow.next_states(from);
            legal.sort_unstable();
            let mut all: Vec<&str> = next.iter().map(|&(to, _)| to).collect();
            all.sort_unstable();
            assert_eq!(legal, all, "{name}: from {from}");
            for &to in expected.keys() {
                let edge = next.iter().find(|(legal, _)| *legal == to);
                let met = flow.step(from, to, &all_met());
                let unmet = flow.step(from, to, &none_met());
                let said = format!("{name}: {from} → {to}: {met:?} {unmet:?}");
                let Some((_, guarded)) = edge else {
                    let error = met.unwrap_err();
                    assert_eq!(error, unmet.unwrap_err(), "{said}");
                    assert!(error.unmet().is_empty(), "{said}");
                    assert_eq!(error.legal(), legal_in_order(&flow, from), "{said}");
                    continue;
                };
                let step = met.unwrap();
                assert_eq!((step.from.as_str(), step.to.as_str()), (from, to), "{said}");
                assert_eq!(step.instead_of, None, "{said}");
                assert_eq!(unmet.is_err(), *guarded, "{said}");
                if let Err(error) = unmet {
                    assert!(!error.unmet().is_empty(), "{said}");
                    assert_eq!(error.legal(), legal_in_order(&flow, from), "{said}");
                }
            }
        }
    }
}

fn legal_in_order(flow: &Flow, from: &str) -> Vec<String> {
    (flow.next_states(from).into_iter())
        .map(str::to_owned)
        .collect()
}

#[test]
fn path_is_the_shortest_and_leads_through_nothing_that_is_over() {
    let path = |flow: &str, from: &str, to: &str| {
        let flow = Flow::builtin(flow).unwrap();
        flow.path(from, to).map(|path| path.join(" "))
    };
    for (flow, from, to, expected) in [
        ("party", "IDLE", "EXECUTING", Some("PLANNING EXECUTING")),
        ("party", "CANCELLED", "PLANNING", Some("IDLE PLANNING")),
        (
            "party",
            "AWAITING_APPROVAL",
            "EXECUTING",
            Some("REVISION EXECUTING"),
        ),
        ("party", "DONE", "EXECUTING", None),
        ("party", "EXECUTING", "FAILED", None),
        ("pdca", "check", "plan", Some("act plan")),
        ("pdca", "do", "end", Some("end")),
        ("pdca", "end", "plan", None),
    ] {
        let found = path(flow, from, to);
        assert_eq!(found.as_deref(), expected, "{flow}: {from} to {to}");
    }
    for name in Flow::builtin_names() {
        assert_eq!(FlowKind::of(name).name(), name);
    }
}

#[test]
fn each_phase_of_the_party_needs_its_own_finding() {
    let flow = party();
    for (from, to) in [
        ("ANALYZING", "PLANNING"),
        ("PLANNING", "EXECUTING"),
        ("EXECUTING", "REVIEWING"),
        ("REVIEWING", "AWAITING_APPROVAL"),
        ("REVIEWING", "EXECUTING"),
    ] {
        let phase = from.to_lowercase();
        let only = FlowFacts {
            findings: [phase.clone()].into(),
            ..FlowFacts::default()
        };
        assert!(flow.step(from, to, &only).is_ok(), "{from} → {to}");
        let mut others = all_met();
        others.findings.remove(&phase);
        let error = flow.step(from, to, &others).unwrap_err();
        assert_eq!(error.unmet(), [Unmet::Finding { phase }], "{from} → {to}");
    }
}

#[test]
fn tickets_must_be_done_from_executing_on() {
    let flow = party();
    let open = FlowFacts {
        open_tickets: vec!["TICKET-002".to_owned()],
        ..all_met()
    };
    for (from, to, free) in [
        ("ANALYZING", "PLANNING", true),
        ("PLANNING", "EXECUTING", true),
        ("EXECUTING", "REVIEWING", false),
        ("REVIEWING", "AWAITING_APPROVAL", false),
        ("REVIEWING", "EXECUTING", false),
        ("EXECUTING", "CANCELLED", true),
    ] {
        assert_eq!(flow.step(from, to, &open).is_ok(), free, "{from} → {to}");
    }
}

#[test]
fn the_fourth_fix_round_fails() {
    for (flow, from, to, failed) in [
        (staged(), "team-verify", "team-fix", "failed"),
        (party(), "REVIEWING", "EXECUTING", "FAILED"),
    ] {
        for fix_attempt in 0..6 {
            let facts = FlowFacts {
                fix_attempt,
                ..all_met()
            };
            let step = flow.step(from, to, &facts).unwrap();
            if fix_attempt < 3 {
                assert_eq!(step.to, to);
                assert_eq!(step.begins, Some((Round::Fix, fix_attempt + 1)));
            } else {
                assert_eq!(step.to, failed);
                assert_eq!(step.instead_of.as_deref(), Some(to));
                assert_eq!(step.begins, None);
            }
        }
        let none_allowed = FlowFacts {
            max_attempts: 0,
            ..all_met()
        };
        assert_eq!(flow.step(from, to, &none_allowed).unwrap().to, failed);
    }
}

#[test]
fn the_fourth_revision_fails_and_is_no_fix_round() {
    for (flow, from, to, failed) in [
        (staged(), "team-verify", "team-fix", "failed"),
        (party(), "AWAITING_APPROVAL", "REVISION", "FAILED"),
    ] {
        for revisions in 0..5 {
            let facts = FlowFacts {
                revisions,
                revising: true,
                fix_attempt: 3,
                ..all_met()
            };
            let step = flow.step(from, to, &facts).unwrap();
            if revisions < 3 {
                assert_eq!(step.to, to);
                assert_eq!(step.begins, Some((Round::Revision, revisions + 1)));
            } else {
                assert_eq!(step.to, failed);
                assert_eq!(step.instead_of.as_deref(), Some(to));
            }
        }
    }
}

#[test]
fn a_session_is_active_from_analyzing_to_revision() {
    let flow = party();
    let active: Vec<&str> = (flow.states.iter())
        .map(|state| state.name.as_str())
        .filter(|state| flow.is_active(state))
        .collect();
    assert_eq!(
        active,
        [
            "ANALYZING",
            "PLANNING",
            "EXECUTING",
            "REVIEWING",
            "AWAITING_APPROVAL",
            "APPROVED",
            "REJECTED",
            "REVISION"
        ]
    );
    assert!(!flow.is_active("NOWHERE"));
}

#[test]
fn a_refused_step_says_why_and_what_can_be_done() {
    let (staged, party) = (staged(), party());
    let some = FlowFacts {
        unsettled_tasks: 1,
        ..FlowFacts::default()
    };
    let refused = [
        party.step("PLANNING", "REVIEWING", &all_met()),
        party.step("CANCELLED", "DONE", &all_met()),
        party.step("DONE", "IDLE", &all_met()),
        party.step("PLANNING", "planning", &all_met()),
        party.step("ANALYZING", "PLANNING", &none_met()),
        party.step("EXECUTING", "REVIEWING", &none_met()),
        staged.step("team-plan", "team-exec", &some),
        staged.step("team-exec", "team-verify", &some),
        staged.step("team-exec", "team-verify", &none_met()),
    ]
    .map(|step| step.unwrap_err().to_string());
    insta::assert_snapshot!(refused.join("\n"), @r"
    the party flow has no step PLANNING → REVIEWING; from PLANNING it goes to EXECUTING or CANCELLED
    the party flow has no step CANCELLED → DONE; from CANCELLED it goes to IDLE
    DONE is final in the party flow: no step leaves it; begin a new run
    the party flow has no state `planning`; it has IDLE, ANALYZING, PLANNING, EXECUTING, REVIEWING, AWAITING_APPROVAL, APPROVED, REJECTED, REVISION, DONE, ROLLED_BACK, FAILED and CANCELLED
    ANALYZING → PLANNING must wait: there is no finding of analyzing
    EXECUTING → REVIEWING must wait: there is no finding of executing; not DONE: TICKET-002, TICKET-003
    team-plan → team-exec must wait: there is no plan
    team-exec → team-verify must wait: 1 task is not finished
    team-exec → team-verify must wait: 2 tasks are not finished
    ");
}

#[test]
fn a_step_is_said_in_words() {
    let flow = party();
    let mut facts = all_met();
    let step = |facts: &FlowFacts| {
        flow.step("REVIEWING", "EXECUTING", facts)
            .unwrap()
            .to_string()
    };
    assert_eq!(step(&facts), "REVIEWING → EXECUTING (fix round 1)");
    facts.fix_attempt = 3;
    assert_eq!(
        step(&facts),
        "REVIEWING → FAILED (no round of EXECUTING is left)"
    );
}

#[test]
fn the_flows_we_come_with_have_no_fault_and_survive_being_written() {
    assert_eq!(
        Flow::builtin_names().collect::<Vec<_>>(),
        ["staged", "party", "pdca"]
    );
    assert_eq!(Flow::builtin("waterfall"), None);
    for name in Flow::builtin_names() {
        let flow = Flow::builtin(name).unwrap();
        assert_eq!(flow.check(), Ok(()), "{name}");
        let text = serde_json::to_string(&flow).unwrap();
        assert_eq!(serde_json::from_str::<Flow>(&text).unwrap(), flow);
    }
}

fn declared(json: serde_json::Value) -> Flow {
    serde_json::from_value(json).unwrap()
}

#[test]
fn a_flow_of_ones_own_is_declared_in_the_same_shape() {
    let flow = declared(serde_json::json!({
        "name": "kanban", "initial": "todo",
        "states": [
            {"name": "todo", "kind": "idle"}, {"name": "doing", "kind": "active"},
            {"name": "done", "kind": "final"}, {"name": "dropped", "kind": "final"},
        ],
        "edges": [
            {"from": "todo", "to": "doing", "needs": ["plan"]},
            {"from": "doing", "to": "done", "needs": ["tasks", "finding"]},
            {"from": "*", "to": "dropped"},
        ],
    }));
    assert_eq!(flow.check(), Ok(()));
    assert!(flow.step("todo", "doing", &FlowFacts::default()).is_err());
    let facts = FlowFacts {
        findings: ["doing".to_owned()].into(),
        ..FlowFacts::default()
    };
    assert!(flow.step("doing", "done", &facts).is_ok());
    assert!(flow.step("doing", "dropped", &FlowFacts::default()).is_ok());
    assert!(flow.step("todo", "dropped", &facts).is_err());
}

#[test]
fn everything_wrong_with_a_declared_flow_is_found() {
    let flow = declared(serde_json::json!({
        "name": "broken", "initial": "begin",
        "states": [
            {"name": "a", "kind": "active"}, {"name": "a", "kind": "active"}, {"name": "*", "kind": "active"},
        ],
        "edges": [
            {"from": "a", "to": "b", "round": "fix", "beyond": "c"},
            {"from": "a", "to": "b", "round": "fix"},
        ],
    }));
    let ended = declared(serde_json::json!({
        "name": "ended", "initial": "a",
        "states": [
            {"name": "a", "kind": "active"}, {"name": "b", "kind": "final"}, {"name": "stuck", "kind": "waiting"},
            {"name": "island", "kind": "active"},
        ],
        "edges": [
            {"from": "a", "to": "b"}, {"from": "b", "to": "a"}, {"from": "a", "to": "stuck"}, {"from": "b", "to": "*"},
        ],
    }));
    let shown: Vec<String> = [flow, ended]
        .iter()
        .flat_map(|flow| flow.check().unwrap_err())
        .map(|fault| fault.to_string())
        .collect();
    insta::assert_snapshot!(shown.join("\n"), @r"
    state `a` is declared twice; give each state its own name
    a state cannot be called `*`; choose a name that is not empty and not `*`
    the step a → b names `b`, which is not one of the states; declare it
    the step a → b names `c`, which is not one of the states; declare it
    the step a → b names `b`, which is not one of the states; declare it
    the step a → b is declared twice; keep one
    the step a → b needs both `round` and `beyond`, or neither
    the flow has no final state; add one with kind `final`
    the flow begins in `begin`, which is not one of its states; declare it or begin elsewhere
    the step b → a leaves a final state; make `b` active or remove the step
    the step b → * names `*`, which is not one of the states; declare it
    the step b → * leaves a final state; make `b` active or remove the step
    `stuck` is not final, and no step leaves it; add a step or make it final
    no step leads to `island`; add one or remove the state
    ");
}

#[test]
fn a_misspelt_key_of_a_declared_flow_is_refused() {
    let edge = serde_json::json!({"from": "a", "to": "b", "need": ["plan"]});
    assert!(serde_json::from_value::<FlowEdge>(edge).is_err());
    let guard = serde_json::json!({"from": "a", "to": "b", "needs": ["plann"]});
    assert!(serde_json::from_value::<FlowEdge>(guard).is_err());
}

fn any_flow() -> impl Strategy<Value = Flow> {
    prop::sample::select(Flow::builtin_names().collect::<Vec<_>>())
        .prop_map(|name| Flow::builtin(name).unwrap())
}

prop_compose! {
    fn any_facts()(
        findings in prop::sample::subsequence(vec!["analyzing", "planning", "executing", "reviewing"], 0..=4),
        open_tickets in prop::collection::vec("TICKET-[0-9]{3}", 0..2),
        has_plan in any::<bool>(), unsettled_tasks in 0..2_u32, revising in any::<bool>(),
    ) -> FlowFacts {
        FlowFacts {
            findings: findings.into_iter().map(str::to_owned).collect(),
            open_tickets, has_plan, unsettled_tasks, revising,
            ..FlowFacts::default()
        }
    }
}

proptest! {
    #[test]
    fn no_walk_leaves_a_final_state_or_goes_on_beyond_its_rounds(
        flow in any_flow(), max_attempts in 0..5_u32,
        walk in prop::collection::vec((any::<prop::sample::Index>(), any_facts(), any::<bool>()), 0..120),
    ) {
        let mut at = flow.initial.clone();
        let (mut fixes, mut revisions) = (0, 0);
        for (pick, mut facts, generous) in walk {
            if generous {
                facts = FlowFacts { revising: facts.revising, ..all_met() };
            }
            facts.fix_attempt = fixes;
            facts.max_attempts = max_attempts;
            facts.revisions = revisions;
            let asked = &flow.states[pick.index(flow.states.len())].name;
            match flow.step(&at, asked, &facts) {
                Ok(step) => {
                    prop_assert_ne!(flow.kind(&at), Some(StateKind::Final));
                    prop_assert!(flow.kind(&step.to).is_some());
                    prop_assert!(flow.next_states(&at).contains(&asked.as_str()));
                    prop_assert_eq!(step.instead_of.is_some(), step.to != *asked);
                    match step.begins {
                        Some((Round::Fix, number)) => fixes = number,
                        Some((Round::Revision, number)) => revisions = number,
                        None => {}
                    }
                    at = step.to;
                }
                Err(error) => {
                    let legal = error.legal().iter().any(|state| state == asked);
                    prop_assert_eq!(legal, !error.unmet().is_empty());
                    prop_assert!(!error.to_string().is_empty());
                }
            }
            prop_assert!(fixes <= max_attempts);
            prop_assert!(revisions <= MAX_REVISIONS);
        }
    }

    #[test]
    fn any_two_words_are_a_step_or_an_error(flow in any_flow(), from in ".{0,12}", to in ".{0,12}", facts in any_facts()) {
        prop_assert!(flow.step(&from, &to, &facts).is_err());
    }

    #[test]
    fn checking_any_flow_ends(
        initial in "[a-d*]", states in prop::collection::vec(("[a-d*]", 0..5_usize), 0..6),
        edges in prop::collection::vec(("[a-e*]", "[a-e*]", prop::option::of("[a-e]")), 0..10),
    ) {
        let kinds = [StateKind::Idle, StateKind::Active, StateKind::Waiting, StateKind::Cancelled, StateKind::Final];
        let flow = Flow {
            name: "any".to_owned(),
            initial,
            states: states.into_iter().map(|(name, kind)| FlowState { name, kind: kinds[kind] }).collect(),
            edges: edges.into_iter().map(|(from, to, beyond)| FlowEdge {
                from, to, needs: Vec::new(), round: beyond.is_some().then_some(Round::Fix), beyond,
            }).collect(),
        };
        if flow.check().is_ok() {
            for state in &flow.states {
                prop_assert_eq!(flow.next_states(&state.name).is_empty(), state.kind == StateKind::Final);
            }
        }
    }
}

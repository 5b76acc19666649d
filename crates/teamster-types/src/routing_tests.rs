use proptest::prelude::*;

use super::*;

fn list(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn name(name: &str) -> WorkerName {
    name.parse().unwrap()
}

/// Returns an idle worker with the default capabilities of its provider.
fn worker(who: &str, provider: &str) -> RoutingCandidate {
    RoutingCandidate {
        name: name(who),
        capabilities: list(default_capabilities(provider)),
        in_progress: 0,
        idle: true,
        out: None,
    }
}

fn busy(mut candidate: RoutingCandidate, in_progress: u32) -> RoutingCandidate {
    candidate.in_progress = in_progress;
    candidate.idle = false;
    candidate
}

fn out(mut candidate: RoutingCandidate, why: &str) -> RoutingCandidate {
    candidate.out = Some(why.to_owned());
    candidate
}

fn close(found: f64, expected: f64) -> bool {
    (found - expected).abs() < 1e-9
}

#[test]
fn every_provider_has_its_capabilities() {
    let claude = ["code-edit", "testing", "general"];
    let codex = [
        "code-review",
        "security-review",
        "architecture",
        "refactoring",
    ];
    let gemini = ["ui-design", "documentation", "research", "code-edit"];
    for (provider, expected) in [
        ("claude", &claude[..]),
        ("claude-native", &claude),
        ("codex", &codex),
        ("mcp-codex", &codex),
        ("gemini", &gemini),
        ("mcp-gemini", &gemini),
        ("command:make x", &["general"]),
        ("command:sh -c 'a:b'", &["general"]),
        ("scripted:demo.toml", &["general"]),
        ("command", &["general"]),
        ("qwen", &["general"]),
        ("codexical", &["general"]),
        ("", &["general"]),
        (":", &["general"]),
    ] {
        assert_eq!(default_capabilities(provider), expected, "{provider}");
    }
}

#[test]
fn fitness_counts_what_is_covered_and_half_of_what_general_covers() {
    for (required, have, expected) in [
        (&[][..], &[][..], 1.0),
        (&[], &["testing"], 1.0),
        (&["testing"], &["testing"], 1.0),
        (&["testing"], &["general"], 0.5),
        (&["testing"], &["testing", "general"], 1.0),
        (&["general"], &["general"], 1.0),
        (&["testing"], &["research"], 0.0),
        (&["testing"], &[], 0.0),
        (&["testing", "research"], &["testing"], 0.5),
        (&["testing", "research"], &["testing", "general"], 0.75),
        (&["a", "b", "c"], &["a"], 1.0 / 3.0),
        (&["Testing"], &["testing"], 0.0),
    ] {
        let found = fitness(&list(required), &list(have));
        assert!(close(found, expected), "{required:?} {have:?}: {found}");
    }
}

#[test]
fn score_takes_off_for_work_in_progress_and_adds_for_idleness_within_bounds() {
    for (fitness, in_progress, idle, expected) in [
        (1.0, 0, false, 1.0),
        (1.0, 0, true, 1.0),
        (0.5, 0, true, 0.6),
        (0.5, 1, false, 0.3),
        (0.5, 2, true, 0.2),
        (1.0, 6, false, 0.0),
        (1.0, u32::MAX, true, 0.0),
        (0.0, 0, true, 0.1),
    ] {
        let found = score(fitness, in_progress, idle);
        assert!(
            close(found, expected),
            "{fitness} {in_progress} {idle}: {found}"
        );
    }
}

#[test]
fn the_best_is_first_and_those_that_are_out_are_last_with_the_reason() {
    let required = list(&["code-review"]);
    let candidates = [
        worker("writer", "gemini"),
        out(worker("ghost", "codex"), "dead"),
        worker("generalist", "command:make"),
        worker("reviewer", "codex"),
        busy(worker("reviewer-2", "codex"), 3),
        out(worker("tired", "codex"), "quarantined"),
    ];
    let shown: Vec<String> = rank(&required, &candidates)
        .iter()
        .map(|scored| format!("{:<10} {:.2}  {}", scored.name, scored.score, scored.sum))
        .collect();
    insta::assert_snapshot!(shown.join("\n"), @r"
    reviewer   1.00  fitness 1 (code-review 1) + 0.1 idle = 1.1, capped at 1
    generalist 0.60  fitness 0.5 (code-review 0.5 by general) + 0.1 idle = 0.6
    reviewer-2 0.40  fitness 1 (code-review 1) − 0.2 × 3 in progress = 0.4
    ghost      1.00  fitness 1 (code-review 1) + 0.1 idle = 1.1, capped at 1; out: dead
    tired      1.00  fitness 1 (code-review 1) + 0.1 idle = 1.1, capped at 1; out: quarantined
    writer     0.10  fitness 0 (code-review 0) + 0.1 idle = 0.1; out: can do none of code-review
    ");
}

#[test]
fn the_sum_is_said_in_words() {
    let mut candidate = worker("a", "claude");
    assert_eq!(
        ScoredCandidate::new(&[], &candidate).sum,
        "fitness 1 (nothing required) + 0.1 idle = 1.1, capped at 1"
    );
    candidate = busy(candidate, 5);
    assert_eq!(
        ScoredCandidate::new(&list(&["testing", "research", "ui-design"]), &candidate).sum,
        "fitness 0.67 (testing 1, research 0.5 by general, ui-design 0.5 by general) − 0.2 × 5 in progress = -0.33, capped at 0"
    );
}

#[test]
fn equal_scores_go_to_the_one_with_less_to_do_then_by_name() {
    let mut half = worker("a", "nobody");
    half.capabilities = list(&["w", "x"]);
    let required = list(&["w", "x", "y", "z", "general"]);
    // 0.6 − 0.2 equals 0.4 mathematically, but not in binary.
    let loaded = RoutingCandidate {
        capabilities: list(&["w", "x", "y"]),
        ..busy(half.clone(), 1)
    };
    let free = RoutingCandidate {
        name: name("z"),
        idle: false,
        ..half
    };
    let ranked = rank(&required, &[loaded, free.clone()]);
    assert!(close(ranked[0].score, ranked[1].score));
    assert_eq!(ranked[0].name.as_str(), "z");

    let twin = RoutingCandidate {
        name: name("b"),
        ..free.clone()
    };
    assert_eq!(rank(&required, &[free, twin])[0].name.as_str(), "b");
}

#[test]
fn a_worker_pulls_unless_a_better_idle_one_could_come_first() {
    let review = list(&["code-review"]);
    let (reviewer, generalist) = (
        worker("reviewer", "codex"),
        worker("generalist", "command:x"),
    );
    let may = |who: &str, candidates: &[RoutingCandidate], waited: u64| {
        may_pull(
            &name(who),
            &review,
            candidates,
            Duration::from_millis(waited),
        )
    };
    let both = [reviewer.clone(), generalist.clone()];
    assert!(may("reviewer", &both, 0));
    assert!(!may("generalist", &both, 0));
    assert!(!may("generalist", &both, 9_999));
    assert!(may("generalist", &both, 10_000));

    let better_is_busy = [busy(reviewer.clone(), 1), generalist.clone()];
    assert!(may("generalist", &better_is_busy, 0));
    let better_is_dead = [out(reviewer.clone(), "dead"), generalist];
    assert!(may("generalist", &better_is_dead, 0));
    assert!(!may("reviewer", &better_is_dead, 60_000));

    let unfit = [worker("writer", "gemini")];
    assert!(!may("writer", &unfit, 0));
    assert!(!may("writer", &unfit, 60_000));
    assert!(!may("stranger", &both, 60_000));

    let twins = [reviewer, worker("reviewer-2", "codex")];
    assert!(may("reviewer", &twins, 0));
    assert!(may("reviewer-2", &twins, 0));
}

const WORDS: [&str; 5] = ["code-edit", "testing", "research", "ui-design", "general"];

fn any_capabilities() -> impl Strategy<Value = Vec<String>> {
    prop::sample::subsequence(WORDS.to_vec(), 0..=WORDS.len()).prop_map(|words| list(&words))
}

prop_compose! {
    fn any_candidates()(
        parts in prop::collection::vec(
            (any_capabilities(), 0..4_u32, any::<bool>(), prop::option::of("dead|quarantined")), 0..8,
        ),
    ) -> Vec<RoutingCandidate> {
        parts.into_iter().enumerate().map(|(at, (capabilities, in_progress, idle, out))| RoutingCandidate {
            name: name(&format!("worker-{at}")), capabilities, in_progress, idle, out,
        }).collect()
    }
}

proptest! {
    #[test]
    fn fitness_and_score_stay_within_0_and_1(
        required in any_capabilities(), have in any_capabilities(), in_progress in any::<u32>(), idle in any::<bool>(),
    ) {
        let fitness = fitness(&required, &have);
        prop_assert!((0.0..=1.0).contains(&fitness));
        prop_assert!((0.0..=1.0).contains(&score(fitness, in_progress, idle)));
    }

    #[test]
    fn ranking_does_not_depend_on_the_order_of_the_list(
        required in any_capabilities(),
        (given, shuffled) in any_candidates().prop_flat_map(|all| (Just(all.clone()), Just(all).prop_shuffle())),
    ) {
        let ranked = rank(&required, &given);
        prop_assert_eq!(&ranked, &rank(&required, &shuffled));
        prop_assert_eq!(ranked.len(), given.len());
        for pair in ranked.windows(2) {
            prop_assert_eq!(pair[0].order(&pair[1]), Ordering::Less);
            prop_assert!(pair[0].out.is_none() || pair[1].out.is_some());
        }
        for scored in &ranked {
            prop_assert!(scored.out.is_some() || scored.fitness > 0.0);
        }
    }

    #[test]
    fn the_best_one_may_always_pull_and_nobody_who_is_out(
        required in any_capabilities(), candidates in any_candidates(), waited in 0..20_u64,
    ) {
        let waited = Duration::from_secs(waited);
        let ranked = rank(&required, &candidates);
        for (place, scored) in ranked.iter().enumerate() {
            let may = may_pull(&scored.name, &required, &candidates, waited);
            if scored.out.is_some() {
                prop_assert!(!may);
            } else if place == 0 || waited >= LONG_ENOUGH {
                prop_assert!(may);
            }
        }
    }
}

#[test]
fn role_is_covered_by_nothing_but_the_role() {
    let wanted = [role_ability("Tester"), "code-edit".to_owned()];
    let general = list(&["general", "code-edit"]);
    assert!(close(fitness(&wanted, &general), 0.0));
    let tester = [general, vec![role_ability("tester ")]].concat();
    assert!(close(fitness(&wanted, &tester), 1.0));
    let only = [role_ability("tester")];
    assert!(close(fitness(&wanted, &only), 0.5));
}

#[test]
fn short_tags_stand_for_the_capabilities_they_abbreviate() {
    let codex = list(default_capabilities("codex"));
    let gemini = list(default_capabilities("gemini"));
    assert!(close(fitness(&list(&["security"]), &codex), 1.0));
    assert!(close(fitness(&list(&["docs"]), &gemini), 1.0));
    assert!(close(
        fitness(&list(&["documentation"]), &list(&["docs"])),
        1.0
    ));
    assert!(close(fitness(&list(&["docs"]), &codex), 0.0));
}

//! Every recorded stream gets the right verdict.

use std::fmt::Write as _;

use teamster_agents::{AgentEvent, AgentSpending, AgentVerdict, ErrorClass, Stopped, Usage};

use super::{APP_SERVER, Recorded, STREAMS, all, foreign, one, read, reader_for};

/// The streams of successful runs, by client. The agent has to deal with a tool that failed or was refused;
/// verification decides whether its work is good.
const SUCCESSES: [(&str, &[&str]); 4] = [
    (
        "claude",
        &[
            "deny",
            "fail",
            "mcp",
            "message",
            "message_late",
            "ok",
            "question",
            "question_unanswered",
            "questions",
            "resume",
            "text",
            "write",
        ],
    ),
    (
        "codex",
        &[
            "fail",
            "file_change",
            "mcp",
            "mcp_denied",
            "ok",
            "resume",
            "sandbox_git_commit",
            "sandbox_read_only",
            "text",
        ],
    ),
    (
        APP_SERVER,
        &[
            "approval",
            "approval_declined",
            "fail",
            "file_change",
            "mcp",
            "ok",
            "resume",
            "steer",
            "steer_after",
            "steer_late",
            "steer_refused",
            "text",
        ],
    ),
    (
        "gemini",
        &["deny", "fail", "mcp", "ok", "resume", "text", "write"],
    ),
];

/// The streams of runs that would have failed with any task.
const PAUSES: [(&str, &[(&str, ErrorClass)]); 4] = [
    (
        "claude",
        &[
            ("cut", ErrorClass::Outage),
            ("err401", ErrorClass::SignIn),
            ("err429", ErrorClass::RateLimit),
            ("err500", ErrorClass::Outage),
        ],
    ),
    (
        "codex",
        &[
            ("cut", ErrorClass::Outage),
            ("err401", ErrorClass::SignIn),
            ("err429", ErrorClass::RateLimit),
            ("err500", ErrorClass::Outage),
            ("failed", ErrorClass::Outage),
            ("hang", ErrorClass::Outage),
        ],
    ),
    (
        APP_SERVER,
        &[
            ("cut", ErrorClass::Outage),
            ("err401", ErrorClass::SignIn),
            ("err429", ErrorClass::RateLimit),
            ("err500", ErrorClass::Outage),
            ("failed", ErrorClass::Outage),
            ("hang", ErrorClass::Outage),
        ],
    ),
    (
        "gemini",
        &[
            ("cut", ErrorClass::Outage),
            ("err401", ErrorClass::SignIn),
            ("err429", ErrorClass::RateLimit),
            ("err500", ErrorClass::Outage),
        ],
    ),
];

#[test]
fn only_the_true_successes_are_done() {
    for (client, successes) in SUCCESSES {
        let done: Vec<String> = all(client)
            .into_iter()
            .filter(|run| run.played().1.verdict.is_done())
            .map(|run| run.name)
            .collect();
        assert_eq!(done, successes, "{client}");
    }
}

#[test]
fn rate_limits_outages_and_lost_sign_ins_cost_no_attempt() {
    for (client, pauses) in PAUSES {
        let paused: Vec<(String, ErrorClass)> = all(client)
            .into_iter()
            .filter_map(|run| match run.played().1.verdict {
                AgentVerdict::Paused { class, .. } => Some((run.name, class)),
                _ => None,
            })
            .collect();
        let expected: Vec<(String, ErrorClass)> = pauses
            .iter()
            .map(|(name, class)| ((*name).to_owned(), *class))
            .collect();
        assert_eq!(paused, expected, "{client}");
    }
}

#[test]
fn a_session_that_is_gone_is_told_apart_from_a_failure() {
    for client in STREAMS {
        let run = one(client, "resume_unknown");
        let outcome = run.played().1;
        assert!(
            matches!(outcome.verdict, AgentVerdict::SessionGone { .. }),
            "{client}: {outcome:?}"
        );
        // Without a requested session, the same words do not mean this.
        let reader = reader_for(client, None, &teamster_agents::Permissions::default());
        let (_, outcome) = read(reader, &run.stdout, run.ending(), &run.stderr);
        assert!(
            matches!(outcome.verdict, AgentVerdict::Failed { .. }),
            "{client}: {outcome:?}"
        );
    }
}

#[test]
fn one_that_we_interrupted_is_called_interrupted() {
    let mut seen = 0;
    for client in STREAMS {
        for run in all(client).into_iter().filter(|run| run.sent.is_some()) {
            let ending = run.ending().stopped(Stopped::Interrupted);
            let (_, outcome) = read(run.reader(), &run.stdout, ending, &run.stderr);
            assert_eq!(
                outcome.verdict,
                AgentVerdict::Interrupted,
                "{client} {}",
                run.name
            );
            assert!(outcome.started, "{client} {}", run.name);
            // When another program ended it, this is a failed attempt.
            let verdict = run.played().1.verdict;
            assert!(
                matches!(verdict, AgentVerdict::Failed { .. }),
                "{verdict:?}"
            );
            seen += 1;
        }
    }
    assert!(seen >= 9, "only {seen} recordings of signals");
}

#[test]
fn one_that_finished_while_we_stopped_it_is_done() {
    for client in STREAMS {
        let run = one(client, "ok");
        let ending = run.ending().stopped(Stopped::Interrupted);
        let (_, outcome) = read(run.reader(), &run.stdout, ending, "");
        assert!(outcome.verdict.is_done(), "{client}");
        let killed = teamster_agents::AgentEnd::signal(9).stopped(Stopped::Late);
        let (_, outcome) = read(run.reader(), &run.stdout, killed, "");
        assert!(
            matches!(outcome.verdict, AgentVerdict::Failed { .. }),
            "{client}"
        );
    }
}

#[test]
fn a_success_with_another_exit_code_is_none() {
    for client in STREAMS {
        let run = one(client, "ok");
        for code in [1, 2, 130, 143] {
            let ending = teamster_agents::AgentEnd::code(code);
            let (_, outcome) = read(run.reader(), &run.stdout, ending, "");
            assert!(!outcome.verdict.is_done(), "{client} {code}");
        }
    }
}

#[test]
fn gemini_that_waits_for_its_quota_is_paused_when_it_is_stopped() {
    let run = one("gemini", "err429");
    let begun = one("gemini", "hang_sigterm");
    for (stderr, class) in [
        (run.stderr, ErrorClass::RateLimit),
        (one("gemini", "err500").stderr, ErrorClass::Outage),
    ] {
        // The last lines before it gives up.
        let until = stderr.find("Attempt 10").unwrap();
        let ending = begun.ending().stopped(Stopped::Silent);
        let (_, outcome) = read(begun.reader(), &begun.stdout, ending, &stderr[..until]);
        match outcome.verdict {
            AgentVerdict::Paused { class: found, .. } => assert_eq!(found, class),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn claude_that_tries_again_without_end_is_paused_when_it_is_stopped() {
    let run = one("claude", "err429");
    let lines: Vec<&[u8]> = run.stdout.split_inclusive(|byte| *byte == b'\n').collect();
    let tried = lines
        .iter()
        .position(|line| String::from_utf8_lossy(line).contains("api_retry"))
        .unwrap();
    let stdout = lines[..=tried].concat();
    let ending = teamster_agents::AgentEnd::code(143).stopped(Stopped::Silent);
    let (_, outcome) = read(run.reader(), &stdout, ending, "");
    assert!(
        matches!(
            outcome.verdict,
            AgentVerdict::Paused {
                class: ErrorClass::RateLimit,
                ..
            }
        ),
        "{outcome:?}"
    );
}

#[test]
fn claude_that_answered_without_its_model_did_no_work() {
    let run = one("claude", "ok");
    let text = String::from_utf8(run.stdout.clone()).unwrap();
    // The output for a prompt such as `/help`.
    let stdout = text.replace("\"num_turns\":2", "\"num_turns\":0");
    assert_ne!(stdout, text);
    let (_, outcome) = read(run.reader(), stdout.as_bytes(), run.ending(), "");
    assert!(
        matches!(outcome.verdict, AgentVerdict::Failed { .. }),
        "{outcome:?}"
    );
}

fn used(input: u64, cached_input: u64, output: u64, reasoning: u64) -> Usage {
    Usage {
        input,
        cached_input,
        cache_write: 0,
        output,
        reasoning,
    }
}

/// Formats an amount as it is shown, for comparison.
fn dollars(spent: &AgentSpending) -> Option<String> {
    spent.cost_usd.map(|cost| format!("{cost:.6}"))
}

#[test]
fn usage_is_that_of_the_run_however_the_client_counts() {
    let spent = |client, name| one(client, name).played().1.spent;
    assert_eq!(spent("claude", "ok").usage, Some(used(2003, 400, 100, 0)));
    assert_eq!(dollars(&spent("claude", "ok")).as_deref(), Some("0.010092"));
    // The clients report 2003 tokens for codex's thread and 0.010092 $ for claude's session; half of that is from
    // before.
    assert_eq!(
        spent("claude", "resume").usage,
        Some(used(1002, 200, 50, 0))
    );
    assert_eq!(
        dollars(&spent("claude", "resume")).as_deref(),
        Some("0.005048")
    );
    assert_eq!(spent("codex", "ok").usage, Some(used(1603, 400, 100, 20)));
    assert_eq!(spent("codex", "resume").usage, Some(used(802, 200, 50, 10)));
    assert_eq!(
        spent(APP_SERVER, "ok").usage,
        Some(used(1603, 400, 100, 20))
    );
    assert_eq!(
        spent(APP_SERVER, "resume").usage,
        Some(used(802, 200, 50, 10))
    );
    assert_eq!(spent("gemini", "ok").usage, Some(used(1603, 400, 120, 20)));
    assert_eq!(
        spent("gemini", "resume").usage,
        Some(used(802, 200, 60, 10))
    );
    for client in ["codex", APP_SERVER, "gemini"] {
        assert_eq!(spent(client, "ok").cost_usd, None, "unknown is not 0");
    }
    // Three turns of one process: usage is reported for each, the cost for all together.
    let bidi = spent("claude", "bidi");
    assert_eq!(bidi.usage, Some(used(5015, 1000, 250, 0)));
    assert_eq!(dollars(&bidi).as_deref(), Some("0.025260"));
}

#[test]
fn claude_without_figures_for_each_turn_counts_from_the_session() {
    let mut run = one("claude", "resume");
    let text = String::from_utf8(run.stdout).unwrap();
    run.stdout = text
        .replace("model_usage_since_last_result", "something_else")
        .into_bytes();
    let spent = run.played().1.spent;
    assert_eq!(spent.usage, Some(used(1002, 200, 50, 0)));
    assert_eq!(dollars(&spent).as_deref(), Some("0.005048"));
}

#[test]
fn a_resumed_thread_whose_past_is_unknown_has_an_unknown_cost() {
    let run = one("codex", "resume");
    let reader = reader_for(
        "codex",
        Some(&AgentSpending::default()),
        &teamster_agents::Permissions::default(),
    );
    let (events, outcome) = read(reader, &run.stdout, run.ending(), "");
    assert!(outcome.verdict.is_done());
    assert_eq!(outcome.spent.usage, None);
    assert!(
        !events
            .iter()
            .any(|event| matches!(event, AgentEvent::Usage(_)))
    );
}

#[test]
fn what_an_interrupted_thread_used_is_told_with_its_next_run() {
    let first = one("codex", "text").played().1.spent;
    let cut = one("codex", "sigterm").played().1.spent;
    let before = first.then(cut);
    assert!(before.at_least);
    let run = one("codex", "resume");
    let reader = reader_for(
        "codex",
        Some(&before),
        &teamster_agents::Permissions::default(),
    );
    let (_, outcome) = read(reader, &run.stdout, run.ending(), "");
    assert_eq!(outcome.spent.usage, Some(used(802, 200, 50, 10)));
}

#[test]
fn the_usage_events_of_a_run_add_up_to_what_it_spent() {
    for client in STREAMS {
        for run in all(client) {
            let (events, outcome) = run.played();
            let told = events
                .iter()
                .fold(Usage::default(), |sum, event| match event {
                    AgentEvent::Usage(usage) => sum.plus(*usage),
                    _ => sum,
                });
            let spent = outcome.spent.usage.unwrap_or_default();
            assert_eq!(told, spent, "{client} {}", run.name);
        }
    }
}

#[test]
fn a_killed_client_has_spent_at_least_what_it_told() {
    let spent = one("claude", "sigkill").played().1.spent;
    assert!(spent.at_least);
    assert_eq!(spent.usage, Some(used(1001, 200, 1, 0)));
    assert_eq!(spent.cost_usd, None);
    let nothing = one("claude", "hang_sigterm").played().1.spent;
    assert_eq!((nothing.usage, nothing.cost_usd), (None, None));
}

#[test]
fn other_protocols_are_never_a_success() {
    let foreign = foreign();
    assert_eq!(foreign.len(), 4);
    for stdout in foreign {
        for client in STREAMS {
            let reader = reader_for(client, None, &teamster_agents::Permissions::default());
            let (_, outcome) = read(reader, &stdout, teamster_agents::AgentEnd::code(0), "");
            assert!(!outcome.verdict.is_done());
            assert!(!outcome.started);
        }
    }
}

/// Renders a run as a person reads it.
fn shown(run: &Recorded) -> String {
    let (events, outcome) = run.played();
    let mut text = format!("== {} ({:?})\n", run.name, run.exit);
    for event in events {
        let _ = writeln!(text, "{event:?}");
    }
    let _ = writeln!(text, "=> {:?}", outcome.verdict);
    let session = if outcome.session.is_some() {
        "known"
    } else {
        "none"
    };
    let _ = writeln!(
        text,
        "   started {}, session {session}, {:?}\n",
        outcome.started, outcome.spent
    );
    text
}

fn shown_all(client: &'static str) -> String {
    all(client).iter().map(shown).collect()
}

#[test]
fn the_streams_of_claude() {
    insta::assert_snapshot!("claude", shown_all("claude"));
}

#[test]
fn the_streams_of_codex() {
    insta::assert_snapshot!("codex", shown_all("codex"));
}

#[test]
fn the_streams_of_codex_app_server() {
    insta::assert_snapshot!("codex-app-server", shown_all(APP_SERVER));
}

#[test]
fn the_streams_of_gemini() {
    insta::assert_snapshot!("gemini", shown_all("gemini"));
}

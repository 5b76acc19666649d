//! Reports as people read them. The runs are recorded in a real store, so that the journal is a real one.

mod journal_builder;

use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use teamster_journal::payload::{CheckResult, CheckStarted, CheckVerdict, Checked};
use teamster_journal::{EventKind, NewEvent};
use teamster_store::rebuild::Tasks;
use teamster_types::Time;

use super::markdown::{block, cell, code_cell, escaped, moment, span};
use super::*;
use journal_builder::{BASE, JournalBuilder, WORK, check, rich, rich_and_over, talkative};

/// Adds the part of the input that the host adds.
fn with_the_hosts_part(mut input: ReportInput) -> ReportInput {
    input.diff_stat =
        " src/parse.rs | 12 ++++++------\n src/print.rs |  4 ++--\n 2 files changed, 8 insertions(+), 8 deletions(-)\n"
            .to_owned();
    input.findings = vec![(
        "reviewing.md".to_owned(),
        "# Review\n\nThe parser is fine.".to_owned(),
    )];
    input.left.extend([
        LeftBehind::branch(
            "omc-team/fix-auth/integration",
            Some(BASE),
            "the work of all tasks",
        ),
        LeftBehind::worktree(
            "fix-auth",
            "worker-2",
            ".omc/worktrees/fix-auth/worker-2",
            "1 file is not committed",
        ),
        LeftBehind::salvaged(
            "omc-team/fix-auth/integration.salvaged-1",
            "a check wrote into the project",
        ),
    ]);
    input
}

#[test]
fn a_rich_run_is_told_whole() {
    let input = with_the_hosts_part(rich_and_over().input());
    insta::assert_snapshot!("rich_report", page(&input));
}

#[test]
fn the_gate_shows_what_is_decided_about() {
    let input = with_the_hosts_part(rich().input());
    insta::assert_snapshot!("rich_gate", gate_text(&input));
}

#[test]
fn what_agents_say_is_in_the_report_and_at_the_gate() {
    let input = talkative().input();
    insta::assert_snapshot!("talkative_report", page(&input));
    insta::assert_snapshot!("talkative_gate", gate_text(&input));
}

#[test]
fn finding_that_a_later_one_of_its_phase_repeats_is_named_at_the_gate_and_not_shown_twice() {
    let mut input = talkative().input();
    let one = "# What was done\n\n- 1 (completed): Add the prices up\n";
    let finding = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    input.findings = vec![
        finding("executing-001.md", one),
        finding(
            "executing-002.md",
            &format!("{one}- 2 (completed): Print it\n"),
        ),
        finding("reviewing-001.md", "- sh check.sh: failed\n"),
        finding("reviewing-002.md", "- sh check.sh: passed\n"),
        finding("notes.md", one),
    ];
    input.shown = None;
    let gate = gate_text(&input);
    let shown = gate.split("\nFindings\n").nth(1).unwrap();
    let shown = shown.split("\n\nChanges\n").next().unwrap();
    insta::assert_snapshot!(shown, @r"
    executing-001.md: all of it is in executing-002.md
    executing-002.md
      # What was done

      - 1 (completed): Add the prices up
      - 2 (completed): Print it
    reviewing-001.md
      - sh check.sh: failed
    reviewing-002.md
      - sh check.sh: passed
    notes.md
      # What was done

      - 1 (completed): Add the prices up
    ");
}

#[test]
fn review_that_was_skipped_is_told_where_it_was_wanted() {
    let story = JournalBuilder::new(&["ann"]);
    let skipped = json!({"commit": WORK, "reason": "no agent is there to do it"});
    story.says("lead", "review.skipped", None, skipped);
    let gate = gate_text(&story.input());
    assert!(
        gate.contains("This work was not reviewed: no agent is there to do it."),
        "{gate}"
    );
}

#[test]
fn a_run_of_which_nothing_is_known_has_a_report_too() {
    let input = input_from(&"empty".parse().unwrap(), &[], &[]);
    insta::assert_snapshot!("empty_report", page(&input));
    insta::assert_snapshot!("empty_gate", gate_text(&input));
}

/// Names and texts that try to break the report.
fn hostile() -> ReportInput {
    let story = JournalBuilder::new(&["worker-1"]);
    let evil =
        "|a|b|\n# Heading\n<script>alert(1)</script> [x](http://e) `code` \u{1b}[2J\u{202e}gpj";
    let token = format!("ghp_{}", "a1B2".repeat(9));
    story.tell(
        0,
        "run.started",
        None,
        json!({"task": format!("{evil}\n\n```\nno fence\n1. list\n- {token}"), "agents": evil,
            "members": [{"name": "worker-9", "provider": evil, "role": evil}, {"name": evil}, {"name": 7}, "x"],
            "base": {"commit": evil, "branch": evil}, "uncommitted": "many", "verify": 3, "budget": []}),
    );
    story.task(evil, &[]);
    story.work(
        "worker-1",
        "1",
        1,
        json!({"tokensIn": "lots", "usd": "free"}),
        Ok("|x|"),
    );
    story.stage(1, evil, 0, evil);
    let last = format!("````\n{evil}\n{token}\n```");
    let failed = json!({"exitCode": "no", "seconds": -1, "last": last, "log": evil});
    let command = "grep 'a\\|b' `x` | wc -l";
    story.tell(
        0,
        "verify.failed",
        None,
        check("integration", command, 0, &failed),
    );
    let conflict = json!({"files": [evil, 3, null], "times": "often", "final": true});
    story.tell(0, "merge.conflict", Some("1"), conflict);
    let gate = json!({"gate": evil, "commit": evil});
    story.tell(0, "approval.requested", None, gate);
    story.tell(
        0,
        "approval.given",
        None,
        json!({"gate": evil, "by": evil, "text": evil, "commit": evil}),
    );
    story.tell(
        0,
        "budget.exhausted",
        None,
        json!({"what": "tokens", "limit": 5, "used": 7}),
    );
    story.tell(
        0,
        "run.finished",
        None,
        json!({"outcome": evil, "reason": evil, "exitCode": 1e300}),
    );
    let mut input = story.input();
    input.diff_stat = format!("{evil}\n```\n");
    input.findings = vec![(evil.to_owned(), format!("{evil}\n{token}"))];
    input
        .left
        .push(LeftBehind::branch("a'b; rm -rf ~", None, evil));
    input
}

#[test]
fn hostile_names_break_nothing() {
    let input = hostile();
    let (report, gate) = (page(&input), gate_text(&input));
    for text in [&report, &gate] {
        assert!(!text.contains("ghp_"), "{text}");
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text}");
    }
    insta::assert_snapshot!("hostile_report", report);
    insta::assert_snapshot!("hostile_gate", gate);
    // Every row of a table has as many cells as its heading.
    let mut columns = None;
    let mut fence = None;
    for line in report.lines() {
        if let Some(open) = fence {
            fence = (line != open).then_some(open);
            continue;
        }
        fence = line
            .strip_suffix("text")
            .filter(|line| line.starts_with("```"));
        if !line.starts_with('|') {
            columns = None;
            continue;
        }
        let count = bars(line);
        assert_eq!(*columns.get_or_insert(count), count, "{line}");
    }
    assert_eq!(fence, None, "every block is closed");
}

/// Counts the bars that separate cells: those that are not escaped with a backslash.
fn bars(line: &str) -> usize {
    let (mut count, mut is_escaped) = (0, false);
    for c in line.chars() {
        count += usize::from(c == '|' && !is_escaped);
        is_escaped = c == '\\' && !is_escaped;
    }
    count
}

#[test]
fn the_journal_alone_makes_the_same_report() {
    let story = rich_and_over();
    let events = story.events();
    let mut rebuilt = Tasks::default();
    for event in &events {
        rebuilt.apply(event);
    }
    assert_eq!(
        input_from(&story.team, &events, &rebuilt.remaining()),
        story.input()
    );
}

#[test]
fn every_beginning_of_a_journal_makes_a_report() {
    let story = rich_and_over();
    let events = story.events();
    for end in 0..=events.len() {
        let mut rebuilt = Tasks::default();
        for event in &events[..end] {
            rebuilt.apply(event);
        }
        let input = input_from(&story.team, &events[..end], &rebuilt.remaining());
        let report = page(&input);
        assert!(report.starts_with("# Report of team fix-auth\n"), "{end}");
        let is_over = events[..end]
            .iter()
            .any(|event| event.kind == "run.finished");
        assert_eq!(report.contains("The run is not over."), !is_over, "{end}");
        assert!(gate_text(&input).contains("\nDecide\n"), "{end}");
    }
}

#[test]
fn nothing_is_called_verified_that_is_not() {
    use CheckVerdict::{Failed, Flaky, Passed, Stopped};
    let run = |verdict, charged, round| CheckRun {
        checked: Checked {
            command: "x".to_owned(),
            source: String::new(),
            verdict,
            exit_code: None,
            signal: None,
            seconds: 0.0,
            last: String::new(),
            log: String::new(),
            remarks: Vec::new(),
        },
        round,
        commit: String::new(),
        charged,
    };
    for (checks, words) in [
        (
            vec![],
            "Nothing was verified: no command has looked at this work.",
        ),
        (vec![run(Passed, false, 0)], "Verified: 1 check passed."),
        (
            vec![run(Failed, true, 0), run(Passed, false, 1)],
            "Verified: 1 check passed.",
        ),
        (
            vec![run(Passed, false, 0), run(Failed, true, 1)],
            "Not fully verified: of 1 check, 1 failed.",
        ),
        (
            vec![run(Passed, false, 0), run(Flaky, false, 0)],
            "Not fully verified: of 2 checks, 1 flaky, which does not count as passed; 1 passed.",
        ),
        (
            vec![run(Failed, false, 0), run(Stopped, false, 0)],
            "Not fully verified: of 2 checks, 1 failed as before the work began; 1 did not finish.",
        ),
    ] {
        let mut input = ReportInput {
            checks,
            ..ReportInput::default()
        };
        for (number, run) in input.checks.iter_mut().enumerate() {
            run.checked.command = format!("check {number}");
        }
        assert_eq!(input.verified_words().as_str(), words);
    }
}

#[test]
fn a_check_that_was_not_run_on_this_commit_to_its_end_verifies_nothing() {
    let begun = |checks: &[&str]| {
        let story = JournalBuilder::new(&["worker-1"]);
        let verify: Vec<Value> = ["a", "b"]
            .map(|command| json!({"command": command, "source": "--verify"}))
            .into();
        story.tell(0, "run.started", None, json!({"verify": verify}));
        for command in checks {
            let data = check("integration", command, 0, &json!({}));
            story.tell(0, "verify.started", None, data.clone());
            story.tell(0, "verify.passed", None, data);
        }
        story
    };
    let words = |story: &JournalBuilder| story.input().verified_words().to_string();
    assert_eq!(words(&begun(&["a", "b"])), "Verified: 2 checks passed.");
    assert_eq!(
        words(&begun(&["a", "b", "a"])),
        "Verified: 2 checks passed.",
        "a host that took over may run one again"
    );
    assert_eq!(
        words(&begun(&["a"])),
        "Not fully verified: of 2 checks, 1 not run; 1 passed."
    );
    let story = begun(&["a"]);
    let data = check("integration", "b", 0, &json!({}));
    story.tell(0, "verify.started", None, data);
    assert_eq!(
        words(&story),
        "Not fully verified: of 2 checks, 1 did not finish; 1 passed."
    );
    let story = begun(&["a", "b"]);
    story.tell(0, "approval.requested", None, json!({"commit": BASE}));
    assert_eq!(
        words(&story),
        "Not verified: the checks ran on another commit, c1c1c1c1c1c1."
    );
}

#[test]
fn what_is_written_about_a_check_is_what_is_read() {
    use CheckVerdict::{Failed, Flaky, Passed, Stopped, TimedOut};
    for verdict in [Passed, Failed, Flaky, TimedOut, Stopped] {
        let story = JournalBuilder::new(&["worker-1"]);
        let checked = Checked {
            command: "cargo test".to_owned(),
            source: "Cargo.toml".to_owned(),
            verdict,
            exit_code: Some(3),
            signal: Some(9),
            seconds: 1.25,
            // The text is longer than a line of the journal may be.
            last: "a line of output\n".repeat(1_000),
            log: ".omc/logs/x".to_owned(),
            remarks: vec!["it left a process behind, which was ended".to_owned()],
        };
        let started = CheckStarted {
            on: "integration".to_owned(),
            commit: WORK.to_owned(),
            command: checked.command.clone(),
            round: 2,
            ..CheckStarted::default()
        };
        story.record(NewEvent::new("host", EventKind::VerifyStarted(started)));
        let charged = verdict.is_failure();
        let result = CheckResult::new("integration", WORK, 2, &checked, charged);
        if let Some(what) = result.event() {
            story.record(NewEvent::new("host", what));
        }
        let [run] = &story.input().checks[..] else {
            panic!("{verdict:?}: there is one run");
        };
        assert_eq!((run.round, run.commit.as_str()), (2, WORK));
        assert_eq!(run.charged, verdict.is_failure());
        if verdict == Stopped {
            assert_eq!(run.checked.verdict, Stopped);
        } else {
            assert_eq!(run.checked, checked);
        }
    }
}

#[test]
fn moments_and_spans_are_said_to_the_second() {
    assert_eq!(moment(Time::from_millis(0)), "1970-01-01 00:00:00Z");
    for (millis, words) in [
        (0, "0.0 s"),
        (4_250, "4.2 s"),
        (59_999, "59 s"),
        (65_000, "1 min 05 s"),
        (7_380_000, "2 h 03 min"),
    ] {
        assert_eq!(span(Duration::from_millis(millis)), words);
    }
}

#[test]
fn what_can_be_pasted_is_quoted() {
    let left = LeftBehind::branch("a'b; rm -rf ~", Some("main"), "");
    assert_eq!(
        left.command,
        r"git log --stat 'main..refs/heads/a'\''b; rm -rf ~' --"
    );
}

proptest! {
    #[test]
    fn any_text_is_one_cell(text in r"(\PC|[\x00-\x20\\|`<>*_\[\]\x1b\x{202e}]){0,40}") {
        for shown in [cell(&text), code_cell(&text), escaped(&text)] {
            prop_assert_eq!(bars(&format!("| {shown} |")), 2, "{}", shown);
            let is_quiet = !shown.contains(['\n', '\r', '\u{1b}', '\u{202e}']);
            prop_assert!(is_quiet, "{}", shown);
        }
        prop_assert!(!cell(&text).contains('<'));
    }

    #[test]
    fn no_text_closes_its_block(text in r"([`~\n a|#]){0,60}") {
        let block = block(&text);
        let fence = block.lines().next().unwrap().trim_end_matches("text");
        let closed: Vec<usize> = block
            .lines()
            .enumerate()
            .filter(|(_, line)| line.trim_start().starts_with(fence))
            .map(|(number, _)| number)
            .collect();
        prop_assert_eq!(closed, [0, block.lines().count() - 1]);
    }
}

#[test]
#[allow(
    clippy::disallowed_methods,
    reason = "the test looks at the file as any other program would"
)]
fn a_report_is_kept_where_people_look_for_it() {
    let scratch = teamster_testkit::scratch::Scratch::new("report");
    let project = Dir::open_root(&scratch.project()).unwrap().unwrap();
    let team = "fix-auth".parse().unwrap();
    for text in ["first", "second"] {
        let path = keep(&project, &team, text).unwrap();
        assert_eq!(path, ".omc/reports/fix-auth/report.md");
        let kept = std::fs::read_to_string(scratch.project().join(path)).unwrap();
        assert_eq!(kept, text);
    }
}

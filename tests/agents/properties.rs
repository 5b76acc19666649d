//! Properties that hold for every stream, whatever it contains.

use std::sync::OnceLock;

use proptest::prelude::*;
use teamster_agents::{AgentEnd, AgentEvent, Exit, Permissions, Stopped};

use super::{Recorded, STREAMS, all, one, read, reader_for};

/// A partial line changes nothing, so a stream that is cut within a line equals the stream of the lines before it.
#[test]
fn no_stream_that_was_cut_anywhere_is_done() {
    for client in STREAMS {
        for run in all(client) {
            // These recordings have several turns, each with a result, or lines after the end.
            if ["bidi", "message_late", "steer_after"].contains(&run.name.as_str()) {
                continue;
            }
            let lines: Vec<&[u8]> = run.stdout.split_inclusive(|byte| *byte == b'\n').collect();
            for (whole, line) in lines.iter().enumerate() {
                let mut reader = run.reader();
                for line in &lines[..whole] {
                    reader.line(line);
                }
                // Cut at every byte of the deciding line, and at every seventh of long lines before it.
                let step = if whole + 1 == lines.len() || line.len() < 600 {
                    1
                } else {
                    7
                };
                for cut in (0..line.trim_ascii_end().len()).step_by(step) {
                    let step = reader.line(&line[..cut]);
                    let is_known = |event: &AgentEvent| !matches!(event, AgentEvent::Unknown(_));
                    assert!(
                        !step.events.iter().any(is_known),
                        "{client} {}: {step:?}",
                        run.name
                    );
                    assert!(step.replies.is_empty() && !step.close_input);
                }
                let verdict = reader.end(AgentEnd::code(0), "").verdict;
                assert!(
                    !verdict.is_done(),
                    "{client} {} after {whole} lines",
                    run.name
                );
            }
        }
    }
}

#[test]
fn a_line_of_ten_megabytes_is_read_like_any_other() {
    let long = "x".repeat(10 * 1024 * 1024);
    for client in STREAMS {
        let run = one(client, "ok");
        let mut lines: Vec<Vec<u8>> = run
            .stdout
            .split_inclusive(|byte| *byte == b'\n')
            .map(<[u8]>::to_vec)
            .collect();
        let noise = [
            format!("{long}\n").into_bytes(),
            format!("{{\"type\":\"{long}\"}}\n").into_bytes(),
            format!("{{\"type\":\"assistant\",\"message\":{{\"content\":[{{\"type\":\"text\",\"text\":\"{long}\"}}]}}}}\n").into_bytes(),
            format!("{{\"type\":\"message\",\"role\":\"assistant\",\"content\":\"{long}\",\"delta\":true}}\n").into_bytes(),
            [b"\xff\xfe".repeat(1_000_000), b"\n".to_vec()].concat(),
        ];
        lines.splice(1..1, noise);
        let (events, outcome) = read(run.reader(), &lines.concat(), run.ending(), "");
        assert!(outcome.verdict.is_done(), "{client}: {:?}", outcome.verdict);
        let size: usize = events.iter().map(|event| format!("{event:?}").len()).sum();
        // Two of the texts are cut at a mebibyte each.
        assert!(size < 3_000_000, "{client}: {size} bytes of events");
    }
}

const TYPES: &str = "result system assistant user item.completed item.started turn.completed turn.failed message \
    tool_use tool_result control_request error used finished failed started";
const KEYS: &str = "type subtype is_error result status usage item message content stats error request request_id \
    tool_name input file_path id changes path errors role delta exit_code input_tokens total_tokens cached \
    total_cost_usd summary text model_usage_since_last_result";
const WORDS: &str = "result init success error agent_message command_execution file_change can_use_tool Write Bash \
    api_retry permission_denied tool_use tool_result text assistant completed";

fn one_of(words: &'static str) -> impl Strategy<Value = &'static str> + Clone {
    prop::sample::select(words.split_whitespace().collect::<Vec<_>>())
}

fn fields(values: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    let field = (one_of(KEYS), values).prop_map(|(key, value)| format!("{key:?}:{value}"));
    prop::collection::vec(field, 0..5).prop_map(|fields| fields.join(","))
}

/// Generates values that resemble the clients' own, with arbitrary values in all places.
fn any_event() -> impl Strategy<Value = String> {
    let odd = [
        "null",
        "true",
        "-1",
        "1e999",
        "18446744073709551615",
        "\"../../etc\\u0000\"",
        "\"\"",
    ];
    let leaf = prop_oneof![
        one_of(WORDS).prop_map(|word| format!("{word:?}")),
        prop::sample::select(odd.to_vec()).prop_map(str::to_owned),
    ];
    let value = leaf.prop_recursive(3, 16, 4, |inner| {
        let list = prop::collection::vec(inner.clone(), 0..3);
        prop_oneof![
            list.prop_map(|list| format!("[{}]", list.join(","))),
            fields(inner).prop_map(|fields| format!("{{{fields}}}")),
        ]
    });
    (one_of(TYPES), fields(value)).prop_map(|(kind, fields)| match fields.as_str() {
        "" => format!("{{\"type\":{kind:?}}}"),
        fields => format!("{{{fields},\"type\":{kind:?}}}"),
    })
}

fn any_ending() -> impl Strategy<Value = AgentEnd> {
    let exit = prop_oneof![
        (0..256_i32).prop_map(Exit::Code),
        (1..32_i32).prop_map(Exit::Signal),
        Just(Exit::Unknown),
    ];
    let stopped = prop::option::of(prop::sample::select(vec![
        Stopped::Interrupted,
        Stopped::Silent,
        Stopped::Late,
    ]));
    (exit, stopped).prop_map(|(exit, stopped)| AgentEnd { exit, stopped })
}

/// Returns the recorded runs that were not successful.
fn failed_runs() -> &'static [Recorded] {
    static RUNS: OnceLock<Vec<Recorded>> = OnceLock::new();
    RUNS.get_or_init(|| {
        let runs = STREAMS.iter().flat_map(|client| all(client));
        runs.filter(|run| !run.stdout.is_empty() && !run.played().1.verdict.is_done())
            .collect()
    })
}

const READERS: [&str; 6] = [
    "claude",
    "codex",
    "codex-app-server",
    "gemini",
    "command:x",
    "scripted:x",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_make_a_reader_panic_or_a_success(
        bytes in prop::collection::vec(any::<u8>(), 0..2000), ending in any_ending(), stderr in ".{0,200}"
    ) {
        for word in READERS {
            let (_, outcome) = read(reader_for(word, None, &Permissions::default()), &bytes, ending, &stderr);
            // A command has no terminal event, so only its exit code counts.
            prop_assert!(word == "command:x" || !outcome.verdict.is_done());
        }
    }

    #[test]
    fn no_odd_event_makes_a_reader_panic_and_none_is_done_without_exit_code_0(
        lines in prop::collection::vec(any_event(), 0..12), ending in any_ending()
    ) {
        let text = lines.join("\n");
        for word in READERS {
            let (_, outcome) = read(reader_for(word, None, &Permissions::default()), text.as_bytes(), ending, "");
            if ending.exit != Exit::Code(0) {
                prop_assert!(!outcome.verdict.is_done());
            }
        }
    }

    #[test]
    fn a_flipped_byte_never_makes_a_failed_run_a_success(
        pick in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), bit in 0..8_u8
    ) {
        let failed = failed_runs();
        let run = &failed[pick.index(failed.len())];
        let mut stdout = run.stdout.clone();
        let at = at.index(stdout.len());
        stdout[at] ^= 1 << bit;
        let (_, outcome) = read(run.reader(), &stdout, run.ending(), &run.stderr);
        prop_assert!(!outcome.verdict.is_done());
    }
}

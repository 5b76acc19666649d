//! For any settings in any style: installing and removing changes nothing, and installing adds exactly teamster's
//! entries.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::backup::Backup;
use super::{backup, hooks, merge};

const CASES: u32 = 200;
const HERE: &str = "/opt/my tools/teamster";
const THERE: &str = "/usr/bin/teamster";

/// A JSON document before it is written as text. Keys may repeat.
#[derive(Clone, Debug)]
enum JsonDoc {
    Plain(String),
    Array(Vec<JsonDoc>),
    Object(Vec<(String, JsonDoc)>),
}

/// A style of writing a document.
#[derive(Clone, Debug)]
enum WritingStyle {
    Lines {
        unit: &'static str,
        newline: &'static str,
    },
    CommaFirst,
    Hugging,
    OneLine {
        colon: &'static str,
        comma: &'static str,
        pad: &'static str,
    },
    Chaos(Vec<&'static str>),
}

struct Writer<'a> {
    hand: &'a WritingStyle,
    gaps: usize,
    text: String,
}

impl Writer<'_> {
    fn gap(&mut self) {
        if let WritingStyle::Chaos(gaps) = self.hand {
            self.text.push_str(gaps[self.gaps % gaps.len()]);
            self.gaps += 1;
        }
    }

    fn begin(&mut self, depth: usize, is_first: bool) {
        match self.hand {
            WritingStyle::Lines { unit, newline } => {
                self.text.push_str(if is_first { "" } else { "," });
                self.text.push_str(newline);
                self.text.push_str(&unit.repeat(depth));
            }
            WritingStyle::CommaFirst => {
                self.text.push('\n');
                self.text.push_str(&"  ".repeat(depth));
                self.text.push_str(if is_first { "" } else { ", " });
            }
            WritingStyle::Hugging => self.text.push_str(if is_first { "" } else { ", " }),
            WritingStyle::OneLine { comma, pad, .. } => {
                self.text.push_str(if is_first { pad } else { comma });
            }
            WritingStyle::Chaos(_) => {
                self.text.push_str(if is_first { "" } else { "," });
                self.gap();
            }
        }
    }

    fn end(&mut self, depth: usize) {
        match self.hand {
            WritingStyle::Lines { unit, newline } => {
                self.text.push_str(newline);
                self.text.push_str(&unit.repeat(depth));
            }
            WritingStyle::CommaFirst => {
                self.text.push('\n');
                self.text.push_str(&"  ".repeat(depth));
            }
            WritingStyle::OneLine { pad, .. } => self.text.push_str(pad),
            WritingStyle::Hugging => {}
            WritingStyle::Chaos(_) => self.gap(),
        }
    }

    fn write(&mut self, doc: &JsonDoc, depth: usize) {
        let items: Vec<(Option<&String>, &JsonDoc)> = match doc {
            JsonDoc::Plain(text) => {
                self.text.push_str(text);
                return;
            }
            JsonDoc::Array(elements) => elements.iter().map(|one| (None, one)).collect(),
            JsonDoc::Object(members) => members.iter().map(|(key, one)| (Some(key), one)).collect(),
        };
        let is_object = matches!(doc, JsonDoc::Object(_));
        self.text.push(if is_object { '{' } else { '[' });
        let is_empty = items.is_empty();
        for (at, (key, value)) in items.into_iter().enumerate() {
            self.begin(depth + 1, at == 0);
            if let Some(key) = key {
                self.text.push_str(&Value::from(key.as_str()).to_string());
                self.gap();
                self.text.push_str(match self.hand {
                    WritingStyle::OneLine { colon, .. } => colon,
                    WritingStyle::Chaos(_) => ":",
                    // In this style an object breaks after its key, so that the text has lines and no indentation.
                    WritingStyle::Hugging => ":\n  ",
                    _ => ": ",
                });
                self.gap();
            }
            self.write(value, depth + 1);
            self.gap();
        }
        if is_empty {
            self.gap();
        } else {
            self.end(depth);
        }
        self.text.push(if is_object { '}' } else { ']' });
    }
}

fn plain() -> impl Strategy<Value = JsonDoc> {
    prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("-0.50e+3".to_owned()),
        Just("12345678901234567890".to_owned()),
        Just(r#""a\u0062\n\"\\\/ \ud83d\ude00""#.to_owned()),
        ".{0,8}".prop_map(|text| Value::from(text).to_string()),
    ]
    .prop_map(JsonDoc::Plain)
}

fn anything() -> impl Strategy<Value = JsonDoc> {
    plain().prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(JsonDoc::Array),
            vec(("[a-c{}\"\\\\,:]{0,2}", inner), 0..3).prop_map(JsonDoc::Object),
        ]
    })
}

fn text(text: &str) -> JsonDoc {
    JsonDoc::Plain(Value::from(text).to_string())
}

/// A hook group of another tool, or one that no client would accept.
fn group() -> impl Strategy<Value = JsonDoc> {
    let command = prop_oneof![
        Just("notify-send done"),
        Just("teamster hook"),
        Just("/opt/teamster-2 hook Stop"),
        Just("TEAMSTER_DEBUG=1 teamster hook Stop"),
    ];
    let hook = command.prop_map(|command| {
        JsonDoc::Object(vec![
            ("type".to_owned(), text("command")),
            ("command".to_owned(), text(command)),
        ])
    });
    let group = (vec(hook, 0..3), any::<bool>()).prop_map(|(hooks, matched)| {
        let mut members = vec![("hooks".to_owned(), JsonDoc::Array(hooks))];
        if matched {
            members.insert(0, ("matcher".to_owned(), text("Bash")));
        }
        JsonDoc::Object(members)
    });
    prop_oneof![4 => group, 1 => anything()]
}

fn settings() -> impl Strategy<Value = JsonDoc> {
    let event = prop_oneof![
        proptest::sample::select(hooks::events(false)).prop_map(str::to_owned),
        Just("UserPromptSubmit".to_owned()),
    ];
    let events = vec((event, vec(group(), 0..3).prop_map(JsonDoc::Array)), 0..5);
    let hooks = prop_oneof![Just(None), events.prop_map(Some)];
    let others = || vec(("[a-z]{1,4}", anything()), 0..3);
    (others(), hooks, others()).prop_map(|(before, hooks, after)| {
        let hooks = hooks.map(|events| ("hooks".to_owned(), JsonDoc::Object(events)));
        JsonDoc::Object(before.into_iter().chain(hooks).chain(after).collect())
    })
}

fn writing_style() -> impl Strategy<Value = WritingStyle> {
    let newline = prop_oneof![Just("\n"), Just("\r\n")];
    let unit = prop_oneof![Just("  "), Just("    "), Just("\t"), Just(" "), Just("")];
    let chaos = proptest::sample::select(vec!["", " ", "\n", "\r\n", "\t", "  ", "\n\n   "]);
    prop_oneof![
        4 => (unit, newline).prop_map(|(unit, newline)| WritingStyle::Lines { unit, newline }),
        1 => Just(WritingStyle::CommaFirst),
        1 => Just(WritingStyle::Hugging),
        2 => (
            proptest::sample::select(vec![":", ": ", " : "]),
            proptest::sample::select(vec![",", ", ", " , "]),
            proptest::sample::select(vec!["", " "]),
        )
            .prop_map(|(colon, comma, pad)| WritingStyle::OneLine { colon, comma, pad }),
        2 => vec(chaos, 1..9).prop_map(WritingStyle::Chaos),
    ]
}

/// Settings as a user might have written them.
fn written() -> impl Strategy<Value = String> {
    let around = proptest::sample::select(vec!["", "\n", "\r\n", " \n\n"]);
    (
        settings(),
        writing_style(),
        around.clone(),
        around,
        any::<bool>(),
    )
        .prop_map(|(doc, hand, before, after, marked)| {
            let mut writer = Writer {
                hand: &hand,
                gaps: 0,
                text: if marked { "\u{feff}" } else { "" }.to_owned() + before,
            };
            writer.write(&doc, 0);
            writer.text + after
        })
}

fn value(text: &str) -> Value {
    serde_json::from_str(text.trim_start_matches('\u{feff}')).unwrap()
}

/// What another implementation would have made of the settings.
fn plus_ours(mut settings: Value, program: &str, events: &[&str]) -> Value {
    let root = settings.as_object_mut().unwrap();
    let all = root.entry("hooks").or_insert_with(|| json!({}));
    for event in events {
        let groups = all.as_object_mut().unwrap();
        let groups = groups.entry(*event).or_insert_with(|| json!([]));
        let group = hooks::group(event, &hooks::command(program, event));
        groups.as_array_mut().unwrap().push(group);
    }
    settings
}

/// Removes everything that is ambiguous after a removal of the hooks: an empty array of an event, an empty `hooks`.
fn pruned(mut settings: Value, events: &[&str]) -> Value {
    let root = settings.as_object_mut().unwrap();
    if let Some(all) = root.get_mut("hooks").and_then(Value::as_object_mut) {
        all.retain(|event, groups| !(events.contains(&event.as_str()) && *groups == json!([])));
        if all.is_empty() {
            root.shift_remove("hooks");
        }
    }
    settings
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn in_and_out_again_is_no_change(old in written(), light: bool) {
        let events = hooks::events(light);
        let new = merge::add_hooks(&old, HERE, &events).unwrap();
        prop_assert_eq!(value(&new), plus_ours(value(&old), HERE, &events));
        prop_assert_eq!(&merge::add_hooks(&new, HERE, &events).unwrap(), &new);

        // Newest first, as they are listed: an empty `hooks` and a missing one become equal when the hooks are added.
        let backups = [Backup::new("b", &old), Backup::new("a", "{}")];
        prop_assert_eq!(backup::original(&backups[..1], &new), Some(old.as_str()));
        prop_assert_eq!(value(backup::original(&backups, &new).unwrap()), value(&old));

        // Without a backup, only ambiguous parts may differ from the original.
        let (left, mut found) = merge::remove_hooks(&new).unwrap();
        found.sort_unstable();
        let mut all = events.clone();
        all.sort_unstable();
        prop_assert_eq!(found, all);
        let was = pruned(value(&old), &events);
        match left {
            None => prop_assert_eq!(was, json!({})),
            Some(left) if was == value(&old) => prop_assert_eq!(left, old),
            Some(left) => prop_assert_eq!(pruned(value(&left), &events), was),
        }
    }

    #[test]
    fn a_moved_binary_and_a_second_thought_leave_no_trace(old in written()) {
        let (light, full) = (hooks::events(true), hooks::events(false));
        let new = merge::add_hooks(&old, HERE, &full).unwrap();
        let moved = merge::add_hooks(&merge::add_hooks(&old, THERE, &full).unwrap(), HERE, &full).unwrap();
        prop_assert_eq!(&moved, &new);
        let added = merge::add_hooks(&merge::add_hooks(&old, HERE, &light).unwrap(), HERE, &full).unwrap();
        prop_assert_eq!(&added, &new);
        let lighter = merge::add_hooks(&new, HERE, &light).unwrap();
        let directly = merge::add_hooks(&old, HERE, &light).unwrap();
        if pruned(value(&old), &full) == value(&old) {
            prop_assert_eq!(lighter, directly);
        } else {
            prop_assert_eq!(pruned(value(&lighter), &full), pruned(value(&directly), &full));
        }
    }

    #[test]
    fn a_broken_text_is_refused_and_never_a_panic(old in written(), at in any::<prop::sample::Index>(), junk in ".{0,2}") {
        let cut: Vec<char> = old.chars().collect();
        let at = at.index(cut.len() + 1);
        let broken: String = cut[..at].iter().collect::<String>() + &junk;
        let is_json = serde_json::from_str::<Value>(broken.trim_start_matches('\u{feff}')).is_ok();
        if !is_json && !merge::is_blank(&broken) {
            prop_assert!(merge::add_hooks(&broken, HERE, &hooks::events(false)).is_err());
            prop_assert!(merge::remove_hooks(&broken).is_err());
        }
    }
}

//! What a line of a journal says about its place, read without building the event.
//!
//! The end of a journal and its damaged lines are looked for in whole commits and files. Building an event takes most of
//! the time for that, and nearly every line can be told to be an event without it.

use memchr::memmem;
use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use teamster_journal::Event;
use teamster_types::{TaskId, Time};

/// A line with more brackets than this could be nested too deeply for an event.
const MOST_BRACKETS: usize = 100;

/// What decides where a journal ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EventOutline {
    /// The position of the event.
    pub(super) seq: u64,
    /// Whether the next event belongs to the same commit.
    pub(super) more: bool,
}

impl EventOutline {
    /// Reads the line of an event; an error if it is not one.
    pub(super) fn of(line: &[u8]) -> serde_json::Result<Self> {
        if let Some(outline) = certain_outline(line) {
            return Ok(outline);
        }
        let Event { seq, more, .. } = serde_json::from_slice(line)?;
        Ok(Self { seq, more })
    }
}

/// The fields of an event, of which the payload is not built. Texts with escapes do not fit.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EventFields<'a> {
    seq: u32,
    #[serde(rename = "id")]
    _id: &'a str,
    ts: &'a str,
    #[serde(rename = "team")]
    _team: &'a str,
    #[serde(rename = "type")]
    _kind: &'a str,
    #[serde(rename = "actor")]
    _actor: &'a str,
    #[serde(default, rename = "taskId")]
    _task_id: Option<TaskId>,
    #[serde(default)]
    more: bool,
    #[serde(default, rename = "data")]
    _data: IgnoredObject,
}

/// An object of which only the syntax is checked.
#[derive(Default)]
struct IgnoredObject;

impl<'de> Deserialize<'de> for IgnoredObject {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        struct IgnoredEntries;
        impl<'de> Visitor<'de> for IgnoredEntries {
            type Value = IgnoredObject;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<IgnoredObject, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(IgnoredObject)
            }
        }
        from.deserialize_map(IgnoredEntries)
    }
}

/// Returns the outline of a line that is certainly an event, without building the event. Of other lines nothing is known.
fn certain_outline(line: &[u8]) -> Option<EventOutline> {
    // What the parser accepts where it ignores a value, and refuses where it builds one.
    let is_unusual = memmem::find(line, br"\u").is_some()
        || memmem::find(line, b"$serde_json").is_some()
        || memchr::memchr2_iter(b'{', b'[', line).count() > MOST_BRACKETS;
    if is_unusual {
        return None;
    }
    let text = std::str::from_utf8(line).ok()?;
    let fields: EventFields<'_> = serde_json::from_str(text).ok()?;
    fields.ts.parse::<Time>().ok()?;
    (fields.seq > 0).then_some(EventOutline {
        seq: fields.seq.into(),
        more: fields.more,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, proptest};
    use teamster_journal::Event;

    use super::{EventOutline, certain_outline};

    const LINE: &str = r#"{"seq":7,"id":"e-7","ts":"2026-01-02T03:04:05.678Z","team":"crew","type":"task.claimed","actor":"ann","taskId":"3","more":true,"data":{"a":[1,{"b":null}],"c":"text"}}"#;

    fn is_event(line: &[u8]) -> bool {
        serde_json::from_slice::<Event>(line).is_ok()
    }

    fn is_certainly_event(line: &[u8]) -> bool {
        certain_outline(line).is_some()
    }

    #[test]
    fn usual_lines_are_recognized() {
        let outline = EventOutline { seq: 7, more: true };
        assert_eq!(certain_outline(LINE.as_bytes()), Some(outline));
        let least =
            r#"{"seq":1,"id":"","ts":"2026-01-02T03:04:05Z","team":"","type":"","actor":""}"#;
        assert!(is_certainly_event(least.as_bytes()) && is_event(least.as_bytes()));
    }

    #[test]
    fn lines_that_only_building_an_event_refuses_are_not_recognized() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        for (part, other) in [
            ("\"text\"", r#""\ud800""#),
            ("\"text\"", &deep),
            ("\"text\"", r#"{"$serde_json::private::Number":"x"}"#),
            ("\"c\"", r#""\ud800""#),
            ("\"3\"", r#""../3""#),
            ("2026-01", "2026-13"),
            ("{\"a\":[1,{\"b\":null}],\"c\":\"text\"}", "[]"),
            ("\"seq\":7", "\"seq\":7,\"seq\":7"),
            ("\"more\":true", "\"more\":1"),
        ] {
            let line = LINE.replace(part, other);
            assert_ne!(line, LINE, "{part}");
            assert!(!is_event(line.as_bytes()), "{line}");
            assert!(!is_certainly_event(line.as_bytes()), "{line}");
            assert!(EventOutline::of(line.as_bytes()).is_err(), "{line}");
        }
        let escaped = LINE.replace("text", r"\u0041");
        let outline = EventOutline { seq: 7, more: true };
        assert_eq!(EventOutline::of(escaped.as_bytes()).unwrap(), outline);
        let mut line = LINE.as_bytes().to_vec();
        let text = LINE.find("text").unwrap();
        line[text] = 0xff;
        assert!(!is_event(&line) && !is_certainly_event(&line));
    }

    proptest! {
        /// A line with some bytes overwritten, as by a failing disk.
        #[test]
        fn what_is_recognized_is_an_event(at in 0..LINE.len(), with in proptest::collection::vec(proptest::num::u8::ANY, 1..4)) {
            let mut line = LINE.as_bytes().to_vec();
            for (place, byte) in line[at..].iter_mut().zip(with) {
                *place = byte;
            }
            prop_assert!(!is_certainly_event(&line) || is_event(&line));
        }
    }
}

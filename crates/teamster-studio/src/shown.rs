//! Sanitises texts: everything that is sent to a page or a screen passes through here.

use serde::Serialize;
use serde_json::Value;
use teamster_types::redact::redact_json;
use teamster_types::text::clean;

/// The maximum length of a text within a response, in characters. Longer texts have their own route.
const LONGEST: usize = 64 * 1024;

/// Returns the value as JSON, with secrets redacted and without control or deceptive characters.
pub fn to_json(value: &impl Serialize) -> Value {
    up_to(value, LONGEST)
}

/// Returns the value as JSON text, redacted and cleaned but not shortened: the caller has limited its texts.
pub(crate) fn full_text(value: &impl Serialize) -> String {
    up_to(value, usize::MAX).to_string()
}

fn up_to(value: &impl Serialize, longest: usize) -> Value {
    let mut value = serde_json::to_value(value).unwrap_or_default();
    redact_json(&mut value);
    clean_all(&mut value, longest);
    value
}

/// Returns the value as JSON text: redacted, cleaned, and with all texts limited to what a page needs.
pub fn display_json(value: &impl Serialize) -> String {
    to_json(value).to_string()
}

fn clean_all(value: &mut Value, longest: usize) {
    match value {
        Value::String(text) => {
            if let std::borrow::Cow::Owned(shown) = clean(text, longest) {
                *text = shown;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| clean_all(item, longest)),
        Value::Object(entries) => {
            let is_odd = |key: &String| matches!(clean(key, 256), std::borrow::Cow::Owned(_));
            if entries.keys().any(is_odd) {
                let all = std::mem::take(entries);
                entries.extend(
                    all.into_iter()
                        .map(|(key, value)| (clean(&key, 256).into_owned(), value)),
                );
            }
            for entry in entries.values_mut() {
                clean_all(entry, longest);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_that_deceives_or_tells_a_secret_gets_through() {
        let secret = format!("sk-ant-api03-{}", "a1B2".repeat(24));
        let shown = display_json(&json!({
            "na\u{202e}me": "a\u{1b}[31mb\u{202e}c<img src=x onerror=alert(1)>",
            "list": [format!("key {secret}"), "two\nlines"],
            "long": "x".repeat(1_000_000),
        }));
        assert!(!shown.contains('\u{1b}') && !shown.contains("\\u001b"));
        assert!(!shown.contains('\u{202e}'));
        assert!(!shown.contains(&secret));
        assert!(
            shown.contains("<img src=x onerror=alert(1)>"),
            "text stays text"
        );
        assert!(shown.contains("two\\nlines"));
        assert!(shown.len() < 100_000, "{}", shown.len());
    }
}

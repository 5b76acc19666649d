//! Finds secrets in texts and replaces them.
//!
//! [`redact`] goes over a text once, from left to right, and replaces what looks like a secret with `[redacted]`:
//! tokens of well-known shapes, `Authorization` headers, private-key blocks, values of variables that are named like
//! a secret, and credentials in URLs. It is for what people and logs see; task files, inboxes and prompts must
//! arrive as written and never pass through here.
//!
//! What must stay true, and why the scanner is written as it is:
//! - Linear: every look ahead is bounded, or goes over text that is then consumed, or stops where the next look
//!   begins. Ten megabytes of `sk-` are as quick as ten megabytes of prose.
//! - Idempotent: a `[redacted]` in the text is a wall. Nothing looks across it, a match leaves the scanner in the
//!   state in which it begins behind a wall, and a value that leans against a wall has been looked at already.
//! - The rest of the text stays byte for byte as it was, so a line of JSON stays a line of JSON.
//!
//! It is written by hand because a hook redacts a few short texts in a process that takes about 2.3 ms of CPU. Single
//! measurements on a busy machine, so rough: the first scan of four such texts took 14 and 48 µs. One expression for the 89
//! shapes of tokens took 0.8 to 1.2 ms to compile and search once with the `regex` crate, and 0.30 to 0.34 ms with
//! `regex-lite`, 13 % of a hook or more. `regex-lite` with the bare prefixes took 0.13 ms, 6 %, but would replace only the
//! look-up in the table: lengths, proofs, names, quotes, headers and torn keys would stay code.
//!
//! Redact first, then [`clean`](crate::text::clean): a secret that was cut in two is no longer seen as one.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::Value;

mod header;
mod key_block;
mod lines;
mod named;
mod scan;
mod shapes;
mod values;

pub use lines::LineRedactor;

/// The text that replaces a secret.
pub const MASK: &str = "[redacted]";

/// Returns the text with every secret replaced by [`MASK`]; borrowed when there is none.
pub fn redact(text: &str) -> Cow<'_, str> {
    let secrets = scan::secrets(text);
    if secrets.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut kept = 0;
    for secret in secrets {
        shown.push_str(&text[kept..secret.start]);
        shown.push_str(MASK);
        kept = secret.end;
    }
    shown.push_str(&text[kept..]);
    Cow::Owned(shown)
}

/// Returns the ranges of keys that are recognized by their own shape, in order: tokens of well-known shapes and private
/// keys. Values that only their name makes a secret are not included: source code is full of them.
pub fn keys(text: &str) -> Vec<Range<usize>> {
    scan::keys(text)
}

/// Redacts every string in a JSON value, keys included, and every value under a key that is named like a secret.
pub fn redact_json(value: &mut Value) {
    redact_under(value, None);
}

fn redact_under(value: &mut Value, key: Option<&str>) {
    match value {
        Value::String(text) => {
            if key.is_some_and(|key| named::names_secret(key, text)) {
                MASK.clone_into(text);
            } else if let Cow::Owned(shown) = redact(text) {
                *text = shown;
            }
        }
        Value::Array(items) => {
            for item in items {
                redact_under(item, key);
            }
        }
        Value::Object(entries) => {
            for (key, entry) in entries.iter_mut() {
                redact_under(entry, Some(key));
            }
            if entries
                .keys()
                .any(|key| matches!(redact(key), Cow::Owned(_)))
            {
                redact_keys(entries);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Redacts the keys of an object, in place; keys that become equal are numbered.
fn redact_keys(entries: &mut serde_json::Map<String, Value>) {
    let taken = std::mem::take(entries);
    for (key, entry) in taken {
        let shown = redact(&key);
        let mut unique = shown.to_string();
        let mut number = 2;
        while entries.contains_key(&unique) {
            unique = format!("{shown} ({number})");
            number += 1;
        }
        entries.insert(unique, entry);
    }
}

#[cfg(test)]
mod tests;

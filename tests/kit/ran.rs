//! The result of a call.

use std::path::Path;
use std::process::Output;

use serde_json::Value;

/// A call that has ended.
#[derive(Debug)]
pub struct Ran {
    line: String,
    root: String,
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    pub(super) fn new(line: String, output: &Output, root: &Path) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Self {
            line,
            root: root.display().to_string(),
            code: output.status.code(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        }
    }

    /// Asserts that it exited with 0 and wrote nothing to stderr.
    #[track_caller]
    pub fn succeeds(self) -> Self {
        let ran = self.exits(0);
        assert_eq!(ran.stderr, "", "{} said something", ran.line);
        ran
    }

    /// Asserts its exit code.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(
            self.code,
            Some(code),
            "{}\n{}{}",
            self.line,
            self.stdout,
            self.stderr
        );
        self
    }

    /// Asserts that it failed with this code, no result, and an error with a hint.
    #[track_caller]
    pub fn fails(self, code: i32) -> Self {
        let ran = self.exits(code);
        assert_eq!(ran.stdout, "", "{} has a result", ran.line);
        let helps = ["\nhint: ", "\"hint\":\"", "For more information", "Usage:"]
            .iter()
            .any(|help| ran.stderr.contains(help));
        assert!(helps, "{} gives no hint: {:?}", ran.line, ran.stderr);
        ran
    }

    /// Parses its result as JSON: one line, one object.
    #[track_caller]
    pub fn json(&self) -> Value {
        assert_eq!(self.stdout.lines().count(), 1, "{}", self.stdout);
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", self.stdout))
    }

    /// Parses its error as JSON.
    #[track_caller]
    pub fn error(&self) -> Value {
        let object: Value = serde_json::from_str(&self.stderr)
            .unwrap_or_else(|error| panic!("{error}: {}", self.stderr));
        object["error"].clone()
    }

    /// Returns its output with everything replaced that differs between runs.
    pub fn shown(&self) -> String {
        same_every_time(&format!("{}{}", self.stdout, self.stderr), &self.root)
    }
}

/// Replaces folders, times, ids and tokens by constant text.
fn same_every_time(text: &str, root: &str) -> String {
    let text = text.replace(root, "[root]");
    let mut shown = String::new();
    let mut rest = text.as_str();
    while let Some(character) = rest.chars().next() {
        let hex = rest
            .find(|c: char| !c.is_ascii_hexdigit())
            .unwrap_or(rest.len());
        if hex == 32 {
            shown.push_str("[32 hexadecimal digits]");
            rest = &rest[32..];
        } else if let Some(length) = ago(rest) {
            shown.push_str("[ago]");
            rest = &rest[length..];
        } else if let Some(length) = moment(rest) {
            shown.push_str("[time]");
            rest = &rest[length..];
        } else {
            shown.push(character);
            rest = &rest[character.len_utf8()..];
        }
    }
    shown
}

/// Returns the length of `12 s ago` at the beginning of a text.
fn ago(text: &str) -> Option<usize> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let fits = digits > 0 && text[digits..].starts_with(" s ago");
    fits.then_some(digits + " s ago".len())
}

/// Returns the length of the time at the beginning of a text: `2026-02-07 12:00:00` or `2026-02-07T12:00:00.123Z`.
fn moment(text: &str) -> Option<usize> {
    let short: Vec<u8> = text.bytes().take(19).collect();
    let pattern = b"dddd-dd-dd?dd:dd:dd";
    let fits = short.len() == 19
        && short.iter().zip(pattern).all(|(byte, kind)| match kind {
            b'd' => byte.is_ascii_digit(),
            b'?' => *byte == b' ' || *byte == b'T',
            other => byte == other,
        });
    let long = text.get(..24).is_some_and(|long| long.ends_with('Z'));
    fits.then_some(if long { 24 } else { 19 })
}

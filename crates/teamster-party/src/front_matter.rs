//! The front matter of a finding, between two lines of `---`: keys for programs, above a text for people.

use std::fmt::Write as _;

/// Returns the text below the front matter, or all of it when there is none.
pub(crate) fn body(text: &str) -> &str {
    split(text).map_or(text, |(_, body)| body)
}

/// Returns the text with these keys in its front matter. Existing front matter keeps its other lines.
pub(crate) fn with(text: &str, keys: &[(&str, &str)]) -> String {
    let (old, body) = split(text).unwrap_or(("", text));
    let mut out = String::from("---\n");
    for (key, value) in keys {
        let _ = writeln!(out, "{key}: {value}");
    }
    let is_ours = |line: &str| {
        let key = line.split(':').next().unwrap_or_default();
        keys.iter().any(|(ours, _)| *ours == key)
    };
    for line in old.lines().filter(|line| !is_ours(line)) {
        out.push_str(line);
        out.push('\n');
    }
    out.push_str("---\n");
    if !body.starts_with(['\n', '\r']) {
        out.push('\n');
    }
    out.push_str(body);
    out
}

/// Splits a text into the lines of the front matter, and what follows it.
fn split(text: &str) -> Option<(&str, &str)> {
    let inner = text
        .strip_prefix("---\n")
        .or_else(|| text.strip_prefix("---\r\n"))?;
    let mut at = 0;
    for line in inner.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Some((&inner[..at], &inner[at + line.len()..]));
        }
        at += line.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_put_above_a_text_and_into_what_it_has() {
        let keys = [("phase", "planning"), ("author", "ann")];
        assert_eq!(
            with("# Found\n", &keys),
            "---\nphase: planning\nauthor: ann\n---\n\n# Found\n"
        );
        assert_eq!(
            with("---\ntitle: x\nauthor: eve\n---\nbody\n", &keys),
            "---\nphase: planning\nauthor: ann\ntitle: x\n---\n\nbody\n"
        );
        assert_eq!(
            with("---\nno end", &keys),
            "---\nphase: planning\nauthor: ann\n---\n\n---\nno end"
        );
    }

    #[test]
    fn a_block_alone_says_nothing() {
        assert_eq!(body("---\nphase: x\n---\n").trim(), "");
        assert_eq!(body("---\r\nphase: x\r\n---\r\nso\r\n"), "so\r\n");
        assert_eq!(body("plain"), "plain");
        assert_eq!(body("---\nopen"), "---\nopen");
    }
}

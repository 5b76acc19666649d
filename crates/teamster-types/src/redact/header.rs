//! `Authorization` headers, as sent, as passed to curl, and as JSON holds them.

use std::ops::Range;

use super::scan::ScanSegment;
use super::values::{is_opaque, is_ordinary, is_reference};

/// The maximum length of a header that is examined before it is taken for a secret, in bytes.
const LOOK: usize = 256;

#[rustfmt::skip]
const SCHEMES: [&str; 14] = [
    "bearer", "basic", "digest", "token", "apikey", "api-key", "negotiate", "ntlm", "oauth", "hawk",
    "aws4-hmac-sha256", "sharedkey", "key", "dpop",
];

/// Returns the value of an `Authorization` header whose name ends where `name` does.
pub(super) fn find(segment: &ScanSegment<'_>, name: Range<usize>) -> Option<Range<usize>> {
    if !is_name(segment.text(name.clone())) {
        return None;
    }
    let closing = segment.quote(name.end);
    let at = segment.skip_blank(closing.map_or(name.end, |quote| quote.end));
    let sign = segment.at(at)?;
    if !(matches!(sign, b':' | b'=') || sign == b',' && closing.is_some()) {
        return None;
    }
    let start = segment.skip_blank(at + 1);
    let quote = segment.quote(start);
    let start = quote.map_or(start, |quote| quote.end);
    let end_within = |most| match quote {
        Some(quote) => quote.close(segment, most),
        None => line_end(segment, start, most),
    };
    let look = end_within(LOOK);
    let value = segment.beginning(start..look, LOOK);
    // `authorization = …` may also be a line of code.
    let is_code = sign == b'=' && quote.is_none() && !names_scheme(value);
    // `"Authorization", "Cookie"` may also be a list.
    let is_list = sign == b',' && !names_scheme(value);
    if segment.is_walled(look)
        || is_list
        || is_code && !value.split_whitespace().any(is_opaque)
        || !is_secret(value)
    {
        return None;
    }
    let value = segment.text(start..end_within(usize::MAX)).trim_end();
    Some(start..start + value.len())
}

/// Returns whether a variable, key or header of this name is an `Authorization` header.
pub(super) fn is_name(name: &str) -> bool {
    let word = "authorization";
    let Some(at) = name.len().checked_sub(word.len()) else {
        return false;
    };
    // Compared as bytes, because `at` may be inside a multi-byte character.
    let (before, ending) = name.as_bytes().split_at(at);
    ending.eq_ignore_ascii_case(word.as_bytes())
        && before.last().is_none_or(|byte| {
            !byte.is_ascii_alphanumeric() || byte.is_ascii_lowercase() && ending[0] == b'A'
        })
}

/// Returns whether the value of such a header holds credentials, and is not a sentence, a type or the name of a
/// variable.
pub(super) fn is_secret(value: &str) -> bool {
    if names_scheme(value) {
        value
            .split_whitespace()
            .skip(1)
            .any(|word| !is_reference(word))
    } else {
        value.split_whitespace().any(|word| !is_harmless(word))
    }
}

fn names_scheme(value: &str) -> bool {
    let first = value.split_whitespace().next().unwrap_or_default();
    SCHEMES
        .iter()
        .any(|scheme| first.eq_ignore_ascii_case(scheme))
}

fn is_harmless(word: &str) -> bool {
    let bare = word.trim_matches(|c: char| c.is_ascii_punctuation());
    is_reference(word)
        || is_ordinary(bare)
        || is_name(bare)
        || word.contains(['(', '[', '<'])
        || word.contains("://")
        || bare.len() < 20
            && bare
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'-')
}

/// Returns the end of a header that is not in quotes of its own: the line's end, or the quotes around name and value.
///
/// `Digest username="…", response="…"` has quotes of its own, each after an equals sign.
fn line_end(segment: &ScanSegment<'_>, start: usize, most: usize) -> usize {
    let mut at = start;
    let (mut before, mut inside) = (b' ', false);
    while at - start < most {
        match segment.at(at) {
            Some(b'"' | b'\'' | b'`') if inside => inside = false,
            Some(b'"' | b'\'' | b'`') if before == b'=' => inside = true,
            None | Some(b'\n' | b'\r' | 0x1b | b'"' | b'\'' | b'`') => return at,
            Some(b'\\') => match segment.at(at + 1) {
                Some(b'n' | b'r' | b'u') => return at,
                Some(b'"' | b'\'' | b'\\') if !inside && before != b'=' => return at,
                // The backslash belongs to the next character, so the previous one still counts.
                _ => {
                    at += 1;
                    continue;
                }
            },
            Some(_) => {}
        }
        before = segment.at(at).unwrap_or(before);
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use crate::redact::tests::{assert_shown, assert_stays};

    #[test]
    fn authorization_headers_lose_their_value() {
        for (text, expected) in [
            ("Authorization: Bearer abc.def", "Authorization: [redacted]"),
            (
                "GET / HTTP/1.1\r\nAuthorization: Basic dXNlcjpwYXNz\r\nHost: x",
                "GET / HTTP/1.1\r\nAuthorization: [redacted]\r\nHost: x",
            ),
            ("authorization: token hunter2", "authorization: [redacted]"),
            (
                "Proxy-Authorization: Basic eA==",
                "Proxy-Authorization: [redacted]",
            ),
            (
                "Authorization: Custom opensesame",
                "Authorization: [redacted]",
            ),
            ("Authorization: 0123456789", "Authorization: [redacted]"),
            (
                "Authorization:Bearer opensesame",
                "Authorization:[redacted]",
            ),
            (
                "curl -H 'Authorization: Bearer opensesame' https://x",
                "curl -H 'Authorization: [redacted]' https://x",
            ),
            (
                "curl -H \"Authorization: Bearer opensesame\" https://x",
                "curl -H \"Authorization: [redacted]\" https://x",
            ),
            (
                r#"{"cmd":"curl -H \"Authorization: Bearer opensesame\" x","n":1}"#,
                r#"{"cmd":"curl -H \"Authorization: [redacted]\" x","n":1}"#,
            ),
            (
                r#"{"Authorization": "Bearer opensesame", "n": 1}"#,
                r#"{"Authorization": "[redacted]", "n": 1}"#,
            ),
            (
                r#"{"body":"{\"Authorization\":\"Bearer opensesame\",\"n\":1}"}"#,
                r#"{"body":"{\"Authorization\":\"[redacted]\",\"n\":1}"}"#,
            ),
            (
                r#"{"out":"> Authorization: Bearer opensesame\n> Host: x"}"#,
                r#"{"out":"> Authorization: [redacted]\n> Host: x"}"#,
            ),
            (
                "headers = {'Authorization': 'Basic eHg6eXk='}",
                "headers = {'Authorization': '[redacted]'}",
            ),
            (
                r#".header("Authorization", "Bearer opensesame")"#,
                r#".header("Authorization", "[redacted]")"#,
            ),
            (
                "HTTP_AUTHORIZATION=Bearer opensesame",
                "HTTP_AUTHORIZATION=[redacted]",
            ),
            (
                "Authorization: Digest username=\"Mufasa\", response=\"6629fae4\"",
                "Authorization: [redacted]",
            ),
            (
                r#"{"h":"Authorization: Digest username=\"Mufasa\", response=\"6629fae4\"","n":1}"#,
                r#"{"h":"Authorization: [redacted]","n":1}"#,
            ),
            (
                "Authorization: AWS4-HMAC-SHA256 Credential=AKID/20130524/us-east-1/s3, Signature=fe5f80",
                "Authorization: [redacted]",
            ),
            (
                "X-Trace: Bearer aB3dE5gH7jK9mN1p",
                "X-Trace: Bearer [redacted]",
            ),
        ] {
            assert_shown(text, expected);
        }
        for text in [
            "Authorization: required for every route",
            "authorization: string",
            "Authorization: Bearer $TOKEN",
            "-H \"Authorization: Bearer ${TOKEN}\"",
            "Authorization: Bearer <token>",
            "Authorization: Bearer",
            "Authorization:",
            "Authorization",
            "let authorization = request.headers.get(NAME)",
            "if authorization == expected {",
            "the authorization of users",
            "preauthorization: 0123456789",
            "drops 'Authorization', 'Cookie2' and others",
            "is_proxy ? 'Proxy-Authorization' : 'Authorization'",
            "\"Authorization\": (new Buffer(user)).toString()",
            "Authorization: https://example.org/RFC6749",
        ] {
            assert_stays(text);
        }
    }
}

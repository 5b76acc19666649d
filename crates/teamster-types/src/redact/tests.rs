use proptest::prelude::*;
use serde_json::json;

use super::scan::ScanSegment;
use super::*;

/// Returns a token assembled from two parts, so that no secret scanner mistakes this file for a leak.
pub(super) fn token(prefix: &str, body: &str) -> String {
    format!("{prefix}{body}")
}

pub(super) const BODY: &str = "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5hJ";

pub(super) fn assert_shown(text: &str, expected: &str) {
    assert_eq!(redact(text), expected, "{text:?}");
    assert_eq!(redact(expected), expected, "a second time: {text:?}");
}

pub(super) fn assert_stays(text: &str) {
    let shown = redact(text);
    assert_eq!(shown, text);
    assert!(matches!(shown, Cow::Borrowed(_)), "{text:?}");
}

#[test]
fn ordinary_text_stays() {
    for text in [
        "",
        "commit 356a192b7913b04c54574d18c28d46e6395428ab",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "9f86d081-884c-4d65-9a2f-eaa0c55ad015",
        "aGVsbG8gd29ybGQsIHRoaXMgaXMganVzdCBiYXNlNjQgdGV4dA==",
        "eyJhbGciOiJub25lIn0 is a header alone",
        "pip install sk-learn scikit-learn sk-learn-contrib-lightning",
        "skip-list task-356a192b7913b04c54574d18c28d46e6395428ab disk-0123456789abcdef01",
        "token bucket, tokenizer, tokens",
        "passwordless login",
        "npm_config_registry npm_package_version npm_lifecycle_event",
        "hf_hub_download ghp_ glpat- AKIA sk-",
        "AKIAshort AIzaShort xoxb- eyJ.eyJ.eyJ",
        "cioABC123",
        "https://example.com/a/very/long/path/with/356a192b7913b04c54574d18c28d46e6395428ab",
        "/home/user/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/insta-1.49.0",
        "pneumonoultramicroscopicsilicovolcanoconiosis",
        "integrity sha512-aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5hJaB3dE5gH7jK9mN1pQ3sT5v==",
        "한국어 문장: 토큰 버킷과 비밀번호 없는 로그인 🦀",
        "already [redacted] here, PASSWORD=[redacted] and Authorization: [redacted]",
        "[redacted][redacted]",
        "[redacted",
        "xai-sdk-python-client csk-something-else",
        "C:\\new\\token\\password.txt",
    ] {
        assert_stays(text);
    }
}

#[test]
fn a_line_of_json_stays_a_line_of_json() {
    let record = json!({
        "text": format!("export TOKEN={BODY}\n{}\n\"quoted\" Authorization: Bearer x\ty", "-----BEGIN PRIVATE KEY-----\nMIIEowIBAAKCAQEA\n-----END PRIVATE KEY-----"),
        "password": "open \"sesame\" 12345678abc",
        "nested": json!({"api_key": BODY, "note": "it's \\ fine"}).to_string(),
        "url": "https://u:p@h/x",
    });
    let line = record.to_string();
    let shown = redact(&line);
    let read: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(
        read.as_object().unwrap().keys().collect::<Vec<_>>(),
        record.as_object().unwrap().keys().collect::<Vec<_>>()
    );
    let nested: Value = serde_json::from_str(read["nested"].as_str().unwrap()).unwrap();
    assert_eq!(nested, json!({"api_key": MASK, "note": "it's \\ fine"}));
    assert!(!shown.contains(&BODY[..8]) && !shown.contains("MIIE") && !shown.contains("sesame"));
}

#[test]
fn json_values_are_redacted_by_key_and_by_shape() {
    let secret = token("ghp_", &BODY[..36]);
    let mut value = json!({
        "password": "opensesame",
        "Authorization": "Bearer opensesame",
        "authorization": "required",
        "tokens": 4096,
        "apiKeys": ["aB3dE5gH7jK9", "short"],
        "max_tokens": "4096",
        "note": format!("use {secret}"),
        "deep": [{"credentials": {"user": "me", "secret": "a b c", "pwd": "hunter2"}}],
        (secret.clone()): 1,
        (format!("{secret}0")): 2,
        "plain": null,
    });
    redact_json(&mut value);
    let expected = json!({
        "password": MASK,
        "Authorization": MASK,
        "authorization": "required",
        "tokens": 4096,
        "apiKeys": [MASK, "short"],
        "max_tokens": "4096",
        "note": "use [redacted]",
        "deep": [{"credentials": {"user": "me", "secret": "a b c", "pwd": MASK}}],
        "[redacted]": 1,
        "[redacted] (2)": 2,
        "plain": null,
    });
    assert_eq!(value.to_string(), expected.to_string());
    redact_json(&mut value);
    assert_eq!(value, expected);
}

/// Fragments that a hostile or unlucky text could repeat.
#[rustfmt::skip]
const UNITS: [&str; 40] = [
    "a", "-", "_", "\\", "\"", "'", " ", ":", "=", "@", "[", "\u{1b}[", "\u{1b}", "%4", "sk-", "ghp_", "ghp_ghp-",
    "eyJ", "eyJ.", "eyJ_", "eyJaaaaaaaaa.", "cio", "AKIA", "KEY=", "KEY:", "password=\"", "PASSWORD=\\\"", "://",
    "a://u:p", "a://@", "Authorization: ", "Authorization: a ", "Authorization:\"", "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\n", "-----BEGIN ", "-----END ", "\\n", "[redacted]", "--token  ",
];

fn reads(text: &str) -> usize {
    let segment = ScanSegment::new(text, false);
    segment.secrets();
    segment.reads()
}

#[test]
fn the_work_grows_with_the_text_and_no_faster() {
    for unit in UNITS {
        let few = reads(&unit.repeat(2_500 / unit.len()));
        let many = reads(&unit.repeat(40_000 / unit.len()));
        assert!(many <= few * 20, "{unit:?}: {few} then {many}");
    }
    for unit in ["a", "sk-"] {
        let text = unit.repeat(1_000_000 / unit.len());
        let reads = reads(&text);
        assert!(reads <= text.len() * 50, "{unit:?}: {reads}");
    }
}

/// Fragments at which rules begin and end, and that resemble them.
#[rustfmt::skip]
const PIECES: [&str; 82] = [
    "Authorization", ": ", ":", "=", " = ", "Bearer ", "Basic", "password", "PASSWORD", "API_KEY", "token", "key",
    "secret", "--token", "\"", "'", "`", "\\\"", "\\", "\\n", "\n", " ", ",", ", ", ".", ";", "&", "(", ")", "{", "}",
    "[", "]", "/", "@", "://", "https://", "user:pass@", "sk-", "sk-ant-", "ghp_", "glpat-", "eyJ", "cio", "AKIA",
    "xoxb-", "aB3dE5gH7jK9mN1p", "hunter2", "opensesame", "0123456789", "ABCDEFGH", "-", "_", "$", "%3D", "%",
    "\u{1b}[31m", "\u{1b}", "\\u001b[0m", "한", "🦀", "-----BEGIN RSA PRIVATE KEY-----",
    "-----END RSA PRIVATE KEY-----", "-----", "MIIEowIBAAKCAQEAaB3dE5gH7j", "→", "  12→", "[redacted]", "[reda",
    "cted]", "=>", ":=", "<", ">", "true", "\r\n", "\t", "/path/x.pem", "$TOKEN", "key='", "\",\"", "and so on",
];

fn any_text() -> impl Strategy<Value = String> {
    let known = prop::sample::select(PIECES.to_vec());
    let piece =
        prop_oneof![8 => known.prop_map(str::to_owned), 1 => ".{0,3}", 1 => "[a-zA-Z0-9]{1,40}"];
    prop::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}

/// Returns whether `shown` is `text` with some parts replaced by masks and everything else unchanged.
fn is_masked(text: &str, shown: &str) -> bool {
    let mut rest = text;
    let mut pieces = shown.split(MASK);
    let Some(after) = pieces.next().and_then(|first| rest.strip_prefix(first)) else {
        return false;
    };
    rest = after;
    for piece in pieces {
        let Some(at) = rest.find(piece) else {
            return false;
        };
        rest = &rest[at + piece.len()..];
    }
    shown.ends_with(MASK) || text.ends_with(shown.rsplit(MASK).next().unwrap_or_default())
}

proptest! {
    #[test]
    fn redacting_twice_is_redacting_once(text in any_text()) {
        let once = redact(&text).into_owned();
        prop_assert_eq!(&redact(&once), &once);
        prop_assert!(is_masked(&text, &once), "{} {}", text, once);
    }

    #[test]
    fn any_text_can_be_redacted(text in any::<String>()) {
        let once = redact(&text).into_owned();
        prop_assert_eq!(&redact(&once), &once);
    }

    #[test]
    fn a_planted_token_is_never_shown(before in any_text(), after in any_text()) {
        let planted = token("ghp_", "cAnArY0cAnArY1cAnArY2cAnArY3cAnArY4ca");
        for text in [
            format!("{before} {planted} {after}"),
            format!("{before}\n{planted}\n{after}"),
            format!("{before} GITHUB_TOKEN={planted} {after}"),
        ] {
            prop_assert!(!redact(&text).contains("cAnArY"), "{}", text);
        }
    }

    #[test]
    fn json_is_redacted_once(key in any_text(), text in any_text(), other in any_text()) {
        let mut value = json!({ (key): text, "list": [other.clone()], (other): {"password": "x"} });
        let entries = value.as_object().unwrap().len();
        redact_json(&mut value);
        prop_assert_eq!(value.as_object().unwrap().len(), entries);
        let once = value.clone();
        redact_json(&mut value);
        prop_assert_eq!(value, once);
    }
}

//! Values of variables, keys and flags that are named like a secret.

use std::ops::Range;

use super::scan::{Quote, ScanSegment};
use super::values::{Hint, Placement, looks_secret};
use super::{MASK, header};

/// The maximum length of a name and of a value that is examined, in bytes.
const LOOK: usize = 128;

/// The bytes that do not occur in an unquoted value.
const STOPS: &[u8] = b"\"'`\\&|<>({[;\x7f";

/// The bytes that end a value unless more of it follows.
const MARKS: &[u8] = b",.:)]}";

/// Word endings that certainly name a secret.
const SECRETS: [&str; 6] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "credential",
    "pwd",
];

/// Words that make a `key` an access key.
#[rustfmt::skip]
const OPENING: [&str; 26] = [
    "api", "access", "account", "admin", "app", "auth", "bot", "client", "deploy", "encryption", "host", "jwt",
    "license", "master", "private", "root", "secret", "service", "session", "shared", "signing", "ssh", "storage",
    "subscription", "webhook", "x",
];

/// Last words of a name that do not change what it names.
#[rustfmt::skip]
const ASIDE: [&str; 13] = [
    "again", "base", "base64", "confirm", "confirmation", "dev", "pem", "plain", "prod", "raw", "staging", "text",
    "value",
];

/// Last words of a name whose value describes a secret but is not one.
#[rustfmt::skip]
const ABOUT: [&str; 48] = [
    "alg", "algorithm", "at", "bits", "budget", "bytes", "class", "count", "dir", "encoding", "encryption",
    "endpoint", "env", "expires", "expiry", "field", "file", "format", "header", "hint", "id", "ids", "index", "kind",
    "label", "len", "length", "limit", "manager", "max", "mgr", "min", "name", "names", "path", "policy", "prefix",
    "provider", "ref", "size", "status", "store", "ttl", "type", "uri", "url", "usage", "version",
];

/// Returns the value of a name, if the name suggests a secret and the value looks like one.
pub(super) fn find(segment: &ScanSegment<'_>, name: Range<usize>) -> Option<Range<usize>> {
    let value = FoundValue::behind(segment, name.clone())?;
    let hint = hint(segment.text(name.start.max(name.end.saturating_sub(LOOK))..name.end))?;
    let look = value.end(segment, LOOK);
    let shown = segment.beginning(value.start..look, LOOK);
    // An expression before a bracket is called or indexed, and is not a secret.
    let is_code = value.quote.is_none() && matches!(segment.at(look), Some(b'(' | b'['));
    if segment.is_walled(look) || is_code || !looks_secret(shown, hint, value.how) {
        return None;
    }
    let end = value.end(segment, usize::MAX);
    let trimmed = match value.quote {
        Some(_) => segment.text(value.start..end),
        None => segment
            .text(value.start..end)
            .trim_end_matches(['.', ',', ':', ';']),
    };
    Some(value.start..value.start + trimmed.len())
}

/// Returns whether the JSON string under this key is a secret because of the key.
pub(super) fn names_secret(key: &str, value: &str) -> bool {
    // A value with a mask has already been examined.
    if value.contains(MASK) {
        return false;
    }
    if header::is_name(key) {
        return header::is_secret(value);
    }
    hint(key).is_some_and(|hint| looks_secret(value, hint, Placement::Quoted))
}

/// A value and how it follows its name.
struct FoundValue {
    start: usize,
    quote: Option<Quote>,
    how: Placement,
}

impl FoundValue {
    /// Returns the value of a name in `NAME=value`, `name: value`, `"name": "value"`, `--name value` or `Bearer value`.
    fn behind(segment: &ScanSegment<'_>, name: Range<usize>) -> Option<Self> {
        let closing = segment.quote(name.end);
        let mut sign = closing.map_or(name.end, |quote| quote.end);
        if closing.is_some() && segment.at(sign) == Some(b']') {
            sign += 1;
        }
        let blank = sign;
        sign = segment.skip_blank(blank);
        let behind = match segment.at(sign)? {
            b'=' if matches!(segment.at(sign + 1), Some(b'=' | b'>')) => sign + 2,
            b':' | b'?' if segment.at(sign + 1) == Some(b'=') => sign + 2,
            b':' if ["::", ":/", r":\/"]
                .iter()
                .any(|other| segment.has(sign, other)) =>
            {
                return None;
            }
            b'=' | b':' => sign + 1,
            _ if sign > blank && closing.is_none() && stands_before_blank(segment, name) => sign,
            _ => return None,
        };
        let start = segment.skip_blank(behind);
        let quote = segment.quote(start);
        let is_tight = sign == blank && start == behind && segment.at(sign) == Some(b'=');
        Some(Self {
            start: quote.map_or(start, |quote| quote.end),
            quote,
            how: match quote {
                Some(_) => Placement::Quoted,
                None if is_tight => Placement::Tight,
                None => Placement::Loose,
            },
        })
    }

    fn end(&self, segment: &ScanSegment<'_>, most: usize) -> usize {
        match self.quote {
            Some(quote) => quote.close(segment, most),
            None => bare_end(segment, self.start, most),
        }
    }
}

/// Returns whether a name is followed by a blank and its value, as a flag and `Bearer` are.
fn stands_before_blank(segment: &ScanSegment<'_>, name: Range<usize>) -> bool {
    segment.has(name.start, "--") || segment.text(name).eq_ignore_ascii_case("bearer")
}

/// Returns the end of a value that is not in quotes.
fn bare_end(segment: &ScanSegment<'_>, start: usize, most: usize) -> usize {
    let mut at = start;
    while at - start < most {
        let Some(byte) = segment.at(at) else { break };
        // Punctuation inside a value belongs to it, punctuation after it does not.
        let is_last = || match segment.at(at + 1) {
            Some(next) => next <= b' ' || STOPS.contains(&next) || MARKS.contains(&next),
            None => !segment.is_walled(at + 1),
        };
        if byte <= b' ' || STOPS.contains(&byte) || MARKS.contains(&byte) && is_last() {
            break;
        }
        at += 1;
    }
    at
}

/// Returns how strongly this name suggests a secret, if at all.
fn hint(name: &str) -> Option<Hint> {
    if !may_name_secret(name) {
        return None;
    }
    if name.eq_ignore_ascii_case("bearer") {
        return Some(Hint::Fair);
    }
    let is_constant = !name.bytes().any(|byte| byte.is_ascii_lowercase());
    let mut words = words(name);
    while words
        .last()
        .is_some_and(|last| ASIDE.contains(&last.as_str()))
    {
        words.pop();
    }
    let last = words.last()?.as_str();
    if ABOUT.contains(&last) || words.iter().any(|word| word == "public" || word == "pub") {
        return None;
    }
    let hints: Vec<Option<Hint>> = (words.iter().enumerate())
        .map(|(at, word)| {
            let before = at.checked_sub(1).map(|at| words[at].as_str());
            word_hint(word, before, is_constant)
        })
        .collect();
    // `tokenStream` is a stream, while `TOKEN_GITHUB` is a token.
    if !is_constant && hints.last().is_none_or(Option::is_none) {
        return None;
    }
    hints.into_iter().flatten().max()
}

/// Returns whether a name contains any part that names of secrets have. Most names do not, and need not be split into
/// words.
fn may_name_secret(name: &str) -> bool {
    let parts = [
        "pass", "pwd", "secret", "cred", "token", "key", "auth", "bearer",
    ];
    let has = |part: &&str| {
        let mut windows = name.as_bytes().windows(part.len());
        windows.any(|window| window.eq_ignore_ascii_case(part.as_bytes()))
    };
    !name.is_ascii() || parts.iter().any(has)
}

fn word_hint(word: &str, before: Option<&str>, is_constant: bool) -> Option<Hint> {
    let word = word.trim_end_matches(|c: char| c.is_ascii_digit());
    let one = word.strip_suffix('s').unwrap_or(word);
    if SECRETS
        .iter()
        .any(|secret| word.ends_with(secret) || one.ends_with(secret))
    {
        return Some(Hint::Strong);
    }
    if word.ends_with("token") || OPENING.iter().any(|opening| is_joined(word, opening)) {
        return Some(Hint::Fair);
    }
    match before {
        Some(before) if word == "key" && (is_constant || OPENING.contains(&before)) => {
            Some(Hint::Fair)
        }
        _ if one == "key" || word == "auth" || one.ends_with("token") => Some(Hint::Faint),
        _ => None,
    }
}

/// Returns whether a word is `key` joined with the word before it, as in `apikey`.
fn is_joined(word: &str, opening: &str) -> bool {
    word.strip_suffix("key") == Some(opening)
}

/// Returns the words of a name, in lower case: `api_key`, `api-key`, `apiKey` and `APIKey` are all api and key.
fn words(name: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut before = ' ';
    let mut rest = name.chars().peekable();
    while let Some(next) = rest.next() {
        let follows_small = before.is_lowercase() || before.is_ascii_digit();
        let precedes_small = before.is_uppercase() && rest.peek().is_some_and(|c| c.is_lowercase());
        if !next.is_alphanumeric() || next.is_uppercase() && (follows_small || precedes_small) {
            words.push(std::mem::take(&mut word));
        }
        if next.is_alphanumeric() {
            word.extend(next.to_lowercase());
        }
        before = next;
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redact::tests::{assert_shown, assert_stays};

    #[test]
    fn a_name_is_read_as_its_words() {
        for (name, expected) in [
            ("API_KEY", &["api", "key"][..]),
            ("apiKey", &["api", "key"]),
            ("APIKey", &["api", "key"]),
            ("x-api-key", &["x", "api", "key"]),
            ("--db.Password2", &["db", "password2"]),
            ("OAuth2Token", &["o", "auth2", "token"]),
            ("", &[]),
            ("__", &[]),
        ] {
            assert_eq!(words(name), expected, "{name}");
        }
    }

    #[test]
    fn names_tell_how_surely_they_name_a_secret() {
        use Hint::{Faint, Fair, Strong};
        for (name, expected) in [
            ("PASSWORD", Some(Strong)),
            ("PGPASSWORD", Some(Strong)),
            ("dbPasswd", Some(Strong)),
            ("client_secret", Some(Strong)),
            ("SECRET_KEY_BASE", Some(Strong)),
            ("aws_secret_access_key", Some(Strong)),
            ("credentials", Some(Strong)),
            ("GITHUB_TOKEN", Some(Fair)),
            ("accessToken", Some(Fair)),
            ("token", Some(Fair)),
            ("OPENAI_KEY", Some(Fair)),
            ("api-key", Some(Fair)),
            ("APIKEY", Some(Fair)),
            ("passwordConfirmation", Some(Strong)),
            ("secret_base64", Some(Strong)),
            ("password2", Some(Strong)),
            ("TOKEN_GITHUB", Some(Fair)),
            ("tokenValue", Some(Fair)),
            ("_auth", Some(Faint)),
            ("key", Some(Faint)),
            ("cache_key", Some(Faint)),
            ("MAX_TOKENS", Some(Faint)),
            ("keyboard", None),
            ("monkey", None),
            ("passwordless", None),
            ("secretary", None),
            ("tokenizer", None),
            ("public_key", None),
            ("KEY_ID", None),
            ("api-key-file", None),
            ("token_limit", None),
            ("secretName", None),
            ("TokenStream", None),
            ("keyIdExtension", None),
            ("value", None),
            ("PATH", None),
        ] {
            assert_eq!(hint(name), expected, "{name}");
        }
    }

    #[test]
    fn values_with_a_secret_name_go() {
        for (text, expected) in [
            ("PASSWORD=hunter2", "PASSWORD=[redacted]"),
            ("POSTGRES_PASSWORD=postgres", "POSTGRES_PASSWORD=[redacted]"),
            ("JWT_SECRET=supersecret", "JWT_SECRET=[redacted]"),
            ("export API_TOKEN=abc12345", "export API_TOKEN=[redacted]"),
            ("PGPASSWORD=hunter22 psql", "PGPASSWORD=[redacted] psql"),
            (
                "OPENAI_API_KEY=\"abc12345\"",
                "OPENAI_API_KEY=\"[redacted]\"",
            ),
            ("OPENAI_API_KEY='abc12345'", "OPENAI_API_KEY='[redacted]'"),
            ("password: hunter2", "password: [redacted]"),
            ("password: \"opensesame\"", "password: \"[redacted]\""),
            ("password = 'opensesame'", "password = '[redacted]'"),
            ("db.password=opensesame", "db.password=[redacted]"),
            (
                "\"password\": \"opensesame\",",
                "\"password\": \"[redacted]\",",
            ),
            (
                "{\"clientSecret\":\"a-b-c-d-e-f\"}",
                "{\"clientSecret\":\"[redacted]\"}",
            ),
            (
                "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                "aws_secret_access_key = [redacted]",
            ),
            (
                "AWS_SECRET_ACCESS_KEY=/JalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                "AWS_SECRET_ACCESS_KEY=[redacted]",
            ),
            ("X-Api-Key: abc123def456", "X-Api-Key: [redacted]"),
            (
                "accessToken=abc12345&next=1",
                "accessToken=[redacted]&next=1",
            ),
            ("?access_token=abc12345#top", "?access_token=[redacted]"),
            (
                "--api-key abc123def456 --verbose",
                "--api-key [redacted] --verbose",
            ),
            ("--password=hunter2", "--password=[redacted]"),
            ("(token=abc12345)", "(token=[redacted])"),
            ("token=abc12345, then", "token=[redacted], then"),
            (
                "Server=x;Password=hunter2;Database=y",
                "Server=x;Password=[redacted];Database=y",
            ),
            (
                "//registry.example.org/:_authToken=abc12345",
                "//registry.example.org/:_authToken=[redacted]",
            ),
            ("password: hunter_2", "password: [redacted]"),
            (
                r#"{"out":"password='abc12345","next":"it's"}"#,
                r#"{"out":"password='[redacted]","next":"it's"}"#,
            ),
            (
                r#"{"out":"{\"token\":\"abc12345","next":"\"x\""}"#,
                r#"{"out":"{\"token\":\"[redacted]","next":"\"x\""}"#,
            ),
            ("PASSWORD=hunter2.", "PASSWORD=[redacted]."),
            ("PASSWORD=p@ss!w0rd!", "PASSWORD=[redacted]"),
            ("PASSWORD=비밀번호비밀", "PASSWORD=[redacted]"),
            ("PASSWORD=123456", "PASSWORD=[redacted]"),
            ("KEY=aB3dE5gH7jK9mN1p", "KEY=[redacted]"),
            (
                "env[\"API_KEY\"] = \"abc12345\"",
                "env[\"API_KEY\"] = \"[redacted]\"",
            ),
            ("'api_key' => 'abc12345'", "'api_key' => '[redacted]'"),
            ("token := \"abc12345\"", "token := \"[redacted]\""),
            (
                r#"{"out":"API_KEY=abc12345\nPASSWORD=hunter2\n"}"#,
                r#"{"out":"API_KEY=[redacted]\nPASSWORD=[redacted]\n"}"#,
            ),
            (
                r#"{"body":"{\"password\": \"open\\\"sesame\", \"n\": 1}"}"#,
                r#"{"body":"{\"password\": \"[redacted]\", \"n\": 1}"}"#,
            ),
            (r#"password="open\"sesame" x"#, r#"password="[redacted]" x"#),
            (
                "\u{1b}[34m\"password\"\u{1b}[0m: \u{1b}[32m\"opensesame\"\u{1b}[0m",
                "\u{1b}[34m\"password\"\u{1b}[0m: \u{1b}[32m\"[redacted]\"\u{1b}[0m",
            ),
            (
                "session_key: 9f86d081-884c-4d65-9a2f-eaa0c55ad015",
                "session_key: [redacted]",
            ),
            (
                "passphrase=\"correct horse 8attery-staple\"",
                "passphrase=\"[redacted]\"",
            ),
            (
                "PASSWORD=\"hunter22 never closed\nnext",
                "PASSWORD=\"[redacted]\nnext",
            ),
        ] {
            assert_shown(text, expected);
        }
    }

    #[test]
    fn values_that_are_no_secrets_stay() {
        for text in [
            "MAX_TOKENS=4096",
            "max_tokens: 128000",
            "KEY=true",
            "TOKENS: 12 used",
            "tokens: 1234 in, 567 out",
            "tokens=in:1234,out:567",
            "keyboard=us",
            "PASSWORD=",
            "PASSWORD=\"\"",
            "PASSWORD=$DB_PASSWORD",
            "PASSWORD=${DB_PASSWORD}",
            "PASSWORD=$(pass show db)",
            "password: ${{ secrets.DB_PASSWORD }}",
            "TOKEN=%TOKEN%",
            "token: <your-token-here>",
            "token={{ token }}",
            "PASSWORD=********",
            "PASSWORD=xxxxxxxx",
            "SECRET_FILE=/run/secrets/db1_password",
            "SECRET=/run/secrets/db1_password",
            "key=./certs/server2.pem",
            "secret: certs/server2.pem",
            "--api-key-file /path/to/file1234",
            "--api-key-file=/path/to/file1234",
            "--max-tokens 4096",
            "password: required",
            "password: must have 8 characters",
            "\"password\": \"Your password must have 8 characters\"",
            "\"type\": \"password\"",
            "password: String,",
            "password: Option<String>",
            "password: &str",
            "secret: self.secret.clone()",
            "token = lexer.next_token()",
            "token: Token::new(1)",
            "password=args.password",
            "connect(password=password)",
            "connect(password=db_password)",
            "\"secret\": \"my-app-secret\"",
            "secretName: app-tls-2024",
            "key: value",
            "key: item-12345678",
            "cache_key=user123:profile",
            "primary_key: user_id2",
            "foreign key: orders.user_id2",
            "key=\"item1\"",
            "public_key=aB3dE5gH7jK9mN1pQ3sT5vW7",
            "token_expires=2026-02-07T12:00:00Z",
            "token: 2026-02-07T12:00:00Z",
            "TOKEN_URL=https://example.com/oauth2/token",
            "token bucket: rate limited",
            "Bearer of bad news",
            "the bearer token scheme",
            "def connect(password=None):",
            "dict(Passwd=credentials[1])",
            "credentials: 'include',",
            "password_encryption = scram-sha-256",
            "pub type TokenStream2 = proc_macro2::TokenStream;",
            "pub frag_token: crate::__u32,",
            "pub const IFLA_TOKEN: _bindgen_ty_5 = 1;",
            "let key = Utf8SuffixKey {",
            "password",
            "password:",
            "secret = ",
            "token\n= abc12345",
        ] {
            assert_stays(text);
        }
    }
}

//! Decides whether a value looks like a secret, or like what people and programs write where there is none.

/// How strongly a name suggests that its value is a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Hint {
    /// It may be a secret: `key`, `tokens`.
    Faint,
    /// It is likely a secret: `api_key`, `token`.
    Fair,
    /// It is certainly a secret: `password`, `client_secret`.
    Strong,
}

/// How a value follows its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// Directly after the sign, as in `NAME=value`.
    Tight,
    /// After a blank, as in `name: value`, `name = value` or `--name value`, which may also be prose or code.
    Loose,
    /// In quotes, as in `name = "value"`.
    Quoted,
}

/// Words that are written in place of a secret. A text of less than six characters is not a secret either.
#[rustfmt::skip]
const ORDINARY: [&str; 33] = [
    "boolean", "default", "disabled", "enabled", "expired", "hidden", "include", "incorrect", "interactive",
    "invalid", "masked", "missing", "none", "not-set", "null", "number", "object", "omitted", "option", "optional",
    "passwd", "password", "prompt", "redacted", "removed", "required", "same-origin", "secret", "string", "token",
    "true", "undefined", "unknown",
];

/// Returns whether a value with a name that hints at a secret looks like one.
pub(super) fn looks_secret(value: &str, hint: Hint, how: Placement) -> bool {
    let value = value.trim();
    if value.contains(char::is_whitespace) {
        // Prose, unless one of its words cannot be a word.
        let least = if hint == Hint::Strong { 8 } else { 12 };
        return hint > Hint::Faint
            && value
                .split_whitespace()
                .any(|word| word.len() >= least && is_mixed(word));
    }
    let length = value.chars().count();
    if length < 6
        || is_ordinary(value)
        || is_reference(value)
        || is_place(value)
        || is_masked(value)
        || how != Placement::Quoted && is_path_in_code(value)
        || how == Placement::Loose && hint < Hint::Strong && value.contains('_') && is_name(value)
    {
        return false;
    }
    let is_letters = value.chars().all(char::is_alphabetic);
    match hint {
        Hint::Faint => {
            let least = if how == Placement::Loose { 16 } else { 12 };
            let is_long = length >= 32 && is_mixed(value) && has_both_cases(value);
            is_long || parts(value).any(|part| part.len() >= least && is_mixed(part))
        }
        Hint::Fair => {
            let least = if how == Placement::Loose { 10 } else { 8 };
            is_mixed(value) && length >= least
                || how != Placement::Loose && length >= 24 && is_letters
        }
        Hint::Strong if how == Placement::Loose => is_mixed(value),
        Hint::Strong => {
            is_mixed(value)
                || value.bytes().all(|byte| byte.is_ascii_digit())
                || value.chars().any(char::is_alphabetic)
                    && !is_counted(value)
                    && !names_another(value)
        }
    }
}

/// Returns whether a text mixes letters and digits as words and numbers do not; `10k`, `12:30Z` and `v2` are numbers.
pub(super) fn is_mixed(text: &str) -> bool {
    let letters = text.chars().filter(|c| c.is_alphabetic()).count();
    letters >= 3 && text.bytes().any(|byte| byte.is_ascii_digit())
}

/// Returns whether a text cannot be a name or a word: long, and mixed without a break.
pub(super) fn is_opaque(text: &str) -> bool {
    parts(text).any(|part| part.len() >= 16 && is_mixed(part))
}

/// Returns whether a value refers to a secret that is stored elsewhere: `$TOKEN`, `${{ secrets.X }}`, `<token>`,
/// `%TOKEN%`.
pub(super) fn is_reference(value: &str) -> bool {
    let mut chars = value.chars();
    match chars.next() {
        Some('$') => chars
            .next()
            .is_none_or(|c| c.is_alphabetic() || matches!(c, '_' | '{' | '(' | '$')),
        Some('%') => value.len() > 2 && value.ends_with('%') || value == "%s",
        Some('<' | '{') => true,
        _ => [
            "env:",
            "env.",
            "process.env",
            "os.environ",
            "os.getenv",
            "secrets.",
            "vault:",
            "file:",
        ]
        .iter()
        .any(|prefix| value.starts_with(prefix)),
    }
}

pub(super) fn is_ordinary(word: &str) -> bool {
    word.is_empty()
        || ORDINARY
            .iter()
            .any(|ordinary| word.eq_ignore_ascii_case(ordinary))
}

/// Returns whether a value is a path or a URL. Credentials in a URL are found separately.
fn is_place(value: &str) -> bool {
    let is_rooted = ["/", "./", "../", "~"]
        .iter()
        .any(|root| value.starts_with(root));
    let drive = value.as_bytes();
    let is_drive = drive.len() > 2
        && drive[0].is_ascii_alphabetic()
        && drive[1] == b':'
        && matches!(drive[2], b'\\' | b'/');
    let has_ending = value.contains('/')
        && value.rsplit_once('.').is_some_and(|(_, ending)| {
            (1..=5).contains(&ending.len()) && ending.bytes().all(|byte| byte.is_ascii_lowercase())
        });
    // One in 64 AWS secret keys begins with a slash.
    let is_cloud_key = value.len() == 40
        && !value.contains(['.', '-', '_'])
        && is_mixed(value)
        && has_both_cases(value);
    value.contains("://") || (is_rooted || is_drive || has_ending) && !is_cloud_key
}

/// Returns whether the value is already masked.
fn is_masked(value: &str) -> bool {
    value
        .chars()
        .all(|c| matches!(c, '*' | 'x' | 'X' | '.' | '•' | '…' | '-' | '_' | '#' | '?'))
}

/// Returns whether a value is a path in code: `self.secret`, `config.db2.password`, `crate::Token`.
fn is_path_in_code(value: &str) -> bool {
    let is_path = |divider| value.contains(divider) && value.split(divider).all(is_name);
    is_path(".") || is_path("::")
}

/// Returns whether a value is an identifier in code; one with many digits was not written by a person.
fn is_name(value: &str) -> bool {
    value.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && value
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && value.bytes().filter(u8::is_ascii_digit).count() <= 2
}

/// Returns whether a value is a number, a version or a time with a unit.
fn is_counted(value: &str) -> bool {
    value.starts_with(|c: char| c.is_ascii_digit()) && !is_mixed(value)
}

/// Returns whether a value is the name of a secret: `db_password`, `my-app-secret`.
fn names_another(value: &str) -> bool {
    let (_, last) = value.rsplit_once(['_', '-']).unwrap_or_default();
    [
        "password",
        "passwd",
        "secret",
        "token",
        "key",
        "credentials",
    ]
    .iter()
    .any(|word| last.eq_ignore_ascii_case(word))
}

fn has_both_cases(value: &str) -> bool {
    value.bytes().any(|byte| byte.is_ascii_uppercase())
        && value.bytes().any(|byte| byte.is_ascii_lowercase())
}

fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric())
}

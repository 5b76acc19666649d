//! Parses and formats the values of settings. A variable's text is parsed by the same functions as a file's value.

use std::fmt;
use std::time::Duration;

use teamster_agents::Rule;
use teamster_document::{DocumentFormat, DocumentValue, parse};
use teamster_postgres::StoreUrl;
use teamster_types::paths::Reservations;
use teamster_types::time::parse_span;

use super::endpoint::Endpoint;

/// The URL of a store, as the user wrote it. It may contain a password, so it is displayed without one.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretUrl(String);

impl SecretUrl {
    /// The value that selects the file store.
    pub const FILES: &'static str = "files";

    /// Wraps a text.
    pub fn new(text: &str) -> Self {
        Self(text.trim().to_owned())
    }

    /// Returns the full text including a password, for connecting.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match StoreUrl::parse(&self.0) {
            Ok(url) => write!(f, "{url}"),
            Err(_) if self.0 == Self::FILES => f.write_str(Self::FILES),
            Err(_) => f.write_str("(not an address of a database)"),
        }
    }
}

impl fmt::Debug for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretUrl({self})")
    }
}

/// How a person is notified: the setting `notify`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NotifyMethod {
    /// The terminal bell, if there is a terminal.
    #[default]
    Bell,
    /// A desktop notification, if there is a program for it; otherwise the bell.
    Desktop,
    /// No notification.
    Off,
}

impl NotifyMethod {
    /// Parses the name in the settings.
    pub fn of(word: &str) -> Option<Self> {
        [Self::Bell, Self::Desktop, Self::Off]
            .into_iter()
            .find(|way| way.word() == word)
    }

    /// Returns the name in the settings.
    pub fn word(self) -> &'static str {
        match self {
            Self::Bell => "bell",
            Self::Desktop => "desktop",
            Self::Off => "off",
        }
    }
}

pub(super) fn reservations(value: &DocumentValue) -> Result<Reservations, &'static str> {
    let word = match value {
        DocumentValue::Text(text) => Reservations::of(text),
        _ => None,
    };
    word.ok_or("\"enforce\", \"warn\" or \"off\"")
}

pub(super) fn notify_method(value: &DocumentValue) -> Result<NotifyMethod, &'static str> {
    let word = match value {
        DocumentValue::Text(text) => NotifyMethod::of(text),
        _ => None,
    };
    word.ok_or("\"bell\", \"desktop\" or \"off\"")
}

pub(super) fn endpoint(value: &DocumentValue) -> Result<Option<Endpoint>, &'static str> {
    match value {
        DocumentValue::Text(text) if text == "off" => Ok(None),
        DocumentValue::Text(text) => Endpoint::parse(text).map(Some),
        _ => Endpoint::parse("").map(Some),
    }
}

pub(super) fn span(value: &DocumentValue) -> Result<Duration, &'static str> {
    let parsed = match value {
        DocumentValue::Text(text) => parse_span(text),
        _ => None,
    };
    parsed
        .filter(|span| !span.is_zero())
        .ok_or("a time such as \"5s\", \"10m\" or \"24h\"")
}

/// Reads a duration, or `off`.
pub(super) fn span_or_off(value: &DocumentValue) -> Result<Option<Duration>, &'static str> {
    match value {
        DocumentValue::Text(text) if text == "off" => Ok(None),
        other => match span(other) {
            Ok(span) => Ok(Some(span)),
            Err(_) => Err("a time such as \"30s\" or \"5m\", or \"off\""),
        },
    }
}

pub(super) fn flag(value: &DocumentValue) -> Result<bool, &'static str> {
    match value {
        DocumentValue::Bool(flag) => Ok(*flag),
        DocumentValue::Text(text) if text == "true" || text == "1" => Ok(true),
        DocumentValue::Text(text) if text == "false" || text == "0" => Ok(false),
        _ => Err("true or false"),
    }
}

pub(super) fn count(value: &DocumentValue) -> Result<usize, &'static str> {
    let parsed = match value {
        DocumentValue::Number(text) | DocumentValue::Text(text) => text.parse().ok(),
        _ => None,
    };
    parsed.ok_or("a whole number such as 200")
}

pub(super) fn small_count(value: &DocumentValue) -> Result<u32, &'static str> {
    count(value).and_then(|count| u32::try_from(count).map_err(|_| "a smaller whole number"))
}

/// Reads a percentage, with or without the percent sign.
pub(super) fn percent(value: &DocumentValue) -> Result<u32, &'static str> {
    let parsed = match value {
        DocumentValue::Number(text) => text.parse().ok(),
        DocumentValue::Text(text) => text.trim_end_matches('%').trim_end().parse().ok(),
        _ => None,
    };
    parsed
        .filter(|percent| *percent <= 100)
        .ok_or("a percentage such as \"25%\"")
}

pub(super) fn agent(value: &DocumentValue) -> Result<String, &'static str> {
    let word = match value {
        DocumentValue::Text(text) => Some(text.trim()),
        _ => None,
    };
    let word = word.filter(|word| !word.is_empty() && !word.contains(char::is_whitespace));
    word.map(str::to_owned)
        .ok_or("\"auto\", \"engine\" or an agent such as \"claude\"")
}

/// Formats a duration so that it can be parsed again: in the largest unit that divides it.
pub(super) fn format_span(span: Duration) -> String {
    let millis = span.as_millis();
    let units = [
        (86_400_000, "d"),
        (3_600_000, "h"),
        (60_000, "m"),
        (1_000, "s"),
    ];
    units
        .iter()
        .find(|(unit, _)| millis.is_multiple_of(*unit))
        .map_or_else(
            || format!("{millis}ms"),
            |(unit, word)| format!("{}{word}", millis / unit),
        )
}

pub(super) fn rule(value: &DocumentValue) -> Result<Rule, &'static str> {
    let word = match value {
        DocumentValue::Text(text) => Rule::of(text),
        _ => None,
    };
    word.ok_or("\"allow\", \"deny\" or \"ask\"")
}

/// Reads a list; a variable contains it in the same syntax as a file.
pub(super) fn list(value: &DocumentValue) -> Result<Vec<String>, &'static str> {
    let list = match value {
        DocumentValue::Text(text) => parse(DocumentFormat::Toml, &format!("list = {text}"))
            .ok()
            .and_then(|root| match root.value {
                DocumentValue::Map(entries) if entries.len() == 1 => texts(&entries[0].1.value),
                _ => None,
            }),
        value => texts(value),
    };
    list.ok_or("a list of texts such as [\"npm ci\"]")
}

/// Returns the strings of a list that contains only strings.
fn texts(value: &DocumentValue) -> Option<Vec<String>> {
    let DocumentValue::List(items) = value else {
        return None;
    };
    let items = items.iter().map(|item| match &item.value {
        DocumentValue::Text(text) => Some(text.clone()),
        _ => None,
    });
    items.collect()
}

/// Formats a value for a message.
pub(super) fn format_value(value: &DocumentValue) -> String {
    match value {
        DocumentValue::Null => "nothing".to_owned(),
        DocumentValue::Bool(flag) => flag.to_string(),
        DocumentValue::Number(digits) => digits.clone(),
        DocumentValue::Text(text) => format!("{text:?}"),
        DocumentValue::List(_) => match texts(value) {
            Some(list) => format!("{list:?}"),
            None => "a list of more than texts".to_owned(),
        },
        DocumentValue::Map(_) => "a table of keys and values".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_is_read_with_and_without_its_sign_and_never_above_a_hundred() {
        let text = |text: &str| DocumentValue::Text(text.to_owned());
        for (value, expected) in [
            (text("25%"), Some(25)),
            (text("25 %"), Some(25)),
            (text("0"), Some(0)),
            (DocumentValue::Number("100".to_owned()), Some(100)),
            (DocumentValue::Number("101".to_owned()), None),
            (DocumentValue::Number("-1".to_owned()), None),
            (text("a quarter"), None),
        ] {
            assert_eq!(percent(&value).ok(), expected, "{value:?}");
        }
    }

    #[test]
    fn every_way_has_a_word_that_is_read_back() {
        for way in [NotifyMethod::Bell, NotifyMethod::Desktop, NotifyMethod::Off] {
            assert_eq!(NotifyMethod::of(way.word()), Some(way));
        }
        assert_eq!(NotifyMethod::of("loud"), None);
    }
}

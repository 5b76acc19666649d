//! What a value may look like, and how it is written.

use std::time::Duration;

use teamster_agents::Rule;
use teamster_types::paths::Reservations;
use teamster_types::time::parse_span;

use super::endpoint::Endpoint;
use super::file::{Raw, list_of};
use super::notify::NotifyWay;

pub(super) fn reservations(raw: &Raw) -> Result<Reservations, &'static str> {
    let word = match raw {
        Raw::Text(text) => Reservations::of(text),
        _ => None,
    };
    word.ok_or("\"enforce\", \"warn\" or \"off\"")
}

pub(super) fn way(raw: &Raw) -> Result<NotifyWay, &'static str> {
    let word = match raw {
        Raw::Text(text) => NotifyWay::of(text),
        _ => None,
    };
    word.ok_or("\"bell\", \"desktop\" or \"off\"")
}

pub(super) fn endpoint(raw: &Raw) -> Result<Option<Endpoint>, &'static str> {
    match raw {
        Raw::Text(text) if text == "off" => Ok(None),
        Raw::Text(text) => Endpoint::parse(text).map(Some),
        _ => Endpoint::parse("").map(Some),
    }
}

pub(super) fn span(raw: &Raw) -> Result<Duration, &'static str> {
    let parsed = match raw {
        Raw::Text(text) => parse_span(text),
        _ => None,
    };
    parsed
        .filter(|span| !span.is_zero())
        .ok_or("a time such as \"5s\", \"10m\" or \"24h\"")
}

pub(super) fn flag(raw: &Raw) -> Result<bool, &'static str> {
    match raw {
        Raw::Flag(flag) => Ok(*flag),
        Raw::Text(text) if text == "true" || text == "1" => Ok(true),
        Raw::Text(text) if text == "false" || text == "0" => Ok(false),
        _ => Err("true or false"),
    }
}

pub(super) fn count(raw: &Raw) -> Result<usize, &'static str> {
    let parsed = match raw {
        Raw::Number(number) => Some(*number),
        Raw::Text(text) => text.parse().ok(),
        _ => None,
    };
    parsed.ok_or("a whole number such as 200")
}

/// A span in the form that is read back: the largest unit that divides it.
pub(super) fn say(span: Duration) -> String {
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

pub(super) fn rule(raw: &Raw) -> Result<Rule, &'static str> {
    let word = match raw {
        Raw::Text(text) => Rule::of(text),
        _ => None,
    };
    word.ok_or("\"allow\", \"deny\" or \"ask\"")
}

/// A list; a variable holds it as it would stand in a file.
pub(super) fn list(raw: &Raw) -> Result<Vec<String>, &'static str> {
    let list = match raw {
        Raw::List(list) => Some(list.clone()),
        Raw::Text(text) => list_of(text),
        _ => None,
    };
    list.ok_or("a list of texts such as [\"npm ci\"]")
}

//! When a team was created, from any of the forms that `createdAt` takes in a registry.

use serde_json::Value;

use crate::text::clean;
use crate::{Time, json};

/// Numbers from here on are milliseconds; as seconds they would be after the year 5000.
const MILLISECONDS: f64 = 1e11;
const SHOWN: usize = 40;

/// Returns when the team was created; the error says what is wrong with `createdAt`.
pub fn created_at(value: Option<&Value>, now: Time) -> Result<Time, String> {
    let time = match value {
        None => return Err("has no createdAt".to_owned()),
        Some(Value::Number(number)) => number.as_f64().and_then(from_number),
        Some(Value::String(text)) => from_text(text.trim()),
        Some(other) => return Err(format!("createdAt is {}", json::kind(other))),
    };
    let shown = || clean(&value.map(Value::to_string).unwrap_or_default(), SHOWN).into_owned();
    match time {
        None => Err(format!("createdAt is {}, which is not a time", shown())),
        Some(time) if time > now => {
            Err(format!("createdAt is {}, which is in the future", shown()))
        }
        Some(time) => Ok(time),
    }
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "a float that is too large becomes the largest moment, which is to come"
)]
fn from_number(number: f64) -> Option<Time> {
    let millis = if number >= MILLISECONDS {
        number
    } else {
        number * 1000.0
    };
    (number > 0.0 && millis.is_finite()).then(|| Time::from_millis(millis as i64))
}

fn from_text(text: &str) -> Option<Time> {
    let is_number = text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_digit() || c == '.');
    if is_number {
        return text.parse().ok().and_then(from_number);
    }
    // Without a time zone it is read as UTC. That may be off by half a day; the files' own times limit the error.
    ["", "Z", "T00:00:00Z"]
        .iter()
        .find_map(|zone| format!("{text}{zone}").parse().ok())
        .filter(|time: &Time| time.as_millis() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NOW: i64 = 1_794_728_921_648;

    fn of(text: &str) -> Result<i64, String> {
        let value: Value = serde_json::from_str(text).unwrap();
        created_at(Some(&value), Time::from_millis(NOW)).map(Time::as_millis)
    }

    #[test]
    fn every_shape_that_is_a_time_is_read() {
        for (text, expected) in [
            ("1794728921648", NOW),
            ("1794728921648.0", NOW),
            ("1.794728921648e12", NOW),
            ("1000000000000", 1_000_000_000_000),
            ("100000000000", 100_000_000_000),
            ("1794728921", 1_794_728_921_000),
            ("1794728921.5", 1_794_728_921_500),
            ("1", 1_000),
            ("\"1794728921648\"", NOW),
            ("\" 1794728921 \"", 1_794_728_921_000),
            ("\"2026-02-07T12:00:00.123Z\"", 1_770_465_600_123),
            ("\"2026-02-07T13:00:00.123+01:00\"", 1_770_465_600_123),
            ("\"2026-02-07T12:00:00.123\"", 1_770_465_600_123),
            ("\"2026-02-07 12:00:00\"", 1_770_465_600_000),
            ("\"2026-02-07\"", 1_770_422_400_000),
        ] {
            assert_eq!(of(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn every_other_shape_is_named() {
        for (text, says) in [
            ("0", "which is not a time"),
            ("-1794728921648", "which is not a time"),
            ("99999999999", "which is in the future"),
            ("1e300", "which is in the future"),
            ("1e400", "which is not a time"),
            ("1794728921649", "which is in the future"),
            ("\"\"", "which is not a time"),
            ("\"0\"", "which is not a time"),
            ("\"yesterday\"", "which is not a time"),
            ("\"-5\"", "which is not a time"),
            ("\"1.2.3\"", "which is not a time"),
            ("\"inf\"", "which is not a time"),
            ("\"9998-12-31T00:00:00Z\"", "which is in the future"),
            ("\"1960-01-01T00:00:00Z\"", "which is not a time"),
            ("null", "createdAt is null"),
            ("true", "createdAt is a boolean"),
            ("[]", "createdAt is an array"),
            ("{\"a\":1}", "createdAt is an object"),
        ] {
            let error = of(text).unwrap_err();
            assert!(error.ends_with(says), "{text}: {error}");
        }
        let missing = created_at(None, Time::from_millis(NOW)).unwrap_err();
        assert_eq!(missing, "has no createdAt");
        let long = json!("\u{1b}[31m\u{202e}".to_owned() + &"x".repeat(10_000));
        let error = created_at(Some(&long), Time::from_millis(NOW)).unwrap_err();
        assert!(error.chars().count() < 80, "{error}");
        assert!(!error.contains(['\u{1b}', '\u{202e}']), "{error}");
    }
}

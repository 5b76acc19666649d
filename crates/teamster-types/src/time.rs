//! One moment, in milliseconds since 1970, written as ISO 8601 UTC.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The last moment (in the year 9999) that every reader of ISO times accepts; no later time may be written.
const LATEST: i64 = 253_402_207_200_000;

/// A moment in time with the precision of teamster's files: one millisecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, schemars::JsonSchema)]
#[schemars(with = "String")]
pub struct Time(i64);

impl Time {
    /// Returns the moment `millis` milliseconds after 1970-01-01T00:00:00Z.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Returns the milliseconds since 1970-01-01T00:00:00Z.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Returns how long ago `earlier` was; zero when it is in the future, as it may be after the clock was set back.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Returns the moment `span` later.
    #[must_use]
    pub fn after(self, span: Duration) -> Time {
        let millis = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        Time(self.0.saturating_add(millis).min(LATEST))
    }

    /// Returns the moment `span` earlier.
    #[must_use]
    pub fn before(self, span: Duration) -> Time {
        let millis = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        Time(self.0.saturating_sub(millis))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(moment) => write!(f, "{moment:.3}"),
            // There is no ISO form after the year 9999, so write the number.
            Err(_) => write!(f, "{}", self.0),
        }
    }
}

/// A text that is not a valid ISO 8601 time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an ISO 8601 time such as 2026-02-07T12:00:00.123Z")]
pub struct TimeError(String);

impl FromStr for Time {
    type Err = TimeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse::<jiff::Timestamp>()
            .map(|moment| Time(moment.as_millisecond()))
            .map_err(|_| TimeError(text.to_owned()))
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Parses a duration as people type it: `5s`, `10m`, `24h`, `250ms`, `7d`.
pub fn parse_span(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let number: u64 = text[..digits].parse().ok()?;
    let millis = match &text[digits..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    Some(Duration::from_millis(number.checked_mul(millis)?))
}

/// Formats a duration in the unit that a person would use: `47 s`, `3 min`, `5 h`, `2 days`.
pub fn say_span(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_written_with_milliseconds_and_read_back() {
        let moment = Time::from_millis(1_770_465_600_123);
        assert_eq!(moment.to_string(), "2026-02-07T12:00:00.123Z");
        assert_eq!("2026-02-07T12:00:00.123Z".parse(), Ok(moment));
        assert_eq!("2026-02-07T13:00:00.123+01:00".parse(), Ok(moment));
        assert_eq!(
            Time::from_millis(1_770_465_600_000).to_string(),
            "2026-02-07T12:00:00.000Z"
        );
        assert!("yesterday".parse::<Time>().is_err());
    }

    #[test]
    fn a_clock_set_back_gives_no_negative_age() {
        let later = Time::from_millis(2_000);
        assert_eq!(Time::from_millis(1_000).since(later), Duration::ZERO);
        assert_eq!(
            Time::from_millis(i64::MIN).since(Time::from_millis(i64::MAX)),
            Duration::ZERO
        );
    }

    #[test]
    fn the_far_future_can_still_be_written_and_read() {
        let far = Time::from_millis(1).after(Duration::from_secs(u64::MAX));
        assert_eq!(far.to_string().parse(), Ok(far));
    }

    #[test]
    fn moment_before_another_may_lie_before_1970() {
        let moment = Time::from_millis(1_000);
        assert_eq!(
            moment.before(Duration::from_millis(400)),
            Time::from_millis(600)
        );
        let early = moment.before(Duration::from_secs(60));
        assert_eq!(early.to_string().parse(), Ok(early));
    }

    #[test]
    fn spans_are_read_as_people_type_them() {
        assert_eq!(parse_span("5s"), Some(Duration::from_secs(5)));
        assert_eq!(parse_span("10m"), Some(Duration::from_secs(600)));
        assert_eq!(parse_span("24h"), Some(Duration::from_secs(86_400)));
        assert_eq!(parse_span("250ms"), Some(Duration::from_millis(250)));
        for wrong in ["", "5", "s", "-5s", "5 s", "5w", "99999999999999999999s"] {
            assert_eq!(parse_span(wrong), None, "{wrong}");
        }
    }
}

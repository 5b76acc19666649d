//! Limits of a provider, as its client reports them: which window is used up, and when it resets.

use serde_json::Value;
use teamster_types::Time;

use crate::text::text;

/// A time above this number is in milliseconds; as seconds, the number would lie in the year 5138.
const IN_MILLISECONDS: i64 = 100_000_000_000;

/// A limit that was reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReachedLimit {
    /// The window in words, such as `5-hour window`, if the client names it.
    pub window: Option<String>,
    /// When the limit resets, if the client reports it.
    pub resets_at: Option<Time>,
}

/// Parses a time in seconds or in milliseconds since 1970: versions of the same client use either.
fn moment(value: Option<&Value>) -> Option<Time> {
    let value = value?;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a part of a second is not needed"
    )]
    let number = value
        .as_i64()
        .or_else(|| value.as_f64().map(|number| number as i64))?;
    if number <= 0 {
        return None;
    }
    let millis = if number >= IN_MILLISECONDS {
        number
    } else {
        number.saturating_mul(1000)
    };
    Some(Time::from_millis(millis))
}

/// Returns the limit that Claude Code reports in its `rate_limit_info`, or `None` when none is reached.
pub(crate) fn of_claude(info: &Value) -> Option<ReachedLimit> {
    if text(info, "status") != Some("rejected") {
        return None;
    }
    let name = text(info, "rateLimitType");
    let of_window = || info.get("unifiedWindows")?.get(name?)?.get("resetsAt");
    let window = name.map(|name| match name {
        "five_hour" => "5-hour window".to_owned(),
        "seven_day" => "7-day window".to_owned(),
        other => match other.strip_prefix("seven_day_") {
            Some(of) => format!("7-day window, {}", of.replace('_', " ")),
            None => other.replace('_', " "),
        },
    });
    Some(ReachedLimit {
        window,
        resets_at: moment(info.get("resetsAt")).or_else(|| moment(of_window())),
    })
}

/// Returns the limit that Codex reports in its `rateLimits`, or `None` when none is reached. Of several windows, the one
/// that resets last counts.
pub(crate) fn of_codex(limits: &Value) -> Option<ReachedLimit> {
    let windows = ["primary", "secondary"].map(|window| limits.get(window));
    let reached = windows.into_iter().flatten().filter(|window| {
        let used = window.get("usedPercent").and_then(Value::as_f64);
        used.is_some_and(|used| used >= 100.0)
    });
    let reached = reached.map(|window| ReachedLimit {
        window: window
            .get("windowDurationMins")
            .and_then(Value::as_u64)
            .map(window_words),
        resets_at: moment(window.get("resetsAt")),
    });
    reached.max_by_key(|limit| limit.resets_at)
}

fn window_words(minutes: u64) -> String {
    match minutes {
        minutes if minutes % (24 * 60) == 0 => format!("{}-day window", minutes / (24 * 60)),
        minutes if minutes % 60 == 0 => format!("{}-hour window", minutes / 60),
        minutes => format!("{minutes}-minute window"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn moment_is_the_same_in_seconds_and_in_milliseconds() {
        let at = Time::from_millis(1_794_837_186_000);
        for told in [
            json!(1_794_837_186),
            json!(1_794_837_186_000_i64),
            json!(1_794_837_186.4),
        ] {
            assert_eq!(moment(Some(&told)), Some(at), "{told}");
        }
        for nothing in [json!(0), json!(-1), json!(null), json!("soon")] {
            assert_eq!(moment(Some(&nothing)), None, "{nothing}");
        }
    }

    #[test]
    fn only_a_limit_that_is_reached_counts() {
        let told = |status: &str| {
            of_claude(
                &json!({ "status": status, "rateLimitType": "five_hour", "resetsAt": 1_794_837_186 }),
            )
        };
        assert_eq!((told("allowed"), told("allowed_warning")), (None, None));
        let limit = told("rejected").unwrap();
        assert_eq!(limit.window.as_deref(), Some("5-hour window"));
        let nested = json!({ "status": "rejected", "rateLimitType": "seven_day",
            "unifiedWindows": { "seven_day": { "utilization": 1.0, "resetsAt": 1_794_837_186_000_i64 } } });
        let limit = of_claude(&nested).unwrap();
        assert_eq!(limit.window.as_deref(), Some("7-day window"));
        assert_eq!(limit.resets_at, Some(Time::from_millis(1_794_837_186_000)));
    }

    #[test]
    fn window_of_codex_that_is_lifted_last_counts() {
        let window = |used: f64, minutes: u64, at: i64| json!({ "usedPercent": used, "windowDurationMins": minutes, "resetsAt": at });
        let limits = json!({ "primary": window(100.0, 300, 1_794_837_186), "secondary": window(100.0, 10_080, 1_794_900_000) });
        let limit = of_codex(&limits).unwrap();
        assert_eq!(limit.window.as_deref(), Some("7-day window"));
        let limits = json!({ "primary": window(100.0, 300, 1_794_837_186), "secondary": window(40.0, 10_080, 1_794_900_000) });
        assert_eq!(
            of_codex(&limits).unwrap().window.as_deref(),
            Some("5-hour window")
        );
        assert_eq!(of_codex(&json!({ "primary": null })), None);
    }
}

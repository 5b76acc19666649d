//! Classifies API errors: by their HTTP status if the client reports it, by their words otherwise.
//!
//! Only texts that a client marks as API errors are classified by their words. The agent's own words and the output of tools
//! are never examined, or a task about rate limits would pause its worker.

use crate::event::ErrorClass;

/// Words of the clients and of the servers behind them, in lower case, the most specific first.
const ERROR_WORDS: &[(ErrorClass, &[&str])] = &[
    (
        ErrorClass::RateLimit,
        &[
            "rate limit",
            "rate_limit",
            "ratelimit",
            "too many requests",
            "resource_exhausted",
            "quota",
            "usage limit",
            "credit balance",
            "billing",
        ],
    ),
    (
        ErrorClass::SignIn,
        &[
            "unauthorized",
            "unauthenticated",
            "authentication",
            "failed to authenticate",
            "not logged in",
            "please run /login",
            "codex login",
            "invalid api key",
            "api key not valid",
            "api key not found",
            "missing api key",
            "missing environment variable",
            "token has expired",
        ],
    ),
    (
        ErrorClass::Outage,
        &[
            "overloaded",
            "high demand",
            "server_error",
            "server error",
            "service unavailable",
            "bad gateway",
            "gateway timeout",
            "stream disconnected",
            "stream ended without a finish reason",
            "stream error",
            "error sending request",
            "connection",
            "fetch failed",
            "network error",
            "socket hang up",
            "econnrefused",
            "econnreset",
            "enotfound",
            "etimedout",
            "eai_again",
            "dns error",
            "timed out",
        ],
    ),
];

/// Classifies an error by the HTTP status of the model's server.
pub(crate) fn classify_status(status: u64) -> ErrorClass {
    match status {
        401 | 403 => ErrorClass::SignIn,
        402 | 429 => ErrorClass::RateLimit,
        408 | 500..=599 => ErrorClass::Outage,
        _ => ErrorClass::Task,
    }
}

/// Classifies an API error by its words. An HTTP status in it takes precedence.
pub(crate) fn classify_message(message: &str) -> ErrorClass {
    if let Some(status) = status_in(message) {
        let class = classify_status(status);
        // An error with status 400 can still mean that the account is out of credit.
        if class != ErrorClass::Task {
            return class;
        }
    }
    let lower = message.to_lowercase();
    ERROR_WORDS
        .iter()
        .find(|(_, words)| words.iter().any(|word| lower.contains(word)))
        .map_or(ErrorClass::Task, |(class, _)| *class)
}

/// Returns the HTTP status in a message, as in `unexpected status 401 Unauthorized`, `API Error: 500 …`,
/// `rejected (429)` and `"code":500`.
pub(crate) fn status_in(message: &str) -> Option<u64> {
    const BEFORE: [&str; 6] = [
        "status",
        "status:",
        "error:",
        "\"code\":",
        "rejected (",
        "http",
    ];
    let lower = message.to_ascii_lowercase();
    BEFORE.iter().find_map(|before| {
        lower.match_indices(before).find_map(|(at, found)| {
            let rest = lower[at + found.len()..].trim_start();
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let number = rest.get(..digits)?.parse().ok()?;
            (digits == 3 && (400..600).contains(&number)).then_some(number)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_messages_of_the_clients_are_told_apart() {
        let table = [
            (
                "exceeded retry limit, last status: 429 Too Many Requests",
                ErrorClass::RateLimit,
            ),
            (
                "API Error: Request rejected (429) · mock",
                ErrorClass::RateLimit,
            ),
            (
                "[API Error: {\"error\":{\"code\":500}}]",
                ErrorClass::Outage,
            ),
            ("API Error: 529 overloaded", ErrorClass::Outage),
            (
                "unexpected status 401 Unauthorized: x, url: y",
                ErrorClass::SignIn,
            ),
            ("API Error: 400 prompt is too long", ErrorClass::Task),
            (
                "API Error: 400 Your credit balance is too low",
                ErrorClass::RateLimit,
            ),
            (
                "stream disconnected before completion: idle timeout waiting for SSE",
                ErrorClass::Outage,
            ),
            (
                "Model stream ended with malformed function call.",
                ErrorClass::Task,
            ),
            ("API Error: Connection error.", ErrorClass::Outage),
            ("Invalid API key · Please run /login", ErrorClass::SignIn),
            ("Not logged in · Please run /login", ErrorClass::SignIn),
            (
                "Missing environment variable: `OPENAI_API_KEY`.",
                ErrorClass::SignIn,
            ),
            ("error: 4290 lines", ErrorClass::Task),
            ("", ErrorClass::Task),
        ];
        for (message, expected) in table {
            assert_eq!(classify_message(message), expected, "{message}");
        }
    }
}

//! The answers that a person can type at the gate.

use teamster_journal::payload::GateAnswer;

/// What can be typed at the gate.
pub const HELP: &str = "Type: approve · reject · reject rollback · revise WHAT TO CHANGE";

/// The answer that a line is, if it is a clear one.
pub fn understand(line: &str) -> Option<GateAnswer> {
    let line = line.trim();
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    match word.to_lowercase().as_str() {
        "approve" | "yes" if rest.is_empty() => Some(GateAnswer::Approve),
        "reject" => {
            let (rollback, text) = match rest.strip_prefix("rollback") {
                Some(text) => (true, text.trim()),
                None => (false, rest),
            };
            Some(GateAnswer::Reject {
                rollback,
                text: text.to_owned(),
            })
        }
        "revise" if !rest.is_empty() => Some(GateAnswer::Revise {
            text: rest.to_owned(),
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_clear_is_an_answer() {
        assert_eq!(understand(" approve "), Some(GateAnswer::Approve));
        assert_eq!(understand("approve it all"), None);
        assert_eq!(understand("a"), None);
        assert_eq!(understand("y"), None);
        assert_eq!(understand("revise"), None);
        let revise = GateAnswer::Revise {
            text: "use one word".to_owned(),
        };
        assert_eq!(understand("Revise  use one word"), Some(revise));
        let reject = |rollback, text: &str| {
            Some(GateAnswer::Reject {
                rollback,
                text: text.to_owned(),
            })
        };
        assert_eq!(understand("reject"), reject(false, ""));
        assert_eq!(
            understand("reject rollback too slow"),
            reject(true, "too slow")
        );
        assert_eq!(understand("reject too slow"), reject(false, "too slow"));
    }
}

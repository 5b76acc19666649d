//! Answers that a person types.

use std::io::BufRead;
use std::sync::mpsc::{Receiver, channel};

use teamster_run::story::Answer;

/// Reads lines beside the run, so that nothing else has to wait for them.
#[derive(Debug, Default)]
pub struct Prompt {
    lines: Option<Receiver<String>>,
    /// What was typed and not understood.
    pub puzzled: Option<String>,
}

impl Prompt {
    /// What can be typed at the gate.
    pub const HELP: &'static str =
        "type: approve · reject · reject rollback · revise WHAT TO CHANGE";

    /// The next line, once there is one.
    pub fn line(&mut self) -> Option<String> {
        let lines = self.lines.get_or_insert_with(|| {
            let (sender, lines) = channel();
            std::thread::spawn(move || {
                for line in std::io::stdin().lock().lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        return;
                    }
                }
            });
            lines
        });
        lines.try_recv().ok()
    }

    /// The answer to the gate, once one was typed.
    pub fn answer(&mut self) -> Option<Answer> {
        let line = self.line()?;
        let answer = understand(&line);
        if answer.is_none() && !line.trim().is_empty() {
            self.puzzled = Some(line);
        }
        answer
    }
}

fn understand(line: &str) -> Option<Answer> {
    let line = line.trim();
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    match word.to_lowercase().as_str() {
        "approve" | "yes" if rest.is_empty() => Some(Answer::Approve),
        "reject" => {
            let (rollback, text) = match rest.strip_prefix("rollback") {
                Some(text) => (true, text.trim()),
                None => (false, rest),
            };
            Some(Answer::Reject {
                rollback,
                text: text.to_owned(),
            })
        }
        "revise" if !rest.is_empty() => Some(Answer::Revise {
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
        assert_eq!(understand(" approve "), Some(Answer::Approve));
        assert_eq!(understand("approve it all"), None);
        assert_eq!(understand("a"), None);
        assert_eq!(understand("y"), None);
        assert_eq!(understand("revise"), None);
        let revise = Answer::Revise {
            text: "use one word".to_owned(),
        };
        assert_eq!(understand("Revise  use one word"), Some(revise));
        let reject = |rollback, text: &str| {
            Some(Answer::Reject {
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

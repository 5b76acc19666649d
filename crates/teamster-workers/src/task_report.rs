//! The report of an agent at the end of a task.
//!
//! The last message of an agent may end with a fenced block named `teamster`, which holds a JSON object: `status`,
//! `summary`, `handover` and `problems`. Without one, the message itself is the summary, and the client's outcome decides
//! whether the task is done.
//!
//! The message is untrusted text: it is searched, never obeyed. Every text in a report is redacted, cleaned and shortened
//! before it is shown.

use serde_json::Value;
use teamster_types::text::shown;

/// The longest summary that goes into a task and a message, in characters.
const LONGEST_SUMMARY: usize = 4_000;
/// The longest handover that goes into a task, in characters.
const LONGEST_HANDOVER: usize = 8_000;
/// The most problems that go into a task, and the longest one in characters.
const PROBLEM_LIMITS: (usize, usize) = (20, 500);
/// The longest block that is read, in bytes.
const LONGEST_BLOCK: usize = 256 * 1024;
/// The name of the block.
const BLOCK_NAME: &str = "teamster";
/// The summary in the example that prompts contain: an agent that repeats its prompt has reported nothing.
const EXAMPLE_SUMMARY: &str = "…";

/// The agent's own status of the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportStatus {
    /// The task is done.
    Done,
    /// The task needs an answer before it can continue.
    Blocked,
    /// The task cannot be done.
    Failed,
}

impl ReportStatus {
    fn parse(word: &str) -> Option<Self> {
        match word.trim().to_ascii_lowercase().as_str() {
            "done" | "completed" | "complete" | "success" => Some(Self::Done),
            "blocked" => Some(Self::Blocked),
            "failed" | "failure" => Some(Self::Failed),
            _ => None,
        }
    }
}

/// The report of an agent at the end of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskReport {
    /// The status of the task: done, unless the agent says otherwise.
    pub status: ReportStatus,
    /// What was done, what is missing, or why the task cannot be done.
    pub summary: String,
    /// What a worker that builds on this work must know; may be empty.
    pub handover: String,
    /// The problems that were left open.
    pub problems: Vec<String>,
    /// Whether the report was in a block, so that the status is the agent's own statement.
    pub in_block: bool,
}

impl TaskReport {
    /// Parses the last message of an agent.
    pub fn parse(said: &str) -> Self {
        let Some((before, block)) = last_block(said) else {
            return Self::of_message(said);
        };
        let text = |key: &str| block.get(key).and_then(Value::as_str).unwrap_or_default();
        let summary = match text("summary").trim() {
            "" => before.trim(),
            summary => summary,
        };
        Self {
            status: ReportStatus::parse(text("status")).unwrap_or(ReportStatus::Done),
            summary: shown(summary, LONGEST_SUMMARY),
            handover: shown(text("handover").trim(), LONGEST_HANDOVER),
            problems: problems(block.get("problems")),
            in_block: true,
        }
    }

    /// Returns the report for a message without a block.
    fn of_message(said: &str) -> Self {
        Self {
            status: ReportStatus::Done,
            summary: shown(without_examples(said).trim(), LONGEST_SUMMARY),
            handover: String::new(),
            problems: Vec::new(),
            in_block: false,
        }
    }

    /// Returns why the task is not done, in the agent's words.
    pub fn reason(&self) -> String {
        let mut reason = self.summary.clone();
        for problem in &self.problems {
            if !reason.is_empty() {
                reason.push('\n');
            }
            reason.push_str(problem);
        }
        if reason.is_empty() {
            reason.push_str("the agent gave no reason");
        }
        shown(&reason, LONGEST_SUMMARY)
    }
}

/// Returns the problems, which may be a list of texts or a single text.
fn problems(value: Option<&Value>) -> Vec<String> {
    let (most, longest) = PROBLEM_LIMITS;
    let list = match value {
        Some(Value::Array(list)) => list.as_slice(),
        Some(one @ Value::String(_)) => std::slice::from_ref(one),
        _ => &[],
    };
    list.iter()
        .filter_map(Value::as_str)
        .map(|problem| shown(problem.trim(), longest))
        .filter(|problem| !problem.is_empty())
        .take(most)
        .collect()
}

/// Returns the last valid block, and the text before it.
fn last_block(said: &str) -> Option<(&str, Value)> {
    let mut found = None;
    let mut rest = 0;
    while let Some((begin, body, end)) = next_block(said, rest) {
        if let Some(block) = object(body).filter(|block| !is_example(block)) {
            found = Some((&said[..begin], block));
        }
        rest = end;
    }
    found
}

/// Returns the message without the examples in it.
fn without_examples(said: &str) -> String {
    let mut kept = String::with_capacity(said.len());
    let mut rest = 0;
    while let Some((begin, body, end)) = next_block(said, rest) {
        let is_left_out = object(body).is_some_and(|block| is_example(&block));
        kept.push_str(&said[rest..if is_left_out { begin } else { end }]);
        rest = end;
    }
    kept.push_str(&said[rest..]);
    kept
}

/// Returns whether a block is the example from the prompt.
fn is_example(block: &Value) -> bool {
    block.get("summary").and_then(Value::as_str) == Some(EXAMPLE_SUMMARY)
}

/// Returns the start of the next block, its contents, and its end.
fn next_block(said: &str, from: usize) -> Option<(usize, &str, usize)> {
    let mut at = from;
    let mut open: Option<(usize, usize, char, usize)> = None;
    for line in said[from..].split_inclusive('\n') {
        let begin = at;
        at += line.len();
        let text = line.trim();
        match open {
            None => {
                if let Some((mark, count)) = opens(text) {
                    open = Some((begin, at, mark, count));
                }
            }
            Some((first, body, mark, count)) => {
                let is_close = text.chars().count() >= count && text.chars().all(|c| c == mark);
                if is_close {
                    return Some((first, &said[body..begin], at));
                }
            }
        }
    }
    // A block that is never closed extends to the end of the message.
    open.map(|(first, body, ..)| (first, &said[body..], said.len()))
}

/// Returns the character and the length of a fence that opens a `teamster` block.
fn opens(line: &str) -> Option<(char, usize)> {
    let mark = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let count = line.chars().take_while(|c| *c == mark).count();
    let name = line[count..].split_whitespace().next()?;
    (count >= 3 && name.eq_ignore_ascii_case(BLOCK_NAME)).then_some((mark, count))
}

/// Returns the object in a block. Raw line ends in strings, which JSON forbids, are accepted because agents write them.
fn object(body: &str) -> Option<Value> {
    if body.len() > LONGEST_BLOCK {
        return None;
    }
    let value = serde_json::from_str::<Value>(body.trim())
        .or_else(|_| serde_json::from_str(&with_escaped_line_ends(body.trim())))
        .ok()?;
    value.is_object().then_some(value)
}

fn with_escaped_line_ends(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let (mut is_inside, mut is_escaped) = (false, false);
    for character in text.chars() {
        match character {
            '"' if !is_escaped => is_inside = !is_inside,
            '\n' if is_inside => {
                escaped.push_str("\\n");
                is_escaped = false;
                continue;
            }
            '\r' if is_inside => continue,
            '\t' if is_inside => {
                escaped.push_str("\\t");
                continue;
            }
            _ => {}
        }
        is_escaped = character == '\\' && !is_escaped;
        escaped.push(character);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn message_without_a_block_is_the_summary() {
        let report = TaskReport::parse("  I fixed it.\n```rust\nfn a() {}\n```\n");
        assert_eq!(report.status, ReportStatus::Done);
        assert_eq!(report.summary, "I fixed it.\n```rust\nfn a() {}\n```");
        assert_eq!(report.handover, "");
        assert!(report.problems.is_empty());
    }

    #[test]
    fn block_is_read_whatever_stands_around_it() {
        let said = "All done.\n\n   ~~~~ Teamster json\n\
                    {\"status\": \"blocked\", \"summary\": \"Which\ndatabase?\",\r\n\
                    \"handover\": \"a \\\"b\\\"\\tc\", \"problems\": [\"one\", 2, \" \", \"two\"]}\n   ~~~~\nBye.";
        let report = TaskReport::parse(said);
        assert_eq!(report.status, ReportStatus::Blocked);
        assert_eq!(report.summary, "Which\ndatabase?");
        assert_eq!(report.handover, "a \"b\"\tc");
        assert_eq!(report.problems, ["one", "two"]);
        assert_eq!(report.reason(), "Which\ndatabase?\none\ntwo");
    }

    #[test]
    fn last_block_that_can_be_read_wins_and_the_example_is_none() {
        let block = |summary: &str| format!("```teamster\n{{\"summary\": \"{summary}\"}}\n```\n");
        let said = [
            block("first").as_str(),
            &block("second"),
            "```teamster\nnonsense\n```\n",
            &block("…"),
        ]
        .concat();
        assert_eq!(TaskReport::parse(&said).summary, "second");
        let said = format!("Words.\n{}", block("…"));
        assert_eq!(TaskReport::parse(&said).summary, "Words.");
    }

    #[test]
    fn block_without_a_summary_or_an_end_still_counts() {
        let report = TaskReport::parse("It cannot be done.\n```teamster\n{\"status\":\"failed\"}");
        assert_eq!(report.status, ReportStatus::Failed);
        assert_eq!(report.reason(), "It cannot be done.");
        let nothing = TaskReport::parse("```teamster\n{\"status\":\"failed\"}\n```");
        assert_eq!(nothing.reason(), "the agent gave no reason");
    }

    #[test]
    fn every_text_is_redacted_cleaned_and_limited() {
        let token = format!("ghp_{}", "a1B2".repeat(9));
        let long = "x".repeat(20_000);
        let said = format!(
            "```teamster\n{{\"summary\": \"{long}\", \"handover\": \"\\u001b[31m{token}\", \"problems\": [{}]}}\n```",
            vec![format!("\"{token}\""); 50].join(",")
        );
        let report = TaskReport::parse(&said);
        assert_eq!(report.summary.chars().count(), LONGEST_SUMMARY);
        assert!(!report.handover.contains("ghp_") && !report.handover.contains('\u{1b}'));
        assert_eq!(report.problems.len(), PROBLEM_LIMITS.0);
        assert!(
            report
                .problems
                .iter()
                .all(|problem| !problem.contains("ghp_"))
        );
        let huge = format!(
            "```teamster\n{{\"summary\": \"{}\"}}\n```",
            "y".repeat(10_000_000)
        );
        assert_eq!(
            TaskReport::parse(&huge).summary.chars().count(),
            LONGEST_SUMMARY
        );
    }

    proptest! {
        #[test]
        fn no_message_breaks_the_reader(said in "([`~]{0,4}|teamster|\\PC|[\\n\"{}\\\\]){0,80}") {
            let report = TaskReport::parse(&said);
            prop_assert!(report.summary.chars().count() <= LONGEST_SUMMARY);
        }
    }
}

//! The workers' own words about their tasks.

use std::fmt::Write as _;

use teamster_journal::payload::{Shown, WorkerWords};
use teamster_types::redact::redact;
use teamster_types::text::{clip, one_line};

use super::markdown::{cell, inside, line, quoted, wrapped};
use super::{ReportInput, TaskLine};

/// The longest summary, and the longest problem, that is stored with the gate, in characters.
const LONGEST_SUMMARY: usize = 600;
/// The number of problems of one task that are stored with the gate.
const MOST_PROBLEMS: usize = 20;
/// Words by which a worker admits that something did not work, in English and in Korean.
const ADMISSIONS: [&str; 18] = [
    "could not",
    "couldn't",
    "cannot",
    "can't",
    "unable to",
    "not able to",
    "failed to",
    "did not finish",
    "didn't finish",
    "did not manage",
    "not possible",
    "impossible",
    "gave up",
    "not implemented",
    "still fails",
    "못했",
    "할 수 없",
    "실패했",
];

/// Returns the first sentence in which a worker admits that something did not work. It is shown at the gate, and keeps
/// the gate from approving automatically when the task changed nothing.
fn admission(text: &str) -> Option<String> {
    let found = sentences(text).into_iter().find(|sentence| {
        let sentence = sentence.to_lowercase().replace('’', "'");
        ADMISSIONS.iter().any(|words| sentence.contains(words))
    });
    found.map(|sentence| one_line(sentence.trim()))
}

/// Returns the sentences of a text. A dot inside a word, as in a file name, does not end a sentence.
fn sentences(text: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let ends = |(at, mark): (usize, char)| {
            let after = at + mark.len_utf8();
            let is_over = match mark {
                '\n' | '。' => true,
                '.' | '!' | '?' => rest[after..].starts_with(char::is_whitespace),
                _ => false,
            };
            is_over.then_some(after)
        };
        let end = rest.char_indices().find_map(ends).unwrap_or(rest.len());
        let (sentence, more) = rest.split_at(end.max(first.len_utf8()));
        sentences.push(sentence);
        rest = more;
    }
    sentences
}

impl TaskLine {
    /// Returns the worker's words about the task, or `None` when there are none.
    fn words(&self) -> Option<WorkerWords> {
        let summary = self.summary.as_deref().unwrap_or_default();
        if summary.trim().is_empty() && self.problems.is_empty() {
            return None;
        }
        let short = |text: &str| clip(&redact(text), LONGEST_SUMMARY);
        let problems = self.problems.iter().take(MOST_PROBLEMS);
        Some(WorkerWords {
            task_id: self.id.parse().ok()?,
            subject: self.subject.clone(),
            worker: self.worker.clone(),
            summary: short(summary),
            problems: problems.map(|problem| short(problem)).collect(),
            admission: admission(summary).map(|sentence| short(&sentence)),
        })
    }
}

impl ReportInput {
    /// Returns the workers' words about their tasks, in the order of the tasks.
    pub(crate) fn said(&self) -> Vec<WorkerWords> {
        self.tasks.iter().filter_map(TaskLine::words).collect()
    }
}

/// Returns what the workers say that they did, for the gate, one line for each task.
pub(super) fn gate_lines(shown: &Shown) -> String {
    let mut text = String::new();
    for said in &shown.said {
        let who = said.worker.as_deref().map(line).unwrap_or_default();
        let words = format!("{who}: {}", line(&said.summary));
        text.push_str(&wrapped(&format!("  {}  ", said.task_id), &words));
    }
    text
}

/// Returns what the workers say is left open or did not work, for the gate.
pub(super) fn open_lines(shown: &Shown) -> String {
    let mut text = String::new();
    for said in &shown.said {
        let who = said.worker.as_deref().map(line).unwrap_or_default();
        let mut say = |words: &str| {
            let first = format!("  {}  {who}: ", said.task_id);
            text.push_str(&wrapped(&first, words));
        };
        for problem in &said.problems {
            say(problem);
        }
        if let Some(admission) = &said.admission {
            say(&format!("“{admission}”"));
        }
    }
    text
}

/// Returns the section of the report with the summary, the handover and the open problems of each task.
pub(super) fn section(input: &ReportInput) -> String {
    let mut page = String::new();
    for task in &input.tasks {
        let handover = task.handover.as_deref().unwrap_or_default();
        let summary = task.summary.as_deref().unwrap_or_default();
        if summary.trim().is_empty() && handover.trim().is_empty() && task.problems.is_empty() {
            continue;
        }
        let who = match &task.worker {
            Some(worker) => format!(" ({})", cell(worker)),
            None => String::new(),
        };
        let gap = if page.is_empty() { "" } else { "\n" };
        let _ = writeln!(
            page,
            "{gap}### Task {}: {}{who}\n",
            cell(&task.id),
            cell(&task.subject)
        );
        page.push_str(&quoted(summary));
        if !handover.trim().is_empty() {
            let _ = write!(page, "\nHands over:\n\n{}", quoted(handover));
        }
        if !task.problems.is_empty() {
            page.push_str("\nLeft open:\n\n");
        }
        for problem in &task.problems {
            let _ = writeln!(page, "- {}", inside(problem));
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentence_that_says_that_something_did_not_work_is_found() {
        for (text, sentence) in [
            (
                "I fixed the form. I could not run the tests. The rest is fine.",
                Some("I could not run the tests."),
            ),
            (
                "Done!\nThe server still fails to\nstart",
                Some("The server still fails to"),
            ),
            ("I couldn’t reach it", Some("I couldn’t reach it")),
            (
                "폼을 고쳤습니다. 테스트는 실행하지 못했습니다.",
                Some("테스트는 실행하지 못했습니다."),
            ),
            ("I fixed the form. All tests pass.", None),
            ("", None),
        ] {
            assert_eq!(admission(text).as_deref(), sentence, "{text}");
        }
    }

    #[test]
    fn long_words_are_cut_and_secrets_are_not_in_them() {
        let token = format!("ghp_{}", "a1B2".repeat(9));
        let task = TaskLine {
            id: "1".to_owned(),
            summary: Some(format!("{} {token}", "x".repeat(590))),
            problems: vec!["y".repeat(10_000); 100],
            ..TaskLine::default()
        };
        let words = task.words().unwrap();
        assert!(!words.summary.contains("ghp_"), "{}", words.summary);
        assert_eq!(words.problems.len(), MOST_PROBLEMS);
        assert!(words.problems[0].chars().count() <= LONGEST_SUMMARY + 1);
        assert_eq!(TaskLine::default().words(), None);
    }

    #[test]
    fn sentence_that_admits_something_is_whole_and_names_of_files_do_not_end_it() {
        let admits = |text: &str| admission(text);
        assert_eq!(
            admits("I looked. I couldn’t mend news.txt: it is not mine! Sorry."),
            Some("I couldn’t mend news.txt: it is not mine!".to_owned())
        );
        assert_eq!(
            admits("Unable to do it"),
            Some("Unable to do it".to_owned())
        );
        assert_eq!(
            admits("찾았다. 고치지 못했다.\n끝."),
            Some("고치지 못했다.".to_owned())
        );
        assert_eq!(admits("All of it is done."), None);
        assert_eq!(admits(""), None);
    }
}

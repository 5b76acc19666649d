//! What an agent is told about its task.

use std::fmt::Write as _;

use teamster_types::message::Message;
use teamster_types::task::Task;

/// The prompt for a task, at most `limit` characters long. `before` is how the last attempt failed, `mail` what others
/// wrote to the worker since its last task, `told` what everybody in its place is told.
pub fn prompt(
    told: &str,
    task: &Task,
    before: Option<&str>,
    mail: &[Message],
    limit: usize,
) -> String {
    let mut text = String::new();
    if !told.trim().is_empty() {
        let _ = writeln!(text, "{}\n", told.trim());
    }
    let _ = writeln!(text, "{}\n", task.subject());
    if !task.description().is_empty() {
        let _ = writeln!(text, "{}\n", task.description());
    }
    let paths = task.paths();
    if !paths.is_empty() {
        let _ = writeln!(
            text,
            "Change only files that match: {}. Others work on the rest at the same time.\n",
            paths.join(", ")
        );
    }
    if let Some(before) = before {
        let _ = writeln!(text, "An earlier attempt failed: {before}\n");
    }
    if !mail.is_empty() {
        text.push_str("Messages for you:\n");
        for message in mail {
            let _ = writeln!(text, "- from {}: {}", message.from(), message.content());
        }
        text.push('\n');
    }
    text.push_str(
        "Work in the current folder, which is yours alone. Your changes are committed when you end; do not commit, \
         push or switch branches yourself unless the task says so. End when the task is done, or say clearly why it cannot be done.\n",
    );
    cut(text, limit)
}

/// How many of the messages go into one prompt: the rest waits for the next, instead of being cut away. One that alone is
/// too long goes, and is cut.
pub(crate) fn mail_that_fits(mail: &[Message], limit: usize) -> usize {
    let mut room = limit / 2;
    let mut count = 0;
    for message in mail {
        let length = message.from().chars().count() + message.content().chars().count() + 10;
        if count > 0 && length > room {
            break;
        }
        room = room.saturating_sub(length);
        count += 1;
    }
    count
}

/// Cut in the middle: the beginning says what to do, the end says how.
fn cut(text: String, limit: usize) -> String {
    let length = text.chars().count();
    if length <= limit {
        return text;
    }
    let note = "\n[…cut…]\n";
    let kept = limit.saturating_sub(note.chars().count());
    let end = kept / 4;
    let head: String = text.chars().take(kept - end).collect();
    let tail: String = text.chars().skip(length - end).collect();
    format!("{head}{note}{tail}")
}

#[cfg(test)]
mod tests {
    use teamster_types::Time;
    use teamster_types::task::NewTask;

    use super::*;

    fn task(description: &str) -> Task {
        let new = NewTask {
            subject: "Fix the parser".to_owned(),
            description: description.to_owned(),
            paths: vec!["src/**".to_owned()],
            ..NewTask::default()
        };
        Task::new("7".parse().unwrap(), &new, Time::from_millis(0))
    }

    #[test]
    fn a_prompt_says_what_where_and_what_went_wrong() {
        let now = Time::from_millis(0);
        let mail = [Message::new(
            "1",
            "message",
            "ann",
            "ben",
            "mind the tests",
            now,
        )];
        let text = prompt(
            "You review.",
            &task("It drops commas."),
            Some("exit code 1"),
            &mail,
            50_000,
        );
        for part in [
            "You review.\n\nFix the parser\n\nIt drops commas.\n\n",
            "match: src/**.",
            "failed: exit code 1",
            "- from ann: mind the tests",
        ] {
            assert!(text.contains(part), "{part} is missing in {text}");
        }
    }

    #[test]
    fn mail_that_does_not_fit_waits_for_the_next_prompt() {
        let now = Time::from_millis(0);
        let long = |id: &str| Message::new(id, "message", "ann", "ben", &"x".repeat(200), now);
        let mail = [long("1"), long("2"), long("3")];
        assert_eq!(mail_that_fits(&mail, 1_000), 2);
        assert_eq!(mail_that_fits(&mail, 100), 1);
        assert_eq!(mail_that_fits(&[], 1_000), 0);
    }

    #[test]
    fn a_long_prompt_is_cut_in_the_middle_to_the_limit() {
        let text = prompt("", &task(&"é".repeat(900)), None, &[], 600);
        assert_eq!(text.chars().count(), 600);
        assert!(text.starts_with("Fix the parser"), "{text}");
        assert!(text.contains("[…cut…]"));
        assert!(text.ends_with("cannot be done.\n"));
    }
}

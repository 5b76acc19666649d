//! Notifies a person who is not watching that a run needs them or has ended.

use std::ffi::OsString;
use std::path::PathBuf;

use teamster_app::config::NotifyMethod;
use teamster_app::env_vars;
use teamster_isolate::{detached, find_program};

use crate::context::Context;
use crate::shown::display_line;

/// The kinds of notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notification {
    /// The gate is open.
    ApprovalNeeded,
    /// An agent asks a question.
    AnswerNeeded,
    /// The run ended without a result.
    Failed,
    /// The run ended successfully.
    Done,
}

impl Notification {
    fn title(self) -> &'static str {
        match self {
            Self::ApprovalNeeded => "teamster: approval needed",
            Self::AnswerNeeded => "teamster: a question for you",
            Self::Failed => "teamster: failed",
            Self::Done => "teamster: done",
        }
    }
}

/// Sends a notification, by the desktop or as a bell. Errors are ignored.
pub fn notify(context: &Context, kind: Notification, text: &str) {
    let way = context.config.notify.value;
    if way == NotifyMethod::Off {
        return;
    }
    let path = env_vars::get(env_vars::PATH).unwrap_or_default();
    let find = |name: &str| find_program(name, &path);
    let message = match way {
        NotifyMethod::Desktop => message(kind.title(), &display_line(text), find),
        NotifyMethod::Bell | NotifyMethod::Off => None,
    };
    let is_sent = message.is_some_and(|(program, args)| detached::leave(&program, &args).is_ok());
    if !is_sent {
        let _ = context.out.bell();
    }
}

/// Returns the program that shows a message on this desktop, and its arguments. The text is never part of a script.
fn message(
    title: &str,
    text: &str,
    find: impl Fn(&str) -> Option<PathBuf>,
) -> Option<(PathBuf, Vec<OsString>)> {
    if let Some(program) = find("notify-send") {
        let args = ["--app-name=teamster", "--", title, text];
        return Some((program, args.iter().map(OsString::from).collect()));
    }
    let program = find("osascript")?;
    let args = [
        "-e",
        "on run argv",
        "-e",
        "display notification (item 2 of argv) with title (item 1 of argv)",
        "-e",
        "end run",
        "--",
        title,
        text,
    ];
    Some((program, args.iter().map(OsString::from).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(there: &'static str) -> Option<(PathBuf, Vec<OsString>)> {
        message("title", "--evil \" & \"", |name| {
            (name == there).then(|| PathBuf::from("/bin").join(name))
        })
    }

    #[test]
    fn a_text_is_an_argument_of_its_own_and_no_option() {
        for there in ["notify-send", "osascript"] {
            let (program, args) = said(there).unwrap();
            assert_eq!(program, PathBuf::from("/bin").join(there));
            let end = args.iter().position(|arg| arg == "--").unwrap();
            assert_eq!(args[end + 1..], ["title", "--evil \" & \""]);
        }
    }

    #[test]
    fn without_a_program_there_is_no_message() {
        assert_eq!(said("xmessage"), None);
    }
}

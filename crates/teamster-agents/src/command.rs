//! `command:…`: any program, run by a shell, with the task in its environment and the prompt on its standard input.
//!
//! No part of the task is inserted into the command. Its execution is its first event. Exit code 0 means success, because
//! there is no terminal event that could say otherwise. Messages that arrive while it works are appended to the file that
//! `TEAMSTER_INBOX` names.

use std::path::PathBuf;

use teamster_types::redact::LineRedactor;

use crate::driver::{
    AgentInput, CannotLaunch, Driver, Interrupt, Job, Launch, LineEffects, MessageRoute,
    OUTER_SESSION_VARS, OutputReader, SoftSignal, task_variables,
};
use crate::event::{AgentEvent, AgentSpending};
use crate::outcome::{AgentEnd, AgentOutcome, AgentVerdict, Exit, Stopped};
use crate::text::{LONGEST_TEXT, clip, describe_exit, last_line, one_line, reason};

/// The longest report that is read, in bytes.
const LONGEST_REPORT: usize = 64 * 1024;

/// The driver of any program.
#[derive(Clone, Debug)]
pub struct CommandDriver {
    command: String,
    secrets: Vec<String>,
}

impl CommandDriver {
    /// Creates the driver of a shell command, which may see these credentials.
    pub fn new(command: impl Into<String>, secrets: Vec<String>) -> Self {
        Self {
            command: command.into(),
            secrets,
        }
    }
}

impl Driver for CommandDriver {
    fn provider(&self) -> &'static str {
        "command"
    }

    fn launch(&self, job: &Job<'_>) -> Result<Launch, CannotLaunch> {
        if self.command.trim().is_empty() {
            return Err(CannotLaunch::Unfit(
                "there is no command after `command:`".to_owned(),
            ));
        }
        let mut set = task_variables(job);
        if let Some(inbox) = job.inbox {
            set.push(("TEAMSTER_INBOX".into(), inbox.into()));
        }
        Ok(Launch {
            program: PathBuf::from("/bin/sh"),
            args: vec!["-c".into(), self.command.clone().into()],
            set,
            unset: OUTER_SESSION_VARS.to_vec(),
            secrets: self.secrets.clone(),
            input: AgentInput::Text(job.prompt.as_bytes().to_vec()),
        })
    }

    fn reader(&self, job: &Job<'_>) -> Box<dyn OutputReader> {
        Box::new(CommandReader {
            has_inbox: job.inbox.is_some(),
            ..CommandReader::default()
        })
    }

    fn interrupt(&self) -> Interrupt {
        Interrupt::Signal(SoftSignal::Terminate)
    }
}

/// Parses the output of a program of the user's own.
#[derive(Debug, Default)]
struct CommandReader {
    has_inbox: bool,
    started: bool,
    last: String,
    report: CommandReport,
    redactor: LineRedactor,
}

/// The last report block in a program's output: from a line that begins with a fence and the name `teamster` to the line
/// that closes it.
#[derive(Debug, Default)]
struct CommandReport {
    text: String,
    is_open: bool,
}

impl CommandReport {
    /// Reads a line; returns whether it is part of a report.
    fn line(&mut self, line: &str) -> bool {
        let mark = line.trim();
        let is_fence = mark.starts_with("```") || mark.starts_with("~~~");
        let name = mark.trim_start_matches(['`', '~']).trim();
        if is_fence && name == "teamster" {
            self.text.clear();
            self.is_open = true;
        } else if !self.is_open {
            return false;
        }
        if self.text.len() + line.len() < LONGEST_REPORT {
            self.text.push_str(line);
            self.text.push('\n');
        }
        if is_fence && name.is_empty() {
            self.is_open = false;
        }
        true
    }
}

impl OutputReader for CommandReader {
    fn line(&mut self, line: &[u8]) -> LineEffects {
        let text = String::from_utf8_lossy(line);
        let text = text.trim_end_matches(['\n', '\r']);
        let mut events = Vec::new();
        if !std::mem::replace(&mut self.started, true) {
            events.push(AgentEvent::Started {
                session: None,
                model: None,
            });
        }
        if !text.trim().is_empty() {
            // A line in the middle of a private key does not look like a secret by itself.
            if let Some(shown) = self.redactor.line(text)
                && !self.report.line(&shown)
                && (self.last.is_empty() || shown.contains(char::is_alphanumeric))
            {
                self.last = one_line(&shown);
            }
            events.push(AgentEvent::Text(clip(text, LONGEST_TEXT)));
        }
        LineEffects {
            events,
            ..LineEffects::default()
        }
    }

    fn deliver(&mut self, _delivery: &str, _text: &str) -> MessageRoute {
        if self.has_inbox {
            MessageRoute::InboxFile
        } else {
            MessageRoute::Never
        }
    }

    fn end(self: Box<Self>, ending: AgentEnd, stderr_tail: &str) -> AgentOutcome {
        let said =
            last_line(stderr_tail).or_else(|| (!self.last.is_empty()).then(|| self.last.clone()));
        let with_said = |text: String| match said {
            Some(said) => reason(&format!("{text}: {said}")),
            None => text,
        };
        let verdict = match (ending.exit, ending.stopped) {
            (Exit::Code(0), _) if self.report.text.is_empty() => {
                AgentVerdict::Done { summary: self.last }
            }
            (Exit::Code(0), _) => AgentVerdict::Done {
                summary: format!("{}\n{}", self.last, self.report.text),
            },
            (_, Some(Stopped::Interrupted)) => AgentVerdict::Interrupted,
            (_, Some(Stopped::Silent)) => AgentVerdict::Failed {
                reason: with_said("it printed nothing for too long and was stopped".to_owned()),
            },
            (_, Some(Stopped::Late)) => AgentVerdict::Failed {
                reason: with_said(
                    "it exceeded the time limit of a task and was stopped".to_owned(),
                ),
            },
            (exit, None) => AgentVerdict::Failed {
                reason: with_said(describe_exit(exit)),
            },
        };
        AgentOutcome {
            limit: None,
            verdict,
            // The exit counts as a first event as well: a command may have no output.
            started: true,
            session: None,
            spent: AgentSpending::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(lines: &[&[u8]], ending: AgentEnd, stderr: &str) -> AgentOutcome {
        let mut reader = Box::<CommandReader>::default();
        for line in lines {
            reader.line(line);
        }
        reader.end(ending, stderr)
    }

    #[test]
    fn line_without_a_word_is_no_summary() {
        let lines: [&[u8]; 4] = [b"all done\n", b"```\n", b"---\n", b"}\n"];
        let outcome = run(&lines, AgentEnd::code(0), "");
        let done = AgentVerdict::Done {
            summary: "all done".to_owned(),
        };
        assert_eq!(outcome.verdict, done);
    }

    #[test]
    fn its_exit_code_is_its_verdict() {
        let done = run(&[b"one\n", b"\xfftwo\n", b"\n"], AgentEnd::code(0), "noise");
        assert_eq!(
            done.verdict,
            AgentVerdict::Done {
                summary: "\u{fffd}two".into()
            }
        );
        assert_eq!(done.spent, AgentSpending::default());
        assert!(run(&[], AgentEnd::code(0), "").started);
        let failed = run(&[b"one"], AgentEnd::code(3), "sh: no such thing\n\n").verdict;
        assert_eq!(
            failed,
            AgentVerdict::Failed {
                reason: "exit code 3: sh: no such thing".into()
            }
        );
        assert!(!run(&[], AgentEnd::signal(9), "").verdict.is_done());
    }

    #[test]
    fn last_report_of_its_output_is_part_of_its_summary() {
        let lines: [&[u8]; 9] = [
            b"one\n",
            b"```teamster\n",
            b"{\"summary\": \"first\"}\n",
            b"```\n",
            b"two\n",
            b"```teamster\n",
            b"{\"summary\":\n",
            b"\"second\"}\n",
            b"```\n",
        ];
        let done = run(&lines, AgentEnd::code(0), "");
        assert_eq!(
            done.verdict,
            AgentVerdict::Done {
                summary: "two\n```teamster\n{\"summary\":\n\"second\"}\n```\n".into()
            }
        );
    }

    #[test]
    fn one_that_we_stopped_is_not_done_unless_it_finished() {
        let stopped = AgentEnd::signal(15).stopped(Stopped::Interrupted);
        assert_eq!(run(&[], stopped, "").verdict, AgentVerdict::Interrupted);
        let late = AgentEnd::code(1).stopped(Stopped::Late);
        assert!(matches!(
            run(&[], late, "").verdict,
            AgentVerdict::Failed { .. }
        ));
    }
}

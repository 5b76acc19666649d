//! The agent that plays a script.
//!
//! Like any agent it works in its worktree and reports on its standard output. It changes files through [`ProjectFiles`],
//! so a script cannot reach outside of its worktree; commands are started by `teamster-isolate`.

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use teamster_fs::ProjectFiles;

use super::script::{EditStep, Script, ScriptStep};
use crate::event::ErrorClass;

/// The poll interval for a file that a step waits for.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
const LONG: Duration = Duration::from_secs(3600);

/// Where a script is played, and for which task.
#[derive(Clone, Copy)]
pub struct ScriptContext<'a> {
    /// The worktree in which the script is played.
    pub worktree: &'a Path,
    /// The task's number; empty without a task.
    pub id: &'a str,
    /// The subject of the task.
    pub subject: &'a str,
    /// The number of the attempt, counted from 1.
    pub attempt: u32,
    /// The name of the team.
    pub team: &'a str,
    /// The name of the worker.
    pub worker: &'a str,
    /// The task's label in its plan, if it came from one.
    pub label: Option<&'a str>,
    /// The prompt; may be empty.
    pub prompt: &'a str,
    /// The effects of a play on its own process and on the machine.
    pub host: &'a dyn ScriptHost,
}

impl ScriptContext<'_> {
    /// Returns whether the prompt contains these words. Line breaks make no difference.
    pub(super) fn prompt_contains(&self, words: &str) -> bool {
        let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        plain(self.prompt).contains(&plain(words))
    }

    /// Returns the id of the first question in the prompt, for a leader's answer; empty when there is none.
    fn question(&self) -> &str {
        let named = self.prompt.split("Question ").skip(1);
        let mut ids = named.filter_map(|rest| rest.split_once(" of ").map(|(id, _)| id));
        ids.find(|id| !id.contains(char::is_whitespace))
            .unwrap_or_default()
    }
}

/// The effects of a play on its own process and on the machine.
pub trait ScriptHost {
    /// Waits for this long.
    fn pause(&self, span: Duration);
    /// Makes this process ignore every signal except SIGKILL, or returns why that failed.
    fn ignore_signals(&self) -> Result<(), String>;
    /// Starts a process that leaves this one's group, session and process tree, and lives for `span`. Returns its pid, or why
    /// it could not be started.
    fn spawn_orphan(&self, span: Duration) -> Result<String, String>;
}

/// How a play ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptEnd {
    /// The process must end with this exit code.
    Exit(u8),
    /// The process must be killed by a signal.
    Crash,
}

/// Plays the steps that match the context. An error means that the output could not be written.
pub fn play(
    script: &Script,
    context: &ScriptContext<'_>,
    out: &mut dyn Write,
) -> io::Result<ScriptEnd> {
    let mut player = Player {
        context,
        out,
        said: String::new(),
        calls: 0,
        fills: false,
    };
    let steps = script.part(context);
    if !steps
        .iter()
        .any(|(_, step)| *step == ScriptStep::NeverStart)
    {
        player.start()?;
    }
    for (when, step) in &steps {
        player.fills = when.fill;
        if let StepResult::End(end) = player.step(step)? {
            return Ok(end);
        }
    }
    let summary = match steps.len() {
        _ if !player.said.is_empty() => player.said.clone(),
        0 => "the script has no step for this task, so nothing was done".to_owned(),
        1 => "played 1 step".to_owned(),
        several => format!("played {several} steps"),
    };
    player.finish(&summary)
}

struct Player<'a, 'o> {
    context: &'a ScriptContext<'a>,
    out: &'o mut dyn Write,
    said: String,
    calls: u32,
    /// Whether placeholders in braces are replaced in the current step.
    fills: bool,
}

/// Whether to continue after a step.
enum StepResult {
    Next,
    End(ScriptEnd),
}

impl Player<'_, '_> {
    fn start(&mut self) -> io::Result<()> {
        let session = format!("scripted-{}", teamster_fs::random_hex());
        self.print(&json!({ "type": "started", "session": session }))
    }

    fn step(&mut self, step: &ScriptStep) -> io::Result<StepResult> {
        match step {
            ScriptStep::Say { text } => {
                self.said = self.filled(text);
                self.print(&json!({ "type": "say", "text": self.said }))?;
            }
            ScriptStep::Commit { text } => {
                let message = self.filled(text);
                self.print(&json!({ "type": "commit", "message": message }))?;
            }
            ScriptStep::Sleep { span } => self.context.host.pause(*span),
            ScriptStep::Usage(used) => {
                let usage = used.usage();
                self.print(&json!({ "type": "used", "usage": usage, "costUsd": used.usd }))?;
            }
            ScriptStep::Fail { text, code } => {
                let reason = self.filled(text);
                self.fail(&reason, ErrorClass::Task)?;
                return Ok(StepResult::End(ScriptEnd::Exit(*code)));
            }
            ScriptStep::Pause { reason } => {
                let class = reason.class();
                let reason = format!("the script says: {}", class.words());
                return self.fail(&reason, class).map(StepResult::End);
            }
            ScriptStep::Hang => loop {
                self.context.host.pause(LONG);
            },
            ScriptStep::Crash { code: None } => return Ok(StepResult::End(ScriptEnd::Crash)),
            ScriptStep::Crash { code: Some(code) } => {
                return Ok(StepResult::End(ScriptEnd::Exit(*code)));
            }
            ScriptStep::Done { text } => {
                let summary = self.filled(text);
                return self.finish(&summary).map(StepResult::End);
            }
            // This step took effect before the first step was played.
            ScriptStep::NeverStart => {}
            ScriptStep::IgnoreSignals => {
                if let Err(reason) = self.context.host.ignore_signals() {
                    return self.fail(&reason, ErrorClass::Task).map(StepResult::End);
                }
                self.print(
                    &json!({ "type": "say", "text": "ignores SIGINT and SIGTERM from now on" }),
                )?;
            }
            ScriptStep::SpawnOrphan { span } => {
                let asked = format!("spawn-orphan for {} s", span.as_secs_f64());
                let call = self.call(&asked)?;
                let spawned = self.context.host.spawn_orphan(*span);
                self.answer(&call, &spawned)?;
                if let Err(reason) = spawned {
                    return self.fail(&reason, ErrorClass::Task).map(StepResult::End);
                }
            }
            ScriptStep::Run {
                command,
                within,
                may_fail,
            } => return self.run(command, *within, *may_fail),
            ScriptStep::WaitForFile { path, within } => return self.wait(path, *within),
            ScriptStep::Edit(_) | ScriptStep::Append { .. } | ScriptStep::Delete { .. } => {
                return self.touch(step);
            }
        }
        Ok(StepResult::Next)
    }

    fn run(&mut self, command: &str, within: Duration, may_fail: bool) -> io::Result<StepResult> {
        let call = self.call(command)?;
        let ran = run(command, within);
        self.answer(&call, &ran)?;
        match ran {
            Err(output) if !may_fail => {
                let last = output.trim().lines().next_back();
                let last = last.unwrap_or("it said nothing");
                let reason = format!("`{command}` failed: {last}");
                self.fail(&reason, ErrorClass::Task).map(StepResult::End)
            }
            _ => Ok(StepResult::Next),
        }
    }

    fn wait(&mut self, path: &str, within: Duration) -> io::Result<StepResult> {
        let path = self.filled(path);
        let file = self.context.worktree.join(&path);
        let mut waited = Duration::ZERO;
        while !file.exists() {
            if waited >= within {
                let reason = format!("{path} did not appear within {} s", within.as_secs());
                return self.fail(&reason, ErrorClass::Task).map(StepResult::End);
            }
            self.context.host.pause(POLL_INTERVAL);
            waited += POLL_INTERVAL;
        }
        Ok(StepResult::Next)
    }

    /// Reports the start of a command, and returns the id of the call.
    fn call(&mut self, command: &str) -> io::Result<String> {
        self.calls += 1;
        let call = format!("run-{}", self.calls);
        self.print(&json!({ "type": "run", "call": call, "command": command }))?;
        Ok(call)
    }

    /// Reports the result of a command.
    fn answer(&mut self, call: &str, came: &Result<String, String>) -> io::Result<()> {
        let (Ok(output) | Err(output)) = came;
        self.print(&json!({ "type": "ran", "call": call, "ok": came.is_ok(), "output": output }))
    }

    fn touch(&mut self, step: &ScriptStep) -> io::Result<StepResult> {
        match self.touched(step) {
            Ok(path) => {
                self.print(&json!({ "type": "changed", "path": path }))?;
                Ok(StepResult::Next)
            }
            Err(reason) => self.fail(&reason, ErrorClass::Task).map(StepResult::End),
        }
    }

    /// Changes a file; returns its path, or why it could not be changed.
    fn touched(&self, step: &ScriptStep) -> Result<String, String> {
        let reason = |error: teamster_fs::FsError| error.to_string();
        let tree = ProjectFiles::open(self.context.worktree)
            .map_err(reason)?
            .ok_or("its worktree is gone")?;
        let old = |path: &str| {
            let read = tree.read(Path::new(path)).map_err(reason)?;
            Ok::<_, String>(read)
        };
        match step {
            ScriptStep::Edit(EditStep::Write { path, content }) => {
                let path = self.filled(path);
                let text = self.filled(content);
                tree.write(Path::new(&path), text.as_bytes())
                    .map_err(reason)?;
                Ok(path)
            }
            ScriptStep::Append { path, text } => {
                let path = self.filled(path);
                let mut bytes = old(&path)?.unwrap_or_default();
                bytes.extend_from_slice(self.filled(text).as_bytes());
                tree.write(Path::new(&path), &bytes).map_err(reason)?;
                Ok(path)
            }
            ScriptStep::Edit(EditStep::Replace {
                path,
                find,
                replace,
            }) => {
                let path = self.filled(path);
                let bytes = old(&path)?.ok_or(format!("there is no {path} to edit"))?;
                let text = String::from_utf8(bytes).map_err(|_| format!("{path} is not UTF-8"))?;
                let find = self.filled(find);
                if !text.contains(&find) {
                    return Err(format!("{path} does not contain {find:?}"));
                }
                let text = text.replacen(&find, &self.filled(replace), 1);
                tree.write(Path::new(&path), text.as_bytes())
                    .map_err(reason)?;
                Ok(path)
            }
            ScriptStep::Delete { path } => {
                let path = self.filled(path);
                if tree.remove(Path::new(&path)).map_err(reason)? {
                    Ok(path)
                } else {
                    Err(format!("there is no {path} to delete"))
                }
            }
            _ => Err("this step changes no file".to_owned()),
        }
    }

    /// Returns a text with the placeholders in braces replaced by facts about the task, if its step wants that.
    fn filled(&self, text: &str) -> String {
        if !self.fills {
            return text.to_owned();
        }
        let context = self.context;
        let attempt = context.attempt.to_string();
        let known = [
            ("{id}", context.id),
            ("{attempt}", attempt.as_str()),
            ("{team}", context.team),
            ("{worker}", context.worker),
            ("{question}", context.question()),
            // The subject comes last, so that placeholders in it are not replaced.
            ("{subject}", context.subject),
        ];
        known.iter().fold(text.to_owned(), |text, (word, value)| {
            text.replace(word, value)
        })
    }

    fn finish(&mut self, summary: &str) -> io::Result<ScriptEnd> {
        self.print(&json!({ "type": "finished", "summary": summary }))?;
        Ok(ScriptEnd::Exit(0))
    }

    fn fail(&mut self, reason: &str, class: ErrorClass) -> io::Result<ScriptEnd> {
        self.print(&json!({ "type": "failed", "reason": reason, "trouble": class }))?;
        Ok(ScriptEnd::Exit(1))
    }

    /// Prints one whole line at once: a reader must never wait for the rest of it.
    fn print(&mut self, line: &Value) -> io::Result<()> {
        let mut bytes = line.to_string().into_bytes();
        bytes.push(b'\n');
        self.out.write_all(&bytes)?;
        self.out.flush()
    }
}

/// Runs a command in the current folder, which is the worktree. Returns its output, also when it failed.
fn run(command: &str, within: Duration) -> Result<String, String> {
    // Both streams are combined, as a person would see them.
    let script = format!("exec 2>&1\n{command}");
    match teamster_isolate::probe(Path::new("/bin/sh"), ["-c", script.as_str()], within) {
        Ok(answer) if answer.ok => Ok(answer.text),
        Ok(answer) => Err(answer.text),
        Err(silence) => Err(silence.to_string()),
    }
}

#[cfg(test)]
#[allow(
    clippy::disallowed_methods,
    reason = "tests arrange and look at files as any other program would"
)]
pub(super) mod tests {
    use super::*;
    use crate::driver::OutputReader;
    use crate::event::{AgentEvent, Usage};
    use crate::outcome::{AgentEnd, AgentOutcome, AgentVerdict};
    use crate::scripted::ScriptedReader;

    /// A host on which nothing takes time.
    pub(in crate::scripted) struct Nowhere;

    impl ScriptHost for Nowhere {
        fn pause(&self, _span: Duration) {}

        fn ignore_signals(&self) -> Result<(), String> {
            Ok(())
        }

        fn spawn_orphan(&self, span: Duration) -> Result<String, String> {
            Err(format!("nobody lives for {} s here", span.as_secs()))
        }
    }

    /// Plays a script in a folder of its own and parses its output as the driver does.
    fn played(
        script: &str,
        attempt: u32,
        check: impl FnOnce(&Path),
    ) -> (Vec<AgentEvent>, AgentOutcome, ScriptEnd) {
        let worktree =
            std::env::temp_dir().join(format!("teamster-play-{}", teamster_fs::random_hex()));
        std::fs::create_dir(&worktree).unwrap();
        let script = Script::parse(Path::new("x.toml"), script).unwrap();
        let context = ScriptContext {
            worktree: &worktree,
            id: "7",
            subject: "Add {id}",
            attempt,
            team: "t",
            worker: "w",
            label: None,
            prompt: "Question q17 of worker-2 about task 3:",
            host: &Nowhere,
        };
        let mut out = Vec::new();
        let played = play(&script, &context, &mut out).unwrap();
        check(&worktree);
        std::fs::remove_dir_all(&worktree).unwrap();
        let mut reader = Box::<ScriptedReader>::default();
        let mut events = Vec::new();
        for line in out.split_inclusive(|byte| *byte == b'\n') {
            events.extend(reader.line(line).events);
        }
        let ending = match played {
            ScriptEnd::Exit(code) => AgentEnd::code(code.into()),
            ScriptEnd::Crash => AgentEnd::signal(6),
        };
        (events, reader.end(ending, ""), played)
    }

    fn verdict(script: &str) -> AgentVerdict {
        played(script, 1, |_| {}).1.verdict
    }

    #[test]
    fn files_are_changed_and_told() {
        let script = "
        [[step]]\nfill = true\ndo = 'edit'\npath = 'out/{id}.txt'\ncontent = '{subject}, attempt {attempt}'\n\
        [[step]]\nfill = true\ndo = 'append'\npath = 'out/{id}.txt'\ntext = '!'\n\
        [[step]]\ndo = 'append'\npath = 'out/7.txt'\ntext = '{id}'\n\
        [[step]]\ndo = 'edit'\npath = 'out/7.txt'\nfind = 'attempt 2'\nreplace = 'again'\n\
        [[step]]\ndo = 'edit'\npath = 'gone'\ncontent = ''\n\
        [[step]]\ndo = 'delete'\npath = 'gone'\n\
        [[step]]\nfill = true\ndo = 'commit'\ntext = 'Task {id}'\n\
        [[step]]\ndo = 'usage'\ntokens_in = 10\ntokens_out = 2\nusd = 0.5\n\
        [[step]]\ndo = 'usage'\ntokens_in = 1\n\
        [[step]]\nfill = true\ndo = 'say'\ntext = 'all of {id}'\n";
        let (events, outcome, _) = played(script, 2, |worktree| {
            let text = std::fs::read_to_string(worktree.join("out/7.txt")).unwrap();
            assert_eq!(text, "Add {id}, again!{id}");
            assert!(!worktree.join("gone").exists());
        });
        assert!(matches!(
            events[0],
            AgentEvent::Started {
                session: Some(_),
                ..
            }
        ));
        assert!(events.contains(&AgentEvent::CommitAsked {
            message: "Task 7".into()
        }));
        assert_eq!(
            outcome.verdict,
            AgentVerdict::Done {
                summary: "all of 7".into()
            }
        );
        let usage = Usage {
            input: 11,
            output: 2,
            ..Usage::default()
        };
        assert_eq!(outcome.spent.usage, Some(usage));
        assert_eq!(outcome.spent.cost_usd, Some(0.5));
    }

    #[test]
    fn question_of_a_prompt_is_filled_in() {
        let script = "[[step]]\nfill = true\ndo = 'say'\ntext = '{question} is answered'";
        let (_, outcome, _) = played(script, 1, |_| {});
        let summary = "q17 is answered".to_owned();
        assert_eq!(outcome.verdict, AgentVerdict::Done { summary });
    }

    #[test]
    fn no_step_reaches_out_of_the_worktree() {
        for path in ["../x", "/tmp/x", "a/../../x", ".git/config", ""] {
            let failed = verdict(&format!(
                "[[step]]\ndo = 'edit'\npath = '{path}'\ncontent = ''"
            ));
            assert!(
                matches!(failed, AgentVerdict::Failed { .. }),
                "{path}: {failed:?}"
            );
        }
        let worktree =
            std::env::temp_dir().join(format!("teamster-play-{}", teamster_fs::random_hex()));
        std::fs::create_dir(&worktree).unwrap();
        std::os::unix::fs::symlink("/", worktree.join("link")).unwrap();
        let tree = ProjectFiles::open(&worktree).unwrap().unwrap();
        let error = tree.write(Path::new("link/tmp/x"), b"").unwrap_err();
        assert!(error.is_unsafe(), "{error}");
        std::fs::remove_dir_all(&worktree).unwrap();
    }

    #[test]
    fn a_play_ends_as_its_script_says() {
        let failed = |reason: &str| AgentVerdict::Failed {
            reason: reason.into(),
        };
        assert_eq!(verdict("[[step]]\ndo = 'fail'\ntext = 'no'"), failed("no"));
        assert_eq!(
            verdict("[[step]]\ndo = 'edit'\npath = 'a'\nfind = 'x'\nreplace = 'y'"),
            failed("there is no a to edit")
        );
        assert_eq!(
            verdict("[[step]]\ndo = 'run'\ncommand = 'echo so; exit 3'"),
            failed("`echo so; exit 3` failed: so")
        );
        assert!(verdict("[[step]]\ndo = 'run'\ncommand = 'exit 3'\nmay_fail = true").is_done());
        assert_eq!(
            verdict("[[step]]\ndo = 'pause'\nreason = 'rate-limit'"),
            AgentVerdict::Paused {
                class: ErrorClass::RateLimit,
                reason: "the script says: rate limit".into()
            }
        );
        assert!(matches!(
            verdict("[[step]]\ndo = 'crash'"),
            AgentVerdict::Failed { .. }
        ));
        assert!(matches!(
            verdict("[[step]]\ndo = 'crash'\ncode = 7"),
            AgentVerdict::Failed { .. }
        ));
        assert_eq!(
            verdict("[[step]]\ndo = 'done'\ntext = 'early'\n[[step]]\ndo = 'fail'\ntext = 'late'"),
            AgentVerdict::Done {
                summary: "early".into()
            }
        );
        assert_eq!(
            verdict("[[step]]\ndo = 'wait-for-file'\npath = 'never'\nseconds = 1"),
            failed("never did not appear within 1 s")
        );
        let nothing = AgentVerdict::Done {
            summary: "the script has no step for this task, so nothing was done".into(),
        };
        assert_eq!(verdict("[[step]]\ntask = 8\ndo = 'hang'"), nothing);
    }

    #[test]
    fn one_that_does_not_say_that_it_is_there_has_not_started() {
        let (_, outcome, _) = played(
            "[[step]]\ndo = 'never-start'\n[[step]]\ndo = 'crash'\ncode = 1",
            1,
            |_| {},
        );
        assert!(!outcome.started);
        let (_, outcome, _) = played("[[step]]\ndo = 'crash'\ncode = 1", 1, |_| {});
        assert!(outcome.started);
    }
}

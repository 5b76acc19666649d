//! The agent that plays a script.
//!
//! Like any agent it works in its worktree and tells what it does on its standard output. It touches files through
//! [`ProjectFiles`], so a script cannot reach out of its worktree; commands are started by `teamster-isolate`.

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use teamster_fs::ProjectFiles;

use super::script::{Script, ScriptPart, ScriptStep};
use crate::event::Trouble;

/// How often a file that is waited for is looked for.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
const LONG: Duration = Duration::from_secs(3600);

/// Where a script is played, and for which task.
#[derive(Clone, Copy)]
pub struct ScriptContext<'a> {
    /// The folder it works in.
    pub worktree: &'a Path,
    /// The task's number; empty without a task.
    pub id: &'a str,
    /// What the task is about.
    pub subject: &'a str,
    /// 1 for the first try.
    pub attempt: u32,
    /// The team.
    pub team: &'a str,
    /// The worker.
    pub worker: &'a str,
    /// What the plan calls the task, if it came from one.
    pub label: Option<&'a str>,
    /// What a play does to its own process and the machine.
    pub world: &'a dyn ScriptHost,
}

/// What a play does to its own process and the machine.
pub trait ScriptHost {
    /// Waits so long.
    fn pause(&self, span: Duration);
    /// From now on nothing but SIGKILL ends this process; or why not.
    fn ignore_signals(&self) -> Result<(), String>;
    /// Starts a process that leaves this one's group, session and family, and lives so long. Its pid, or why not.
    fn spawn_orphan(&self, span: Duration) -> Result<String, String>;
}

/// How a play ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptEnd {
    /// The process is to end with this exit code.
    Exit(u8),
    /// The process is to die of a signal.
    Crash,
}

/// Plays the section that fits the scene. An error means that nobody listens any more.
pub fn play(
    script: &Script,
    scene: &ScriptContext<'_>,
    out: &mut dyn Write,
) -> io::Result<ScriptEnd> {
    let mut player = Player {
        scene,
        out,
        said: String::new(),
        calls: 0,
        fills: true,
    };
    let Some(part) = script.part(scene) else {
        player.start()?;
        let reason = format!(
            "the script has no steps for task {} ({})",
            scene.id, scene.subject
        );
        return player.fail(&reason, Trouble::Task);
    };
    player.part(&part)
}

struct Player<'a, 'o> {
    scene: &'a ScriptContext<'a>,
    out: &'o mut dyn Write,
    said: String,
    calls: u32,
    fills: bool,
}

/// Whether to go on after a step.
enum Then {
    Next,
    End(ScriptEnd),
}

impl Player<'_, '_> {
    fn part(&mut self, part: &ScriptPart<'_>) -> io::Result<ScriptEnd> {
        self.fills = part.fills;
        if part.starts {
            self.start()?;
        }
        for step in &part.steps {
            match self.step(step)? {
                Then::Next => {}
                Then::End(played) => return Ok(played),
            }
        }
        let summary = match part.steps.len() {
            _ if !self.said.is_empty() => self.said.clone(),
            0 => "the script has no step for this task, so nothing was done".to_owned(),
            1 => "played 1 step".to_owned(),
            several => format!("played {several} steps"),
        };
        self.finish(&summary)
    }

    fn start(&mut self) -> io::Result<()> {
        let session = format!("scripted-{}", teamster_fs::random_hex());
        self.print(&json!({ "type": "started", "session": session }))
    }

    fn step(&mut self, step: &ScriptStep) -> io::Result<Then> {
        match step {
            ScriptStep::Say(text) => {
                self.said = self.filled(text);
                self.print(&json!({ "type": "say", "text": self.said }))?;
            }
            ScriptStep::Commit(message) => {
                let message = self.filled(message);
                self.print(&json!({ "type": "commit", "message": message }))?;
            }
            ScriptStep::Sleep(span) => self.scene.world.pause(*span),
            ScriptStep::Used { usage, cost_usd } => {
                self.print(&json!({ "type": "used", "usage": usage, "costUsd": cost_usd }))?;
            }
            ScriptStep::Fail { reason, code } => {
                let reason = self.filled(reason);
                self.fail(&reason, Trouble::Task)?;
                return Ok(Then::End(ScriptEnd::Exit(*code)));
            }
            ScriptStep::Pause(trouble) => {
                let reason = format!("the script says: {}", trouble.words());
                return self.fail(&reason, *trouble).map(Then::End);
            }
            ScriptStep::Hang => loop {
                self.scene.world.pause(LONG);
            },
            ScriptStep::Crash(None) => return Ok(Then::End(ScriptEnd::Crash)),
            ScriptStep::Crash(Some(code)) => return Ok(Then::End(ScriptEnd::Exit(*code))),
            ScriptStep::Done(summary) => {
                let summary = self.filled(summary);
                return self.finish(&summary).map(Then::End);
            }
            ScriptStep::IgnoreSignals => {
                if let Err(reason) = self.scene.world.ignore_signals() {
                    return self.fail(&reason, Trouble::Task).map(Then::End);
                }
                self.print(
                    &json!({ "type": "say", "text": "ignores SIGINT and SIGTERM from now on" }),
                )?;
            }
            ScriptStep::SpawnOrphan(span) => {
                let asked = format!("spawn-orphan for {} s", span.as_secs_f64());
                let call = self.call(&asked)?;
                let spawned = self.scene.world.spawn_orphan(*span);
                self.answer(&call, &spawned)?;
                if let Err(reason) = spawned {
                    return self.fail(&reason, Trouble::Task).map(Then::End);
                }
            }
            ScriptStep::Run { .. } | ScriptStep::WaitForFile { .. } => {
                return self.wait_or_run(step);
            }
            ScriptStep::Write { .. }
            | ScriptStep::Append { .. }
            | ScriptStep::Edit { .. }
            | ScriptStep::Delete(_) => {
                return self.touch(step);
            }
        }
        Ok(Then::Next)
    }

    fn wait_or_run(&mut self, step: &ScriptStep) -> io::Result<Then> {
        match step {
            ScriptStep::Run {
                command,
                within,
                may_fail,
            } => {
                let call = self.call(command)?;
                let ran = run(command, *within);
                self.answer(&call, &ran)?;
                if let Err(output) = ran
                    && !may_fail
                {
                    let last = output
                        .trim()
                        .lines()
                        .next_back()
                        .unwrap_or("it said nothing");
                    let reason = format!("`{command}` failed: {last}");
                    return self.fail(&reason, Trouble::Task).map(Then::End);
                }
            }
            ScriptStep::WaitForFile { path, within } => {
                let path = self.filled(path);
                let file = self.scene.worktree.join(&path);
                let mut waited = Duration::ZERO;
                while !file.exists() {
                    if waited >= *within {
                        let reason = format!("{path} did not come within {} s", within.as_secs());
                        return self.fail(&reason, Trouble::Task).map(Then::End);
                    }
                    self.scene.world.pause(LOOK_AGAIN);
                    waited += LOOK_AGAIN;
                }
            }
            _ => {}
        }
        Ok(Then::Next)
    }

    /// Says that something is being done; the number it is answered under.
    fn call(&mut self, command: &str) -> io::Result<String> {
        self.calls += 1;
        let call = format!("run-{}", self.calls);
        self.print(&json!({ "type": "run", "call": call, "command": command }))?;
        Ok(call)
    }

    /// Says what came of it.
    fn answer(&mut self, call: &str, came: &Result<String, String>) -> io::Result<()> {
        let (Ok(output) | Err(output)) = came;
        self.print(&json!({ "type": "ran", "call": call, "ok": came.is_ok(), "output": output }))
    }

    fn touch(&mut self, step: &ScriptStep) -> io::Result<Then> {
        match self.touched(step) {
            Ok(path) => {
                self.print(&json!({ "type": "changed", "path": path }))?;
                Ok(Then::Next)
            }
            Err(reason) => self.fail(&reason, Trouble::Task).map(Then::End),
        }
    }

    /// Changes a file; gives its path, or why it could not be changed.
    fn touched(&self, step: &ScriptStep) -> Result<String, String> {
        let words = |error: teamster_fs::FsError| error.to_string();
        let tree = ProjectFiles::open(self.scene.worktree)
            .map_err(words)?
            .ok_or("its worktree is gone")?;
        let old = |path: &str| {
            let read = tree.read(Path::new(path)).map_err(words)?;
            Ok::<_, String>(read)
        };
        match step {
            ScriptStep::Write { path, text } => {
                let path = self.filled(path);
                let text = self.filled(text);
                tree.write(Path::new(&path), text.as_bytes())
                    .map_err(words)?;
                Ok(path)
            }
            ScriptStep::Append { path, text } => {
                let path = self.filled(path);
                let mut bytes = old(&path)?.unwrap_or_default();
                bytes.extend_from_slice(self.filled(text).as_bytes());
                tree.write(Path::new(&path), &bytes).map_err(words)?;
                Ok(path)
            }
            ScriptStep::Edit {
                path,
                find,
                replace,
            } => {
                let path = self.filled(path);
                let bytes = old(&path)?.ok_or(format!("there is no {path} to edit"))?;
                let text = String::from_utf8(bytes).map_err(|_| format!("{path} is not UTF-8"))?;
                let find = self.filled(find);
                if !text.contains(&find) {
                    return Err(format!("{path} does not contain {find:?}"));
                }
                let text = text.replacen(&find, &self.filled(replace), 1);
                tree.write(Path::new(&path), text.as_bytes())
                    .map_err(words)?;
                Ok(path)
            }
            ScriptStep::Delete(path) => {
                let path = self.filled(path);
                if tree.remove(Path::new(&path)).map_err(words)? {
                    Ok(path)
                } else {
                    Err(format!("there is no {path} to delete"))
                }
            }
            _ => Err("this step changes no file".to_owned()),
        }
    }

    /// Words in braces stand for what is known about the task.
    fn filled(&self, text: &str) -> String {
        if !self.fills {
            return text.to_owned();
        }
        let scene = self.scene;
        let attempt = scene.attempt.to_string();
        let known = [
            ("{id}", scene.id),
            ("{attempt}", attempt.as_str()),
            ("{team}", scene.team),
            ("{worker}", scene.worker),
            // Last: a subject that looks like one of the others is not filled in again.
            ("{subject}", scene.subject),
        ];
        known.iter().fold(text.to_owned(), |text, (word, value)| {
            text.replace(word, value)
        })
    }

    fn finish(&mut self, summary: &str) -> io::Result<ScriptEnd> {
        self.print(&json!({ "type": "finished", "summary": summary }))?;
        Ok(ScriptEnd::Exit(0))
    }

    fn fail(&mut self, reason: &str, trouble: Trouble) -> io::Result<ScriptEnd> {
        self.print(&json!({ "type": "failed", "reason": reason, "trouble": trouble }))?;
        Ok(ScriptEnd::Exit(1))
    }

    /// One whole line, at once: whoever reads must never wait for the rest of it.
    fn print(&mut self, line: &Value) -> io::Result<()> {
        let mut bytes = line.to_string().into_bytes();
        bytes.push(b'\n');
        self.out.write_all(&bytes)?;
        self.out.flush()
    }
}

/// Runs a command in the current folder, which is the worktree. What it said, also when it failed.
fn run(command: &str, within: Duration) -> Result<String, String> {
    // Both streams in one, as a person would see them.
    let script = format!("exec 2>&1\n{command}");
    match teamster_isolate::probe(Path::new("/bin/sh"), ["-c", script.as_str()], within) {
        Ok(answer) if answer.ok => Ok(answer.text),
        Ok(answer) => Err(answer.text),
        Err(silence) => Err(silence.to_string()),
    }
}

#[cfg(test)]
#[path = "play_tests.rs"]
pub(super) mod tests;

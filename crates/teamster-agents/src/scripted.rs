//! `scripted:…`: an agent without a model, which plays a script.
//!
//! It is a process like any other agent: teamster's own binary with the hidden command `play`, which gets the script and the
//! prompt on its standard input. It prints JSON lines, which are parsed as strictly as any client's.

mod play;
mod script;

use std::path::{Path, PathBuf};

use serde_json::Value;

pub use play::{ScriptContext, ScriptEnd, ScriptHost, play};
pub use script::{Script, ScriptError};

use crate::driver::{
    AgentInput, CannotLaunch, Driver, Interrupt, Job, Launch, LineEffects, OUTER_SESSION_VARS,
    OutputReader, SoftSignal, task_variables,
};
use crate::event::{AgentEvent, AgentSpending, ErrorClass, Usage};
use crate::outcome::{AgentEnd, AgentOutcome, OutcomeBuilder, TerminalEvent};
use crate::text::{LONGEST_TEXT, clip, one_line, text};

/// The variable by which commands of a script find teamster's own program, to ask questions and send messages.
const PROGRAM: &str = "TEAMSTER_PROGRAM";
/// Separates the script from the prompt. No script can contain it.
const PROMPT_MARK: char = '\0';

/// Splits the standard input of a play into the script and the prompt.
pub fn script_and_prompt(input: &str) -> (&str, &str) {
    input.split_once(PROMPT_MARK).unwrap_or((input, ""))
}

/// The driver of an agent that plays a script.
#[derive(Clone, Debug)]
pub struct ScriptedDriver {
    file: PathBuf,
    text: Result<String, ScriptError>,
}

impl ScriptedDriver {
    /// Reads the script from this file once: the script is played as it was read, even if the file changes later.
    pub fn new(file: &Path) -> Self {
        Self {
            file: file.to_owned(),
            text: Script::text(file),
        }
    }
}

impl Driver for ScriptedDriver {
    fn provider(&self) -> &'static str {
        "scripted"
    }

    fn launch(&self, job: &Job<'_>) -> Result<Launch, CannotLaunch> {
        // A mistake in the script is reported here, where its line is known.
        let unfit = |error: &ScriptError| CannotLaunch::Unfit(error.to_string());
        let text = self.text.as_ref().map_err(unfit)?;
        Script::parse(&self.file, text).map_err(|error| unfit(&error))?;
        let mut set = task_variables(job);
        set.push((PROGRAM.into(), job.teamster.into()));
        Ok(Launch {
            program: job.teamster.to_owned(),
            args: vec!["play".into(), "-".into()],
            set,
            unset: OUTER_SESSION_VARS.to_vec(),
            secrets: Vec::new(),
            input: AgentInput::Text(format!("{text}{PROMPT_MARK}{}", job.prompt).into_bytes()),
        })
    }

    fn script(&self) -> Option<&[u8]> {
        self.text.as_ref().ok().map(String::as_bytes)
    }

    fn reader(&self, _job: &Job<'_>) -> Box<dyn OutputReader> {
        Box::<ScriptedReader>::default()
    }

    fn interrupt(&self) -> Interrupt {
        Interrupt::Signal(SoftSignal::Terminate)
    }
}

/// Parses the output of `teamster play`.
#[derive(Debug, Default)]
struct ScriptedReader {
    outcome: OutcomeBuilder,
    used: Option<Usage>,
    cost: Option<f64>,
}

impl ScriptedReader {
    fn used(&mut self, value: &Value) -> Vec<AgentEvent> {
        if let Some(cost) = value.get("costUsd").and_then(Value::as_f64) {
            self.cost = Some(self.cost.unwrap_or(0.0) + cost);
        }
        let usage = value.get("usage").cloned().unwrap_or_default();
        let Ok(usage) = serde_json::from_value::<Usage>(usage) else {
            return Vec::new();
        };
        self.used = Some(self.used.unwrap_or_default().plus(usage));
        vec![AgentEvent::Usage(usage)]
    }

    fn failed(&mut self, value: &Value) -> AgentEvent {
        let class = value.get("trouble").cloned().unwrap_or_default();
        self.outcome.finish(TerminalEvent::Failure {
            class: serde_json::from_value(class).unwrap_or(ErrorClass::Task),
            reason: text(value, "reason").unwrap_or("it failed").to_owned(),
        })
    }

    fn events(&mut self, kind: &str, value: &Value) -> Vec<AgentEvent> {
        let said = |key: &str| text(value, key).unwrap_or_default();
        match kind {
            "started" => {
                let started = self
                    .outcome
                    .start(text(value, "session"), text(value, "model"));
                started.into_iter().collect()
            }
            "say" => vec![AgentEvent::Text(clip(said("text"), LONGEST_TEXT))],
            "run" => vec![AgentEvent::ToolUse {
                call: said("call").to_owned(),
                tool: "run".to_owned(),
                detail: one_line(said("command")),
            }],
            "ran" => vec![AgentEvent::ToolResult {
                call: said("call").to_owned(),
                failed: value.get("ok") != Some(&Value::Bool(true)),
                detail: one_line(said("output")),
            }],
            "changed" => vec![AgentEvent::FileChange {
                paths: vec![PathBuf::from(said("path"))],
            }],
            "commit" => vec![AgentEvent::CommitAsked {
                message: clip(said("message"), LONGEST_TEXT),
            }],
            "used" => self.used(value),
            "finished" => vec![self.outcome.finish(TerminalEvent::Success {
                summary: said("summary").to_owned(),
            })],
            "failed" => vec![self.failed(value)],
            other => vec![AgentEvent::Unknown(one_line(other))],
        }
    }
}

impl OutputReader for ScriptedReader {
    fn line(&mut self, line: &[u8]) -> LineEffects {
        LineEffects::of_object(line, |kind, value| self.events(kind, value))
    }

    fn end(self: Box<Self>, ending: AgentEnd, stderr_tail: &str) -> AgentOutcome {
        let spent = AgentSpending {
            usage: self.used,
            cost_usd: self.cost,
            at_least: !self.outcome.is_finished(),
        };
        self.outcome.outcome(ending, stderr_tail, spent)
    }
}

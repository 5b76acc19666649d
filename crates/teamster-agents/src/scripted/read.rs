//! What `teamster play` prints.

use std::path::PathBuf;

use serde_json::Value;

use crate::course::{Course, End};
use crate::event::{AgentEvent, Spent, Trouble, Usage};
use crate::reader::{Ending, Outcome, Reader, Step};
use crate::words::{LONGEST_TEXT, clip, object, one_line, text};

#[derive(Debug, Default)]
pub(super) struct ScriptedReader {
    course: Course,
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
        let trouble = value.get("trouble").cloned().unwrap_or_default();
        self.course.finish(End::Failure {
            trouble: serde_json::from_value(trouble).unwrap_or(Trouble::Task),
            reason: text(value, "reason").unwrap_or("it failed").to_owned(),
        })
    }
}

impl Reader for ScriptedReader {
    fn line(&mut self, line: &[u8]) -> Step {
        let (kind, value) = match object(line) {
            Ok(Some(found)) => found,
            Ok(None) => return Step::default(),
            Err(unknown) => return Step::event(unknown),
        };
        let said = |key: &str| text(&value, key).unwrap_or_default();
        let events = match kind.as_str() {
            "started" => {
                let started = self
                    .course
                    .start(text(&value, "session"), text(&value, "model"));
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
            "used" => self.used(&value),
            "finished" => vec![self.course.finish(End::Success {
                summary: said("summary").to_owned(),
            })],
            "failed" => vec![self.failed(&value)],
            other => vec![AgentEvent::Unknown(one_line(other))],
        };
        Step {
            events,
            ..Step::default()
        }
    }

    fn end(self: Box<Self>, ending: Ending, stderr_tail: &str) -> Outcome {
        let spent = Spent {
            usage: self.used,
            cost_usd: self.cost,
            at_least: !self.course.is_finished(),
        };
        self.course.outcome(ending, stderr_tail, spent)
    }
}

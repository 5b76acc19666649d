//! The tools through which an agent reaches its team: their names, their arguments, and what each of them does.
//!
//! An agent calls them through its bridge's socket, with `teamster mcp` or with teamster's commands. The socket identifies
//! the caller; no argument can name a sender, and unknown arguments are refused.
//!
//! [`WorkerTool`] describes a tool to a client, [`WorkerCall`] is a call with parsed arguments, and `answer` implements each
//! call on the store.

pub(crate) mod answer;
pub(crate) mod quota;

pub use answer::recipient;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};
use teamster_journal::payload::Severity;
use teamster_types::json::Object;

/// The kind of a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The call is not allowed, or its arguments are invalid.
    #[default]
    Refused,
    /// The object of the call does not exist.
    NotFound,
    /// Another worker holds the object, or the step is not possible now.
    Conflict,
    /// The team or the bridge cannot be reached.
    Unreachable,
    /// The call failed for any other reason.
    Failed,
}

/// Why a tool call failed, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct ToolFailure {
    /// The kind of the failure.
    #[serde(default)]
    pub kind: FailureKind,
    /// What happened.
    pub message: String,
    /// What to do about it; may be empty.
    #[serde(default)]
    pub hint: String,
}

impl ToolFailure {
    /// Returns a refusal with a hint.
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            kind: FailureKind::Refused,
            message: message.into(),
            hint: hint.into(),
        }
    }

    /// Returns the same failure with another kind.
    #[must_use]
    pub fn of_kind(mut self, kind: FailureKind) -> Self {
        self.kind = kind;
        self
    }

    /// Returns the message and the hint in one text, for callers that show only one.
    pub fn in_words(&self) -> String {
        match self.hint.as_str() {
            "" => self.message.clone(),
            hint => format!("{}\nhint: {hint}", self.message),
        }
    }
}

/// A tool of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerTool {
    /// Lists who works on which task.
    TeamStatus,
    /// Returns one task with all its fields.
    TaskGet,
    /// Sends a message to another member of the team.
    MessageSend,
    /// Returns the messages that the agent has not received yet.
    InboxRead,
    /// Asks a question and waits for the answer.
    Ask,
    /// Reports the agent's progress.
    ReportProgress,
    /// Reports a defect of the work.
    AddFinding,
    /// Proposes a new task.
    ProposeTask,
}

impl WorkerTool {
    /// Every tool, in the order in which clients list them.
    pub const ALL: [Self; 8] = [
        Self::TeamStatus,
        Self::TaskGet,
        Self::MessageSend,
        Self::InboxRead,
        Self::Ask,
        Self::ReportProgress,
        Self::AddFinding,
        Self::ProposeTask,
    ];

    /// Returns the tool's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TeamStatus => "team_status",
            Self::TaskGet => "task_get",
            Self::MessageSend => "message_send",
            Self::InboxRead => "inbox_read",
            Self::Ask => "ask",
            Self::ReportProgress => "report_progress",
            Self::AddFinding => "add_finding",
            Self::ProposeTask => "propose_task",
        }
    }

    /// Returns the tool with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    /// Returns what the tool is for, with one example of its arguments.
    pub fn description(self) -> String {
        let purpose = match self {
            Self::TeamStatus => {
                "Shows who in your team works on what, every task with its state, and the open questions."
            }
            Self::TaskGet => {
                "Shows one task of your team: its description, what it waits for, and its result once it is done."
            }
            Self::MessageSend => {
                "Sends a message to another worker by name, to `lead`, or to `all`. Use it when others need to know \
                 something before they see your work. It does not wait for a reply."
            }
            Self::InboxRead => {
                "Reads the messages that others sent to you since your task began. Unread messages also come with the \
                 answer of every other tool, in `unread`."
            }
            Self::Ask => {
                "Asks the lead, or a person, and waits for the answer, which can take minutes. Ask when the \
                 work cannot be right without the answer; otherwise decide by yourself and say what you assumed. Without an \
                 answer in time, `answer` is null: then decide by yourself."
            }
            Self::ReportProgress => {
                "Tells people who watch the team how far you are, in one sentence."
            }
            Self::AddFinding => {
                "Records something that is wrong with the code: how bad it is, where, what proves it, what to do. It does not \
                 change your task."
            }
            Self::ProposeTask => {
                "Proposes a task that should be done and is not yours. The lead, or a person, decides; it does \
                 not wait for the decision."
            }
        };
        format!("{purpose} Example: {}", self.example())
    }

    /// Returns example arguments.
    pub fn example(self) -> Value {
        match self {
            Self::TeamStatus | Self::InboxRead => json!({}),
            Self::TaskGet => json!({ "id": "3" }),
            Self::MessageSend => {
                json!({ "to": "worker-2", "text": "parse() now returns a Result; src/lib.rs has the new type." })
            }
            Self::Ask => {
                json!({ "question": "The spec names two date formats. Which one should the export use?" })
            }
            Self::ReportProgress => {
                json!({ "text": "The parser is done, the tests are next.", "percent": 60 })
            }
            Self::AddFinding => json!({
                "severity": "major", "path": "src/parser.rs", "line": 42,
                "claim": "An empty input panics.", "evidence": "`cargo run -- ''` ends with index out of bounds",
                "suggestion": "Return an error when the input is empty.",
            }),
            Self::ProposeTask => json!({
                "subject": "Document the new date format", "description": "README.md still shows the old one.",
                "paths": ["README.md"], "blockedBy": ["3"],
            }),
        }
    }

    /// Returns the JSON schema of the tool's arguments.
    pub fn schema(self) -> Object {
        match self {
            Self::TeamStatus | Self::InboxRead => schema_of::<NoArguments>(),
            Self::TaskGet => schema_of::<TaskGetArguments>(),
            Self::MessageSend => schema_of::<MessageSendArguments>(),
            Self::Ask => schema_of::<AskArguments>(),
            Self::ReportProgress => schema_of::<ProgressArguments>(),
            Self::AddFinding => schema_of::<FindingArguments>(),
            Self::ProposeTask => schema_of::<ProposalArguments>(),
        }
    }
}

/// Returns the JSON schema of a tool's arguments, without references, which some clients do not resolve.
pub fn schema_of<T: JsonSchema>() -> Object {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let schema = settings.into_generator().into_root_schema_for::<T>();
    let mut schema = match schema.to_value() {
        Value::Object(schema) => schema,
        // The schema of a struct is an object.
        _ => Object::new(),
    };
    schema.shift_remove("title");
    schema.shift_remove("description");
    schema
}

/// The arguments of a tool that takes none.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoArguments {}

/// The arguments of `task_get`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskGetArguments {
    /// The task's number, such as "3".
    #[serde(deserialize_with = "text_or_number")]
    pub id: String,
}

/// The arguments of `message_send`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MessageSendArguments {
    /// The name of a worker, `lead` or `all`.
    pub to: String,
    /// What the message says, at most 64 KiB.
    pub text: String,
}

/// The arguments of `ask`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AskArguments {
    /// The question, with what one needs to know to answer it.
    pub question: String,
}

/// The arguments of `report_progress`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProgressArguments {
    /// How far you are, in one sentence.
    pub text: String,
    /// How much of the task is done by your estimate, from 0 to 100.
    #[serde(default)]
    #[schemars(with = "u8", range(max = 100))]
    pub percent: Option<u8>,
}

/// The arguments of `add_finding`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FindingArguments {
    /// How bad it is: `blocker` and `major` must be fixed before the work lands.
    pub severity: Severity,
    /// What is wrong, in one sentence.
    pub claim: String,
    /// The file, relative to the project; leave it out for the work as a whole.
    #[serde(default)]
    pub path: String,
    /// The line in that file, counted from 1.
    #[serde(default)]
    #[schemars(with = "u32", range(min = 1))]
    pub line: Option<u32>,
    /// What proves it: an output, a test, a piece of code.
    #[serde(default)]
    pub evidence: String,
    /// What to do about it.
    #[serde(default)]
    pub suggestion: String,
    /// The phase of a session that it belongs to: analyzing, planning, executing or reviewing.
    #[serde(default)]
    #[schemars(with = "String")]
    pub phase: Option<String>,
}

/// The arguments of `propose_task`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProposalArguments {
    /// What the task is about, in one line.
    pub subject: String,
    /// What is to be done, and why.
    #[serde(default)]
    pub description: String,
    /// Globs of the files that it may change.
    #[serde(default)]
    pub paths: Vec<String>,
    /// The numbers of tasks that it has to wait for.
    #[serde(default, deserialize_with = "texts_or_numbers")]
    pub blocked_by: Vec<String>,
}

/// A call of a tool with parsed arguments.
#[derive(Clone, Debug)]
pub enum WorkerCall {
    /// A call of `team_status`.
    TeamStatus,
    /// A call of `task_get`.
    TaskGet(TaskGetArguments),
    /// A call of `message_send`.
    MessageSend(MessageSendArguments),
    /// A call of `inbox_read`.
    InboxRead,
    /// A call of `ask`.
    Ask(AskArguments),
    /// A call of `report_progress`.
    ReportProgress(ProgressArguments),
    /// A call of `add_finding`.
    AddFinding(FindingArguments),
    /// A call of `propose_task`.
    ProposeTask(ProposalArguments),
}

impl WorkerCall {
    /// Parses a call. Unknown arguments are refused, so that a caller that names a sender is not misled into believing that it
    /// had an effect.
    pub fn read(tool: &str, arguments: Value) -> Result<Self, ToolFailure> {
        let Some(tool) = WorkerTool::named(tool) else {
            let names: Vec<&str> = WorkerTool::ALL.map(WorkerTool::name).to_vec();
            return Err(ToolFailure::new(
                format!("there is no tool {tool:?} for workers"),
                format!("the tools are {}", names.join(", ")),
            ));
        };
        Ok(match tool {
            WorkerTool::TeamStatus => {
                read_arguments::<NoArguments>(tool, arguments)?;
                Self::TeamStatus
            }
            WorkerTool::InboxRead => {
                read_arguments::<NoArguments>(tool, arguments)?;
                Self::InboxRead
            }
            WorkerTool::TaskGet => Self::TaskGet(read_arguments(tool, arguments)?),
            WorkerTool::MessageSend => Self::MessageSend(read_arguments(tool, arguments)?),
            WorkerTool::Ask => Self::Ask(read_arguments(tool, arguments)?),
            WorkerTool::ReportProgress => Self::ReportProgress(read_arguments(tool, arguments)?),
            WorkerTool::AddFinding => Self::AddFinding(read_arguments(tool, arguments)?),
            WorkerTool::ProposeTask => Self::ProposeTask(read_arguments(tool, arguments)?),
        })
    }
}

fn read_arguments<T: DeserializeOwned>(
    tool: WorkerTool,
    arguments: Value,
) -> Result<T, ToolFailure> {
    // Clients may omit the arguments of a tool that takes none.
    let arguments = match arguments {
        Value::Null => json!({}),
        other => other,
    };
    T::deserialize(arguments).map_err(|error| {
        ToolFailure::new(
            format!("{}: {error}", tool.name()),
            format!("an example of its arguments: {}", tool.example()),
        )
    })
}

#[derive(Deserialize)]
#[serde(untagged)]
enum TextOrNumber {
    Text(String),
    Number(u64),
}

impl From<TextOrNumber> for String {
    fn from(value: TextOrNumber) -> Self {
        match value {
            TextOrNumber::Text(text) => text,
            TextOrNumber::Number(number) => number.to_string(),
        }
    }
}

/// Reads the number of a task, which models often write as a JSON number.
fn text_or_number<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    TextOrNumber::deserialize(from).map(Into::into)
}

fn texts_or_numbers<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let all = Vec::<TextOrNumber>::deserialize(from)?;
    Ok(all.into_iter().map(Into::into).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_is_a_call_that_can_be_read() {
        for tool in WorkerTool::ALL {
            let call = WorkerCall::read(tool.name(), tool.example());
            assert!(call.is_ok(), "{}: {call:?}", tool.name());
            assert!(tool.description().contains("Example: {"));
        }
    }

    #[test]
    fn argument_that_names_a_sender_is_refused() {
        for forged in ["from", "sender", "actor", "worker", "team"] {
            let mut arguments = WorkerTool::MessageSend.example();
            arguments[forged] = json!("lead");
            let failure = WorkerCall::read("message_send", arguments).unwrap_err();
            assert!(failure.message.contains(forged), "{failure:?}");
        }
    }

    #[test]
    fn numbers_of_tasks_may_be_numbers() {
        let call = WorkerCall::read("task_get", json!({ "id": 3 })).unwrap();
        assert!(matches!(call, WorkerCall::TaskGet(arguments) if arguments.id == "3"));
        let proposal = json!({ "subject": "x", "blockedBy": [1, "2"] });
        let call = WorkerCall::read("propose_task", proposal).unwrap();
        assert!(
            matches!(call, WorkerCall::ProposeTask(arguments) if arguments.blocked_by == ["1", "2"])
        );
    }

    #[test]
    fn no_tool_decides_or_deletes() {
        for name in ["approve", "reject", "trust", "team_delete", "task_delete"] {
            assert!(WorkerTool::named(name).is_none(), "{name}");
            assert!(WorkerCall::read(name, json!({})).is_err(), "{name}");
        }
    }

    #[test]
    fn schemas_are_objects_without_references_that_refuse_unknown_arguments() {
        for tool in WorkerTool::ALL {
            let schema = tool.schema();
            assert_eq!(schema["type"], "object", "{}", tool.name());
            assert_eq!(schema["additionalProperties"], false, "{}", tool.name());
            let text = Value::Object(schema).to_string();
            assert!(!text.contains("$ref"), "{text}");
        }
        let finding = WorkerTool::AddFinding.schema();
        assert_eq!(finding["required"], json!(["severity", "claim"]));
    }
}

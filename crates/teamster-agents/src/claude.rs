//! Claude Code: a dialogue of JSON lines on both streams.
//!
//! `-p` with `stream-json` in both directions: the prompt is the first line of its input, permission requests are lines of
//! its output that the policy answers, and an interrupt is a line as well. After its result the input is closed, and it
//! exits.
//!
//! Pitfalls: an API error is a result with the subtype `success` and `is_error` true; the usage of a result is that of its
//! turn, while `total_cost_usd` is the sum of the session, including earlier processes; the usage of a message is repeated
//! with each of its blocks, and its output tokens are counted only at the end.

mod mail;
mod requests;

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::detect;
use crate::driver::{
    AgentInput, AgentTools, CannotLaunch, Driver, Interrupt, Job, Launch, LineEffects,
    MessageRoute, OutputReader, PermissionReply, QuestionReply, SERVE_TOOLS, SOCKET, TOOL_SERVER,
    as_plain_text,
};
use crate::error_class;
use crate::event::{AgentEvent, AgentSpending, ErrorClass, PermissionDecision, Usage};
use crate::limit;
use crate::outcome::{AgentEnd, AgentOutcome, OutcomeBuilder, TerminalEvent};
use crate::text::{LONGEST_TEXT, clip, count, object, one_line, text, tool_detail};
use mail::MailDelivery;
use requests::Requests;

/// The driver of Claude Code.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClaudeDriver;

/// The variables that hold the credentials of Claude Code, for every way in which it reaches its model.
const SECRETS: [&str; 6] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_FOUNDRY_API_KEY",
    "AWS_BEARER_TOKEN_BEDROCK",
    "CLAUDE_CODE_OAUTH_REFRESH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
];

/// The variables with which Claude Code needs no login of its own.
const SIGN_IN: [&str; 3] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
];
/// The variables that make Claude Code use a cloud, which has its own login.
const CLOUDS: [&str; 3] = [
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_USE_FOUNDRY",
];

impl ClaudeDriver {
    /// Returns whether the environment alone lets the client reach its model, without the user's own folder.
    pub fn has_credentials(var: impl Fn(&str) -> Option<OsString>) -> bool {
        let is_set = |name: &&str| var(name).is_some_and(|value| !value.is_empty());
        let is_on = |name: &&str| {
            var(name).is_some_and(|value| {
                !["", "0", "false", "no", "off"]
                    .iter()
                    .any(|off| value == *off)
            })
        };
        SIGN_IN.iter().any(is_set) || CLOUDS.iter().any(is_on)
    }
}

impl Driver for ClaudeDriver {
    fn provider(&self) -> &'static str {
        "claude"
    }

    fn launch(&self, job: &Job<'_>) -> Result<Launch, CannotLaunch> {
        let program = detect::program("claude", job.path)?;
        let mut args: Vec<OsString> = [
            "-p",
            "--input-format",
            "stream-json",
            "--output-format",
            "stream-json",
            "--verbose",
            // Every edit is asked for, so that the policy decides about every edit.
            "--permission-mode",
            "default",
            "--permission-prompt-tool",
            "stdio",
            // The client replays each line of its input when it accepts it, which confirms the delivery of a message.
            "--replay-user-messages",
            // The user's own servers would be started for every worker, although their tools are denied.
            "--strict-mcp-config",
        ]
        .map(Into::into)
        .to_vec();
        if let Some(tools) = &job.tools {
            args.extend(["--mcp-config".into(), server_config(job, tools).into()]);
            args.extend(["--allowedTools".into(), OWN_TOOLS.into()]);
        }
        if let Some(model) = job.model {
            args.extend(["--model".into(), model.into()]);
        }
        if let Some(resume) = &job.resume {
            args.extend(["--resume".into(), resume.session.into()]);
        }
        let mut launch = Launch::of_client(job, program, args, &SECRETS);
        if let Some(tools) = &job.tools {
            let patience = tools.client_timeout().as_millis().to_string();
            let patience = ("MCP_TOOL_TIMEOUT".into(), patience.into());
            launch.set.push(patience);
        }
        // Dozens of workers must not replace their own program while others run it.
        let no_updates = ("DISABLE_AUTOUPDATER".into(), "1".into());
        launch.set.push(no_updates);
        launch.input = AgentInput::Dialogue(user_line(&as_plain_text(job.prompt), None));
        Ok(launch)
    }

    fn reader(&self, job: &Job<'_>) -> Box<dyn OutputReader> {
        Box::new(ClaudeReader::new(job))
    }

    fn interrupt(&self) -> Interrupt {
        Interrupt::Line(interrupt_line())
    }
}

fn interrupt_line() -> Vec<u8> {
    line(&json!({
        "type": "control_request",
        "request_id": "teamster-interrupt",
        "request": { "subtype": "interrupt" },
    }))
}

/// Returns the input line with a text for the agent. The client replays it with the same id when it accepts it.
fn user_line(text: &str, uuid: Option<&str>) -> Vec<u8> {
    let mut value = json!({
        "type": "user",
        "message": { "role": "user", "content": [{ "type": "text", "text": text }] },
    });
    if let Some(uuid) = uuid {
        value["uuid"] = json!(uuid);
    }
    line(&value)
}

/// The rule that allows every tool of teamster's own server.
const OWN_TOOLS: &str = "mcp__teamster";

/// Returns the client's configuration of teamster's own server. Without `alwaysLoad` the client would load the tools only
/// when it believes that it needs one.
fn server_config(job: &Job<'_>, tools: &AgentTools<'_>) -> String {
    let server = json!({
        "type": "stdio",
        "command": job.teamster.to_string_lossy(),
        "args": [SERVE_TOOLS],
        "env": { SOCKET: tools.socket.to_string_lossy() },
        "alwaysLoad": true,
    });
    json!({ "mcpServers": { TOOL_SERVER: server } }).to_string()
}

/// Returns a JSON value as one line.
fn line(value: &Value) -> Vec<u8> {
    let mut bytes = value.to_string().into_bytes();
    bytes.push(b'\n');
    bytes
}

/// The most edits that are remembered until their results arrive.
const MOST_PENDING: usize = 1000;

/// Parses the event stream of Claude Code.
struct ClaudeReader {
    outcome: OutcomeBuilder,
    requests: Requests,
    mail: MailDelivery,
    resumed: bool,
    /// The cost of the session before this run, if it is known.
    cost_before: Option<f64>,
    /// The total cost that the client reported last.
    cost_told: Option<f64>,
    /// The sum of the costs that the results reported for themselves.
    cost_of_results: Option<f64>,
    /// The usage that events have reported so far.
    told: Usage,
    /// The usage that results reported.
    settled: Usage,
    /// The usage of messages since the last result, each message counted once.
    open: Usage,
    last_message: Option<(String, Usage)>,
    results: u32,
    /// The result of the last turn, when another turn may follow.
    said_before: Option<String>,
    /// The files that tool calls want to change, by call.
    pending: HashMap<String, PathBuf>,
}

impl ClaudeReader {
    fn new(job: &Job<'_>) -> Self {
        Self {
            outcome: OutcomeBuilder::default(),
            requests: Requests::new(job),
            mail: MailDelivery::default(),
            resumed: job.resume.is_some(),
            cost_before: match &job.resume {
                None => Some(0.0),
                Some(resume) => resume.spent.and_then(|spent| spent.cost_usd),
            },
            cost_told: None,
            cost_of_results: None,
            told: Usage::default(),
            settled: Usage::default(),
            open: Usage::default(),
            last_message: None,
            results: 0,
            said_before: None,
            pending: HashMap::new(),
        }
    }

    fn system(&mut self, value: &Value) -> Vec<AgentEvent> {
        match text(value, "subtype") {
            Some("init") => {
                let (session, model) = (text(value, "session_id"), text(value, "model"));
                self.outcome.start(session, model).into_iter().collect()
            }
            Some("api_retry") => {
                let status = value.get("error_status").and_then(Value::as_u64);
                let word = text(value, "error").unwrap_or("unknown");
                // Without a status there was no response at all.
                let class = status.map_or(ErrorClass::Outage, error_class::classify_status);
                let message = match status {
                    Some(status) => format!("the model's server answers {status} ({word})"),
                    None => format!("the model's server does not answer ({word})"),
                };
                vec![self.outcome.error(class, &message, true)]
            }
            Some("permission_denied") => vec![AgentEvent::PermissionAsked {
                request: text(value, "tool_use_id").unwrap_or_default().to_owned(),
                tool: text(value, "tool_name").unwrap_or_default().to_owned(),
                detail: String::new(),
                decision: PermissionDecision::Denied {
                    reason: one_line(text(value, "message").unwrap_or_default()),
                },
            }],
            _ => Vec::new(),
        }
    }

    fn assistant(&mut self, value: &Value, is_own: bool) -> Vec<AgentEvent> {
        let message = value.get("message").unwrap_or(&Value::Null);
        let blocks = message.get("content").and_then(Value::as_array);
        let blocks = blocks.map(Vec::as_slice).unwrap_or_default();
        if value.get("is_api_error_message") == Some(&Value::Bool(true)) {
            let said: Vec<&str> = blocks
                .iter()
                .filter_map(|block| text(block, "text"))
                .collect();
            let status = value.get("api_error_status").and_then(Value::as_u64);
            let said = said.join("\n");
            let class = api_error_class(status, &said);
            return vec![self.outcome.error(class, &said, false)];
        }
        self.outcome.note_progress();
        let mut events = Vec::new();
        for block in blocks {
            match text(block, "type") {
                Some("text") => events.push(AgentEvent::Text(clip(
                    text(block, "text").unwrap_or_default(),
                    LONGEST_TEXT,
                ))),
                Some("tool_use") => {
                    if let (true, Some(call)) = (is_own, text(block, "id")) {
                        self.mail.call_began(call);
                    }
                    events.push(self.tool_use(block));
                }
                _ => {}
            }
        }
        events.extend(self.message_usage(message));
        events
    }

    fn tool_use(&mut self, block: &Value) -> AgentEvent {
        let call = text(block, "id").unwrap_or_default().to_owned();
        let tool = text(block, "name").unwrap_or_default().to_owned();
        let input = block.get("input").unwrap_or(&Value::Null);
        let edits = matches!(
            tool.as_str(),
            "Write" | "Edit" | "MultiEdit" | "NotebookEdit"
        );
        let file = text(input, "file_path").or_else(|| text(input, "notebook_path"));
        if let (true, Some(file)) = (edits && self.pending.len() < MOST_PENDING, file) {
            self.pending.insert(call.clone(), file.into());
        }
        AgentEvent::ToolUse {
            detail: tool_detail(input),
            call,
            tool,
        }
    }

    /// Reports the usage of a message as soon as it is known: a budget cannot wait for the end of a turn.
    fn message_usage(&mut self, message: &Value) -> Option<AgentEvent> {
        let id = text(message, "id")?;
        let usage = usage_of(message.get("usage")?);
        let known = match &self.last_message {
            Some((last, known)) if last == id => *known,
            _ => Usage::default(),
        };
        let usage = usage.larger(known);
        self.last_message = Some((id.to_owned(), usage));
        self.open = self.open.plus(usage.minus(known));
        self.tell(self.settled.plus(self.open))
    }

    /// Returns the event that brings the reported usage up to `sum`.
    fn tell(&mut self, sum: Usage) -> Option<AgentEvent> {
        let rest = sum.minus(self.told);
        self.told = self.told.plus(rest);
        (!rest.is_zero()).then_some(AgentEvent::Usage(rest))
    }

    fn user(&mut self, value: &Value) -> Vec<AgentEvent> {
        let content = value.pointer("/message/content").and_then(Value::as_array);
        let mut events = Vec::new();
        for block in content.into_iter().flatten() {
            if text(block, "type") != Some("tool_result") {
                continue;
            }
            let call = text(block, "tool_use_id").unwrap_or_default().to_owned();
            let failed = block.get("is_error") == Some(&Value::Bool(true));
            let file = self.pending.remove(&call);
            self.mail.call_ended(&call);
            events.push(AgentEvent::ToolResult {
                call,
                failed,
                detail: result_detail(block.get("content").unwrap_or(&Value::Null)),
            });
            if let (Some(file), false) = (file, failed) {
                events.push(AgentEvent::FileChange { paths: vec![file] });
            }
        }
        events
    }

    fn result(&mut self, value: &Value) -> Vec<AgentEvent> {
        self.results += 1;
        let of_models = of_models(value.get("model_usage_since_last_result"));
        let turn = match (&of_models, value.get("usage")) {
            // Newer versions include the usage of subagents.
            (Some((usage, _)), _) => *usage,
            (None, Some(usage)) => usage_of(usage),
            (None, None) => self.open,
        };
        self.settled = self.settled.plus(turn);
        self.open = Usage::default();
        self.last_message = None;
        let mut events: Vec<AgentEvent> = self.tell(self.settled).into_iter().collect();
        self.cost_told = value
            .get("total_cost_usd")
            .and_then(Value::as_f64)
            .or(self.cost_told);
        if let Some((_, cost)) = of_models {
            self.cost_of_results = Some(self.cost_of_results.unwrap_or(0.0) + cost);
        }
        let end = self.end_of(value);
        events.push(self.outcome.finish(end));
        events
    }

    fn end_of(&self, value: &Value) -> TerminalEvent {
        let said = text(value, "result").unwrap_or_default();
        if text(value, "subtype") == Some("success")
            && value.get("is_error") == Some(&Value::Bool(false))
        {
            if value.get("num_turns").and_then(Value::as_u64) == Some(0) {
                return TerminalEvent::Failure {
                    class: ErrorClass::Task,
                    reason: format!("no model was asked, the client answered by itself: {said}"),
                };
            }
            let summary = match &self.said_before {
                Some(before) => format!("{before}\n\n{said}"),
                None => said.to_owned(),
            };
            return TerminalEvent::Success { summary };
        }
        let errors = value.get("errors").and_then(Value::as_array);
        let errors: Vec<&str> = errors
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let mut reason = if said.is_empty() {
            errors.join("; ")
        } else {
            said.to_owned()
        };
        if self.resumed
            && errors
                .iter()
                .any(|error| error.contains("No conversation found"))
        {
            return TerminalEvent::SessionGone { reason };
        }
        let status = value.get("api_error_status").and_then(Value::as_u64);
        let why = text(value, "terminal_reason").unwrap_or_default();
        if why.starts_with("aborted") {
            "the turn was interrupted".clone_into(&mut reason);
        }
        let class = if why == "api_error" || status.is_some() {
            api_error_class(status, &reason)
        } else {
            self.outcome.class().unwrap_or(ErrorClass::Task)
        };
        // The client's own words for an incomplete response do not help a person.
        if class.pauses() && (reason.is_empty() || reason.starts_with("[ede_diagnostic]")) {
            "the model's server gave no whole answer".clone_into(&mut reason);
        }
        TerminalEvent::Failure { class, reason }
    }

    fn spent(&self) -> AgentSpending {
        // A run without a result has reported only a part of its usage, or none.
        let whole = self.results > 0 && self.open.is_zero();
        let used = self.settled.plus(self.open);
        let difference = self.cost_told.zip(self.cost_before).map(|(told, before)| {
            // A smaller total than before means that the client started to count again.
            if told >= before { told - before } else { told }
        });
        AgentSpending {
            usage: (self.results > 0 || !used.is_zero()).then_some(used),
            cost_usd: self.cost_of_results.or(difference),
            at_least: !whole,
        }
    }
}

impl OutputReader for ClaudeReader {
    fn line(&mut self, line: &[u8]) -> LineEffects {
        let (kind, value) = match object(line) {
            Ok(Some(found)) => found,
            Ok(None) => return LineEffects::default(),
            Err(unknown) => return LineEffects::event(unknown),
        };
        let events = match kind.as_str() {
            "system" => self.system(&value),
            "assistant" => {
                let is_own = value.get("parent_tool_use_id").is_none_or(Value::is_null);
                let replies = is_own.then(|| self.mail.note_progress()).flatten();
                return LineEffects {
                    events: self.assistant(&value, is_own),
                    replies: replies.into_iter().collect(),
                    ..LineEffects::default()
                };
            }
            "user" => {
                return LineEffects {
                    events: self.user(&value),
                    taken: self.mail.replayed_delivery(&value).into_iter().collect(),
                    ..LineEffects::default()
                };
            }
            "result" => {
                let events = self.result(&value);
                let effects = self.mail.turn_ended();
                // A message may start another turn: the result of this one must not be lost.
                self.said_before = (!effects.close_input)
                    .then(|| text(&value, "result").map(str::to_owned))
                    .flatten();
                return LineEffects { events, ..effects };
            }
            "control_response" => return self.mail.response(&value),
            "control_request" => return self.requests.decide(&value),
            "control_cancel_request" => {
                let request = text(&value, "request_id").unwrap_or_default();
                self.requests.cancel(request).into_iter().collect()
            }
            "rate_limit_event" => {
                let info = value.get("rate_limit_info").unwrap_or(&Value::Null);
                self.outcome.note_limit(limit::of_claude(info));
                Vec::new()
            }
            "command_lifecycle" | "keep_alive" | "stream_event" => Vec::new(),
            other => vec![AgentEvent::Unknown(one_line(other))],
        };
        LineEffects {
            events,
            ..LineEffects::default()
        }
    }

    fn answer(&mut self, request: &str, answer: PermissionReply) -> Option<Vec<u8>> {
        self.requests.answer(request, &answer)
    }

    fn answer_question(&mut self, request: &str, answer: &QuestionReply) -> Option<Vec<u8>> {
        self.requests.answer_question(request, answer)
    }

    fn deliver(&mut self, delivery: &str, text: &str) -> MessageRoute {
        self.mail.deliver(delivery, text)
    }

    fn interrupt(&self) -> Option<Interrupt> {
        let mut lines = self.mail.before_interrupt();
        lines.extend(interrupt_line());
        Some(Interrupt::Line(lines))
    }

    fn end(self: Box<Self>, ending: AgentEnd, stderr_tail: &str) -> AgentOutcome {
        let spent = self.spent();
        self.outcome.outcome(ending, stderr_tail, spent)
    }
}

fn api_error_class(status: Option<u64>, message: &str) -> ErrorClass {
    match status.map(error_class::classify_status) {
        None | Some(ErrorClass::Task) => error_class::classify_message(message),
        Some(class) => class,
    }
}

fn usage_of(usage: &Value) -> Usage {
    Usage {
        input: count(usage, "input_tokens"),
        cached_input: count(usage, "cache_read_input_tokens"),
        cache_write: count(usage, "cache_creation_input_tokens"),
        output: count(usage, "output_tokens"),
        reasoning: usage
            .pointer("/output_tokens_details/thinking_tokens")
            .and_then(Value::as_u64)
            .unwrap_or(0),
    }
}

/// Returns the sum of the usage and the cost of a turn over all models.
fn of_models(models: Option<&Value>) -> Option<(Usage, f64)> {
    let models = models?.as_object()?;
    let mut sum = (Usage::default(), 0.0);
    for model in models.values() {
        sum.0 = sum.0.plus(Usage {
            input: count(model, "inputTokens"),
            cached_input: count(model, "cacheReadInputTokens"),
            cache_write: count(model, "cacheCreationInputTokens"),
            output: count(model, "outputTokens"),
            reasoning: count(model, "thinkingTokens"),
        });
        sum.1 += model.get("costUSD").and_then(Value::as_f64)?;
    }
    Some(sum)
}

fn result_detail(content: &Value) -> String {
    match content {
        Value::String(text) => one_line(text),
        Value::Array(blocks) => {
            let texts: Vec<&str> = blocks
                .iter()
                .filter_map(|block| text(block, "text"))
                .collect();
            one_line(&texts.join(" "))
        }
        _ => String::new(),
    }
}

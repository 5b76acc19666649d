//! Codex by `app-server`: requests, responses and notifications as JSON lines on both streams, like JSON-RPC without its
//! version field.
//!
//! ```text
//! initialize ─▶ initialized, thread/start or thread/resume ─▶ turn/start with the prompt ─▶ items … ─▶ turn/completed
//!                                                              └ turn/steer: messages in the middle of the turn
//! ```
//!
//! After the turn its input is closed, and it ends with exit code 0 however the turn ended: only `turn/completed` counts.
//!
//! Pitfalls: one process can have several threads, including those of its own helpers, so messages that name another thread
//! are ignored; the usage is the sum of the whole thread, including earlier processes; a request of the server has an id in
//! a numbering of its own and waits forever.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::approvals::{Approvals, approval_policy};
use super::{SECRETS, git_folders, mcp_answer, plain, settings};
use crate::driver::{
    AgentInput, CannotLaunch, Interrupt, Job, Launch, LineEffects, MessageRoute, OutputReader,
    PermissionReply, SoftSignal, as_plain_text,
};
use crate::error_class;
use crate::event::{AgentEvent, AgentSpending, ErrorClass, Usage};
use crate::limit;
use crate::outcome::{AgentEnd, AgentOutcome, OutcomeBuilder, TerminalEvent};
use crate::permission::Rule;
use crate::text::{LONGEST_TEXT, clip, count, one_line, text, unknown};

/// The ids of the driver's own requests; deliveries get the following numbers.
const INITIALIZE: u64 = 1;
const OPEN_THREAD: u64 = 2;
const START_TURN: u64 = 3;
const INTERRUPT: u64 = 4;

/// Notifications whose contents the end of their item repeats.
const OPTED_OUT: [&str; 9] = [
    "item/agentMessage/delta",
    "item/commandExecution/outputDelta",
    "item/fileChange/outputDelta",
    "item/fileChange/patchUpdated",
    "item/plan/delta",
    "item/reasoning/summaryPartAdded",
    "item/reasoning/summaryTextDelta",
    "item/reasoning/textDelta",
    "turn/diff/updated",
];

/// Returns what to start for a job.
pub(super) fn launch(program: PathBuf, job: &Job<'_>) -> Result<Launch, CannotLaunch> {
    let mut args: Vec<OsString> = vec!["app-server".into()];
    for setting in settings(job)? {
        args.extend(["-c".into(), setting]);
    }
    if let Some(git_dir) = job.git_dir {
        args.extend(["-c".into(), writable_roots(git_dir, job.worktree)?]);
    }
    if job.permissions.shell == Rule::Deny {
        args.extend(["--disable".into(), "shell_tool".into()]);
    }
    let mut launch = Launch::of_client(job, program, args, &SECRETS);
    let params = json!({
        "clientInfo": {
            "name": "teamster",
            "title": "teamster",
            "version": env!("CARGO_PKG_VERSION"),
        },
        "capabilities": { "optOutNotificationMethods": OPTED_OUT },
    });
    launch.input = AgentInput::Dialogue(request(INITIALIZE, "initialize", &params));
    Ok(launch)
}

/// Returns the setting that makes the repository's own folders writable for an agent that commits by itself.
fn writable_roots(git_dir: &Path, worktree: &Path) -> Result<OsString, CannotLaunch> {
    let folders = git_folders(git_dir, worktree);
    let folders: Option<Vec<&str>> = folders.iter().map(|folder| folder.to_str()).collect();
    let Some(folders) = folders else {
        return Err(CannotLaunch::Unfit(format!(
            "codex cannot write to a folder whose name is not UTF-8: {}",
            git_dir.display()
        )));
    };
    // A list of strings has the same syntax in JSON and in TOML.
    Ok(format!("sandbox_workspace_write.writable_roots={}", json!(folders)).into())
}

fn request(id: u64, method: &str, params: &Value) -> Vec<u8> {
    line(&json!({ "id": id, "method": method, "params": params }))
}

/// Returns a JSON value as one line.
pub(super) fn line(value: &Value) -> Vec<u8> {
    let mut bytes = value.to_string().into_bytes();
    bytes.push(b'\n');
    bytes
}

fn input(text: &str) -> Value {
    json!([{ "type": "text", "text": text }])
}

/// Parses one run of `app-server`.
pub(super) struct AppServerReader {
    outcome: OutcomeBuilder,
    /// The method and the parameters that open the thread.
    opening: (&'static str, Value),
    prompt: String,
    resumed: bool,
    thread: Option<String>,
    model: Option<String>,
    turn: TurnState,
    /// The id of the driver's last request.
    last_id: u64,
    steering: Steering,
    approvals: Approvals,
    /// The usage of the thread before this run, or `None` for a resumed thread whose usage is unknown.
    before: Option<Usage>,
    used: Option<Usage>,
    /// Whether the turn completed, so that its whole usage was reported.
    is_whole: bool,
    said: String,
}

/// The state of the only turn of a run.
#[derive(Debug, PartialEq, Eq)]
enum TurnState {
    NotYet,
    Open { id: String },
    Over,
}

/// The state of message deliveries.
#[derive(Debug, Default)]
struct Steering {
    /// Deliveries without a response yet, by the id of the request.
    asked: HashMap<u64, String>,
    /// Deliveries that Codex accepted for the running turn.
    accepted: Vec<String>,
    /// Whether the turn rejected a message: it may accept one after its next item.
    is_held: bool,
}

impl AppServerReader {
    pub(super) fn new(job: &Job<'_>) -> Self {
        let mut params = json!({
            "cwd": job.worktree,
            "sandbox": super::sandbox(job.permissions.shell),
            "approvalPolicy": approval_policy(job.permissions),
        });
        if let Some(model) = job.model {
            params["model"] = json!(model);
        }
        let method = match &job.resume {
            Some(resume) => {
                params["threadId"] = json!(resume.session);
                // The earlier turns are in the thread; the driver does not need them.
                params["excludeTurns"] = json!(true);
                "thread/resume"
            }
            None => "thread/start",
        };
        Self {
            outcome: OutcomeBuilder::default(),
            opening: (method, params),
            prompt: as_plain_text(job.prompt).into_owned(),
            resumed: job.resume.is_some(),
            thread: None,
            model: None,
            turn: TurnState::NotYet,
            last_id: INTERRUPT,
            steering: Steering::default(),
            approvals: Approvals::new(job),
            before: match &job.resume {
                None => Some(Usage::default()),
                Some(resume) => resume.spent.and_then(|spent| spent.usage),
            },
            used: None,
            is_whole: false,
            said: String::new(),
        }
    }

    fn response(&mut self, value: &Value) -> LineEffects {
        let Some(id) = value.get("id").and_then(Value::as_u64) else {
            return LineEffects::default();
        };
        let error = value.get("error");
        match (id, error) {
            (INITIALIZE, None) => LineEffects {
                replies: vec![
                    line(&json!({ "method": "initialized" })),
                    request(OPEN_THREAD, self.opening.0, &self.opening.1),
                ],
                ..LineEffects::default()
            },
            (OPEN_THREAD, None) => self.thread_opened(value.get("result").unwrap_or(&Value::Null)),
            (START_TURN, None) => {
                let id = value.pointer("/result/turn/id").and_then(Value::as_str);
                self.turn_started(id.unwrap_or_default())
            }
            (INITIALIZE | OPEN_THREAD | START_TURN, Some(error)) => self.not_begun(error),
            (id, error) => self.steered(id, error.is_none()),
        }
    }

    fn thread_opened(&mut self, result: &Value) -> LineEffects {
        let id = result.pointer("/thread/id").and_then(Value::as_str);
        let Some(id) = id else {
            return self.not_begun(&json!({ "message": "codex opened a thread without an id" }));
        };
        self.thread = Some(id.to_owned());
        self.model = text(result, "model").map(str::to_owned);
        let params = json!({ "threadId": id, "input": input(&self.prompt) });
        LineEffects {
            replies: vec![request(START_TURN, "turn/start", &params)],
            ..LineEffects::default()
        }
    }

    /// Notes that the turn runs, which both its response and a notification report: only now does Codex have the prompt.
    fn turn_started(&mut self, id: &str) -> LineEffects {
        if self.turn != TurnState::NotYet || id.is_empty() {
            return LineEffects::default();
        }
        self.turn = TurnState::Open { id: id.to_owned() };
        let started = self
            .outcome
            .start(self.thread.as_deref(), self.model.as_deref());
        LineEffects {
            events: started.into_iter().collect(),
            ..LineEffects::default()
        }
    }

    /// Ends a run whose turn did not start.
    fn not_begun(&mut self, error: &Value) -> LineEffects {
        let message = text(error, "message").unwrap_or("codex refused a request");
        let reason = plain(message);
        let end = if self.resumed && is_unknown_thread(message) {
            TerminalEvent::SessionGone { reason }
        } else {
            TerminalEvent::Failure {
                class: error_class::classify_message(message),
                reason,
            }
        };
        self.finish(end)
    }

    fn finish(&mut self, end: TerminalEvent) -> LineEffects {
        self.turn = TurnState::Over;
        LineEffects {
            events: vec![self.outcome.finish(end)],
            close_input: true,
            ..LineEffects::default()
        }
    }

    /// Handles the response of Codex to a delivery.
    fn steered(&mut self, id: u64, is_accepted: bool) -> LineEffects {
        let Some(delivery) = self.steering.asked.remove(&id) else {
            return LineEffects::default();
        };
        if is_accepted {
            // The model gets the message once it is an item of the turn.
            self.steering.accepted.push(delivery);
            return LineEffects::default();
        }
        self.steering.is_held = true;
        LineEffects {
            refused: vec![delivery],
            ..LineEffects::default()
        }
    }

    fn notification(&mut self, method: &str, params: &Value) -> LineEffects {
        if text(params, "threadId").is_some_and(|thread| Some(thread) != self.thread.as_deref()) {
            // This is a thread of one of the agent's helpers, whose work the agent's own items report.
            return LineEffects::default();
        }
        let events = match method {
            "turn/started" => {
                let id = params.pointer("/turn/id").and_then(Value::as_str);
                return self.turn_started(id.unwrap_or_default());
            }
            "turn/completed" => return self.turn_completed(params.get("turn")),
            "item/started" => return self.item(params, false),
            "item/completed" => return self.item(params, true),
            "error" => vec![self.error(params)],
            "thread/tokenUsage/updated" => self.usage(params.pointer("/tokenUsage/total")),
            "account/rateLimits/updated" => {
                let limits = params.get("rateLimits").unwrap_or(&Value::Null);
                self.outcome.note_limit(limit::of_codex(limits));
                Vec::new()
            }
            "warning" | "guardianWarning" | "deprecationNotice" => {
                let message = text(params, "message").or_else(|| text(params, "summary"));
                vec![AgentEvent::Notice(one_line(message.unwrap_or_default()))]
            }
            "serverRequest/resolved" => {
                self.approvals.forget(params.get("requestId"));
                Vec::new()
            }
            _ => Vec::new(),
        };
        LineEffects {
            events,
            ..LineEffects::default()
        }
    }

    fn turn_completed(&mut self, turn: Option<&Value>) -> LineEffects {
        let turn = turn.unwrap_or(&Value::Null);
        let is_ours = matches!(&self.turn, TurnState::Open { id } if text(turn, "id") == Some(id));
        if !is_ours {
            return LineEffects::default();
        }
        match text(turn, "status") {
            Some("completed") => {
                self.is_whole = true;
                let summary = self.said.clone();
                // A turn completes only after it has used every message that it accepted.
                let taken = std::mem::take(&mut self.steering.accepted);
                LineEffects {
                    taken,
                    ..self.finish(TerminalEvent::Success { summary })
                }
            }
            Some("interrupted") => self.finish(TerminalEvent::Failure {
                class: ErrorClass::Task,
                reason: "the turn was interrupted".to_owned(),
            }),
            _ => {
                let error = turn.get("error").unwrap_or(&Value::Null);
                let (class, reason) = self.judge(error);
                self.finish(TerminalEvent::Failure { class, reason })
            }
        }
    }

    fn error(&mut self, params: &Value) -> AgentEvent {
        let (class, reason) = self.judge(params.get("error").unwrap_or(&Value::Null));
        let retrying = params.get("willRetry") == Some(&Value::Bool(true));
        self.outcome.error(class, &reason, retrying)
    }

    /// Returns the kind of an error, and its message for a person.
    fn judge(&self, error: &Value) -> (ErrorClass, String) {
        let message = text(error, "message").unwrap_or("the turn failed");
        let details = text(error, "additionalDetails").unwrap_or_default();
        let class = match error_class_of(error.get("codexErrorInfo"), message) {
            // The message itself can be as short as "Reconnecting... 1/5".
            ErrorClass::Task => error_class::classify_message(details),
            class => class,
        };
        let mut reason = plain(message);
        if !details.is_empty() && !reason.contains(details) {
            reason = format!("{reason}: {}", plain(details));
        }
        if class == ErrorClass::RateLimit
            && let Some(until) = self.outcome.limit().and_then(|limit| limit.resets_at)
        {
            reason = format!("{reason} (until {until})");
        }
        (class, reason)
    }

    fn usage(&mut self, total: Option<&Value>) -> Vec<AgentEvent> {
        let (Some(total), Some(before)) = (total, self.before) else {
            return Vec::new();
        };
        let so_far = self.used.unwrap_or_default();
        let used = usage_of(total).minus(before).larger(so_far);
        let rest = used.minus(so_far);
        // A resumed thread reports its earlier usage, which does not belong to this run.
        if rest.is_zero() && self.used.is_none() {
            return Vec::new();
        }
        self.used = Some(used);
        if rest.is_zero() {
            return Vec::new();
        }
        vec![AgentEvent::Usage(rest)]
    }

    fn item(&mut self, params: &Value, is_whole: bool) -> LineEffects {
        let item = params.get("item").unwrap_or(&Value::Null);
        let call = text(item, "id").unwrap_or_default().to_owned();
        let status = text(item, "status").unwrap_or_default();
        let kind = text(item, "type").unwrap_or_default();
        self.outcome.note_progress();
        self.steering.is_held = false;
        let events = match (kind, is_whole) {
            ("userMessage", _) => {
                let delivery = text(item, "clientId").unwrap_or_default();
                return self.steering.note_item(delivery);
            }
            ("agentMessage", true) => {
                let said = text(item, "text").unwrap_or_default();
                self.said = clip(said, LONGEST_TEXT);
                vec![AgentEvent::Text(self.said.clone())]
            }
            ("commandExecution", false) => vec![AgentEvent::ToolUse {
                call,
                tool: "shell".to_owned(),
                detail: one_line(text(item, "command").unwrap_or_default()),
            }],
            ("commandExecution", true) => vec![AgentEvent::ToolResult {
                call,
                failed: status != "completed"
                    || item.get("exitCode").and_then(Value::as_i64) != Some(0),
                detail: one_line(text(item, "aggregatedOutput").unwrap_or_default()),
            }],
            ("mcpToolCall", false) => vec![AgentEvent::ToolUse {
                call,
                tool: ["server", "tool"]
                    .map(|key| text(item, key).unwrap_or_default())
                    .join("."),
                detail: one_line(&item.get("arguments").unwrap_or(&Value::Null).to_string()),
            }],
            ("mcpToolCall", true) => vec![AgentEvent::ToolResult {
                call,
                failed: status != "completed",
                detail: one_line(mcp_answer(item)),
            }],
            ("fileChange", false) => {
                self.approvals.note_change(&call, changed_paths(item));
                Vec::new()
            }
            ("fileChange", true) if status == "completed" => vec![AgentEvent::FileChange {
                paths: changed_paths(item),
            }],
            ("fileChange", true) => vec![AgentEvent::ToolResult {
                call,
                failed: true,
                detail: "the change could not be made".to_owned(),
            }],
            _ => Vec::new(),
        };
        LineEffects {
            events,
            ..LineEffects::default()
        }
    }
}

impl Steering {
    /// Notes that a message is an item of the turn: the model gets it with its next request.
    fn note_item(&mut self, delivery: &str) -> LineEffects {
        let is_ours = |known: &String| known == delivery;
        let is_known = self.asked.values().any(is_ours) || self.accepted.iter().any(is_ours);
        if delivery.is_empty() || !is_known {
            return LineEffects::default();
        }
        self.asked.retain(|_, known| known != delivery);
        self.accepted.retain(|known| known != delivery);
        LineEffects {
            taken: vec![delivery.to_owned()],
            ..LineEffects::default()
        }
    }
}

impl OutputReader for AppServerReader {
    fn line(&mut self, line: &[u8]) -> LineEffects {
        let line = line.trim_ascii();
        if line.is_empty() {
            return LineEffects::default();
        }
        let Ok(value) = serde_json::from_slice::<Value>(line) else {
            return LineEffects::event(unknown(line));
        };
        let params = value.get("params").unwrap_or(&Value::Null);
        match (text(&value, "method"), value.get("id")) {
            (Some(method), Some(id)) => self.approvals.decide(id, method, params),
            (Some(method), None) => self.notification(method, params),
            (None, Some(_)) => self.response(&value),
            (None, None) => LineEffects::event(unknown(line)),
        }
    }

    fn answer(&mut self, request: &str, answer: PermissionReply) -> Option<Vec<u8>> {
        self.approvals.answer(request, &answer)
    }

    fn deliver(&mut self, delivery: &str, text: &str) -> MessageRoute {
        let (TurnState::Open { id }, Some(thread)) = (&self.turn, &self.thread) else {
            return match self.turn {
                TurnState::Over => MessageRoute::Never,
                _ => MessageRoute::Later,
            };
        };
        if self.steering.is_held {
            return MessageRoute::Later;
        }
        self.last_id += 1;
        self.steering
            .asked
            .insert(self.last_id, delivery.to_owned());
        let params = json!({
            "threadId": thread,
            "expectedTurnId": id,
            "clientUserMessageId": delivery,
            "input": input(text),
        });
        MessageRoute::Input(request(self.last_id, "turn/steer", &params))
    }

    fn interrupt(&self) -> Option<Interrupt> {
        // After a signal, Codex would finish its turn first.
        let (TurnState::Open { id }, Some(thread)) = (&self.turn, &self.thread) else {
            return Some(Interrupt::Signal(SoftSignal::Terminate));
        };
        let params = json!({ "threadId": thread, "turnId": id });
        Some(Interrupt::Line(request(
            INTERRUPT,
            "turn/interrupt",
            &params,
        )))
    }

    fn end(self: Box<Self>, ending: AgentEnd, stderr_tail: &str) -> AgentOutcome {
        let spent = AgentSpending {
            usage: self.used,
            cost_usd: None,
            at_least: self.turn != TurnState::NotYet && !self.is_whole,
        };
        // The error stream is the log of Codex; once a turn runs, it does not explain how the turn ended.
        let last_words = match self.turn {
            TurnState::NotYet => stderr_tail,
            TurnState::Open { .. } | TurnState::Over => "",
        };
        self.outcome.outcome(ending, last_words, spent)
    }
}

fn is_unknown_thread(message: &str) -> bool {
    ["no rollout found", "thread not found", "invalid thread id"]
        .iter()
        .any(|words| message.contains(words))
}

fn changed_paths(item: &Value) -> Vec<PathBuf> {
    let changes = item.get("changes").and_then(Value::as_array);
    let changes = changes.into_iter().flatten();
    changes
        .filter_map(|change| text(change, "path"))
        .map(PathBuf::from)
        .collect()
}

/// Returns the kind of an error, from the kind that Codex reports, the HTTP status of the model's server, or its words.
fn error_class_of(info: Option<&Value>, message: &str) -> ErrorClass {
    let info = info.unwrap_or(&Value::Null);
    let by_kind = match info {
        Value::String(kind) => match kind.as_str() {
            "usageLimitExceeded" | "rateLimitExceeded" => Some(ErrorClass::RateLimit),
            "serverOverloaded" | "internalServerError" | "flexUnavailable" => {
                Some(ErrorClass::Outage)
            }
            "unauthorized" => Some(ErrorClass::SignIn),
            _ => None,
        },
        Value::Object(kinds) => {
            let status = kinds
                .values()
                .find_map(|kind| kind.get("httpStatusCode").and_then(Value::as_u64));
            let lost = [
                "httpConnectionFailed",
                "responseStreamConnectionFailed",
                "responseStreamDisconnected",
                "responseTooManyFailedAttempts",
            ];
            match status.map(error_class::classify_status) {
                Some(ErrorClass::Task) => None,
                Some(class) => Some(class),
                None if lost.iter().any(|kind| kinds.contains_key(*kind)) => {
                    match error_class::classify_message(message) {
                        ErrorClass::Task => Some(ErrorClass::Outage),
                        class => Some(class),
                    }
                }
                None => None,
            }
        }
        _ => None,
    };
    by_kind.unwrap_or_else(|| error_class::classify_message(message))
}

fn usage_of(total: &Value) -> Usage {
    let (cached_input, cache_write) = (
        count(total, "cachedInputTokens"),
        count(total, "cacheWriteInputTokens"),
    );
    Usage {
        // The input count includes cached tokens.
        input: count(total, "inputTokens").saturating_sub(cached_input.saturating_add(cache_write)),
        cached_input,
        cache_write,
        output: count(total, "outputTokens"),
        reasoning: count(total, "reasoningOutputTokens"),
    }
}

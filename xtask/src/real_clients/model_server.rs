//! A model server for real clients: it speaks the dialects of three vendors, and answers by a script.
//!
//! The lab's own servers answer by a tag in the prompt, always in the same way. Here a function gets each
//! conversation and decides what the model does next, so that a leader can plan, a worker can call any tool with any
//! arguments, and a reviewer can have findings. Every request is kept unchanged: what a client told its model is the
//! evidence.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use axum::Router;
use axum::body::Bytes;
use axum::extract::DefaultBodyLimit;
use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::product::{list, text};

/// The API of a request, by vendor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// The Messages API of Claude Code.
    Anthropic,
    /// The Responses API of Codex.
    OpenAi,
    /// The API of Gemini CLI.
    Gemini,
}

/// The addressee of a prompt by teamster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PromptRole {
    /// A worker at a task.
    Worker,
    /// The leader, before the work.
    Planner,
    /// The leader, during the work.
    Leader,
    /// The reviewer.
    Reviewer,
}

/// Returns the addressee of a prompt by teamster, its team, and the task of a worker; `None` for any other text.
fn addressed(prompt: &str) -> Option<(PromptRole, String, String)> {
    let prompt = prompt.trim_start();
    let word = |after: &str| {
        let rest = prompt.split_once(after)?.1;
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        Some(rest[..end].to_owned())
    };
    let is_woken = prompt.contains("You are asked because");
    let (role, before_team) = match prompt {
        _ if prompt.starts_with("You are the leader of the team ") => {
            let woken = is_woken.then_some(PromptRole::Leader);
            (woken.unwrap_or(PromptRole::Planner), "leader of the team ")
        }
        _ if prompt.starts_with("You review the work of the team ") => {
            (PromptRole::Reviewer, "the work of the team ")
        }
        _ if prompt.starts_with("You are ") => (PromptRole::Worker, ", a worker of the team "),
        _ => return None,
    };
    let task = match role {
        PromptRole::Worker => word("This is task ")?,
        _ => String::new(),
    };
    Some((role, word(before_team)?, task))
}

/// A request whose conversation begins with a prompt by teamster, as far as scripts and judges use it.
#[derive(Clone, Debug)]
pub(super) struct ModelRequest {
    pub(super) dialect: Dialect,
    /// The addressee of the prompt.
    pub(super) role: PromptRole,
    pub(super) team: String,
    /// The task of a worker; empty for the others.
    pub(super) task: String,
    pub(super) prompt: String,
    /// The results of the tool calls so far, in order.
    pub(super) results: Vec<String>,
    /// Every text of the request, one after the other.
    pub(super) texts: String,
    body: Value,
}

/// What the model does next.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Runs a command in the client's shell.
    Shell(String),
    /// Calls a tool of teamster's MCP server.
    Tool(&'static str, Value),
    /// Prints a text and ends its turn.
    Say(String),
}

/// A response to a client, before it is converted to the client's dialect.
enum ModelAnswer {
    /// Words that end the turn.
    Words(String),
    /// A call of a tool, by the name that the client gave it, with its arguments.
    Call(String, Value),
}

type Script = dyn Fn(&ModelRequest) -> Step + Send + Sync;

/// A server that listens on the loopback until it is dropped.
pub(super) struct ModelServer {
    /// Its address, without a path.
    pub(super) url: String,
    requests: Arc<Mutex<Vec<ModelRequest>>>,
    _runtime: Runtime,
}

impl ModelServer {
    /// Starts a server. Its requests are also written to a file below `folder`, for debugging.
    pub(super) fn start(
        folder: &Path,
        script: impl Fn(&ModelRequest) -> Step + Send + Sync + 'static,
    ) -> Result<Self> {
        let runtime = Runtime::new().context("no runtime")?;
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"));
        let listener = listener.context("cannot listen")?;
        let url = format!("http://{}", listener.local_addr()?);
        let requests = Arc::new(Mutex::new(Vec::new()));
        let service = Arc::new(Service {
            script: Box::new(script),
            requests: Arc::clone(&requests),
            log: folder.join("model-requests.jsonl"),
        });
        let respond = async move |method: Method, uri: Uri, body: Bytes| {
            let body = serde_json::from_slice(&body).unwrap_or_default();
            let response = service.respond(&method, uri.path(), body);
            response.unwrap_or_else(|error| {
                (StatusCode::INTERNAL_SERVER_ERROR, format!("{error:#}")).into_response()
            })
        };
        let router = Router::new().fallback(respond);
        let router = router.layer(DefaultBodyLimit::disable());
        runtime.spawn(async move { axum::serve(listener, router).await });
        Ok(Self {
            url,
            requests,
            _runtime: runtime,
        })
    }

    /// Returns every request that belongs to a prompt by teamster, in the order of arrival.
    pub(super) fn requests(&self) -> Vec<ModelRequest> {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.clone()
    }
}

struct Service {
    script: Box<Script>,
    requests: Arc<Mutex<Vec<ModelRequest>>>,
    log: PathBuf,
}

fn json_response(body: &Value) -> Response {
    ([(CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

/// Returns an event stream, with all events at once.
fn event_stream(body: String) -> Response {
    ([(CONTENT_TYPE, "text/event-stream")], body).into_response()
}

/// Returns an event stream whose events have names.
fn named_events<const N: usize>(events: [(&str, Value); N]) -> Response {
    let event = |(kind, mut data): (&str, Value)| {
        data["type"] = json!(kind);
        format!("event: {kind}\ndata: {data}\n\n")
    };
    event_stream(events.into_iter().map(event).collect())
}

impl Service {
    fn respond(&self, method: &Method, path: &str, body: Value) -> Result<Response> {
        if *method == Method::POST {
            if path.ends_with("/messages") {
                return self.messages(body);
            } else if path.ends_with("/responses") {
                return self.responses(body);
            } else if path.contains("enerateContent") {
                return self.generate(path, body);
            }
        }
        Ok(json_response(&if path.ends_with(":countTokens") {
            json!({ "totalTokens": 100 })
        } else if path.ends_with("/count_tokens") {
            json!({ "input_tokens": 100 })
        } else if path.ends_with("/models") {
            json!({ "object": "list", "models": [], "data": [{ "id": "mock-model", "object": "model" }] })
        } else if *method == Method::HEAD {
            Value::Null
        } else {
            let error = json_response(&json!({ "error": { "message": path } }));
            return Ok((StatusCode::NOT_FOUND, error).into_response());
        }))
    }

    /// Keeps a request and returns the model's response; a foreign conversation gets an arbitrary text.
    fn answer(&self, dialect: Dialect, body: Value) -> Result<ModelAnswer> {
        let Some(request) = ModelRequest::read(dialect, body) else {
            return Ok(ModelAnswer::Words("ok".to_owned()));
        };
        let role = format!("{:?} of {}", request.role, request.team);
        let line = json!({ "dialect": format!("{dialect:?}"), "role": role, "body": request.body });
        if let Ok(mut file) = File::options().append(true).create(true).open(&self.log) {
            let _ = writeln!(file, "{line}");
        }
        let answer = request.answer((self.script)(&request));
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.push(request);
        answer
    }

    fn messages(&self, body: Value) -> Result<Response> {
        let (model, is_stream) = (body["model"].clone(), body["stream"] == true);
        let (reason, block, empty, delta) = match self.answer(Dialect::Anthropic, body)? {
            ModelAnswer::Words(words) => {
                let block = |words: &str| json!({ "type": "text", "text": words });
                let delta = json!({ "type": "text_delta", "text": words });
                ("end_turn", block(&words), block(""), delta)
            }
            ModelAnswer::Call(name, input) => {
                let id = next_id();
                let block = |input: &Value| json!({ "type": "tool_use", "id": id, "name": name, "input": input });
                let delta =
                    json!({ "type": "input_json_delta", "partial_json": input.to_string() });
                ("tool_use", block(&input), block(&json!({})), delta)
            }
        };
        let usage = json!({ "input_tokens": 100, "output_tokens": 10 });
        let mut message = json!({
            "id": next_id(), "type": "message", "role": "assistant", "model": model, "content": [],
            "stop_reason": null, "stop_sequence": null, "usage": usage,
        });
        if !is_stream {
            message["content"] = json!([block]);
            message["stop_reason"] = json!(reason);
            return Ok(json_response(&message));
        }
        let end = json!({ "stop_reason": reason, "stop_sequence": null });
        Ok(named_events([
            ("message_start", json!({ "message": message })),
            (
                "content_block_start",
                json!({ "index": 0, "content_block": empty }),
            ),
            ("content_block_delta", json!({ "index": 0, "delta": delta })),
            ("content_block_stop", json!({ "index": 0 })),
            ("message_delta", json!({ "delta": end, "usage": usage })),
            ("message_stop", json!({})),
        ]))
    }

    fn responses(&self, body: Value) -> Result<Response> {
        let item = match self.answer(Dialect::OpenAi, body)? {
            ModelAnswer::Words(words) => json!({
                "type": "message", "id": next_id(), "role": "assistant", "status": "completed",
                "content": [{ "type": "output_text", "text": words, "annotations": [] }],
            }),
            ModelAnswer::Call(name, input) => {
                let mut item = json!({
                    "type": "function_call", "id": next_id(), "call_id": next_id(), "name": name,
                    "arguments": input.to_string(), "status": "completed",
                });
                // The tools of a server can be in a separate namespace.
                if let Some((space, name)) = name.split_once('/') {
                    item["namespace"] = json!(space);
                    item["name"] = json!(name);
                }
                item
            }
        };
        let begun =
            json!({ "id": next_id(), "object": "response", "status": "in_progress", "output": [] });
        let mut completed = begun.clone();
        completed["status"] = json!("completed");
        completed["output"] = json!([item]);
        completed["usage"] = json!({
            "input_tokens": 100, "output_tokens": 10, "total_tokens": 110,
            "input_tokens_details": { "cached_tokens": 0 }, "output_tokens_details": { "reasoning_tokens": 0 },
        });
        let item = json!({ "output_index": 0, "item": item });
        Ok(named_events([
            ("response.created", json!({ "response": begun })),
            ("response.output_item.added", item.clone()),
            ("response.output_item.done", item),
            ("response.completed", json!({ "response": completed })),
        ]))
    }

    fn generate(&self, path: &str, body: Value) -> Result<Response> {
        let part = if body["generationConfig"]["responseMimeType"] == "application/json" {
            // The client itself asks which model to use, and who speaks next.
            let choice = json!({ "reasoning": "x", "model_choice": "flash", "next_speaker": "user", "complexity_score": 1 });
            json!({ "text": choice.to_string() })
        } else {
            match self.answer(Dialect::Gemini, body)? {
                ModelAnswer::Words(words) => json!({ "text": words }),
                ModelAnswer::Call(name, args) => {
                    json!({ "functionCall": { "id": next_id(), "name": name, "args": args } })
                }
            }
        };
        let answer = json!({
            "candidates": [{ "index": 0, "finishReason": "STOP", "content": { "role": "model", "parts": [part] } }],
            "usageMetadata": { "promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110 },
        });
        Ok(if path.ends_with(":streamGenerateContent") {
            event_stream(format!("data: {answer}\n\n"))
        } else {
            json_response(&answer)
        })
    }
}

impl ModelRequest {
    /// Parses a request; `None` when its conversation does not begin with a prompt by teamster.
    fn read(dialect: Dialect, body: Value) -> Option<Self> {
        let said = match dialect {
            Dialect::Anthropic => &body["messages"],
            Dialect::OpenAi => &body["input"],
            Dialect::Gemini => &body["contents"],
        };
        let of_user = list(said).filter(|message| message["role"] == "user");
        let (prompt, (role, team, task)) = of_user
            .flat_map(texts_of_user)
            .find_map(|prompt| Some((prompt.to_owned(), addressed(prompt)?)))?;
        let mut results = Vec::new();
        tool_results(said, &mut results);
        Some(Self {
            dialect,
            role,
            team,
            task,
            prompt,
            results,
            texts: all_texts(&body),
            body,
        })
    }

    /// Converts a step to a response: a tool is called in the form that this client offers.
    fn answer(&self, step: Step) -> Result<ModelAnswer> {
        let names = self.tool_names();
        let has = |name: &str| names.iter().any(|known| known == name);
        let (name, arguments) = match step {
            Step::Say(words) => return Ok(ModelAnswer::Words(words)),
            Step::Shell(command) => match self.dialect {
                Dialect::Anthropic => {
                    ("Bash", json!({ "command": command, "description": "work" }))
                }
                Dialect::Gemini => (
                    "run_shell_command",
                    json!({ "command": command, "description": "work", "is_background": false }),
                ),
                // Otherwise it polls whether a slow command has ended.
                Dialect::OpenAi if has("exec_command") => (
                    "exec_command",
                    json!({ "cmd": command, "yield_time_ms": 30_000 }),
                ),
                Dialect::OpenAi if has("shell_command") => {
                    ("shell_command", json!({ "command": command }))
                }
                Dialect::OpenAi => ("shell", json!({ "command": ["bash", "-lc", command] })),
            },
            Step::Tool(name, arguments) => {
                let is_ours = |known: &&String| {
                    let before = known.strip_suffix(name).unwrap_or_default();
                    known.contains("teamster") && before.ends_with(['_', '/', '.'])
                };
                if let Some(known) = names.iter().find(is_ours) {
                    (known.as_str(), arguments)
                } else {
                    // Deferred tools are called through another one.
                    ensure!(has("tool_call"), "there is no tool {name} among {names:?}");
                    let name = format!("mcp__teamster__{name}");
                    ("tool_call", json!({ "name": name, "arguments": arguments }))
                }
            }
        };
        Ok(ModelAnswer::Call(name.to_owned(), arguments))
    }

    /// Returns the names of the tools that the client offers; one in a namespace is `space/name`.
    pub(super) fn tool_names(&self) -> Vec<String> {
        let name = |tool: &Value| text(&tool["name"]).to_owned();
        let mut names = Vec::new();
        for tool in list(&self.body["tools"]) {
            if tool["type"] == "namespace" {
                let inner = list(&tool["tools"]);
                names.extend(inner.map(|inner| format!("{}/{}", name(tool), name(inner))));
            }
            names.extend(list(&tool["functionDeclarations"]).map(name));
            names.push(name(tool));
        }
        names
    }
}

/// Returns an id that is unique in this process.
fn next_id() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("call_{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Returns the texts of a user message, without tool results.
fn texts_of_user(message: &Value) -> impl Iterator<Item = &str> {
    let content = &message["content"];
    let parts = list(content).chain(list(&message["parts"]));
    let said = parts.filter(|part| part["type"] != "tool_result");
    let texts = said.filter_map(|part| part["text"].as_str());
    content.as_str().into_iter().chain(texts)
}

/// Collects tool results, in the place of each dialect.
fn tool_results(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Array(parts) => parts.iter().for_each(|part| tool_results(part, found)),
        Value::Object(fields) => {
            let kind = text(&value["type"]);
            if kind == "tool_result" {
                found.push(all_texts(&value["content"]));
            } else if kind.ends_with("_call_output") {
                found.push(all_texts(&value["output"]));
            } else if let Some(response) = fields.get("functionResponse") {
                found.push(all_texts(&response["response"]));
            } else {
                fields.values().for_each(|field| tool_results(field, found));
            }
        }
        _ => {}
    }
}

/// Returns all texts of a value, one after the other.
pub(super) fn all_texts(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text}\n"),
        Value::Array(list) => list.iter().map(all_texts).collect(),
        Value::Object(fields) => fields.values().map(all_texts).collect(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompt_says_who_is_addressed() {
        let worker =
            "You are ann, a worker of the team crew. Your role is tester.\n\nThis is task 3:\n";
        let planner =
            "You are the leader of the team crew, a team of coding agents. Split the work";
        let leader = "You are the leader of the team crew, a team. You are asked because x.";
        let reviewer = "You review the work of the team crew, a team of coding agents.";
        for (prompt, role, task) in [
            (worker, PromptRole::Worker, "3"),
            (planner, PromptRole::Planner, ""),
            (leader, PromptRole::Leader, ""),
            (reviewer, PromptRole::Reviewer, ""),
        ] {
            let expected = (role, "crew".to_owned(), task.to_owned());
            assert_eq!(addressed(prompt), Some(expected));
        }
        assert_eq!(addressed("<environment_context>"), None);
    }

    #[test]
    fn results_of_tools_are_found_in_every_dialect() {
        let prompt = "You review the work of the team crew.";
        let bodies = [
            (
                Dialect::Anthropic,
                json!({ "messages": [{ "role": "user", "content": prompt }, { "role": "user", "content": [{ "type": "tool_result", "content": [{ "type": "text", "text": "seen" }] }] }] }),
            ),
            (
                Dialect::OpenAi,
                json!({ "input": [{ "role": "user", "content": prompt }, { "type": "function_call_output", "call_id": "1", "output": "seen" }] }),
            ),
            (
                Dialect::Gemini,
                json!({ "contents": [{ "role": "user", "parts": [{ "text": prompt }, { "functionResponse": { "name": "x", "response": { "output": "seen" } } }] }] }),
            ),
        ];
        for (dialect, body) in bodies {
            let request = ModelRequest::read(dialect, body).unwrap();
            assert_eq!(request.results.len(), 1, "{dialect:?}");
            assert!(request.results[0].contains("seen"), "{dialect:?}");
        }
    }
}

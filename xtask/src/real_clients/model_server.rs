//! A model server for real clients: it speaks the dialects of three vendors, and answers by a script.
//!
//! The lab's own servers answer by a tag in the prompt, always in the same way. Here a function gets each conversation as it
//! was sent and says what the model does next, so that a leader can plan, a worker can call any tool with any arguments, and
//! a reviewer can find something. Every request is kept as it came: what a client told its model is the evidence.

use std::io::{BufRead, BufReader, Read as _, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::product::{list, text};

/// Whose API a request speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// The Messages API of Claude Code.
    Anthropic,
    /// The Responses API of Codex.
    OpenAi,
    /// The API of Gemini CLI.
    Gemini,
}

/// Who speaks in a conversation, by the first line of its prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A worker at a task.
    Worker {
        name: String,
        team: String,
        task: String,
    },
    /// The leader, before the work.
    Planner { team: String },
    /// The leader, during the work.
    Leader { team: String },
    /// The reviewer.
    Reviewer { team: String },
}

impl Role {
    /// Finds out who is addressed by a prompt of ours; `None` for any other text.
    fn of(prompt: &str) -> Option<Self> {
        let prompt = prompt.trim_start();
        let word = |after: &str| {
            let rest = prompt.split_once(after)?.1;
            let is_name = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
            let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
            Some(rest[..end].to_owned())
        };
        if prompt.starts_with("You are the leader of the team ") {
            let team = word("leader of the team ")?;
            return Some(if prompt.contains("You are asked because") {
                Self::Leader { team }
            } else {
                Self::Planner { team }
            });
        }
        if prompt.starts_with("You review the work of the team ") {
            let team = word("the work of the team ")?;
            return Some(Self::Reviewer { team });
        }
        if prompt.starts_with("You are ") && prompt.contains(", a worker of the team ") {
            return Some(Self::Worker {
                name: word("You are ")?,
                team: word(", a worker of the team ")?,
                task: word("This is task ")?,
            });
        }
        None
    }

    pub(super) fn team(&self) -> &str {
        match self {
            Self::Worker { team, .. }
            | Self::Planner { team }
            | Self::Leader { team }
            | Self::Reviewer { team } => team,
        }
    }
}

/// A request of a client, as far as a script and a judge look at it.
#[derive(Clone, Debug)]
pub(super) struct ModelRequest {
    pub(super) dialect: Dialect,
    /// Who speaks, when the conversation begins with a prompt of ours.
    pub(super) role: Option<Role>,
    /// That prompt.
    pub(super) prompt: String,
    /// What the tools that were called so far have answered, in order.
    pub(super) results: Vec<String>,
    /// Every text of the request, one after the other.
    pub(super) texts: String,
    body: Value,
}

/// What the model does next.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// It runs a command in the client's shell.
    Shell(String),
    /// It calls a tool of our own server.
    Tool(&'static str, Value),
    /// It says something and ends its turn.
    Say(String),
}

type Script = dyn Fn(&ModelRequest) -> Step + Send + Sync;

/// A server that listens on the loopback for as long as this process lives.
pub(super) struct ModelServer {
    /// Its address, without a path.
    pub(super) url: String,
    requests: Arc<Mutex<Vec<ModelRequest>>>,
}

impl ModelServer {
    /// Starts a server. What it is asked is also written to a file below `folder`, for people who look.
    pub(super) fn start(
        folder: &Path,
        script: impl Fn(&ModelRequest) -> Step + Send + Sync + 'static,
    ) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen")?;
        let url = format!("http://{}", listener.local_addr()?);
        let requests = Arc::new(Mutex::new(Vec::new()));
        let service = Arc::new(Service {
            script: Box::new(script),
            requests: Arc::clone(&requests),
            log: folder.join("model-requests.jsonl"),
        });
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let service = Arc::clone(&service);
                std::thread::spawn(move || {
                    // A client that goes away in the middle is none of our trouble.
                    let _ = service.serve(stream);
                });
            }
        });
        Ok(Self { url, requests })
    }

    /// Returns every request that belongs to a prompt of ours, in the order in which they came.
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

/// A request as HTTP has it.
struct HttpRequest {
    method: String,
    path: String,
    body: Value,
}

impl Service {
    fn serve(&self, stream: TcpStream) -> Result<()> {
        let mut from = BufReader::new(stream.try_clone()?);
        let request = read_request(&mut from)?;
        let mut to = stream;
        let path = request.path.split('?').next().unwrap_or_default();
        let is_post = request.method == "POST";
        if is_post && path.ends_with("/messages") {
            return self.messages(&mut to, request.body);
        }
        if is_post && path.ends_with("/responses") {
            return self.responses(&mut to, request.body);
        }
        if is_post && path.contains("enerateContent") {
            return self.generate(&mut to, path, request.body);
        }
        let answer = match path {
            path if path.ends_with(":countTokens") => json!({ "totalTokens": 100 }),
            path if path.ends_with("/count_tokens") => json!({ "input_tokens": 100 }),
            path if path.ends_with("/models") => {
                json!({ "object": "list", "models": [], "data": [{ "id": "mock-model", "object": "model" }] })
            }
            _ if request.method == "HEAD" => Value::Null,
            path => {
                return respond(
                    &mut to,
                    "404 Not Found",
                    &json!({ "error": { "message": path } }),
                );
            }
        };
        respond(&mut to, "200 OK", &answer)
    }

    /// Keeps a request and returns what the model does next; `None` for a conversation that is not ours.
    fn next(&self, dialect: Dialect, body: Value) -> Option<(ModelRequest, Step)> {
        let request = ModelRequest::read(dialect, body);
        request.role.as_ref()?;
        let line = json!({
            "dialect": format!("{dialect:?}"),
            "role": format!("{:?}", request.role),
            "body": request.body,
        });
        let file = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(&self.log);
        if let Ok(mut file) = file {
            let _ = writeln!(file, "{line}");
        }
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.push(request.clone());
        drop(requests);
        let step = (self.script)(&request);
        Some((request, step))
    }

    fn messages(&self, to: &mut TcpStream, body: Value) -> Result<()> {
        let (model, is_stream) = (body["model"].clone(), body["stream"] == true);
        let asked = self.next(Dialect::Anthropic, body);
        let block = match &asked {
            None => json!({ "type": "text", "text": "ok" }),
            Some((_, Step::Say(words))) => json!({ "type": "text", "text": words }),
            Some((request, step)) => {
                let (name, input) = request.call(step)?;
                json!({ "type": "tool_use", "id": call_id(), "name": name, "input": input })
            }
        };
        let reason = if block["type"] == "tool_use" {
            "tool_use"
        } else {
            "end_turn"
        };
        let usage = json!({ "input_tokens": 100, "output_tokens": 10 });
        let message = json!({
            "id": call_id(), "type": "message", "role": "assistant", "model": model, "content": [],
            "stop_reason": null, "stop_sequence": null, "usage": usage,
        });
        if !is_stream {
            let mut message = message;
            message["content"] = json!([block]);
            message["stop_reason"] = json!(reason);
            return respond(to, "200 OK", &message);
        }
        let mut events = EventStream::begin(to)?;
        events.named("message_start", json!({ "message": message }))?;
        let (empty, delta) = if block["type"] == "text" {
            let delta = json!({ "type": "text_delta", "text": block["text"] });
            (json!({ "type": "text", "text": "" }), delta)
        } else {
            let mut empty = block.clone();
            empty["input"] = json!({});
            let input = block["input"].to_string();
            (
                empty,
                json!({ "type": "input_json_delta", "partial_json": input }),
            )
        };
        events.named(
            "content_block_start",
            json!({ "index": 0, "content_block": empty }),
        )?;
        events.named("content_block_delta", json!({ "index": 0, "delta": delta }))?;
        events.named("content_block_stop", json!({ "index": 0 }))?;
        let end = json!({ "stop_reason": reason, "stop_sequence": null });
        events.named("message_delta", json!({ "delta": end, "usage": usage }))?;
        events.named("message_stop", json!({}))
    }

    fn responses(&self, to: &mut TcpStream, body: Value) -> Result<()> {
        let asked = self.next(Dialect::OpenAi, body);
        let item = match &asked {
            None => message_item("ok"),
            Some((_, Step::Say(words))) => message_item(words),
            Some((request, step)) => {
                let (name, input) = request.call(step)?;
                let mut item = json!({
                    "type": "function_call", "id": call_id(), "call_id": call_id(), "name": name,
                    "arguments": input.to_string(), "status": "completed",
                });
                // The tools of a server can be in a namespace of their own.
                if let Some((space, name)) = name.split_once('/') {
                    item["namespace"] = json!(space);
                    item["name"] = json!(name);
                }
                item
            }
        };
        let id = call_id();
        let mut response =
            json!({ "id": id, "object": "response", "status": "in_progress", "output": [] });
        let mut events = EventStream::begin(to)?;
        events.named("response.created", json!({ "response": response }))?;
        events.named(
            "response.output_item.added",
            json!({ "output_index": 0, "item": item }),
        )?;
        events.named(
            "response.output_item.done",
            json!({ "output_index": 0, "item": item }),
        )?;
        response["status"] = json!("completed");
        response["output"] = json!([item]);
        response["usage"] = json!({
            "input_tokens": 100, "output_tokens": 10, "total_tokens": 110,
            "input_tokens_details": { "cached_tokens": 0 }, "output_tokens_details": { "reasoning_tokens": 0 },
        });
        events.named("response.completed", json!({ "response": response }))
    }

    fn generate(&self, to: &mut TcpStream, path: &str, body: Value) -> Result<()> {
        let wants_json = body["generationConfig"]["responseMimeType"] == "application/json";
        let asked = if wants_json {
            // It asks by itself which model to take, and who speaks next.
            None
        } else {
            self.next(Dialect::Gemini, body)
        };
        let part = match &asked {
            None if wants_json => {
                let choice = json!({ "reasoning": "x", "model_choice": "flash", "next_speaker": "user", "complexity_score": 1 });
                json!({ "text": choice.to_string() })
            }
            None => json!({ "text": "ok" }),
            Some((_, Step::Say(words))) => json!({ "text": words }),
            Some((request, step)) => {
                let (name, args) = request.call(step)?;
                json!({ "functionCall": { "id": call_id(), "name": name, "args": args } })
            }
        };
        let answer = json!({
            "candidates": [{ "index": 0, "finishReason": "STOP", "content": { "role": "model", "parts": [part] } }],
            "usageMetadata": { "promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110 },
        });
        if !path.ends_with(":streamGenerateContent") {
            return respond(to, "200 OK", &answer);
        }
        EventStream::begin(to)?.line(&answer)
    }
}

impl ModelRequest {
    fn read(dialect: Dialect, body: Value) -> Self {
        let said = match dialect {
            Dialect::Anthropic => &body["messages"],
            Dialect::OpenAi => &body["input"],
            Dialect::Gemini => &body["contents"],
        };
        let mut prompts = Vec::new();
        for message in list(said).filter(|message| message["role"] == "user") {
            texts_of_user(&message["content"], &mut prompts);
            texts_of_user(&message["parts"], &mut prompts);
        }
        let ours = prompts
            .into_iter()
            .find_map(|prompt| Some((Role::of(&prompt)?, prompt)));
        let (role, prompt) =
            ours.map_or((None, String::new()), |(role, prompt)| (Some(role), prompt));
        let mut results = Vec::new();
        tool_results(said, &mut results);
        Self {
            dialect,
            role,
            prompt,
            results,
            texts: all_texts(&body),
            body,
        }
    }

    /// Returns the name and the arguments of the tool that a step calls, as this client offers it.
    fn call(&self, step: &Step) -> Result<(String, Value)> {
        let names = self.tool_names();
        let has = |name: &str| names.iter().any(|known| known == name);
        match step {
            Step::Say(_) => anyhow::bail!("nothing is called"),
            Step::Shell(command) => Ok(match self.dialect {
                Dialect::Anthropic => (
                    "Bash".to_owned(),
                    json!({ "command": command, "description": "work" }),
                ),
                Dialect::Gemini => (
                    "run_shell_command".to_owned(),
                    json!({ "command": command, "description": "work", "is_background": false }),
                ),
                Dialect::OpenAi if has("exec_command") => {
                    // Else it asks again and again whether a slow command has ended.
                    let input = json!({ "cmd": command, "yield_time_ms": 30_000 });
                    ("exec_command".to_owned(), input)
                }
                Dialect::OpenAi if has("shell_command") => {
                    ("shell_command".to_owned(), json!({ "command": command }))
                }
                Dialect::OpenAi => (
                    "shell".to_owned(),
                    json!({ "command": ["bash", "-lc", command] }),
                ),
            }),
            Step::Tool(name, arguments) => {
                let is_ours = |known: &&String| {
                    known.contains("teamster")
                        && known
                            .strip_suffix(name)
                            .is_some_and(|rest| rest.ends_with(['_', '/', '.']))
                };
                if let Some(known) = names.iter().find(is_ours) {
                    return Ok((known.clone(), arguments.clone()));
                }
                // Tools that were put off are called through another one.
                ensure!(has("tool_call"), "there is no tool {name} among {names:?}");
                let input =
                    json!({ "name": format!("mcp__teamster__{name}"), "arguments": arguments });
                Ok(("tool_call".to_owned(), input))
            }
        }
    }

    /// Returns the names of the tools that the client offers; one in a namespace is `space/name`.
    pub(super) fn tool_names(&self) -> Vec<String> {
        let mut names = Vec::new();
        for tool in list(&self.body["tools"]) {
            if tool["type"] == "namespace" {
                let space = text(&tool["name"]);
                names.extend(
                    list(&tool["tools"]).map(|inner| format!("{space}/{}", text(&inner["name"]))),
                );
            }
            names.extend(
                list(&tool["functionDeclarations"]).map(|inner| text(&inner["name"]).to_owned()),
            );
            names.push(text(&tool["name"]).to_owned());
        }
        names
    }
}

fn message_item(words: &str) -> Value {
    json!({
        "type": "message", "id": call_id(), "role": "assistant", "status": "completed",
        "content": [{ "type": "output_text", "text": words, "annotations": [] }],
    })
}

/// Returns an id that no other answer of this process has.
fn call_id() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("call_{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Collects the texts that a user has said, without what tools have answered.
fn texts_of_user(content: &Value, found: &mut Vec<String>) {
    match content {
        Value::String(words) => found.push(words.clone()),
        Value::Array(parts) => {
            let is_text = |part: &&Value| part["text"].is_string() && part["type"] != "tool_result";
            found.extend(
                parts
                    .iter()
                    .filter(is_text)
                    .map(|part| text(&part["text"]).to_owned()),
            );
        }
        _ => {}
    }
}

/// Collects what tools have answered, wherever the dialect puts it.
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

fn read_request(from: &mut impl BufRead) -> Result<HttpRequest> {
    let mut first = String::new();
    from.read_line(&mut first)?;
    let mut words = first.split_whitespace();
    let (method, path) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    let (mut length, mut is_chunked) = (0_usize, false);
    loop {
        let mut line = String::new();
        ensure!(
            from.read_line(&mut line)? > 0,
            "the request ends in its head"
        );
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse()?,
            "transfer-encoding" => is_chunked = value.to_ascii_lowercase().contains("chunked"),
            _ => {}
        }
    }
    let mut body = Vec::new();
    if is_chunked {
        loop {
            let mut size = String::new();
            from.read_line(&mut size)?;
            let size = u64::from_str_radix(size.trim(), 16)?;
            from.take(size).read_to_end(&mut body)?;
            from.read_line(&mut String::new())?;
            if size == 0 {
                break;
            }
        }
    } else {
        body.resize(length, 0);
        from.read_exact(&mut body)?;
    }
    Ok(HttpRequest {
        method: method.to_owned(),
        path: path.to_owned(),
        body: serde_json::from_slice(&body).unwrap_or_default(),
    })
}

fn respond(to: &mut TcpStream, status: &str, answer: &Value) -> Result<()> {
    let body = match answer {
        Value::Null => String::new(),
        answer => answer.to_string(),
    };
    let length = body.len();
    write!(
        to,
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )?;
    Ok(to.flush()?)
}

/// An answer that is a stream of events.
struct EventStream<'a> {
    to: &'a mut TcpStream,
}

impl<'a> EventStream<'a> {
    fn begin(to: &'a mut TcpStream) -> Result<Self> {
        write!(
            to,
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\nconnection: close\r\n\r\n"
        )?;
        Ok(Self { to })
    }

    fn named(&mut self, kind: &str, mut data: Value) -> Result<()> {
        data["type"] = json!(kind);
        writeln!(self.to, "event: {kind}")?;
        self.line(&data)
    }

    fn line(&mut self, data: &Value) -> Result<()> {
        write!(self.to, "data: {data}\n\n")?;
        Ok(self.to.flush()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompt_says_who_is_addressed() {
        let worker =
            "You are ann, a worker of the team crew. Your role is tester.\n\nThis is task 3:\n";
        let expected = Role::Worker {
            name: "ann".to_owned(),
            team: "crew".to_owned(),
            task: "3".to_owned(),
        };
        assert_eq!(Role::of(worker), Some(expected));
        let team = "crew".to_owned();
        let planner =
            "You are the leader of the team crew, a team of coding agents. Split the work";
        assert_eq!(
            Role::of(planner),
            Some(Role::Planner { team: team.clone() })
        );
        let leader = "You are the leader of the team crew, a team. You are asked because x.";
        assert_eq!(Role::of(leader), Some(Role::Leader { team: team.clone() }));
        let reviewer = "You review the work of the team crew, a team of coding agents.";
        assert_eq!(Role::of(reviewer), Some(Role::Reviewer { team }));
        assert_eq!(Role::of("<environment_context>"), None);
    }

    #[test]
    fn results_of_tools_are_found_in_every_dialect() {
        let bodies = [
            (
                Dialect::Anthropic,
                json!({ "messages": [{ "role": "user", "content": [{ "type": "tool_result", "content": [{ "type": "text", "text": "seen" }] }] }] }),
            ),
            (
                Dialect::OpenAi,
                json!({ "input": [{ "type": "function_call_output", "call_id": "1", "output": "seen" }] }),
            ),
            (
                Dialect::Gemini,
                json!({ "contents": [{ "role": "user", "parts": [{ "functionResponse": { "name": "x", "response": { "output": "seen" } } }] }] }),
            ),
        ];
        for (dialect, body) in bodies {
            let request = ModelRequest::read(dialect, body);
            assert_eq!(request.results.len(), 1, "{dialect:?}");
            assert!(request.results[0].contains("seen"), "{dialect:?}");
        }
    }
}

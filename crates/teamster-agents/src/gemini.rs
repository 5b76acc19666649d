//! Gemini: `stream-json`, the prompt on its standard input.
//!
//! Pitfalls: it exits with code 0 after a signal and after an invalid answer, so only its result counts; while it retries it
//! is silent for minutes, except on the error stream; after API errors its exit code is the HTTP status modulo 256.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use teamster_fs::{Dir, Durability, UserFile};

use crate::detect;
use crate::driver::{
    AgentTools, CannotLaunch, Driver, Interrupt, Job, Launch, LineEffects, OutputReader,
    SERVE_TOOLS, SOCKET, SoftSignal, TOOL_SERVER,
};
use crate::error_class;
use crate::event::{AgentEvent, AgentSpending, ErrorClass, Usage};
use crate::outcome::{AgentEnd, AgentOutcome, Exit, OutcomeBuilder, Stopped, TerminalEvent};
use crate::permission::Rule;
use crate::text::{LONGEST_TEXT, clip, count, last_line, last_lines, one_line, text, tool_detail};

/// The driver of Gemini CLI.
#[derive(Clone, Copy, Debug, Default)]
pub struct GeminiDriver;

/// The variables that hold the credentials of Gemini.
const SECRETS: [&str; 2] = ["GEMINI_API_KEY", "GOOGLE_API_KEY"];

impl Driver for GeminiDriver {
    fn provider(&self) -> &'static str {
        "gemini"
    }

    fn launch(&self, job: &Job<'_>) -> Result<Launch, CannotLaunch> {
        let program = detect::program("gemini", job.path)?;
        // A non-interactive Gemini asks nobody. Without `yolo` it does not offer commands to the model at all.
        let approval = match job.permissions.shell {
            Rule::Allow => "yolo",
            Rule::Deny | Rule::Ask => "auto_edit",
            // Tools that would need approval, including every edit, are not offered in this mode.
            Rule::Read => "default",
        };
        let mut args: Vec<OsString> = [
            "-o",
            "stream-json",
            "--skip-trust",
            "--approval-mode",
            approval,
        ]
        .map(Into::into)
        .to_vec();
        if let Some(model) = job.model {
            args.extend(["-m".into(), model.into()]);
        }
        if let Some(resume) = &job.resume {
            args.extend(["--resume".into(), resume.session.into()]);
        }
        let mut launch = Launch::of_client(job, program, args, &SECRETS);
        if let (Some(tools), Some(temp)) = (&job.tools, job.temp)
            && let Some(home) = home_with_tools(job, tools, temp)
        {
            launch.set.push((detect::GEMINI_HOME.into(), home.into()));
        }
        // Otherwise it starts itself a second time, and a signal would reach only the first process.
        let no_relaunch = ("GEMINI_CLI_NO_RELAUNCH".into(), "true".into());
        launch.set.push(no_relaunch);
        Ok(launch)
    }

    fn reader(&self, job: &Job<'_>) -> Box<dyn OutputReader> {
        Box::new(GeminiReader::new(job))
    }

    fn says_whole_texts(&self) -> bool {
        false
    }

    fn has_turns_for_mail(&self) -> bool {
        true
    }

    fn interrupt(&self) -> Interrupt {
        Interrupt::Signal(SoftSignal::Terminate)
    }
}

/// The name of the client's home in the temp folder.
const OWN_HOME: &str = "gemini";
/// The settings file in the client's folder.
const SETTINGS: &str = "settings.json";

/// Creates a home for the client whose settings include teamster's MCP server, and returns it; `None` when that fails, and
/// then the client works without the tools. All other entries link to the user's own, so that the sign-in is shared. The
/// client accepts settings from other places only from the machine's administrator.
fn home_with_tools(job: &Job<'_>, tools: &AgentTools<'_>, temp: &Path) -> Option<PathBuf> {
    let home = Dir::open_root(temp).ok()??.child_or_create(OWN_HOME).ok()?;
    let folder = home.child_or_create(detect::GEMINI_FOLDER).ok()?;
    let theirs = detect::gemini_folder()?;
    let mut settings = match UserFile::find(&theirs.join(SETTINGS)).ok()? {
        Some(file) => match file.read().ok()? {
            // Settings that cannot be parsed would be lost.
            Some(there) => serde_json::from_slice(&there.bytes).ok()?,
            None => json!({}),
        },
        None => json!({}),
    };
    let servers = settings
        .as_object_mut()?
        .entry("mcpServers")
        .or_insert_with(|| json!({}));
    let server = json!({
        "command": job.teamster.to_string_lossy(),
        "args": [SERVE_TOOLS],
        "env": { SOCKET: tools.socket.to_string_lossy() },
        "timeout": u64::try_from(tools.client_timeout().as_millis()).unwrap_or(u64::MAX),
        // Calls of its tools need no approval.
        "trust": true,
    });
    servers
        .as_object_mut()?
        .insert(TOOL_SERVER.to_owned(), server);
    if let Some(theirs) = Dir::open_root(&theirs).ok()? {
        for entry in theirs.entries().ok()? {
            if entry.name != SETTINGS {
                folder
                    .make_link(&entry.name, &theirs.join(&entry.name))
                    .ok()?;
            }
        }
    }
    let bytes = settings.to_string().into_bytes();
    folder.replace(SETTINGS, &bytes, Durability::Fast).ok()?;
    Some(home.path().to_owned())
}

/// The most edits that are remembered until their results arrive.
const MOST_PENDING: usize = 1000;

/// The exit code of a client that is not signed in.
const SIGN_IN: i32 = 41;
/// The exit code for invalid arguments or an invalid session.
const WRONG_INPUT: i32 = 42;

/// Parses the event stream of Gemini CLI.
struct GeminiReader {
    outcome: OutcomeBuilder,
    resumed: bool,
    used: Option<Usage>,
    /// The agent's text since its last tool call; it arrives in pieces.
    said: String,
    error: Option<String>,
    pending: HashMap<String, PathBuf>,
}

impl GeminiReader {
    fn new(job: &Job<'_>) -> Self {
        Self {
            outcome: OutcomeBuilder::default(),
            resumed: job.resume.is_some(),
            used: None,
            said: String::new(),
            error: None,
            pending: HashMap::new(),
        }
    }

    fn message(&mut self, value: &Value) -> Vec<AgentEvent> {
        if text(value, "role") != Some("assistant") {
            return Vec::new();
        }
        let said = text(value, "content").unwrap_or_default();
        if value.get("delta") != Some(&Value::Bool(true)) {
            self.said.clear();
        }
        if self.said.len() < LONGEST_TEXT {
            self.said.push_str(said);
        }
        self.outcome.note_progress();
        vec![AgentEvent::Text(clip(said, LONGEST_TEXT))]
    }

    fn tool_use(&mut self, value: &Value) -> Vec<AgentEvent> {
        self.said.clear();
        self.outcome.note_progress();
        let call = text(value, "tool_id").unwrap_or_default().to_owned();
        let tool = text(value, "tool_name").unwrap_or_default().to_owned();
        let input = value.get("parameters").unwrap_or(&Value::Null);
        let edits = matches!(tool.as_str(), "write_file" | "replace");
        let file = text(input, "file_path");
        if let (true, Some(file)) = (edits && self.pending.len() < MOST_PENDING, file) {
            self.pending.insert(call.clone(), file.into());
        }
        vec![AgentEvent::ToolUse {
            detail: tool_detail(input),
            call,
            tool,
        }]
    }

    fn tool_result(&mut self, value: &Value) -> Vec<AgentEvent> {
        let call = text(value, "tool_id").unwrap_or_default().to_owned();
        let failed = text(value, "status") != Some("success");
        let file = self.pending.remove(&call);
        let mut events = vec![AgentEvent::ToolResult {
            call,
            failed,
            detail: one_line(text(value, "output").unwrap_or_default()),
        }];
        if let (Some(file), false) = (file, failed) {
            events.push(AgentEvent::FileChange { paths: vec![file] });
        }
        events
    }

    fn error(&mut self, value: &Value) -> AgentEvent {
        let message = text(value, "message").unwrap_or("error");
        if text(value, "severity") == Some("warning") {
            return AgentEvent::Notice(one_line(message));
        }
        self.error = Some(message.to_owned());
        self.outcome
            .error(error_class::classify_message(message), message, false)
    }

    fn result(&mut self, value: &Value) -> Vec<AgentEvent> {
        let total = value.get("stats").map(usage_of);
        let mut events = AgentEvent::usage_since(&mut self.used, total);
        let end = if text(value, "status") == Some("success") {
            TerminalEvent::Success {
                summary: self.said.clone(),
            }
        } else {
            let message = value.pointer("/error/message").and_then(Value::as_str);
            let reason = message
                .or(self.error.as_deref())
                .unwrap_or("the turn failed");
            TerminalEvent::Failure {
                class: error_class::classify_message(reason),
                reason: reason.to_owned(),
            }
        };
        events.push(self.outcome.finish(end));
        events
    }

    /// Derives an outcome from the exit code or the error stream when there is no result.
    fn without_result(&mut self, ending: AgentEnd, stderr: &str) {
        let reason = || last_line(stderr).unwrap_or_default();
        let resumed = self.resumed;
        match ending.exit {
            Exit::Code(SIGN_IN) => self.outcome.stand_in(|| {
                Some(TerminalEvent::Failure {
                    class: ErrorClass::SignIn,
                    reason: format!("Gemini is not signed in: {}", last_lines(stderr, 3)),
                })
            }),
            Exit::Code(WRONG_INPUT) if resumed && stderr.contains("Error resuming session") => {
                self.outcome
                    .stand_in(|| Some(TerminalEvent::SessionGone { reason: reason() }));
            }
            _ => {}
        }
        // It was stopped while it retried, which it reports only on the error stream.
        let tried = stderr.lines().rfind(|line| line.starts_with("Attempt "));
        let waited = matches!(ending.stopped, Some(Stopped::Silent | Stopped::Late));
        if let (true, Some(tried)) = (waited && !self.outcome.is_finished(), tried) {
            let class = match error_class::status_in(tried) {
                Some(status) => error_class::classify_status(status),
                None => error_class::classify_message(tried),
            };
            self.outcome.error(class, &one_line(tried), true);
        }
    }
}

impl OutputReader for GeminiReader {
    fn line(&mut self, line: &[u8]) -> LineEffects {
        LineEffects::of_object(line, |kind, value| match kind {
            "init" => {
                let (session, model) = (text(value, "session_id"), text(value, "model"));
                self.outcome.start(session, model).into_iter().collect()
            }
            "message" => self.message(value),
            "tool_use" => self.tool_use(value),
            "tool_result" => self.tool_result(value),
            "error" => vec![self.error(value)],
            "result" => self.result(value),
            other => vec![AgentEvent::Unknown(one_line(other))],
        })
    }

    fn end(mut self: Box<Self>, ending: AgentEnd, stderr_tail: &str) -> AgentOutcome {
        self.without_result(ending, stderr_tail);
        let spent = AgentSpending {
            usage: self.used,
            cost_usd: None,
            at_least: !self.outcome.is_finished(),
        };
        self.outcome.outcome(ending, stderr_tail, spent)
    }
}

fn usage_of(stats: &Value) -> Usage {
    let (read, written) = (count(stats, "input_tokens"), count(stats, "output_tokens"));
    let cached_input = count(stats, "cached").min(read);
    // The output count excludes thoughts; the total includes them.
    let reasoning = count(stats, "total_tokens").saturating_sub(read.saturating_add(written));
    Usage {
        input: read - cached_input,
        cached_input,
        cache_write: 0,
        output: written.saturating_add(reasoning),
        reasoning,
    }
}

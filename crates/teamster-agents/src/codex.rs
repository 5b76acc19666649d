//! Codex: a sandbox around its commands, and two ways to run it.
//!
//! [`app_server`] is for versions that have it: it accepts messages while it works, and it can ask for permission. Older
//! versions run `exec --json`, with the prompt on their standard input and no further input. The version decides before
//! the first launch, never a failed run.
//!
//! The npm package's `codex` is a Node program that starts the native one; killing it leaves the native one behind. So the
//! native program is located and started directly.
//!
//! Pitfalls of `exec`: the usage of a turn is the sum of the whole thread, including earlier processes; `error` is reported
//! for every lost connection that it then restores; a command that the sandbox refuses leaves no item at all.

mod app_server;
mod approvals;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::Value;

use crate::detect;
use crate::driver::{
    AgentTools, CannotLaunch, Driver, Interrupt, Job, Launch, LineEffects, OutputReader,
    SERVE_TOOLS, SOCKET, SoftSignal, TOOL_SERVER,
};
use crate::error_class;
use crate::event::{AgentEvent, AgentSpending, Usage};
use crate::outcome::{AgentEnd, AgentOutcome, OutcomeBuilder, TerminalEvent};
use crate::permission::Rule;
use crate::text::{LONGEST_TEXT, clip, count, last_line, one_line, text};
use app_server::AppServerReader;

/// The driver of Codex.
#[derive(Debug, Default)]
pub struct CodexDriver {
    /// How Codex is run, once that is known: the launch and the reader must use the same protocol.
    protocol: OnceLock<CodexProtocol>,
}

/// A way to run Codex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodexProtocol {
    /// One prompt and one stream of events: `codex exec --json`.
    Exec,
    /// A dialogue: `codex app-server`.
    AppServer,
}

impl CodexDriver {
    /// Creates a driver that uses this protocol, whatever the version of Codex is.
    pub fn with_protocol(protocol: CodexProtocol) -> Self {
        Self {
            protocol: OnceLock::from(protocol),
        }
    }

    fn protocol(&self, path: &OsStr) -> CodexProtocol {
        if let Some(known) = self.protocol.get() {
            return *known;
        }
        match detect::program("codex", path) {
            Ok(program) => *self
                .protocol
                .get_or_init(|| detect::codex_protocol(&detect::native_codex(&program))),
            // Not stored, because Codex may be installed later.
            Err(_) => CodexProtocol::Exec,
        }
    }
}

/// The variables that hold the credentials of Codex.
const SECRETS: [&str; 4] = [
    "AZURE_OPENAI_API_KEY",
    "CODEX_ACCESS_TOKEN",
    "CODEX_API_KEY",
    "OPENAI_API_KEY",
];

impl Driver for CodexDriver {
    fn provider(&self) -> &'static str {
        "codex"
    }

    fn launch(&self, job: &Job<'_>) -> Result<Launch, CannotLaunch> {
        let program = detect::native_codex(&detect::program("codex", job.path)?);
        if self.protocol(job.path) == CodexProtocol::AppServer {
            return app_server::launch(program, job);
        }
        let mut args: Vec<OsString> = ["exec", "--json", "--skip-git-repo-check", "-C"]
            .map(Into::into)
            .to_vec();
        args.push(job.worktree.into());
        args.extend(["-s".into(), sandbox(job.permissions.shell).into()]);
        if let Some(git_dir) = job.git_dir {
            // In its sandbox `.git` is read-only: without these folders an agent could not commit in a worktree.
            for folder in git_folders(git_dir, job.worktree) {
                args.extend(["--add-dir".into(), folder]);
            }
        }
        for setting in settings(job)? {
            args.extend(["-c".into(), setting]);
        }
        if matches!(job.permissions.shell, Rule::Deny | Rule::Ask) {
            args.extend(["--disable".into(), "shell_tool".into()]);
        }
        if let Some(model) = job.model {
            args.extend(["-m".into(), model.into()]);
        }
        if let Some(resume) = &job.resume {
            args.extend(["resume".into(), resume.session.into()]);
        }
        args.push("-".into());
        Ok(Launch::of_client(job, program, args, &SECRETS))
    }

    fn reader(&self, job: &Job<'_>) -> Box<dyn OutputReader> {
        match self.protocol(job.path) {
            CodexProtocol::Exec => Box::new(CodexReader::new(job)),
            CodexProtocol::AppServer => Box::new(AppServerReader::new(job)),
        }
    }

    fn interrupt(&self) -> Interrupt {
        Interrupt::Signal(SoftSignal::Interrupt)
    }
}

/// Returns the settings of a launch that do not depend on the protocol.
fn settings(job: &Job<'_>) -> Result<Vec<OsString>, CannotLaunch> {
    let mut settings = Vec::new();
    if job.temp.is_some() {
        // The agent has its own folder for temp files, so it must not leave files in the shared `/tmp`.
        settings.push("sandbox_workspace_write.exclude_slash_tmp=true".into());
    }
    settings.push(trust(job.worktree)?);
    if let Some(tools) = &job.tools {
        settings.push(own_server(job, tools).into());
    }
    Ok(settings)
}

/// Returns the repository's `.git` and its folder for this worktree, whose name may differ from the worktree's: two teams
/// can each have a `worker-1`.
fn git_folders(git_dir: &Path, worktree: &Path) -> Vec<OsString> {
    let named = worktree
        .file_name()
        .map(|name| git_dir.join("worktrees").join(name));
    let own = own_git_dir(worktree).or(named);
    std::iter::once(git_dir.to_owned())
        .chain(own)
        .map(PathBuf::into_os_string)
        .collect()
}

/// Returns the folder that the `.git` file of a linked worktree points to: `gitdir: …`.
fn own_git_dir(worktree: &Path) -> Option<PathBuf> {
    let dir = teamster_fs::Dir::open_root(worktree).ok()??;
    let (bytes, _) = dir.read(".git").ok()??;
    let text = String::from_utf8(bytes).ok()?;
    let path = text.strip_prefix("gitdir:")?.trim();
    (!path.is_empty()).then(|| worktree.join(path))
}

/// Returns the setting `projects={"DIR"={trust_level="trusted"}}`: Codex changes its settings in a folder that is not trusted
/// yet. A dotted key would be split at the dots of the path.
fn trust(worktree: &Path) -> Result<OsString, CannotLaunch> {
    let Some(path) = worktree.to_str() else {
        return Err(CannotLaunch::Unfit(format!(
            "codex cannot work in a folder whose name is not UTF-8: {}",
            worktree.display()
        )));
    };
    // A string has the same quoting in JSON and in TOML.
    let key = Value::String(path.to_owned());
    Ok(format!("projects={{{key}={{trust_level=\"trusted\"}}}}").into())
}

/// Returns the setting that makes the client start teamster's MCP server. The client passes its servers almost none of its
/// environment, asks about each call unless configured otherwise, and by default waits for at most a minute. The server is
/// not `required`, so the client works without it as well.
pub(crate) fn own_server(job: &Job<'_>, tools: &AgentTools<'_>) -> String {
    let text = |path: &Path| Value::String(path.to_string_lossy().into_owned());
    format!(
        "mcp_servers.{TOOL_SERVER}={{command={},args=[\"{SERVE_TOOLS}\"],env={{{SOCKET}={}}},\
         default_tools_approval_mode=\"approve\",tool_timeout_sec={}}}",
        text(job.teamster),
        text(tools.socket),
        tools.client_timeout().as_secs()
    )
}

/// Parses the event stream of `codex exec`.
struct CodexReader {
    outcome: OutcomeBuilder,
    resumed: bool,
    /// The usage of the thread before this run, or `None` for a resumed thread whose usage is unknown.
    before: Option<Usage>,
    used: Option<Usage>,
    turns_open: bool,
    said: String,
}

impl CodexReader {
    fn new(job: &Job<'_>) -> Self {
        Self {
            outcome: OutcomeBuilder::default(),
            resumed: job.resume.is_some(),
            before: match &job.resume {
                None => Some(Usage::default()),
                Some(resume) => resume.spent.and_then(|spent| spent.usage),
            },
            used: None,
            turns_open: false,
            said: String::new(),
        }
    }

    fn completed(&mut self, value: &Value) -> Vec<AgentEvent> {
        self.turns_open = false;
        let told = value.get("usage").zip(self.before);
        let total = told.map(|(usage, before)| usage_of(usage).minus(before));
        let mut events = AgentEvent::usage_since(&mut self.used, total);
        let summary = self.said.clone();
        events.push(self.outcome.finish(TerminalEvent::Success { summary }));
        events
    }

    fn failed(&mut self, value: &Value) -> Vec<AgentEvent> {
        let message = value.pointer("/error/message").and_then(Value::as_str);
        let message = message.unwrap_or("the turn failed");
        let (class, reason) = (error_class::classify_message(message), plain(message));
        vec![
            self.outcome
                .finish(TerminalEvent::Failure { class, reason }),
        ]
    }

    fn error(&mut self, value: &Value) -> AgentEvent {
        let message = text(value, "message").unwrap_or("error");
        let retrying = message.starts_with("Reconnecting");
        self.outcome.error(
            error_class::classify_message(message),
            &plain(message),
            retrying,
        )
    }

    fn item(&mut self, value: &Value, is_whole: bool) -> Vec<AgentEvent> {
        let item = value.get("item").unwrap_or(&Value::Null);
        let call = text(item, "id").unwrap_or_default().to_owned();
        let status = text(item, "status").unwrap_or_default();
        let kind = text(item, "type").unwrap_or_default();
        if kind != "error" {
            self.outcome.note_progress();
        }
        match (kind, is_whole) {
            ("agent_message", true) => {
                let said = text(item, "text").unwrap_or_default();
                self.said = clip(said, LONGEST_TEXT);
                vec![AgentEvent::Text(self.said.clone())]
            }
            ("error", true) => vec![AgentEvent::Notice(one_line(
                text(item, "message").unwrap_or_default(),
            ))],
            ("command_execution", false) => vec![AgentEvent::ToolUse {
                call,
                tool: "shell".to_owned(),
                detail: one_line(text(item, "command").unwrap_or_default()),
            }],
            ("command_execution", true) => vec![AgentEvent::ToolResult {
                call,
                failed: status != "completed"
                    || item.get("exit_code").and_then(Value::as_i64) != Some(0),
                detail: one_line(text(item, "aggregated_output").unwrap_or_default()),
            }],
            ("mcp_tool_call", false) => vec![AgentEvent::ToolUse {
                call,
                tool: ["server", "tool"]
                    .map(|key| text(item, key).unwrap_or_default())
                    .join("."),
                detail: one_line(&item.get("arguments").unwrap_or(&Value::Null).to_string()),
            }],
            ("mcp_tool_call", true) => vec![AgentEvent::ToolResult {
                call,
                failed: status != "completed",
                detail: one_line(mcp_answer(item)),
            }],
            ("file_change", true) if status == "completed" => {
                let changes = item.get("changes").and_then(Value::as_array);
                let paths = changes.into_iter().flatten();
                let paths: Vec<PathBuf> = paths
                    .filter_map(|change| text(change, "path"))
                    .map(PathBuf::from)
                    .collect();
                vec![AgentEvent::FileChange { paths }]
            }
            ("file_change", true) => vec![AgentEvent::ToolResult {
                call,
                failed: true,
                detail: "the change could not be made".to_owned(),
            }],
            _ => Vec::new(),
        }
    }
}

impl OutputReader for CodexReader {
    fn line(&mut self, line: &[u8]) -> LineEffects {
        LineEffects::of_object(line, |kind, value| match kind {
            "thread.started" => {
                let started = self.outcome.start(text(value, "thread_id"), None);
                started.into_iter().collect()
            }
            "turn.started" => {
                self.turns_open = true;
                self.outcome.turn();
                Vec::new()
            }
            "item.started" => self.item(value, false),
            "item.completed" => self.item(value, true),
            "item.updated" => Vec::new(),
            "turn.completed" => self.completed(value),
            "turn.failed" => self.failed(value),
            "error" => vec![self.error(value)],
            other => vec![AgentEvent::Unknown(one_line(other))],
        })
    }

    fn end(mut self: Box<Self>, ending: AgentEnd, stderr_tail: &str) -> AgentOutcome {
        let gone = self.resumed && stderr_tail.contains("no rollout found");
        self.outcome.stand_in(|| {
            gone.then(|| TerminalEvent::SessionGone {
                reason: last_line(stderr_tail).unwrap_or_default(),
            })
        });
        let spent = AgentSpending {
            usage: self.used,
            cost_usd: None,
            at_least: self.turns_open,
        };
        self.outcome.outcome(ending, stderr_tail, spent)
    }
}

/// Returns the readable message in an error of the model's server, which Codex passes on unchanged.
fn plain(message: &str) -> String {
    let inner = serde_json::from_str::<Value>(message).ok();
    let inner = inner
        .as_ref()
        .and_then(|value| value.pointer("/error/message"));
    inner.and_then(Value::as_str).unwrap_or(message).to_owned()
}

fn mcp_answer(item: &Value) -> &str {
    let error = item.pointer("/error/message");
    let answer = error.or_else(|| item.pointer("/result/content/0/text"));
    answer.and_then(Value::as_str).unwrap_or_default()
}

fn usage_of(usage: &Value) -> Usage {
    let (cached_input, cache_write) = (
        count(usage, "cached_input_tokens"),
        count(usage, "cache_write_input_tokens"),
    );
    Usage {
        // The input count includes cached tokens.
        input: count(usage, "input_tokens")
            .saturating_sub(cached_input.saturating_add(cache_write)),
        cached_input,
        cache_write,
        output: count(usage, "output_tokens"),
        reasoning: count(usage, "reasoning_output_tokens"),
    }
}
/// Returns the sandbox in which Codex runs its commands.
const fn sandbox(shell: Rule) -> &'static str {
    match shell {
        Rule::Read => "read-only",
        Rule::Allow | Rule::Deny | Rule::Ask => "workspace-write",
    }
}

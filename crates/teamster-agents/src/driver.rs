//! The traits that a client must implement: [`Driver`], which says what to start for a job, and [`OutputReader`], which
//! parses one run of it.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use teamster_types::shell;
use thiserror::Error;

use crate::event::{AgentEvent, AgentSpending};
use crate::outcome::{AgentEnd, AgentOutcome};
use crate::permission::Permissions;
use crate::text::object;

/// One kind of coding agent.
///
/// A driver starts nothing. It describes what to start ([`Driver::launch`]), parses its output ([`Driver::reader`]) and
/// knows how to ask it to stop ([`Driver::interrupt`]).
pub trait Driver: Send + Sync {
    /// Returns the provider's word: `claude`, `codex`, `gemini`, `command`, `scripted`.
    fn provider(&self) -> &'static str;

    /// Returns the capabilities of its workers unless the configuration says otherwise.
    fn capabilities(&self) -> &'static [&'static str] {
        teamster_types::routing::default_capabilities(self.provider())
    }

    /// Returns what to start for this job.
    fn launch(&self, job: &Job<'_>) -> Result<Launch, CannotLaunch>;

    /// Returns a reader for one run of the launch for the same job.
    fn reader(&self, job: &Job<'_>) -> Box<dyn OutputReader>;

    /// Returns the script that this agent plays, as it was read, or `None` for agents that play none. The user's trust must be
    /// checked against exactly these bytes.
    fn script(&self) -> Option<&[u8]> {
        None
    }

    /// Returns whether each [`Text`](crate::AgentEvent::Text) is a whole message; otherwise they are pieces of one.
    fn says_whole_texts(&self) -> bool {
        true
    }

    /// Returns whether messages that arrived during a turn are delivered in one more turn of the same session. This is for
    /// clients that accept no input while they work and that can resume a session.
    fn has_turns_for_mail(&self) -> bool {
        false
    }

    /// Returns how a running agent is asked to end its turn. Only the end of its process shows whether it complies.
    fn interrupt(&self) -> Interrupt;
}

/// Parses one run of a client.
///
/// Whatever the lines contain, a reader never fails and never mistakes a failure for a success.
pub trait OutputReader: Send {
    /// Parses one line of the client's standard output, with or without its line end.
    fn line(&mut self, line: &[u8]) -> LineEffects;

    /// Handles a person's answer to a request that was [`PermissionDecision::Asked`](crate::PermissionDecision::Asked).
    /// Returns the bytes for the client's input, or `None` when the client no longer waits for the answer.
    fn answer(&mut self, request: &str, answer: PermissionReply) -> Option<Vec<u8>> {
        let _ = (request, answer);
        None
    }

    /// Handles the outcome of a question of the client ([`QuestionAsked`](crate::AgentEvent::QuestionAsked)). Returns the
    /// bytes for the client's input, or `None` when the client no longer waits for the answer.
    fn answer_question(&mut self, request: &str, answer: &QuestionReply) -> Option<Vec<u8>> {
        let _ = (request, answer);
        None
    }

    /// Returns how a message reaches the agent while it works.
    ///
    /// `delivery` identifies the attempt to deliver; [`LineEffects::taken`] and [`LineEffects::refused`] refer to it. There is
    /// one delivery at a time.
    fn deliver(&mut self, delivery: &str, text: &str) -> MessageRoute {
        let _ = (delivery, text);
        MessageRoute::Never
    }

    /// Returns how this run is asked to end its turn, if that depends on its output; otherwise [`Driver::interrupt`] applies.
    fn interrupt(&self) -> Option<Interrupt> {
        None
    }

    /// Ends the run. `stderr_tail` is the end of its error stream, which may explain a failure.
    fn end(self: Box<Self>, ending: AgentEnd, stderr_tail: &str) -> AgentOutcome;
}

/// The effects of one line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LineEffects {
    /// What the agent did, in order.
    pub events: Vec<AgentEvent>,
    /// The bytes to write to its input now, each with its line end.
    pub replies: Vec<Vec<u8>>,
    /// Whether to close its input after that, because it needs no more input.
    pub close_input: bool,
    /// Whether it may be finished: its input is closed if no further line follows within a moment.
    pub may_be_over: bool,
    /// The deliveries that the client accepted: the model gets the text with its next request.
    pub taken: Vec<String>,
    /// The deliveries that the client rejected. They can be retried.
    pub refused: Vec<String>,
}

impl LineEffects {
    /// Parses a line as an object with a type, and passes it to `events`. Any other line becomes an event of its own.
    pub(crate) fn of_object(
        line: &[u8],
        events: impl FnOnce(&str, &Value) -> Vec<AgentEvent>,
    ) -> Self {
        match object(line) {
            Ok(Some((kind, value))) => Self {
                events: events(&kind, &value),
                ..Self::default()
            },
            Ok(None) => Self::default(),
            Err(unknown) => Self::event(unknown),
        }
    }

    pub(crate) fn event(event: AgentEvent) -> Self {
        Self {
            events: vec![event],
            ..Self::default()
        }
    }
}

/// A person's decision about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermissionReply {
    /// The agent may do it.
    Allow,
    /// The agent may not do it, for this reason.
    Deny(String),
}

/// The outcome of a question that a client asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuestionReply {
    /// The question was answered, in these words.
    Answered(String),
    /// The question was not answered; this text tells the agent so, and what to do.
    Unanswered(String),
}

/// How a message reaches a working agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageRoute {
    /// Write these bytes to its input. A later line of the client shows whether it accepted them.
    Input(Vec<u8>),
    /// Append the message to the file of [`Job::inbox`], which the program polls.
    InboxFile,
    /// The client cannot accept the message now, but may after its next line.
    Later,
    /// The client accepts no messages while it works, or no more of them.
    Never,
}

/// A job for an agent: what to do, and where.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The prompt. It never becomes part of a command line.
    pub prompt: &'a str,
    /// The folder the agent works in, an absolute path with links resolved. The process is started there.
    pub worktree: &'a Path,
    /// The repository's own `.git`, when `worktree` is a linked one and the agent itself is to commit. For an agent in a
    /// sandbox this also opens the repository's hooks and settings, so leave it out when the bridge commits.
    pub git_dir: Option<&'a Path>,
    /// The model, or `None` for the client's own choice.
    pub model: Option<&'a str>,
    /// An earlier session to resume.
    pub resume: Option<ResumeSession<'a>>,
    /// What the agent may do.
    pub permissions: &'a Permissions,
    /// The team that the agent works for.
    pub team: &'a str,
    /// The name of the agent's worker.
    pub worker: &'a str,
    /// The task that the agent works on.
    pub task: Option<JobTask<'a>>,
    /// A private folder for temp files, short enough for the path of a socket. The caller removes it after the run: an
    /// interrupted Codex leaves empty `.git`, `.codex` and other folders wherever it may write, and an empty `.git` in a shared
    /// `/tmp` makes every program there believe that it is in a repository.
    pub temp: Option<&'a Path>,
    /// The file to which messages are appended, one JSON object per line, for programs that can receive them in no other way.
    pub inbox: Option<&'a Path>,
    /// The search path for programs, as in `PATH`.
    pub path: &'a OsStr,
    /// The path of teamster's own program, which plays scripts.
    pub teamster: &'a Path,
    /// How the agent reaches its team while it works; `None` when it cannot.
    pub tools: Option<AgentTools<'a>>,
}

/// How an agent reaches its team: through tools served by teamster's own program, which connects to the worker's bridge.
#[derive(Clone, Copy, Debug)]
pub struct AgentTools<'a> {
    /// The socket of the bridge. A caller on this socket acts as the worker.
    pub socket: &'a Path,
    /// How long a tool may wait for another member's answer.
    pub patience: Duration,
}

impl AgentTools<'_> {
    /// Returns the client's timeout for a tool: slightly longer than the tool itself waits.
    pub(crate) fn client_timeout(&self) -> Duration {
        self.patience.saturating_add(CLIENT_GRACE)
    }
}

/// The name of teamster's MCP server in a client; the names of its tools begin with it.
pub(crate) const TOOL_SERVER: &str = "teamster";
/// The argument with which teamster's own program serves tools.
pub(crate) const SERVE_TOOLS: &str = "mcp";
/// The variable with the path of the bridge's socket.
pub(crate) const SOCKET: &str = "TEAMSTER_SOCKET";
/// How much longer than a tool its client waits.
const CLIENT_GRACE: Duration = Duration::from_secs(30);

/// A session of the client to resume.
#[derive(Clone, Copy, Debug)]
pub struct ResumeSession<'a> {
    /// The session's id, from [`AgentOutcome::session`](crate::AgentOutcome::session).
    pub session: &'a str,
    /// The total spending of all earlier runs of this session, computed with [`AgentSpending::then`]. Some clients report
    /// cumulative amounts, so without it the cost of the new run is unknown.
    pub spent: Option<AgentSpending>,
}

/// The facts about its task that every program gets.
#[derive(Clone, Copy, Debug)]
pub struct JobTask<'a> {
    /// The number of the task.
    pub id: &'a str,
    /// The subject of the task.
    pub subject: &'a str,
    /// A file with the whole task as JSON.
    pub file: &'a Path,
    /// The number of the attempt, counted from 1.
    pub attempt: u32,
}

/// A program to start: in the job's worktree, in a session of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The program's file.
    pub program: PathBuf,
    /// Its arguments. They hold no secret and no prompt.
    pub args: Vec<OsString>,
    /// Variables that the program gets.
    pub set: Vec<(OsString, OsString)>,
    /// Variables that the program must not inherit, whatever they hold: they belong to a session in which teamster runs.
    pub unset: Vec<&'static str>,
    /// The credentials that the program may inherit. All others of [`CREDENTIALS`] are removed from its environment.
    pub secrets: Vec<String>,
    /// The program's standard input.
    pub input: AgentInput,
}

impl Launch {
    /// Creates the launch of a client for a job, with what every client gets: the facts about the task, none of the variables of
    /// an outer session, its own credentials, and the prompt on its standard input.
    pub(crate) fn of_client(
        job: &Job<'_>,
        program: PathBuf,
        args: Vec<OsString>,
        secrets: &[&str],
    ) -> Self {
        Self {
            program,
            args,
            set: task_variables(job),
            unset: OUTER_SESSION_VARS.to_vec(),
            secrets: secrets.iter().copied().map(str::to_owned).collect(),
            input: AgentInput::Text(as_plain_text(job.prompt).into_owned().into_bytes()),
        }
    }

    /// Returns those of the given variable names that this program must not see.
    pub fn withheld<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
        names
            .into_iter()
            .filter(|name| {
                let foreign = CREDENTIALS.contains(name)
                    && !self.secrets.iter().any(|allowed| allowed == name);
                foreign || self.unset.contains(name)
            })
            .collect()
    }

    /// Returns the command line as a person would type it, redacted.
    pub fn command_line(&self) -> String {
        let line = std::iter::once(self.program.as_os_str())
            .chain(self.args.iter().map(OsString::as_os_str))
            .map(|word| shell::word(&word.to_string_lossy()))
            .collect::<Vec<_>>()
            .join(" ");
        teamster_types::redact::redact(&line).into_owned()
    }
}

/// The standard input of an agent. It is never left open without a writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentInput {
    /// The agent gets no input: `/dev/null`.
    Nothing,
    /// The agent gets this text, and then the end of its input.
    Text(Vec<u8>),
    /// The agent gets this text, then the reader's replies, until a [`LineEffects`] closes the input.
    Dialogue(Vec<u8>),
}

/// How a running agent is asked to end its turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// By a signal to its process.
    Signal(SoftSignal),
    /// By a line on its standard input.
    Line(Vec<u8>),
}

/// A signal that asks a process to exit without forcing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SoftSignal {
    /// The signal SIGINT.
    Interrupt,
    /// The signal SIGTERM.
    Terminate,
}

/// Why a job cannot be started at all.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CannotLaunch {
    /// The client is not installed on this machine.
    #[error("`{program}` is not on PATH; {hint}")]
    NotInstalled {
        /// The name of its program.
        program: &'static str,
        /// What to do.
        hint: &'static str,
    },
    /// The client cannot do this job.
    #[error("{0}")]
    Unfit(String),
}

/// The variables that hold a model provider's credentials. An agent inherits those of its own client and no others.
///
/// Credentials of other services (a cloud, a forge) are not here: a project's own commands may need them.
pub const CREDENTIALS: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_FOUNDRY_API_KEY",
    "AWS_BEARER_TOKEN_BEDROCK",
    "CLAUDE_CODE_OAUTH_REFRESH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "AZURE_OPENAI_API_KEY",
    "CODEX_ACCESS_TOKEN",
    "CODEX_API_KEY",
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "CEREBRAS_API_KEY",
    "COHERE_API_KEY",
    "DASHSCOPE_API_KEY",
    "DEEPSEEK_API_KEY",
    "FIREWORKS_API_KEY",
    "GROQ_API_KEY",
    "MISTRAL_API_KEY",
    "MOONSHOT_API_KEY",
    "OPENROUTER_API_KEY",
    "PERPLEXITY_API_KEY",
    "TOGETHER_API_KEY",
    "XAI_API_KEY",
    "ZAI_API_KEY",
];

/// The variables by which Claude Code describes itself to the programs that it starts. When such a session started
/// teamster, an agent must not mistake itself for a part of it.
pub const OUTER_SESSION_VARS: &[&str] = &[
    "AI_AGENT",
    "CLAUDECODE",
    "CLAUDE_CODE_CHILD_SESSION",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_MESSAGING_SOCKET",
    "CLAUDE_CODE_MESSAGING_TOKEN",
    "CLAUDE_CODE_SESSION_ATTENDED",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_SSE_PORT",
    "CLAUDE_ENV_FILE",
    "CLAUDE_PID",
    "CLAUDE_PROJECT_DIR",
];

/// Returns the variables that tell any program its team, worker and task, and where its temp files go.
pub(crate) fn task_variables(job: &Job<'_>) -> Vec<(OsString, OsString)> {
    let mut set: Vec<(OsString, OsString)> = vec![
        ("TEAMSTER_TEAM".into(), job.team.into()),
        ("TEAMSTER_WORKER".into(), job.worker.into()),
    ];
    if let Some(temp) = job.temp {
        set.push(("TMPDIR".into(), temp.into()));
    }
    if let Some(tools) = &job.tools {
        set.push((SOCKET.into(), tools.socket.into()));
    }
    if let Some(task) = &job.task {
        set.extend([
            ("TEAMSTER_TASK_ID".into(), task.id.into()),
            ("TEAMSTER_TASK_SUBJECT".into(), without_nul(task.subject)),
            ("TEAMSTER_TASK_FILE".into(), task.file.into()),
            (
                "TEAMSTER_TASK_ATTEMPT".into(),
                task.attempt.to_string().into(),
            ),
        ]);
    }
    set
}

/// Returns the prompt in a form that a client takes as plain text. A prompt that begins with `/` or the like would be a
/// command of the client: Claude Code answers `/help …` itself, asks no model, and reports success.
pub(crate) fn as_plain_text(prompt: &str) -> Cow<'_, str> {
    if prompt.trim_start().starts_with(['/', '!', '#', '@', '?']) {
        Cow::Owned(format!("Task:\n{prompt}"))
    } else {
        Cow::Borrowed(prompt)
    }
}

/// Returns a text without zero bytes, which a variable cannot hold but another program's subject may contain.
fn without_nul(text: &str) -> OsString {
    text.replace('\0', " ").into()
}

//! What a client must implement: [`Driver`], which says what to start for a job, and [`OutputReader`], which understands
//! one run of it.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use thiserror::Error;

use crate::event::{AgentEvent, AgentSpending};
use crate::outcome::{AgentEnd, AgentOutcome};
use crate::permission::Permissions;
use crate::text::object;

/// One kind of coding agent.
///
/// A driver starts nothing. It says what to start ([`Driver::launch`]), understands what that prints
/// ([`Driver::reader`]) and knows how to ask it to stop ([`Driver::interrupt`]).
pub trait Driver: Send + Sync {
    /// Returns the provider's word: `claude`, `codex`, `gemini`, `command`, `scripted`.
    fn provider(&self) -> &'static str;

    /// Returns what its workers can do unless the configuration says otherwise.
    fn capabilities(&self) -> &'static [&'static str] {
        teamster_types::routing::default_capabilities(self.provider())
    }

    /// Returns what to start for this job.
    fn launch(&self, job: &Job<'_>) -> Result<Launch, CannotLaunch>;

    /// Returns a reader for one run of what `launch` gave for the same job.
    fn reader(&self, job: &Job<'_>) -> Box<dyn OutputReader>;

    /// Returns the script that this agent plays, as it was read, or `None` for agents that play none. What is accepted of it must be
    /// these bytes.
    fn script(&self) -> Option<&[u8]> {
        None
    }

    /// Returns whether each [`Text`](crate::AgentEvent::Text) is one by itself; otherwise they are pieces of one.
    fn says_whole_texts(&self) -> bool {
        true
    }

    /// Returns whether words of others that came during a turn are told by one more turn of the same session. It is for clients
    /// that take nothing while they work, and that find a session again.
    fn has_turns_for_mail(&self) -> bool {
        false
    }

    /// Returns how a running agent is asked to end its turn. Whether it obeys is for its process to show.
    fn interrupt(&self) -> Interrupt;
}

/// Understands one run of a client.
///
/// Whatever the lines hold, a reader neither fails nor takes for a success what is none.
pub trait OutputReader: Send {
    /// Takes in one line of the client's standard output, with or without its line end.
    fn line(&mut self, line: &[u8]) -> LineEffects;

    /// Takes in a person's answer to a request that was [`PermissionDecision::Asked`](crate::PermissionDecision::Asked): what to write to the
    /// client's input, or `None` when nobody waits for it any more.
    fn answer(&mut self, request: &str, answer: PermissionReply) -> Option<Vec<u8>> {
        let _ = (request, answer);
        None
    }

    /// Takes in what became of a question of the client ([`QuestionAsked`](crate::AgentEvent::QuestionAsked)): what to write to the
    /// client's input, or `None` when nobody waits for it any more.
    fn answer_question(&mut self, request: &str, answer: &QuestionReply) -> Option<Vec<u8>> {
        let _ = (request, answer);
        None
    }

    /// Returns the way on which a message of others reaches the agent while it works.
    ///
    /// `delivery` names the attempt to deliver; [`LineEffects::taken`] and [`LineEffects::refused`] have the same name. There
    /// is one delivery at a time.
    fn deliver(&mut self, delivery: &str, text: &str) -> MessageRoute {
        let _ = (delivery, text);
        MessageRoute::Never
    }

    /// Returns how this run is asked to end its turn, where that depends on what it said; else [`Driver::interrupt`] tells.
    fn interrupt(&self) -> Option<Interrupt> {
        None
    }

    /// Ends the run. `stderr_tail` is the end of its error stream, for the reason.
    fn end(self: Box<Self>, ending: AgentEnd, stderr_tail: &str) -> AgentOutcome;
}

/// What one line led to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LineEffects {
    /// What the agent did, in order.
    pub events: Vec<AgentEvent>,
    /// What to write to its input now, each with its line end.
    pub replies: Vec<Vec<u8>>,
    /// Whether to close its input after that: it has nothing more to wait for.
    pub close_input: bool,
    /// Whether it may be at its end: its input is to be closed if it says nothing more for a moment.
    pub may_be_over: bool,
    /// The deliveries that the client has taken: the model has the text with its next request.
    pub taken: Vec<String>,
    /// The deliveries that the client did not take. They can be tried again.
    pub refused: Vec<String>,
}

impl LineEffects {
    /// Reads a line that is an object with a type, and gives what it means to `events`. A line that is none is an event of
    /// its own.
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

/// What a person says to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermissionReply {
    /// The agent may do it.
    Allow,
    /// The agent may not do it, for this reason.
    Deny(String),
}

/// What became of a question that a client asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuestionReply {
    /// Somebody answered it, in these words.
    Answered(String),
    /// Nobody did; this tells the agent so, and what to do.
    Unanswered(String),
}

/// How a message of others reaches an agent that works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageRoute {
    /// These bytes go to its input. A later line of the client shows whether it took them.
    Input(Vec<u8>),
    /// It is appended to the file of [`Job::inbox`], for the program to look at.
    InboxFile,
    /// The client could not take it now, but may after its next line.
    Later,
    /// The client takes nothing while it works, or nothing any more.
    Never,
}

/// What an agent is to do, and where.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// What it is told. It never becomes part of a command line.
    pub prompt: &'a str,
    /// The folder it works in: absolute, links resolved. The process is to be started there.
    pub worktree: &'a Path,
    /// The repository's own `.git`, when `worktree` is a linked one and the agent itself is to commit. Where the
    /// agent is in a sandbox this opens the repository's hooks and settings to it as well, so leave it out when
    /// somebody else commits.
    pub git_dir: Option<&'a Path>,
    /// Which model; else the client's own choice.
    pub model: Option<&'a str>,
    /// An earlier session to go on with.
    pub resume: Option<ResumeSession<'a>>,
    /// What it may do.
    pub permissions: &'a Permissions,
    /// Which team it works for.
    pub team: &'a str,
    /// As which worker.
    pub worker: &'a str,
    /// On which task.
    pub task: Option<JobTask<'a>>,
    /// A folder of its own for temp files, short enough for the path of a socket. Whoever gives it removes it after the
    /// run: an interrupted Codex leaves empty `.git`, `.codex` and other folders wherever it may write, and in a `/tmp`
    /// that all share an empty `.git` makes every program there believe in a repository.
    pub temp: Option<&'a Path>,
    /// The file to which messages of others are appended, one JSON object a line, for programs that have no other way.
    pub inbox: Option<&'a Path>,
    /// Where programs are looked for, as in `PATH`.
    pub path: &'a OsStr,
    /// Our own program: a script is played by it.
    pub teamster: &'a Path,
    /// How it reaches its team while it works; `None` when it cannot.
    pub tools: Option<AgentTools<'a>>,
}

/// How an agent reaches its team: by tools that our own program serves, which speaks to the worker's bridge.
#[derive(Clone, Copy, Debug)]
pub struct AgentTools<'a> {
    /// The socket of the bridge. Whoever speaks through it is the worker.
    pub socket: &'a Path,
    /// How long a tool may wait for an answer of somebody else.
    pub patience: Duration,
}

impl AgentTools<'_> {
    /// Returns how long a client has to wait for a tool: a moment longer than the tool itself waits.
    pub(crate) fn client_patience(&self) -> Duration {
        self.patience.saturating_add(MOMENT)
    }
}

/// The name of our server among those of a client; the names of its tools begin with it.
pub(crate) const TOOL_SERVER: &str = "teamster";
/// The argument of our own program that makes it serve tools.
pub(crate) const SERVE_TOOLS: &str = "mcp";
/// The variable with the path of the bridge's socket.
pub(crate) const SOCKET: &str = "TEAMSTER_SOCKET";
/// How much longer than a tool its client waits.
const MOMENT: Duration = Duration::from_secs(30);

/// A session of the client to go on with.
#[derive(Clone, Copy, Debug)]
pub struct ResumeSession<'a> {
    /// Its name, from [`AgentOutcome::session`](crate::AgentOutcome::session).
    pub session: &'a str,
    /// The sum of what all earlier runs of this session spent, made with [`AgentSpending::then`]. Some clients count on from
    /// there, so without it the cost of the new run is unknown.
    pub spent: Option<AgentSpending>,
}

/// What is told to any program about its task.
#[derive(Clone, Copy, Debug)]
pub struct JobTask<'a> {
    /// The number of the task.
    pub id: &'a str,
    /// What it is about.
    pub subject: &'a str,
    /// A file with the whole task as JSON.
    pub file: &'a Path,
    /// 1 for the first try.
    pub attempt: u32,
}

/// A program to start: in the job's worktree, in a session of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The program's file.
    pub program: PathBuf,
    /// Its arguments. They hold no secret and no prompt.
    pub args: Vec<OsString>,
    /// Variables it gets.
    pub set: Vec<(OsString, OsString)>,
    /// Variables it must not inherit, whatever they hold: they belong to a session around us.
    pub unset: Vec<&'static str>,
    /// The credentials it may inherit. All others of [`CREDENTIALS`] are to be taken out of its environment.
    pub secrets: Vec<String>,
    /// What goes to its standard input.
    pub input: AgentInput,
}

impl Launch {
    /// Starts a client for a job, with what every client gets: what is known about the task, no trace of a session around
    /// us, its own credentials, and the prompt on its standard input.
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

    /// Names of variables that this program must not see, out of a whole environment's names.
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

    /// The command line as a person would type it, redacted.
    pub fn command_line(&self) -> String {
        let line = std::iter::once(self.program.as_os_str())
            .chain(self.args.iter().map(OsString::as_os_str))
            .map(|word| quoted(&word.to_string_lossy()))
            .collect::<Vec<_>>()
            .join(" ");
        teamster_types::redact::redact(&line).into_owned()
    }
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// What goes to the standard input. It is never left open with nobody to feed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentInput {
    /// The agent gets no input: `/dev/null`.
    Nothing,
    /// This, and then its end.
    Text(Vec<u8>),
    /// This first; then what the reader replies, until a step says that the input is to be closed.
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

/// A signal that asks and does not force.
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
    /// The client is not on this machine.
    #[error("`{program}` is not on PATH; {hint}")]
    NotInstalled {
        /// The name of its program.
        program: &'static str,
        /// What to do.
        hint: &'static str,
    },
    /// The job asks for something that this client cannot do.
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

/// What Claude Code tells the programs it starts about itself. When teamster was started by such a session, an agent
/// of ours must not take itself for a part of it.
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

/// The variables that tell any program whose work it does, and where its temp files go.
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

/// The prompt as a client takes it for words. One that begins with `/` or the like would be a command of the client's
/// own: Claude Code answers `/help …` by itself, asks no model, and calls that a success.
pub(crate) fn as_plain_text(prompt: &str) -> Cow<'_, str> {
    if prompt.trim_start().starts_with(['/', '!', '#', '@', '?']) {
        Cow::Owned(format!("Task:\n{prompt}"))
    } else {
        Cow::Borrowed(prompt)
    }
}

/// A variable cannot hold the byte 0, and a subject from a foreign writer may.
fn without_nul(text: &str) -> OsString {
    text.replace('\0', " ").into()
}

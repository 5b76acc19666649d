//! Claude Code: a dialogue of JSON lines on both streams.
//!
//! `-p` with `stream-json` both ways: the prompt is the first line of its input, its permission requests come as lines
//! of its output and are answered by our policy, and an interrupt is a line as well. After its result the input is
//! closed, and it ends.

mod ask;
mod read;

use serde_json::json;

use crate::detect;
use crate::driver::{
    AgentInput, CannotLaunch, Driver, Interrupt, Job, Launch, OUTER_SESSION_VARS, as_words,
    whose_work,
};
use crate::reader::OutputReader;

/// Claude Code.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClaudeDriver;

/// Its credentials, in whichever way it reaches its model.
const SECRETS: [&str; 6] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_FOUNDRY_API_KEY",
    "AWS_BEARER_TOKEN_BEDROCK",
    "CLAUDE_CODE_OAUTH_REFRESH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
];

/// Variables with which it needs no login of its own,
const SIGN_IN: [&str; 3] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
];
/// and those that turn it to a cloud, which has its own.
const CLOUDS: [&str; 3] = [
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_USE_FOUNDRY",
];

impl ClaudeDriver {
    /// Whether the environment alone lets it reach its model, so that it does not need the user's own folder.
    pub fn has_credentials(var: impl Fn(&str) -> Option<std::ffi::OsString>) -> bool {
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
        let mut args: Vec<std::ffi::OsString> = [
            "-p",
            "--input-format",
            "stream-json",
            "--output-format",
            "stream-json",
            "--verbose",
            // Every edit is asked for, so that every edit is decided by our policy.
            "--permission-mode",
            "default",
            "--permission-prompt-tool",
            "stdio",
            // The user's own servers would be started for every worker, only to have their tools denied.
            "--strict-mcp-config",
        ]
        .map(Into::into)
        .to_vec();
        if let Some(model) = job.model {
            args.extend(["--model".into(), model.into()]);
        }
        if let Some(resume) = &job.resume {
            args.extend(["--resume".into(), resume.session.into()]);
        }
        let mut set = whose_work(job);
        // Dozens of workers must not replace their own program while others run it.
        set.push(("DISABLE_AUTOUPDATER".into(), "1".into()));
        Ok(Launch {
            program,
            args,
            set,
            unset: OUTER_SESSION_VARS.to_vec(),
            secrets: SECRETS.map(str::to_owned).to_vec(),
            input: AgentInput::Dialogue(line(&json!({
                "type": "user",
                "message": { "role": "user", "content": [{ "type": "text", "text": as_words(job.prompt) }] },
            }))),
        })
    }

    fn reader(&self, job: &Job<'_>) -> Box<dyn OutputReader> {
        Box::new(read::ClaudeReader::new(job))
    }

    fn interrupt(&self) -> Interrupt {
        Interrupt::Line(line(&json!({
            "type": "control_request",
            "request_id": "teamster-interrupt",
            "request": { "subtype": "interrupt" },
        })))
    }
}

/// A JSON value as one line.
fn line(value: &serde_json::Value) -> Vec<u8> {
    let mut bytes = value.to_string().into_bytes();
    bytes.push(b'\n');
    bytes
}

//! Implements `teamster install` and `teamster uninstall`: hooks for Claude Code, and our tools for each client.

use std::fmt::Write as _;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use teamster_app::env_vars;
use teamster_app::tool_server::{self, ServerInstall, ToolClient};
use teamster_claude::install::{self, InstallOutcome, InstallRequest};
use teamster_store::{Clock, SystemClock};
use teamster_types::redact::redact;

use crate::context::Context;
use crate::error::{AppError, ErrorKind, Result};
use crate::shown::{display_text, plain};
use crate::table::Tone;

/// Connect a client to teamster with hooks or tools
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster install claude --dry-run
  teamster install claude
  teamster install codex --mcp --dry-run")]
pub struct InstallArgs {
    #[command(subcommand)]
    client: InstallCommand,
}

#[derive(Debug, Subcommand)]
enum InstallCommand {
    Claude(InstallClaudeArgs),
    /// Add teamster's tools to the settings of Codex
    #[command(after_help = "\
Only teamster's own entries are changed, and a backup is kept beside the file. Running it again
changes nothing, unless teamster has moved: then its path is updated.

Examples:
  teamster install codex --mcp --dry-run")]
    Codex(ToolsArgs),
    /// Add teamster's tools to the settings of Gemini CLI
    #[command(after_help = "\
Only teamster's own entries are changed, and a backup is kept beside the file. Running it again
changes nothing, unless teamster has moved: then its path is updated.

Examples:
  teamster install gemini --mcp --dry-run")]
    Gemini(ToolsArgs),
}

/// Our tools, by `teamster mcp`, for a client of the user's own.
#[derive(Args, Debug)]
struct ToolsArgs {
    /// The MCP tools: start runs, see their progress, talk to workers
    #[arg(long, required = true)]
    mcp: bool,
    /// Show what would change, but change nothing
    #[arg(long)]
    dry_run: bool,
}

/// Add teamster's hooks to the settings of Claude Code
#[derive(Args, Debug)]
#[command(after_help = "\
Only teamster's own hooks are changed; they are added after others. A backup is kept beside the
file. Running it again changes nothing, unless teamster has moved: then its path is updated. In a
project, .bkit/, .omc/ and .party/ are added to its .gitignore.
Settings with comments are not edited (exit code 6): the hooks to paste are shown instead.

Examples:
  teamster install claude --dry-run
  teamster install claude
  teamster install claude --scope local --light")]
struct InstallClaudeArgs {
    #[command(flatten)]
    place: SettingsSelector,
    /// Leave out tool hooks, which run twice per use of `Agent`, `Task*` and `SendMessage`
    #[arg(long)]
    light: bool,
    /// Add the MCP tools instead of hooks: start runs, see their progress, talk to workers
    #[arg(long, conflicts_with = "light")]
    mcp: bool,
}

/// Which settings, and whether to write them.
#[derive(Args, Debug)]
struct SettingsSelector {
    /// The settings to change
    #[arg(long, value_name = "SCOPE", value_enum, default_value_t = ScopeWord::User)]
    scope: ScopeWord,
    /// Show what would change, but change nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ScopeWord {
    /// Yours, for every project
    User,
    /// This project's, shared with everyone who works on it
    Project,
    /// This project's, for you only
    Local,
}

impl InstallArgs {
    pub fn run(self, context: &Context) -> Result {
        let command = match self.client {
            InstallCommand::Claude(command) if command.mcp => {
                let client = command.place.tool_client()?;
                return install_tools(context, client, command.place.dry_run);
            }
            InstallCommand::Claude(command) => command,
            InstallCommand::Codex(tools) => {
                return install_tools(context, ToolClient::Codex, tools.dry_run);
            }
            InstallCommand::Gemini(tools) => {
                return install_tools(context, ToolClient::Gemini, tools.dry_run);
            }
        };
        context.actor.must_be_person("installing hooks")?;
        let program = this_program()?;
        let request = command.place.request(context, &program, command.light);
        let outcome = install::install(&request)?;
        let place = outcome.settings.display();
        answer(
            context,
            &request,
            &outcome,
            &format!("teamster's hooks are in {place}; the next session of Claude Code calls them"),
            &format!("teamster's hooks are in {place}"),
        )
    }
}

/// Puts our tools into the settings of a client.
fn install_tools(context: &Context, client: ToolClient, dry_run: bool) -> Result {
    let program = this_program()?;
    let done = tool_server::install(context, client, &program, dry_run, SystemClock.now())?;
    let said = if done.diff.is_empty() {
        "nothing to do: teamster's tools are in "
    } else if dry_run {
        "nothing was written, this is a dry run: "
    } else {
        "the next session of the client has teamster's tools: "
    };
    answer_tools(context, &done, said)
}

/// Reports what was done to the servers of a client.
fn answer_tools(context: &Context, done: &ServerInstall, said: &str) -> Result {
    context.out.answer(
        || {
            json!({
                "settings": done.settings, "changed": done.changed, "backup": done.backup, "diff": redact(&done.diff),
            })
        },
        || {
            let mut text = painted(&display_text(&done.diff), context.out.has_colour());
            if let Some(backup) = &done.backup {
                let backup = plain(&backup.display().to_string());
                let _ = writeln!(text, "a backup is kept in {backup}");
            }
            text + said + &plain(&done.settings.display().to_string())
        },
    )
}

impl SettingsSelector {
    /// Returns which settings file of Claude Code lists its servers.
    fn tool_client(&self) -> Result<ToolClient> {
        match self.scope {
            ScopeWord::User => Ok(ToolClient::Claude { in_project: false }),
            ScopeWord::Project => Ok(ToolClient::Claude { in_project: true }),
            ScopeWord::Local => Err(AppError::usage(
                "the servers of a project for you only are kept among the client's own records",
            )
            .hint(
                "use --scope user or --scope project, or `claude mcp add teamster -- teamster mcp`",
            )),
        }
    }

    /// Builds the request for the library.
    fn request<'a>(
        &self,
        context: &'a Context,
        program: &'a str,
        light: bool,
    ) -> InstallRequest<'a> {
        InstallRequest {
            layout: &context.layout,
            scope: match self.scope {
                ScopeWord::User => install::Scope::User,
                ScopeWord::Project => install::Scope::Project,
                ScopeWord::Local => install::Scope::Local,
            },
            program,
            light,
            dry_run: self.dry_run,
            now: SystemClock.now(),
        }
    }
}

/// Reports the change, notes about it, and the result: `changed`, or `unchanged` where there was nothing to do.
fn answer(
    context: &Context,
    request: &InstallRequest<'_>,
    outcome: &InstallOutcome,
    changed: &str,
    unchanged: &str,
) -> Result {
    context.out.answer(
        || object(request, outcome),
        || {
            let mut text = painted(&display_text(&outcome.diff), context.out.has_colour());
            for remark in &outcome.remarks {
                text.push_str(&plain(remark));
                text.push('\n');
            }
            if let Some(backup) = &outcome.backup {
                let verb = if request.dry_run { "would be" } else { "is" };
                let backup = plain(&backup.display().to_string());
                let _ = writeln!(text, "a backup {verb} kept in {backup}");
            }
            for backup in &outcome.kept_backups {
                let backup = plain(&backup.display().to_string());
                let _ = writeln!(text, "a backup with other content stays: {backup}");
            }
            let end = if outcome.diff.is_empty() {
                format!("nothing to do: {unchanged}")
            } else if request.dry_run {
                "nothing was written: this is a dry run".to_owned()
            } else {
                changed.to_owned()
            };
            text + &plain(&end)
        },
    )
}

fn object(request: &InstallRequest<'_>, outcome: &InstallOutcome) -> Value {
    json!({
        "settings": outcome.settings,
        "scope": request.scope.word(),
        "changed": outcome.changed,
        "dryRun": request.dry_run,
        "events": outcome.events,
        "backup": outcome.backup,
        "keptBackups": outcome.kept_backups,
        "link": outcome.real,
        "remarks": outcome.remarks,
        "diff": redact(&outcome.diff),
    })
}

/// Colours added lines green and removed lines red.
fn painted(diff: &str, colour: bool) -> String {
    diff.split_inclusive('\n')
        .map(|line| {
            let (line, end) = line
                .strip_suffix('\n')
                .map_or((line, ""), |line| (line, "\n"));
            let tone = match line.as_bytes().first() {
                Some(b'+') => Tone::Good,
                Some(b'-') => Tone::Bad,
                Some(b'@') => Tone::Faint,
                _ => Tone::Plain,
            };
            tone.paint(line, colour) + end
        })
        .collect()
}

/// Returns the path by which the client will find this binary: the entry on `PATH` that leads to it, which survives
/// an update, else the binary itself.
pub fn this_program() -> Result<String> {
    const NAME: &str = "teamster";
    let failed = |what: String| {
        AppError::new(ErrorKind::Failed, what).hint("reinstall teamster and try again")
    };
    let own = std::env::current_exe()
        .and_then(|path| path.canonicalize())
        .map_err(|error| failed(format!("this binary cannot be found: {error}")))?;
    let on_path = env_vars::get(env_vars::PATH)
        .and_then(|path| teamster_isolate::find_program(NAME, &path))
        .filter(|found| found.canonicalize().is_ok_and(|real| real == own));
    let program = on_path.unwrap_or(own);
    if program.file_name().is_none_or(|name| name != NAME) {
        return Err(AppError::refused(format!(
            "this binary is not called {NAME}: {}",
            program.display()
        ))
        .hint("its hooks would not be known again; call it teamster, or put a link of that name on PATH"));
    }
    program.into_os_string().into_string().map_err(|path| {
        AppError::refused(format!(
            "the path of this binary is not UTF-8: {}",
            path.display()
        ))
        .hint("settings are JSON and cannot hold it; move teamster to a folder with a plain name")
    })
}

/// Undo what `install` did
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster uninstall claude")]
pub struct UninstallArgs {
    #[command(subcommand)]
    client: UninstallCommand,
}

#[derive(Debug, Subcommand)]
enum UninstallCommand {
    Claude(UninstallClaudeArgs),
    /// Remove teamster's tools from the settings of Codex
    #[command(after_help = "\
Examples:
  teamster uninstall codex --mcp --dry-run")]
    Codex(ToolsArgs),
    /// Remove teamster's tools from the settings of Gemini CLI
    #[command(after_help = "\
Examples:
  teamster uninstall gemini --mcp --dry-run")]
    Gemini(ToolsArgs),
}

/// Remove teamster's hooks from the settings of Claude Code
#[derive(Args, Debug)]
#[command(after_help = "\
Every hook whose command is `teamster hook EVENT` is removed, and nothing else: settings that were
not edited since are restored to the byte. The backup is removed if it has nothing that the
settings lack.

Examples:
  teamster uninstall claude --dry-run
  teamster uninstall claude
  teamster uninstall claude --scope local")]
struct UninstallClaudeArgs {
    #[command(flatten)]
    place: SettingsSelector,
    /// Remove the MCP tools instead of the hooks
    #[arg(long)]
    mcp: bool,
}

impl UninstallArgs {
    pub fn run(self, context: &Context) -> Result {
        let command = match self.client {
            UninstallCommand::Claude(command) if command.mcp => {
                let client = command.place.tool_client()?;
                return remove_tools(context, client, command.place.dry_run);
            }
            UninstallCommand::Claude(command) => command,
            UninstallCommand::Codex(tools) => {
                return remove_tools(context, ToolClient::Codex, tools.dry_run);
            }
            UninstallCommand::Gemini(tools) => {
                return remove_tools(context, ToolClient::Gemini, tools.dry_run);
            }
        };
        context.actor.must_be_person("removing hooks")?;
        // Our hooks are recognised by the form of their command, wherever the binary was.
        let request = command.place.request(context, "teamster", false);
        let outcome = install::uninstall(&request)?;
        let place = outcome.settings.display();
        answer(
            context,
            &request,
            &outcome,
            &format!("teamster's hooks are no longer in {place}"),
            &format!("no hook of teamster is in {place}"),
        )
    }
}

/// Takes our tools out of the settings of a client.
fn remove_tools(context: &Context, client: ToolClient, dry_run: bool) -> Result {
    let done = tool_server::uninstall(context, client, dry_run)?;
    let said = if done.diff.is_empty() {
        "nothing to do: no tools of teamster are in "
    } else if dry_run {
        "nothing was written, this is a dry run: "
    } else {
        "teamster's tools are no longer in "
    };
    answer_tools(context, &done, said)
}

//! `teamster install …`

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
use crate::shown::{plain, viewed};
use crate::table::Tone;

/// Make a client call teamster, so that its agents can be seen
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster install claude --dry-run
  teamster install claude
  teamster install codex --mcp --dry-run")]
pub struct Install {
    #[command(subcommand)]
    client: Client,
}

#[derive(Debug, Subcommand)]
enum Client {
    Claude(Claude),
    /// Put our tools into the settings of Codex
    #[command(after_help = "\
The settings keep every byte that is not ours. What they were is kept beside them. Doing it again
changes nothing, and after teamster has moved it puts the new place in.

Examples:
  teamster install codex --mcp --dry-run")]
    Codex(Tools),
    /// Put our tools into the settings of Gemini CLI
    #[command(after_help = "\
The settings keep every byte that is not ours. What they were is kept beside them. Doing it again
changes nothing, and after teamster has moved it puts the new place in.

Examples:
  teamster install gemini --mcp --dry-run")]
    Gemini(Tools),
}

/// Our tools, by `teamster mcp`, for a client of the user's own.
#[derive(Args, Debug)]
pub struct Tools {
    /// Our tools: start runs, see how far they are, talk to workers
    #[arg(long, required = true)]
    mcp: bool,
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// Put our hooks into the settings of Claude Code
#[derive(Args, Debug)]
#[command(after_help = "\
The settings keep every byte that is not ours; our hooks come behind those of others. What the
file was is kept beside it. Doing it again changes nothing, and after teamster has moved it puts
the new place in. In a project, .bkit/, .omc/ and .party/ are added to its .gitignore.
Settings with comments are not edited (exit code 6): the hooks to paste are shown instead.

Examples:
  teamster install claude --dry-run
  teamster install claude
  teamster install claude --scope local --light")]
struct Claude {
    #[command(flatten)]
    place: Place,
    /// Without the hooks of tools, which run twice for each use of `Agent`, `Task*` and `SendMessage`
    #[arg(long)]
    light: bool,
    /// Put our tools in instead of our hooks: start runs, see how far they are, talk to workers
    #[arg(long, conflicts_with = "light")]
    mcp: bool,
}

/// Which settings, and whether to write them.
#[derive(Args, Debug)]
pub struct Place {
    /// Whose settings
    #[arg(long, value_name = "SCOPE", value_enum, default_value_t = Scope::User)]
    scope: Scope,
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Scope {
    /// Yours, for every project
    User,
    /// This project's, shared with everybody who works on it
    Project,
    /// This project's, for you only
    Local,
}

impl Install {
    pub fn run(self, context: &Context) -> Result {
        let command = match self.client {
            Client::Claude(command) if command.mcp => {
                let client = command.place.tool_client()?;
                return install_tools(context, client, command.place.dry_run);
            }
            Client::Claude(command) => command,
            Client::Codex(tools) => {
                return install_tools(context, ToolClient::Codex, tools.dry_run);
            }
            Client::Gemini(tools) => {
                return install_tools(context, ToolClient::Gemini, tools.dry_run);
            }
        };
        context.actor.must_be_person("installing hooks")?;
        let program = this_program()?;
        let request = command.place.request(context, &program, command.light);
        let outcome = install::install(&request)?;
        let said = |outcome: &InstallOutcome| {
            let place = outcome.settings.display();
            match (outcome.changed || request.dry_run, outcome.diff.is_empty()) {
                (_, true) => format!("nothing to do: our hooks are in {place}"),
                (_, false) if request.dry_run => {
                    "nothing was written: this is a dry run".to_owned()
                }
                _ => {
                    format!("our hooks are in {place}; the next session of Claude Code calls them")
                }
            }
        };
        answer(context, &request, &outcome, &said(&outcome))
    }
}

impl Tools {
    /// Whether nothing is written.
    pub const fn is_dry_run(&self) -> bool {
        self.dry_run
    }
}

/// Puts our tools into the settings of a client.
fn install_tools(context: &Context, client: ToolClient, dry_run: bool) -> Result {
    let program = this_program()?;
    let done = tool_server::install(context, client, &program, dry_run, SystemClock.now())?;
    let said = if done.diff.is_empty() {
        "nothing to do: our tools are in "
    } else if dry_run {
        "nothing was written, this is a dry run: "
    } else {
        "the next session of the client has our tools: "
    };
    answer_tools(context, &done, said)
}

/// Says what was done to the servers of a client.
pub fn answer_tools(context: &Context, done: &ServerInstall, said: &str) -> Result {
    context.out.answer(
        || {
            json!({
                "settings": done.settings, "changed": done.changed, "backup": done.backup, "diff": redact(&done.diff),
            })
        },
        || {
            let mut text = painted(&viewed(&done.diff), context.out.has_colour());
            if let Some(backup) = &done.backup {
                let backup = plain(&backup.display().to_string());
                let _ = writeln!(text, "what it was is kept in {backup}");
            }
            text + said + &plain(&done.settings.display().to_string())
        },
    )
}

impl Place {
    /// Which settings of Claude Code name its servers.
    pub fn tool_client(&self) -> Result<ToolClient> {
        match self.scope {
            Scope::User => Ok(ToolClient::Claude { in_project: false }),
            Scope::Project => Ok(ToolClient::Claude { in_project: true }),
            Scope::Local => Err(AppError::usage(
                "the servers of a project for you only are kept among the client's own records",
            )
            .hint(
                "use --scope user or --scope project, or `claude mcp add teamster -- teamster mcp`",
            )),
        }
    }

    /// Whether nothing is written.
    pub const fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// What the library is asked for.
    pub fn request<'a>(
        &self,
        context: &'a Context,
        program: &'a str,
        light: bool,
    ) -> InstallRequest<'a> {
        InstallRequest {
            layout: &context.layout,
            scope: match self.scope {
                Scope::User => install::Scope::User,
                Scope::Project => install::Scope::Project,
                Scope::Local => install::Scope::Local,
            },
            program,
            light,
            dry_run: self.dry_run,
            now: SystemClock.now(),
        }
    }
}

/// Says what was done: the change, what to know about it, and how it ended.
pub fn answer(
    context: &Context,
    request: &InstallRequest<'_>,
    outcome: &InstallOutcome,
    said: &str,
) -> Result {
    context.out.answer(
        || object(request, outcome),
        || {
            let mut text = painted(&viewed(&outcome.diff), context.out.has_colour());
            for remark in &outcome.remarks {
                text.push_str(&plain(remark));
                text.push('\n');
            }
            if let Some(backup) = &outcome.backup {
                let verb = if request.dry_run { "would be" } else { "is" };
                let backup = plain(&backup.display().to_string());
                let _ = writeln!(text, "what it was {verb} kept in {backup}");
            }
            for backup in &outcome.kept_backups {
                let backup = plain(&backup.display().to_string());
                let _ = writeln!(text, "a backup with other content stays: {backup}");
            }
            text + &plain(said)
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

/// Lines that come in green, lines that go in red.
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

/// Where the client will find this binary: the place on `PATH` that leads to it, which an update leaves alone, else
/// the binary itself.
pub fn this_program() -> Result<String> {
    const NAME: &str = "teamster";
    let failed = |what: String| {
        AppError::new(ErrorKind::Failed, what).hint("install teamster anew and try again")
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

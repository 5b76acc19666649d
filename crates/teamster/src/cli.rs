//! The whole command line: parsing, dispatch, and the exit code of a call.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

use clap::error::ErrorKind as ParseErrorKind;
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use teamster_app::{Actor, App, env_vars};
use teamster_types::TeamName;
use teamster_types::redact::redact;

use crate::commands::{
    ask, cancel, config, demo, doctor, flow, gate, generate, hook, install, journal, mcp, merge,
    message, party, plan, plugin, replay, run, shutdown, state_file, status, store, studio, task,
    team, top, trust, worker, worktree, zombies,
};
use crate::context::Context;
use crate::error::{AppError, ErrorKind, Result, report};
use crate::exit_codes;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  teamster demo
  teamster run 3:claude \"fix all type errors\"   # with agents
  teamster task create --subject \"Fix the login form\"
  teamster status";

/// Runs, watches and cleans up teams of coding agents that work on one project.
#[derive(Debug, Parser)]
#[command(name = "teamster", version, after_help = EXAMPLES)]
#[command(after_long_help = format!("{EXAMPLES}\n\n{}\n\n{}", exit_codes::HELP, env_vars::HELP))]
pub struct Cli {
    /// Print output as JSON
    #[arg(long, global = true)]
    json: bool,

    #[arg(
        long,
        global = true,
        value_name = "URL",
        display_order = 900,
        help = "The store to use: postgres://user@host/database (no password), or files"
    )]
    store: Option<String>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Status(status::StatusArgs),
    Top(top::TopArgs),
    Studio(studio::StudioArgs),
    Replay(replay::ReplayArgs),
    Team(team::TeamArgs),
    Task(task::TaskArgs),
    Run(run::RunArgs),
    Demo(demo::DemoArgs),
    Merge(merge::MergeArgs),
    Approve(gate::ApproveArgs),
    Reject(gate::RejectArgs),
    Revise(gate::ReviseArgs),
    Cancel(cancel::CancelArgs),
    Plan(plan::PlanArgs),
    Message(message::MessageArgs),
    Ask(ask::AskArgs),
    Answer(ask::AnswerArgs),
    Worker(worker::WorkerArgs),
    Shutdown(shutdown::ShutdownArgs),
    Worktree(worktree::WorktreeArgs),
    Store(store::StoreArgs),
    Zombies(zombies::ZombiesArgs),
    Journal(journal::JournalArgs),
    Session(party::SessionArgs),
    State(party::StateArgs),
    Ticket(party::TicketArgs),
    Finding(party::FindingArgs),
    Flow(flow::FlowArgs),
    Install(install::InstallArgs),
    Uninstall(install::UninstallArgs),
    Plugin(plugin::PluginArgs),
    Mcp(mcp::McpArgs),
    Hook(hook::HookArgs),
    StateFile(state_file::StateFileArgs),
    Doctor(doctor::DoctorArgs),
    Config(config::ConfigArgs),
    Trust(trust::TrustArgs),
    Completions(generate::CompletionsArgs),
    Man(generate::ManArgs),
}

/// Every command in its group, in the order in which `teamster --help` lists them. clap has no headings for
/// subcommands.
const GROUPS: [(&str, &[&str]); 5] = [
    (
        "Run a team",
        &[
            "run", "demo", "merge", "approve", "reject", "revise", "cancel", "plan", "status",
            "top", "studio", "replay",
        ],
    ),
    (
        "Coordinate",
        &[
            "team", "task", "message", "ask", "answer", "worker", "shutdown", "worktree",
            "zombies", "journal", "store",
        ],
    ),
    (
        "Claude Code",
        &["install", "uninstall", "plugin", "hook", "state-file"],
    ),
    (
        "Sessions",
        &["session", "state", "ticket", "finding", "flow"],
    ),
    (
        "Set up",
        &[
            "doctor",
            "config",
            "trust",
            "mcp",
            "completions",
            "man",
            HELP,
        ],
    ),
];
/// The command that clap adds itself, after the others were built.
const HELP: &str = "help";
const ABOUT_HELP: &str = "Print this message or the help of the given subcommand(s)";

/// Returns the command line with its commands grouped under headings in the help.
fn command() -> clap::Command {
    let command = Cli::command();
    let template = help_template(&command);
    command.help_template(template)
}

fn help_template(command: &clap::Command) -> String {
    let styles = command.get_styles();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let about = |name: &str| match command
        .find_subcommand(name)
        .and_then(clap::Command::get_about)
    {
        Some(about) => about.to_string(),
        None => ABOUT_HELP.to_owned(),
    };
    let names = GROUPS.iter().flat_map(|(_, names)| *names);
    let width = names.map(|name| name.len()).max().unwrap_or(0);
    let mut groups = String::new();
    for (heading, names) in GROUPS {
        let _ = writeln!(groups, "{header}{heading}:{header:#}");
        for name in names {
            let gap = " ".repeat(width - name.len());
            let _ = writeln!(groups, "  {literal}{name}{literal:#}{gap}  {}", about(name));
        }
        groups.push('\n');
    }
    format!(
        "{{before-help}}{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}{header}Options:{header:#}\n\
         {{options}}{{after-help}}"
    )
}

/// The read-only commands: anyone may call them, an agent for its own team.
const SHOWING: [&str; 28] = [
    "completions",
    "config show",
    "doctor",
    "flow show",
    "hook",
    "journal",
    "man",
    "mcp",
    "message list",
    "message tail",
    "plan check",
    "plan show",
    "replay",
    "session status",
    "state check-lock",
    "state status",
    "state-file path",
    "state-file read",
    "status",
    "task graph",
    "task list",
    "task route",
    "task show",
    "team list",
    "team show",
    "ticket list",
    "top",
    "worker list",
];
/// The commands that a worker needs for its work: it calls them for itself and in its own team. The commands check
/// further restrictions themselves. Every command in neither list is for people.
const FOR_WORKERS: [&str; 19] = [
    "ask",
    "finding add",
    "message ack",
    "message broadcast",
    "message read",
    "message send",
    "task claim",
    "task complete",
    "task create",
    "task fail",
    "task import",
    "task release",
    "task renew",
    "task retry",
    "task update",
    "ticket create",
    "ticket update",
    "worker logs",
    "worker show",
];
/// `trust` may show or accept; it checks itself which of the two the caller may do.
const TRUST: &str = "trust";

/// The parsed call, with the names of its subcommands joined by spaces.
struct ParsedCall {
    cli: Cli,
    path: String,
}

fn parse(args: Vec<OsString>) -> std::result::Result<ParsedCall, clap::Error> {
    let matches = command().try_get_matches_from(args)?;
    let mut names = Vec::new();
    let mut below = matches.subcommand();
    while let Some((name, inner)) = below {
        names.push(name);
        below = inner.subcommand();
    }
    let path = names.join(" ");
    let cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command()))?;
    Ok(ParsedCall { cli, path })
}

/// Which team a command acts on.
#[derive(Args, Debug)]
pub struct TeamSelector {
    /// The team [default: `TEAMSTER_TEAM`, else the only team of this project]
    #[arg(long, value_name = "TEAM")]
    pub team: Option<String>,
}

impl TeamSelector {
    /// Returns the name of the selected team.
    pub fn find(&self, context: &Context) -> Result<TeamName> {
        context.team(self.team.as_deref())
    }
}

/// Which team a command acts on, where its name may also stand alone.
#[derive(Args, Debug)]
pub struct TeamArgument {
    /// The team; same as --team
    #[arg(value_name = "TEAM", conflicts_with = "team")]
    name: Option<String>,
    #[command(flatten)]
    selector: TeamSelector,
}

impl TeamArgument {
    /// Returns the team that was named, as a selector.
    pub fn selector(self) -> TeamSelector {
        TeamSelector {
            team: self.name.or(self.selector.team),
        }
    }
}

/// Parses the arguments, runs the command, and returns the exit code.
pub fn run(args: Vec<OsString>) -> ExitCode {
    // The error of a call that cannot be parsed must still come in the requested format.
    let wants_json = args
        .iter()
        .take_while(|word| *word != "--")
        .any(|word| word == "--json");
    let code = match parse(args) {
        Ok(call) => match may_call(&call.path).and_then(|()| dispatch(call.cli)) {
            Ok(()) => exit_codes::DONE,
            Err(error) => report(&error, wants_json),
        },
        Err(error) => report_parse_error(&error, wants_json),
    };
    ExitCode::from(code)
}

/// Refuses commands for people when an agent calls them, even if it hides its identity.
fn may_call(path: &str) -> Result {
    if path == TRUST || SHOWING.contains(&path) {
        return Ok(());
    }
    match Actor::find()? {
        Actor::Worker(_) if FOR_WORKERS.contains(&path) => Ok(()),
        actor => actor.must_be_person(&format!("`teamster {path}`")),
    }
}

fn dispatch(cli: Cli) -> Result {
    let out = Output::new(cli.json);
    if let Some(store) = cli.store {
        App::name_store(store);
    }
    match cli.command {
        Command::Completions(command) => command.run(out),
        Command::Man(command) => command.run(out),
        Command::Hook(command) => {
            command.run();
            Ok(())
        }
        Command::StateFile(command) => command.run(&Context::find(out)?),
        // `plan check` only reads a file, so a broken store or setting must not stop it. The other subcommands find
        // their own context.
        Command::Plan(command) => command.run(out),
        // `doctor` and `config` are for diagnosis, so a broken setting must not stop them.
        Command::Doctor(command) => command.run(out),
        // The demo creates its own folder before it looks for a project.
        Command::Demo(command) => command.run(out),
        Command::Config(command) => command.run(&Context::find(out)?),
        // A run that is resumed at its gate may be rejected next. A run that continues checks the settings itself.
        Command::Run(command) if command.resumes() => command.run(&Context::find_to_stop(out)?),
        Command::Run(command) => command.run(&Context::find_checked(out)?),
        Command::Merge(command) => command.run(&Context::find_checked(out)?),
        Command::Approve(command) => command.run(&Context::find_checked(out)?),
        Command::Reject(command) => command.run(&Context::find_to_stop(out)?),
        Command::Cancel(command) => command.run(&Context::find_to_stop(out)?),
        Command::Revise(command) => command.run(&Context::find_checked(out)?),
        Command::Status(command) => command.run(&Context::find_checked(out)?),
        Command::Top(command) => command.run(&Context::find_checked(out)?),
        Command::Replay(command) => command.run(&Context::find_checked(out)?),
        Command::Studio(command) => command.run(&Context::find_checked(out)?),
        Command::Team(command) if command.deletes() => command.run(&Context::find_to_stop(out)?),
        Command::Team(command) => command.run(&Context::find_checked(out)?),
        Command::Task(command) => command.run(&Context::find_checked(out)?),
        Command::Message(command) => command.run(&Context::find_checked(out)?),
        Command::Ask(command) => command.run(&Context::find(out)?),
        Command::Answer(command) => command.run(&Context::find_checked(out)?),
        Command::Mcp(command) => command.run(),
        Command::Worker(command) if command.stops() => command.run(&Context::find_to_stop(out)?),
        Command::Worker(command) => command.run(&Context::find_checked(out)?),
        Command::Shutdown(command) => command.run(&Context::find_to_stop(out)?),
        Command::Worktree(command) => command.run(&Context::find_checked(out)?),
        Command::Store(command) => command.run(&Context::find_checked(out)?),
        Command::Zombies(command) => command.run(&Context::find_to_stop(out)?),
        Command::Journal(command) => command.run(&Context::find_checked(out)?),
        Command::Session(command) => command.run(&Context::find_checked(out)?),
        Command::State(command) => command.run(&Context::find_checked(out)?),
        Command::Ticket(command) => command.run(&Context::find_checked(out)?),
        Command::Finding(command) => command.run(&Context::find_checked(out)?),
        Command::Flow(command) => command.run(out),
        Command::Install(command) => command.run(&Context::find_checked(out)?),
        Command::Uninstall(command) => command.run(&Context::find_checked(out)?),
        Command::Plugin(command) => command.run(&Context::find_checked(out)?),
        Command::Trust(command) => command.run(&Context::find_checked(out)?),
    }
}

/// Reports what clap returned instead of a command: help and version exit with 0, everything else is wrong usage.
fn report_parse_error(error: &clap::Error, wants_json: bool) -> u8 {
    let is_answer = matches!(
        error.kind(),
        ParseErrorKind::DisplayHelp | ParseErrorKind::DisplayVersion
    );
    let text = error.render().to_string();
    if !is_answer && wants_json {
        let text = redact(&text);
        // The lines before the usage are the message: the first is general, the others name the arguments.
        let lines = text.lines().take_while(|line| !line.starts_with("Usage:"));
        let said: Vec<&str> = lines
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .collect();
        let said = said.join(" ");
        let message = said.strip_prefix("error: ").unwrap_or(&said);
        let error =
            AppError::new(ErrorKind::Usage, message).hint("run it with --help to see its usage");
        return report(&error, true);
    }
    // The message may repeat an argument that is a URL with a password.
    if !is_answer && redact(&text) != text {
        let _ = std::io::stderr().lock().write_all(redact(&text).as_bytes());
        return exit_codes::USAGE;
    }
    match error.print() {
        Ok(()) if is_answer => exit_codes::DONE,
        Err(_) if is_answer => exit_codes::FAILED,
        _ => exit_codes::USAGE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_for_agents_exists_and_is_named_once() {
        let command = Cli::command();
        let all: Vec<&str> = SHOWING
            .into_iter()
            .chain(FOR_WORKERS)
            .chain([TRUST])
            .collect();
        for path in &all {
            let found = path
                .split(' ')
                .try_fold(&command, |above, name| above.find_subcommand(name));
            assert!(
                found.is_some_and(|found| !found.has_subcommands()),
                "{path}"
            );
        }
        let unique: std::collections::BTreeSet<&&str> = all.iter().collect();
        assert_eq!(unique.len(), all.len());
    }

    #[test]
    fn every_command_is_in_one_group_of_the_help() {
        let command = Cli::command();
        let shown = command.get_subcommands().filter(|one| !one.is_hide_set());
        let mut expected: Vec<&str> = shown.map(clap::Command::get_name).chain([HELP]).collect();
        let mut grouped: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, names)| names.iter().copied())
            .collect();
        expected.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, expected);
    }
}

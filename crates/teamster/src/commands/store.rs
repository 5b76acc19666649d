//! Implements `teamster store`: creates a store in a database, shows it, and moves teams between stores.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use teamster_app::files::write_new;
use teamster_app::stores::{self, ChosenStore, MovedTeam, StoreReport};
use teamster_types::{TaskId, TeamName};

use crate::context::Context;
use crate::error::{AppError, ErrorKind, Result};
use crate::input::read_named;
use crate::shown::{display_line, plain_line};
use crate::table::TextTable;

/// The size limit for an export; no team grows to this size.
const EXPORT_LIMIT: usize = 16 * 1024 * 1024 * 1024;
/// The name for the standard output and the standard input.
const STREAM: &str = "-";

/// Set up a database store, inspect it, and copy teams between stores
#[derive(Args, Debug)]
#[command(after_help = "\
The store is given by --store, else by the variable TEAMSTER_STORE, else by `url` or `url_file` in
section [store] of your own settings, else it is the files below ~/.claude. It is written as
postgres://user:password@host:5432/database?sslmode=verify-full, or as the word files. A password
is refused on the command line, where every user of the machine could read it.

Examples:
  teamster store status
  teamster store export --team fix-auth --output fix-auth.jsonl
  TEAMSTER_STORE=postgres://me@127.0.0.1:1/teams teamster store init   # exits 7")]
pub struct StoreArgs {
    #[command(subcommand)]
    command: StoreCommand,
}

#[derive(Debug, Subcommand)]
enum StoreCommand {
    Init(StoreInitArgs),
    Status(StoreStatusArgs),
    Grant(StoreGrantArgs),
    Revoke(StoreRevokeArgs),
    Export(StoreExportArgs),
    Import(StoreImportArgs),
}

impl StoreArgs {
    pub fn run(self, context: &Context) -> Result {
        match self.command {
            StoreCommand::Init(command) => command.run(context),
            StoreCommand::Status(command) => command.run(context),
            StoreCommand::Grant(command) => command.run(context),
            StoreCommand::Revoke(command) => command.run(context),
            StoreCommand::Export(command) => command.run(context),
            StoreCommand::Import(command) => command.run(context),
        }
    }
}

/// Create the store in a database, or upgrade it
#[derive(Args, Debug)]
#[command(after_help = "\
Existing data is kept, and several machines may do this at once. It needs PostgreSQL 13 or newer, a
database, and a role that may create a schema in it.

Examples:
  TEAMSTER_STORE=postgres://me@127.0.0.1:1/teams teamster store init   # exits 7
  teamster store init --store postgres://me@127.0.0.1:1/teams   # exits 7
  teamster store init --store files   # exits 5")]
struct StoreInitArgs {}

impl StoreInitArgs {
    fn run(self, context: &Context) -> Result {
        context.must_be_a_person("making a store")?;
        let store = context.choose_store()?;
        let made = store.init()?;
        let address = store.address();
        context.out.answer(
            || json!({ "store": address, "made": made.made, "schema": made.version }),
            || match made.made.as_slice() {
                [] => format!(
                    "The store {} is up to date: version {}.",
                    plain_line(&address),
                    made.version
                ),
                _ => format!(
                    "Created the store {} with version {}.",
                    plain_line(&address),
                    made.version
                ),
            },
        )
    }
}

/// Allow a database role to work for a team
#[derive(Args, Debug)]
#[command(after_help = "\
Workers of that role can join the team, but can neither host it nor see other teams. Only the role
that owns the store can grant this. Create the role on the server first:
CREATE ROLE builder LOGIN PASSWORD '…'.

Examples:
  teamster store grant builder --team a --store postgres://me@127.0.0.1:1/t   # exits 7
  teamster store grant builder --team fix-auth --store files   # exits 5")]
struct StoreGrantArgs {
    /// The role's name on the server
    role: String,
    /// The team
    #[arg(long)]
    team: String,
}

impl StoreGrantArgs {
    fn run(self, context: &Context) -> Result {
        let team: TeamName = self.team.parse()?;
        context
            .choose_store()?
            .grant_access(context, &self.role, &team)?;
        context.out.answer(
            || json!({ "role": self.role, "team": team }),
            || format!("{} may work for team {team}.", plain_line(&self.role)),
        )
    }
}

/// Revoke a database role's access to a team
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster store revoke builder --team a --store postgres://me@127.0.0.1:1/t   # exits 7
  teamster store revoke builder --team fix-auth --store files   # exits 5")]
struct StoreRevokeArgs {
    /// The role's name on the server
    role: String,
    /// The team
    #[arg(long)]
    team: String,
}

impl StoreRevokeArgs {
    fn run(self, context: &Context) -> Result {
        let team: TeamName = self.team.parse()?;
        let had = context
            .choose_store()?
            .revoke_access(context, &self.role, &team)?;
        context.out.answer(
            || json!({ "role": self.role, "team": team, "revoked": had }),
            || {
                let end = if had {
                    "may no longer"
                } else {
                    "was not allowed to"
                };
                format!("{} {end} work for team {team}.", plain_line(&self.role))
            },
        )
    }
}

/// Show which store is used, whether it works, and its teams
#[derive(Args, Debug)]
#[command(after_help = "\
It exits with 0 if the store can be used, else with the code of the error.

Examples:
  teamster store status
  teamster store status --json
  teamster store status --store postgres://me@127.0.0.1:1/teams   # exits 7")]
struct StoreStatusArgs {}

impl StoreStatusArgs {
    fn run(self, context: &Context) -> Result {
        let store = context.choose_store()?;
        let report = stores::inspect(context, &store);
        context.out.answer(
            || status_json(&store, &report),
            || status_text(&store, &report),
        )?;
        report.problem.map_or(Ok(()), Err)
    }
}

fn status_json(store: &ChosenStore, report: &StoreReport) -> Value {
    let server = report.server.as_ref().map(|server| {
        json!({
            "version": server.server,
            "role": server.role,
            "schema": server.schema,
            "schemaNeeded": server.needed,
            "latencyMs": server.latency.as_secs_f64() * 1000.0,
            "listen": server.wakes,
        })
    });
    let problem = report.problem.as_ref().map(|error| {
        json!({ "kind": error.kind().word(), "message": error.message(), "hint": error.advice() })
    });
    json!({
        "store": store.address(),
        "kind": store.kind(),
        "from": store.source(),
        "reachable": report.is_reachable(),
        "usable": report.problem.is_none(),
        "server": server,
        "teams": report.teams,
        "problem": problem,
    })
}

fn status_text(store: &ChosenStore, report: &StoreReport) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "store    {} ({}, from {})",
        plain_line(&store.address()),
        store.kind(),
        plain_line(store.source())
    );
    if let Some(server) = &report.server {
        let _ = writeln!(text, "server   PostgreSQL {}", plain_line(&server.server));
        let _ = writeln!(text, "role     {}", plain_line(&server.role));
        let _ = writeln!(
            text,
            "schema   version {} of {}",
            server.schema, server.needed
        );
        let _ = writeln!(
            text,
            "answers  in {:.1} ms",
            server.latency.as_secs_f64() * 1000.0
        );
        let wakes = if server.wakes {
            "works: changes are noticed at once"
        } else {
            "does not work (a pooler in transaction mode?): changes are polled every second"
        };
        let _ = writeln!(text, "LISTEN   {wakes}");
    }
    if report.problem.is_some() {
        return text;
    }
    if report.teams.is_empty() {
        text.push_str("teams    none\n");
        return text;
    }
    let mut table = TextTable::new(["TEAM", "MEMBERS", "TASKS", "DONE", "EVENTS", "PROBLEM"]);
    for team in &report.teams {
        table.row([
            plain_line(&team.name).into(),
            team.members.to_string().into(),
            team.progress.total_tasks.to_string().into(),
            team.progress.completed_tasks.to_string().into(),
            team.events.to_string().into(),
            display_line(team.problem.as_deref().unwrap_or_default()).into(),
        ]);
    }
    text.push('\n');
    text.push_str(&table.render(false));
    text
}

/// Export a team to a file for `store import`
#[derive(Args, Debug)]
#[command(after_help = "\
The team itself is not changed. Claimed tasks are unclaimed in the export, and later work on them
is not included: stop the team first with `teamster shutdown`. Heartbeats are not exported.

Examples:
  teamster store export --team fix-auth
  teamster store export --team fix-auth --output fix-auth.jsonl
  teamster store export --team fix-auth --store files --output out.jsonl --json")]
struct StoreExportArgs {
    /// The team
    #[arg(long, value_name = "TEAM")]
    team: String,
    /// The file to create, readable only by you; - is the standard output
    #[arg(long, value_name = "FILE", default_value = STREAM)]
    output: PathBuf,
}

impl StoreExportArgs {
    fn run(self, context: &Context) -> Result {
        let store = context.choose_store()?;
        let team: TeamName = self.team.parse()?;
        let (moved, lines) = stores::export(context, &store, &team)?;
        if !moved.released.is_empty() {
            let ids: Vec<&str> = moved.released.iter().map(TaskId::as_str).collect();
            context.out.remark(&format!(
                "Claimed tasks: {}. They are unclaimed in the export, and their tokens are not valid there.",
                ids.join(", ")
            ));
        }
        if self.output == Path::new(STREAM) {
            let text = String::from_utf8(lines).map_err(|error| {
                AppError::new(
                    ErrorKind::Failed,
                    format!("the export is not text: {error}"),
                )
            })?;
            return context.out.write(&text);
        }
        let path = context.absolute(&self.output);
        write_new(&path, &lines)?;
        context.out.answer(
            || json!({ "exported": moved, "file": path }),
            || moved_text(&moved, "Exported", &format!("to {}", path.display())),
        )
    }
}

/// Import a team from a file that `store export` wrote, completely or not at all
#[derive(Args, Debug)]
#[command(after_help = "\
The store must not have a team of that name.

Examples:
  teamster store import fix-auth.jsonl   # exits 3
  teamster store import - --store files < /dev/null   # exits 1")]
struct StoreImportArgs {
    /// The file; - is the standard input
    file: PathBuf,
}

impl StoreImportArgs {
    fn run(self, context: &Context) -> Result {
        let store = context.choose_store()?;
        let lines = read_named(&self.file, EXPORT_LIMIT)?;
        let moved = stores::import(context, &store, &lines)?;
        let address = store.address();
        context.out.answer(
            || json!({ "imported": moved, "store": address }),
            || moved_text(&moved, "Imported", &format!("into {address}")),
        )
    }
}

fn moved_text(moved: &MovedTeam, what: &str, place: &str) -> String {
    format!(
        "{what} team {} {}: {} tasks, {} messages, {} events.",
        moved.team,
        plain_line(place),
        moved.tasks,
        moved.messages,
        moved.events
    )
}

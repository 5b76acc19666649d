//! Implements `teamster store`: makes a store on a database, looks at it, and takes teams from one store to another.

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
use crate::shown::{line, viewed_line};
use crate::table::TextTable;

/// No team grows to this size; whatever is larger is something else.
const EXPORT_LIMIT: usize = 16 * 1024 * 1024 * 1024;
/// The word for the standard output and the standard input.
const STREAM: &str = "-";

/// Make a store on a database, look at it, and take teams from one store to another
#[derive(Args, Debug)]
#[command(after_help = "\
The store is the one of --store, else of the variable TEAMSTER_STORE, else of `url` or `url_file`
in section [store] of your own settings, else the files below ~/.claude. It is written as
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

/// Make the store in a database, or bring it up to date; any number of machines may do so at once
#[derive(Args, Debug)]
#[command(after_help = "\
What is there is kept. It needs PostgreSQL 13 or newer, a database, and a role that may make a
schema in it.

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
                    line(&address),
                    made.version
                ),
                _ => format!(
                    "Made the store {}: it has version {} now.",
                    line(&address),
                    made.version
                ),
            },
        )
    }
}

/// Let a role of the server work for a team: its workers may join, and neither host it nor see others
#[derive(Args, Debug)]
#[command(after_help = "\
Only the role that owns the store can do so. Make the role on the server first:
CREATE ROLE builder LOGIN PASSWORD '…'.

Examples:
  teamster store grant builder --team a --store postgres://me@127.0.0.1:1/t   # exits 7
  teamster store grant builder --team fix-auth --store files   # exits 5")]
struct StoreGrantArgs {
    /// The role, as the server calls it
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
            .let_work(context, &self.role, &team)?;
        context.out.answer(
            || json!({ "role": self.role, "team": team }),
            || format!("{} may work for team {team}.", line(&self.role)),
        )
    }
}

/// Take from a role that it may work for a team
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster store revoke builder --team a --store postgres://me@127.0.0.1:1/t   # exits 7
  teamster store revoke builder --team fix-auth --store files   # exits 5")]
struct StoreRevokeArgs {
    /// The role, as the server calls it
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
            .let_work_no_more(context, &self.role, &team)?;
        context.out.answer(
            || json!({ "role": self.role, "team": team, "revoked": had }),
            || {
                let end = if had { "may no longer" } else { "could not" };
                format!("{} {end} work for team {team}.", line(&self.role))
            },
        )
    }
}

/// Show which store is meant, whether it can be used, and the teams in it
#[derive(Args, Debug)]
#[command(after_help = "\
It ends with 0 when the store can be used, else as the error says.

Examples:
  teamster store status
  teamster store status --json
  teamster store status --store postgres://me@127.0.0.1:1/teams   # exits 7")]
struct StoreStatusArgs {}

impl StoreStatusArgs {
    fn run(self, context: &Context) -> Result {
        let store = context.choose_store()?;
        let report = stores::look(context, &store);
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
        line(&store.address()),
        store.kind(),
        line(store.source())
    );
    if let Some(server) = &report.server {
        let _ = writeln!(text, "server   PostgreSQL {}", line(&server.server));
        let _ = writeln!(text, "role     {}", line(&server.role));
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
            "does not work (a pooler that hands out connections for a transaction?): changes are looked for every second"
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
            line(&team.name).into(),
            team.members.to_string().into(),
            team.progress.total_tasks.to_string().into(),
            team.progress.completed_tasks.to_string().into(),
            team.events.to_string().into(),
            viewed_line(team.problem.as_deref().unwrap_or_default()).into(),
        ]);
    }
    text.push('\n');
    text.push_str(&table.render(false));
    text
}

/// Take everything of a team out of a store, as a file for `store import`
#[derive(Args, Debug)]
#[command(after_help = "\
The team stays as it is. A task that somebody works on is free again in the export, and what is
done on it here afterwards is not in it: stop the team first, with `teamster shutdown`.
Heartbeats stay behind.

Examples:
  teamster store export --team fix-auth
  teamster store export --team fix-auth --output fix-auth.jsonl
  teamster store export --team fix-auth --store files --output out.jsonl --json")]
struct StoreExportArgs {
    /// The team
    #[arg(long, value_name = "TEAM")]
    team: String,
    /// The new file that only you may read; - is the standard output
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
                "Somebody works on task {}: free again in the export, and no token of here counts there.",
                ids.join(", ")
            ));
        }
        if self.output == Path::new(STREAM) {
            let text = String::from_utf8(lines).map_err(|error| {
                AppError::new(ErrorKind::Failed, format!("the export is no text: {error}"))
            })?;
            return context.out.write(&text);
        }
        let path = context.absolute(&self.output);
        write_new(&path, &lines)?;
        context.out.answer(
            || json!({ "exported": moved, "file": path }),
            || said(&moved, "Exported", &format!("to {}", path.display())),
        )
    }
}

/// Make a team of what `store export` wrote, whole or not at all
#[derive(Args, Debug)]
#[command(after_help = "\
There must be no team of that name in the store.

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
            || said(&moved, "Imported", &format!("into {address}")),
        )
    }
}

fn said(moved: &MovedTeam, what: &str, place: &str) -> String {
    format!(
        "{what} team {} {}: {} tasks, {} messages, {} events.",
        moved.team,
        line(place),
        moved.tasks,
        moved.messages,
        moved.events
    )
}

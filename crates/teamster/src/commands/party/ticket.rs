//! Implements `teamster ticket`: `create`, `list` and `update`.

use clap::{Args, Subcommand};
use serde_json::json;
use teamster_app::runs;
use teamster_party::{NewTicket, TicketStatus};

use super::{now, party};
use crate::context::Context;
use crate::error::Result;
use crate::shown::{display_line, redacted};
use crate::table::TextTable;

/// Create, list and update the tickets of a session
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster ticket create --title \"Test the login form\" --assignee worker-1
  teamster ticket list
  teamster ticket update TICKET-001 --status DONE")]
pub struct TicketArgs {
    #[command(subcommand)]
    command: TicketCommand,
}

#[derive(Debug, Subcommand)]
enum TicketCommand {
    Create(TicketCreateArgs),
    List(TicketListArgs),
    Update(TicketUpdateArgs),
}

/// Create a ticket and print its id
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster ticket create --title \"Test the login form\" --assignee worker-1
  teamster ticket create --title \"Test it\" --description \"Also an empty one\"")]
struct TicketCreateArgs {
    /// The work to do
    #[arg(long)]
    title: String,
    /// Everything the assignee needs to know
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    description: String,
    /// The worker it is assigned to
    #[arg(long, value_name = "WORKER")]
    assignee: Option<String>,
}

/// List tickets
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster ticket list
  teamster ticket list --json")]
struct TicketListArgs {}

/// Change the status of a ticket
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster ticket update TICKET-001 --status IN_PROGRESS")]
struct TicketUpdateArgs {
    /// The ticket
    id: String,
    /// `BLOCKED`, `TODO`, `IN_PROGRESS` or `DONE`
    #[arg(long)]
    status: String,
}

impl TicketArgs {
    pub fn run(self, context: &Context) -> Result {
        match self.command {
            TicketCommand::Create(command) => command.run(context),
            TicketCommand::List(command) => command.run(context),
            TicketCommand::Update(command) => command.run(context),
        }
    }
}

impl TicketCreateArgs {
    fn run(self, context: &Context) -> Result {
        runs::may_change_tickets(context)?;
        let new = NewTicket {
            title: self.title,
            description: self.description,
            assignee: self.assignee,
        };
        let ticket = party(context)?.create_ticket(&new, now())?;
        context.out.answer(
            || redacted(json!({ "ticket": ticket })),
            || ticket.id.clone(),
        )
    }
}

impl TicketListArgs {
    fn run(self, context: &Context) -> Result {
        let tickets = party(context)?.tickets()?;
        context.out.answer(
            || redacted(json!({ "tickets": tickets })),
            || {
                let mut table = TextTable::new(["ID", "STATUS", "ASSIGNEE", "TITLE"]);
                for ticket in &tickets {
                    table.row([
                        display_line(&ticket.id).into(),
                        ticket.status.as_str().into(),
                        display_line(ticket.assignee.as_deref().unwrap_or_default()).into(),
                        display_line(&ticket.title).into(),
                    ]);
                }
                table.render(context.out.has_colour())
            },
        )
    }
}

impl TicketUpdateArgs {
    fn run(self, context: &Context) -> Result {
        runs::may_change_tickets(context)?;
        let status = TicketStatus::of(&self.status)?;
        let ticket = party(context)?.update_ticket(&self.id, status, now())?;
        context.out.answer(
            || redacted(json!({ "ticket": ticket })),
            || format!("{} is {}", ticket.id, ticket.status.as_str()),
        )
    }
}

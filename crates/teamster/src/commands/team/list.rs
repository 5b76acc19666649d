//! `teamster team list`

use clap::Args;
use serde_json::json;
use teamster_view::teams::{self, TeamRow, TeamState};

use crate::context::Context;
use crate::error::Result;
use crate::shown::viewed_line;
use crate::table::{Cell, Table, Tone};

/// Show every team of every project
#[derive(Args, Debug)]
#[command(after_help = "\
A team is `live` when somebody of it is proven alive: a fresh heartbeat, a host that runs, or a
claim whose lease runs. It is `ended` when nobody is and its run has finished or no task is left,
and `stale` otherwise.

Examples:
  teamster team list
  teamster team list --json")]
pub struct List {}

impl List {
    pub fn run(self, context: &Context) -> Result {
        let read = context.read()?;
        let rows: Vec<TeamRow> = read
            .teams()?
            .iter()
            .map(|entry| teams::row(read, entry))
            .collect();
        context.out.answer(
            || json!({ "teams": rows }),
            || {
                if rows.is_empty() {
                    return "there is no team; `teamster team create NAME` makes one".to_owned();
                }
                let mut table = Table::new(["TEAM", "STATE", "KIND", "MEMBERS", "PROJECT"]);
                for row in &rows {
                    table.row(cells(row));
                }
                table.render(context.out.has_colour())
            },
        )
    }
}

fn cells(row: &TeamRow) -> [Cell; 5] {
    let last = match (&row.problem, &row.project) {
        (Some(problem), _) => Cell::new(format!("damaged: {}", viewed_line(problem)), Tone::Bad),
        (None, Some(project)) => viewed_line(project).into(),
        (None, None) => "".into(),
    };
    [
        viewed_line(&row.name).into(),
        Cell::new(row.state.as_str(), tone(row.state)),
        row.kind.map_or("", |kind| kind.as_str()).into(),
        row.members.to_string().into(),
        last,
    ]
}

fn tone(state: TeamState) -> Tone {
    match state {
        TeamState::Live => Tone::Good,
        TeamState::Stale => Tone::Notable,
        TeamState::Ended => Tone::Faint,
    }
}

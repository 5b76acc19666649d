//! `teamster task route`

use clap::Args;
use serde_json::json;
use teamster_types::TaskId;
use teamster_view::routes::{self, Route as Place};
use teamster_view::tasks;

use crate::cli::TeamArg;
use crate::context::Context;
use crate::error::Result;
use crate::shown::viewed_line;
use crate::table::{Cell, Table, Tone};

/// Show which worker a task would suit best
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster task route 3
  teamster task route 3 --explain")]
pub struct Route {
    #[command(flatten)]
    team: TeamArg,
    /// The task
    id: String,
    /// Show every worker's sum
    #[arg(long)]
    explain: bool,
}

impl Route {
    pub fn run(self, context: &Context) -> Result {
        let id: TaskId = self.id.parse()?;
        let team = context.team(self.team.team.as_deref())?;
        let read = context.read()?;
        let config = read.team(&team)?;
        let view = tasks::task(read, &team, &id)?;
        let limits = context.config.limits();
        let places = routes::routes(read, &team, &config, view.task(), &limits)?;
        let best = places.iter().find(|place| place.out.is_none());
        context.out.answer(
            || {
                json!({
                    "task": view,
                    "worker": best.map(|place| &place.worker),
                    "workers": places,
                })
            },
            || {
                let mut text = match best {
                    Some(place) => format!("task {id} suits {} best\n", place.worker),
                    None => format!("task {id} suits nobody in team {team}\n"),
                };
                if self.explain {
                    text.push('\n');
                    text.push_str(&explained(&places, context.out.has_colour()));
                }
                text
            },
        )
    }
}

fn explained(places: &[Place], colour: bool) -> String {
    let mut table = Table::new(["WORKER", "SCORE", "SUM"]);
    for place in places {
        let tone = match place.out {
            Some(_) => Tone::Faint,
            None => Tone::Plain,
        };
        table.row([
            Cell::new(place.worker.as_str(), tone),
            Cell::new(format!("{:.2}", place.score), tone),
            Cell::new(viewed_line(&place.sum), tone),
        ]);
    }
    table.render(colour)
}

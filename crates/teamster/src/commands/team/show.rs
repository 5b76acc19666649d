//! `teamster team show`

use std::fmt::Write as _;

use clap::Args;
use serde_json::json;
use teamster_types::progress::Progress;
use teamster_types::team::TeamConfig;

use crate::context::Context;
use crate::error::Result;
use crate::shown::{say_progress, viewed_line};
use crate::table::Table;

/// Show a team's registry and how far it is
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster team show
  teamster team show fix-auth --json")]
pub struct Show {
    /// The team [default: `TEAMSTER_TEAM`, else the only team of this project]
    #[arg(value_name = "TEAM")]
    name: Option<String>,
}

impl Show {
    pub fn run(self, context: &Context) -> Result {
        let team = context.team(self.name.as_deref())?;
        let read = context.read()?;
        let config = read.team(&team)?;
        let (progress, _) = read.progress(&team)?;
        context.out.answer(
            || json!({ "team": config.as_object(), "progress": progress }),
            || {
                let colour = context.out.has_colour();
                text(team.as_str(), &config, &progress, colour)
            },
        )
    }
}

fn text(name: &str, config: &TeamConfig, progress: &Progress, colour: bool) -> String {
    let mut text = format!("team {name} ({})\n", config.kind().as_str());
    if !config.description().is_empty() {
        let _ = writeln!(text, "{}", viewed_line(config.description()));
    }
    if let Some(project) = config.project() {
        let _ = writeln!(text, "project {}", viewed_line(project));
    }
    let _ = writeln!(text, "{}", say_progress(progress));
    let mut table = Table::new(["WORKER", "PROVIDER", "BACKEND"]);
    for member in config.members() {
        table.row([
            viewed_line(&member.name).into(),
            viewed_line(&member.provider).into(),
            viewed_line(&member.backend).into(),
        ]);
    }
    if !table.is_empty() {
        text.push('\n');
        text.push_str(&table.render(colour));
    }
    text
}

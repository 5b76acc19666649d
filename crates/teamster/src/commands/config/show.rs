//! `teamster config show`

use std::fmt::Write as _;

use clap::Args;
use serde_json::{Value, json};

use crate::context::Context;
use crate::error::Result;
use crate::shown::{line, redacted, viewed_line};
use crate::table::{Cell, Table, Tone};

/// Show every setting, its value and where that comes from
#[derive(Args, Debug)]
#[command(after_help = "\
A variable counts more than the project's .teamster/config.toml, which counts more than the user's
~/.config/teamster/config.toml. In a file, `claim.lease` is written as

  [claim]
  lease = \"120s\"

and a provider of one's own as

  [providers.checks]
  kind = \"command\"
  command = \"make check\"
  capabilities = [\"testing\"]

Examples:
  teamster config show
  TEAMSTER_CLAIM_LEASE=10m teamster config show --json")]
pub struct Show {}

impl Show {
    pub fn run(self, context: &Context) -> Result {
        let config = &context.config;
        context.out.answer(
            || {
                let settings: Vec<Value> = config
                    .rows()
                    .into_iter()
                    .map(|(key, value, source)| {
                        json!({
                            "key": key.name,
                            "value": value,
                            "source": source.word(),
                            "from": source.to_string(),
                            "variable": key.variable(),
                        })
                    })
                    .collect();
                let problems: Vec<Value> = config
                    .problems
                    .iter()
                    .map(|problem| {
                        json!({ "place": problem.place, "error": problem.error, "fatal": problem.fatal })
                    })
                    .collect();
                let providers = config.providers.iter().map(|provider| redacted(provider.json()));
                json!({
                    "settings": settings,
                    "providers": providers.collect::<Vec<_>>(),
                    "problems": problems,
                    "files": [context.layout.project_config, context.layout.user_config],
                })
            },
            || text(context),
        )
    }
}

fn text(context: &Context) -> String {
    let colour = context.out.has_colour();
    let mut table = Table::new(["SETTING", "VALUE", "FROM", "VARIABLE"]);
    for (key, value, source) in context.config.rows() {
        let value = match value {
            Value::String(text) => text,
            other => other.to_string(),
        };
        table.row([
            key.name.into(),
            viewed_line(&value).into(),
            line(&source.to_string()).into(),
            Cell::new(key.variable(), Tone::Faint),
        ]);
    }
    for provider in &context.config.providers {
        table.row([
            format!("providers.{}", line(&provider.name)).into(),
            viewed_line(&provider.words()).into(),
            line(&provider.source.to_string()).into(),
            Cell::new("", Tone::Faint),
        ]);
    }
    let mut text = table.render(colour);
    for problem in &context.config.problems {
        let tone = if problem.fatal {
            Tone::Bad
        } else {
            Tone::Notable
        };
        let _ = write!(
            text,
            "\n{}",
            tone.paint(&line(&problem.to_string()), colour)
        );
    }
    text
}

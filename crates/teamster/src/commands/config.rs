//! Implements `teamster config show`.

use std::fmt::Write as _;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use teamster_app::presets::Presets;

use crate::context::Context;
use crate::error::Result;
use crate::shown::{display_line, plain, plain_line, redacted};
use crate::table::{TableCell, TextTable, Tone};

/// Show settings
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster config show")]
pub struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    Show(ConfigShowArgs),
}

impl ConfigArgs {
    pub fn run(self, context: &Context) -> Result {
        match self.command {
            ConfigCommand::Show(command) => command.run(context),
        }
    }
}

/// Show all settings, their values and sources, and your own team presets
#[derive(Args, Debug)]
#[command(after_help = "\
A variable overrides the project's .teamster/config.toml, which overrides the user's
~/.config/teamster/config.toml. In a file, `claim.lease` is written as

  [claim]
  lease = \"120s\"

and a custom provider as

  [providers.checks]
  kind = \"command\"
  command = \"make check\"
  capabilities = [\"testing\"]

and the agent that plays a role as

  [roles]
  reviewer = \"codex\"

Examples:
  teamster config show
  TEAMSTER_CLAIM_LEASE=10m teamster config show --json")]
pub struct ConfigShowArgs {}

impl ConfigShowArgs {
    pub fn run(self, context: &Context) -> Result {
        let config = &context.config;
        let presets = Presets::load(&context.layout, config)?;
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
                let teams: Vec<Value> = presets
                    .files
                    .iter()
                    .map(|file| {
                        json!({
                            "name": file.preset.name,
                            "description": file.preset.description,
                            "source": file.source(),
                            "from": file.path,
                        })
                    })
                    .collect();
                let providers = config.providers.iter().map(|provider| redacted(provider.json()));
                let roles = config.roles.iter().map(|role| redacted(role.json()));
                json!({
                    "settings": settings,
                    "providers": providers.collect::<Vec<_>>(),
                    "roles": roles.collect::<Vec<_>>(),
                    "teams": teams,
                    "teamProblems": presets.faults,
                    "problems": problems,
                    "files": [context.layout.project_config, context.layout.user_config],
                })
            },
            || text(context, &presets),
        )
    }
}

fn text(context: &Context, presets: &Presets) -> String {
    let colour = context.out.has_colour();
    let mut table = TextTable::new(["SETTING", "VALUE", "FROM", "VARIABLE"]);
    for (key, value, source) in context.config.rows() {
        let value = match value {
            Value::String(text) => text,
            other => other.to_string(),
        };
        table.row([
            key.name.into(),
            display_line(&value).into(),
            plain_line(&source.to_string()).into(),
            TableCell::new(key.variable(), Tone::Faint),
        ]);
    }
    for provider in &context.config.providers {
        table.row([
            format!("providers.{}", plain_line(&provider.name)).into(),
            display_line(&provider.words()).into(),
            plain_line(&provider.source.to_string()).into(),
            TableCell::new("", Tone::Faint),
        ]);
    }
    for role in &context.config.roles {
        table.row([
            format!("roles.{}", plain_line(&role.name)).into(),
            display_line(&role.words()).into(),
            plain_line(&role.source.to_string()).into(),
            TableCell::new("", Tone::Faint),
        ]);
    }
    for file in &presets.files {
        let about = file.preset.description.as_deref().unwrap_or_default();
        table.row([
            format!("teams.{}", file.preset.name).into(),
            display_line(about).into(),
            plain_line(&file.path.display().to_string()).into(),
            TableCell::new("", Tone::Faint),
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
            tone.paint(&plain_line(&problem.to_string()), colour)
        );
    }
    for fault in &presets.faults {
        let _ = write!(text, "\n{}", Tone::Bad.paint(&plain(fault), colour));
    }
    text
}

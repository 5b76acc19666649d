//! Implements `teamster doctor`.

mod folder;
mod programs;
mod store;
mod teams;

use std::fmt::Write as _;

use clap::Args;
use serde::Serialize;
use serde_json::json;
use teamster_agents::detect::InstalledClient;

use crate::context::Context;
use crate::error::{AppError, ErrorKind, Result};
use crate::output::Output;
use crate::shown::{display_line, redacted};
use crate::table::{TableCell, TextTable, Tone};

/// Check that everything teamster needs is installed and working
#[derive(Args, Debug)]
#[command(after_help = "\
Exit code 0: all requirements are met. Exit code 1: a requirement is not met.

Examples:
  teamster doctor
  teamster doctor --json")]
pub struct DoctorArgs {}

/// The result of one check.
#[derive(Clone, Debug, Serialize)]
pub(super) struct DoctorCheck {
    name: &'static str,
    ok: bool,
    /// Whether teamster cannot work without it.
    required: bool,
    detail: String,
    hint: Option<String>,
}

impl DoctorCheck {
    fn fine(name: &'static str, detail: impl Into<String>) -> Self {
        Self {
            name,
            ok: true,
            required: true,
            detail: detail.into(),
            hint: None,
        }
    }

    fn wrong(name: &'static str, detail: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            name,
            ok: false,
            required: true,
            detail: detail.into(),
            hint: Some(hint.into()),
        }
    }

    fn optional(self) -> Self {
        Self {
            required: false,
            ..self
        }
    }

    fn from_error(name: &'static str, error: &AppError) -> Self {
        Self {
            name,
            ok: false,
            required: true,
            detail: error.message().to_owned(),
            hint: error.advice().map(str::to_owned),
        }
    }
}

impl DoctorArgs {
    pub fn run(self, out: Output) -> Result {
        let mut checks = Vec::new();
        match Context::find(out) {
            Ok(context) => {
                checks.push(settings(&context));
                checks.push(DoctorCheck::fine(
                    "trace",
                    teamster_app::trace_log::described(&context.layout),
                ));
                checks.push(store::check(&context));
                checks.extend(folder::checks(&context.layout));
                checks.extend(teams::checks(&context));
            }
            Err(error) => checks.push(DoctorCheck::from_error("home", &error)),
        }
        let (programs, clients) = programs::checks();
        checks.extend(programs);
        out.answer(
            || redacted(json!({ "checks": checks, "clients": clients })),
            || text(&checks, &clients, out.has_colour()),
        )?;
        let failed: Vec<&str> = checks
            .iter()
            .filter(|check| check.required && !check.ok)
            .map(|check| check.name)
            .collect();
        match failed.as_slice() {
            [] => Ok(()),
            some => Err(AppError::new(
                ErrorKind::Failed,
                format!("problems found: {}", some.join(", ")),
            )
            .hint("each line above says what to do")),
        }
    }
}

fn settings(context: &Context) -> DoctorCheck {
    let problems: Vec<String> = context
        .config
        .problems
        .iter()
        .map(ToString::to_string)
        .collect();
    if problems.is_empty() {
        return DoctorCheck::fine("settings", "understood");
    }
    let check = DoctorCheck::wrong(
        "settings",
        problems.join("; "),
        "correct them; `teamster config show` lists all settings",
    );
    match context.config.check() {
        Ok(()) => check.optional(),
        Err(_) => check,
    }
}

fn text(checks: &[DoctorCheck], clients: &[InstalledClient], colour: bool) -> String {
    let mut table = TextTable::new(["CHECK", "", "DETAIL"]);
    for check in checks {
        let (word, tone) = match (check.ok, check.required) {
            (true, _) => ("ok", Tone::Good),
            (false, false) => ("note", Tone::Notable),
            (false, true) => ("wrong", Tone::Bad),
        };
        let mut detail = display_line(&check.detail);
        if let Some(hint) = &check.hint {
            let _ = write!(detail, " — {}", display_line(hint));
        }
        table.row([check.name.into(), TableCell::new(word, tone), detail.into()]);
    }
    let mut text = table.render(colour);
    if !clients.is_empty() {
        let mut table = TextTable::new(["CLIENT", "VERSION", "RUNS", "PATH"]);
        for client in clients {
            table.row([
                client.name.into(),
                display_line(client.version.as_deref().unwrap_or("unknown")).into(),
                runs(client),
                display_line(&client.program.to_string_lossy()).into(),
            ]);
        }
        text.push('\n');
        text.push_str(&table.render(colour));
    }
    text
}

/// Returns whether teamster can run workers with a client.
fn runs(client: &InstalledClient) -> TableCell {
    match (client.driver, client.missing.is_empty()) {
        (false, _) => TableCell::new("not yet", Tone::Notable),
        (true, true) => TableCell::new("yes", Tone::Good),
        (true, false) => TableCell::new("see above", Tone::Notable),
    }
}

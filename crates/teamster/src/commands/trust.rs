//! Implements `teamster trust`.

use clap::Args;
use serde_json::json;
use teamster_app::trust::{self, ProjectDemands, TrustState};

use crate::context::Context;
use crate::error::{AppError, Result};
use crate::shown::plain_line;

/// Allow or revoke commands that come with this project
///
/// The .teamster folder of a project can define providers, roles and teams that run commands, commands for new worktrees and
/// permissions for agents; its other files can contain checks, such as `make test`. None of this takes effect until it was shown
/// to you and you accepted it. You are asked again about every change of the .teamster folder and every new check. Files that
/// these commands call are not examined.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster trust --show
  teamster trust --yes
  teamster trust --revoke --json")]
pub struct TrustArgs {
    /// Show what the project asks for and whether it is accepted, but change nothing
    #[arg(long, conflicts_with_all = ["revoke", "yes"])]
    show: bool,
    /// Revoke what was accepted
    #[arg(long, conflicts_with = "yes")]
    revoke: bool,
    /// Accept it without being asked
    #[arg(long)]
    yes: bool,
}

impl TrustArgs {
    pub fn run(self, context: &Context) -> Result {
        if self.revoke {
            context.must_be_a_person("taking trust back")?;
            let was_there = trust::revoke(&context.layout)?;
            return context.out.answer(
                || json!({ "project": context.layout.project, "revoked": was_there }),
                || {
                    let what = if was_there {
                        "is no longer trusted"
                    } else {
                        "was not trusted"
                    };
                    format!(
                        "{} {what}",
                        plain_line(&context.layout.project.display().to_string())
                    )
                },
            );
        }
        if self.yes {
            context.must_be_a_person("trusting a project")?;
        }
        let mut project = ProjectDemands::read(&context.layout, &context.config)?;
        let is_open = matches!(project.state(), TrustState::New | TrustState::Changed);
        if !self.show && is_open {
            let accepted = if self.yes {
                project.accept(context)?;
                true
            } else if context.can_ask() {
                project.ask(context)?
            } else {
                return Err(AppError::refused("cannot ask without a terminal").hint(
                    "`teamster trust --show` shows what the project asks for, `--yes` accepts it",
                ));
            };
            if !accepted {
                return Err(AppError::refused("nothing was accepted")
                    .hint("commands that come with the project will not run"));
            }
            project = ProjectDemands::read(&context.layout, &context.config)?;
        }
        context.out.answer(
            || {
                json!({
                    "project": context.layout.project,
                    "state": project.state().word(),
                    "asksFor": project.capabilities,
                    "files": project.snapshot.files,
                    "digest": project.snapshot.digest,
                    "acceptedAt": project.accepted.as_ref().map(|accepted| accepted.at),
                })
            },
            || match project.state() {
                TrustState::Nothing => {
                    "the project asks for nothing that needs your trust".to_owned()
                }
                TrustState::Accepted if !self.show => "accepted".to_owned(),
                _ => project.words(),
            },
        )
    }
}

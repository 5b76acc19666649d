//! Assembles the team of a run from the command, the presets, the configuration and this machine.

use teamster_agents::detect;
use teamster_journal::payload::RunSpec;
use teamster_run::cast::{self, Cast, CastOutcome, Casting, Role};
use teamster_run::request::Request;

use super::RunRequest;
use crate::app::App;
use crate::config::AUTO_LEADER as AUTO;
use crate::env_vars;
use crate::error::{AppError, Result};
use crate::presets::Presets;

/// A team and its planner.
pub(super) struct CastTeam {
    pub(super) cast: Cast,
    /// The planner: `engine`, or the provider of an agent.
    pub(super) leader: String,
    /// The model of that agent.
    pub(super) leader_model: Option<String>,
    pub(super) presets: Presets,
}

impl RunRequest {
    /// Returns the team; asks the user if none was named and none fits.
    pub(super) fn cast(&self, app: &App, request: &Request, team: &str) -> Result<CastTeam> {
        let presets = Presets::load(&app.layout, &app.config)?;
        presets.check()?;
        let all = presets.all();
        let roles: Vec<Role> = app
            .config
            .roles
            .iter()
            .map(|role| Role {
                name: role.name.clone(),
                provider: role.provider.clone(),
                model: role.model.clone(),
            })
            .collect();
        let path = env_vars::get(env_vars::PATH).unwrap_or_default();
        let found = detect::found(&path);
        let casting = Casting {
            task: &request.task,
            team,
            crew: request.crew.as_ref(),
            preset: self.preset.as_deref(),
            presets: &all,
            roles: &roles,
            providers: &app.config.providers(&app.layout.project),
            defined: &self.providers,
            found: &found,
        };
        let refused = |error: cast::CastError| {
            AppError::refused(error.to_string())
                .hint("`teamster doctor` shows the agents that are here")
        };
        let cast = match cast::cast(&casting).map_err(refused)? {
            CastOutcome::Ready(cast) => cast,
            CastOutcome::Ask(cast) => self.confirm(app, cast)?,
        };
        // Copies of the same work cannot be split, whatever the settings say.
        let usual = if self.distribution.is_one() {
            app.config.leader.value.as_str()
        } else {
            AUTO
        };
        let leader = match (self.leader.as_deref().unwrap_or(usual), &cast.leader) {
            // The caller that provided the tasks leads the run.
            _ if self.tasks.is_some() => None,
            (AUTO, Some(leader)) => Some(leader.clone()),
            (AUTO, None) if self.is_to_be_split(&cast) => {
                cast::leader_among(&casting, &cast.members).map_err(refused)?
            }
            (RunSpec::ENGINE, _) | (AUTO, None) => None,
            (word, _) => Some(cast::leader(&casting, word).map_err(refused)?),
        };
        let (leader, leader_model) = match leader {
            Some(leader) => (leader.provider, leader.model),
            None => (RunSpec::ENGINE.to_owned(), None),
        };
        Ok(CastTeam {
            cast,
            leader,
            leader_model,
            presets,
        })
    }

    /// Returns whether there is work for a leader to split: there is no plan, and several members could share the work.
    fn is_to_be_split(&self, cast: &Cast) -> bool {
        let working = cast.members.iter().filter(|member| !member.is_reserved());
        self.plan.is_none()
            && self.distribution.is_one()
            && (cast.preset.is_some() || working.count() > 1)
    }

    fn confirm(&self, app: &App, cast: Cast) -> Result<Cast> {
        if self.accept_team {
            return Ok(cast);
        }
        let proposal = format!("{} ({})", cast.agents, cast.how);
        let Some(confirm) = app.confirm else {
            return Err(
                AppError::refused(format!("no team was named; proposed: {proposal}")).hint(
                    "--yes accepts that team; or name one, as in `teamster run 3:executor TASK`",
                ),
            );
        };
        if confirm(&format!("Proposed: {proposal}"), "Run this team? [y/N] ") {
            return Ok(cast);
        }
        Err(AppError::refused("cancelled; nothing was started"))
    }
}

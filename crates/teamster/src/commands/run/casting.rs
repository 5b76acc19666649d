//! Who works: what the command, the presets, the configuration and this machine come to.

use teamster_agents::detect;
use teamster_run::cast::{self, Cast, CastOutcome, Casting, Role};
use teamster_run::request::Request;

use super::Run;
use crate::context::Context;
use crate::env_vars;
use crate::error::{CommandError, Result};
use crate::presets::Presets;
use crate::prompt::says_yes;
use crate::trust;

/// A team, and whoever plans for it.
pub struct Team {
    pub cast: Cast,
    /// `engine`, or the provider of an agent,
    pub leader: String,
    /// and its model.
    pub leader_model: Option<String>,
    pub presets: Presets,
}

impl Run {
    /// The team; asks when nobody has named it and none suits.
    pub(super) fn cast(&self, context: &Context, request: &Request, team: &str) -> Result<Team> {
        let presets = Presets::load(&context.layout, &context.config)?;
        presets.check()?;
        let all = presets.all();
        let roles: Vec<Role> = context
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
            providers: &context.config.providers(&context.layout.project),
            defined: &self.provider,
            found: &found,
        };
        let refused = |error: cast::CastError| {
            CommandError::refused(error.to_string())
                .hint("`teamster doctor` shows the agents that are here")
        };
        let cast = match cast::cast(&casting).map_err(refused)? {
            CastOutcome::Ready(cast) => cast,
            CastOutcome::Ask(cast) => self.confirm(context, cast)?,
        };
        let (leader, leader_model) = match (self.leader.as_deref(), &cast.leader) {
            (Some("engine"), _) | (None, None) => ("engine".to_owned(), None),
            (Some(word), _) => {
                let leader = cast::leader(&casting, word).map_err(refused)?;
                (leader.provider, leader.model)
            }
            (None, Some(leader)) => (leader.provider.clone(), leader.model.clone()),
        };
        Ok(Team {
            cast,
            leader,
            leader_model,
            presets,
        })
    }

    fn confirm(&self, context: &Context, cast: Cast) -> Result<Cast> {
        if self.yes || self.dry_run {
            return Ok(cast);
        }
        let proposal = format!("{}: {}", cast.agents, cast.how);
        if trust::is_terminal(context) && says_yes(&proposal, "Run this team? [y/N] ") {
            return Ok(cast);
        }
        Err(
            CommandError::refused(format!("nobody was asked for; proposed is {proposal}"))
                .hint("--yes accepts that team; or name one, as in `teamster run 3:executor TASK`"),
        )
    }
}

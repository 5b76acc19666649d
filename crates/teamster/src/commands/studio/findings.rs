//! What the run of a team has found out on its way.

use teamster_fs::Dir;
use teamster_party::Party;
use teamster_studio::Refused;
use teamster_studio::api::{Finding, Findings};
use teamster_types::TeamName;

use crate::commands::worker::project;
use crate::context::Context;
use crate::error::CommandError;

/// The findings of a team's session; none when the session of its project is another team's.
pub(super) fn list(context: &Context, team: &TeamName) -> Result<Findings, Refused> {
    let project = project(context, team)?;
    let texts = texts(&project, team)?;
    let findings = texts
        .into_iter()
        .map(|(name, text)| Finding { name, text })
        .collect();
    Ok(Findings { findings })
}

fn texts(
    project: &std::path::Path,
    team: &TeamName,
) -> Result<Vec<(String, String)>, CommandError> {
    let Some(folder) = Dir::open_root(project)? else {
        return Ok(Vec::new());
    };
    let Some(party) = Party::find(&folder)? else {
        return Ok(Vec::new());
    };
    match party.session()? {
        Some(session) if session.team == team.as_str() => Ok(party.finding_texts()?),
        _ => Ok(Vec::new()),
    }
}
